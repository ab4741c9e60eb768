/*
 * Stands in for libddl.so: defines the functions behind ddl/annotate.h and those of python/ddl_hooks, preloaded into a job with one rank, and writes what it hears to
 * $PROBE_OUT, indented by depth. An end that does not fit the innermost open range is written as MISMATCH.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void ddl_range_push(int kind, const char* name, uint64_t index);
void ddl_range_pop(int kind);
void ddl_value_record(const char* name, double value);
void ddl_hooked_step_begin(uint64_t number, int follows);
void ddl_hooked_step_end(void);

static int open_kinds[64];
static int depth;

static FILE* out(void) {
  static FILE* file;
  if (!file) file = fopen(getenv("PROBE_OUT"), "w");
  if (!file) abort();
  setvbuf(file, NULL, _IOLBF, BUFSIZ);
  return file;
}

void ddl_range_push(int kind, const char* name, uint64_t index) {
  static const char* const kinds[] = {"?", "step", "phase", "layer"};
  if (kind == 1) {
    fprintf(out(), "%*sstep %llu\n", 2 * depth, "", (unsigned long long)index);
  } else {
    fprintf(out(), "%*s%s %s\n", 2 * depth, "", kinds[kind], name);
  }
  open_kinds[depth++] = kind;
}

void ddl_range_pop(int kind) {
  if (depth == 0 || open_kinds[--depth] != kind) fprintf(out(), "MISMATCH: end of kind %d\n", kind);
}

void ddl_value_record(const char* name, double value) { fprintf(out(), "%*svalue %s %g\n", 2 * depth, "", name, value); }

/* A step that follows has begun where the last one ended. */
void ddl_hooked_step_begin(uint64_t number, int follows) {
  fprintf(out(), "%*sstep %llu%s\n", 2 * depth, "", (unsigned long long)number, follows ? " follows" : "");
  open_kinds[depth++] = 1;
}

void ddl_hooked_step_end(void) { ddl_range_pop(1); }
