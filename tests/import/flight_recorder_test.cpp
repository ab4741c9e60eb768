// Dumps of flight recorders: who is blamed for a hang, on jobs whose truth is known because the test made them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "store/import/plain_data.h"
#include "tests/import/imported.h"
#include "tests/import/samples.h"
#include "tests/support/flight_dumps.h"

namespace ddl::test {
namespace {

namespace fs = std::filesystem;
constexpr auto kDone = FlightState::kCompleted;
constexpr auto kOpen = FlightState::kScheduled;
constexpr auto kStarted = FlightState::kStarted;

FlightOp op(FlightState state, std::string name = "all_reduce", std::vector<int64_t> sizes = {1024}) {
  FlightOp o;
  o.name = std::move(name);
  o.state = state;
  o.sizes = std::move(sizes);
  return o;
}
FlightOp message(const std::string& name, int64_t peer, FlightState state, size_t group = 0, int batch = 0) {
  FlightOp o = op(state, name);
  o.peer = peer;
  o.group = group;
  o.batch = batch;
  return o;
}

/// tensor x data: tensor groups are neighbours, data groups go across.
std::vector<FlightGroup> mesh(int64_t tensor, int64_t data) {
  std::vector<FlightGroup> groups = {{"0", "default_pg", {}}};
  for (int64_t r = 0; r < tensor * data; ++r) groups[0].ranks.push_back(r);
  for (int64_t d = 0; d < data; ++d) {
    groups.push_back({fmt::format("{}", groups.size()), "TENSOR_MODEL_PARALLEL_GROUP", {}});
    for (int64_t t = 0; t < tensor; ++t) groups.back().ranks.push_back(d * tensor + t);
  }
  for (int64_t t = 0; t < tensor; ++t) {
    groups.push_back({fmt::format("{}", groups.size()), "DATA_PARALLEL_GROUP", {}});
    for (int64_t d = 0; d < data; ++d) groups.back().ranks.push_back(d * tensor + t);
  }
  return groups;
}

std::string causes(Imported& run) {
  return run.text(
      "SELECT coalesce(group_concat(rank, ' '), '') FROM (SELECT rank FROM hang_rank WHERE fault IS NOT NULL ORDER BY rank)");
}
std::string kinds(Imported& run) {
  return run.text("SELECT coalesce(group_concat(kind, ' '), '') FROM (SELECT kind FROM hang_fault ORDER BY fault)");
}
std::string first_sentence(Imported& run) {
  return run.text("SELECT coalesce((SELECT sentence FROM finding ORDER BY position LIMIT 1), '')");
}

/// Steps of a mesh that went well: tensor collectives, then data collectives.
void healthy_steps(FlightJob& job, int64_t tensor, int64_t data, int steps) {
  for (int s = 0; s < steps; ++s) {
    for (int64_t d = 0; d < data; ++d) job.all(static_cast<size_t>(1 + d), op(kDone, "_all_gather_base"));
    for (int64_t t = 0; t < tensor; ++t) job.all(static_cast<size_t>(1 + data + t), op(kDone));
  }
}

TEST(FlightRecorder, NamesWhoNeverEnteredThroughGroups) {
  // Rank 5 of 2 x 4 stops before a tensor collective with rank 4; 4 waits for it, the data group of 4 for 4, their
  // tensor peers for those.
  const int64_t tensor = 2, data = 4;
  for (const int protocol : {0, 2, 3, 4, 5}) {
    FlightJob job(8, mesh(tensor, data));
    healthy_steps(job, tensor, data, 3);
    for (int64_t d = 0; d < data; ++d) {
      FlightOp o = op(d == 2 ? kOpen : kDone, "_all_gather_base");
      o.stack = "forward";
      job.all(static_cast<size_t>(1 + d), o, {5});
    }
    FlightOp reduce = op(kOpen);
    reduce.stack = "backward";
    job.all(5, reduce, {4});  // ranks 0, 2, 6 of the data group of rank 4
    Imported run("flight-recorder", flight_files(job, protocol));
    EXPECT_EQ(causes(run), "5") << protocol;
    EXPECT_EQ(kinds(run), "missing");
    EXPECT_EQ(run.text("SELECT id FROM finding ORDER BY position LIMIT 1"), "missing_rank");
    EXPECT_EQ(run.integer("SELECT rank FROM finding ORDER BY position LIMIT 1"), 5);
    const std::string sentence = first_sentence(run);
    EXPECT_NE(
        sentence.find(
            "rank 5 never entered _all_gather_base number 4 on TENSOR_MODEL_PARALLEL_GROUP 3 (tensor axis): rank 4 sits in it; 3 more wait"),
        std::string::npos)
        << sentence;
    EXPECT_EQ(run.text("SELECT group_concat(depth || ':' || ranks_in || '/' || ranks_missing, ' ') FROM hang_call"),
              "1:1/1 2:3/1");
    EXPECT_EQ(run.integer("SELECT count(DISTINCT stack) FROM flight_entry"), 2);
    EXPECT_NE(run.text("SELECT evidence FROM finding").find("forward (/home/u/train.py:15)"), std::string::npos)
        << run.text("SELECT evidence FROM finding");
  }
}

TEST(FlightRecorder, BlamesNobodyInCleanDumps) {
  for (const bool active : {false, true}) {
    for (const size_t buffer : {size_t{2000}, size_t{5}}) {
      FlightJob job(8, mesh(4, 2));
      job.only_active = active;
      job.buffer = buffer;
      healthy_steps(job, 4, 2, 6);
      Imported run("flight-recorder", flight_files(job));
      EXPECT_EQ(kinds(run), "");
      EXPECT_EQ(run.integer("SELECT count(*) FROM finding"), 0) << first_sentence(run);
    }
  }
}

TEST(FlightRecorder, WrappedRecordersBeginElsewhereOnEachRank) {
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}, {"7", "mesh_tp", {0, 1}}});
  job.buffer = 6;
  for (int i = 0; i < 20; ++i) {
    job.all(0, op(kDone));
    for (int k = 0; k < i % 3; ++k) job.all(1, op(kDone, "_reduce_scatter_base"));
  }
  job.all(0, op(kOpen), {3});
  for (const bool status : {true, false}) {
    job.status = status;
    Imported run("flight-recorder", flight_files(job));
    EXPECT_EQ(causes(run), "3");
    EXPECT_NE(first_sentence(run).find("rank 3 never entered all_reduce number 21 on default_pg"), std::string::npos)
        << first_sentence(run);
  }
}

TEST(FlightRecorder, AnEmptyRecorderSpeaksByItsStatus) {
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}});
  job.only_active = true;
  for (int i = 0; i < 9; ++i) job.all(0, op(kDone));
  job.all(0, op(kOpen), {2});
  Imported run("flight-recorder", flight_files(job, 0));
  EXPECT_EQ(causes(run), "2");
  EXPECT_NE(run.text("SELECT evidence FROM finding").find("no operation in its recorder"), std::string::npos);
}

TEST(FlightRecorder, TellsOtherOperationsSizesAndTypes) {
  struct Case {
    FlightOp odd;
    const char* word;
  };
  FlightOp half = op(kOpen);
  half.type = "Half";
  for (const Case& c :
       {Case{op(kOpen, "broadcast"), "broadcast"}, Case{op(kOpen, "all_reduce", {512}), "512"}, Case{half, "Half"}}) {
    FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}});
    job.all(0, op(kDone));
    for (int64_t r = 0; r < 4; ++r) job.add(r, r == 1 ? c.odd : op(kOpen));
    Imported run("flight-recorder", flight_files(job));
    EXPECT_EQ(causes(run), "1");
    EXPECT_EQ(kinds(run), "mismatch");
    EXPECT_EQ(run.text("SELECT id FROM finding"), "mismatched_calls");
    EXPECT_NE(first_sentence(run).find(c.word), std::string::npos) << first_sentence(run);
    EXPECT_NE(first_sentence(run).find("number 2"), std::string::npos) << first_sentence(run);
  }
}

TEST(FlightRecorder, ShapesMayDifferWhereElementsDoNot) {
  FlightJob job(2, {{"0", "default_pg", {0, 1}}});
  job.add(0, op(kOpen, "all_reduce", {32, 32}));
  job.add(1, op(kOpen, "all_reduce", {1024}));
  FlightJob uneven(2, {{"0", "default_pg", {0, 1}}});
  uneven.add(0, op(kOpen, "all_to_all", {100, 8}));
  uneven.add(1, op(kOpen, "all_to_all", {28, 8}));
  for (const FlightJob& j : {job, uneven}) {
    Imported run("flight-recorder", flight_files(j));
    EXPECT_EQ(causes(run), "");
    EXPECT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'mismatched_calls'"), 0);
  }
}

TEST(FlightRecorder, MessagesWaitForTheOtherEnd) {
  // A pipeline of 4: rank 2 never posted its receive from 1; 3 waits for 2.
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}, {"5", "PIPELINE_MODEL_PARALLEL_GROUP", {0, 1, 2, 3}}});
  for (int i = 0; i < 3; ++i)
    for (int64_t r = 0; r < 3; ++r) {
      job.add(r, message("send", r + 1, kDone, 1));
      job.add(r + 1, message("recv", r, kDone, 1));
    }
  job.add(0, message("send", 1, kDone, 1));
  job.add(1, message("recv", 0, kDone, 1));
  job.add(1, message("send", 2, kOpen, 1));
  job.add(3, message("recv", 2, kOpen, 1));
  for (const size_t buffer : {size_t{2000}, size_t{4}}) {
    job.buffer = buffer;
    Imported run("flight-recorder", flight_files(job));
    EXPECT_EQ(causes(run), "2") << buffer;
    EXPECT_NE(first_sentence(run).find("(pipeline axis)"), std::string::npos) << first_sentence(run);
  }
}

TEST(FlightRecorder, WhatWasBatchedHasTheStateOfTheWhole) {
  // Batches that completed leave entries that say "scheduled" for ever.
  FlightJob job(2, {{"0", "default_pg", {0, 1}}});
  for (int i = 1; i <= 3; ++i) {
    for (int64_t r = 0; r < 2; ++r) {
      job.add(r, message("send", 1 - r, kDone, 0, i));
      job.add(r, message("recv", 1 - r, kDone, 0, i));
    }
  }
  {
    Imported run("flight-recorder", flight_files(job));
    EXPECT_EQ(run.integer("SELECT count(*) FROM flight_entry WHERE open"), 0);
    EXPECT_EQ(run.integer("SELECT count(*) FROM finding"), 0);
  }
  // Both ends of both messages are there: nobody is to blame, however the two lie in the batches.
  job.add(0, message("send", 1, kOpen, 0, 9));
  job.add(0, message("recv", 1, kOpen, 0, 9));
  job.add(1, message("send", 0, kOpen, 0, 9));
  job.add(1, message("recv", 0, kOpen, 0, 9));
  Imported run("flight-recorder", flight_files(job));
  EXPECT_EQ(causes(run), "");
  // One end of a batch is missing.
  FlightJob half(2, {{"0", "default_pg", {0, 1}}});
  half.add(0, message("send", 1, kOpen, 0, 1));
  half.add(0, message("recv", 1, kOpen, 0, 1));
  Imported missing("flight-recorder", flight_files(half));
  EXPECT_EQ(causes(missing), "1");
}

TEST(FlightRecorder, CoalescedCollectivesAreOneCall) {
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}});
  const auto pair = [&](FlightState state, int batch, const std::vector<int64_t>& but) {
    for (int k = 0; k < 2; ++k) {
      FlightOp o = op(state, "_all_gather_base");
      o.batch = batch;
      job.all(0, o, but);
    }
  };
  pair(kDone, 1, {});
  job.all(0, op(kDone));
  pair(kOpen, 2, {0});
  Imported run("flight-recorder", flight_files(job));
  EXPECT_EQ(causes(run), "0");
  EXPECT_EQ(run.integer("SELECT count(*) FROM hang_call"), 1);
}

TEST(FlightRecorder, GroupsEnteredInAnotherOrderAreACircle) {
  FlightJob job(2, {{"0", "default_pg", {0, 1}}, {"1", "a", {0, 1}}});
  FlightOp a = op(kOpen), b = op(kOpen);
  b.group = 1;
  job.add(0, a);
  job.add(0, b);
  job.add(1, b);
  job.add(1, a);
  Imported both("flight-recorder", flight_files(job));
  EXPECT_EQ(kinds(both), "circle");
  // The same where the host waits for the first one.
  FlightJob blocking(2, job.groups);
  blocking.add(0, a);
  blocking.add(1, b);
  Imported run("flight-recorder", flight_files(blocking));
  EXPECT_EQ(kinds(run), "circle");
}

TEST(FlightRecorder, AnAheadRankIsNotItsGroupsFault) {
  FlightJob job(8, mesh(4, 2));
  healthy_steps(job, 4, 2, 2);
  job.add(6, op(kOpen, "barrier"));
  Imported run("flight-recorder", flight_files(job));
  EXPECT_EQ(kinds(run), "ahead");
  EXPECT_EQ(causes(run), "6");
  EXPECT_NE(first_sentence(run).find("rank 6 alone entered barrier"), std::string::npos) << first_sentence(run);
}

TEST(FlightRecorder, StuckBeforeWhatTheOthersStarted) {
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}});
  job.all(0, op(kDone));
  for (int64_t r = 0; r < 4; ++r) job.add(r, op(r == 2 ? kOpen : kStarted));
  Imported run("flight-recorder", flight_files(job));
  EXPECT_EQ(kinds(run), "behind");
  EXPECT_EQ(causes(run), "2");
  // All started, none completed: nobody can tell whose it is.
  FlightJob all(4, job.groups);
  all.all(0, op(kDone));
  all.all(0, op(kStarted));
  Imported stuck("flight-recorder", flight_files(all));
  EXPECT_EQ(kinds(stuck), "stuck");
  EXPECT_EQ(causes(stuck), "");
}

TEST(FlightRecorder, AMemberThatDoesNotCompleteWhatOthersDid) {
  // Rank 1's GPU died in number 2; the others completed it and sit in number 3, which it enqueued too.
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}});
  job.all(0, op(kDone));
  for (int64_t r = 0; r < 4; ++r) job.add(r, op(r == 1 ? kOpen : kDone));
  job.all(0, op(kOpen));
  Imported run("flight-recorder", flight_files(job));
  EXPECT_EQ(causes(run), "1");
  EXPECT_EQ(kinds(run), "behind");
}

TEST(FlightRecorder, SeveralFaultsAtOnce) {
  FlightJob job(8, mesh(2, 4));
  healthy_steps(job, 2, 4, 2);
  for (const size_t group : {1U, 2U, 3U, 4U})
    job.all(group, op(group == 1 || group == 4 ? kOpen : kDone),
            group == 1   ? std::vector<int64_t>{0}
            : group == 4 ? std::vector<int64_t>{7}
                         : std::vector<int64_t>{});
  Imported run("flight-recorder", flight_files(job));
  EXPECT_EQ(causes(run), "0 7");
  EXPECT_EQ(kinds(run), "missing missing");
}

TEST(FlightRecorder, FilesThatAreNotThere) {
  // Rank 3's own dump is missing, but rank 1 is the cause, and is told.
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}});
  job.all(0, op(kDone));
  job.all(0, op(kOpen), {1, 3});
  Imported run("flight-recorder", flight_files(job, 2, {3}));
  EXPECT_EQ(causes(run), "1");
  EXPECT_EQ(run.text("SELECT note FROM loss WHERE kind = 'missing_rank'"), "of 4 ranks without a trace: rank 3");
  // Nobody else is missing: then it is the one without a dump, perhaps.
  FlightJob alone(4, job.groups);
  alone.all(0, op(kOpen), {3});
  Imported guess("flight-recorder", flight_files(alone, 2, {3}));
  EXPECT_EQ(kinds(guess), "no dump");
  EXPECT_EQ(guess.text("SELECT confidence FROM finding"), "likely");
}

TEST(FlightRecorder, ReadsVersion1) {
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}}});
  job.version = "1.5";
  job.all(0, op(kDone));
  job.all(0, op(kOpen), {2});
  Imported run("flight-recorder", flight_files(job));
  EXPECT_EQ(causes(run), "2");
}

TEST(FlightRecorder, FoldersAndOtherFiles) {
  const ScratchFolder folder;
  FlightJob job(2, {{"0", "default_pg", {0, 1}}});
  job.all(0, op(kOpen), {1});
  for (const auto& [name, contents] : flight_files(job)) std::ofstream(folder / name, std::ios::binary) << contents;
  std::ofstream(folder / "notes") << "Fault ranks: [1]\n";
  std::ofstream(folder / "fault_injection.log") << "Fault ranks: [1]\n";
  const fs::path root = fs::path(folder / "x").parent_path();
  Imported run("flight-recorder", std::vector<fs::path>{root});
  EXPECT_EQ(causes(run), "1");
  EXPECT_EQ(run.text("SELECT note FROM loss WHERE kind = 'not_dumps'"), "files that are not dumps: notes");
}

TEST(FlightRecorder, RefusesPicklesThatRunCode) {
  struct Case {
    std::string bytes;
    const char* name;
    int offset;
  };
  using namespace std::string_literals;
  const Case cases[] = {{"\x80\x02}cos\nsystem\n."s, "GLOBAL", 3},
                        {"\x80\x04\x8c\x02os\x8c\x06system\x93."s, "STACK_GLOBAL", 14},
                        {"\x80\x02})R."s, "REDUCE", 4},
                        {"\x80\x02(ios\nsystem\n."s, "INST", 3},
                        {"\x80\x02(}o."s, "OBJ", 4},
                        {"\x80\x02}}b."s, "BUILD", 4},
                        {"\x80\x02})\x81."s, "NEWOBJ", 4},
                        {"\x80\x04})}\x92."s, "NEWOBJ_EX", 5},
                        {"\x80\x02P1\n."s, "PERSID", 2},
                        {"\x80\x02}Q."s, "BINPERSID", 3},
                        {"\x80\x02\x82\x01."s, "EXT1", 2},
                        {"\x80\x02\x83\x01\x00."s, "EXT2", 2},
                        {"\x80\x02\x84\x01\x00\x00\x00."s, "EXT4", 2},
                        {"\x80\x05\x97."s, "NEXT_BUFFER", 2},
                        {"\x80\x05\x98."s, "READONLY_BUFFER", 2}};
  for (const Case& c : cases) {
    const std::string error = import_error("flight-recorder", c.bytes, "nccl_trace_rank_0");
    EXPECT_NE(error.find(fmt::format("byte {}: opcode {} would run code: refused", c.offset, c.name)),
              std::string::npos)
        << error;
  }
  EXPECT_NE(import_error("flight-recorder", "\x80\x06."s, "nccl_trace_rank_0").find("protocol 6"), std::string::npos);
}

TEST(FlightRecorder, BoundsWhatAPickleBuilds) {
  using namespace std::string_literals;
  const auto error_of = [](const std::string& bytes) -> std::string {
    store::PlainData data;
    try {
      store::read_pickle(bytes, data);
    } catch (const store::BadData& bad) {
      return bad.what;
    }
    return "";
  };
  EXPECT_NE(error_of("\x80\x02" + std::string(2000, '(') + ".").find("nested deeper"), std::string::npos);
  EXPECT_NE(error_of("\x80\x02X\xff\xff\xff\x7f"s).find("a text of"), std::string::npos);
  EXPECT_NE(error_of("\x80\x02\x8b\xff\xff\xff\x7f"s).find("an integer of"), std::string::npos);
  EXPECT_EQ(error_of("\x80\x02]q\x00h\x00"s
                     "a."),
            "");  // a list that holds itself
  store::PlainData json;
  EXPECT_THROW(store::read_json_document(std::string(100, '['), json), store::BadData);
}

TEST(NcclRas, NamesWhoLaunchedLessAndWhoIsSilent) {
  Imported behind("nccl-ras", Imported::Files{{"ras.json", ras_answer({7, 7, 6, 7}, 0, true)}});
  EXPECT_EQ(causes(behind), "2");
  EXPECT_EQ(kinds(behind), "missing");
  EXPECT_NE(first_sentence(behind).find("rank 2 never entered AllReduce number 7 on communicator 0x9e1a"),
            std::string::npos)
      << first_sentence(behind);
  EXPECT_EQ(behind.text("SELECT confidence FROM finding"), "likely");
  EXPECT_EQ(behind.text("SELECT h.name FROM process p JOIN host h ON h.id = p.host WHERE rank = 2"), "10.0.0.1");
  Imported silent("nccl-ras", Imported::Files{{"ras.json", ras_answer({7, 7, 7, 7}, 1)}});
  EXPECT_EQ(causes(silent), "3");
  EXPECT_NE(first_sentence(silent).find("rank 3 does not answer RAS"), std::string::npos) << first_sentence(silent);
  Imported healthy("nccl-ras", Imported::Files{{"ras.json", ras_answer({7, 7, 7, 7}, 0)}});
  EXPECT_EQ(kinds(healthy), "");
  EXPECT_EQ(healthy.integer("SELECT count(*) FROM finding"), 0);
}

// The real sets (an extra: needs ../shared, skipped without it).
void expect_real(const char* name) {
  const fs::path folder = fs::path(DDL_SOURCE_DIR "/../shared/traces/flight_recorder") / name;
  if (!fs::exists(folder)) GTEST_SKIP() << "an extra that needs dumps in " << folder;
  Imported run("flight-recorder", std::vector<fs::path>{folder});
  EXPECT_EQ(run.summary.ranks, 16u);
  EXPECT_EQ(causes(run), "9 14");
  EXPECT_EQ(kinds(run), "missing");
  const std::string sentence = first_sentence(run);
  EXPECT_NE(sentence.find("ranks 9 and 14 never entered all_to_all number"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("EXPERT_MODEL_PARALLEL_GROUP 72 (expert axis)"), std::string::npos) << sentence;
  EXPECT_EQ(run.integer("SELECT count(*) FROM finding"), 1);
}
TEST(FlightRecorderRealDumps, LockedInterpreter) { expect_real("lock_gil_1st"); }
TEST(FlightRecorderRealDumps, FailedGpu) { expect_real("gpu_error_2nd"); }

}  // namespace
}  // namespace ddl::test
