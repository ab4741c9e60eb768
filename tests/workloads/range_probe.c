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
void ddl_hooks_tell_steps(const char* text);
void ddl_hooks_tell(const char* text);
void ddl_group_begin(const char* name, const int* ranks, int count);
uint32_t ddl_group_end(void);
void ddl_told_begin(const char* name, uint32_t group, int peer, uint32_t number, uint64_t bytes);
void ddl_told_end(int peer, void* posted);

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

void ddl_value_record(const char* name, double value) {
  fprintf(out(), "%*svalue %s %g\n", 2 * depth, "", name, value);
}

/* A step that follows has begun where the last one ended. */
void ddl_hooked_step_begin(uint64_t number, int follows) {
  fprintf(out(), "%*sstep %llu%s\n", 2 * depth, "", (unsigned long long)number, follows ? " follows" : "");
  open_kinds[depth++] = 1;
}

void ddl_hooked_step_end(void) { ddl_range_pop(1); }

void ddl_hooks_tell_steps(const char* text) { fprintf(out(), "%*stold %s\n", 2 * depth, "", text); }

void ddl_hooks_tell(const char* text) { fprintf(out(), "hooks %s\n", text); }

static uint32_t groups;

void ddl_group_begin(const char* name, const int* ranks, int count) {
  (void)ranks;
  fprintf(out(), "group %u %s %d\n", ++groups, name, count);
}

uint32_t ddl_group_end(void) { return groups; }

static char told; /* first letter of the call that was begun */

void ddl_told_begin(const char* name, uint32_t group, int peer, uint32_t number, uint64_t bytes) {
  told = *name;
  fprintf(out(), "%s %u %d %u %llu", name, group, peer, number, (unsigned long long)bytes);
}

/* A message that is posted gets a number, which its wait brings back. */
void ddl_told_end(int peer, void* posted) {
  static unsigned last;
  fprintf(out(), " ends %d", peer);
  if (posted && told == 'i') *(unsigned*)posted = ++last;
  if (posted) fprintf(out(), " %s %u", told == 'i' ? "posted" : "done", *(unsigned*)posted);
  fputc('\n', out());
}
