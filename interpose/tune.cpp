// A job that is tuned while it runs (ddl_tune() and ddl_tuned() of include/ddl/annotate.h): follows the schedule that
// DDL_TUNE_FILE names, and tells the tuner by recorded values that it does: "ddl_tune_block", the number of the block,
// at each call, and "ddl_tuned NAME" when it is asked for a name and whenever the block has become another one. The
// rest of the library never looks at the schedule.
//
// Threads: those two functions are called by one thread, which runs the steps.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/decimal.h"
#include "core/lock_and_pages.h"
#include "core/recorder.h"
#include "core/tune_schedule.h"
#include "ddl/annotate.h"
#include "interpose/process.h"

namespace {

constexpr size_t kMostNames = 32;
constexpr size_t kNameBytes = 128;
constexpr size_t kValueBytes = 1024;

struct Asked {
  char name[kNameBytes];
  char value[kValueBytes];  ///< what was returned stays valid until the name is asked for again
  uint64_t told_block;
  bool told;
};

ddl::TuneFollower g_follower;
Asked g_asked[kMostNames];
bool g_looked, g_follows;

bool recording() { return __builtin_expect(ddl::g_process.active, 1) || ddl::start_recorder(false); }

void tell(const char* name, double value) {
  if (recording()) ddl::record_value(name, value);
}

Asked* slot_of(const char* name) {
  for (Asked& asked : g_asked) {
    if (asked.name[0] == 0) {
      const size_t length = strlen(name);
      if (length >= sizeof asked.name) return nullptr;
      memcpy(asked.name, name, length + 1);
      return &asked;
    }
    if (strcmp(asked.name, name) == 0) return &asked;
  }
  return nullptr;
}

}  // namespace

extern "C" void ddl_tune_follow(uint64_t step) {
  const int saved_errno = errno;
  const ddl::NoCancel no_cancel;
  if (!g_looked) {
    const char* base = ddl::setting("DDL_TUNE_FILE");
    g_looked = true;
    g_follows = base != nullptr && g_follower.begin(base);
  }
  if (g_follows && step != ddl::kTuneNoEnd) {
    if (const int error = g_follower.follow(step); error != 0) {
      ddl::say("cannot read the schedule of ddl tune --in-run: %s", strerror(error));
      g_follows = false;
      tell("ddl_tune_block", -1);
    } else {
      tell("ddl_tune_block", static_cast<double>(g_follower.now().number));
    }
  }
  errno = saved_errno;
}

extern "C" const char* ddl_tune_value(const char* name) {
  if (!g_follows || name == nullptr || name[0] == 0) return nullptr;
  const int saved_errno = errno;
  Asked* asked = slot_of(name);
  const bool has_value = asked != nullptr && g_follower.now().value_of(name, asked->value, sizeof asked->value);
  if (asked != nullptr && (!asked->told || asked->told_block != g_follower.now().number)) {
    char text[kNameBytes + 16];
    snprintf(text, sizeof text, "ddl_tuned %s", name);
    char* end = nullptr;
    const double number = has_value ? ddl::decimal(asked->value, &end) : NAN;
    tell(text, has_value && end != asked->value && *end == 0 ? number : NAN);
    asked->told = true;
    asked->told_block = g_follower.now().number;
  }
  errno = saved_errno;
  return has_value ? asked->value : nullptr;
}
