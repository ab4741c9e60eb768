#include "store/ingest/nccl_collectives.h"

#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <set>

#include "store/ingest/process_load.h"
#include "store/ingest/record_stream.h"
#include "store/ingest/timeline.h"
#include "store/insert.h"

namespace ddl::store {

namespace {

constexpr int kRepetitionShift = 32;

__extension__ typedef __int128 Wide;  // ns times bytes

struct PieceOfKernel {
  int64_t start_ns, end_ns;
  std::optional<int64_t> step;
  std::optional<int64_t> node;
};

/// The times that a captured piece of work ran: the k-th run of it is the k-th of each of its nodes.
std::vector<std::vector<PieceOfKernel>> runs_of(const std::vector<PieceOfKernel>& pieces) {
  std::vector<std::vector<PieceOfKernel>> runs;
  std::map<int64_t, size_t> seen;
  for (const PieceOfKernel& piece : pieces) {  // by start
    const size_t run = piece.node ? seen[*piece.node]++ : 0;
    if (runs.size() <= run) runs.resize(run + 1);
    runs[run].push_back(piece);
  }
  return runs;
}

}  // namespace

int64_t nccl_whole_size(std::string_view op, int64_t largest_payload, int64_t ranks) {
  return op == "ncclAllGather" || op == "ncclGather" ? largest_payload * ranks : largest_payload;
}

std::vector<int64_t> nccl_share_ends(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> ends;
  int64_t total = 0;
  for (const int64_t size : sizes) ends.push_back(total += size);
  if (total == 0) {
    for (int64_t& end : ends) end = ++total;
  }
  return ends;
}

NcclCollectives::Calls NcclCollectives::read_calls(RecordStream& stream, const Timeline& timeline,
                                                   ProcessTables& tables, std::map<Key, uint64_t>& groups) {
  struct Details {
    std::string method;
    uint32_t channels;
  };
  Calls calls;
  std::map<Key, Details> details;
  std::map<Key, int64_t> tags;
  stream.rewind(bit(RecordKind::kCall) | bit(RecordKind::kNcclDetails) | bit(RecordKind::kNcclTag) |
                bit(RecordKind::kNcclGroup));
  while (const Record* r = stream.next()) {
    if (record_op(r->word) < kFirstNcclOp || r->comm == kNoComm || r->sequence == kNoSequence) continue;
    const Key key = {tables.comm(r->comm), tables.comm_rank(r->comm).value_or(-1), r->sequence};
    if (record_kind(r->word) == RecordKind::kNcclGroup) {
      groups[key] = r->payload;
    } else if (record_kind(r->word) == RecordKind::kNcclTag) {
      tags[key] = static_cast<int64_t>(r->payload);
    } else if (record_kind(r->word) == RecordKind::kNcclDetails) {
      details[key] = {tables.string(static_cast<uint32_t>(r->payload >> 32)), static_cast<uint32_t>(r->payload & 0xff)};
    } else if (const uint32_t op = tables.op(record_op(r->word)); tables.operation(op).is_collective()) {
      const ProcessContexts::Entry context = tables.context(r->context);
      const auto step = timeline.step_index.at(r->start_ticks);
      Call& call = calls[key];
      call.op = op;
      call.thread = stream.thread();
      call.region = context.region;
      call.site = context.site;
      call.step = step ? std::optional(static_cast<int64_t>(*step)) : std::nullopt;
      call.payload_bytes = static_cast<int64_t>(payload_bytes(r->payload));
      call.root = r->peer >= 0 ? std::optional<int64_t>(r->peer) : std::nullopt;
      call.datatype = payload_datatype(r->payload);
      call.reduction = payload_reduction(r->payload);
    }
  }
  for (auto& [key, detail] : details) {
    if (const auto call = calls.find(key); call != calls.end()) {
      call->second.method = std::move(detail.method);
      call->second.channels = detail.channels;
    }
  }
  for (const auto& [key, tag] : tags) {
    if (const auto call = calls.find(key); call != calls.end()) call->second.tag = tag;
  }
  return calls;
}

void NcclCollectives::add_kernels(SQLite::Database& db, RunTables& run, const ProcessTables& tables, const Calls& calls,
                                  const std::map<Key, uint64_t>& groups) {
  std::map<Key, std::vector<PieceOfKernel>> kernels;
  SQLite::Statement rows(
      db,
      "SELECT comm, coalesce(comm_rank, -1), seq, start_ns, duration_ns, step, graph_node FROM gpu_event"
      " WHERE process = ? AND comm IS NOT NULL AND seq IS NOT NULL AND kind IN (1, 2) ORDER BY start_ns");
  rows.bind(1, tables.process());
  while (rows.executeStep()) {
    const auto maybe = [&](int column) {
      return rows.isColumnNull(column) ? std::nullopt : std::optional(rows.getColumn(column).getInt64());
    };
    kernels[{rows.getColumn(0).getUInt(), rows.getColumn(1).getInt(), rows.getColumn(2).getUInt()}].push_back(
        {rows.getColumn(3).getInt64(), rows.getColumn(3).getInt64() + rows.getColumn(4).getInt64(), maybe(5),
         maybe(6)});
  }
  uint64_t without_call = 0;
  for (const auto& [key, pieces] : kernels) {
    const auto group = groups.find(key);
    const uint64_t count = group == groups.end() ? 1 : group->second;
    std::vector<Call> members;
    for (uint64_t i = 0; i < count && members.size() == i; ++i) {
      const auto call = calls.find(key.plus(static_cast<uint32_t>(i)));
      if (call != calls.end()) members.push_back(call->second);
    }
    if (members.size() != count) {
      without_call += pieces.size();
      continue;
    }
    uint64_t repetition = 0;
    for (const std::vector<PieceOfKernel>& one : runs_of(pieces)) {
      Execution execution{tables.process(), key,   repetition++, one.front().start_ns, 0,
                          one.front().step, false, members};
      for (const PieceOfKernel& piece : one)
        execution.duration_ns = std::max(execution.duration_ns, piece.end_ns - execution.start_ns);
      executions_.push_back(std::move(execution));
    }
  }
  run.losses.add(tables.place(), "nccl_kernels", without_call,
                 "kernels of NCCL whose calls were not recorded: they are not rows of v_collective");
}

void NcclCollectives::add_timers(SQLite::Database& db, const ProcessTables& tables, const Calls& calls) {
  std::set<Key> known;
  for (const Execution& e : executions_) {
    for (size_t i = 0; e.process == tables.process() && i < e.calls.size(); ++i)
      known.insert(e.first.plus(static_cast<uint32_t>(i)));
  }
  std::map<Key, uint64_t> repetitions;
  SQLite::Statement rows(
      db,
      "SELECT g.comm, coalesce(g.comm_rank, -1), g.seq, g.start_ns, g.duration_ns, g.step, f.initial_sync_ns, f.final_sync_ns"
      " FROM gpu_event g LEFT JOIN nccl_phase f ON f.gpu_event = g.id"
      " WHERE g.process = ? AND g.comm IS NOT NULL AND g.seq IS NOT NULL AND g.kind = 7 ORDER BY g.start_ns");
  rows.bind(1, tables.process());
  while (rows.executeStep()) {
    const Key key = {rows.getColumn(0).getUInt(), rows.getColumn(1).getInt(), rows.getColumn(2).getUInt()};
    const auto call = calls.find(key);
    if (call == calls.end() || known.contains(key)) continue;
    const uint64_t repetition = repetitions[key]++;
    // The device's timer is tied to ours only as well as NCCL's proxy thread was quick: the step is that of the call.
    const auto step = repetition == 0        ? call->second.step
                      : rows.isColumnNull(5) ? std::nullopt
                                             : std::optional(rows.getColumn(5).getInt64());
    executions_.push_back({tables.process(),
                           key,
                           repetition,
                           rows.getColumn(3).getInt64(),
                           rows.getColumn(4).getInt64(),
                           step,
                           true,
                           {call->second}});
    if (rows.isColumnNull(6)) continue;
    executions_.back().initial_sync_ns = std::min(rows.getColumn(6).getInt64(), rows.getColumn(4).getInt64());
    executions_.back().final_sync_ns = rows.getColumn(7).getInt64();
  }
}

void NcclCollectives::read(SQLite::Database& db, RunTables& run, RecordStream& stream, const Timeline& timeline,
                           ProcessTables& tables) {
  if (!timeline.has_nccl_calls) return;  // a pass over all calls
  std::map<Key, uint64_t> groups;
  Calls calls = read_calls(stream, timeline, tables, groups);
  if (calls.empty()) return;
  for (const auto& [key, call] : calls) {
    int64_t& largest = largest_payload_[{key.comm, key.number}];
    largest = std::max(largest, call.payload_bytes);
  }
  const size_t known = executions_.size();
  add_kernels(db, run, tables, calls, groups);
  add_timers(db, tables, calls);
  for (size_t i = known; i < executions_.size(); ++i) {
    for (uint32_t k = 0; k < executions_[i].calls.size(); ++k) calls.erase(executions_[i].first.plus(k));
  }
  // One rank alone has nothing to exchange: NCCL may give the device nothing to do.
  std::erase_if(calls, [&](const auto& call) { return run.communicators[call.first.comm].size <= 1; });
  run.losses.add(
      tables.place(), "nccl_untimed", calls.size(),
      "collectives of NCCL that were called and that neither CUPTI nor NCCL's profiler timed: they are not rows of v_collective");
}

void NcclCollectives::append(NcclCollectives part, const std::vector<uint32_t>& ops,
                             const std::vector<uint32_t>& regions, const std::vector<uint32_t>& sites) {
  for (Execution& execution : part.executions_) {
    for (Call& call : execution.calls) {
      call.op = ops.at(call.op);
      call.region = regions.at(call.region);
      call.site = sites.at(call.site);
    }
    executions_.push_back(std::move(execution));
  }
  for (const auto& [key, payload] : part.largest_payload_) {
    int64_t& largest = largest_payload_[key];
    largest = std::max(largest, payload);
  }
}

uint64_t NcclCollectives::write(SQLite::Database& db, const RunTables& run) const {
  if (executions_.empty()) return 0;
  Insert insert(
      db,
      "INSERT INTO event(process, thread, kind, op, comm, seq, region, site, step, start_ns, duration_ns, bytes, peer, datatype, reduction)"
      " VALUES (?, ?, 4, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert insert_nccl(
      db, "INSERT INTO nccl_collective VALUES (last_insert_rowid(), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const auto unless_zero = [](int64_t value) { return value != 0 ? std::optional(value) : std::nullopt; };
  uint64_t rows = 0;
  for (const Execution& e : executions_) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < e.calls.size(); ++i) {
      const auto largest = largest_payload_.find({e.first.comm, e.first.number + static_cast<uint32_t>(i)});
      sizes.push_back(
          nccl_whole_size(run.operations[e.calls[i].op].name, largest->second, run.communicators[e.first.comm].size));
    }
    const std::vector<int64_t> ends = nccl_share_ends(sizes);
    const int64_t total = ends.back();
    const auto at = [&](int64_t share) { return static_cast<int64_t>(Wide{e.duration_ns} * share / total); };
    for (size_t i = 0; i < e.calls.size(); ++i) {
      const Call& c = e.calls[i];
      const int64_t begin = i == 0 ? 0 : ends[i - 1];
      const int64_t number =
          static_cast<int64_t>(e.repetition << kRepetitionShift) + e.first.number + static_cast<int64_t>(i);
      insert.row(e.process, c.thread, c.op, e.first.comm, number, c.region, unless_zero(c.site), e.step,
                 e.start_ns + at(begin), at(ends[i]) - at(begin), c.payload_bytes, c.root, unless_zero(c.datatype),
                 unless_zero(c.reduction));
      const size_t space = c.method.find(' ');
      const auto part = [&](std::string text) {
        return c.method.empty() || text.empty() || text == "?" ? std::nullopt : std::optional(std::move(text));
      };
      insert_nccl.row(e.timed_by_nccl ? "profiler" : "kernel", part(c.method.substr(0, space)),
                      part(space == std::string::npos ? std::string() : c.method.substr(space + 1)),
                      unless_zero(c.channels), static_cast<int64_t>(e.calls.size()), e.start_ns, e.duration_ns, begin,
                      ends[i], total, e.first.comm_rank >= 0 ? std::optional(e.first.comm_rank) : std::nullopt,
                      e.initial_sync_ns, e.final_sync_ns, c.tag);
      ++rows;
    }
  }
  return rows;
}

}  // namespace ddl::store
