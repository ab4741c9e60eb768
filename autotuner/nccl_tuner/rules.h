/* Rows of NCCL's tuner CSV. Injected code: libc only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { kAny = -1, kMostRules = 1024 };

struct tuner_rule {
  int function, algorithm, protocol;
  uint64_t min_bytes, max_bytes; /* both included */
  int channels;                  /* kAny: NCCL's default */
  int nodes, ranks, pipe_ops, registered;
};

/* Reads a file of `collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks[,pipe_ops[,registered]]`,
 * NCCL's documented grammar; `#` in column 0 begins a comment; -1 is any (max_bytes: no end). Returns the number of
 * rules, at most kMostRules, or -1: then nothing of the file counts, and `why` says what is wrong with which line.
 * NCCL's own example takes an unknown word for allreduce, ring or simple. */
int read_tuner_rules(const char* path, struct tuner_rule* rules, char* why, size_t why_bytes);
