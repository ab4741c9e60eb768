#include "cli/in_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "analyzer/statistics.h"
#include "autotuner/blocks.h"
#include "cli/tune_trial.h"
#include "core/error.h"
#include "core/own_library.h"
#include "reports/format.h"
#include "tui/observer.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

using std::chrono::milliseconds;
using tune::Outcome;
using tune::Stage;

constexpr uint64_t kFirstBlockSteps = 8, kFirstFillerSteps = 4;
constexpr size_t kReadySteps = 4;     // of the default, before anything is decided
constexpr double kHeardWithin_s = 3;  // of the end of a first step: a job that has not read the file by then does not
constexpr double kAllWithin_s = 6, kAllWithinOfHosts_s = 40;  // other hosts' spools are seen late
constexpr size_t kCallsWithoutSteps = 8;
constexpr milliseconds kLeastPause(10), kMostPause(50);  // between two looks
constexpr double kFiller_s = 0.02;
constexpr size_t kAnyNumber = 1'000'000;
constexpr double kStopped_s = 60, kStoppedSteps = 20;  // no step has ended for so long: the job hangs
constexpr uint64_t kLeastHalf = 2, kMostHalf = 60, kMostHalfUnknown = 10;

constexpr const char* kHook =
    "two lines before each step, on every rank: ddl_tune(k) and ddl_tuned(NAME, VALUE) of ddl/annotate.h, or tune and tuned of "
    "ddl_annotate.py; ddl tune without --in-run starts the job for each trial instead";

/// What each of a point's two parts in a round is to take.
double wanted_s(Stage stage) { return stage == Stage::kConfirm ? 0.8 : stage == Stage::kRace ? 0.25 : 0.15; }

std::string ranks_words(const std::set<int32_t>& ranks) { return tui::ranks_phrase({ranks.begin(), ranks.end()}); }

std::string text_of_values(const tune::Environment& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (tune::is_left_alone(value)) continue;
    if (value.find('\n') != std::string::npos)
      throw Error(fmt::format("a value of {} has a line break, which the schedule cannot hold", name),
                  "use values without line breaks", ExitCode::kUsage);
    text += fmt::format("{}={}\n", name, value);
  }
  if (text.size() >= kTuneTextBytes)
    throw Error("the values of all knobs are too long for the schedule", "shorten the values", ExitCode::kUsage);
  return text;
}

void fill(TuneBlock& block, const std::string& text) { std::memcpy(block.text, text.c_str(), text.size() + 1); }

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace

InRun::InRun(Request request, Tell told)
    : request_(std::move(request)), told_(std::move(told)), steps_(request_.folder / "in-run.ddl") {
  steps_.on_block([this](int32_t rank, uint64_t step, int64_t block) { check(rank, step, block); });
  try {
    begin();
  } catch (...) {
    clear_away();
    throw;
  }
}

InRun::~InRun() { clear_away(); }

/// Ends the job if it runs, and removes the schedule.
void InRun::clear_away() {
  job_.reset();
  std::error_code error;
  for (fs::directory_iterator file(request_.folder, error), end; !error && file != end; file.increment(error))
    if (file->path().filename().string().starts_with("schedule.") && file->path().extension() != ".csv")
      fs::remove(file->path(), error);
}

void InRun::begin() {
  clear_away();
  const fs::path base = request_.folder / "schedule";
  std::error_code error;
  fs::remove_all(recording(), error);
  TuneBlock first{.end = kFirstBlockSteps, .filler_steps = kFirstFillerSteps, .patience_s = patience_s_};
  fill(first, text_of_values(request_.start));
  if (!files_.begin(base.c_str()))
    throw Error(fmt::format("{}: the name is too long", base.string()), "choose another directory with -o");
  if (const int failed = files_.write(first); failed != 0)
    throw CannotWrite(fmt::format("cannot write the tuning schedule {}.0: {}", base.string(), std::strerror(failed)),
                      "the schedule needs hard links: name a directory (-o) on a file system that has them");
  adopt();

  Launch launch{{own_program().string(), "record", "-o", recording().string(), "--"},
                request_.job.environment,
                output().string(),
                request_.job.unset};
  for (std::string& word : launched(request_.job)) launch.command.push_back(std::move(word));
  launch.settings.emplace_back("DDL_TUNE_FILE", base.string());
  started_ = Clock::now();
  job_ = std::make_unique<RunningJob>(launch);
  while (!steps_.all_follow() || steps_.ended() < kReadySteps) {
    if (!look()) {
      if (job_->told_to_end()) throw Error("interrupted before anything was measured");
      if (ended_ && ended_->shell_code() != 0)
        fail(fmt::format("the job fails with its defaults: exit code {}: {}", ended_->shell_code(),
                         words_of_failure(output())),
             "");
      fail(steps_.following().empty() ? fmt::format("the job ended after {} without reading DDL_TUNE_FILE",
                                                    reports::plural(static_cast<int64_t>(steps_.most_ended()), "step"))
                                      : fmt::format("the job ended after {}, too few to compare anything",
                                                    reports::plural(static_cast<int64_t>(steps_.most_ended()), "step")),
           steps_.following().empty() ? kHook : "let the job run for more steps: --in-run tunes it within one run");
    }
    fail_if_it_does_not_follow();
  }
  std::vector<double> known;
  for (uint64_t step = *steps_.newest() + 1; step-- > 0 && known.size() < kReadySteps - 1;)
    if (const auto step_s = steps_.step_s(step)) known.push_back(*step_s);
  default_step_s_ = median_of(known);
  known_step_s_[0] = default_step_s_;
}

void InRun::fail(const std::string& why, const std::string& hint) {
  throw Error(why, hint.empty() ? fmt::format("see {}", output().string()) : hint);
}

void InRun::fail_if_it_does_not_follow() {
  const auto now = Clock::now();
  const auto since = [&](const std::optional<Clock::time_point>& moment) {
    return moment ? std::chrono::duration<double>(now - *moment).count() : 0;
  };
  if (!trouble_.empty()) fail(trouble_, kHook);
  if (steps_.most_ended() == 0) first_step_.reset();  // those of a preparing mpirun do not count
  if (!first_step_ && steps_.most_ended() > 0) first_step_ = now;
  if (!first_follower_ && !steps_.following().empty()) first_follower_ = now;
  const auto steps = reports::plural(static_cast<int64_t>(steps_.most_ended()), "step");
  if (!first_follower_ && since(first_step_) > kHeardWithin_s)
    fail(fmt::format("the job ran {} without reading DDL_TUNE_FILE", steps), kHook);
  const std::set<int32_t> others = steps_.not_following();
  if (first_step_ && !others.empty() && since(first_follower_) > (hosts() > 1 ? kAllWithinOfHosts_s : kAllWithin_s))
    fail(fmt::format("{} never read DDL_TUNE_FILE in {}; {} {}", ranks_words(others), steps,
                     ranks_words(steps_.following()), steps_.following().size() == 1 ? "does" : "do"),
         kHook);
  if (steps_.asks_without_steps(kCallsWithoutSteps) && since(first_follower_) > kHeardWithin_s)
    fail("the job reads DDL_TUNE_FILE but marks no steps, so step times are unknown",
         "mark each step: ddl_step_begin(k) and ddl_step_end() of ddl/annotate.h, or step(k) of ddl_annotate.py");
  if (spent_s() > std::max(request_.trials ? kLeastLimit_s : 0, request_.budget_s))
    fail(fmt::format("--budget {} ran out before all ranks had run {} steps",
                     reports::short_duration(static_cast<int64_t>(request_.budget_s * 1e9)), kReadySteps),
         "");
}

// Ranks that say another block than the one that holds their step would make whatever is measured worthless, and
// the job may hang.
void InRun::check(int32_t rank, uint64_t step, int64_t block) {
  if (!trouble_.empty()) return;
  if (block < 0) {
    trouble_ = fmt::format("rank {} could not read the schedule in step {}", rank, step);
    return;
  }
  if (static_cast<size_t>(block) >= blocks_.size()) adopt();
  if (static_cast<size_t>(block) < blocks_.size() && step >= blocks_[static_cast<size_t>(block)].begin &&
      step < blocks_[static_cast<size_t>(block)].end)
    return;
  trouble_ = fmt::format(
      "rank {} ran step {} with the values of another step: ddl_tune(k) has to be called before step k, with its number",
      rank, step);
}

double InRun::spent_s() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

void InRun::search_in(const tune::Space& space, double samples) {
  space_ = &space;
  samples_ = samples;
}

std::string InRun::text_of(size_t point) const {
  tune::Environment values;
  for (const auto& [name, value] : tune::values_at(*space_, point)) values.emplace_back(name, value);
  return text_of_values(values);
}

// What a job crashes or hangs with may be the reason.
std::string InRun::in_force(uint64_t step) const {
  for (const Block& block : blocks_)
    if (step >= block.begin && step < block.end)
      return fmt::format("{} was in force, since step {}", block.values.empty() ? "no value" : block.values,
                         block.begin);
  return "";
}

double InRun::expected_step_s(size_t point) const {
  const auto known = known_step_s_.find(point);
  return known != known_step_s_.end() ? known->second : default_step_s_;
}

uint64_t InRun::half_steps(Stage stage, size_t point) const {
  return tune::steps_for(wanted_s(stage), expected_step_s(point), kLeastHalf,
                         known_step_s_.contains(point) ? kMostHalf : kMostHalfUnknown);
}

void InRun::adopt() {
  TuneBlock block;
  while (files_.read(blocks_.size(), &block) == 0)
    blocks_.push_back({block.begin, block.end, block.of_rank, on_one_line(block.text)});
}

std::optional<size_t> InRun::publish(const std::string& text, std::optional<uint64_t> steps, double step_s) {
  for (;;) {
    adopt();
    const Block& last = blocks_.back();
    if (last.end == kTuneNoEnd) return std::nullopt;
    const uint64_t fillers = tune::steps_for(kFiller_s, step_s, 1, 1000);
    patience_s_ = tune::patience_s_for(fillers, step_s);
    TuneBlock block{.number = blocks_.size(),
                    .begin = last.end,
                    .end = steps ? last.end + *steps : kTuneNoEnd,
                    .filler_steps = fillers,
                    .patience_s = patience_s_};
    fill(block, text);
    const int failed = files_.write(block);
    if (failed == EEXIST) continue;  // a rank was there first
    if (failed != 0)
      throw CannotWrite(fmt::format("cannot write the tuning schedule: {}", std::strerror(failed)),
                        fmt::format("the job returns to its defaults in {} s", patience_s_));
    blocks_.push_back({block.begin, block.end, false, on_one_line(text)});
    return blocks_.size() - 1;
  }
}

bool InRun::look() {
  double step_s = 0;  // the shortest
  for (const auto& [point, known_s] : known_step_s_) step_s = step_s > 0 ? std::min(step_s, known_s) : known_s;
  const auto pause = std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(step_s / 2));
  if (!ended_) ended_ = job_->wait(std::clamp(pause, kLeastPause, kMostPause));
  steps_.look();
  if (const auto back = steps_.went_back(); back && trouble_.empty())
    trouble_ = fmt::format("rank {} ran step {} after step {}: steps are to be numbered on, over epochs too",
                           back->rank, back->to, back->from);
  return !ended_ && !steps_.is_over();
}

/// Waits until all ranks have ended the step. False: that will not come.
bool InRun::wait_for_step(uint64_t step) {
  auto moved = Clock::now(), finished = moved;
  double longest_s = kStopped_s;
  for (const auto& [point, known_s] : known_step_s_) longest_s = std::max(longest_s, kStoppedSteps * known_s);
  std::optional<uint64_t> newest = steps_.newest();
  uint64_t progress = steps_.progress();
  while (steps_.newest().value_or(0) < step) {
    const bool runs = look();
    if (!trouble_.empty()) throw Error(trouble_, kHook);
    if (newest != steps_.newest()) newest = steps_.newest(), moved = Clock::now();
    if (progress != steps_.progress()) progress = steps_.progress(), finished = Clock::now();
    const double still_s = std::chrono::duration<double>(Clock::now() - moved).count();
    if (runs && still_s < longest_s) continue;
    if (steps_.newest().value_or(0) >= step) break;
    // Ranks that evaluate or save do something between two steps.
    hangs_ = runs && std::chrono::duration<double>(Clock::now() - finished).count() >= longest_s;
    over_in_ = in_force(steps_.newest() ? *steps_.newest() + 1 : 0);
    why_over_ = runs                  ? fmt::format("no step has ended for {:.0f} s", still_s)
                : job_->told_to_end() ? "the job was told to end"
                                      : fmt::format("the job ended after {}",
                                                    reports::plural(static_cast<int64_t>(steps_.ended()), "step"));
    return false;
  }
  return true;
}

std::vector<Outcome> InRun::measure_round(Stage stage, const tune::Round& round) {
  std::vector<uint64_t> halves;
  for (const size_t point : round.points) halves.push_back(half_steps(stage, point));
  struct Made {
    size_t index = 0;
    uint64_t begin = 0, end = 0;
  };
  std::vector<Made> made;
  for (const tune::PlannedBlock& planned : tune::plan_round(halves)) {
    const size_t point = round.points[planned.index];
    const std::optional<size_t> number = publish(text_of(point), planned.steps, expected_step_s(point));
    if (!number) {
      why_over_ =
          fmt::format("the job had heard nothing of the tuner for {} s, and went back to its defaults", patience_s_);
      return {};
    }
    made.push_back({planned.index, blocks_[*number].begin, blocks_[*number].end});
  }
  const uint64_t last = made.back().end - 1;
  if (!wait_for_step(last)) return {};
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < round.points.size(); ++i) {
    std::vector<std::vector<double>> times;
    Trial trial{.round = round.number, .stage = stage, .point = round.points[i]};
    for (const Made& block : made) {
      if (block.index != i) continue;
      times.emplace_back();
      for (uint64_t step = block.begin; step < block.end; ++step)
        if (const auto step_s = steps_.step_s(step)) times.back().push_back(*step_s), trial.wall_s += *step_s;
      steps_left_out_ += std::min<uint64_t>(times.back().size(), tune::kWarmUpSteps);
      steps_counted_ += times.back().size() - std::min<uint64_t>(times.back().size(), tune::kWarmUpSteps);
    }
    trial.step_s = tune::step_s_of(times);
    Outcome outcome{.why = "none of its steps could be counted: are they numbered one by one?", .wall_s = trial.wall_s};
    if (trial.step_s) {
      outcome.cost = *trial.step_s / samples_;
      outcome.why.clear();
      known_step_s_[trial.point] = *trial.step_s;
      longest_step_s_[trial.point] = std::max(longest_step_s_[trial.point], *trial.step_s);
    }
    ++count_;
    all_s_ += trial.wall_s;
    if (trial.point != 0) ++others_, others_s_ += trial.wall_s;
    outcomes.push_back(outcome);
    told_(trial);
  }
  steps_.forget_before(last);
  return outcomes;
}

std::optional<Outcome> InRun::measure(size_t round, Stage stage, size_t point) {
  const std::vector<std::vector<Outcome>> outcomes = measure_rounds(stage, {{round, {point}}});
  return outcomes.empty() || outcomes[0].empty() ? std::nullopt : std::optional(outcomes[0][0]);
}

std::vector<std::vector<Outcome>> InRun::measure_rounds(Stage stage, const std::vector<tune::Round>& rounds) {
  std::vector<std::vector<Outcome>> outcomes;
  for (const tune::Round& round : rounds) {
    if (!why_over_.empty()) break;
    outcomes.push_back(measure_round(stage, round));
  }
  return outcomes;
}

size_t InRun::trials_left() const {
  if (!why_over_.empty()) return 0;
  const size_t by_count = request_.trials ? *request_.trials - std::min(*request_.trials, count_) : kAnyNumber;
  const std::optional<double> left_s = seconds_left();
  if (!left_s) return by_count;
  const double mean_s = others_ > 0  ? others_s_ / static_cast<double>(others_)
                        : count_ > 0 ? all_s_ / static_cast<double>(count_)
                                     : 1;
  return std::min(by_count, static_cast<size_t>(*left_s / std::max(mean_s, 1e-3)));
}

std::optional<double> InRun::seconds_left() const {
  if (request_.trials) return std::nullopt;
  return std::max(0.0, request_.budget_s - spent_s());
}

std::optional<double> InRun::expected_s(Stage stage, size_t point) const {
  const auto longest = longest_step_s_.find(point);
  if (longest == longest_step_s_.end()) return std::nullopt;
  // Steps of a poor start take one cycle now and two then: the time for the proof is set aside for the longer ones.
  const double step_s = stage == Stage::kConfirm ? longest->second : expected_step_s(point);
  return static_cast<double>(2 * (tune::kWarmUpSteps + half_steps(stage, point))) * step_s;
}

std::optional<uint64_t> InRun::settle(size_t point) {
  if (ended_ || hangs_) return std::nullopt;
  const std::optional<size_t> number = publish(text_of(point), std::nullopt, expected_step_s(point));
  return number ? std::optional(blocks_[*number].begin) : std::nullopt;
}

Ended InRun::wait_for_end() {
  if (!ended_) ended_ = job_->wait();
  return *ended_;
}

std::string InRun::schedule_csv() const {
  std::string text = "block,first_step,end_step,made_by,values\n";
  for (size_t i = 0; i < blocks_.size(); ++i)
    text += fmt::format("{},{},{},{},\"{}\"\n", i, blocks_[i].begin,
                        blocks_[i].end == kTuneNoEnd ? "" : std::to_string(blocks_[i].end),
                        blocks_[i].of_rank ? "rank" : "tuner", blocks_[i].values);
  return text;
}

}  // namespace ddl::cli
