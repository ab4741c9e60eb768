// Who a process is when its header does not tell: exec, death in MPI_Init, a damaged page.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "tests/store/store_fixture.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl {
namespace {

using test::SpoolBuilder;

class IdentityTest : public StoreTest {
 protected:
  IdentityTest() { std::filesystem::create_directories(folder()); }

  /// A rank as a healthy job leaves it; what is wrong with it is up to the test.
  static SpoolBuilder rank_of(int32_t rank, int32_t size, uint64_t begin_ns = 1000000) {
    SpoolBuilder spool;
    FileHeader& h = spool.header();
    h.begin = h.latest = {begin_ns, begin_ns, begin_ns};
    h.world_key = 77;
    h.pid = static_cast<uint32_t>(100 + rank);
    h.process_start = 5;
    h.rank = rank;
    h.world_size = size;
    h.flags = kMpiEntered | kMpiInitialized | kMpiFinalized;
    CommunicatorMeta world = {};
    world.index = 1;
    world.uid = 1;
    world.size = size;
    world.rank = rank;
    world.flags = kCommWorld;
    spool.communicator(world, {});
    return spool;
  }
  /// A process that its launcher called rank `rank` and that was still in MPI_Init.
  static SpoolBuilder in_init(int32_t rank, int32_t size, uint64_t begin_ns = 1000000) {
    SpoolBuilder spool;
    FileHeader& h = spool.header();
    h.begin = h.latest = {begin_ns, begin_ns, begin_ns};
    h.world_key = 77;
    h.pid = static_cast<uint32_t>(100 + rank);
    h.process_start = 5 + begin_ns;
    h.flags = kMpiEntered;
    h.launch_rank = rank;
    h.launch_size = size;
    return spool;
  }
  /// A process of NCCL that nobody announced, with these ranks of a communicator.
  static SpoolBuilder of_nccl(uint32_t pid, std::initializer_list<int32_t> ranks, int32_t size) {
    SpoolBuilder spool;
    FileHeader& h = spool.header();
    h.begin = h.latest = {1000000, 1000000, 1000000};
    h.world_key = 77;
    h.pid = pid;
    h.process_start = 5;
    h.flags = kNcclEntered;
    uint32_t index = 70000;
    for (const int32_t rank : ranks) {
      CommunicatorMeta comm = {};
      comm.index = index++;
      comm.uid = 99;
      comm.size = size;
      comm.rank = rank;
      comm.flags = kCommNccl;
      spool.communicator(comm, {});
    }
    return spool;
  }
  void write(const SpoolBuilder& spool, const std::string& name) { spool.write(folder() / (name + ".spool")); }
  Rows processes() {
    ingest_again();
    return rows("SELECT world, rank, world_size, ended FROM process ORDER BY spool");
  }
};

TEST_F(IdentityTest, WhoDiedInMpiInitIsTheRankThatTheLauncherAnnounced) {
  write(in_init(0, 3), "a");
  write(in_init(2, 3), "c");
  EXPECT_EQ(processes(), (Rows{{"0", "0", "3", "lost"}, {"0", "2", "3", "lost"}}));
  EXPECT_EQ(rows("SELECT kind, count, note FROM loss WHERE kind = 'missing_rank'"),
            (Rows{{"missing_rank", "1", "of 3 ranks left no spool: rank 1"}}));
}

TEST_F(IdentityTest, AProcessWithSeveralRanksOfNcclIsOneRank) {
  write(of_nccl(1, {2, 3}, 4), "a");
  write(of_nccl(2, {0, 1}, 4), "b");
  EXPECT_EQ(processes(), (Rows{{"0", "1", "2", "lost"}, {"0", "0", "2", "lost"}}));
  EXPECT_EQ(rows("SELECT comm_rank, rank FROM communicator_member"),
            (Rows{{"0", "0"}, {"1", "0"}, {"2", "1"}, {"3", "1"}}));
  std::filesystem::remove(folder() / "b.spool");
  write(of_nccl(2, {0}, 4), "b");
  EXPECT_EQ(processes(), (Rows{{"0", "NULL", "NULL", "lost"}, {"0", "NULL", "NULL", "lost"}}))
      << "not alike: their order would be a guess";
  write(of_nccl(1, {1, 2}, 4), "a");
  write(of_nccl(2, {0, 3}, 4), "b");
  EXPECT_EQ(processes(), (Rows{{"0", "NULL", "NULL", "lost"}, {"0", "NULL", "NULL", "lost"}}))
      << "nor one after the other";
}

TEST_F(IdentityTest, WhoUsedAGpuIsARankWithoutMpiAndNccl) {
  const auto on_gpu = [](int32_t launch_rank, int32_t launch_size, uint64_t begin_ns) {
    SpoolBuilder spool = in_init(launch_rank, launch_size, begin_ns);
    spool.header().flags = 0;
    spool.add_chunk(ChunkKind::kDevice);
    return spool;
  };
  write(on_gpu(-1, 0, 1000000), "a");  // alone
  EXPECT_EQ(processes(), (Rows{{"0", "0", "1", "lost"}}));
  write(on_gpu(-1, 0, 2000000), "b");  // two of which nobody said which is which
  EXPECT_EQ(processes(), (Rows{{"0", "NULL", "NULL", "lost"}, {"0", "NULL", "NULL", "lost"}}));
  std::filesystem::remove(folder() / "a.spool");
  write(on_gpu(0, 2, 3000000), "b");  // announced, as torchrun does
  write(on_gpu(1, 2, 4000000), "c");
  EXPECT_EQ(processes(), (Rows{{"0", "0", "2", "lost"}, {"0", "1", "2", "lost"}}));
}

TEST_F(IdentityTest, AnAnnouncementIsInheritedByChildrenAndCountsOnce) {
  write(rank_of(0, 2), "a");
  write(in_init(0, 2), "b");                     // a child of rank 0 that tried MPI_Init
  write(in_init(1, 2, 2000000), "c");            // an attempt ...
  write(in_init(1, 2, 3000000), "d");            // ... and the next
  SpoolBuilder helper = in_init(1, 2, 4000000);  // never called MPI
  helper.header().flags = 0;
  write(helper, "e");
  EXPECT_EQ(processes(), (Rows{{"0", "0", "2", "finalized"},
                               {"0", "NULL", "NULL", "lost"},
                               {"0", "NULL", "NULL", "lost"},
                               {"0", "1", "2", "lost"},
                               {"0", "NULL", "NULL", "lost"}}));
}

TEST_F(IdentityTest, AProcessThatBecameAnotherProgram) {
  SpoolBuilder before = rank_of(0, 1, 1000000), after = rank_of(0, 1, 2000000);
  before.header().flags = kMpiEntered | kMpiInitialized;
  write(after, "a.1");
  write(before, "a");
  ingest_again();
  EXPECT_EQ(rows("SELECT spool, ended FROM process ORDER BY spool"),
            (Rows{{"a.1.spool", "finalized"}, {"a.spool", "exec"}}));
  EXPECT_EQ(number("SELECT count(*) FROM loss"), 0);
}

TEST_F(IdentityTest, ADamagedSizeMakesNoSecondWorld) {
  for (const int32_t damaged : {3, 1 << 20}) {
    write(rank_of(0, 2), "a");
    SpoolBuilder spool = rank_of(1, 2);
    spool.header().world_size = damaged;
    write(spool, "b");
    EXPECT_EQ(processes(), (Rows{{"0", "0", "2", "finalized"}, {"0", "1", "2", "finalized"}}));
    EXPECT_EQ(rows("SELECT kind FROM loss"), (Rows{{"damaged_header"}}));
  }
}

TEST_F(IdentityTest, ADamagedKeyMakesNoSecondWorld) {
  write(rank_of(0, 3), "a");
  SpoolBuilder spool = rank_of(1, 3);
  spool.header().world_key ^= 1ull << 33;
  spool.header().overhead_ticks = 1ull << 57;  // that the header is damaged is told by what it says elsewhere
  write(spool, "b");
  EXPECT_EQ(processes(), (Rows{{"0", "0", "3", "finalized"}, {"0", "1", "3", "finalized"}}));
  EXPECT_EQ(rows("SELECT kind FROM loss ORDER BY kind"), (Rows{{"damaged_header"}, {"missing_rank"}}));
}

TEST_F(IdentityTest, ADamagedHeaderIsOfTheRankThatIsLacking) {
  // Garbage from the boot id on, and no description of MPI_COMM_WORLD.
  SpoolBuilder damaged;
  FileHeader garbage = rank_of(1, 3).header();
  const std::string boot_id = garbage.boot_id;
  memcpy(garbage.boot_id, "5eed\0\1\2", 8);
  garbage.rank = 432;
  garbage.world_size = 65536;
  garbage.loss[3] = 1234;
  damaged.header() = garbage;
  write(rank_of(0, 3), "a");
  write(damaged, "b");
  write(rank_of(2, 3), "c");
  EXPECT_EQ(processes(),
            (Rows{{"0", "0", "3", "finalized"}, {"0", "1", "3", "finalized"}, {"0", "2", "3", "finalized"}}));
  EXPECT_EQ(rows("SELECT rank, kind FROM loss"), (Rows{{"1", "damaged_header"}})) << "nothing of what it counts";
  EXPECT_EQ(rows("SELECT boot_id FROM host"), (Rows{{boot_id}}));

  std::filesystem::remove(folder() / "c.spool");  // two are lacking: which of them it is nobody knows
  EXPECT_EQ(processes(), (Rows{{"0", "0", "3", "finalized"}, {"0", "NULL", "NULL", "finalized"}}));

  write(rank_of(2, 3), "c");
  garbage.rank = -1;
  garbage.world_size = 0;
  garbage.flags = kMpiEntered;
  garbage.launch_rank = 2;
  garbage.launch_size = 3 << 16;
  damaged.header() = garbage;
  write(damaged, "b");  // an announcement that nobody else has had
  EXPECT_EQ(processes(), (Rows{{"0", "0", "3", "finalized"}, {"0", "1", "3", "lost"}, {"0", "2", "3", "finalized"}}));
}

TEST_F(IdentityTest, ADamagedDescriptionOfTheWorldDoesNotWinOverEverybodyElse) {
  write(rank_of(0, 2), "a");
  SpoolBuilder spool = rank_of(1, 7);
  spool.header().world_size = 2;
  write(spool, "b");
  EXPECT_EQ(processes(), (Rows{{"0", "0", "2", "finalized"}, {"0", "1", "2", "finalized"}}));
}

TEST_F(IdentityTest, WorldsOfOneKeyAndDifferentSizesStayApart) {
  write(rank_of(0, 1), "a");
  SpoolBuilder second = rank_of(0, 2, 2000000), third = rank_of(1, 2, 2000000);
  second.header().process_start = third.header().process_start = 6;
  write(second, "b");
  write(third, "c");
  EXPECT_EQ(processes(),
            (Rows{{"0", "0", "1", "finalized"}, {"1", "0", "2", "finalized"}, {"1", "1", "2", "finalized"}}));
}

TEST_F(IdentityTest, WhyASpoolCouldNotGrowIsSaid) {
  for (const auto& [error, words] : std::map<int, std::string>{
           {ENOSPC, "disk was full"}, {EMFILE, "ulimit -n"}, {ENOENT, "removed"}, {EACCES, "not allowed"}}) {
    SpoolBuilder spool = rank_of(0, 1);
    spool.header().flags |= kCannotGrow;
    spool.header().grow_errno = error;
    write(spool, "a");
    ingest_again();
    EXPECT_EQ(number("SELECT count(*) FROM loss WHERE kind = 'cannot_grow' AND note LIKE '%" + words + "%'"), 1)
        << words;
  }
}

}  // namespace
}  // namespace ddl
