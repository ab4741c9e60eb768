// What is written for others: who may read it, and what is not in it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/share.h"
#include "store/database.h"
#include "store/seal.h"
#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

namespace fs = std::filesystem;
using namespace test::literals;

class Share : public testing::Test {
 protected:
  Share() {
    test::run().ranks(2).steps(6).forward("conv1", 5_ms).compute(10_ms).allreduce(1_MiB, 1_ms).job_json().write(run_);
    EXPECT_EQ(ddl_command({"report", run_.string()}).code, 0);
    // As another program's trace, or an older ddl, may have left it.
    const fs::path store = run_ / "run.sqlite";
    {
      SQLite::Database db = open_store(store, Access::kReadWrite);
      db.exec(
          "UPDATE host SET name = 'secluded' || id || '.cluster.example.org';"
          "INSERT OR REPLACE INTO meta VALUES ('command', '/home/covertly/bin/train --api-key hush4Hush --steps 5'), ('cwd', '/home/covertly/work'),"
          " ('env.SLURM_JOB_NODELIST', 'secluded[1-2]'), ('host', 'secluded1'), ('env.UCX_X', '10.11.12.13'),"
          " ('job_id', '4711.server.example.org'), ('env.PBS_JOBID', '4711.server.example.org'), ('env.NCCL_COMM_ID', '[2001:db8::17]:29500');"
          "INSERT INTO loss (kind, count, note) VALUES ('pages', 1, 'of /home/covertly/x on secluded1.cluster.example.org, secluded1: token=hush4Hush');"
          "UPDATE region SET name = 'password=hush4Hush' WHERE name = 'conv1'");
    }
    seal_store(store);
  }
  static std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static unsigned mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777u;
  }
  test::ScratchFolder folder_;
  fs::path run_ = folder_ / "job.ddl";
};

TEST_F(Share, FilesAreTheOwnersUnlessShared) {
  const mode_t before = umask(022);
  const std::vector<Arguments> writers = {{"report", run_.string(), "--html"},
                                          {"export", "csv", run_.string(), "--table", "v_rank", "-o"},
                                          {"export", "perfetto", run_.string(), "-o"},
                                          {"export", "folded", run_.string(), "-o"},
                                          {"export", "chrome-json", run_.string(), "--ranks", "0", "-o"}};
  int number = 0;
  for (const Arguments& writer : writers) {
    for (const bool shared : {false, true}) {
      const fs::path file = folder_ / ("out" + std::to_string(++number));
      Arguments words = writer;
      words.push_back(file.string());
      if (shared) words.push_back("--share");
      const Result result = ddl_command(words);
      EXPECT_EQ(result.code, 0) << result.err;
      EXPECT_EQ(mode_of(file), shared ? 0644u : 0600u) << writer[0] << " " << writer[1];
      if (shared) {
        EXPECT_EQ(text_of(file).find("hush4Hush"), std::string::npos) << writer[0] << " " << writer[1];
      }
    }
  }
  const fs::path folder = folder_ / "csv";
  EXPECT_EQ(ddl_command({"export", "csv", run_.string(), "-o", folder.string()}).code, 0);
  for (const auto& entry : fs::directory_iterator(folder)) EXPECT_EQ(mode_of(entry.path()), 0600u) << entry.path();
  umask(before);
}

TEST_F(Share, AnonymousLeavesOutHostsAndPaths) {
  const std::vector<Arguments> verbs = {{"report", run_.string()},
                                        {"report", run_.string(), "--json"},
                                        {"report", run_.string(), "--html", "-"},
                                        {"report", run_.string(), "--csv", "host"},
                                        {"report", run_.string(), "--csv", "meta"},
                                        {"report", run_.string(), "--csv", "process"},
                                        {"report", run_.string(), "--csv", "loss"},
                                        {"report", run_.string(), "--csv", "finding"},
                                        {"export", "folded", run_.string()},
                                        {"export", "chrome-json", run_.string(), "--ranks", "0"}};
  const std::vector<std::string> secrets = {"hush4Hush",   "secluded", "example.org", "covertly",
                                            "10.11.12.13", "2001:db8", "/home",       folder_.path().string()};
  for (const Arguments& verb : verbs) {
    Arguments words = verb;
    words.insert(words.end(), {"--share", "--anonymous"});
    const Result result = ddl_command(words);
    EXPECT_EQ(result.code, 0) << result.err;
    for (const std::string& hidden : secrets)
      EXPECT_EQ(result.out.find(hidden), std::string::npos)
          << hidden << " in " << verb[0] << " " << verb.back() << ":\n"
          << result.out.substr(0, 3000);
    EXPECT_FALSE(result.out.empty());
  }
  EXPECT_TRUE(has(ddl_command({"report", run_.string(), "--csv", "host"}).out, "secluded1"))
      << "the run itself stays as it was";
  EXPECT_TRUE(has(ddl_command({"report", run_.string(), "ranks", "--share", "--anonymous"}).out, "host1"));
  EXPECT_EQ(ddl_command({"report", run_.string(), "--anonymous"}).code, 2);
  EXPECT_EQ(ddl_command({"export", "prometheus", run_.string(), "--share"}).code, 2);
}

TEST(Shareable, Texts) {
  const std::vector<std::pair<std::string, std::string>> hosts = {
      {"node12.x.org", "host2"}, {"node12", "host2"}, {"node1", "host1"}};
  const auto told = [&](const char* text) { return shareable(text, &hosts); };
  EXPECT_EQ(told("rank 3 on node12.x.org waits for node1, node12 and xnode1"),
            "rank 3 on host2 waits for host1, host2 and xnode1");
  EXPECT_EQ(told("step (/home/me/train.py:12) < main (/home/me/a/b.py:3)"), "step (train.py:12) < main (b.py:3)");
  EXPECT_EQ(told("--data=/scratch/me/set --out '/x/y z'"), "--data=set --out 'y z'");
  EXPECT_EQ(told("from https://u:p@intern.example/x and 10.0.0.1:80, version 1.2.3"),
            "from https://... and (address):80, version 1.2.3");
  EXPECT_EQ(told("[2001:db8::17]:29500, ::1 and fe80::1%eth0"), "[(address)]:29500, (address) and (address)%eth0");
  EXPECT_EQ(told("c10d::all_reduce, ade::Bee, 12:34:56 and a::b"), "c10d::all_reduce, ade::Bee, 12:34:56 and a::b");
  EXPECT_EQ(told("/home/me/node1.out"), "host1.out");
  EXPECT_EQ(told("a/b and 3/4 and / and compute/transfer"), "a/b and 3/4 and / and compute/transfer");
  EXPECT_EQ(shareable("on node1: --token abcdef", nullptr), "on node1: --token ***");
}

}  // namespace
}  // namespace ddl::cli
