// What GPUs do, by CUPTI's activity records, and which layer launched it, by its callbacks.
//
// Nothing happens until the program calls cuInit: then the driver calls InitializeInjection(), through
// CUDA_INJECTION64_PATH, in processes that really use a GPU, before there is a context. Asking CUPTI ourselves would
// cost every process, and is refused without a driver.
//
// Four parties meet here:
//   the job's threads  come in with each launch (on_launch): they write a launch record (correlation id, layer,
//                      when) like any call
//   CUPTI              asks for buffers and gives them back full, from any thread, the job's included: pointers
//                      change hands, no more
//   our thread         reads full buffers into device records, and asks CUPTI each second for what it has. It is the
//                      only thread that this library ever starts: parsing in the callback would stop whichever of the
//                      job's threads was chosen to bring the buffer, and without somebody who asks, a killed job would
//                      lose all of a buffer that was not full
//                      library ever starts: parsing in the callback would stop whichever of the job's threads was
//                      chosen to bring the buffer, and without somebody who asks, a killed job would lose all of a
//                      buffer that was not full
//   the exit handler   asks for all that is left, and reads it. Registered from inside cuInit, so it runs
//                      before the driver's own
// Records and launches are joined when the spool is read (store/ingest/device.h); neither waits for the other here.
//
// No lock of ours is held across a call that may call back. Records count our ticks where CUPTI takes a clock from us;
// else ns of its own, and pairs of both clocks are written.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#include "collectors/collectors.h"
#include "collectors/cupti.h"
#include "collectors/cupti_calls.h"
#include "collectors/node_health.h"
#include "core/clock.h"
#include "core/dynamic_loading.h"
#include "core/lock_and_pages.h"
#include "core/recorder.h"
#include "interpose/process.h"

namespace ddl {

namespace {

using namespace cupti;

constexpr size_t kBufferBytes = 1 << 20;  // 4800 kernels
constexpr uint32_t kMaxBuffers = 256;
constexpr size_t kScratchBytes = 1 << 16;
constexpr uint32_t kLaunchSlots = 1 << 20;
constexpr long kPauseNs = 100000000;
constexpr int kPausesPerFlush = 10;

/// At the head of each buffer; CUPTI gets what follows.
struct alignas(64) Buffer {
  Buffer* next;
  size_t valid;
};

class Spin {
 public:
  explicit Spin(int& held) : held_(held) {
    while (__atomic_exchange_n(&held_, 1, __ATOMIC_ACQUIRE)) sched_yield();
  }
  ~Spin() { __atomic_store_n(&held_, 0, __ATOMIC_RELEASE); }
  Spin(const Spin&) = delete;
  Spin& operator=(const Spin&) = delete;

 private:
  int& held_;
};

Functions g_cupti;
uint32_t g_version;
void* g_subscriber;
bool g_on;         // callbacks do something
bool g_own_clock;  // CUPTI's records count our ticks

/// What becomes of the activities that a call led to.
enum class Fate : uint8_t {
  kKept,
  kNotKept,  // the window does not keep them
  kNotOurs,  // a query of an event, of which CUPTI makes a synchronisation
};
Fate* g_fates;  // by correlation id of the call. What is that many calls older is forgotten

int g_buffer_lock;
Buffer* g_free;
Buffer* g_full;  // newest first
uint32_t g_buffer_count;
alignas(64) uint8_t g_scratch[kScratchBytes];
int g_read_lock;  // of the device chunk: our thread, or whoever flushes
int g_in_cupti;   // our thread is inside CUPTI
bool g_stop;      // CUPTI is left alone
bool g_ended;     // the process ends, and our thread with it
uint64_t g_calibrated_ticks;
bool g_described;    // the facts about the GPUs are written
bool g_handed_over;  // the program has a use of its own for CUPTI
char g_client[96];   // whose

/// The call that the thread is in, the outermost one.
__thread struct {
  uint32_t depth;
  uint32_t correlation;
} t_launch __attribute__((tls_model("initial-exec")));

bool on() { return __atomic_load_n(&g_on, __ATOMIC_RELAXED); }

// ------------------------------------------------------------------------------------------------ buffers

void on_buffer_requested(uint8_t** buffer, size_t* size, size_t* records) {
  const int saved_errno = errno;
  *records = 0;
  Buffer* taken = nullptr;
  {
    const Spin lock(g_buffer_lock);
    taken = g_free;
    if (taken) g_free = taken->next;
    if (!taken && g_buffer_count < kMaxBuffers) {
      void* pages = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages != MAP_FAILED) {
        taken = static_cast<Buffer*>(pages);
        ++g_buffer_count;
      }
    }
  }
  if (taken) {
    *buffer = reinterpret_cast<uint8_t*>(taken + 1);
    *size = kBufferBytes - sizeof(Buffer);
  } else {
    const bool may_refuse = g_version >= kMayRefuseBuffers;
    *buffer = may_refuse ? nullptr : g_scratch;
    *size = may_refuse ? 0 : kScratchBytes;
  }
  errno = saved_errno;
}

void on_buffer_completed(void*, uint32_t, uint8_t* bytes, size_t, size_t valid) {
  if (bytes == g_scratch) {
    count_loss(kLossDeviceUnread);
    return;
  }
  if (!bytes) return;
  Buffer* buffer = reinterpret_cast<Buffer*>(bytes) - 1;
  buffer->valid = valid;
  const Spin lock(g_buffer_lock);
  buffer->next = g_full;
  g_full = buffer;
}

/// Records go the way of their launches. Overhead has no launch.
Fate fate_of(const DeviceRecord& r) {
  return r.correlation == 0 || !g_fates ? Fate::kKept : g_fates[r.correlation % kLaunchSlots];
}

void read_buffer(const Buffer* buffer) {
  uint8_t* bytes = reinterpret_cast<uint8_t*>(const_cast<Buffer*>(buffer) + 1);
  uint8_t* record = nullptr;
  int result;
  while ((result = g_cupti.next_record(bytes, buffer->valid, &record)) == kSuccess) {
    DeviceRecord to;
    const char* name = nullptr;
    switch (convert(record, g_version, g_own_clock ? 0 : kDeviceTime, to, name)) {
      case Converted::kNow:
        to.start = to.end = ticks();
        [[fallthrough]];
      case Converted::kYes:
        switch (fate_of(to)) {
          case Fate::kKept:
            if (name) to.name = intern_name(name);
            write_device_record(to);
            break;
          case Fate::kNotKept:
            if (device_kind(to.what) != DeviceKind::kEvent) count_loss(kLossDeviceNotKept);
            break;
          case Fate::kNotOurs:
            break;
        }
        break;
      case Converted::kNoTimes:
        count_loss(kLossDeviceTimes);
        break;
      case Converted::kNotOurs:
        break;
    }
  }
  if (result != kMaxLimitReached) count_loss(kLossDeviceUnread);
}

/// Reads what CUPTI has given back, the oldest first.
void read_buffers() {
  const Spin reading(g_read_lock);
  Buffer* newest;
  {
    const Spin lock(g_buffer_lock);
    newest = g_full;
    g_full = nullptr;
  }
  Buffer* oldest = nullptr;
  while (newest) {
    Buffer* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  if (oldest && !g_described) {  // something ran, so cuInit has returned
    g_described = true;
    write_gpu_facts();
  }
  while (oldest) {
    Buffer* next = oldest->next;
    read_buffer(oldest);
    const Spin lock(g_buffer_lock);
    oldest->next = g_free;
    g_free = oldest;
    oldest = next;
  }
}

void count_dropped() {
  size_t dropped = 0;
  if (g_cupti.dropped_records && g_cupti.dropped_records(nullptr, 0, &dropped) == kSuccess && dropped > 0)
    count_loss(kLossDeviceDropped, dropped);
}

// ------------------------------------------------------------------------------------------------ clocks

/// Once it is handed over, what CUPTI's own clock would say: ns since the epoch, which a client expects.
uint64_t our_ticks() { return on() || !g_handed_over ? ticks() : clock_ns(CLOCK_REALTIME); }

/// Ties CUPTI's clock to ours: now, then each second, in a long run each 1/256 of its age.
void calibrate() {
  const uint64_t now = ticks();
  const uint64_t age = now - spool_header()->begin.ticks;
  if (g_own_clock || (g_calibrated_ticks != 0 && now - g_calibrated_ticks < age / 256)) return;
  DeviceClockMeta best = {};
  uint64_t narrowest = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    uint64_t device_ns = 0;
    const uint64_t before = ticks();
    if (g_cupti.get_timestamp(&device_ns) != kSuccess) return;
    const uint64_t after = ticks();
    if (after - before < narrowest) best = {before + (after - before) / 2, device_ns};
    narrowest = after - before < narrowest ? after - before : narrowest;
  }
  g_calibrated_ticks = now;
  write_device_clock(best);
}

// ------------------------------------------------------------------------------------------------ launches

void on_launch(Domain domain, uint32_t number, const CallbackData& call) {
  const uint8_t kind = number < kCallNumbers ? kCallKinds.kind[domain == kRuntime][number] : 0;
  if (kind == 0 || !call.own) return;
  if (call.site == kEnter) {
    // A runtime function calls one of the driver, which may have the same number: the outer one stands for both.
    if (t_launch.depth++ == 0) t_launch.correlation = call.correlation;
    const uint64_t now = ticks();
    *call.own = now;
    if (g_fates) {
      const bool is_query = kind == static_cast<uint8_t>(LaunchKind::kQuery);
      g_fates[call.correlation % kLaunchSlots] = is_query                        ? Fate::kNotOurs
                                                 : keep(false, kNoSequence, now) ? Fate::kKept
                                                                                 : Fate::kNotKept;
    }
    return;
  }
  if (t_launch.depth > 0) --t_launch.depth;
  if (kind == static_cast<uint8_t>(LaunchKind::kEvent) || kind == static_cast<uint8_t>(LaunchKind::kQuery))
    return;  // the fate is all that is asked for
  const uint64_t start = *call.own;
  if (start == 0 || (t_launch.depth > 0 && t_launch.correlation == call.correlation)) return;
  if (g_fates && g_fates[call.correlation % kLaunchSlots] != Fate::kKept) return;
  Thread* thread = this_thread();
  if (!thread) return;
  Record record = {};
  record.start_ticks = start;
  record.word = record_word(RecordKind::kLaunch, kind, ticks() - start);
  record.payload = call.correlation;
  record.comm = thread->nccl_call.comm;
  record.context = thread->context;
  record.sequence = thread->nccl_call.sequence;
  record.peer = -1;
  write_record(thread, true, record);
}

void on_graph_node(uint32_t number, const ResourceData& resource) {
  const auto* graph = static_cast<const GraphData*>(resource.descriptor);
  GraphNodeMeta meta = {};
  if (!graph || !graph->node || g_cupti.graph_node_id(graph->node, &meta.node) != kSuccess || meta.node == 0) return;
  if (number == kGraphNodeCloned) {
    if (!graph->original_node || g_cupti.graph_node_id(graph->original_node, &meta.original) != kSuccess) return;
  } else if (const Thread* thread = this_thread()) {
    meta.context = thread->context;
    meta.comm = thread->nccl_call.comm;
    meta.sequence = thread->nccl_call.sequence;
  }
  write_graph_node(meta);
}

void on_callback(void*, int domain, uint32_t number, const void* data) {
  if (!on() || !data) return;
  const int saved_errno = errno;
  if (domain == kResource) {
    on_graph_node(number, *static_cast<const ResourceData*>(data));
  } else if (domain == kDriver || domain == kRuntime) {
    on_launch(static_cast<Domain>(domain), number, *static_cast<const CallbackData*>(data));
  }
  errno = saved_errno;
}

// --------------------------------------------------------------------------------------------- our thread, and the end

void* read_and_flush(void*) {
  for (int pauses = 1; !__atomic_load_n(&g_ended, __ATOMIC_SEQ_CST); ++pauses) {
    const timespec pause = {0, kPauseNs};
    nanosleep(&pause, nullptr);
    __atomic_store_n(&g_in_cupti, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&g_stop, __ATOMIC_SEQ_CST)) {
      if (pauses % kPausesPerFlush == 0) {
        calibrate();
        g_cupti.flush_all(0);
        count_dropped();
      }
      read_buffers();
    }
    __atomic_store_n(&g_in_cupti, 0, __ATOMIC_SEQ_CST);
    sample_node(true);  // it knows when it is time
  }
  return nullptr;
}

/// Without it the exit handler has all to read.
void start_thread() {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const auto create = reinterpret_cast<Create>(dlsym(RTLD_DEFAULT, "pthread_create"));
  const auto detach = reinterpret_cast<int (*)(pthread_t)>(dlsym(RTLD_DEFAULT, "pthread_detach"));
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);                  // core/lost_pages.h
  sigprocmask(SIG_SETMASK, &all, &before);  // the job's signals are for its own threads
  pthread_t thread;
  if (create && create(&thread, nullptr, read_and_flush, nullptr) == 0 && detach) detach(thread);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

/// Takes in all that is left, and takes in no more.
void finish() {
  __atomic_store_n(&g_stop, true, __ATOMIC_SEQ_CST);
  const timespec pause = {0, 1000000};
  for (int i = 0; i < 2000 && __atomic_load_n(&g_in_cupti, __ATOMIC_SEQ_CST); ++i) nanosleep(&pause, nullptr);
  calibrate();
  g_cupti.flush_all(1);
  count_dropped();
  read_buffers();
  __atomic_store_n(&g_on, false, __ATOMIC_SEQ_CST);
}

void at_exit() {
  const int saved_errno = errno;
  const NoCancel no_cancel;
  __atomic_store_n(&g_ended, true, __ATOMIC_SEQ_CST);
  if (on()) finish();
  errno = saved_errno;
}

void in_forked_child() {
  g_on = false;
  g_buffer_lock = g_read_lock = g_in_cupti = 0;
}

// ------------------------------------------------------------------------------------------------ attaching

/// GPUs are not traced in this process, and the report says why.
void give_up(const char* why) {
  write_fact("gpu.off", why);
  say("GPU tracing is off: %s", why);
}

bool subscribe() {
  constexpr size_t kHolderBytes = 64;  // what CUPTI asks for at least
  char holder[kHolderBytes] = {};
  SubscriberParameters parameters = {sizeof parameters, "ddl", holder, sizeof holder};
  int result = g_cupti.subscribe_v2 ? g_cupti.subscribe_v2(&g_subscriber, on_callback, nullptr, &parameters) : -1;
  // Not every driver has the newer one; whoever holds the place holds it for both.
  if (result != kSuccess && result != kMultipleSubscribers)
    result = g_cupti.subscribe(&g_subscriber, on_callback, nullptr);
  if (result == kSuccess) return true;
  char why[192];
  if (result == kMultipleSubscribers) {
    constexpr char kPrefix[] = "CUPTI for ";
    holder[kHolderBytes - 1] = 0;
    const char* name = strncmp(holder, kPrefix, sizeof kPrefix - 1) == 0 ? holder + sizeof kPrefix - 1 : holder;
    snprintf(why, sizeof why, "CUPTI is in use by %s, and takes one client at a time", name[0] ? name : "another tool");
  } else if (result == kNotInitialized) {
    snprintf(why, sizeof why, "CUPTI cannot be initialized (15): is the driver older than CUPTI %u, or a stub?",
             g_version);
  } else {
    snprintf(why, sizeof why, "cuptiSubscribe failed (%d)", result);
  }
  give_up(why);
  return false;
}

struct Kind {
  ActivityKind kind;
  const char* name;
};
constexpr Kind kKinds[] = {{kActivityConcurrentKernel, "kernels"},
                           {kActivityMemcpy, "copies"},
                           {kActivityMemcpy2, "copies between devices"},
                           {kActivityMemset, "memsets"},
                           {kActivitySynchronization, "synchronisation"},
                           {kActivityOverhead, "overhead"},
                           {kActivityCudaEvent, "events"}};

/// One by one: an old driver may lack one.
bool enable_kinds() {
  char missing[160] = {};
  size_t used = 0, enabled = 0;
  for (const Kind& kind : kKinds) {
    const int result = g_cupti.enable(kind.kind);
    enabled += result == kSuccess;
    if (result != kSuccess && used < sizeof missing)
      used += static_cast<size_t>(
          snprintf(missing + used, sizeof missing - used, "%s%s (%d)", used ? ", " : "", kind.name, result));
  }
  if (used > 0 && enabled > 0) write_fact("gpu.missing", missing);
  return enabled > 0;
}

void enable_callbacks() {
  uint32_t enabled = 0;
  for (const Domain domain : {kDriver, kRuntime}) {
    for (uint32_t number = 0; number < kCallNumbers; ++number) {
      if (kCallKinds.kind[domain == kRuntime][number] != 0)
        enabled += g_cupti.enable_callback(1, g_subscriber, domain, number) == kSuccess;
    }
  }
  for (const uint32_t number : {kGraphNodeCreated, kGraphNodeCloned})
    g_cupti.enable_callback(1, g_subscriber, kResource, number);
  if (enabled == 0) write_fact("gpu.missing", "the layers of GPU activities: launches cannot be followed");
}

void attach() {
  char path[256];
  if (const char* why = open_library(g_cupti, path, sizeof path)) return give_up(why);
  char fact[320];
  if (g_cupti.get_version(&g_version) != kSuccess || g_version < kOldestVersion)
    return give_up("libcupti is older than CUDA 11.0");
  snprintf(fact, sizeof fact, "%u %s", g_version, path);
  write_fact("cupti", fact);
  if (g_client[0]) {
    snprintf(fact, sizeof fact, "the program uses CUPTI itself (%s), which takes one client at a time", g_client);
    return give_up(fact);
  }
  if (!subscribe()) return;
  void* slots = mmap(nullptr, kLaunchSlots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_fates = slots == MAP_FAILED ? nullptr : static_cast<Fate*>(slots);
  g_own_clock = g_cupti.register_timestamp && g_cupti.register_timestamp(our_ticks) == kSuccess;
  calibrate();
  if (g_cupti.register_callbacks(on_buffer_requested, on_buffer_completed) != kSuccess)
    return give_up("CUPTI takes no buffers from us");
  enable_callbacks();
  if (!enable_kinds()) return give_up("CUPTI can trace nothing here");
  __atomic_store_n(&g_on, true, __ATOMIC_SEQ_CST);
  pthread_atfork(nullptr, nullptr, in_forked_child);
  atexit(at_exit);
  start_thread();
}

// ------------------------------------------------------------------------------------------------ making way

/// The program, or a library that it brings (torch.profiler's), subscribes. CUPTI takes one client, and what the
/// program asked for comes first: we tell what we have and leave. `caller`: an address in the client's code. Returns
/// CUPTI's own function of this name.
void* hand_over(const char* function, void* caller) {
  const int saved_errno = errno;
  const NoCancel no_cancel;
  static int lock;
  const Spin once(lock);
  Dl_info info = {};
  const bool known = dladdr(caller, &info) != 0 && info.dli_fname;
  const char* slash = known ? strrchr(info.dli_fname, '/') : nullptr;
  const char* client = slash ? slash + 1 : known ? info.dli_fname : "another tool";
  const bool is_cupti = strncmp(client, "libcupti", 8) == 0;  // one of its functions calls the other
  if (!is_cupti) snprintf(g_client, sizeof g_client, "%s", client);
  if (on() && !is_cupti) {
    finish();
    for (const Kind& kind : kKinds) g_cupti.disable(kind.kind);
    g_cupti.unsubscribe(g_subscriber);
    __atomic_store_n(&g_handed_over, true, __ATOMIC_SEQ_CST);
    char fact[160];
    snprintf(fact, sizeof fact, "%llu %s", static_cast<unsigned long long>(ticks()), g_client);
    write_fact("gpu.until", fact);
    say("GPU tracing ends here: %s uses CUPTI itself, which takes one client at a time", g_client);
  }
  // A client that was linked to it finds it behind us; one that was opened by itself has it among its own libraries.
  void* real = dlsym(RTLD_NEXT, function);
  if (!real && known) {
    if (void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      real = dlsym(handle, function);
      dlclose(handle);
    }
  }
  errno = saved_errno;
  return real;
}

}  // namespace

bool are_devices_traced() { return on(); }

void flush_devices() {
  if (!on()) return;
  const NoCancel no_cancel;
  g_cupti.flush_all(0);
  read_buffers();
}

}  // namespace ddl

/// Called by the CUDA driver in cuInit, and by nobody else.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  static int done = 0;
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  const bool hidden = visible && (visible[0] == 0 || strncmp(visible, "-1", 2) == 0);  // then cuInit fails, after this
  if (__atomic_exchange_n(&done, 1, __ATOMIC_SEQ_CST) || hidden || !ddl::collector_wanted("cuda") ||
      !ddl::start_recorder(false))
    return 1;
  const int saved_errno = errno;
  const ddl::NoCancel no_cancel;
  ddl::attach();
  errno = saved_errno;
  return 1;
}

// CUPTI's way in, for whoever comes after us.
extern "C" __attribute__((visibility("default"))) int cuptiSubscribe(void** subscriber, ddl::cupti::Callback callback,
                                                                     void* user) {
  void* real = &dlsym ? ddl::hand_over("cuptiSubscribe", __builtin_return_address(0)) : nullptr;
  if (!real || real == reinterpret_cast<void*>(cuptiSubscribe)) return ddl::cupti::kNotInitialized;
  return reinterpret_cast<decltype(&cuptiSubscribe)>(real)(subscriber, callback, user);
}

extern "C" __attribute__((visibility("default"))) int cuptiSubscribe_v2(void** subscriber,
                                                                        ddl::cupti::Callback callback, void* user,
                                                                        ddl::cupti::SubscriberParameters* parameters) {
  void* real = &dlsym ? ddl::hand_over("cuptiSubscribe_v2", __builtin_return_address(0)) : nullptr;
  if (!real || real == reinterpret_cast<void*>(cuptiSubscribe_v2)) return ddl::cupti::kNotInitialized;
  return reinterpret_cast<decltype(&cuptiSubscribe_v2)>(real)(subscriber, callback, user, parameters);
}
