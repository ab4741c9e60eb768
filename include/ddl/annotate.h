/*
 * ddl/annotate.h - marks steps, phases and layers for ddl, and lets ddl tune change values between steps.
 *
 * Header only, C99 and C++. Nothing to link: the functions behind it are weak symbols that libddl.so defines when it is preloaded.
 * Without the library each call is one load and one branch; the program runs the same.
 *
 *     ddl_step_begin(k);
 *       ddl_phase_begin("forward");
 *         ddl_layer_begin("conv1");  ...  ddl_layer_end();
 *       ddl_phase_end();
 *       ddl_value("samples", batch);
 *     ddl_step_end();
 *
 * Two more lines, before each step on every rank, let ddl tune --in-run tune a value while the job runs:
 *
 *     ddl_tune(k);
 *     cycle_ms = ddl_tuned("cycle_ms", cycle_ms);
 *
 * Threads: ranges nest per thread; any thread may open them. Ends without a begin are counted and otherwise ignored.
 * Names: any bytes up to the first NUL, cut at 255 bytes, copied; they need not outlive the call. Use a bounded set of names, without
 * counters in them: they are interned for the life of the process.
 * Errors are never reported to the program.
 */
#ifndef DDL_ANNOTATE_H
#define DDL_ANNOTATE_H

#include <locale.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a range stands for. A step holds phases, a phase holds layers; any nesting is accepted. */
enum ddl_range_kind {
  DDL_RANGE_STEP = 1,  /**< one training iteration; `index` is its number, the same on every rank */
  DDL_RANGE_PHASE = 2, /**< forward, backward, update, input, ... */
  DDL_RANGE_LAYER = 3  /**< one layer or block of the network, or a bucket of gradients */
};

/** Opens a range on the calling thread. `name` is required for phases and layers, `index` for steps. */
__attribute__((weak, visibility("default"))) void ddl_range_push(int kind, const char* name, uint64_t index);
/** Closes the innermost open range of `kind` on the calling thread, and whatever was left open inside it. */
__attribute__((weak, visibility("default"))) void ddl_range_pop(int kind);
/**
 * Records a number with its moment and step: loss, accuracy, anything. These names feed metrics:
 *   samples                of this rank in the step: throughput
 *   local_gradient_norm    norm of the mean gradient over this rank's samples, before the reduction, and
 *   gradient_norm          norm of the mean gradient over all ranks' samples: with `samples`, the gradient noise scale
 *   model_flops            floating point operations of the model in the step, on this rank, and, once,
 *   peak_flops_per_second  of its device, at the precision in use, without sparsity: model FLOP utilisation
 */
__attribute__((weak, visibility("default"))) void ddl_value_record(const char* name, double value);
/** Behind ddl_tune(). */
__attribute__((weak, visibility("default"))) void ddl_tune_follow(uint64_t step);
/** Behind ddl_tuned(). NULL: the schedule has no such name, or there is no schedule. */
__attribute__((weak, visibility("default"))) const char* ddl_tune_value(const char* name);

#ifdef __cplusplus
}
#endif

#if defined(__PIC__) || defined(__PIE__)
#define DDL_RESOLVE_(symbol) (symbol)
#else
/* In an executable linked at a fixed address the linker resolves undefined weak symbols as "absent" for good and would
 * miss a preloaded definition: ask the dynamic linker once instead. */
#include <dlfcn.h>
#define DDL_RESOLVE_(symbol) (__extension__(__typeof__(&symbol)) ddl_resolve_(&symbol##_address_, #symbol))
static void* ddl_range_push_address_ = (void*)-1;
static void* ddl_range_pop_address_ = (void*)-1;
static void* ddl_value_record_address_ = (void*)-1;
static void* ddl_tune_follow_address_ = (void*)-1;
static void* ddl_tune_value_address_ = (void*)-1;
static inline void* ddl_resolve_(void** address, const char* symbol) {
  if (*address == (void*)-1) *address = dlsym(NULL /* RTLD_DEFAULT */, symbol);
  return *address;
}
#endif

#define DDL_CALL_(symbol, arguments)                      \
  do {                                                    \
    __typeof__(&symbol) function_ = DDL_RESOLVE_(symbol); \
    if (function_) function_ arguments;                   \
  } while (0)

static inline void ddl_step_begin(uint64_t step) { DDL_CALL_(ddl_range_push, (DDL_RANGE_STEP, NULL, step)); }
static inline void ddl_step_end(void) { DDL_CALL_(ddl_range_pop, (DDL_RANGE_STEP)); }
static inline void ddl_phase_begin(const char* name) { DDL_CALL_(ddl_range_push, (DDL_RANGE_PHASE, name, 0)); }
static inline void ddl_phase_end(void) { DDL_CALL_(ddl_range_pop, (DDL_RANGE_PHASE)); }
static inline void ddl_layer_begin(const char* name) { DDL_CALL_(ddl_range_push, (DDL_RANGE_LAYER, name, 0)); }
static inline void ddl_layer_end(void) { DDL_CALL_(ddl_range_pop, (DDL_RANGE_LAYER)); }
static inline void ddl_value(const char* name, double value) { DDL_CALL_(ddl_value_record, (name, value)); }

/**
 * Announces this rank's next step: from here on ddl_tuned() returns that step's values, the same on every rank; they
 * change only here. All ranks number their steps alike. Call it on every rank, from the thread that calls ddl_tuned().
 * It reads a file where a value may change, and does nothing unless ddl tune --in-run has set DDL_TUNE_FILE. */
static inline void ddl_tune(uint64_t step) { DDL_CALL_(ddl_tune_follow, (step)); }
/**
 * The value of a knob, as text: the tuner's present one; else the environment variable of that name, which tuned.env
 * and ddl tune --apply set; else `otherwise`. Valid until the next call with that name. */
static inline const char* ddl_tuned_text(const char* name, const char* otherwise) {
  __typeof__(&ddl_tune_value) function = DDL_RESOLVE_(ddl_tune_value);
  const char* text = function ? function(name) : NULL;
  if (text == NULL) text = getenv(name);
  return text != NULL ? text : otherwise;
}
/** The same for a numeric knob, "0.5" in every locale: `otherwise` also if the text is not a number. */
static inline double ddl_tuned(const char* name, double otherwise) {
  const char* text = ddl_tuned_text(name, NULL);
  const char* const point = localeconv()->decimal_point;
  char here[128]; /* as strtod() wants it */
  char* end = NULL;
  double number;
  if (text == NULL) return otherwise;
  if (strcmp(point, ".") != 0) {
    const size_t before = strcspn(text, ".");
    if (strstr(text, point) != NULL || strlen(text) + strlen(point) >= sizeof here) return otherwise;
    memcpy(here, text, before);
    here[before] = '\0';
    if (text[before] == '.') strcat(strcat(here, point), text + before + 1);
    text = here;
  }
  number = strtod(text, &end);
  return end == text || *end != '\0' ? otherwise : number;
}

#undef DDL_CALL_
#undef DDL_RESOLVE_
#endif /* DDL_ANNOTATE_H */
