// Answers of NCCL's RAS: who is blamed for a hang. The text must say what JSON says of the same job, or say
// that it does not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/core/damage.h"
#include "tests/import/imported.h"
#include "tests/import/samples.h"
#include "tests/support/ras_answers.h"

namespace ddl::test {
namespace {

Imported ras_run(const std::string& text) { return Imported("nccl-ras", Imported::Files{{"ras.txt", text}}); }

/// "missing 3 5; no dump 11", by fault.
std::string blamed(Imported& run) {
  return run.text(
      "SELECT coalesce(group_concat(f, '; '), '') FROM (SELECT f.kind || ' ' || (SELECT group_concat(rank, ' ') FROM (SELECT rank FROM hang_rank r"
      " WHERE r.fault = f.fault ORDER BY rank)) AS f FROM hang_fault f ORDER BY f.fault)");
}
std::string losses_of(Imported& run, const std::string& kind) {
  return run.text(fmt::format("SELECT coalesce((SELECT count || ': ' || note FROM loss WHERE kind = '{}'), '')", kind));
}
std::string sentence_of(Imported& run) {
  return run.text("SELECT coalesce((SELECT sentence FROM finding ORDER BY position LIMIT 1), '')");
}
std::vector<int64_t> first_ranks(int64_t n) {
  std::vector<int64_t> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}
/// AllReduce number 40 on all ranks but `lagging`, which launched 39.
RasJob lagging_job(int64_t gpus, const std::vector<int64_t>& lagging) {
  RasJob job;
  job.gpus = gpus;
  RasJobCommunicator& world = job.add(0x27a079b828ff1a75, first_ranks(gpus), "AllReduce", 40);
  for (const int64_t rank : lagging) world.members[static_cast<size_t>(rank)].launched["AllReduce"] = 39;
  return job;
}

TEST(NcclRasText, NamesTheRanksThatLagInEveryVersion) {
  const RasJob job = lagging_job(32, {3, 17});
  Imported json = ras_run(ras_json(job));
  EXPECT_EQ(blamed(json), "missing 3 17");
  for (const int minor : {24, 25, 26, 28, 30}) {
    const bool verbose = minor != 25;
    SCOPED_TRACE(fmt::format("2.{} {}", minor, verbose));
    Imported run = ras_run(ras_text(job, minor, verbose));
    EXPECT_EQ(blamed(run), "missing 3 17");
    EXPECT_EQ(run.summary.ranks, 32u);
    EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);
    const std::string sentence = sentence_of(run);
    const std::string op = minor < 26 ? "collective number 42" : "AllReduce number 40";
    EXPECT_EQ(sentence.find("ranks 3 and 17 never entered " + op + " on communicator 0x27a079b828ff1a75"), 0u)
        << sentence;
    if (minor >= 26) {
      EXPECT_EQ(sentence, sentence_of(json));
    }
    EXPECT_EQ(run.text("SELECT confidence FROM finding"), "likely");
    EXPECT_NE(run.text("SELECT evidence FROM finding").find("rank 3 (process 1003 on 10.0.0.1, GPU 3)"),
              std::string::npos)
        << run.text("SELECT evidence FROM finding");
    EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'nccl_ras.gpus'"), "32");
    EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'nccl_ras.communicators'"),
              "1 of 32 ranks RUNNING MISMATCH");
    EXPECT_EQ(run.text("SELECT DISTINCT value FROM process_fact WHERE key = 'nccl_ras.nccl_version'"),
              fmt::format("2.{}.2", minor));
    EXPECT_EQ(
        run.integer(
            "SELECT count(*) FROM process p JOIN host h ON h.id = p.host WHERE h.name = 'not told' AND p.pid = 0"),
        30);
  }
}

TEST(NcclRasText, NamesTheRanksThatDoNotAnswer) {
  RasJob job = lagging_job(16, {});
  job.communicators[0].members[11].state = RasState::kSilent;
  for (const int minor : {24, 26, 30}) {
    Imported run = ras_run(ras_text(job, minor));
    EXPECT_EQ(blamed(run), "no dump 11") << minor;
    const std::string sentence = sentence_of(run);
    EXPECT_NE(
        sentence.find(
            "rank 11 does not answer RAS: ranks 0, 1, 2 and 12 more sit in a collective on communicator 0x27a079b828ff1a75"),
        std::string::npos)
        << sentence;
    EXPECT_EQ(run.summary.ranks, 15u);
    EXPECT_EQ(run.integer("SELECT count(*) FROM hang_call WHERE seq IS NULL"), 1);
    EXPECT_EQ(losses_of(run, "ras_silent"),
              minor < 26 ? "1: ranks that do not answer RAS: 11"
                         : "1: ranks that do not answer RAS: 11 (process 1011 on 10.0.0.2, GPU 3)");
    EXPECT_EQ(losses_of(run, "ras_timeouts"), "1: timeouts while RAS gathered its answer: it may lack ranks");
  }
  Imported json = ras_run(ras_json(job));
  EXPECT_EQ(blamed(json), "no dump 11");
}

TEST(NcclRasText, SaysWhereTheTextNamesNobody) {
  // Half of the ranks lag: no class is an outlier, no line names a rank.
  Imported half = ras_run(ras_text(lagging_job(8, {0, 1, 2, 3}), 30));
  EXPECT_EQ(blamed(half), "");
  EXPECT_EQ(half.integer("SELECT count(*) FROM finding"), 0);
  EXPECT_EQ(half.summary.ranks, 8u);
  EXPECT_EQ(
      losses_of(half, "ras_unnamed"),
      "1: times ranks lag behind or are missing, and the text does not name them all: 4 of 0x27a079b828ff1a75 launched up to AllReduce number"
      " 39; ask with ncclras -v, or better -f json");
  // 20 of 64 lag: only the verbose text names them.
  const RasJob job = lagging_job(64, first_ranks(20));
  Imported terse = ras_run(ras_text(job, 30, false));
  EXPECT_EQ(blamed(terse), "");
  EXPECT_NE(losses_of(terse, "ras_unnamed"), "");
  Imported verbose = ras_run(ras_text(job, 30, true));
  Imported json = ras_run(ras_json(job));
  EXPECT_EQ(blamed(verbose), blamed(json));
  EXPECT_EQ(losses_of(verbose, "ras_unnamed"), "");
  // 11 do not answer: too many to be named without -v.
  RasJob silent = lagging_job(64, {40});
  for (size_t rank = 0; rank < 11; ++rank) silent.communicators[0].members[rank].state = RasState::kSilent;
  Imported unnamed = ras_run(ras_text(silent, 30, false));
  EXPECT_EQ(blamed(unnamed), "");
  EXPECT_EQ(losses_of(unnamed, "ras_unnamed").find("2: times"), 0u) << losses_of(unnamed, "ras_unnamed");
  EXPECT_EQ(unnamed.summary.ranks, 1u);  // the one that is named
  Imported all = ras_run(ras_text(silent, 30, true));
  EXPECT_EQ(blamed(all),
            blamed(*std::make_unique<Imported>("nccl-ras", Imported::Files{{"ras.json", ras_json(silent)}})));
}

TEST(NcclRasText, RanksOfSmallerCommunicators) {
  // A tensor group waits for its rank 1, GPU 9; its GPUs are told apart by process and node.
  RasJob job = lagging_job(16, {9});
  job.add(0xe9, {8, 9}, "AllGather", 7).members[1].launched["AllGather"] = 6;
  Imported run = ras_run(ras_text(job));
  EXPECT_EQ(blamed(run), "missing 9");
  EXPECT_EQ(
      losses_of(run, "ras_ranks"),
      "1: ranks that the largest communicator does not have, or that cannot be told from its own: numbered behind");
  // Only that group is in trouble: its ranks are those of the run.
  RasJob small = lagging_job(16, {});
  small.add(0xe9, {8, 9}, "AllGather", 7).members[1].launched["AllGather"] = 6;
  Imported alone = ras_run(ras_text(small));
  EXPECT_EQ(blamed(alone), "missing 1");
  EXPECT_EQ(losses_of(alone, "ras_ranks"),
            "14: of 16 GPUs of the job of which the text says nothing: ranks are those of communicator 0xe9");
  EXPECT_NE(alone.text("SELECT evidence FROM finding").find("rank 1 (process 1009 on 10.0.0.2, GPU 1)"),
            std::string::npos);
}

TEST(NcclRasText, HealthyAndOddAnswers) {
  Imported healthy = ras_run("OK\n" + ras_text(lagging_job(8, {})));
  EXPECT_EQ(healthy.summary.ranks, 8u);
  EXPECT_EQ(healthy.integer("SELECT count(*) FROM finding") + healthy.integer("SELECT count(*) FROM loss"), 0);

  RasJob job = lagging_job(8, {});
  job.communicators[0].members[2].state = RasState::kFinalize;
  job.communicators[0].members[5].state = RasState::kNoMember;
  job.communicators[0].members[6].async_error = true;
  for (const bool json : {false, true}) {
    Imported run = ras_run(json ? ras_json(job) : ras_text(job));
    EXPECT_EQ(
        losses_of(run, "ras_status"),
        "1: ranks of communicators that most others are not like: rank 2 of 0x27a079b828ff1a75 (FINALIZE, not RUNNING)");
    EXPECT_EQ(losses_of(run, "ras_errors"),
              std::string("1: ranks of communicators that report an error of NCCL: rank 6 of 0x27a079b828ff1a75 (") +
                  (json ? "async_error 6)" : "Remote process error)"));
    EXPECT_EQ(losses_of(run, "ras_silent"), "");
    EXPECT_EQ(run.summary.ranks, 7u);
    EXPECT_EQ(blamed(run), "");
  }
  std::string text = ras_text(lagging_job(8, {3}));
  Imported newer = ras_run(text + "Rings\n=====\n  3 rings are slow\n");
  EXPECT_EQ(blamed(newer), "missing 3");
  EXPECT_EQ(losses_of(newer, "not_understood"), "2: lines of the text that ddl does not know, the first: Rings");
  Imported cut = ras_run(text.substr(0, text.find("\nErrors\n")));
  EXPECT_EQ(losses_of(cut, "ras_cut"),
            "1: communicators with errors of which the text says no more: it was cut, or they are in order by now");

  const auto error = [](const std::string& answer) { return import_error("nccl-ras", answer, "ras.txt"); };
  EXPECT_NE(error("hello\n").find("neither JSON nor text of NCCL's RAS"), std::string::npos);
  EXPECT_NE(error("NCCL version 2.28.9\nJob summary\n").find("byte 0"), std::string::npos);
  RasJob dead = lagging_job(8, {});
  for (size_t rank = 1; rank < 8; ++rank) dead.communicators[0].members[rank].state = RasState::kSilent;
  text = ras_text(dead);
  text.replace(text.find("Group "), text.find("\nErrors\n") - text.find("Group "), "No communicator data collected!\n");
  text.resize(text.find("#0-0"));
  EXPECT_NE(error(text).find("processes that do not answer: process 1001 on 10.0.0.1, process 1002 on 10.0.0.1"),
            std::string::npos)
      << error(text);
}

TEST(NcclRasText, SaysWhatJsonSaysOrThatItDoesNotKnow) {
  int equal = 0, unnamed = 0;
  const uint64_t first = fuzz_seed();
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(fuzz_cases(12)); ++seed) {
    std::mt19937_64 random(seed * 7919);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    RasJob job = lagging_job(2 + below(40), {});
    const int64_t one_of = seed % 4 == 0 ? 2 : 8;
    for (RasMember& m : job.communicators[0].members) {
      if (below(one_of) == 0) m.launched["AllReduce"] -= 1 + below(3);
      if (below(12) == 0) m.launched["Broadcast"] += 1;
      if (below(40) == 0) m.state = RasState::kSilent;
    }
    SCOPED_TRACE(seed);
    if (std::all_of(job.communicators[0].members.begin(), job.communicators[0].members.end(),
                    [](const RasMember& m) { return m.state == RasState::kSilent; }))
      continue;
    Imported json = ras_run(ras_json(job)),
             text = ras_run(ras_text(job, 26 + static_cast<int>(seed % 5), seed % 3 != 0));
    const std::string sections = ras_text(job, 30);
    const bool uneven = sections.find("different AllReduce") != std::string::npos,
               other = sections.find("different Broadcast") != std::string::npos;
    if (other && !uneven && sections.find("INCOMPLETE") != std::string::npos) {
      // That all are in the same AllReduce, for want of a rank that does not answer, is not in the text: it knows no
      // counts that are equal.
      EXPECT_NE(losses_of(text, "ras_silent"), "");
    } else if (losses_of(text, "ras_unnamed").empty()) {
      EXPECT_EQ(blamed(text), blamed(json));
      ++equal;
    } else {
      ++unnamed;
    }
    EXPECT_EQ(losses_of(text, "ras_odd") + losses_of(text, "not_understood"), "");
  }
  EXPECT_GT(equal, unnamed);
  EXPECT_GT(unnamed, 0);
}

}  // namespace
}  // namespace ddl::test
