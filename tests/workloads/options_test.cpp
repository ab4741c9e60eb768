#include "workloads/train/options.h"

#include <gtest/gtest.h>

#include "workloads/train/error.h"

namespace ddl::train {
namespace {

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Options, Defaults) {
  const Options mlp = parse({});
  EXPECT_EQ(mlp.model, "mlp");
  EXPECT_EQ(mlp.width, 1024U);
  EXPECT_TRUE(mlp.overlap);
  EXPECT_EQ(mlp.bucket_bytes(), 262144U);
  EXPECT_EQ(parse({"--model", "cnn"}).width, 24U);
  EXPECT_EQ(parse({"--model", "transformer"}).width, 128U);
}

TEST(Options, WhoAddsUpTheGradients) {
  EXPECT_FALSE(parse({}).adds_up_itself());
  const Options ring = parse({"--allreduce", "segmented_ring"});
  EXPECT_TRUE(ring.adds_up_itself());
  EXPECT_FALSE(ring.overlap);
  EXPECT_EQ(ring.allreduce.segment_bytes, 131072U);
  EXPECT_EQ(parse({"--allreduce", "segmented_ring", "--segment-kb", "16"}).allreduce.segment_bytes, 16384U);
  const Options grid = parse({"--allreduce", "multi_ring", "--dims", "2x4"});
  EXPECT_EQ(grid.allreduce.name(), "multi_ring:2x4");
  EXPECT_NO_THROW(check_ranks(grid, 8));
  EXPECT_THROW(check_ranks(grid, 6), UsageError);
  EXPECT_FALSE(parse({"--compress", "topk:0.01"}).overlap);
  EXPECT_TRUE(parse({"--compress", "none"}).overlap);
}

TEST(Options, WhoWaitsForWhoseParameters) {
  EXPECT_EQ(parse({}).consistency.kind, ConsistencyRule::Kind::kSynchronous);
  const Options bounded = parse({"--consistency", "ssp:2", "--order", "0,0,0,1,1,1"});
  EXPECT_EQ(bounded.consistency.value, 2U);
  EXPECT_FALSE(bounded.overlap);
  EXPECT_NO_THROW(check_ranks(bounded, 3));
  EXPECT_THROW(check_ranks(bounded, 4), UsageError);  // a worker is left out
  EXPECT_THROW(check_ranks(parse({"--consistency", "ssp:1", "--order", "0,0,0,1,1,1"}), 3), UsageError);
  EXPECT_THROW(check_ranks(parse({"--consistency", "async", "--order", "0,1,0"}), 3), UsageError);
  EXPECT_THROW(check_ranks(parse({"--consistency", "async"}), 1), UsageError);
  EXPECT_NO_THROW(check_ranks(parse({"--consistency", "local:3"}), 1));
  for (const char* rule : {"ssp", "ssp:", "ssp:x", "async:2", "easgd:0", "local:0", "gossip:1", "bsp"})
    EXPECT_THROW(parse({"--consistency", rule}), UsageError) << rule;
  EXPECT_THROW(parse({"--consistency", "gossip", "--order", "0,1"}), UsageError);
  EXPECT_THROW(parse({"--consistency", "async", "--order", "0,,1"}), UsageError);
  EXPECT_THROW(parse({"--consistency", "async", "--compress", "fp16"}), UsageError);
  EXPECT_THROW(parse({"--consistency", "async", "--runtime", "background"}), UsageError);
  EXPECT_THROW(parse({"--compress", "dgc:0.1:x"}), UsageError);
  EXPECT_THROW(parse({"--compress", "sparcml:2"}), UsageError);
  EXPECT_EQ(parse({"--compress", "dgc:0.01:50"}).update_momentum(), 0);
}

TEST(Options, WhoMakesTheMpiCalls) {
  EXPECT_EQ(parse({}).runtime, "direct");
  const Options horovod_like = parse({"--runtime", "background"});
  EXPECT_TRUE(horovod_like.background.cache);
  EXPECT_EQ(horovod_like.background.cycle_ms, 1.0);
  EXPECT_EQ(horovod_like.background.fusion_bytes, 67108864U);
  const Options o = parse({"--runtime", "background", "--cache", "no", "--cycle-ms", "2.5", "--fusion-mb", "0.5",
                           "--no-overlap", "--slow-spin", "--no-marks", "--log-steps", "steps"});
  EXPECT_FALSE(o.background.cache);
  EXPECT_EQ(o.background.cycle_ms, 2.5);
  EXPECT_EQ(o.background.fusion_bytes, 524288U);
  EXPECT_FALSE(o.overlap);
  EXPECT_TRUE(o.faults.slow_spins);
  EXPECT_FALSE(o.marks);
  EXPECT_EQ(o.step_log, "steps");
}

TEST(Options, ReadsEachOne) {
  const Options o = parse({"--model=cnn",
                           "--batch",
                           "8",
                           "--steps",
                           "7",
                           "--lr",
                           "0.5",
                           "--momentum",
                           "0",
                           "--seed",
                           "12",
                           "--data",
                           "x",
                           "--bucket-mb",
                           "0.5",
                           "--no-overlap",
                           "--print-every",
                           "0",
                           "--width",
                           "5",
                           "--slow-rank",
                           "1:2.5",
                           "--slow-rank",
                           "0:3:4",
                           "--jitter",
                           "6",
                           "--delay-once",
                           "2:3:40",
                           "--hang-rank",
                           "1:9",
                           "--log-calls",
                           "calls"});
  EXPECT_EQ(o.model, "cnn");
  EXPECT_EQ(o.batch, 8U);
  EXPECT_EQ(o.steps, 7U);
  EXPECT_EQ(o.rate, 0.5);
  EXPECT_EQ(o.momentum, 0.0);
  EXPECT_EQ(o.seed, 12U);
  EXPECT_EQ(o.data_folder, "x");
  EXPECT_EQ(o.bucket_bytes(), 524288U);
  EXPECT_FALSE(o.overlap);
  EXPECT_EQ(o.print_every, 0U);
  EXPECT_EQ(o.width, 5U);
  ASSERT_EQ(o.faults.slow.size(), 2U);
  EXPECT_EQ(o.faults.slow[0].rank, 1);
  EXPECT_EQ(o.faults.slow[0].ms, 2.5);
  EXPECT_EQ(o.faults.slow[0].from_step, 0U);
  EXPECT_EQ(o.faults.slow[1].from_step, 4U);
  EXPECT_EQ(o.faults.jitter_ms, 6.0);
  ASSERT_EQ(o.faults.delays.size(), 1U);
  EXPECT_EQ(o.faults.delays[0].rank, 2);
  EXPECT_EQ(o.faults.delays[0].step, 3U);
  EXPECT_EQ(o.faults.delays[0].ms, 40.0);
  ASSERT_EQ(o.faults.hangs.size(), 1U);
  EXPECT_EQ(o.faults.hangs[0].step, 9U);
  EXPECT_EQ(o.call_log, "calls");
}

TEST(Options, RefusesNonsenseAndNamesTheOption) {
  const std::vector<std::vector<const char*>> bad{{"--batch", "0"},
                                                  {"--batch", "-1"},
                                                  {"--batch", "x"},
                                                  {"--batch", "99999999999999999999"},
                                                  {"--steps", "0"},
                                                  {"--lr", "nan"},
                                                  {"--lr", "-1"},
                                                  {"--momentum", "1.5"},
                                                  {"--seed", "-1"},
                                                  {"--bucket-mb", "-1"},
                                                  {"--bucket-mb", "inf"},
                                                  {"--model", "rnn"},
                                                  {"--width", "30", "--model", "transformer"},
                                                  {"--data", "x", "--model", "transformer"},
                                                  {"--device", "cuda", "--model", "transformer"},
                                                  {"--runtime", "sideways"},
                                                  {"--runtime", "background", "--device", "cuda"},
                                                  {"--runtime", "background", "--allreduce", "ring"},
                                                  {"--runtime", "background", "--compress", "fp16"},
                                                  {"--cycle-ms", "1"},
                                                  {"--cycle-ms", "-1", "--runtime", "background"},
                                                  {"--cycle-ms", "nan", "--runtime", "background"},
                                                  {"--cache", "yes"},
                                                  {"--cache", "maybe", "--runtime", "background"},
                                                  {"--fusion-mb", "64"},
                                                  {"--fusion-mb", "-1", "--runtime", "background"},
                                                  {"--log-steps", "x", "--allreduce", "ring"},
                                                  {"--log-steps", "x", "--device", "cuda"},
                                                  {"--no-marks", "--device", "cuda"},
                                                  {"--print-every", "-1"},
                                                  {"--width", "-1"},
                                                  {"--jitter", "-1"},
                                                  {"--slow-rank", "1"},
                                                  {"--slow-rank", "1:"},
                                                  {"--slow-rank", ":5"},
                                                  {"--slow-rank", "-1:5"},
                                                  {"--slow-rank", "1:-5"},
                                                  {"--slow-rank", "1:nan"},
                                                  {"--slow-rank", "1:5:"},
                                                  {"--slow-rank", "1:5:2:3"},
                                                  {"--slow-rank", "1:5:-2"},
                                                  {"--slow-rank", "1 :5"},
                                                  {"--slow-rank", "1:1e300"},
                                                  {"--delay-once", "1:2"},
                                                  {"--delay-once", "1:x:3"},
                                                  {"--hang-rank", "1:2:3"},
                                                  {"--hang-rank", ""},
                                                  {"--no-such-option"},
                                                  {"--step", "3"},
                                                  {"--batch"},
                                                  {"--batch", "1", "--batch", "2"}};
  for (const auto& arguments : bad) {
    try {
      parse(arguments);
      ADD_FAILURE() << arguments[0] << " " << arguments.back() << " was accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(arguments[0]), std::string::npos)
          << arguments[0] << ": " << error.what();
      EXPECT_EQ(error.exit_code(), 2);
    }
  }
  EXPECT_THROW(parse({"positional"}), UsageError);
}

TEST(Options, HelpShowsEveryOptionAndAnExample) {
  EXPECT_TRUE(parse({"--help"}).help);
  EXPECT_TRUE(parse({"--help", "--batch", "0"}).help) << "who asks for help gets it";
  const std::string help = help_text();
  for (const char* option :
       {"example: ",    "--model",     "--batch",      "--steps",       "--lr",       "--momentum",  "--seed",
        "--data",       "--bucket-mb", "--no-overlap", "--print-every", "--width",    "--slow-rank", "--jitter",
        "--delay-once", "--hang-rank", "--log-calls",  "--runtime",     "--cycle-ms", "--cache",     "--fusion-mb",
        "--slow-spin",  "--log-steps", "--no-marks",   "--help"}) {
    EXPECT_NE(help.find(option), std::string::npos) << option;
  }
}

TEST(Options, FaultsMustNameRanksOfTheJob) {
  const Options o = parse({"--slow-rank", "1:5", "--delay-once", "0:1:1"});
  EXPECT_NO_THROW(o.faults.check_ranks(2));
  EXPECT_THROW(o.faults.check_ranks(1), UsageError);
  EXPECT_THROW(parse({"--hang-rank", "3:0"}).faults.check_ranks(3), UsageError);
  EXPECT_THROW(parse({"--delay-once", "3:0:1"}).faults.check_ranks(3), UsageError);
}

}  // namespace
}  // namespace ddl::train
