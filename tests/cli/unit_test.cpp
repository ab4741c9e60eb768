// The parts of the command line that need no process.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/doctor.h"
#include "cli/flavour.h"
#include "cli/job_file.h"
#include "cli/library.h"
#include "cli/mpirun.h"
#include "cli/options.h"
#include "cli/record_options.h"
#include "cli/verbs.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

using Words = std::vector<std::string>;

TEST(Nearest, FindsTypingErrorsOnly) {
  const Words names = {"record", "report", "query", "doctor"};
  EXPECT_EQ(nearest("recrod", names), "record");
  EXPECT_EQ(nearest("rep", names), "report");
  EXPECT_EQ(nearest("qeury", names), "query");
  EXPECT_EQ(nearest("zebra", names), "");
  EXPECT_EQ(nearest("", names), "");
}

VerbOptions some_options() {
  VerbOptions options({.verb = "some", .usage = "[WORD...]", .text = "", .example = ""});
  options.add()("json,j", "a flag")("number,n", takes<int>("N"), "a value")(
      "name", takes<std::vector<std::string>>("NAME"), "values");
  options.allow_words(SIZE_MAX);
  return options;
}

TEST(Options, WordsStandAnywhereBesideThem) {
  VerbOptions options = some_options();
  EXPECT_TRUE(
      options.parse({"a", "-jn", "-5", "b", "-", "", "--name=x=y", "--name", "-z", "c", "--", "--json", "--", "-n"}));
  EXPECT_EQ(options.words(), (Words{"a", "b", "-", "", "c", "--json", "--", "-n"}));
  EXPECT_TRUE(options.has("json"));
  EXPECT_EQ(options.get<int>("number"), -5);
  EXPECT_EQ(options.get<Words>("name"), (Words{"x=y", "-z"}));
}

TEST(Options, TheCommandBeginsAtTheFirstWord) {
  Words command;
  VerbOptions options = some_options();
  EXPECT_TRUE(options.parse_with_command({"-jn", "3", "ls", "-j", "--", "x"}, command));
  EXPECT_EQ(command, (Words{"ls", "-j", "--", "x"}));
  EXPECT_EQ(options.get<int>("number"), 3);
}

TEST(Options, WhatDoesNotFitIsSaid) {
  for (const Words& wrong : std::vector<Words>{{"x", "-n"},
                                               {"-n", "--json"},
                                               {"-n", "x"},
                                               {"-n"},
                                               {"-j", "-j"},
                                               {"--json=5"},
                                               {"--jso"},
                                               {"-x"},
                                               {"-jx"},
                                               {"-n", "1", "-n", "2"}}) {
    try {
      some_options().parse(wrong);
      ADD_FAILURE() << wrong[0];
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
    }
  }
}

// A shell's pattern may match a million files. In quadratic time this takes ten minutes.
TEST(Options, AMillionWordsTakeAsLongAsTheyAreMany) {
  constexpr size_t kMany = 1'000'000;
  VerbOptions options = some_options();
  EXPECT_TRUE(options.parse(Words(kMany, "run.ddl")));
  EXPECT_EQ(options.words().size(), kMany);
  EXPECT_THROW(some_options().parse(Words(kMany / 20, "--json")), Error);
  Words command;
  EXPECT_TRUE(some_options().parse_with_command(Words(kMany, "word"), command));
  EXPECT_EQ(command.size(), kMany);
}

TEST(Mpirun, TheProgramComesAfterTheLaunchersOptions) {
  EXPECT_EQ(program_of({"mpirun", "-np", "4", "./train", "-x"}), 3U);
  EXPECT_EQ(
      program_of({"mpirun", "--mca", "btl", "tcp,self", "-x", "A=1", "--oversubscribe", "--map-by", "node", "prog"}),
      9U);
  EXPECT_FALSE(program_of({"mpirun", "--never-heard-of", "1", "prog"}));
  EXPECT_FALSE(program_of({"mpirun", "-np", "1", "a", ":", "-np", "1", "b"}));
  EXPECT_FALSE(program_of({"mpirun", "-np", "4"}));
}

TEST(RecordOptions, TheCommandStartsAtTheFirstWord) {
  EXPECT_EQ(parse_record_options({"--", "ls", "--help"}).command, (Words{"ls", "--help"}));
  EXPECT_EQ(parse_record_options({"-o", "x.ddl", "ls", "-o", "y"}).command, (Words{"ls", "-o", "y"}));
  EXPECT_EQ(parse_record_options({"-ox.ddl", "--cap=5", "ls"}).command, (Words{"ls"}));
  EXPECT_EQ(parse_record_options({"--cap", "5", "ls"}).directory, "");
  EXPECT_EQ(parse_record_options({"--output", "x.ddl", "ls"}).directory, "x.ddl");
}

TEST(RecordOptions, BecomeTheEnvironment) {
  const RecordOptions options =
      parse_record_options({"--steps", "5:9", "--after", "1.5", "--for", "2", "--cap", "64", "--budget", "0.5%",
                            "--collectors", "none", "--clock", "monotonic", "--", "ls"});
  EXPECT_EQ(options.window, (Settings{{"DDL_STEPS", "5:9"},
                                      {"DDL_AFTER", "1.5"},
                                      {"DDL_FOR", "2"},
                                      {"DDL_CAP", "67108864"},
                                      {"DDL_BUDGET", "0.5%"},
                                      {"DDL_COLLECTORS", "none"},
                                      {"DDL_CLOCK", "monotonic"}}));
  EXPECT_TRUE(parse_record_options({"ls"}).window.empty());
  EXPECT_EQ(parse_record_options({"--no-cupti", "--collectors", "mpi,cuda", "ls"}).window,
            (Settings{{"DDL_COLLECTORS", "mpi"}}));
  EXPECT_EQ(parse_record_options({"--no-cupti", "--collectors", "cuda", "ls"}).window,
            (Settings{{"DDL_COLLECTORS", "none"}}));
  EXPECT_EQ(parse_record_options({"--collectors", "mpi,nvtx", "--step-names", "batch", "ls"}).window,
            (Settings{{"DDL_COLLECTORS", "mpi,nvtx"}, {"DDL_STEP_NAMES", "batch"}}));
}

TEST(RecordOptions, WhatIsNotWantedIsNotInjected) {
  unsetenv("NVTX_INJECTION64_PATH");
  unsetenv("CUDA_INJECTION64_PATH");
  Settings settings = {{"DDL_COLLECTORS", "mpi,nvtx"}};
  add_injections("/l/libddl.so", settings);
  EXPECT_EQ(settings, (Settings{{"DDL_COLLECTORS", "mpi,nvtx"}, {"NVTX_INJECTION64_PATH", "/l/libddl.so"}}));
}

TEST(RecordOptions, AnotherToolsInjectionStays) {
  unsetenv("NVTX_INJECTION64_PATH");
  Settings settings;
  add_injections("/l/libddl.so", settings);
  EXPECT_NE(std::find(settings.begin(), settings.end(),
                      std::make_pair(std::string("NVTX_INJECTION64_PATH"), std::string("/l/libddl.so"))),
            settings.end());
  setenv("NVTX_INJECTION64_PATH", "/other.so", 1);
  settings.clear();
  add_injections("/l/libddl.so", settings);
  for (const auto& [name, value] : settings) EXPECT_NE(name, "NVTX_INJECTION64_PATH");
  unsetenv("NVTX_INJECTION64_PATH");
}

TEST(RecordOptions, BadValuesAreUsageErrors) {
  for (const Words& bad : {Words{"--steps", "9:5", "ls"},
                           {"--steps", "x", "ls"},
                           {"--steps", ":", "ls"},
                           {"--steps", "1:2:3", "ls"},
                           {"--after", "-1", "ls"},
                           {"--after", "nan", "ls"},
                           {"--cap", "0", "ls"},
                           {"--cap", "lots", "ls"},
                           {"--budget", "1", "ls"},
                           {"--budget", "0%", "ls"},
                           {"--budget", "-1%", "ls"},
                           {"--budget", "101%", "ls"},
                           {"--budget", "some", "ls"},
                           {"--clock", "sundial", "ls"},
                           {"--collectors", "gpu", "ls"},
                           {"--collectors", "mpi,", "ls"},
                           {"-o"},
                           {},
                           {"--"},
                           {"--nope", "ls"}}) {
    try {
      parse_record_options(bad);
      ADD_FAILURE() << (bad.empty() ? "" : bad[0]);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_FALSE(error.hint().empty()) << error.what();
    }
  }
  for (const char* good : {"1%", "0.05%", "100%", "off"})
    EXPECT_NO_THROW(parse_record_options({"--budget", good, "ls"})) << good;
  for (const char* good : {"5", "5:", ":5", "5:5"})
    EXPECT_NO_THROW(parse_record_options({"--steps", good, "ls"})) << good;
}

const Settings kSettings = {{"LD_PRELOAD", "/l/libddl.so"}, {"DDL_OUT", "/r"}};

TEST(Mpirun, ForwardsSettingsRightBehindItsName) {
  EXPECT_EQ(forward_settings({"mpirun", "-np", "2", "./train"}, kSettings),
            (Words{"mpirun", "-x", "LD_PRELOAD", "-x", "DDL_OUT", "-np", "2", "./train"}));
}

TEST(Mpirun, EachProgramOfAJobGetsThem) {
  EXPECT_EQ(forward_settings({"mpirun", "-np", "1", "./a", ":", "-np", "1", "./b"}, kSettings),
            (Words{"mpirun", "-x", "LD_PRELOAD", "-x", "DDL_OUT", "-np", "1", "./a", ":", "-x", "LD_PRELOAD", "-x",
                   "DDL_OUT", "-np", "1", "./b"}));
}

TEST(Mpirun, MergesAPreloadOfTheUser) {
  EXPECT_EQ(forward_settings({"mpirun", "-x", "LD_PRELOAD=/u/their.so", "./a"}, kSettings),
            (Words{"mpirun", "-x", "LD_PRELOAD", "-x", "DDL_OUT", "-x", "LD_PRELOAD=/l/libddl.so:/u/their.so", "./a"}));
  EXPECT_EQ(forward_settings({"mpirun", "-x", "PYTHONPATH=/u/theirs", "./a"}, {{"PYTHONPATH", "/l/hooks"}}),
            (Words{"mpirun", "-x", "PYTHONPATH", "-x", "PYTHONPATH=/l/hooks:/u/theirs", "./a"}));
}

TEST(Mpirun, AppendsToAnEnvironmentListInstead) {
  EXPECT_EQ(forward_settings({"mpirun", "--mca", "mca_base_env_list", "A;B=1", "./a"}, kSettings),
            (Words{"mpirun", "--mca", "mca_base_env_list", "A;B=1;LD_PRELOAD;DDL_OUT", "./a"}));
}

TEST(JobFile, KeepsWhatMattersAndNoSecret) {
  for (const char* name : {"OMPI_MCA_btl", "SLURM_JOB_ID", "OMP_NUM_THREADS", "NCCL_ALGO", "CUDA_VISIBLE_DEVICES",
                           "UCX_TLS", "FI_PROVIDER", "HOROVOD_FUSION_THRESHOLD"})
    EXPECT_TRUE(is_recorded_variable(name)) << name;
  for (const char* name : {"HOME", "PATH", "WANDB_API_KEY", "SLURM_JWT", "OMPI_SECRET", "NCCL_AUTH_TOKEN",
                           "PBS_password", "HOROVOD_SECRET_KEY", "AWS_REGION"})
    EXPECT_FALSE(is_recorded_variable(name)) << name;
  const char* environment[] = {"OMPI_MCA_btl=tcp,self", "SLURM_JWT=eyJhbGciOi", "HF_TOKEN=hf_s3cret", "NOEQUALS",
                               nullptr};
  const JobFile job = describe_job({"mpirun", "-x", "API_KEY=s3cret", "./train", "--hub-token", "hf_s3cret",
                                    "--password=s3cret", "--max-tokens", "512"},
                                   environment);
  EXPECT_EQ(job.env, (std::map<std::string, std::string>{{"OMPI_MCA_btl", "tcp,self"}}));
  EXPECT_EQ(job.launcher, "mpirun");
  const std::string text = to_json(job);
  EXPECT_EQ(text.find("s3cret"), std::string::npos) << text;
  EXPECT_NE(text.find("512"), std::string::npos) << text;
}

TEST(JobFile, IsJsonWhateverTheCommandHolds) {
  const char* environment[] = {"OMPI_X=\xff\xfe", nullptr};
  EXPECT_TRUE(nlohmann::json::accept(to_json(describe_job({"a\xff\n\"b"}, environment))));
}

TEST(JobFile, ProgramNames) {
  EXPECT_EQ(program_name({"/usr/bin/env"}), "env");
  EXPECT_EQ(program_name({"mpirun", "-np", "2", "/bin/true"}), "true");
  EXPECT_EQ(program_name({"mpirun", "-np", "2", "python3", "-u", "dir/my_train.py", "--x", "other.py"}), "my_train");
  EXPECT_EQ(program_name({"mpirun", "-np", "2", "./does-not-exist"}), "mpirun");
  EXPECT_EQ(program_name({}), "job");
}

TEST(Library, NeededLibrariesOfThisProgram) {
  const Words needed = needed_libraries("/proc/self/exe");
  EXPECT_TRUE(
      std::any_of(needed.begin(), needed.end(), [](const std::string& name) { return name.starts_with("libc.so"); }));
  EXPECT_THROW(needed_libraries("/etc/passwd"), Error);
  EXPECT_THROW(needed_libraries("/nonexistent"), Error);
}

TEST(Flavour, IsThatOfTheProgramAmongTheWords) {
  EXPECT_EQ(flavour_of({"true"}), Flavour::kOpenMpi) << "nothing says MPICH";
  EXPECT_EQ(flavour_of({}), Flavour::kOpenMpi);
  const std::string libraries = "/usr/lib/x86_64-linux-gnu/";
  const std::string uses_open_mpi = libraries + "libmpi_mpifh.so.40", uses_mpich = libraries + "libmpichfort.so.12";
  if (!std::filesystem::exists(uses_open_mpi) || !std::filesystem::exists(uses_mpich))
    GTEST_SKIP() << "needs both MPIs' Fortran libraries";
  EXPECT_EQ(flavour_of({"srun", "-n", "2", "nice", uses_mpich, "input"}), Flavour::kMpich);
  EXPECT_EQ(flavour_of({"srun", "-n", "2", uses_open_mpi, uses_mpich}), Flavour::kOpenMpi) << "the first decides";
}

TEST(Library, PathsThatThePreloadCannotName) { EXPECT_THROW(preload_value("/opt/my tools/libddl.so"), Error); }

TEST(Verbs, EachHasHelpWithAnExample) {
  for (const Verb& verb : verbs()) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_ddl({verb.name, "--help"}), 0);
    const std::string help = testing::internal::GetCapturedStdout();
    EXPECT_NE(help.find(std::string("usage: ddl ") + verb.name), std::string::npos) << help;
    EXPECT_NE(help.find(std::string("example:\n  ddl ") + verb.name), std::string::npos) << help;
    size_t widest = 0;
    for (size_t at = 0, end; at < help.size(); at = end + 1)
      end = std::min(help.find('\n', at), help.size()), widest = std::max(widest, end - at);
    EXPECT_LE(widest, 132u) << help;
  }
}

/// The versions of which it was measured (NVIDIA/nccl issue 2355).
TEST(NcclTiming, SaysWhichVersionIsDear) {
  for (const char* cheap : {"2.29.7", "2.28.9 from /usr/lib/libnccl.so.2", "3.0", "", "?"})
    EXPECT_EQ(cli::nccl_timing_cost(cheap), "") << cheap;
  for (const char* dear : {"2.31.2", "2.31.2 from /usr/lib/libnccl.so.2"})
    EXPECT_NE(cli::nccl_timing_cost(dear).find("4.3 to 13.3 %"), std::string::npos) << dear;
}

}  // namespace
}  // namespace ddl::cli
