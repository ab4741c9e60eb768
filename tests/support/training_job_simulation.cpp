#include "tests/support/training_job_simulation.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "tests/core/damage.h"

namespace ddl::test {
namespace {

using synthetic::kMpiFloat;
using synthetic::kMpiSum;
using synthetic::Op;
using synthetic::operation;
using synthetic::ProcessSettings;
using synthetic::SyntheticProcess;

constexpr int64_t kShortCallNs = 500;
constexpr int64_t kLaunchLatencyNs = 5000;
constexpr double kIrregular = 0.25;
constexpr uint32_t kInitSite = 0, kFinalizeSite = 1;
constexpr uint32_t kTag = 3;

// What the dice are thrown for.
enum Purpose : uint64_t { kRankPace = 1, kStepPace, kMoment, kHiccup, kTransfer, kLeaving, kMessage, kStart, kDamage };

double lg(size_t p) {
  double rounds = 0;
  for (size_t reach = 1; reach < p; reach *= 2) ++rounds;
  return rounds;
}

bool is_largest_bucket(const TrainingJob& job, int64_t bytes) {
  return !job.buckets.empty() &&
         std::all_of(job.buckets.begin(), job.buckets.end(), [&](const auto& bucket) { return bucket.bytes <= bytes; });
}

void damage_file(const std::filesystem::path& file, uint64_t seed) {
  Image image;
  {
    std::ifstream in(file, std::ios::binary);
    image.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::mt19937_64 random(seed);
  damage(image, random);
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
}

}  // namespace

TrainingSimulation::TrainingSimulation(const TrainingJob& job, bool recorded) : job_(job), dice_(job.seed) {
  make_ranks(recorded);
  make_groups();
}

// ------------------------------------------------------------------------------------------------------------- the job

void TrainingSimulation::make_ranks(bool recorded) {
  const InjectedFault* jump = recorded ? job_.fault(Fault::kClockJump) : nullptr;
  int64_t jump_at_ns = 2'000'000;
  if (jump != nullptr) {  // when its step begins is known only once the job has run
    TrainingSimulation dry(job_, false);
    dry.run();
    for (uint64_t step = 0; step < jump->from_step; ++step) jump_at_ns += dry.step_ns()[step];
  }
  ranks_.resize(static_cast<size_t>(job_.ranks()));
  for (int r = 0; r < job_.ranks(); ++r) {
    at(r).now = static_cast<int64_t>(dice_.of(kStart, static_cast<uint64_t>(r)).uniform(10e3, 300e3));
    if (!recorded) continue;
    const int node = r / job_.ranks_per_node;
    ProcessSettings s;
    const auto n = static_cast<uint64_t>(node);
    s.clock = {0, 5000000000000 + n * 1230000000000, 1000000000000 + n * 777700000000, 1760000000000000000, {}};
    if (static_cast<size_t>(node) < job_.clock_offset_ns.size()) {
      s.clock.host.offset_ns = job_.clock_offset_ns[static_cast<size_t>(node)];
      s.clock.host.drift_ppm = job_.clock_drift_ppm[static_cast<size_t>(node)];
    }
    if (jump != nullptr && jump->rank == node) {
      s.clock.host.step_at_ns = jump_at_ns;
      s.clock.host.step_ns = jump->size_ns;
    }
    s.host = "node" + std::to_string(node);
    const std::string digits = std::to_string(1000 + node);
    s.boot_id = "5eed" + digits + "-0000-4000-8000-00000000" + digits;
    s.pid = 1000 + static_cast<uint32_t>(r);
    s.process_start = 70000 + s.pid;
    s.world_key = 0x5eed;
    s.facts = {{"exe", "/opt/app/train"}, {"command", "./train"}, {"cpus", std::to_string(r % job_.ranks_per_node)}};
    if (job_.gpu.kernels_per_layer > 0) s.facts.emplace_back("gpu.0.link", "16.0 GT/s x16");
    at(r).process = std::make_unique<SyntheticProcess>(s);
  }
}

void TrainingSimulation::make_groups() {
  const InjectedFault* slow = job_.fault(Fault::kSlowLink);
  const bool hierarchical = job_.reduction == Reduction::kHierarchical;
  Group world{{}, job_.nodes > 1 ? job_.between : job_.inside};
  for (int r = 0; r < job_.ranks(); ++r) world.members.push_back(r);
  groups_.push_back(world);
  for (int node = 0; node < job_.nodes && hierarchical; ++node) {
    Group group{{}, job_.inside};
    for (int i = 0; i < job_.ranks_per_node; ++i) group.members.push_back(node * job_.ranks_per_node + i);
    groups_.push_back(group);
  }
  for (int i = 0; i < job_.ranks_per_node && hierarchical; ++i) {
    Group group{{}, job_.between};
    for (int node = 0; node < job_.nodes; ++node) group.members.push_back(node * job_.ranks_per_node + i);
    groups_.push_back(group);
  }
  sequence_.assign(groups_.size(), std::vector<uint32_t>(ranks_.size()));
  if (slow == nullptr) return;
  Group& group = groups_[hierarchical ? static_cast<size_t>(1 + job_.nodes + slow->rank) : 0];
  double bytes_ns = 0;  // of a step, over the slow link
  for (const TrainingJob::Bucket& bucket : job_.buckets) {
    const double p = static_cast<double>(group.members.size());
    const double bytes = static_cast<double>(bucket.bytes) / (hierarchical ? job_.ranks_per_node : 1);
    bytes_ns += 2 * (p - 1) / p * bytes * group.link.ns_per_byte;
  }
  group.slow_by = 1 + static_cast<double>(slow->size_ns) / bytes_ns;
  group.slow_from = slow->from_step;
}

size_t TrainingSimulation::group_of(int rank, size_t comm) const {
  if (comm == kWorldComm) return 0;
  if (comm == kNodeComm) return static_cast<size_t>(1 + rank / job_.ranks_per_node);
  return static_cast<size_t>(1 + job_.nodes + rank % job_.ranks_per_node);
}

void TrainingSimulation::run() {
  initialize();
  for (uint64_t step = 0; step < job_.steps; ++step) run_step(step);
  finalize();
}

void TrainingSimulation::initialize() {
  int64_t leave_ns = 0;
  for (const Rank& rank : ranks_) leave_ns = std::max(leave_ns, rank.now + 1'500'000);
  for (int r = 0; r < job_.ranks(); ++r) {
    Rank& rank = at(r);
    if (rank.process != nullptr) {
      SyntheticProcess& process = *rank.process;
      auto call = process.enter(rank.now, operation("MPI_Init").id, kInitSite, kNoComm, false, kNoSequence, -1, 0);
      FileHeader& h = process.header();
      h.rank = r;
      h.world_size = job_.ranks();
      h.thread_level = 0;
      h.flags |= kMpiInitialized;
      for (const Op& op : synthetic::operations())
        process.spool().operation(op.id, op.op_class, op.nonblocking, op.name);
      process.spool().communicator({1, 0, 1, job_.ranks(), r, 0, kCommWorld, 0, 0}, {});
      process.spool().communicator({2, 0, 2, 1, 0, 0, kCommSelf, 0, 0}, {});
      for (const size_t comm : {kNodeComm, kColumnComm}) {
        if (job_.reduction != Reduction::kHierarchical) break;
        const size_t group = group_of(r, comm);
        const std::vector<int>& members = groups_[group].members;
        const int size = static_cast<int>(members.size());
        const int stride = size > 1 ? members[1] - members[0] : 1;
        const int own = static_cast<int>(std::find(members.begin(), members.end(), r) - members.begin());
        const auto index = static_cast<uint32_t>(2 + comm);
        const uint64_t uid = (0xabcdefull + group) | 1ull << 63;
        process.spool().communicator({index, 1, uid, size, own, operation("MPI_Comm_split").id, 0, 0, 0},
                                     {{members[0], stride, size}});
        process.name_communicator(
            index, (comm == kNodeComm ? "node." : "column.") +
                       std::to_string(comm == kNodeComm ? r / job_.ranks_per_node : r % job_.ranks_per_node));
      }
      process.spool().fact("mpi", "Synthetic MPI 1.0");
      process.leave(call, leave_ns, 0);
      h.mpi_init_leave_ticks = call.record.start_ticks + record_duration_ticks(call.record.word);
      process.write_clock(leave_ns);
    }
    rank.now = leave_ns;
  }
}

void TrainingSimulation::finalize() {
  int64_t last_ns = 0;
  for (const Rank& rank : ranks_) last_ns = std::max(last_ns, rank.now);
  for (Rank& rank : ranks_) {
    if (rank.process == nullptr) continue;
    rank.now += kFinalizeGapNs;
    auto call =
        rank.process->enter(rank.now, operation("MPI_Finalize").id, kFinalizeSite, kNoComm, false, kNoSequence, -1, 0);
    FileHeader& h = rank.process->header();
    h.mpi_finalize_enter_ticks = call.record.start_ticks;
    h.flags |= kMpiFinalized | kExited;
    rank.now = last_ns + kFinalizeGapNs + kFinalizeNs;
    rank.process->leave(call, rank.now, 0);
    rank.process->write_clock(rank.now + kFinalizeGapNs);
  }
}

void TrainingSimulation::write(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  for (int r = 0; r < job_.ranks(); ++r) {
    const auto is_in = [r](const std::vector<int>& ranks) {
      return std::find(ranks.begin(), ranks.end(), r) != ranks.end();
    };
    if (is_in(job_.removed)) continue;
    SyntheticProcess& process = *at(r).process;
    process.finish();
    const std::filesystem::path spool = folder / process.file_name();
    process.spool().write(spool);
    if (is_in(job_.torn)) std::filesystem::resize_file(spool, std::filesystem::file_size(spool) * 3 / 5);
    if (is_in(job_.damaged)) damage_file(spool, dice_.of(kDamage, static_cast<uint64_t>(r)).bits());
  }
}

// --------------------------------------------------------------------------------------------------------------- steps

void TrainingSimulation::run_step(uint64_t step) {
  std::vector<int64_t> begin_ns;
  for (int r = 0; r < job_.ranks(); ++r) {
    Rank& rank = at(r);
    begin_ns.push_back(rank.now);
    rank.program = program_of(job_, r, step);
    rank.at = 0;
    if (rank.process == nullptr) continue;
    rank.process->push(rank.now, ContextKind::kStep, "", step);
    if (job_.samples > 0) rank.process->value(rank.now, "samples", job_.samples);
  }
  for (bool all_done = false; !all_done;) {
    all_done = true;
    bool moved = false;
    for (int r = 0; r < job_.ranks(); ++r) {
      while (advance(r, step)) moved = true;
      all_done = all_done && at(r).at == at(r).program.size();
    }
    if (!moved && !all_done) throw std::logic_error("training job: the ranks wait for each other");
  }
  int64_t longest_ns = 0;
  for (int r = 0; r < job_.ranks(); ++r) {
    Rank& rank = at(r);
    if (rank.process != nullptr) rank.process->pop(rank.now, ContextKind::kStep);
    longest_ns = std::max(longest_ns, rank.now - begin_ns[static_cast<size_t>(r)]);
  }
  step_ns_.push_back(longest_ns);
}

bool TrainingSimulation::advance(int r, uint64_t step) {
  Rank& rank = at(r);
  if (rank.in_collective || rank.at == rank.program.size()) return false;
  const size_t place = rank.at;
  const Action& action = rank.program[place];
  switch (action.kind) {
    case Action::Kind::kCompute:
      rank.now += computing_ns(r, step, action, place);
      break;
    case Action::Kind::kOpen:
      if (rank.process != nullptr) rank.process->push(rank.now, action.range, action.name, 0);
      break;
    case Action::Kind::kClose:
      if (rank.process != nullptr) rank.process->pop(rank.now, action.range);
      break;
    case Action::Kind::kCollective:
    case Action::Kind::kPost:
      meet(r, action, step);
      break;
    case Action::Kind::kWaitall:
      if (!wait_all(r, action)) return false;
      break;
    case Action::Kind::kLaunch:
      launch(r, action, step, place);
      break;
    case Action::Kind::kSynchronize:
      rank.now = std::max(rank.now + kShortCallNs, rank.gpu_free_ns);
      break;
    case Action::Kind::kSend:
      send(r, action, step);
      break;
    case Action::Kind::kReceive:
      if (!receive(r, action)) return false;
      break;
  }
  ++rank.at;
  return true;
}

int64_t TrainingSimulation::computing_ns(int r, uint64_t step, const Action& action, size_t place) const {
  const auto rank = static_cast<uint64_t>(r);
  const double pace = dice_.of(kRankPace, rank).lognormal(job_.rank_noise) *
                      dice_.of(kStepPace, rank, step).lognormal(job_.step_noise) *
                      dice_.of(kMoment, rank, step, place).lognormal(action.irregular ? kIrregular : job_.moment_noise);
  double ns = static_cast<double>(action.ns) * pace;
  Dice hiccup = dice_.of(kHiccup, rank, step, place);
  if (hiccup.chance(job_.hiccup_chance * static_cast<double>(action.ns) / job_.computing_ns()))
    ns += hiccup.exponential(static_cast<double>(job_.hiccup_ns));
  return static_cast<int64_t>(ns);
}

int64_t TrainingSimulation::transfer_ns(const Group& group, const Action& action, uint32_t sequence,
                                        uint64_t step) const {
  const auto p = static_cast<double>(group.members.size());
  const std::string_view op = action.op;
  const bool both_ways = op == "MPI_Allreduce" || op == "MPI_Iallreduce";
  const double rounds = (both_ways ? 2 : 1) * lg(group.members.size());
  const double bytes =
      op == "MPI_Allgather" ? static_cast<double>(action.bytes) * p : static_cast<double>(action.bytes);
  const double factor = action.bytes > 64 && step >= group.slow_from ? group.slow_by : 1;
  double ns =
      rounds * group.link.alpha_ns + (both_ways ? 2 : 1) * (p - 1) / p * bytes * group.link.ns_per_byte * factor;
  if (const InjectedFault* slow = job_.fault(Fault::kSlowAlgorithm);
      slow != nullptr && is_largest_bucket(job_, action.bytes))
    ns += static_cast<double>(slow->size_ns);
  Dice dice = dice_.of(kTransfer, static_cast<uint64_t>(&group - groups_.data()), sequence);
  return 1 + static_cast<int64_t>(ns * dice.lognormal(job_.network_noise));
}

// --------------------------------------------------------------------------------------------------------------- calls

SyntheticProcess::Call TrainingSimulation::enter(int r, const Action& action, const char* op, uint32_t sequence,
                                                 int peer, uint64_t payload) {
  if (at(r).process == nullptr) return {};
  const Op& known = operation(op);
  const bool has_comm = known.op_class != OpClass::kCompletion || sequence != kNoSequence;
  const auto comm = action.comm == kWorldComm ? 1u : static_cast<uint32_t>(2 + action.comm);
  return at(r).process->enter(at(r).now, known.id, action.site, has_comm ? comm : kNoComm, known.is_collective(),
                              sequence, peer, payload);
}

void TrainingSimulation::leave(int r, SyntheticProcess::Call& call, int64_t t, uint64_t payload) {
  if (at(r).process != nullptr) at(r).process->leave(call, t, payload);
  at(r).now = t;
}

void TrainingSimulation::meet(int r, const Action& action, uint64_t step) {
  Rank& rank = at(r);
  const size_t g = group_of(r, action.comm);
  Group& group = groups_[g];
  const uint32_t sequence = ++sequence_[g][static_cast<size_t>(r)];
  Meeting& meeting = open_[{g, sequence}];
  const uint64_t payload = action.bytes == 0 ? 0
                                             : record_payload(static_cast<uint64_t>(action.bytes), kMpiFloat,
                                                              operation(action.op).reduces ? kMpiSum : 0);
  SyntheticProcess::Call call = enter(r, action, action.op, sequence, -1, payload);
  meeting.entered.emplace_back(r, rank.now);
  const bool posts = action.kind == Action::Kind::kPost;
  if (posts) {
    leave(r, call, rank.now + kShortCallNs, payload);
    rank.posted.push_back({g, sequence, call, payload});
  } else {
    rank.call = call;
    rank.in_collective = true;
  }
  if (meeting.entered.size() < group.members.size()) return;
  int64_t last_ns = 0;
  for (const auto& [member, entered_ns] : meeting.entered) last_ns = std::max(last_ns, entered_ns);
  const int64_t moving_ns = transfer_ns(group, action, sequence, step);
  if (posts) {
    meeting.done_ns = group.free_ns = std::max(last_ns, group.free_ns) + moving_ns;
    return;
  }
  for (const auto& [member, entered_ns] : meeting.entered) {
    Dice dice = dice_.of(kLeaving, g, sequence, static_cast<uint64_t>(member));
    at(member).in_collective = false;
    leave(member, at(member).call,
          last_ns + moving_ns + static_cast<int64_t>(dice.exponential(500 + 0.005 * static_cast<double>(moving_ns))),
          payload);
  }
  open_.erase({g, sequence});
}

bool TrainingSimulation::wait_all(int r, const Action& action) {
  Rank& rank = at(r);
  int64_t done_ns = rank.now + kShortCallNs;
  for (const Posted& posted : rank.posted) {
    const Meeting& meeting = open_.at({posted.group, posted.sequence});
    if (meeting.done_ns < 0) return false;
    done_ns = std::max(done_ns, meeting.done_ns);
  }
  const uint32_t shown = rank.posted.empty() ? kNoSequence : rank.posted.back().sequence;
  SyntheticProcess::Call call = enter(r, action, "MPI_Waitall", shown, -1, 0);
  leave(r, call, done_ns, 0);
  for (const Posted& posted : rank.posted) {
    if (rank.process != nullptr) rank.process->request(posted.call, done_ns, posted.payload);
  }
  rank.posted.clear();
  return true;
}

/// A kernel, or a copy to (`peer` 0) or from the GPU.
void TrainingSimulation::launch(int r, const Action& action, uint64_t step, size_t place) {
  Rank& rank = at(r);
  const bool copies = action.bytes > 0;
  const InjectedFault* slow_host = job_.fault(Fault::kHostBound);
  const InjectedFault* slow_copies = job_.fault(Fault::kSlowCopies);
  Action host = {.ns = job_.gpu.launch_ns};
  if (slow_host != nullptr)
    host.ns += slow_host->size_ns / static_cast<int64_t>(2 * job_.forward_ns.size()) / job_.gpu.kernels_per_layer;
  Action device = action;
  if (copies) {
    device.ns = static_cast<int64_t>(static_cast<double>(action.bytes) * job_.gpu.copy_ns_per_byte);
    if (slow_copies != nullptr) device.ns += slow_copies->size_ns * action.bytes / job_.copied_bytes();
  }
  const int64_t called_ns = rank.now;
  rank.now += computing_ns(r, step, host, place);
  const int64_t begin_ns = std::max(called_ns + kLaunchLatencyNs, rank.gpu_free_ns);
  rank.gpu_free_ns = begin_ns + computing_ns(r, step, device, place + 10'000);
  if (rank.process == nullptr) return;
  const uint32_t correlation = ++rank.launches;
  rank.process->launch(called_ns, rank.now - called_ns, copies ? LaunchKind::kCopy : LaunchKind::kKernel, correlation);
  const auto memory = static_cast<uint32_t>(job_.gpu.pageable ? DeviceMemory::kPageable : DeviceMemory::kPinned);
  const auto own = static_cast<uint32_t>(DeviceMemory::kDevice);
  DeviceRecord record = {};
  record.start = rank.process->ticks(begin_ns);
  record.end = rank.process->ticks(rank.gpu_free_ns);
  record.bytes = static_cast<uint64_t>(action.bytes);
  record.what = !copies ? device_what(DeviceKind::kKernel, 0, 0, 0, 0)
                : action.peer == 0
                    ? device_what(DeviceKind::kMemcpy, static_cast<uint32_t>(DeviceCopy::kHtoD), memory, own, 0)
                    : device_what(DeviceKind::kMemcpy, static_cast<uint32_t>(DeviceCopy::kDtoH), own, memory, 0);
  record.cuda_context = 1;
  record.stream = 7;
  record.correlation = correlation;
  record.context = kContextOfLaunch;
  record.name = copies ? 0 : rank.process->string("gemm");
  rank.process->device(record);
}

void TrainingSimulation::send(int r, const Action& action, uint64_t step) {
  const TrainingJob::Link& link =
      r / job_.ranks_per_node == action.peer / job_.ranks_per_node ? job_.inside : job_.between;
  auto& mail = mail_[{r, action.peer}];
  Dice dice = dice_.of(kMessage, static_cast<uint64_t>(r), step, at(r).at);
  const double ns =
      (link.alpha_ns + static_cast<double>(action.bytes) * link.ns_per_byte) * dice.lognormal(job_.network_noise);
  const uint64_t payload = record_payload(static_cast<uint64_t>(action.bytes), kMpiFloat, 0);
  SyntheticProcess::Call call = enter(r, action, "MPI_Send", kTag, action.peer, payload);
  leave(r, call, at(r).now + static_cast<int64_t>(ns), payload);
  mail.emplace_back(at(r).now, action.bytes);
}

bool TrainingSimulation::receive(int r, const Action& action) {
  auto& mail = mail_[{action.peer, r}];
  if (mail.empty()) return false;
  const auto [arrival_ns, bytes] = mail.front();
  mail.pop_front();
  SyntheticProcess::Call call = enter(r, action, "MPI_Recv", kTag, action.peer, 0);
  leave(r, call, std::max(at(r).now + kShortCallNs, arrival_ns + kShortCallNs),
        record_payload(static_cast<uint64_t>(bytes), kMpiFloat, 0));
  return true;
}

}  // namespace ddl::test
