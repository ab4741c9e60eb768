// What flight recorders remembered, from the importer to the tables flight_entry, flight_status and flight_stack.

#include "store/import/imported_run.h"
#include "store/import/input_file.h"
#include "store/text.h"

namespace ddl::store {

namespace {

constexpr uint64_t kMostStackBytes = 64 << 20;

}  // namespace

void ImportedRun::flight(size_t process, const FlightEntry& e) {
  if (!insert_flight_) {
    db_.exec(
        "CREATE TEMP TABLE stage_flight(process, grp, record, seq, p2p_seq, op_id, op, peer, is_message, state, open, retired, created,"
        " started, completed, timeout, input_sizes, output_sizes, input_elements, output_elements, input_types, output_types, stack)");
    insert_flight_.emplace(
        db_,
        "INSERT INTO temp.stage_flight VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  }
  const auto text = [](const std::string& value) {
    return value.empty() ? std::nullopt : std::optional(clean_text(value));
  };
  insert_flight_->row(process, e.group, e.record, e.seq, e.p2p_seq, e.op_id, clean_name(e.op), e.peer, e.is_message,
                      clean_name(e.state), e.is_open, e.retired, e.created_ns, e.started_ns, e.completed_ns,
                      e.timeout_ms, text(e.input_sizes), text(e.output_sizes), text(e.input_elements),
                      text(e.output_elements), text(e.input_types), text(e.output_types), e.stack);
  ++flight_rows_;
}

void ImportedRun::flight_status(size_t process, size_t group, std::optional<int64_t> enqueued,
                                std::optional<int64_t> started, std::optional<int64_t> completed) {
  if (!insert_flight_status_) {
    db_.exec("CREATE TEMP TABLE stage_flight_status(process, grp, enqueued, started, completed)");
    insert_flight_status_.emplace(db_, "INSERT INTO temp.stage_flight_status VALUES (?, ?, ?, ?, ?)");
  }
  insert_flight_status_->row(process, group, enqueued, started, completed);
}

std::optional<int64_t> ImportedRun::flight_stack(const std::string& text, uint64_t& left_out) {
  const auto known = flight_stacks_.find(text);
  if (known != flight_stacks_.end()) return known->second;
  if (flight_stack_bytes_ + text.size() > kMostStackBytes) {
    ++left_out;
    return std::nullopt;
  }
  flight_stack_bytes_ += text.size();
  const auto number = static_cast<int64_t>(flight_stacks_.size() + 1);
  flight_stacks_.emplace(text, number);
  Insert(db_, "INSERT INTO flight_stack VALUES (?, ?)").row(number, clean_text(text));
  return number;
}

void ImportedRun::place_flight() {
  insert_flight_.reset();
  insert_flight_status_.reset();
  db_.exec("CREATE TEMP TABLE flight_group(number INTEGER PRIMARY KEY, comm)");
  {
    Insert insert(db_, "INSERT INTO temp.flight_group VALUES (?, ?)");
    for (size_t i = 0; i < flight_groups_.size(); ++i) insert.row(i, communicator_id(flight_groups_[i]));
  }
  db_.exec("CREATE TEMP TABLE flight_shift(stage INTEGER PRIMARY KEY, shift)");
  {
    Insert insert(db_, "INSERT INTO temp.flight_shift VALUES (?, ?)");
    for (size_t i = 0; i < processes_.size(); ++i) insert.row(i, processes_[i].shift_ns);
  }
  const bool entries =
      db_.execAndGet("SELECT count(*) FROM temp.sqlite_master WHERE name = 'stage_flight'").getInt() != 0;
  if (entries) {
    // CROSS JOIN: entries once, each with what it refers to; SQLite would else read them once for each process.
    db_.exec(
        "INSERT INTO flight_entry SELECT NULL, p.id, f.record, g.comm, f.seq, f.p2p_seq, f.op_id, f.op, f.peer, f.is_message, f.state, f.open,"
        " f.retired, f.created + s.shift, f.started + s.shift, f.completed + s.shift, f.timeout, f.input_sizes, f.output_sizes,"
        " f.input_elements, f.output_elements, f.input_types, f.output_types, f.stack FROM temp.stage_flight f"
        " CROSS JOIN temp.stage_process p ON p.stage = f.process CROSS JOIN temp.flight_group g ON g.number = f.grp"
        " CROSS JOIN temp.flight_shift s ON s.stage = f.process ORDER BY p.id, f.record, f.rowid;"
        "DROP TABLE temp.stage_flight");
  }
  if (db_.execAndGet("SELECT count(*) FROM temp.sqlite_master WHERE name = 'stage_flight_status'").getInt() != 0) {
    db_.exec(
        "INSERT OR REPLACE INTO flight_status SELECT p.id, g.comm, f.enqueued, f.started, f.completed FROM temp.stage_flight_status f"
        " JOIN temp.stage_process p ON p.stage = f.process JOIN temp.flight_group g ON g.number = f.grp;"
        "DROP TABLE temp.stage_flight_status");
  }
  db_.exec("DROP TABLE temp.flight_group; DROP TABLE temp.flight_shift");
}

}  // namespace ddl::store
