#include "rules.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLineBytes = 1024, kFewestCells = 8, kMostCells = 10 };

/* In the order of NCCL's numbers (abi.h). */
static const char* const kFunctions[] = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce", NULL};
static const char* const kAlgorithms[] = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree",
                                          "pat",  NULL};
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

/* A rejected line: what is wrong, the cell (NULL: the line itself), and what the cell can be: words, or a sentence. */
struct problem {
  const char *what, *cell, *valid;
  const char* const* known;
};

static int word_index(const char* what, const char* cell, const char* const* known, struct problem* problem) {
  *problem = (struct problem){.what = what, .cell = cell, .known = known};
  return index_of(cell, known);
}

static int parse(char* line, struct tuner_rule* rule, struct problem* problem) {
  char* cells[kMostCells];
  const int count = split(line, cells);
  long long low, high, number[5] = {kAny, kAny, kAny, kAny, kAny};
  *problem = (struct problem){.what = "not 8 to 10 cells"};
  if (count < kFewestCells || count > kMostCells) return -1;
  if ((rule->function = word_index("unknown collective", cells[0], kFunctions, problem)) < 0) return -1;
  *problem = (struct problem){.what = "invalid smallest size", .cell = cells[1], .valid = "0 or more bytes"};
  if (!integer(cells[1], 0, LLONG_MAX, &low)) return -1;
  *problem = (struct problem){
      .what = "invalid largest size", .cell = cells[2], .valid = "not below the smallest size, or -1: no limit"};
  if (!integer(cells[2], -1, LLONG_MAX, &high) || (high >= 0 && high < low)) return -1;
  if ((rule->algorithm = word_index("unknown algorithm", cells[3], kAlgorithms, problem)) < 0) return -1;
  if ((rule->protocol = word_index("unknown protocol", cells[4], kProtocols, problem)) < 0) return -1;
  for (int i = 5; i < count; ++i) {
    static const struct {
      const char *what, *valid;
      int least, most;
    } kNumbers[] = {{"invalid channels", "1 to 64, or -1: NCCL's choice", 1, 64},
                    {"invalid nodes", "1 or more, or -1: any", 1, INT_MAX},
                    {"invalid ranks", "1 or more, or -1: any", 1, INT_MAX},
                    {"invalid pipe_ops", "1 or more, or -1: any", 1, INT_MAX},
                    {"invalid registered", "0, 1, or -1: any", 0, 1}};
    const int cell = i - 5;
    *problem = (struct problem){.what = kNumbers[cell].what, .cell = cells[i], .valid = kNumbers[cell].valid};
    if (!integer(cells[i], kAny, kNumbers[cell].most, &number[cell]) ||
        (number[cell] != kAny && number[cell] < kNumbers[cell].least))
      return -1;
  }
  rule->min_bytes = (uint64_t)low;
  rule->max_bytes = high < 0 ? UINT64_MAX : (uint64_t)high;
  rule->channels = (int)number[0];
  rule->nodes = (int)number[1];
  rule->ranks = (int)number[2];
  rule->pipe_ops = (int)number[3];
  rule->registered = (int)number[4];
  return 0;
}

static int fail(char* why, size_t bytes, const char* path, int line, const struct problem* problem) {
  if (problem->cell == NULL) return snprintf(why, bytes, "%s:%d: %s", path, line, problem->what), -1;
  char shown[40], valid[160] = "";
  size_t length = 0;
  for (; problem->cell[length] != '\0' && length + 1 < sizeof shown; ++length)
    shown[length] = problem->cell[length] < ' ' || problem->cell[length] > '~' ? '?' : problem->cell[length];
  shown[length] = '\0';
  for (int i = 0; problem->known != NULL && problem->known[i] != NULL; ++i) {
    const size_t used = strlen(valid);
    snprintf(valid + used, sizeof valid - used, "%s%s", i == 0 ? "known: " : ", ", problem->known[i]);
  }
  snprintf(why, bytes, "%s:%d: %s '%s'; %s", path, line, problem->what, shown,
           problem->known != NULL ? valid : problem->valid);
  return -1;
}

int read_tuner_rules(const char* path, struct tuner_rule* rules, char* why, size_t why_bytes) {
  FILE* file = fopen(path, "re");
  if (file == NULL) return snprintf(why, why_bytes, "cannot read %s: %s", path, strerror(errno)), -1;
  char text[kLineBytes];
  int count = 0, line = 0;
  struct problem problem = {0};
  int bad = 0;
  while (!bad && fgets(text, sizeof text, file) != NULL) {
    ++line;
    const size_t length = strlen(text);
    if (length == 0 || (text[length - 1] != '\n' && !feof(file))) {
      problem = (struct problem){.what = "longer than 1023 bytes, or not text"};
      bad = 1;
    } else if (text[0] != '#' && trimmed(text)[0] != '\0') {
      problem = (struct problem){.what = "more than 1024 rules"};
      bad = count == kMostRules || parse(text, &rules[count], &problem) != 0;
      ++count;
    }
  }
  if (ferror(file)) {
    problem = (struct problem){.what = strerror(errno)};
    bad = 1;
  }
  if (bad) count = fail(why, why_bytes, path, line, &problem);
  fclose(file);
  return count;
}
