// The process's life as far as we take part in it: nothing at all until the first MPI call or annotation, then one spool, until the end.
//
// The constructor touches nothing: most processes that this library is preloaded into (shells, ssh, orted, helpers) are not the job.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

#include "core/recorder_internal.h"
#include "interpose/communicators.h"
#include "interpose/placement.h"
#include "interpose/requests.h"

extern "C" char** environ;

namespace ddl {

namespace {

constexpr uint64_t kDefaultCapBytes = 128ull << 20;
constexpr double kDefaultBudget = 0.01;

enum class Start : uint32_t { kNotYet, kOn, kOff };
Start g_start = Start::kNotYet;
bool g_forked = false;  // a child of a recorded process, and MPI was not initialized in it
pid_t g_owner = 0;
char g_directory[4096];

const char* setting(const char* name) {
  const char* value = getenv(name);
  return value && value[0] ? value : nullptr;
}

/// Process number within the job, as launchers tell it before MPI_Init; -1: unknown.
int launch_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* value = setting(name)) return atoi(value);
  }
  return -1;
}

/// Does Open MPI say that the job has ranks on other hosts?
bool spans_hosts() {
  const char* all = setting("OMPI_COMM_WORLD_SIZE");
  const char* here = setting("OMPI_COMM_WORLD_LOCAL_SIZE");
  return all && here && strcmp(all, here) != 0;
}

/// The batch system's id of the job; null outside of one.
const char* job_id() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID"}) {
    if (const char* value = setting(name)) return value;
  }
  return nullptr;
}

/// Slurm's id of the step, of ranks that srun started. Under mpirun the ranks of its own host are in no step, and those of the other hosts
/// in the step of its daemons: not the same for one job.
const char* job_step_id() { return setting("SLURM_JOB_ID") && !setting("OMPI_COMM_WORLD_RANK") ? setting("SLURM_STEP_ID") : nullptr; }

/// $DDL_OUT, else ./ddl-<job id, or what identifies the launch>.ddl
void choose_directory() {
  char name[256];
  const char* out = setting("DDL_OUT");
  if (!out) {
    const char* job = job_id();
    const char* step = job_step_id();
    if (job && step) {
      snprintf(name, sizeof name, "ddl-%.100s.%.100s.ddl", job, step);
    } else if (job) {
      snprintf(name, sizeof name, "ddl-%.200s.ddl", job);
    } else if (const char* launch = spans_hosts() ? setting("PMIX_NAMESPACE") : nullptr) {
      snprintf(name, sizeof name, "ddl-%.200s.ddl", launch);  // each host has a launcher process of its own
    } else {
      snprintf(name, sizeof name, "ddl-%d.ddl", static_cast<int>(getppid()));
    }
    out = name;
  }
  char here[2048] = "";
  if (out[0] != '/' && getcwd(here, sizeof here - 1)) strcat(here, "/");
  snprintf(g_directory, sizeof g_directory, "%s%.2000s", here, out);
}

uint64_t hash_text(const char* text) {
  uint64_t hash = 14695981039346656037ull;
  for (; *text; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211ull;
  return hash | 1;  // 0 means unknown
}

/// The same for all processes of one MPI_COMM_WORLD.
uint64_t world_key() {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_STEP_ID"}) {
    if (const char* value = setting(name)) return hash_text(value);
  }
  return 0;
}

double seconds(const char* name) {
  const char* value = setting(name);
  return value ? strtod(value, nullptr) : 0;
}

/// "0.5%" whatever the locale says of decimal points.
double percent(const char* text) {
  double value = 0, unit = 1;
  for (; *text >= '0' && *text <= '9'; ++text) value = 10 * value + (*text - '0');
  if (*text == '.') {
    for (++text; *text >= '0' && *text <= '9'; ++text) value += (unit /= 10) * (*text - '0');
  }
  return value;
}

RecorderOptions options_from_environment() {
  RecorderOptions options = {};
  options.directory = g_directory;
  options.clock = setting("DDL_CLOCK");
  options.cap_bytes = kDefaultCapBytes;
  options.budget = kDefaultBudget;
  if (const char* budget = setting("DDL_BUDGET")) {
    options.budget = strcmp(budget, "off") == 0 ? 0 : percent(budget) / 100;
    if (options.budget == 0) options.cap_bytes = UINT64_MAX / 2;
  }
  if (const char* cap = setting("DDL_CAP")) options.cap_bytes = strtoull(cap, nullptr, 10);
  if (const char* steps = setting("DDL_STEPS")) {
    char* end = nullptr;
    options.first_step = strtoull(steps, &end, 10);
    options.last_step = *end == ':' && end[1] ? strtoull(end + 1, nullptr, 10) : (*end == ':' ? UINT64_MAX : options.first_step);
    options.has_steps = end != steps || *end == ':';
  }
  options.after_ns = static_cast<uint64_t>(seconds("DDL_AFTER") * 1e9);
  options.for_ns = static_cast<uint64_t>(seconds("DDL_FOR") * 1e9);
  options.world_key = world_key();
  return options;
}

void write_command_line() {
  char text[4096];
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  if (fd >= 0) close(fd);
  if (got <= 0) return;
  for (ssize_t i = 0; i + 1 < got; ++i) {
    if (text[i] == 0) text[i] = ' ';
  }
  text[got] = 0;
  write_fact("command", text);
}

void write_link(const char* key, const char* link) {
  char text[4096];
  const ssize_t got = readlink(link, text, sizeof text - 1);
  if (got <= 0) return;
  text[got] = 0;
  write_fact(key, text);
}

/// Addresses of daemons help nobody later, and what may be a secret must not be in a file that people pass on.
bool may_be_told(const char* name, size_t length) {
  for (const char* word : {"uri", "URI", "TOKEN", "KEY", "SECRET", "PASSWORD"}) {
    if (memmem(name, length, word, strlen(word))) return false;
  }
  return true;
}

void write_facts() {
  write_command_line();
  write_link("exe", "/proc/self/exe");
  write_link("cwd", "/proc/self/cwd");
  write_placement();
  if (const char* job = job_id()) write_fact("job_id", job);
  if (const char* step = job_step_id()) write_fact("job_step_id", step);
  for (char** variable = environ; variable && *variable; ++variable) {
    const char* equals = strchr(*variable, '=');
    if (!equals || !may_be_told(*variable, static_cast<size_t>(equals - *variable))) continue;
    for (const char* prefix :
         {"OMPI_MCA_", "OMP_NUM_THREADS", "SLURM_JOB_ID", "SLURM_ARRAY_", "SLURMD_NODENAME", "UCX_", "NCCL_", "CUDA_VISIBLE_DEVICES"}) {
      if (strncmp(*variable, prefix, strlen(prefix)) != 0) continue;
      char key[160];
      snprintf(key, sizeof key, "env.%.*s", static_cast<int>(equals - *variable < 128 ? equals - *variable : 128), *variable);
      write_fact(key, equals + 1);
    }
  }
}

void in_forked_child() {
  if (g_start != Start::kOn) return;
  forget_after_fork();
  g_start = Start::kNotYet;
  g_forked = true;
  g_mpi.state = MpiState::kUnknown;
  // The tables are the parent's; they are cleared only if this child starts to record. Most children exec at once and should pay nothing.
}

__attribute__((destructor)) void at_exit() {
  if (g_start != Start::kOn || g_owner != getpid()) return;
  write_placement_if_moved();
  __atomic_fetch_or(&spool_header()->flags, kExited, __ATOMIC_RELAXED);
  write_clock();
}

bool try_start() {
  if (const char* disabled = setting("DDL_DISABLE"); disabled && strcmp(disabled, "0") != 0) return false;
  choose_directory();
  if (g_forked) {
    reset_communicators();
    reset_requests();
  }
  if (const char* why = activate(options_from_environment())) {
    say("not recording: %s (%s)", why, g_directory);
    return false;
  }
  g_owner = getpid();
  g_forked = false;
  static bool hooked = false;
  if (!hooked) pthread_atfork(nullptr, nullptr, in_forked_child);
  hooked = true;
  write_facts();
  return true;
}

}  // namespace

bool is_forked_child() { return g_forked; }

bool collector_wanted(const char* name) {
  const char* list = setting("DDL_COLLECTORS");
  if (!list) return true;
  const size_t length = strlen(name);
  for (const char* at = list; (at = strstr(at, name)); at += length) {
    if ((at == list || at[-1] == ',') && (at[length] == 0 || at[length] == ',')) return true;
  }
  return false;
}

bool start_recorder(bool from_mpi) {
  if (g_start == Start::kOn) return !from_mpi || collector_wanted("mpi");
  if (g_start == Start::kOff) return false;
  if (g_forked && !from_mpi) return false;  // a helper that inherited annotations (a DataLoader worker) is not a process of the job
  if (from_mpi && !collector_wanted("mpi")) return false;
  const int saved_errno = errno;
  g_start = try_start() ? Start::kOn : Start::kOff;
  errno = saved_errno;
  return g_start == Start::kOn;
}

void say(const char* format, ...) {
  if (launch_rank() > 0 && !setting("DDL_VERBOSE")) return;
  char text[1024] = "ddl: ";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + 5, sizeof text - 6, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;  // nobody listens
}

}  // namespace ddl
