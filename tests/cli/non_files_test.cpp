// FIFOs, sockets, devices, folders and links in the place of every file that a verb opens, and files and all of these
// in that of every folder: it does not wait there, and names the place.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "autotuner/emit.h"
#include "autotuner/emitted.h"
#include "cli/verbs.h"
#include "store/import.h"
#include "tests/autotuner/tuned_samples.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

namespace fs = std::filesystem;
using namespace test::literals;

/// Everything is tried with the limit that is promised where the machine does nothing else. What waits does so
/// until it is told to end.
const bool kAll = getenv("DDL_TEST_ALL") != nullptr;
constexpr double kTold_s = 20, kKilled_s = 5;
const double kMost_s = kAll ? 1 : kTold_s / 2, kMostOnceTold_s = kAll ? 1 : kKilled_s;

struct VerbEnded {
  int code = -1;  ///< -1: by a signal
  double time_s = 0;
  std::string text;  ///< of both streams
};

/// The verb in a process of its own, which is told to end after `term_s`, and killed if it does not. `output`: where
/// its output goes, if not to the text. Its input is `folder`/question, where there is one.
VerbEnded in_child(const Arguments& arguments, const fs::path& folder, double term_s = kTold_s, int output = -1) {
  const fs::path log = folder / "log";
  const auto begin = std::chrono::steady_clock::now();
  const auto passed_s = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const fs::path question = folder / "question";
    // of a FIFO that waits for no writer
    const int input = open(fs::exists(question) ? question.c_str() : "/dev/null", O_RDWR);
    if (fd < 0 || dup2(input, 0) < 0 || dup2(output < 0 ? fd : output, 1) < 0 || dup2(fd, 2) < 0) _exit(99);
    _exit(run_ddl(arguments));
  }
  VerbEnded ended;
  int status = 0;
  bool told = false;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (!told && passed_s() > term_s) {
      kill(child, SIGTERM);
      told = true;
    }
    if (passed_s() > term_s + kKilled_s) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // who was not to be told anything has waited for something
  ended.time_s = passed_s() - (told && term_s < kTold_s ? term_s : 0);
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ended.text = "(it had to be killed)";
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  ended.text += text.str();
  return ended;
}

enum class Kind { kFifo, kFolder, kSocket, kLink, kLinkToNothing, kDevice, kFile, kLinkToItself };
constexpr Kind kKinds[] = {Kind::kFifo, Kind::kFolder, Kind::kSocket, Kind::kLink, Kind::kLinkToNothing, Kind::kDevice};
constexpr Kind kNoFolders[] = {Kind::kFifo,          Kind::kFile,         Kind::kSocket, Kind::kLink,
                               Kind::kLinkToNothing, Kind::kLinkToItself, Kind::kDevice};
const char* const kKindNames[] = {"FIFO",          "folder", "socket", "symbolic link",
                                  "symbolic link", "device", "file",   "symbolic link"};

/// What was there stands under another name behind the link. False: this user cannot make one (devices).
bool put(Kind kind, const fs::path& place) {
  const fs::path aside = place.parent_path() / "aside";
  fs::remove_all(aside);
  if (fs::exists(fs::symlink_status(place))) fs::rename(place, aside);
  switch (kind) {
    case Kind::kFifo:
      return mkfifo(place.c_str(), 0600) == 0;
    case Kind::kFolder:
      return fs::create_directory(place);
    case Kind::kSocket: {
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      if (place.string().size() >= sizeof address.sun_path) return false;
      place.string().copy(address.sun_path, sizeof address.sun_path - 1);
      const bool made = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
      close(fd);
      return made;
    }
    case Kind::kLink:
      fs::create_symlink(aside, place);
      return true;
    case Kind::kLinkToNothing:
      fs::create_symlink(place.parent_path() / "nowhere", place);
      return true;
    case Kind::kLinkToItself:
      fs::create_symlink(place, place);
      return true;
    case Kind::kFile:
      std::ofstream(place) << "not a folder\n";
      return true;
    case Kind::kDevice:
      return mknod(place.c_str(), S_IFCHR | 0600, makedev(5, 0)) == 0;
  }
  return false;
}

void take_away(const fs::path& place) {
  fs::remove_all(place);
  const fs::path aside = place.parent_path() / "aside";
  if (fs::exists(aside)) fs::rename(aside, place);
}

class NonFiles : public testing::Test {
 protected:
  NonFiles() {
    test::run().ranks(2).steps(4).compute(10_ms).allreduce(1_MiB, 1_ms).job_json().write(run_);
    EXPECT_EQ(in_child({"report", run_.string()}, folder_.path()).code, 0);
    std::ofstream(run_ / "stalls.jsonl") << "";
    for (const auto& entry : fs::directory_iterator(run_))
      if (entry.path().extension() == ".spool") spool_ = entry.path();
  }
  test::ScratchFolder folder_;
  fs::path run_ = folder_ / "job.ddl";
  fs::path spool_;
};

/// Every verb that reads a run, each of which can be the first one that does.
std::vector<Arguments> verbs_of(const std::string& run, const fs::path& folder) {
  std::vector<Arguments> verbs = {{"report", run},
                                  {"report", run, "--json"},
                                  {"report", run, "loss"},
                                  {"report", run, "--html", (folder / "page.html").string()},
                                  {"report", run, "--share"},
                                  {"analyze", run},
                                  {"doctor", run},
                                  {"diff", run, run},
                                  {"goodput", run},
                                  {"scaling", run},
                                  {"query", run, "SELECT 1"},
                                  {"export", "csv", run, "--table", "v_rank"},
                                  {"export", "perfetto", run, "-o", (folder / "trace").string()},
                                  {"export", "chrome-json", run, "-o", (folder / "traces").string()},
                                  {"export", "folded", run},
                                  {"export", "prometheus", run},
                                  {"export", "otlp", run},
                                  {"export", "chakra", run, "-o", (folder / "traces").string()},
                                  {"history", "add", run, "--database", (folder / "history.sqlite").string()},
                                  {"top", run, "-b", "-n", "1"},
                                  {"top", run, "--replay", "--json", "-n", "1"},
                                  {"mcp", folder.string()}};
  for (const char* model : {"allreduce", "fit", "fusion", "pipeline", "partition", "limits", "train", "whatif",
                            "compression", "consistency"})
    verbs.push_back({"model", model, run});
  for (Arguments& verb : verbs)
    if (verb[0] == "model" && verb[1] == "pipeline") verb.insert(verb.end(), {"--micro-batches", "8"});
  return verbs;
}

/// A question to ddl mcp, which reads standard input.
void ask_about_the_run(const fs::path& folder) {
  std::ofstream(folder / "question")
      << R"({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "report", "arguments": {"run": "job.ddl"}}})"
      << "\n";
}

TEST_F(NonFiles, InARunDirectory) {
  const std::string run = run_.string();
  const std::vector<Arguments> verbs = verbs_of(run, folder_.path());
  ask_about_the_run(folder_.path());
  struct Place {
    fs::path file;
    bool store;  ///< no verb that reads the store goes on without it
    bool named;  ///< where the run is read all the same, the report says what was left out
  };
  const Place places[] = {{run_ / "run.sqlite", true, true},
                          {run_ / "job.json", false, true},
                          {run_ / "stalls.jsonl", false, true},
                          {spool_, false, true},
                          {fs::path(spool_).replace_extension(".live"), false, false},
                          {run_ / "run.sqlite-journal", false, false},
                          {run_ / "run.sqlite-wal", false, false},
                          {folder_ / "job.ddl.notes", false, false}};
  size_t cases = 0, place_number = 0;
  for (const Place& place : places) {
    ++place_number;
    for (const Kind kind : kKinds) {
      if (!put(kind, place.file)) continue;
      const std::string name = place.file.filename().string(), what = kKindNames[static_cast<int>(kind)];
      size_t verb_number = 0;
      for (const Arguments& verb : verbs) {
        // Each verb with a FIFO, which is what waits, in what it reads; of the others every second pair of a verb and a
        // place, with one kind each. All triples are for soak.
        const bool waits = kind == Kind::kFifo && (place.store || place.named);
        if (!kAll && !waits && (verb_number++ + place_number) % (2 * std::size(kKinds)) != static_cast<size_t>(kind))
          continue;
        if (!place.store && place.named) fs::remove(run_ / "run.sqlite");  // made again, of what is there now
        const VerbEnded ended = in_child(verb, folder_.path());
        ++cases;
        const std::string which = verb[0] + " " + verb[1] + ", " + name + ": a " + what + ": ";
        EXPECT_LT(ended.time_s, kMost_s) << which;
        EXPECT_GE(ended.code, 0) << which << ended.text;
        const bool of_store =
            (verb[0] != "top" || verb[2] == "--replay") && !(place.store && kind == Kind::kLinkToNothing);
        if (place.store && of_store && verb[0] != "mcp") {
          EXPECT_EQ(ended.code, 3) << which << ended.text;
          EXPECT_NE(ended.text.find("run.sqlite: a " + what), std::string::npos) << which << ended.text;
        }
        if (place.store && of_store && verb[0] == "mcp") {
          EXPECT_NE(ended.text.find("run.sqlite: a " + what), std::string::npos) << ended.text;
        }
        if (!place.store && place.named && verb[0] == "report" && verb.size() > 2 && verb[2] == "loss") {
          EXPECT_NE(ended.text.find(name + ": a " + what), std::string::npos) << ended.text;
        }
        for (const char* made : {"page.html", "trace", "traces", "job.share", "history.sqlite"})
          fs::remove_all(folder_ / made);
      }
      if (!place.store && place.named) fs::remove(run_ / "run.sqlite");
      take_away(place.file);
    }
  }
  EXPECT_EQ(in_child({"report", run}, folder_.path()).code, 0) << "nothing was lost by it";
  std::printf("%zu verbs in %zu places with a file that is none\n", cases, std::size(places));
}

/// Told to end after a while that is now shorter, now longer than what it does until then.
double moment_s(size_t number) {
  constexpr double kMoments_s[] = {0, 0.002, 0.005, 0.01, 0.02, 0.05};
  return kMoments_s[number % std::size(kMoments_s)];
}

TEST_F(NonFiles, SigtermEndsEveryVerbInEveryPlace) {
  const std::string run = run_.string();
  const std::vector<Arguments> verbs = verbs_of(run, folder_.path());
  ask_about_the_run(folder_.path());
  const fs::path places[] = {run_ / "run.sqlite",
                             run_ / "job.json",
                             run_ / "stalls.jsonl",
                             spool_,
                             fs::path(spool_).replace_extension(".live"),
                             run_ / "run.sqlite-journal",
                             run_ / "run.sqlite-wal",
                             folder_ / "job.ddl.notes"};
  size_t cases = 0, number = 0;
  for (const fs::path& place : places) {
    for (const Kind kind : kKinds) {
      if (!put(kind, place)) continue;
      for (const Arguments& verb : verbs) {
        // Every eleventh triple; all of them, each at one of the moments, are for soak.
        if (++number; !kAll && number % 11 != 0) continue;
        if (place != run_ / "run.sqlite") fs::remove(run_ / "run.sqlite");  // most verbs make it, which takes a while
        const VerbEnded ended = in_child(verb, folder_.path(), moment_s(number));
        ++cases;
        const std::string which = verb[0] + " " + verb[1] + ", " + place.filename().string() + ": a " +
                                  kKindNames[static_cast<int>(kind)] + ": ";
        EXPECT_LT(ended.time_s, kMostOnceTold_s) << which;
        EXPECT_EQ(ended.text.find("killed"), std::string::npos) << which;
        for (const char* made : {"page.html", "trace", "traces", "job.share", "history.sqlite"})
          fs::remove_all(folder_ / made);
      }
      take_away(place);
    }
  }
  fs::remove(run_ / "run.sqlite");
  EXPECT_EQ(in_child({"report", run}, folder_.path()).code, 0) << "nothing was lost by it";
  std::printf("%zu verbs told to end\n", cases);
}

/// A verb that is told to end while it waits, wherever that is: at a FIFO that somebody named for its output or its
/// input, at a stopped reader.
TEST_F(NonFiles, SigtermEndsEveryVerb) {
  for (const Arguments& verb : verbs_of(run_.string(), folder_.path())) {
    if (verb[0] == "mcp") continue;
    // Nobody reads what it prints.
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ASSERT_GT(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
    const std::string filler(4096, 'x');
    ASSERT_EQ(write(ends[1], filler.data(), filler.size()), 4096);
    const VerbEnded ended = in_child(verb, folder_.path(), 0.1, ends[1]);
    close(ends[0]);
    close(ends[1]);
    EXPECT_LT(ended.time_s, kMostOnceTold_s) << verb[0] << " " << verb[1];
    EXPECT_EQ(ended.text.find("killed"), std::string::npos) << verb[0] << " " << verb[1];
  }
}

TEST_F(NonFiles, InWhatAUserNames) {
  const fs::path file = folder_ / "input.csv";
  const std::string name = file.string();
  std::vector<Arguments> verbs;
  for (const ImportFormat& format : import_formats())
    verbs.push_back({"import", format.name, name, "-o", (folder_ / "new.ddl").string()});
  verbs.insert(verbs.end(), {{"analyze", run_.string(), "--try", name},
                             {"query", name, "SELECT 1"},
                             {"scaling", name},
                             {"history", "add", run_.string(), "--database", name},
                             {"history", "list", "--database", name},
                             {"model", "fit", "--csv", name},
                             {"model", "epochs", "--csv", name},
                             {"model", "dataset", "--csv", name},
                             {"model", "mapping", run_.string(), "--traffic", name},
                             {"model", "partition", "--stages", "2", "--profile", name},
                             {"model", "fusion", "--backward-ms", "100", "--tensors", name},
                             {"model", "fusion", run_.string(), "--sweep", name},
                             {"model", "allreduce", run_.string(), "--links", name}});
  for (const Kind kind : kKinds) {
    if (kind == Kind::kLink || !put(kind, file)) continue;  // a user may name a link
    for (const Arguments& verb : verbs) {
      if (verb[0] == "history" && kind == Kind::kLinkToNothing) continue;  // makes the file that the link names
      const VerbEnded ended = in_child(verb, folder_.path());
      EXPECT_LT(ended.time_s, kMost_s) << verb[0] << " " << verb[1] << " " << kKindNames[static_cast<int>(kind)];
      EXPECT_GT(ended.code, 0) << verb[0] << " " << verb[1] << ": " << ended.text;
      EXPECT_NE(ended.text.find(name), std::string::npos) << verb[0] << " " << verb[1] << ": " << ended.text;
      EXPECT_FALSE(fs::exists(folder_ / "new.ddl"));
    }
    take_away(file);
  }
}

/// Where it writes several files they have names of its own: what is there and no file is named, and stays.
TEST_F(NonFiles, InFoldersThatAreWrittenTo) {
  const std::string run = run_.string();
  const fs::path out = folder_ / "out";
  std::ofstream(folder_ / "links.csv") << "from,to,gb_per_s\na,b,10\nb,a,10\n";
  struct Case {
    const char* file;
    Arguments verb;
  };
  const Case cases[] = {
      {"v_step.csv", {"export", "csv", run, "-o", out.string()}},
      {"communicators.json", {"export", "chakra", run, "-o", out.string()}},
      {"ddl.1.et", {"export", "chakra", run, "-o", out.string()}},
      {"ddl-job.prom", {"export", "prometheus", run, "--textfile", out.string()}},
      {"rankfile", {"model", "mapping", run, "--links", (folder_ / "links.csv").string(), "--emit", out.string()}}};
  for (const Case& c : cases) {
    fs::create_directory(out);
    const VerbEnded good = in_child(c.verb, folder_.path());
    EXPECT_EQ(good.code, 0) << c.verb[0] << " " << c.verb[1] << good.text;
    EXPECT_TRUE(fs::is_regular_file(out / c.file)) << c.file;
    for (const Kind kind : kKinds) {
      fs::remove_all(out);
      fs::create_directory(out);
      if (!put(kind, out / c.file)) continue;
      const fs::file_status before = fs::symlink_status(out / c.file);
      const VerbEnded ended = in_child(c.verb, folder_.path());
      const std::string which = std::string(c.file) + ": a " + kKindNames[static_cast<int>(kind)] + ": ";
      EXPECT_LT(ended.time_s, kMost_s) << which;
      EXPECT_EQ(ended.code, 1) << which << ended.text;
      EXPECT_NE(ended.text.find(which.substr(0, which.size() - 2)), std::string::npos) << which << ended.text;
      EXPECT_EQ(fs::symlink_status(out / c.file).type(), before.type()) << which;
      EXPECT_EQ(std::distance(fs::directory_iterator(out), {}), 1) << which << "nothing beside it";
    }
    fs::remove_all(out);
  }
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
}

TEST_F(NonFiles, ALinkThatTheUserNamesIsFollowed) {
  fs::create_symlink(run_ / "run.sqlite", folder_ / "link.sqlite");
  EXPECT_EQ(in_child({"query", (folder_ / "link.sqlite").string(), "SELECT 1"}, folder_.path()).code, 0);
}

TEST_F(NonFiles, InFilesOfTheTuner) {
  const fs::path tuned = folder_ / "tuned";
  fs::create_directories(tuned / "trials");
  const Arguments tune = {"tune", "-o", tuned.string(), "--tunable", "n=1,2", "--", "true", "{n}"};
  struct Case {
    const char* file;
    Arguments verb;
  };
  // What stands in the place of a trial's recording: tests/autotuner/tune_guards.py, since trials are run
  // by the program ddl.
  const Case cases[] = {{"tune.sqlite", tune},
                        {"tune.sqlite-journal", tune},
                        {"trials/0001.log", tune},
                        {"manifest.json", {"tune", "--apply", tuned.string(), "--", "true"}}};
  for (const Case& c : cases) {
    for (const Kind kind : kKinds) {
      if (kind == Kind::kLinkToNothing || !put(kind, tuned / c.file)) continue;
      const VerbEnded ended = in_child(c.verb, folder_.path());
      EXPECT_LT(ended.time_s, kMost_s) << c.file << " " << kKindNames[static_cast<int>(kind)];
      EXPECT_GT(ended.code, 0) << c.file << " " << kKindNames[static_cast<int>(kind)] << ": " << ended.text;
      if (kind != Kind::kFolder) {
        EXPECT_NE(ended.text.find(c.file), std::string::npos)
            << kKindNames[static_cast<int>(kind)] << ": " << ended.text;
      }
      take_away(tuned / c.file);
      fs::remove_all(tuned);
      fs::create_directories(tuned / "trials");
    }
  }
}

/// Folders of ours in a run or a tuning are never reached through a link; those that a user names are. What
/// stands there stays.
TEST_F(NonFiles, InThePlaceOfFolders) {
  const std::string run = run_.string();
  const fs::path tuned = folder_ / "tuned", out = folder_ / "out";
  const std::string into = out.string();
  std::ofstream(folder_ / "links.csv") << "from,to,gb_per_s\na,b,10\nb,a,10\n";
  tune::emit(tune::tuned_sample(), tuned);
  std::ofstream(folder_ / "trace.json")
      << R"([{"ph": "X", "name": "MPI_Barrier", "cat": "mpi", "pid": 0, "tid": 1, "ts": 5, "dur": 2, "args": {"comm": "MPI_COMM_WORLD"}}])";
  const Arguments tuning = {"tune", "-o", tuned.string(), "--tunable", "n=1,2", "--", "true", "{n}"};
  struct Case {
    fs::path place;
    Arguments verb;
    bool by_user = false;
  };
  const Case cases[] = {
      {tuned / "trials", tuning},
      {tuned / "trials", {"tune", "--in-run", "-o", tuned.string(), "--tunable", "n=1,2", "--", "true"}},
      {tuned, tuning},
      {tuned, {"tune", "-o", tuned.string() + "/", "--tunable", "n=1,2", "--", "true", "{n}"}},
      {tuned / "verify", {"tune", "--verify", tuned.string(), "--", "true"}},
      {run_ / "parts", {"analyze", run, "--prepare", "--threads", "1"}},
      {out, {"record", "-o", into, "--", "true"}},
      {out, {"import", "chrome", (folder_ / "trace.json").string(), "-o", into}},
      {out, {"report", into}, true},
      {out, {"export", "csv", run, "-o", into}, true},
      {out, {"export", "chakra", run, "-o", into}, true},
      {out, {"export", "chrome-json", run, "-o", into}, true},
      {out, {"export", "prometheus", run, "--textfile", into}, true},
      {out, {"model", "mapping", run, "--links", (folder_ / "links.csv").string(), "--emit", into}, true},
      {out, {"history", "add", run, "--database", (out / "history.sqlite").string()}, true},
      {out, {"tune", "--apply", into, "--", "true"}, true},
      {out, {"mcp", into}, true}};
  for (const Case& c : cases) {
    for (const Kind kind : kNoFolders) {
      if (!fs::exists(c.place)) fs::create_directory(c.place);
      if (!put(kind, c.place)) continue;
      const fs::file_status before = fs::symlink_status(c.place);
      const VerbEnded ended = in_child(c.verb, folder_.path());
      const std::string which = fmt::format("{}: a {}: ", fmt::join(c.verb, " "), kKindNames[static_cast<int>(kind)]);
      EXPECT_LT(ended.time_s, kMost_s) << which;
      EXPECT_EQ(fs::symlink_status(c.place).type(), before.type()) << which;
      EXPECT_FALSE(fs::exists(c.place.parent_path() / "nowhere")) << which;
      EXPECT_EQ(ended.text.find("filesystem error"), std::string::npos) << which << ended.text;
      if (!c.by_user || kind != Kind::kLink) {
        EXPECT_GT(ended.code, 0) << which << ended.text;
        EXPECT_NE(ended.text.find(c.place.string()), std::string::npos) << which << ended.text;
        EXPECT_NE(ended.text.find("hint: "), std::string::npos) << which << ended.text;
      }
      if (!c.by_user && c.verb[0] != "record" && c.verb[0] != "import") {
        EXPECT_NE(ended.text.find(c.place.string() + ": a " + kKindNames[static_cast<int>(kind)] + ", not a folder"),
                  std::string::npos)
            << which << ended.text;
      }
      take_away(c.place);
    }
    if (c.place == out) fs::remove_all(out);
  }
}

TEST_F(NonFiles, TheSetupOfTop) {
  setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
  fs::create_directory(folder_ / "ddl");
  const fs::path file = folder_ / "ddl" / "top.conf";
  for (const Kind kind : kKinds) {
    if (!put(kind, file)) continue;
    const VerbEnded ended = in_child({"top", run_.string(), "-b", "-n", "1"}, folder_.path());
    EXPECT_LT(ended.time_s, kMost_s) << kKindNames[static_cast<int>(kind)];
    EXPECT_EQ(ended.code, 0) << ended.text;
    if (kind != Kind::kLink && kind != Kind::kLinkToNothing) {
      EXPECT_NE(ended.text.find("top.conf: a "), std::string::npos) << ended.text;
    }
    take_away(file);
  }
  unsetenv("XDG_CONFIG_HOME");
}

TEST_F(NonFiles, SigtermEndsWhatWaits) {
  const fs::path output = folder_ / "output";
  ASSERT_EQ(mkfifo(output.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder_ / "question").c_str(), 0600), 0);  // ddl mcp is asked nothing
  const Arguments verbs[] = {
      {"export", "csv", run_.string(), "--table", "v_rank", "-o", output.string()},
      {"export", "perfetto", run_.string(), "-o", output.string()},
      {"export", "chrome-json", run_.string(), "--ranks", "0", "-o", output.string()},
      {"export", "folded", run_.string(), "-o", output.string()},
      {"export", "prometheus", run_.string(), "-o", output.string()},
      {"export", "prometheus", run_.string(), "--watch", "30s", "-o", output.string()},
      {"export", "otlp", run_.string(), "-o", output.string()},
      {"report", run_.string(), "--html", output.string()},
      {"scaling", run_.string(), run_.string(), "--strong", "--html", output.string()},
      {"record", "-o", (folder_ / "other.ddl").string(), "--", "sleep", "60"},
      {"mcp", folder_.path().string()},
      {"export", "prometheus", (folder_ / "none.ddl").string(), "--watch", "30s"},
      {"query", run_.string(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"},
      {"top", run_.string(), "-b", "-n", "1000"}};
  for (const Arguments& verb : verbs) {
    for (const double told_s :
         // before it waits, too
         {0.0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.2}) {
      const VerbEnded ended = in_child(verb, folder_.path(), told_s);
      EXPECT_LT(ended.time_s, kMostOnceTold_s)
          << verb[0] << " " << verb[1] << " after " << told_s << " s: " << ended.text;
      EXPECT_TRUE(ended.code == -1 || (verb[0] == "record" && ended.code == 128 + SIGTERM))
          << verb[0] << " " << verb[1] << ": ended by itself: " << ended.code << " " << ended.text;
      EXPECT_EQ(ended.text.find("killed)"), std::string::npos)
          << verb[0] << " " << verb[1] << " after " << told_s << " s";
      EXPECT_TRUE(fs::is_fifo(output)) << "it is the user's";
      fs::remove_all(folder_ / "other.ddl");
    }
  }
  // A reader that has stopped: the pipe is full.
  const int reader = open(output.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const VerbEnded ended = in_child({"report", run_.string(), "--html", output.string()}, folder_.path(), 1);
  EXPECT_LT(ended.time_s, kMost_s) << ended.text;
  close(reader);
}

}  // namespace
}  // namespace ddl::cli
