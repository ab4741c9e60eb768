// Requests of one thread, which take the short way (core/repeated_call.h), in a process whose MPI is a double: what was
// posted and how it ended is what the records say, of every single one.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/interpose/recording.h"

// The mock's side of MPI: handles are addresses, so void* will do.
extern "C" {
struct FakeStatus {
  int source, tag, error, cancelled;
  size_t bytes;
};
int MPI_Init_thread(int*, char***, int, int*);
int MPI_Finalize();
int MPI_Comm_dup(void*, void**);
int MPI_Isend(const void*, int, void*, int, int, void*, void**);
int MPI_Irecv(void*, int, void*, int, int, void*, void**);
int MPI_Wait(void**, FakeStatus*);
int MPI_Waitall(int, void**, FakeStatus*);
int MPI_Testany(int, void**, int*, int*, FakeStatus*);
extern char ompi_mpi_comm_world[], ompi_mpi_byte[], ompi_request_null[];
extern int fake_mpi_sends_at_once, fake_mpi_cancels_receives, fake_mpi_polls_until_done;
}

namespace ddl {
namespace {

constexpr int kRounds = 5'000, kProcNull = -2, kAnySource = -1, kPolls = 2'000;

/// Pages that this thread has touched for the first time so far.
long page_faults() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

struct Operation {
  bool send;
  size_t communicator;
  int peer;  ///< as it was in the end
  int64_t bytes;
  bool operator==(const Operation&) const = default;
};

struct Described : MetaVisitor {
  std::map<uint32_t, std::string> operations;
  std::map<uint32_t, uint32_t> parents;  ///< by communicator
  void on_operation(const OperationMeta& meta, std::string_view name) override { operations[meta.op] = name; }
  void on_communicator(const CommunicatorMeta& meta, std::span<const RankRun> /*runs*/) override {
    parents[meta.index] = meta.parent;
  }
};

TEST(Requests, AreWhatWasPostedAndWhatHasCome) {
  const Recording recording;
  int provided = 0;
  ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, 0, &provided), 0);
  std::array<void*, 2> communicators = {ompi_mpi_comm_world, nullptr};
  MPI_Comm_dup(ompi_mpi_comm_world, &communicators[1]);

  std::map<int, Operation> expected;  // by tag
  std::mt19937 random(1);
  int tag = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::array<void*, 4> requests;
    requests.fill(ompi_request_null);
    fake_mpi_cancels_receives = random() % 16 == 0;
    for (void*& request : requests) {
      static char buffer[4096];
      const size_t which = random() % 2;
      const int bytes = random() % 4 == 0 ? static_cast<int>(random() % 4096) : 8;  // more than a thread has call slots
      const int peer = static_cast<int>(random() % 3);
      ++tag;
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          fake_mpi_sends_at_once = random() % 2;
          MPI_Isend(buffer, bytes, ompi_mpi_byte, peer, tag, communicators[which], &request);
          expected[tag] = {true, which, peer, bytes};
          break;
        case 3:
        case 4:
        case 5: {
          const bool any = random() % 2;
          MPI_Irecv(buffer, bytes, ompi_mpi_byte, any ? kAnySource : peer, tag, communicators[which], &request);
          expected[tag] = {false, which, any ? tag % 5 : peer, bytes};
          if (fake_mpi_cancels_receives) expected[tag].peer = kProcNull, expected[tag].bytes = 0;
          break;
        }
        case 6:
          MPI_Irecv(buffer, bytes, ompi_mpi_byte, kProcNull, tag, communicators[which], &request);
          expected[tag] = {false, which, kProcNull, 0};
          break;
        default:;  // none
      }
    }
    std::array<FakeStatus, 4> statuses;
    if (round % 3 == 0) {
      for (void*& request : requests) MPI_Wait(&request, round % 2 == 0 ? nullptr : statuses.data());
    } else {
      MPI_Waitall(static_cast<int>(requests.size()), requests.data(), round % 2 == 0 ? nullptr : statuses.data());
    }
    for (void* request : requests) ASSERT_EQ(request, ompi_request_null);
  }

  // A loop that polls for more than the stack has room for does not get fresh pages each time.
  std::array<void*, 40> many;
  fake_mpi_cancels_receives = 0;
  fake_mpi_polls_until_done = 2 * kPolls;
  for (void*& request : many) {
    static char buffer[8];
    ++tag;
    MPI_Irecv(buffer, 8, ompi_mpi_byte, 1, tag, communicators[0], &request);
    expected[tag] = {false, 0, 1, 8};
  }
  const long before = page_faults();
  for (int i = 0; i < kPolls; ++i) {
    int which = 0, found = 0;
    FakeStatus status;
    MPI_Testany(static_cast<int>(many.size()), many.data(), &which, &found, &status);
    ASSERT_EQ(found, 0);
  }
  EXPECT_LT(page_faults() - before, kPolls / 2);
  MPI_Waitall(static_cast<int>(many.size()), many.data(), nullptr);
  ASSERT_EQ(MPI_Finalize(), 0);

  const SpoolReader reader = recording.spool();
  EXPECT_EQ(reader.header().loss[kLossRequests], 0U);
  Described described;
  reader.read_meta(described);
  std::map<int, Record> posts;
  std::map<int, Operation> found;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
    std::vector<Record> records;
    reader.read_records(chunk, records);
    for (const Record& record : records) {
      const std::string& name = described.operations[record_op(record.word)];
      const int of = static_cast<int>(record.sequence);
      if (name != "MPI_Isend" && name != "MPI_Irecv") continue;
      if (record_kind(record.word) == RecordKind::kCall) {
        EXPECT_TRUE(posts.emplace(of, record).second) << of;
        continue;
      }
      ASSERT_EQ(record_kind(record.word), RecordKind::kRequest);
      ASSERT_TRUE(posts.contains(of)) << of;
      const Record& post = posts.at(of);
      EXPECT_EQ(record.start_ticks, post.start_ticks) << of;
      EXPECT_GE(record_duration_ticks(record.word), record_duration_ticks(post.word)) << of;
      EXPECT_EQ(record.comm, post.comm) << of;
      EXPECT_EQ(record.context, post.context) << of;
      const Operation is = {name == "MPI_Isend", described.parents.at(record.comm) == 0 ? size_t{0} : size_t{1},
                            record.peer, static_cast<int64_t>(payload_bytes(record.payload))};
      EXPECT_TRUE(found.emplace(of, is).second) << of;
      if (is.send) {
        EXPECT_EQ(post.peer, is.peer) << of;
        EXPECT_EQ(post.payload, record.payload) << of;
      }
    }
  }
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [of, operation] : expected) {
    EXPECT_EQ(found.at(of), operation) << "tag " << of << ": " << found.at(of).send << found.at(of).communicator
                                       << ", peer " << found.at(of).peer << ", " << found.at(of).bytes << " bytes";
  }
}

}  // namespace
}  // namespace ddl
