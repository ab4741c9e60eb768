/* Asks a tuner plugin as NCCL would: nccl_driver PLUGIN VERSION RANKS NODES [LIBNCCL OFFSET]. With LIBNCCL the plugin
 * is found, and its version adapted, by the real library's own loader of that version, a local function at OFFSET of
 * its image (see nccl_plugin.py), which takes a handle of dlopen and returns a tuner of version 5.
 *
 * Each line of stdin is a call: FUNCTION BYTES PIPE_OPS REGISTERED IMPOSSIBLE, the last a pair ALGORITHM*3+PROTOCOL
 * that is not possible, or -1. Each line of stdout is the answer: the cheapest pair, whether the plugin chose it (0:
 * the pair that was cheapest before), and channels. Lines for the log go to stderr. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layouts of NCCL's headers (src/include/plugin/tuner), written down once more: the plugin's own mirror
 * is not trusted. */
typedef void (*Log)(int, unsigned long, const char*, int, const char*, ...);
struct v2 {
  const char* name;
  int (*init)(size_t, size_t, Log, void**);
  int (*info)(void*, int, size_t, int, int, int, int*, int*, int*);
  int (*end)(void*);
};
struct v3 {
  const char* name;
  int (*init)(size_t, size_t, Log, void**);
  int (*info)(void*, int, size_t, int, float**, int, int, int*);
  int (*end)(void*);
};
struct v4 {
  const char* name;
  int (*init)(size_t, size_t, Log, void**);
  int (*info)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*end)(void*);
};
struct v5 {
  const char* name;
  int (*init)(void**, unsigned long, size_t, size_t, Log, void*, void*);
  int (*info)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*end)(void*);
};

static void log_line(int level, unsigned long flags, const char* file, int line, const char* format, ...) {
  (void)file, (void)line;
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "LOG %d %lu ", level, flags);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "driver: %s: %s\n", what, dlerror());
  exit(1);
}

int main(int argc, char** argv) {
  check(argc == 5 || argc == 7, "arguments");
  const int version = argc == 7 ? 5 : atoi(argv[2]);
  const size_t ranks = strtoul(argv[3], NULL, 10), nodes = strtoul(argv[4], NULL, 10);
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  check(plugin != NULL, "the plugin");
  void* symbol;
  if (argc == 7) {
    struct link_map* nccl = dlopen(argv[5], RTLD_NOW | RTLD_LOCAL);
    check(nccl != NULL, "libnccl");
    void* (*load)(void*) = (void* (*)(void*))(nccl->l_addr + strtoul(argv[6], NULL, 16));
    symbol = load(plugin);
  } else {
    char name[32];
    snprintf(name, sizeof name, "ncclTunerPlugin_v%s", argv[2]);
    symbol = dlsym(plugin, name);
  }
  check(symbol != NULL, "the plugin's symbol");
  const struct v2* second = symbol;
  const struct v3* third = symbol;
  const struct v4* fourth = symbol;
  const struct v5* fifth = symbol;
  printf("%s\n", second->name);

  void* context = NULL;
  int domains[3] = {1, 1, 1};
  double constants[4096] = {0};
  check((version == 5 ? fifth->init(&context, 7, ranks, nodes, log_line, domains, constants)
                      : second->init(ranks, nodes, log_line, &context)) == 0,
        "init");

  int function, pipe_ops, registered, impossible;
  size_t bytes;
  while (scanf("%d %zu %d %d %d", &function, &bytes, &pipe_ops, &registered, &impossible) == 5) {
    float costs[7][3];
    int channels = 0, algorithm = -1, protocol = -1, failed, best = 0;
    for (int i = 0; i < 21; ++i) (&costs[0][0])[i] = i == impossible ? -1.0f : 10.0f + (float)i;
    float** table = (float**)costs;
    if (version == 2) {
      failed = second->info(context, function, bytes, impossible < 0, impossible < 0, pipe_ops, &algorithm, &protocol,
                            &channels);
    } else if (version == 3) {
      failed = third->info(context, function, bytes, pipe_ops, table, 7, 3, &channels);
    } else if (version == 4) {
      failed = fourth->info(context, function, bytes, pipe_ops, table, 7, 3, registered, &channels);
    } else {
      failed = fifth->info(context, function, bytes, pipe_ops, table, 7, 3, registered, &channels);
    }
    check(failed == 0, "getCollInfo");
    if (version == 2) {
      best = algorithm * 3 + protocol;
      printf("%d %d %d\n", algorithm < 0 ? 0 : best, algorithm >= 0, channels);
      continue;
    }
    for (int i = 1; i < 21; ++i) {
      const float cost = (&costs[0][0])[i], least = (&costs[0][0])[best];
      if (cost >= 0 && (least < 0 || cost < least)) best = i;
    }
    printf("%d %d %d\n", best, (&costs[0][0])[best] == 0.0f, channels);
  }
  check((version == 5 ? fifth->end(context) : second->end(context)) == 0, "finalize");
  return 0;
}
