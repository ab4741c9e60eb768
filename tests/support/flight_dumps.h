// Dumps of a flight recorder with a known truth: a small job's operations, rank by rank, as PyTorch would have
// them, as pickles or JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddl::test {

enum class FlightState { kScheduled, kStarted, kCompleted };

/// What a rank enqueues. Numbers are given as PyTorch counts them.
struct FlightOp {
  size_t group = 0;
  std::string name = "all_reduce";  ///< or "send", "recv" with peer, a place in the group
  std::optional<int64_t> peer;
  FlightState state = FlightState::kCompleted;
  std::vector<int64_t> sizes = {1024};
  std::string type = "Float";
  std::string stack;                    ///< function; empty: no frames
  int batch = 0;                        ///< operations next to each other with the same number other than 0 are batched
  bool retired = false;                 ///< completed ones are, but for the newest
  std::vector<int64_t> output_sizes{};  ///< empty: as sizes
};

struct FlightGroup {
  std::string name, description;
  std::vector<int64_t> ranks;
};

struct FlightJob {
  std::string version = "2.9";
  std::vector<FlightGroup> groups;
  std::vector<std::vector<FlightOp>> ranks;  ///< by rank: all that it ever enqueued
  size_t buffer = 2000;                      ///< entries that a recorder keeps
  bool only_active = false;                  ///< completed operations are left out
  bool status = true;                        ///< pg_status is there
  int64_t start_ns = 1'700'000'000'000'000'000;
  int64_t spacing_ns = 1'000'000;  ///< between operations of a rank

  FlightJob(int64_t world, std::vector<FlightGroup> of) : groups(std::move(of)), ranks(static_cast<size_t>(world)) {}
  /// Every member of `group` enqueues it, in the order of their calls.
  void all(size_t group, FlightOp op = {}, const std::vector<int64_t>& but = {});
  void add(int64_t rank, FlightOp op) { ranks[static_cast<size_t>(rank)].push_back(std::move(op)); }
};

/// Plain data, to be written as either.
struct FlightValue {
  enum class Kind { kNone, kBool, kInteger, kText, kList, kTuple, kDict } kind = Kind::kNone;
  int64_t integer = 0;
  std::string text;
  std::vector<FlightValue> members;  ///< of a dictionary keys and values in turn

  FlightValue() = default;
  FlightValue(int64_t value) : kind(Kind::kInteger), integer(value) {}
  FlightValue(const char* value) : kind(Kind::kText), text(value) {}
  FlightValue(std::string value) : kind(Kind::kText), text(std::move(value)) {}
  static FlightValue boolean(bool value);
  static FlightValue list(std::vector<FlightValue> members);
  static FlightValue tuple(std::vector<FlightValue> members);
  static FlightValue dict(std::vector<FlightValue> members);
};

FlightValue flight_dump(const FlightJob& job, int64_t rank);
/// `protocol`: 2 to 5.
std::string as_pickle(const FlightValue& value, int protocol);
std::string as_json(const FlightValue& value);

/// Name and contents of a file of each rank, without those of `absent`. `protocol` 0: JSON.
std::vector<std::pair<std::string, std::string>> flight_files(const FlightJob& job, int protocol = 2,
                                                              const std::vector<int64_t>& absent = {});

}  // namespace ddl::test
