// Other people's libraries (NVTX in every framework, CUDA, NCCL) look for tools in the environment. `ddl record` has
// told them; in a job that was started with a bare LD_PRELOAD this constructor does, for what is loaded later than us.
// It never overrides: who came first keeps it.
//
// Libraries that were linked to the program have run their constructors before ours: what they asked then
// stays without us.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/collectors.h"
#include "core/dynamic_loading.h"
#include "core/recorder.h"
#include "interpose/process.h"

namespace ddl {

namespace {

struct Row {
  const char* name;
  const char* variable;
};
constexpr Row kRows[] = {
#define DDL_COLLECTOR(name, variable, what) {#name, variable},
#include "collectors/collectors.def"
};

/// Path of the library that this is in; false: unknown.
bool own_path(char (&path)[PATH_MAX]) {
  Dl_info info;
  return &dladdr && dladdr(reinterpret_cast<const void*>(&own_path), &info) != 0 && info.dli_fname &&
         realpath(info.dli_fname, path) != nullptr;
}

__attribute__((constructor)) void tell_where_we_are() {
  listen_to_nccl();
  const int saved_errno = errno;
  static char path[PATH_MAX];
  for (const Row& row : kRows) {
    if (!row.variable[0] || getenv(row.variable) || is_on("DDL_DISABLE") || !collector_wanted(row.name)) continue;
    if (!path[0] && !own_path(path)) break;
    setenv(row.variable, path, 0);
  }
  errno = saved_errno;
}

}  // namespace

void write_collector_facts() {
  static char own[PATH_MAX], theirs[PATH_MAX];
  for (const Row& row : kRows) {
    const char* value = row.variable[0] && collector_wanted(row.name) ? getenv(row.variable) : nullptr;
    if (!value || !own_path(own) || (realpath(value, theirs) && strcmp(own, theirs) == 0)) continue;
    char key[64];
    snprintf(key, sizeof key, "held.%s", row.name);
    write_fact(key, value);
    say("%s is set to %s: ddl records less of %s; unset it to record all", row.variable, value, row.name);
  }
}

}  // namespace ddl
