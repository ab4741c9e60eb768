// MPI_THREAD_MULTIPLE: any thread posts, any other completes, and every request is one record, over an MPI double that
// gives handles out again at once. Known truth: what the threads themselves counted. Meant for ThreadSanitizer as much
// as for its own assertions.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/interpose/mailbox.h"
#include "tests/interpose/recording.h"

// The mock's side of MPI: handles are addresses, so void* will do.
extern "C" {
int MPI_Init_thread(int*, char***, int, int*);
int MPI_Finalize();
int MPI_Isend(const void*, int, void*, int, int, void*, void**);
int MPI_Irecv(void*, int, void*, int, int, void*, void**);
int MPI_Recv_init(void*, int, void*, int, int, void*, void**);
int MPI_Start(void**);
int MPI_Request_free(void**);
int MPI_Wait(void**, void*);
int MPI_Waitall(int, void**, void*);
int MPI_Waitany(int, void**, int*, void*);
int MPI_Test(void**, int*, void*);
int MPI_Testany(int, void**, int*, int*, void*);
int MPI_Testsome(int, void**, int*, int*, void*);
extern char ompi_mpi_comm_world[], ompi_mpi_byte[];
extern char ompi_request_null[];
}

namespace ddl {
namespace {

constexpr int kPosters = 3, kCompleters = 4, kRounds = 4000;
void* const kIgnore = nullptr;  // MPI_STATUS_IGNORE of Open MPI

void complete_all(std::vector<void*> requests, int way) {
  const int n = static_cast<int>(requests.size());
  int left = n, index, flag = 0;
  std::array<int, 8> indices;
  switch (way) {
    case 0:
      for (void*& request : requests) MPI_Wait(&request, kIgnore);
      break;
    case 1:
      MPI_Waitall(n, requests.data(), kIgnore);
      break;
    case 2:
      for (; left > 0; --left) MPI_Waitany(n, requests.data(), &index, kIgnore);
      break;
    case 3:
      for (void*& request : requests) {
        for (flag = 0; !flag;) MPI_Test(&request, &flag, kIgnore);
      }
      break;
    case 4:
      while (left > 0) {
        MPI_Testany(n, requests.data(), &index, &flag, kIgnore);
        left -= flag;
      }
      break;
    default:
      while (left > 0) {
        int done = 0;
        MPI_Testsome(n, requests.data(), &done, indices.data(), kIgnore);
        left -= done;
      }
  }
  for (void* request : requests) EXPECT_EQ(request, ompi_request_null);
}

TEST(Threads, EveryRequestIsOneRecordWhoeverPostsAndCompletesIt) {
  const Recording recording;
  int provided = 0;
  ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, 3, &provided), 0);

  Mailbox mailbox(16);
  std::atomic<int> posted = 0, posting = kPosters;
  std::atomic<int64_t> sent_bytes = 0, received_bytes = 0;
  std::vector<std::thread> threads;
  for (int p = 0; p < kPosters; ++p) {
    threads.emplace_back([&, p] {
      std::mt19937 random(static_cast<unsigned>(p));
      char buffer[64] = {};
      void* persistent = nullptr;
      MPI_Recv_init(buffer, 5, ompi_mpi_byte, 0, 7, ompi_mpi_comm_world, &persistent);
      for (int i = 0; i < kRounds; ++i) {
        const int bytes = static_cast<int>(random() % 64);
        void* request = nullptr;
        if (i % 16 == 0) {  // persistent ones stay with their thread
          MPI_Start(&persistent);
          MPI_Wait(&persistent, kIgnore);
          received_bytes += 5;
        } else if (i % 2 == 0) {
          MPI_Isend(buffer, bytes, ompi_mpi_byte, 0, 1, ompi_mpi_comm_world, &request);
          sent_bytes += bytes;
          mailbox.put(request);
        } else {
          MPI_Irecv(buffer, bytes, ompi_mpi_byte, 0, 2, ompi_mpi_comm_world, &request);
          received_bytes += bytes;
          mailbox.put(request);
        }
        ++posted;
      }
      MPI_Request_free(&persistent);
      --posting;
    });
  }
  std::atomic<int> completed = 0;
  for (int c = 0; c < kCompleters; ++c) {
    threads.emplace_back([&, c] {
      std::mt19937 random(static_cast<unsigned>(100 + c));
      for (;;) {
        const bool last = posting == 0;
        const std::vector<void*> requests = mailbox.take(1 + random() % 8);
        if (requests.empty() && last) break;
        if (requests.empty()) std::this_thread::yield();
        if (!requests.empty()) complete_all(requests, static_cast<int>(random() % 6));
        completed += static_cast<int>(requests.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(MPI_Finalize(), 0);

  const SpoolReader reader = recording.spool();
  EXPECT_EQ(reader.header().loss[kLossRequests], 0u);
  EXPECT_EQ(reader.header().thread_level, 3);
  int requests = 0;
  std::map<uint32_t, int64_t> bytes_by_tag;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
    std::vector<Record> records;
    reader.read_records(chunk, records);
    for (const Record& record : records) {
      if (record_kind(record.word) != RecordKind::kRequest) continue;
      ++requests;
      bytes_by_tag[record.sequence] += static_cast<int64_t>(payload_bytes(record.payload));
    }
  }
  EXPECT_EQ(requests, posted.load());
  EXPECT_EQ(bytes_by_tag[1], sent_bytes.load());
  EXPECT_EQ(bytes_by_tag[2] + bytes_by_tag[7], received_bytes.load());
}

}  // namespace
}  // namespace ddl
