// The process's life as far as we take part in it: nothing at all until the first MPI call or annotation, then one
// spool, until the end.
//
// The constructor touches nothing: most processes that this library is preloaded into (shells, ssh, orted,
// helpers) are not the job.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

#include "collectors/collectors.h"
#include "core/decimal.h"
#include "core/lock_and_pages.h"
#include "core/secrets.h"
#include "core/spool_file.h"
#include "interpose/communicators.h"
#include "interpose/gloo.h"
#include "interpose/nccl.h"
#include "interpose/process.h"
#include "interpose/requests.h"

extern "C" char** environ;

namespace ddl {

namespace {

constexpr uint64_t kDefaultCapBytes = 128ull << 20;
constexpr double kDefaultBudget = 0.01;
constexpr char kTorchHooks[] = "torch.hooks";  // process_fact

enum class Start : uint32_t { kNotYet, kStarting, kOn, kOff };
Start g_start = Start::kNotYet;
__thread bool t_starting __attribute__((tls_model("initial-exec"))) = false;
bool g_forked = false;  // a child of a recorded process, and MPI was not initialized in it
pid_t g_owner = 0;
char g_hooks[200];  // what python/ddl_hooks says that it hooked; empty: nothing
char g_directory[4096];
// what the process was started with, if it has cleared its environment since; NAME=VALUE, ends empty
char* g_first_environment = nullptr;

constexpr size_t kFirstEnvironmentBytes = 256 * 1024;
constexpr size_t kTextBytes = 4096;
char g_text[2][kTextBytes];  // of whoever starts: stacks may be small

/// Daemons and sandboxes clear their environment. It held LD_PRELOAD, or we would not be here.
void find_first_environment() {
  if (__atomic_load_n(&g_first_environment, __ATOMIC_RELAXED) || getenv("LD_PRELOAD")) return;
  const NoCancel no_cancel;
  const int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char* text = static_cast<char*>(take_pages(kFirstEnvironmentBytes));
  size_t used = 0;
  ssize_t got = 0;
  while (text && used + 2 < kFirstEnvironmentBytes &&
         (got = read(fd, text + used, kFirstEnvironmentBytes - 2 - used)) > 0)
    used += static_cast<size_t>(got);
  close(fd);
  __atomic_store_n(&g_first_environment, text, __ATOMIC_RELEASE);  // of two threads that come at once either's will do
}

}  // namespace

const char* setting(const char* name) {
  const char* value = getenv(name);
  const size_t length = strlen(name);
  for (const char* entry = __atomic_load_n(&g_first_environment, __ATOMIC_ACQUIRE); !value && entry && *entry;
       entry += strlen(entry) + 1) {
    if (strncmp(entry, name, length) == 0 && entry[length] == '=') value = entry + length + 1;
  }
  return value && value[0] ? value : nullptr;
}

bool is_on(const char* name) {
  const char* value = setting(name);
  return value && strcmp(value, "0") != 0;
}

namespace {

struct Launcher {
  const char* rank;
  const char* size;
};
constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                   {"RANK", "WORLD_SIZE"}};  // torchrun, and whoever starts PyTorch jobs by hand

/// Process number within the job, as launchers tell it before MPI_Init; -1: unknown. `size`: of how many; 0: unknown.
int launch_rank(int* size = nullptr) {
  for (const Launcher& launcher : kLaunchers) {
    const char* rank = setting(launcher.rank);
    const char* all = setting(launcher.size);
    if (!rank || (!all && strcmp(launcher.rank, "RANK") == 0)) continue;  // alone, that word may mean anything
    if (size) *size = all ? atoi(all) : 0;
    return atoi(rank);
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

/// Slurm's id of the step, of ranks that srun started. Under mpirun the ranks of its own host are in no step, and those
/// of the other hosts in the step of its daemons: not the same for one job.
const char* job_step_id() {
  return setting("SLURM_JOB_ID") && !setting("OMPI_COMM_WORLD_RANK") ? setting("SLURM_STEP_ID") : nullptr;
}

/// $DDL_OUT, else ./ddl-<job id, or what identifies the launch>.ddl. False: its name is too long, or nobody can
/// say where we are.
bool choose_directory() {
  char* name = g_text[0];
  constexpr size_t kNameBytes = 256;
  const char* out = setting("DDL_OUT");
  if (!out) {
    const char* job = job_id();
    const char* step = job_step_id();
    if (job && step) {
      snprintf(name, kNameBytes, "ddl-%.100s.%.100s.ddl", job, step);
    } else if (job) {
      snprintf(name, kNameBytes, "ddl-%.200s.ddl", job);
    } else if (const char* launch = spans_hosts() ? setting("PMIX_NAMESPACE") : nullptr) {
      snprintf(name, kNameBytes, "ddl-%.200s.ddl", launch);  // each host has a launcher process of its own
    } else {
      snprintf(name, kNameBytes, "ddl-%d.ddl", static_cast<int>(getppid()));
    }
    out = name;
  }
  char* here = g_text[1];
  here[0] = 0;
  if (out[0] != '/') {
    if (!getcwd(here, kTextBytes - 2)) return false;
    strcat(here, "/");
  }
  g_directory[0] = 0;
  if (strlen(here) + strlen(out) > kMostDirectoryBytes) return false;
  strcat(strcat(g_directory, here), out);
  return true;
}

uint64_t hash_text(const char* text) {
  uint64_t hash = 14695981039346656037ull;
  for (; *text; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211ull;
  return hash | 1;  // 0 means unknown
}

/// The same for all processes of one MPI_COMM_WORLD, or of one attempt of torchrun's.
uint64_t world_key() {
  uint64_t key = 0;
  for (const char* name :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID"}) {
    const char* value = setting(name);
    if (value && key == 0) key = hash_text(value);
  }
  if (!setting("TORCHELASTIC_RUN_ID")) return key;
  // Attempts have all of these in common. As torch tells them apart: by their number where they meet at the agent's
  // port, else by the port that each has of its own; agents count only the failures of their own workers then, so the
  // number is not the same on all hosts.
  const char* meets_at_agent = setting("TORCHELASTIC_USE_AGENT_STORE");
  const char* attempt =
      setting(meets_at_agent && strcmp(meets_at_agent, "True") == 0 ? "TORCHELASTIC_RESTART_COUNT" : "MASTER_PORT");
  return attempt ? ((key ^ hash_text(attempt) << 1) | 1) : key;
}

/// "0.5", "0.5%". What is no such number is 0.
double amount(const char* text) {
  constexpr double kMost = 1e9;
  const double number = decimal(text);
  return number > 0 && number < kMost ? number : 0;
}

double seconds(const char* name) {
  const char* value = setting(name);
  return value ? amount(value) : 0;
}

RecorderOptions options_from_environment() {
  RecorderOptions options = {};
  options.directory = g_directory;
  options.clock = setting("DDL_CLOCK");
  options.cap_bytes = kDefaultCapBytes;
  options.budget = kDefaultBudget;
  if (const char* budget = setting("DDL_BUDGET")) {
    options.budget = strcmp(budget, "off") == 0 ? 0 : amount(budget) / 100;
    if (options.budget == 0) options.cap_bytes = UINT64_MAX / 2;
  }
  if (const char* cap = setting("DDL_CAP")) options.cap_bytes = strtoull(cap, nullptr, 10);
  if (const char* steps = setting("DDL_STEPS")) {
    char* end = nullptr;
    options.first_step = strtoull(steps, &end, 10);
    options.last_step =
        *end == ':' && end[1] ? strtoull(end + 1, nullptr, 10) : (*end == ':' ? UINT64_MAX : options.first_step);
    options.has_steps = end != steps || *end == ':';
  }
  options.after_ns = static_cast<uint64_t>(seconds("DDL_AFTER") * 1e9);
  options.for_ns = static_cast<uint64_t>(seconds("DDL_FOR") * 1e9);
  options.world_key = world_key();
  options.launch_rank = launch_rank(&options.launch_size);
  return options;
}

/// Puts text together in g_text[1]; what does not fit is left out.
class Pieces {
 public:
  Pieces() { g_text[1][0] = 0; }
  void operator()(const char* piece, size_t bytes) {
    const size_t fits = bytes < kTextBytes - 1 - used_ ? bytes : kTextBytes - 1 - used_;
    memcpy(g_text[1] + used_, piece, fits);
    used_ += fits;
    g_text[1][used_] = 0;
  }

 private:
  size_t used_ = 0;
};

void write_command_line() {
  char* raw = g_text[0];
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd >= 0 ? read(fd, raw, kTextBytes - 1) : -1;
  if (fd >= 0) close(fd);
  if (got <= 0) return;
  raw[got] = 0;
  // of half an argument nobody can say what is secret in it
  const bool cut = got == static_cast<ssize_t>(kTextBytes - 1);
  SecretArguments secrets;
  Pieces command;
  for (const char* argument = raw; argument < raw + got; argument += strlen(argument) + 1) {
    const size_t length = strlen(argument);
    if (argument > raw) command(" ", 1);
    if (cut && argument + length >= raw + got) {
      command("...", 3);
    } else {
      secrets.tell(argument, length, [&](const char* piece, size_t bytes) { command(piece, bytes); });
    }
  }
  write_fact("command", g_text[1]);
}

void write_link(const char* key, const char* link) {
  const ssize_t got = readlink(link, g_text[0], kTextBytes - 1);
  if (got <= 0) return;
  g_text[0][got] = 0;
  write_fact(key, g_text[0]);
}

/// Addresses of daemons help nobody later, and what may be a secret must not be in a file that people pass on.
bool may_be_told(const char* name, size_t length) {
  return !is_secret_name(name, length) && !memmem(name, length, "uri", 3) && !memmem(name, length, "URI", 3);
}

void write_facts() {
  write_command_line();
  write_link("exe", "/proc/self/exe");
  write_link("cwd", "/proc/self/cwd");
  write_placement();
  if (g_hooks[0]) write_fact(kTorchHooks, g_hooks);
  if (const char* job = job_id()) write_fact("job_id", job);
  if (const char* step = job_step_id()) write_fact("job_step_id", step);
  for (char** variable = environ; variable && *variable; ++variable) {
    const char* equals = strchr(*variable, '=');
    if (!equals || !may_be_told(*variable, static_cast<size_t>(equals - *variable))) continue;
    for (const char* prefix : {"OMPI_MCA_", "OMP_NUM_THREADS", "SLURM_JOB_ID", "SLURM_ARRAY_", "SLURMD_NODENAME",
                               "UCX_", "NCCL_", "CUDA_VISIBLE_DEVICES"}) {
      if (strncmp(*variable, prefix, strlen(prefix)) != 0) continue;
      char key[160];
      snprintf(key, sizeof key, "env.%.*s", static_cast<int>(equals - *variable < 128 ? equals - *variable : 128),
               *variable);
      Pieces value;
      mask_secrets(equals + 1, strlen(equals + 1), [&](const char* piece, size_t bytes) { value(piece, bytes); });
      write_fact(key, g_text[1]);
    }
  }
}

void in_forked_child() {
  if (g_start != Start::kOn && g_start != Start::kStarting) return;
  forget_after_fork();
  g_start = Start::kNotYet;
  g_forked = true;
  g_mpi.state = MpiState::kUnknown;
  g_mpi.world_is_up = false;
  g_mpi.world_group_owner = nullptr;
  // The tables are the parent's; they are cleared only if this child starts to record. Most children exec at once and
  // should pay nothing.
}

/// The most that was resident at once. Not getrusage()'s, which begins with what the launcher's fork had.
void write_peak_memory() {
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd >= 0 ? read(fd, g_text[0], kTextBytes - 1) : -1;
  if (fd >= 0) close(fd);
  if (got <= 0) return;
  g_text[0][got] = 0;
  constexpr char kPeak[] = "\nVmHWM:";
  const char* line = strstr(g_text[0], kPeak);
  const unsigned long long kib = line ? strtoull(line + strlen(kPeak), nullptr, 10) : 0;
  if (kib == 0) return;
  snprintf(g_text[1], kTextBytes, "%llu", kib * 1024);
  write_fact("peak_memory_bytes", g_text[1]);
}

constexpr int kUnknownCode = -1;
int g_exit_code = kUnknownCode;

/// Runs before at_exit(): it is registered later than the loader's end.
void keep_exit_code(int status, void*) { g_exit_code = status & 0xff; }

int is_torch(dl_phdr_info* library, size_t, void*) {
  return library->dlpi_name && strstr(library->dlpi_name, "/libtorch_python.so") ? 1 : 0;
}

__attribute__((destructor)) void at_exit() {
  if (g_start != Start::kOn || g_owner != getpid()) return;
  const NoCancel no_cancel;
  if (!g_hooks[0] && dl_iterate_phdr(is_torch, nullptr) == 1) write_fact(kTorchHooks, "none");
  write_placement_if_moved();
  end_cpu_account();
  write_peak_memory();
  if (g_exit_code != kUnknownCode) {
    snprintf(g_text[1], kTextBytes, "%d", g_exit_code);
    write_fact("exit_code", g_text[1]);
  }
  end_node_health();
  __atomic_fetch_or(&spool_header()->flags, kExited, __ATOMIC_RELAXED);
  write_clock();
}

bool try_start() {
  if (is_on("DDL_DISABLE")) return false;
  if (!choose_directory()) {
    say("not recording: the run directory's name would have more than %zu bytes, or the working folder is gone: set DDL_OUT",
        kMostDirectoryBytes);
    return false;
  }
  if (g_forked) {
    reset_communicators();
    reset_nccl_communicators();
    reset_gloo();
    reset_requests();
  }
  static bool hooked = false;
  if (!hooked) {
    pthread_atfork(nullptr, nullptr, in_forked_child);
    on_exit(keep_exit_code, nullptr);
  }
  hooked = true;
  int error = 0;
  if (const char* why = activate(options_from_environment(), &error)) {
    say(error ? "not recording: %s: %s (%s)" : "not recording: %s%s (%s)", why, error ? strerror(error) : "",
        g_directory);
    return false;
  }
  g_owner = getpid();
  g_forked = false;
  write_facts();
  write_collector_facts();
  start_counters();
  start_thread_samples();
  begin_cpu_account();
  start_node_health();
  return true;
}

}  // namespace

void tell_hooks(const char* text) {
  const size_t length = strnlen(text, sizeof g_hooks - 1);
  memcpy(g_hooks, text, length);
  g_hooks[length] = 0;
  if (g_start == Start::kOn && g_owner == getpid()) write_fact(kTorchHooks, g_hooks);
}

void tell_hooked_steps(const char* text) {
  if (g_start == Start::kOn && g_owner == getpid()) write_fact("torch.steps", text);
}

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

bool clock_sync_wanted() { return is_on("DDL_CLOCK_SYNC") && !is_on("DDL_DISABLE") && collector_wanted("mpi"); }

namespace {

/// Once per process. `of_a_rank`: the call is one that only processes of the job make, not helpers that inherited
/// annotations (a DataLoader worker).
bool start(bool of_a_rank) {
  Start now = __atomic_load_n(&g_start, __ATOMIC_ACQUIRE);
  if (now == Start::kNotYet) {
    if (g_forked && !of_a_rank) return false;
    if (__atomic_compare_exchange_n(&g_start, &now, Start::kStarting, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
      const int saved_errno = errno;
      const NoCancel no_cancel;  // the others wait for this thread
      t_starting = true;
      now = try_start() ? Start::kOn : Start::kOff;
      t_starting = false;
      __atomic_store_n(&g_start, now, __ATOMIC_RELEASE);
      errno = saved_errno;
    }
  }
  // another thread is at it; if it is this one, we are in a signal handler
  while (now == Start::kStarting && !t_starting) {
    sched_yield();
    now = __atomic_load_n(&g_start, __ATOMIC_ACQUIRE);
  }
  return now == Start::kOn && g_process.active;  // inactive: a forked child that nobody told
}

bool start_collector(const char* name) {
  if (__atomic_load_n(&g_start, __ATOMIC_ACQUIRE) == Start::kNotYet) find_first_environment();
  return collector_wanted(name) && start(true);
}

}  // namespace

bool start_recorder(bool from_mpi) {
  if (from_mpi) {
    if (!start_collector("mpi")) return false;
    __atomic_fetch_or(&spool_header()->flags, kMpiEntered, __ATOMIC_RELAXED);
    return true;
  }
  if (__atomic_load_n(&g_start, __ATOMIC_ACQUIRE) == Start::kNotYet) find_first_environment();
  return start(false);
}

bool start_recorder_from_nccl() { return start_collector("nccl"); }

bool start_recorder_from_gloo() {
  if (!start_collector("gloo")) return false;
  __atomic_fetch_or(&spool_header()->flags, kGlooEntered, __ATOMIC_RELAXED);
  return true;
}

void say(const char* format, ...) {
  if (launch_rank() > 0 && !setting("DDL_VERBOSE")) return;
  const int descriptor = fcntl(STDERR_FILENO, F_GETFD);
  // closed, or a file of the program's own under the same number
  if (descriptor < 0 || (descriptor & FD_CLOEXEC)) return;
  char text[1024] = "ddl: ";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + 5, sizeof text - 6, format, arguments);
  va_end(arguments);
  strcat(text, "\n");
  const NoCancel no_cancel;
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;  // nobody listens
}

}  // namespace ddl
