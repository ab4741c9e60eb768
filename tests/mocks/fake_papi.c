/* libpapi with counters that count what the program tells them to: fake_papi_count(). Only PAPI_TOT_INS, PAPI_TOT_CYC
 * and test::EVENT exist; at most two fit together, as on a processor with two counters. A set belongs to the thread
 * that made it, and reading another's
 * fails. FAKE_PAPI_VERSION   what it says it is (default 7.0, as 0x07000000) FAKE_PAPI_START=0   nothing can be started */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
enum { kOk = 0, kInvalid = -1, kNoEvent = -7, kConflict = -8, kPermission = -15, kSets = 256, kEvents = 3, kFit = 2 };

static const char* const kNames[kEvents] = {"PAPI_TOT_INS", "PAPI_TOT_CYC", "test::EVENT"};
static __thread long long t_counts[kEvents];
static struct {
  int used, running, count, events[kFit];
  pthread_t owner;
  long long begin[kFit];
} g_sets[kSets];
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static int g_initialized, g_threads;

PUBLIC void fake_papi_count(int event, long long n) { t_counts[event] += n; }
PUBLIC int fake_papi_sets(void) {
  int n = 0;
  for (int i = 0; i < kSets; ++i) n += g_sets[i].used;
  return n;
}

PUBLIC int PAPI_is_initialized(void) { return g_initialized; }
PUBLIC int PAPI_library_init(int version) {
  const char* told = getenv("FAKE_PAPI_VERSION");
  const int own = told ? (int)strtol(told, NULL, 0) : 0x07000000;
  if (version != own) return kInvalid;
  g_initialized = 1;
  return version;
}
PUBLIC int PAPI_thread_init(unsigned long (*id)(void)) {
  g_threads = id != NULL;
  return g_initialized ? kOk : kInvalid;
}
PUBLIC int PAPI_create_eventset(int* set) {
  if (!g_initialized || !g_threads || *set != -1) return kInvalid;
  pthread_mutex_lock(&g_mutex);
  int i = 0;
  while (i < kSets && g_sets[i].used) ++i;
  if (i < kSets) {
    memset(&g_sets[i], 0, sizeof g_sets[i]);
    g_sets[i].used = 1;
    g_sets[i].owner = pthread_self();
  }
  pthread_mutex_unlock(&g_mutex);
  if (i == kSets) return kInvalid;
  *set = i;
  return kOk;
}
static int is_mine(int set) {
  return set >= 0 && set < kSets && g_sets[set].used && pthread_equal(g_sets[set].owner, pthread_self());
}
PUBLIC int PAPI_add_named_event(int set, const char* name) {
  if (!is_mine(set)) return kInvalid;
  for (int e = 0; e < kEvents; ++e) {
    if (strcmp(name, kNames[e]) != 0) continue;
    if (g_sets[set].count == kFit) return kConflict;
    g_sets[set].events[g_sets[set].count++] = e;
    return kOk;
  }
  return kNoEvent;
}
PUBLIC int PAPI_start(int set) {
  const char* may = getenv("FAKE_PAPI_START");
  if (may && strcmp(may, "0") == 0) return kPermission;
  if (!is_mine(set) || g_sets[set].count == 0) return kInvalid;
  for (int i = 0; i < g_sets[set].count; ++i) g_sets[set].begin[i] = t_counts[g_sets[set].events[i]];
  g_sets[set].running = 1;
  return kOk;
}
PUBLIC int PAPI_read(int set, long long* values) {
  if (!is_mine(set) || !g_sets[set].running) return kInvalid;
  for (int i = 0; i < g_sets[set].count; ++i) values[i] = t_counts[g_sets[set].events[i]] - g_sets[set].begin[i];
  return kOk;
}
PUBLIC int PAPI_stop(int set, long long* values) {
  const int result = PAPI_read(set, values);
  if (result == kOk) g_sets[set].running = 0;
  return result;
}
PUBLIC int PAPI_cleanup_eventset(int set) {
  if (!is_mine(set) || g_sets[set].running) return kInvalid;
  g_sets[set].count = 0;
  return kOk;
}
PUBLIC int PAPI_destroy_eventset(int* set) {
  if (!is_mine(*set)) return kInvalid;
  g_sets[*set].used = 0;
  *set = -1;
  return kOk;
}
PUBLIC int PAPI_unregister_thread(void) { return kOk; }
PUBLIC char* PAPI_strerror(int error) {
  switch (error) {
    case kNoEvent:
      return "Event does not exist";
    case kConflict:
      return "Event exists, but cannot be counted due to counter resource limitations";
    case kPermission:
      return "Permission level does not permit operation";
    default:
      return "Invalid argument";
  }
}
