/* libnccl-tuner-ddl.so: applies the rules of nccl_tuner.csv in NCCL: NCCL_TUNER_PLUGIN=/path/libnccl-tuner-ddl.so
 * NCCL_TUNER_CONFIG_FILE=/path/nccl_tuner.csv.
 *
 * The first rule that matches collective, bytes, nodes and ranks counts. Its pair of algorithm and protocol gets cost
 * 0, so that NCCL chooses it; a pair that NCCL cannot do here is left alone. Channels are set only where the rule has
 * some: 0 is NCCL's own choice. A file with anything that is not understood is not used at all, with one line on
 * stderr: the job then runs with NCCL's defaults. Proof of use: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints a line
 * per call that a rule decided.
 *
 * NCCL's example plugin was not used: it takes unknown words for other ones in silence, and where no rule
 * matches it sets one channel. Injected code: libc only; called by NCCL with a context per communicator, from
 * one thread per context. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "rules.h"

#define EXPORTED __attribute__((visibility("default")))

static const char kName[] = "ddl";

struct tuner {
  nccl_logger log;
  size_t ranks, nodes;
  int count;
  struct tuner_rule rules[kMostRules];
};

/* A job has many processes: the one that its launcher calls the first speaks for all; who was not numbered speaks. */
static int speaks(void) {
  static const char* const kRanks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"};
  for (size_t i = 0; i < sizeof kRanks / sizeof *kRanks; ++i) {
    const char* rank = getenv(kRanks[i]);
    if (rank != NULL) return strcmp(rank, "0") == 0;
  }
  return 1;
}

static void complain(const char* why) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&said) || !speaks()) return;
  char line[2048];
  const int length = snprintf(line, sizeof line, "ddl: NCCL's tuning rules are not used: %s\n", why);
  if (length > 0) (void)!write(STDERR_FILENO, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static int init(size_t ranks, size_t nodes, nccl_logger log, void** context) {
  const int saved = errno;
  struct tuner* tuner = calloc(1, sizeof *tuner);
  *context = tuner;
  if (tuner == NULL) return kNcclSystemError;
  tuner->log = log;
  tuner->ranks = ranks;
  tuner->nodes = nodes;
  const char* path = getenv("NCCL_TUNER_CONFIG_FILE");
  char why[1536];
  if (path != NULL && path[0] != '\0') {
    tuner->count = read_tuner_rules(path, tuner->rules, why, sizeof why);
    if (tuner->count < 0) {
      complain(why);
      tuner->count = 0;
    }
  }
  if (log != NULL)
    log(kNcclLogInfo, kNcclTuning, "ddl", 0, "ddl tuner: %d rules for %zu ranks on %zu nodes", tuner->count, ranks,
        nodes);
  errno = saved;
  return kNcclSuccess;
}

static const struct tuner_rule* match(const struct tuner* tuner, int function, size_t bytes, int pipe_ops,
                                      int registered) {
  for (int i = 0; i < tuner->count; ++i) {
    const struct tuner_rule* rule = &tuner->rules[i];
    if (rule->function == function && bytes >= rule->min_bytes && bytes <= rule->max_bytes &&
        (rule->nodes == kAny || (size_t)rule->nodes == tuner->nodes) &&
        (rule->ranks == kAny || (size_t)rule->ranks == tuner->ranks) &&
        (rule->pipe_ops == kAny || rule->pipe_ops == pipe_ops) &&
        (rule->registered == kAny || rule->registered == registered))
      return rule;
  }
  return NULL;
}

static void say(const struct tuner* tuner, const struct tuner_rule* rule, size_t bytes, int possible) {
  if (tuner->log != NULL)
    tuner->log(kNcclLogInfo, kNcclTuning, "ddl", 0, "ddl tuner: rule %d for %zu bytes: %s",
               (int)(rule - tuner->rules) + 1, bytes, possible ? "applied" : "not possible here, left to NCCL");
}

static int choose_cost(void* context, int function, size_t bytes, int pipe_ops, float** costs, int algorithms,
                       int protocols, int registered, int* channels) {
  const struct tuner* tuner = context;
  *channels = 0;
  const struct tuner_rule* rule = match(tuner, function, bytes, pipe_ops, registered);
  if (rule == NULL) return kNcclSuccess;
  float* cost = (float*)costs + rule->algorithm * protocols + rule->protocol;
  const int possible = rule->algorithm < algorithms && rule->protocol < protocols && *cost >= 0;
  if (possible) {
    *cost = 0;
    if (rule->channels != kAny) *channels = rule->channels;
  }
  say(tuner, rule, bytes, possible);
  return kNcclSuccess;
}

/* Version 2 has no table of what is possible, but for what needs the network's or the switch's help. */
static int choose_v2(void* context, int function, size_t bytes, int collnet, int nvls, int pipe_ops, int* algorithm,
                     int* protocol, int* channels) {
  const struct tuner* tuner = context;
  const struct tuner_rule* rule = match(tuner, function, bytes, pipe_ops, kAny);
  *channels = 0;
  if (rule == NULL) return kNcclSuccess;
  const int asked = rule->algorithm;
  const int possible = asked == kNcclCollnetDirect || asked == kNcclCollnetChain ? collnet
                       : asked == kNcclNvls || asked == kNcclNvlsTree            ? nvls
                                                                                 : asked != kNcclPat;
  if (possible) {
    *algorithm = asked;
    *protocol = rule->protocol;
    if (rule->channels != kAny) *channels = rule->channels;
  }
  say(tuner, rule, bytes, possible);
  return kNcclSuccess;
}

static int choose_v3(void* context, int function, size_t bytes, int pipe_ops, float** costs, int algorithms,
                     int protocols, int* channels) {
  return choose_cost(context, function, bytes, pipe_ops, costs, algorithms, protocols, kAny, channels);
}

static int init_v5(void** context, uint64_t communicator, size_t ranks, size_t nodes, nccl_logger log,
                   void* nvlink_domains, void* constants) {
  (void)communicator, (void)nvlink_domains, (void)constants;
  return init(ranks, nodes, log, context);
}

static int destroy(void* context) {
  free(context);
  return kNcclSuccess;
}

EXPORTED const nccl_tuner_v2 ncclTunerPlugin_v2 = {kName, init, choose_v2, destroy};
EXPORTED const nccl_tuner_v3 ncclTunerPlugin_v3 = {kName, init, choose_v3, destroy};
EXPORTED const nccl_tuner_v4 ncclTunerPlugin_v4 = {kName, init, choose_cost, destroy};
EXPORTED const nccl_tuner_v5 ncclTunerPlugin_v5 = {kName, init_v5, choose_cost, destroy};
