// What the recorder sampled of the thread that trains while a background thread communicates (collectors/threads.cpp),
// and what the ranks had ready for each other (interpose/agreement.h): tables thread_sample and agreement.
#include "store/ingest/process_load.h"

#include <optional>
#include <string>

#include "core/names.h"

namespace ddl::store {

namespace {
constexpr uint64_t kMaxThreadNs = uint64_t{1} << 60;  // 36 years
}

void load_training_thread(Statements& db, RecordStream& stream, ProcessTables& tables) {
  Insert insert_sample(db, "INSERT OR IGNORE INTO thread_sample VALUES (?, ?, ?, ?, ?, ?)");
  Insert insert_agreement(db, "INSERT OR IGNORE INTO agreement VALUES (?, ?, ?, ?, ?)");
  const ProcessClock& clock = tables.clock();
  stream.rewind(bit(RecordKind::kThreadSample) | bit(RecordKind::kAgreement));
  while (const Record* r = stream.next()) {
    if (record_kind(r->word) == RecordKind::kThreadSample) {
      const ThreadTimes times = thread_times(*r);
      // damage
      if (times.cpu_ns > kMaxThreadNs || (times.ready_ns != kUnknownTime && times.ready_ns > kMaxThreadNs)) continue;
      const char* sleeps_in = name_of_code(kBlockingCalls, record_op(r->word));
      insert_sample.row(tables.process(), clock.time_ns(r->start_ticks), times.cpu_ns,
                        times.ready_ns == kUnknownTime ? std::nullopt : std::optional(times.ready_ns),
                        clock.span_ns(times.spun_ticks),
                        sleeps_in == nullptr ? std::nullopt : std::optional(std::string(sleeps_in)));
    } else if (const uint32_t comm = tables.comm(r->comm); comm != 0) {
      insert_agreement.row(tables.process(), comm, r->sequence, r->payload >> 32, r->payload & UINT32_MAX);
    }
  }
}

}  // namespace ddl::store
