// Counters (ddl record --counters PAPI_TOT_INS,page-faults,...), from the best source that has each:
//
//   PAPI           if some libpapi can be opened: presets (PAPI_TOT_INS), and events of its components
//                  (perf::PAGE-FAULTS)
//   getrusage      page-faults, context-switches, under these names or those of PAPI's perf component
//   clock_gettime  task-clock, ns: getrusage's times stand still between two ticks of the scheduler, longer than
//                  many a layer takes
//   nobody         then there is no number, and the reason is kept: absent is not zero
//
// Not asked: perf_event_open. Its counters are file descriptors, and programs close what they do not know
// (docs/decisions/0004): to read one would then read, and eat, what is in somebody else's. PAPI has the same trouble;
// but whoever names its events has asked for PAPI.
//
// PAPI counts per thread. The program may use PAPI itself: then it is not initialized again, and never shut down.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "collectors/collectors.h"
#include "core/dynamic_loading.h"
#include "core/recorder.h"
#include "interpose/process.h"

namespace ddl {

namespace {

constexpr int kPapiOk = 0;
constexpr int kPapiNull = -1;
constexpr int kNoSet = -1;  // Thread::counter_set: this thread cannot count

/// libpapi, as far as it is asked. Numbers and signatures have not changed since PAPI 5.
struct Papi {
  int (*is_initialized)();
  int (*library_init)(int version);
  int (*thread_init)(unsigned long (*id)());
  int (*create_eventset)(int* set);
  int (*add_named_event)(int set, const char* name);
  int (*start)(int set);
  int (*read)(int set, long long* values);
  int (*stop)(int set, long long* values);
  int (*cleanup_eventset)(int set);
  int (*destroy_eventset)(int* set);
  int (*unregister_thread)();
  char* (*strerror)(int error);
};
constexpr const char* kLibraries[] = {"libpapi.so.7.0", "libpapi.so.7.1", "libpapi.so.7.2", "libpapi.so.7",
                                      "libpapi.so.6.0", "libpapi.so.5.7", "libpapi.so"};
constexpr int kVersions[] = {7 << 24, 7 << 24 | 1 << 16, 7 << 24 | 2 << 16, 6 << 24, 5 << 24 | 7 << 16};

enum class Source : uint8_t { kNobody, kPapi, kRusage, kThreadClock };
enum class Usage : uint8_t { kPageFaults, kContextSwitches };
struct UsageName {
  const char* name;
  Source source;
  Usage usage;
};
constexpr UsageName kUsages[] = {{"page-faults", Source::kRusage, Usage::kPageFaults},
                                 {"perf::PAGE-FAULTS", Source::kRusage, Usage::kPageFaults},
                                 {"context-switches", Source::kRusage, Usage::kContextSwitches},
                                 {"perf::CONTEXT-SWITCHES", Source::kRusage, Usage::kContextSwitches},
                                 {"task-clock", Source::kThreadClock, {}},
                                 {"perf::TASK-CLOCK", Source::kThreadClock, {}}};

struct Counter {
  char name[128];
  Source source;
  Usage usage;
  uint32_t papi_index;
  char why[128];
};

Papi g_papi = {};
Counter g_counters[kMaxCounters];
uint32_t g_count = 0;
uint32_t g_papi_count = 0;
bool g_asks_kernel = false;

template <class F>
bool find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

/// NULL: PAPI is there; else why not.
const char* open_papi() {
  if (!&dlopen || !&dlsym) return "no libpapi";
  void* library = nullptr;
  for (const char* name : kLibraries) {
    if (!library) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  }
  if (!library) return "no libpapi";
  Papi& p = g_papi;
  const bool whole =
      find(library, "PAPI_is_initialized", p.is_initialized) && find(library, "PAPI_library_init", p.library_init) &&
      find(library, "PAPI_thread_init", p.thread_init) && find(library, "PAPI_create_eventset", p.create_eventset) &&
      find(library, "PAPI_add_named_event", p.add_named_event) && find(library, "PAPI_start", p.start) &&
      find(library, "PAPI_read", p.read) && find(library, "PAPI_stop", p.stop) &&
      find(library, "PAPI_cleanup_eventset", p.cleanup_eventset) &&
      find(library, "PAPI_destroy_eventset", p.destroy_eventset) &&
      find(library, "PAPI_unregister_thread", p.unregister_thread) && find(library, "PAPI_strerror", p.strerror);
  if (!whole) return "libpapi lacks functions";
  bool initialized = p.is_initialized() != 0;
  for (const int version : kVersions) initialized = initialized || p.library_init(version) == version;
  if (!initialized) return "libpapi of an unknown version";
  p.thread_init([]() -> unsigned long { return static_cast<unsigned long>(pthread_self()); });
  return nullptr;
}

/// Adds what PAPI has to a new set; `first`: says in g_counters what that is. kPapiNull: nothing.
int make_set(bool first) {
  int set = kPapiNull;
  if (g_papi.create_eventset(&set) != kPapiOk) return kPapiNull;
  uint32_t added = 0;
  for (uint32_t i = 0; i < g_count; ++i) {
    Counter& counter = g_counters[i];
    if (!first && counter.source != Source::kPapi) continue;
    const int result = g_papi.add_named_event(set, counter.name);
    if (first && result == kPapiOk) {
      counter.source = Source::kPapi;
      counter.papi_index = added;
    } else if (first) {
      snprintf(counter.why, sizeof counter.why, "PAPI: %s", g_papi.strerror(result));
    }
    if (result == kPapiOk) ++added;
  }
  if (first) g_papi_count = added;
  const int result = added > 0 && added == g_papi_count ? g_papi.start(set) : kPapiNull;
  if (result == kPapiOk) return set;
  for (uint32_t i = 0; first && i < g_count; ++i) {
    if (g_counters[i].source != Source::kPapi) continue;
    g_counters[i].source = Source::kNobody;
    snprintf(g_counters[i].why, sizeof g_counters[i].why, "PAPI does not start: %s", g_papi.strerror(result));
  }
  if (first) g_papi_count = 0;
  g_papi.cleanup_eventset(set);
  g_papi.destroy_eventset(&set);
  return kPapiNull;
}

void read_papi(Thread* thread, CounterValues& values) {
  if (thread->counter_set == 0) {
    const int set = make_set(false);
    thread->counter_set = set == kPapiNull ? kNoSet : set + 1;
  }
  long long numbers[kMaxCounters];
  if (thread->counter_set == kNoSet || g_papi.read(thread->counter_set - 1, numbers) != kPapiOk) return;
  for (uint32_t i = 0; i < g_count; ++i) {
    if (g_counters[i].source != Source::kPapi) continue;
    values.value[i] = static_cast<uint64_t>(numbers[g_counters[i].papi_index]);
    values.known |= 1u << i;
  }
}

void read_counters(Thread* thread, CounterValues& values) {
  if (g_papi_count > 0) read_papi(thread, values);
  if (!g_asks_kernel) return;
  rusage usage;
  const bool has_usage = getrusage(RUSAGE_THREAD, &usage) == 0;
  for (uint32_t i = 0; i < g_count; ++i) {
    const Counter& counter = g_counters[i];
    if (counter.source == Source::kThreadClock) {
      values.value[i] = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    } else if (counter.source == Source::kRusage && has_usage) {
      values.value[i] = static_cast<uint64_t>(counter.usage == Usage::kPageFaults ? usage.ru_minflt + usage.ru_majflt
                                                                                  : usage.ru_nvcsw + usage.ru_nivcsw);
    } else {
      continue;
    }
    values.known |= 1u << i;
  }
}

void release_counters(Thread* thread) {
  if (thread->counter_set <= 0) return;
  int set = thread->counter_set - 1;
  long long ignored[kMaxCounters];
  g_papi.stop(set, ignored);
  g_papi.cleanup_eventset(set);
  g_papi.destroy_eventset(&set);
  g_papi.unregister_thread();
}
constexpr CounterSource kSource = {read_counters, release_counters};

/// Names between commas.
void parse_names(const char* list) {
  g_count = 0;
  while (*list && g_count < kMaxCounters) {
    const size_t length = strcspn(list, ",");
    Counter& counter = g_counters[g_count];
    counter = {};
    snprintf(counter.name, sizeof counter.name, "%.*s", static_cast<int>(length), list);
    if (length > 0) ++g_count;
    list += length;
    if (*list) ++list;
  }
}

void take_from_kernel() {
  g_asks_kernel = false;
  for (uint32_t i = 0; i < g_count; ++i) {
    for (const UsageName& usage : kUsages) {
      if (g_counters[i].source != Source::kNobody || strcasecmp(g_counters[i].name, usage.name) != 0) continue;
      g_counters[i].source = usage.source;
      g_counters[i].usage = usage.usage;
      g_asks_kernel = true;
    }
  }
}

void write_sources() {
  for (uint32_t i = 0; i < g_count; ++i) {
    const Counter& counter = g_counters[i];
    constexpr const char* kSources[] = {"", "papi", "getrusage", "clock_gettime"};
    char key[32], value[sizeof counter.name + sizeof counter.why + 16];
    snprintf(key, sizeof key, "counter.%u", i);
    snprintf(value, sizeof value, "%.127s|%s|%.127s", counter.name, kSources[static_cast<int>(counter.source)],
             counter.source == Source::kNobody ? counter.why : "");
    write_fact(key, value);
  }
}

}  // namespace

void start_counters() {
  const char* list = setting("DDL_COUNTERS");
  if (!list || !collector_wanted("papi")) return;
  parse_names(list);
  g_papi_count = 0;
  bool known_to_papi = false;
  for (uint32_t i = 0; i < g_count; ++i)
    known_to_papi = known_to_papi || strncmp(g_counters[i].name, "PAPI_", 5) == 0 || strstr(g_counters[i].name, "::");
  int set = kPapiNull;
  if (known_to_papi) {
    if (const char* why = open_papi()) {
      for (uint32_t i = 0; i < g_count; ++i) snprintf(g_counters[i].why, sizeof g_counters[i].why, "%s", why);
    } else {
      set = make_set(true);
    }
  }
  take_from_kernel();
  for (uint32_t i = 0; i < g_count; ++i) {
    if (g_counters[i].source == Source::kNobody && !g_counters[i].why[0])
      strcpy(g_counters[i].why, "nobody has a counter of this name");
  }
  write_sources();
  if (g_papi_count == 0 && !g_asks_kernel) return;
  if (set != kPapiNull) {
    if (Thread* thread = this_thread()) thread->counter_set = set + 1;
  }
  use_counters(&kSource);
}

}  // namespace ddl
