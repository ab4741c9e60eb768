// What ddl-top costs on a large job: writes the spools of RANKS ranks as a running job would, once a second looks at
// them, draws 160x50 and tells the CPU time of looking and drawing alone.
//
//   bench_top FOLDER RANKS COLLECTIVES STEPS_PER_SECOND SECONDS    follows a job that goes on
//   bench_top FOLDER RANKS COLLECTIVES STEPS                       only writes a finished one, for: time ddl-top FOLDER -b -n 1
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/format.h"
#include "store/run_directory.h"
#include "tui/draw.h"
#include "tui/observer.h"
#include "tui/spool_source.h"

namespace {

using namespace ddl;

constexpr uint32_t kOp = kFirstCallOp + 1;

uint64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

[[noreturn]] void fail(const std::string& why) {
  fprintf(stderr, "bench_top: %s\n", why.c_str());
  std::exit(2);
}

int positive(const char* text) {
  int value = 0;
  const char* end = text + strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stopped != end || value < 1 || value > 1'000'000)
    fail(fmt::format("{} is not a number from 1 to 1000000", text));
  return value;
}

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// One rank's spool: header, a chunk of descriptions, a chunk of events.
class Spool {
 public:
  Spool(const std::string& folder, int rank, int ranks, uint64_t begin) : begin_(begin) {
    fd_ = open(fmt::format("{}/node.{}.1.spool", folder, 1000 + rank).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
               0600);
    if (fd_ < 0) {
      perror(folder.c_str());
      std::exit(1);
    }
    FileHeader h = {};
    memcpy(h.magic, kSpoolMagic, sizeof h.magic);
    h.format_version = kFormatVersion;
    h.byte_order = kByteOrderMark;
    h.header_bytes = kPageBytes;
    h.record_bytes = sizeof(Record);
    h.clock = static_cast<uint32_t>(ClockKind::kMonotonic);
    h.pid = static_cast<uint32_t>(1000 + rank);
    h.begin = {begin, begin, now_ns(CLOCK_REALTIME)};
    h.latest = h.begin;
    snprintf(h.host, sizeof h.host, "node%04d", rank / 8);
    snprintf(h.boot_id, sizeof h.boot_id, "bench");
    h.rank = rank;
    h.world_size = ranks;
    h.flags = kMpiInitialized | kMpiEntered;
    h.launch_rank = -1;
    put(0, &h, sizeof h);

    std::string meta;
    const char name[] = "MPI_Allreduce";
    const OperationMeta op = {kOp, static_cast<uint32_t>(OpClass::kAllToAll), 0, sizeof name - 1};
    add(meta, MetaKind::kOperation, &op, sizeof op, name, sizeof name - 1);
    CommunicatorMeta world = {};
    world.index = 1;
    world.uid = 1;
    world.size = ranks;
    world.rank = rank;
    world.flags = kCommWorld;
    add(meta, MetaKind::kCommunicator, &world, sizeof world);
    add_chunk(kPageBytes, kPageBytes, ChunkKind::kMeta, 0);
    put(kPageBytes + sizeof(ChunkHeader), meta.data(), meta.size());
    add_chunk(2 * kPageBytes, kMaxChunkBytes, ChunkKind::kEvents, 1);
    next_ = 2 * kPageBytes + sizeof(ChunkHeader);
  }

  void append(const std::vector<Record>& records) {
    put(next_, records.data(), records.size() * sizeof(Record));
    next_ += records.size() * sizeof(Record);
  }

 private:
  void put(uint64_t at, const void* bytes, size_t count) {
    if (pwrite(fd_, bytes, count, static_cast<off_t>(at)) != static_cast<ssize_t>(count)) {
      perror("pwrite");
      std::exit(1);
    }
  }
  static void add(std::string& to, MetaKind kind, const void* fixed, size_t fixed_bytes, const char* text = "",
                  size_t text_bytes = 0) {
    const size_t total = (sizeof(MetaHeader) + fixed_bytes + text_bytes + 7) / 8 * 8;
    const uint64_t word = meta_word(kind, total);
    std::string entry(reinterpret_cast<const char*>(&word), sizeof word);
    entry.append(static_cast<const char*>(fixed), fixed_bytes).append(text, text_bytes).resize(total);
    to += entry;
  }
  void add_chunk(uint64_t at, uint32_t bytes, ChunkKind kind, uint64_t index) {
    ChunkHeader h = {};
    h.magic = kChunkMagic;
    h.kind = static_cast<uint32_t>(kind);
    h.bytes = bytes;
    h.thread = kind == ChunkKind::kMeta ? UINT32_MAX : 0;
    h.index = index;
    h.begin_ticks = begin_;
    h.begin_monotonic_ns = begin_;
    h.check = chunk_check(h);
    put(at, &h, sizeof h);
    if (ftruncate(fd_, static_cast<off_t>(at + bytes)) != 0) perror("ftruncate");
  }

  int fd_;
  uint64_t begin_;
  uint64_t next_ = 0;
};

/// A step of all ranks in which rank 11 comes late to the first collective, and to the others whoever does, by jitter.
void write_step(std::vector<Spool>& spools, uint64_t number, uint64_t start, uint64_t length, int collectives) {
  std::vector<Record> records;
  for (size_t r = 0; r < spools.size(); ++r) {
    records.clear();
    Record step = {};
    step.start_ticks = start;
    step.sequence = static_cast<uint32_t>(number);
    step.peer = -1;
    step.word = record_word(RecordKind::kStepBegin, static_cast<uint32_t>(ContextKind::kStep), 0);
    records.push_back(step);
    const uint64_t slot = length / static_cast<uint64_t>(collectives + 1);
    step.payload = 0;  // inside MPI calls
    for (int i = 0; i < collectives; ++i) {
      const uint64_t late = r == 11 && i == 0
                                ? slot / 3
                                : (r * 7919 + number * 104729 + static_cast<uint64_t>(i) * 1299709) % (slot / 20 + 1);
      Record call = {};
      call.start_ticks = start + slot * static_cast<uint64_t>(i) + slot / 2 + late;
      const uint64_t leave = start + slot * static_cast<uint64_t>(i) + slot;
      call.word = record_word(RecordKind::kCall, kOp, leave - call.start_ticks);
      step.payload += leave - call.start_ticks;
      call.payload = record_payload(4 << 20, 0, 0);
      call.comm = 1;
      call.sequence = static_cast<uint32_t>(number * static_cast<uint64_t>(collectives) + static_cast<uint64_t>(i) + 1);
      call.peer = -1;
      records.push_back(call);
    }
    step.word = record_word(RecordKind::kStep, static_cast<uint32_t>(ContextKind::kStep), length - 1000);
    records.push_back(step);
    spools[r].append(records);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    fprintf(
        stderr,
        "usage: bench_top FOLDER RANKS COLLECTIVES STEPS | bench_top FOLDER RANKS COLLECTIVES STEPS_PER_SECOND SECONDS\n");
    return 2;
  }
  const std::string folder = argv[1];
  const int ranks = positive(argv[2]), collectives = positive(argv[3]), steps = positive(argv[4]),
            seconds = argc == 6 ? positive(argv[5]) : 0;
  if (argc == 6 && seconds < 2) fail("at least 2 seconds: the first look is told apart");
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::filesystem::create_directories(folder);
  const uint64_t begin = now_ns(CLOCK_MONOTONIC);
  std::vector<Spool> spools;
  for (int r = 0; r < ranks; ++r) spools.emplace_back(folder, r, ranks, begin);
  if (seconds == 0) {
    for (int s = 0; s < steps; ++s)
      write_step(spools, static_cast<uint64_t>(s), begin + static_cast<uint64_t>(s) * 1000000, 1000000, collectives);
    return 0;
  }
  tui::SpoolSource source(find_run(folder), folder);
  tui::Job job;
  tui::Observer observer;
  const uint64_t length = 1000000000u / static_cast<uint64_t>(steps);
  uint64_t number = 0;
  std::vector<double> costs;
  std::string headline;
  for (int second = 0; second < seconds; ++second) {
    for (int s = 0; s < steps; ++s, ++number) write_step(spools, number, begin + number * length, length, collectives);
    while (now_ns(CLOCK_MONOTONIC) < begin + number * length) usleep(1000);
    const double before = cpu_s();
    source.poll(job, 1);
    const tui::Snapshot snapshot = observer.look(job, false);
    const std::string text = tui::draw(snapshot, {160, 50}, {}, {}).text();
    costs.push_back(cpu_s() - before);
    headline = snapshot.headline.text;
  }
  std::vector<double> sorted(costs.begin() + 1, costs.end());
  std::sort(sorted.begin(), sorted.end());
  fmt::print(
      "{} ranks, {} collectives a step, {} steps a second: {:.1f} ms of CPU a look (median), {:.1f} ms (worst); the first {:.1f} ms\n{}\n",
      ranks, collectives, steps, 1e3 * sorted[sorted.size() / 2], 1e3 * sorted.back(), 1e3 * costs.front(), headline);
  return 0;
}
