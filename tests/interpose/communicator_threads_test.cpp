// MPI_THREAD_MULTIPLE: threads make communicators, use them and hand them to another one that frees them, over an MPI
// double that gives handles out again at once. Every call belongs to the communicator that its handle was at that time,
// and each counts its collectives from 1. Meant for ThreadSanitizer as much as for its own assertions.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/interpose/mailbox.h"
#include "tests/interpose/recording.h"

// The mock's side of MPI: handles are addresses, so void* will do.
extern "C" {
int MPI_Init_thread(int*, char***, int, int*);
int MPI_Finalize();
int MPI_Comm_dup(void*, void**);
int MPI_Comm_free(void**);
int MPI_Barrier(void*);
int MPI_Isend(const void*, int, void*, int, int, void*, void**);
int MPI_Wait(void**, void*);
extern char ompi_mpi_comm_world[], ompi_mpi_byte[];
extern int fake_mpi_keeps_handles;
}

namespace ddl {
namespace {

constexpr int kMakers = 3, kRounds = 2000, kAlone = 1000, kSent = 1000, kHandles = 40'000, kLeftOut = 10;
constexpr int kDescribed = 1 << 16;  // more are not

/// Pages that this thread has touched for the first time so far.
long page_faults() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

/// Barriers on the communicator of a round.
int barriers_of(int maker, int round) { return 1 + (maker + round) % 3; }

struct Described : MetaVisitor {
  std::map<uint32_t, CommunicatorMeta> communicators;
  std::map<uint32_t, std::string> operations;
  void on_communicator(const CommunicatorMeta& meta, std::span<const RankRun> /*runs*/) override {
    EXPECT_TRUE(communicators.emplace(meta.index, meta).second) << meta.index;
  }
  void on_operation(const OperationMeta& meta, std::string_view name) override { operations[meta.op] = name; }
};

/// What happened on one communicator.
struct Use {
  std::set<uint32_t> barriers;  ///< their numbers
  int requests = 0, frees = 0;
};

TEST(Threads, EveryCallBelongsToTheCommunicatorThatItsHandleWas) {
  const Recording recording;
  int provided = 0;
  ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, 3, &provided), 0);

  // Who makes many communicators does not get fresh pages for each.
  const long before = page_faults();
  for (int i = 0; i < kAlone; ++i) {
    void* made = nullptr;
    MPI_Comm_dup(ompi_mpi_comm_world, &made);
    MPI_Comm_free(&made);
  }
  EXPECT_LT(page_faults() - before, kAlone);

  // A message that only its communicator tells from the one before, and that has the same handle.
  for (int i = 0; i < kSent; ++i) {
    void *made = nullptr, *request = nullptr;
    MPI_Comm_dup(ompi_mpi_comm_world, &made);
    MPI_Isend("", 0, ompi_mpi_byte, 0, 0, made, &request);
    MPI_Wait(&request, nullptr);
    MPI_Comm_free(&made);
  }

  // More handles than the table has slots for, one at a time.
  fake_mpi_keeps_handles = 1;
  for (int i = 0; i < kHandles; ++i) {
    void* made = nullptr;
    MPI_Comm_dup(ompi_mpi_comm_world, &made);
    MPI_Comm_free(&made);
  }
  fake_mpi_keeps_handles = 0;

  // A communicator of its own to duplicate: two threads may not at the same time enter collectives on one.
  std::vector<void*> parents(kMakers);
  for (void*& parent : parents) MPI_Comm_dup(ompi_mpi_comm_world, &parent);
  Mailbox to_free(8);
  std::atomic<int> making = kMakers;
  std::vector<std::thread> threads;
  for (int maker = 0; maker < kMakers; ++maker) {
    threads.emplace_back([&, maker] {
      for (int round = 0; round < kRounds; ++round) {
        void *made = nullptr, *request = nullptr;
        MPI_Comm_dup(parents[static_cast<size_t>(maker)], &made);
        MPI_Isend("", 0, ompi_mpi_byte, 0, round, made, &request);
        for (int i = 0; i < barriers_of(maker, round); ++i) MPI_Barrier(made);
        MPI_Wait(&request, nullptr);
        to_free.put(made);
      }
      --making;
    });
  }
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        const bool last = making == 0;
        std::vector<void*> communicators = to_free.take(1);
        for (void*& communicator : communicators) MPI_Comm_free(&communicator);
        if (communicators.empty() && last) break;
        if (communicators.empty()) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  // Beyond the last one that can be described each communicator is one loss, however many calls are made on it.
  constexpr int kSoFar = 2 + kAlone + kSent + kHandles + kMakers + kMakers * kRounds;
  for (int i = kSoFar; i < kDescribed + kLeftOut; ++i) {
    void* made = nullptr;
    MPI_Comm_dup(ompi_mpi_comm_world, &made);
    for (int call = 0; i >= kDescribed && call < 100; ++call) MPI_Barrier(made);
    MPI_Comm_free(&made);
  }
  ASSERT_EQ(MPI_Finalize(), 0);

  const SpoolReader reader = recording.spool();
  EXPECT_EQ(reader.header().loss[kLossCommunicators], uint64_t{kLeftOut});
  Described described;
  reader.read_meta(described);
  std::map<uint32_t, Use> uses;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
    std::vector<Record> records;
    reader.read_records(chunk, records);
    for (const Record& record : records) {
      Use& use = uses[record.comm];
      if (record_kind(record.word) == RecordKind::kRequest) ++use.requests;
      if (record_kind(record.word) != RecordKind::kCall) continue;
      const std::string& name = described.operations[record_op(record.word)];
      if (name == "MPI_Barrier") use.barriers.insert(record.sequence);
      if (name == "MPI_Comm_free") ++use.frees;
    }
  }

  std::set<uint64_t> identities;
  std::map<uint32_t, std::map<size_t, int>> rounds;  // by parent: how many of its duplicates saw so many barriers
  int sent = 0;
  for (const auto& [index, communicator] : described.communicators) {
    EXPECT_TRUE(identities.insert(communicator.uid).second)
        << "communicator " << index << " has the identity of another";
    const Use& use = uses[index];
    if (communicator.parent <= 1) {  // a predefined one, a parent, or of one thread
      EXPECT_LE(use.requests, 1) << index;
      sent += use.requests;
      continue;
    }
    EXPECT_EQ(use.requests, 1) << index;
    EXPECT_EQ(use.frees, 1) << index;
    ASSERT_FALSE(use.barriers.empty()) << index;
    EXPECT_EQ(*use.barriers.begin(), 1u) << index;
    EXPECT_EQ(*use.barriers.rbegin(), use.barriers.size()) << index;
    ++rounds[communicator.parent][use.barriers.size()];
  }
  EXPECT_EQ(sent, kSent);
  EXPECT_EQ(described.communicators.size(), size_t{kDescribed});
  std::map<size_t, int> expected, all;
  for (int maker = 0; maker < kMakers; ++maker) {
    for (int round = 0; round < kRounds; ++round) ++expected[static_cast<size_t>(barriers_of(maker, round))];
  }
  EXPECT_EQ(rounds.size(), size_t{kMakers});
  for (const auto& [parent, counts] : rounds) {
    for (const auto& [barriers, times] : counts) all[barriers] += times;
  }
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace ddl
