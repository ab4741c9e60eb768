#include "rules.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLineBytes = 1024, kFewestCells = 8, kMostCells = 10 };

/* In the order of NCCL's numbers (abi.h). */
static const char* const kFunctions[] = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce", NULL};
static const char* const kAlgorithms[] = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat", NULL};
static const char* const kProtocols[] = {"ll", "ll128", "simple", NULL};

static int index_of(const char* word, const char* const* words) {
  for (int i = 0; words[i] != NULL; ++i) {
    if (strcmp(word, words[i]) == 0) return i;
  }
  return -1;
}

static char* trimmed(char* cell) {
  while (*cell == ' ' || *cell == '\t') ++cell;
  size_t length = strlen(cell);
  while (length > 0 && strchr(" \t\r\n", cell[length - 1]) != NULL) cell[--length] = '\0';
  return cell;
}

/* An integer of low..high in the whole cell. */
static int integer(const char* cell, long long low, long long high, long long* value) {
  char* end;
  errno = 0;
  *value = strtoll(cell, &end, 10);
  return end != cell && *end == '\0' && errno == 0 && *value >= low && *value <= high;
}

static int split(char* line, char** cells) {
  int count = 0;
  for (char* cell = line; cell != NULL; ++count) {
    char* comma = strchr(cell, ',');
    if (comma != NULL) *comma++ = '\0';
    if (count < kMostCells) cells[count] = trimmed(cell);
    cell = comma;
  }
  return count;
}

/* What is wrong with a line, or NULL; `bad` is the cell, NULL: the line itself. */
static const char* parse(char* line, struct tuner_rule* rule, const char** bad) {
  char* cells[kMostCells];
  const int count = split(line, cells);
  long long low, high, number[5] = {kAny, kAny, kAny, kAny, kAny};
  *bad = NULL;
  if (count < kFewestCells || count > kMostCells) return "not 8 to 10 cells";
  if ((rule->function = index_of(*bad = cells[0], kFunctions)) < 0) return "no collective";
  if (!integer(*bad = cells[1], 0, LLONG_MAX, &low)) return "no size";
  if (!integer(*bad = cells[2], -1, LLONG_MAX, &high) || (high >= 0 && high < low)) return "no size, or less than the first";
  if ((rule->algorithm = index_of(*bad = cells[3], kAlgorithms)) < 0) return "no algorithm";
  if ((rule->protocol = index_of(*bad = cells[4], kProtocols)) < 0) return "no protocol";
  for (int i = 5; i < count; ++i) {
    const long long highest = i == 5 ? 64 : i == 9 ? 1 : INT_MAX;
    if (!integer(*bad = cells[i], kAny, highest, &number[i - 5]) || (i < 9 && number[i - 5] == 0))
      return "neither -1 nor a number that can be here";
  }
  rule->min_bytes = (uint64_t)low;
  rule->max_bytes = high < 0 ? UINT64_MAX : (uint64_t)high;
  rule->channels = (int)number[0];
  rule->nodes = (int)number[1];
  rule->ranks = (int)number[2];
  rule->pipe_ops = (int)number[3];
  rule->registered = (int)number[4];
  return NULL;
}

static int fail(char* why, size_t bytes, const char* path, int line, const char* what, const char* cell) {
  char shown[40];
  size_t length = 0;
  for (; cell != NULL && cell[length] != '\0' && length + 1 < sizeof shown; ++length)
    shown[length] = cell[length] < ' ' || cell[length] > '~' ? '?' : cell[length];
  shown[length] = '\0';
  if (cell == NULL) {
    snprintf(why, bytes, "%s:%d: %s", path, line, what);
  } else {
    snprintf(why, bytes, "%s:%d: '%s': %s", path, line, shown, what);
  }
  return -1;
}

int read_tuner_rules(const char* path, struct tuner_rule* rules, char* why, size_t why_bytes) {
  FILE* file = fopen(path, "re");
  if (file == NULL) return snprintf(why, why_bytes, "cannot read %s: %s", path, strerror(errno)), -1;
  char text[kLineBytes];
  int count = 0, line = 0;
  const char *what = NULL, *bad = NULL;
  while (what == NULL && fgets(text, sizeof text, file) != NULL) {
    ++line;
    const size_t length = strlen(text);
    if (length == 0 || (text[length - 1] != '\n' && !feof(file))) {
      what = "longer than 1023 bytes, or not text", bad = NULL;
    } else if (text[0] != '#' && trimmed(text)[0] != '\0') {
      bad = NULL;
      what = count == kMostRules ? "more than 1024 rules" : parse(text, &rules[count], &bad);
      ++count;
    }
  }
  if (ferror(file)) what = strerror(errno), bad = NULL;
  if (what != NULL) count = fail(why, why_bytes, path, line, what, bad);
  fclose(file);
  return count;
}
