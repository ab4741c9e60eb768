#include "store/ingest/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "store/insert.h"

namespace ddl::store {

namespace {

struct Counter {
  const char* kind;
  const char* note;
};
constexpr Counter kCounters[] = {
#define DDL_COUNTER(id, name, note) {name, note},
    DDL_LOSS_KINDS(DDL_COUNTER)
#undef DDL_COUNTER
};
static_assert(std::size(kCounters) == kLossKindCount && kLossKindCount <= kLossSlots);

std::string why_not(int error) {
  switch (error) {
    case ENOSPC:
      return "the disk was full";
    case EDQUOT:
      return "the disk quota was used up";
    case EFBIG:
      return "the limit on file sizes was reached (ulimit -f)";
    case EMFILE:
    case ENFILE:
      return "no file descriptor was free (ulimit -n)";
    case ENOMEM:
      return "no memory or address range was left (ulimit -v)";
    case ENOENT:
    case ENOTDIR:
    case ESTALE:
      return "its file or directory was removed, moved or replaced while the job ran";
    case EACCES:
    case EPERM:
      return "it was not allowed to open its file again (did the process change its user?)";
    case EROFS:
      return "the file system became read-only";
    default:
      return error == 0 ? "the reason is not known" : std::strerror(error);
  }
}

}  // namespace

void Losses::add(const Place& place, const std::string& kind, uint64_t count, const std::string& note) {
  if (count > 0) rows_.emplace_back(place.world, place.rank, kind, std::min<uint64_t>(count, INT64_MAX), note);
}

void Losses::add_counters(const Place& place, const FileHeader& header) {
  for (uint32_t i = 0; i < kLossSlots; ++i) {
    if (i < kLossKindCount) {
      add(place, kCounters[i].kind, header.loss[i], kCounters[i].note);
    } else {
      add(place, fmt::format("loss_{}", i), header.loss[i], "a counter that this program does not know");
    }
  }
  if (header.flags & kCannotGrow) {
    add(place, "cannot_grow", 1,
        fmt::format("failure to grow the spool, and events were left out: {}", why_not(header.grow_errno)));
  }
}

void Losses::add_skips(const Place& place, const std::string& spool, const std::vector<Skip>& skips) {
  uint64_t bytes = 0, early_bytes = 0;
  std::map<std::string, uint64_t> reasons;
  for (const Skip& skip : skips) {
    bytes += std::min(skip.bytes, UINT64_MAX - bytes);
    if (skip.reason == kEarlyRecords) early_bytes += skip.bytes;
    ++reasons[skip.reason];
  }
  add(place, kClockBack, early_bytes / sizeof(Record),
      "records from before their process began, and not used: its clock was set back");
  if (bytes == 0) return;
  std::string why;
  for (const auto& [reason, times] : reasons)
    why += fmt::format("{}{}{}", why.empty() ? "" : ", ", reason, times > 1 ? fmt::format(" ({} times)", times) : "");
  add(place, "torn_spool", bytes, fmt::format("bytes of {} that could not be read: {}", spool, why));
}

uint64_t Losses::write(SQLite::Database& db) const {
  std::vector<Row> rows = rows_;
  std::stable_sort(rows.begin(), rows.end());
  Insert insert(db, "INSERT INTO loss VALUES (?, ?, ?, ?, ?)");
  for (const auto& [world, rank, kind, count, note] : rows) insert.row(world, rank, kind, count, note);
  return rows.size();
}

}  // namespace ddl::store
