#include "store/ingest/losses.h"

#include <fmt/format.h>

#include <algorithm>
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
  if (header.flags & kDiskFull) add(place, "disk_full", 1, "the disk was full or a limit was reached: recording of events stopped early");
}

void Losses::add_skips(const Place& place, const std::string& spool, const std::vector<Skip>& skips) {
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> reasons;
  for (const Skip& skip : skips) {
    bytes += std::min(skip.bytes, UINT64_MAX - bytes);
    ++reasons[skip.reason];
  }
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
