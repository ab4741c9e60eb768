// A store filled row by row: what ingest would leave, for tests that want to say every number themselves.
//
//   Tables run(4);                                  // 4 ranks on one host, MPI_COMM_WORLD
//   run.step(0, 7, 0, 100_ms, 20_ms);               // rank 0: step 7 from 0 to 100 ms, 20 of them inside MPI
//   run.allreduce({0, 1, 2, 3}, {10_ms, ...}, 30_ms)
//   run.analyze();
//   run.number("SELECT ...")
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/synthetic_run.h"  // literals: 5_us 38_ms 2_s

namespace ddl::test {

constexpr int64_t operator""_MB(unsigned long long n) { return static_cast<int64_t>(n) * 1'000'000; }

/// One MPI call or request of one rank.
struct Row {
  int64_t rank = 0;
  std::string op = "MPI_Allreduce";
  int64_t enter_ns = 0;
  int64_t leave_ns = 0;
  int64_t bytes = 0;
  int64_t comm = 1;  ///< communicator.id; 0: none
  std::optional<int64_t> seq = {};
  std::optional<int64_t> peer = {};
  std::optional<int64_t> step = {};
  bool request = false;
  int64_t thread = 0;
  std::optional<int64_t> tag = {};
};

class Tables {
 public:
  /// `hosts`: ranks are dealt to them in blocks. Process ids are rank + 1.
  explicit Tables(int64_t ranks, int64_t hosts = 1);

  SQLite::Database& db() { return db_; }
  int64_t ranks() const { return ranks_; }

  /// A communicator of these world ranks; returns its id.
  int64_t communicator(const std::string& label, const std::vector<int64_t>& members);
  int64_t intercommunicator(const std::string& label, const std::vector<int64_t>& first_group,
                            const std::vector<int64_t>& second_group);
  int64_t op(const std::string& name);
  /// Adds the event and its call to the profile; returns event.id. Events may be added in any order.
  void add(const Row& row);
  void step(int64_t rank, int64_t number, int64_t begin_ns, int64_t end_ns, int64_t mpi_ns);
  void value(int64_t rank, int64_t number, const std::string& name, double value);
  void open_call(int64_t rank, const std::string& name, int64_t comm, std::optional<int64_t> seq, int64_t start_ns,
                 std::optional<int64_t> step = {});
  /// ended = finalized, aborted, exited, lost.
  void ended(int64_t rank, const std::string& how, int64_t end_ns);
  void meta(const std::string& key, const std::string& text);
  void exec(const std::string& sql) { db_.exec(sql); }

  /// Blocking symmetric collective number `seq` on MPI_COMM_WORLD: rank r enters at enter_ns[r]; all transfer for
  /// `xfer_ns` after the last one.
  void allreduce(int64_t seq, const std::vector<int64_t>& enter_ns, int64_t xfer_ns, int64_t bytes,
                 std::optional<int64_t> step = {});

  /// Renumbers events as ingest does, and runs the analyzer.
  void analyze();

  double number(const std::string& sql);
  int64_t integer(const std::string& sql);
  std::string text(const std::string& sql);
  bool is_null(const std::string& sql);
  std::vector<int64_t> integers(const std::string& sql);
  std::optional<double> metric(const std::string& id);
  std::string why(const std::string& id);
  /// Ids of the findings, most important first.
  std::vector<std::string> findings();

 private:
  void profile(const Row& row, int64_t op_id, bool nonblocking);

  SQLite::Database db_;
  int64_t ranks_;
  int64_t next_event_ = 1;
};

}  // namespace ddl::test
