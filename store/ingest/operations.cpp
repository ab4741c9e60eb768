#include "store/ingest/operations.h"

#include <fmt/format.h>

#include "store/insert.h"

namespace ddl::store {

namespace {

constexpr const char* kClassNames[] = {
    "other",         "lifecycle",    "all_to_all", "barrier", "root_to_all",     "all_to_root",    "scan",
    "neighbor",      "communicator", "send",       "receive", "send_receive",    "probe",          "completion",
    "request_start", "one_sided",    "rma_sync",   "file",    "file_collective", "device_message", "unknown"};
static_assert(std::size(kClassNames) == static_cast<size_t>(OpClass::kUnknown) + 1);

std::string version_of(const Scan& scan) { return std::string(fixed_text(scan.header.library_version)); }

}  // namespace

const char* name_of(OpClass op_class) { return kClassNames[static_cast<size_t>(op_class)]; }

void Operations::learn(const Scan& scan) {
  by_version_[version_of(scan)].insert(scan.operations.begin(), scan.operations.end());
}

uint32_t Operations::id_of(const ScannedOperation& operation) {
  const auto [entry, is_new] = ids_.emplace(operation.name, static_cast<uint32_t>(operations_.size() + 1));
  if (is_new) operations_.push_back({operation.name, operation.op_class, operation.nonblocking});
  return entry->second;
}

std::map<uint32_t, uint32_t> Operations::add(const Scan& scan) {
  std::map<uint32_t, uint32_t> ids;
  for (const auto& [number, operation] : scan.operations) ids[number] = id_of(operation);
  return ids;
}

uint32_t Operations::add_unknown(const Scan& scan, uint32_t number) {
  const auto& known = by_version_[version_of(scan)];
  const auto found = known.find(number);
  return id_of(found != known.end() ? found->second
                                    : ScannedOperation{OpClass::kUnknown, false, fmt::format("unknown#{}", number)});
}

std::vector<uint32_t> Operations::append(const Operations& part) {
  std::vector<uint32_t> ids = {0};
  for (const Operation& operation : part.operations_)
    ids.push_back(id_of({operation.op_class, operation.nonblocking, operation.name}));
  return ids;
}

void Operations::write(SQLite::Database& db) const {
  Insert insert(db, "INSERT INTO op VALUES (?, ?, ?, ?)");
  uint32_t id = 0;
  for (const Operation& operation : operations_)
    insert.row(++id, operation.name, name_of(operation.op_class), operation.nonblocking);
}

}  // namespace ddl::store
