// What a pair of NVTX calls costs with us behind it, against the least that any tool with times could cost: the same
// calls into empty handlers, and two readings of the clock. All three take turns in one process, block by block, so
// that the machine's other load falls on all alike.
//
//   ranges LIBRARY CLOCK [BLOCKS [PAIRS]]     CLOCK: tsc or monotonic, as LIBRARY was told (DDL_CLOCK)
//
// A block is long enough for the log to grow ten times in it: else the median says what a block costs in
// which it grew once.
//
// prints "KIND ours_min ours_median empty_min empty_median clock_min clock_median" in ns per pair, one line per kind.
#include <dlfcn.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "collectors/nvtx_abi.h"

using namespace ddl::nvtx;

namespace {

/// One copy of NVTX: where a library of the program keeps the pointers to the tool's functions.
struct Copy {
  Function core[16] = {}, core2[16] = {};
  Function* core_table[16] = {};
  Function* core2_table[16] = {};
};
Copy g_tool, g_empty;
Copy* volatile g_copy = &g_tool;  // as NVTX does: load the pointer, look whether there is one, call

int table(int module, FunctionTable* out, unsigned* size) {
  for (unsigned i = 1; i < 16; ++i) {
    g_tool.core_table[i] = &g_tool.core[i];
    g_tool.core2_table[i] = &g_tool.core2[i];
  }
  *out = module == kCore ? g_tool.core_table : g_tool.core2_table;
  *size = 16;
  return module == kCore || module == kCore2;
}
const void* export_table(uint32_t id) {
  static const Callbacks callbacks = {sizeof(Callbacks), table};
  return id == kCallbacksTable ? &callbacks : nullptr;
}

template <class Result, class... Arguments>
Result call(Function function, Arguments... arguments) {
  return function ? reinterpret_cast<Result (*)(Arguments...)>(function)(arguments...) : Result();
}

int empty_push(const char*) { return 0; }
int empty_pop() { return 0; }
int empty_domain_push(Domain, const EventAttributes*) { return 0; }
int empty_domain_pop(Domain) { return 0; }
RangeId empty_start(const char*) { return 1; }
int empty_end(RangeId) { return 0; }

template <class F>
Function pointer(F* function) {
  return reinterpret_cast<Function>(function);
}

Domain g_domain;
EventAttributes g_event;
bool g_tsc;

void push_pop() {
  call<int>(g_copy->core[kRangePushA], "layer1");
  call<int>(g_copy->core[kRangePop]);
}
void domain_registered() {
  call<int>(g_copy->core2[kDomainRangePushEx], g_domain, const_cast<const EventAttributes*>(&g_event));
  call<int>(g_copy->core2[kDomainRangePop], g_domain);
}
void start_end() {
  const RangeId id = call<RangeId>(g_copy->core[kRangeStartA], "layer1");
  call<int>(g_copy->core[kRangeEnd], id);
}

double now_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

volatile uint64_t g_sink;
void two_clocks() {
  if (g_tsc) {
    g_sink = __rdtsc();
    g_sink = __rdtsc();
  } else {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    g_sink = static_cast<uint64_t>(t.tv_nsec);
    clock_gettime(CLOCK_MONOTONIC, &t);
    g_sink = static_cast<uint64_t>(t.tv_nsec);
  }
}

double block(void (*pair)(), int pairs) {
  const double begin = now_ns();
  for (int i = 0; i < pairs; ++i) pair();
  return (now_ns() - begin) / pairs;
}

struct Samples {
  std::vector<double> ns;
  double least() const { return *std::min_element(ns.begin(), ns.end()); }
  double median() {
    std::nth_element(ns.begin(), ns.begin() + static_cast<long>(ns.size() / 2), ns.end());
    return ns[ns.size() / 2];
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  g_tsc = strcmp(argv[2], "tsc") == 0;
  const int blocks = argc > 3 ? atoi(argv[3]) : 20, pairs = argc > 4 ? atoi(argv[4]) : 262144;
  void* library = dlopen(argv[1], RTLD_LAZY);
  const auto attach =
      library ? reinterpret_cast<int (*)(GetExportTable)>(dlsym(library, "InitializeInjectionNvtx2")) : nullptr;
  if (!attach || attach(export_table) != 1) {
    fprintf(stderr, "%s does not attach: %s\n", argv[1], library ? "it has no handler or wants none" : dlerror());
    return 1;
  }
  g_domain = call<Domain>(g_tool.core2[kDomainCreateA], "bench");
  g_event.version = kVersion;
  g_event.size = sizeof g_event;
  g_event.message_type = kMessageRegistered;
  g_event.message.registered = call<const void*>(g_tool.core2[kDomainRegisterStringA], g_domain, "registered layer");
  g_empty.core[kRangePushA] = pointer(empty_push);
  g_empty.core[kRangePop] = pointer(empty_pop);
  g_empty.core[kRangeStartA] = pointer(empty_start);
  g_empty.core[kRangeEnd] = pointer(empty_end);
  g_empty.core2[kDomainRangePushEx] = pointer(empty_domain_push);
  g_empty.core2[kDomainRangePop] = pointer(empty_domain_pop);

  const struct {
    const char* name;
    void (*pair)();
  } kinds[] = {{"push_pop", push_pop}, {"domain_registered", domain_registered}, {"start_end", start_end}};
  for (const auto& kind : kinds) {
    Samples ours, empty, clocks;
    for (int i = 0; i < blocks; ++i) {
      g_copy = &g_tool;
      ours.ns.push_back(block(kind.pair, pairs));
      g_copy = &g_empty;
      empty.ns.push_back(block(kind.pair, pairs));
      clocks.ns.push_back(block(two_clocks, pairs));
    }
    printf("%s %.2f %.2f %.2f %.2f %.2f %.2f\n", kind.name, ours.least(), ours.median(), empty.least(), empty.median(),
           clocks.least(), clocks.median());
  }
  return 0;
}
