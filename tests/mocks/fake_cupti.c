/* The mock of libcupti.so.13 (or .12, .11.8: the same file under another name), against the mock of libcuda.so.1. It
 * writes activity records field by field at the offsets that were read from the headers of CUPTI 11.0 to 13.0, shares
 * no declaration with the product, and hands over the records of a buffer stream by stream, as CUPTI was seen to on an
 * H100, not in the order of time. It misbehaves on request:
 *
 *   FAKE_CUPTI_VERSION=N           sizes of the records as of API version 13 (11.0), 14, 15, 17, 18, 20, 26, 28,
 *                                  130001; beyond: 256
 *   FAKE_CUPTI_SUBSCRIBE=N         cuptiSubscribe fails with this code; FAKE_CUPTI_HOLDER=NAME: who holds the
 *                                  place, if the code is 39
 *   FAKE_CUPTI_NO_V2=1             there is no cuptiSubscribe_v2 that works
 *   FAKE_CUPTI_REFUSE=timestamps   cuptiActivityRegisterTimestampCallback fails: records count ns of CLOCK_REALTIME
 *              callbacks           cuptiEnableCallback fails
 *              kernels, kinds      kernels, or nothing at all, cannot be enabled; events: recordings of events
 *              buffers             cuptiActivityRegisterCallbacks fails
 *   FAKE_CUPTI_BUFFER=N            buffers are given back after N bytes
 *   FAKE_CUPTI_DROP=N              every Nth record (here and below: recordings of events are left out) is
 *                                  dropped and counted
 *   FAKE_CUPTI_ZERO=N              every Nth record has no time stamps
 *   FAKE_CUPTI_OPEN=N              every Nth record has a begin and no end
 *   FAKE_CUPTI_HOARD=N             after N records all buffers that the tool has to give are taken, and none comes
 *                                  back before the end
 *   FAKE_CUPTI_LATE=1              buffers come only at the forced flush, the last one first
 *   FAKE_CUPTI_THREAD=1            buffers are completed by a thread of CUPTI's own
 *   FAKE_CUPTI_DAMAGE=1            in the second buffer the third record cannot be read
 *   FAKE_CUPTI_OVERHEAD=1          a record of overhead in each buffer */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

enum {
  SUCCESS = 0,
  INVALID_PARAMETER = 1,
  MAX_LIMIT_REACHED = 12,
  INVALID_KIND = 21,
  MULTIPLE_SUBSCRIBERS = 39,
  NOT_SUPPORTED = 27,
  UNKNOWN = 999
};
enum { KERNEL, MEMCPY, PEER, MEMSET, SYNC, OVERHEAD, EVENT, KINDS };
static const int kinds[KINDS] = {FAKE_KERNEL, FAKE_MEMCPY,   FAKE_MEMCPY2, FAKE_MEMSET,
                                 FAKE_SYNC,   FAKE_OVERHEAD, FAKE_EVENT};
static const struct {
  int version;
  unsigned sizes[KINDS];
} layouts[] = {
    {13, {160, 72, 80, 72, 40, 40, 24}},     {14, {160, 80, 80, 72, 40, 40, 24}},
    {15, {168, 80, 88, 80, 40, 40, 24}},     {17, {176, 88, 88, 88, 40, 40, 24}},
    {18, {200, 88, 88, 88, 40, 40, 24}},     {20, {208, 88, 88, 88, 40, 48, 24}},
    {26, {208, 88, 88, 88, 56, 48, 56}},     {28, {208, 96, 96, 88, 56, 48, 56}},
    {130001, {216, 96, 96, 88, 56, 56, 56}}, {2147483647, {256, 256, 256, 256, 256, 256, 256}},
};

typedef void (*callback_t)(void*, int domain, uint32_t cbid, const void* data);
typedef void (*requested_t)(uint8_t** buffer, size_t* size, size_t* records);
typedef void (*completed_t)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int version = 130001;
static const unsigned* sizes;
static callback_t callback;
static void* callback_data;
static char enabled_calls[4][1024];
static char enabled_kinds[64];
static requested_t requested;
static completed_t completed;
static uint64_t (*timestamp)(void);
static uint64_t offset_ns; /* from fake_cuda_now() to what records count */
static unsigned long record_count;
static size_t dropped;

static struct buffer {
  uint8_t* bytes;
  size_t size, used;
  int records;
} current, held[1024];
static int held_count, completed_count;

static int knob(const char* name) { return fake_cuda_number(name, 0); }
static int refuses(const char* what) {
  const char* value = getenv("FAKE_CUPTI_REFUSE");
  return value && strcmp(value, what) == 0;
}

static void start(void) {
  if (sizes) return;
  version = fake_cuda_number("FAKE_CUPTI_VERSION", 130001);
  int i = 0;
  while (layouts[i].version < version) ++i;
  sizes = layouts[i].sizes;
  offset_ns = 1700000000000000000ull;
}

static void put32(uint8_t* at, uint32_t value) { memcpy(at, &value, sizeof value); }
static void put64(uint8_t* at, uint64_t value) { memcpy(at, &value, sizeof value); }

static int index_of(int kind) {
  for (int i = 0; i < KINDS; ++i) {
    if (kinds[i] == kind) return i;
  }
  return -1;
}

/* ---------------------------------------------------------------------------------------------------------- buffers */

static void* complete_elsewhere(void* argument) {
  struct buffer* buffer = argument;
  completed(NULL, 0, buffer->bytes, buffer->size, buffer->used);
  free(buffer);
  return NULL;
}

static uint64_t stream_of(const uint8_t* record, int index) {
  static const unsigned offsets[KINDS] = {[KERNEL] = 48, [MEMCPY] = 40, [PEER] = 40, [MEMSET] = 40};
  uint32_t stream = 0;
  if (offsets[index]) memcpy(&stream, record + offsets[index], sizeof stream);
  return stream;
}

/* By stream; in one stream by time. What is of no stream comes first. A damaged buffer stays as it is. */
static void order_by_stream(struct buffer* buffer) {
  uint8_t* sorted = malloc(buffer->used);
  size_t filled = 0;
  uint64_t stream = 0, next = 0;
  for (int more = 1; more; stream = next) {
    more = 0;
    next = UINT64_MAX;
    for (size_t at = 0; at < buffer->used;) {
      uint32_t kind;
      memcpy(&kind, buffer->bytes + at, sizeof kind);
      const int index = kind > 63 ? -1 : index_of((int)kind);
      if (index < 0) {
        free(sorted);
        return;
      }
      const uint64_t of = stream_of(buffer->bytes + at, index);
      if (of == stream) {
        memcpy(sorted + filled, buffer->bytes + at, sizes[index]);
        filled += sizes[index];
      } else if (of > stream) {
        next = of < next ? of : next;
        more = 1;
      }
      at += sizes[index];
    }
  }
  memcpy(buffer->bytes, sorted, filled);
  free(sorted);
}

static void give_back(struct buffer buffer) {
  order_by_stream(&buffer);
  if (!knob("FAKE_CUPTI_THREAD")) {
    completed(NULL, 0, buffer.bytes, buffer.size, buffer.used);
    return;
  }
  struct buffer* copy = malloc(sizeof *copy);
  *copy = buffer;
  pthread_t thread;
  pthread_create(&thread, NULL, complete_elsewhere, copy);
  pthread_join(thread, NULL);
}

/* Takes what the tool gives until it gives nothing, or the same one again. Under the lock. */
static void hoard(void) {
  if (current.bytes) {
    struct buffer full = current;
    current.bytes = NULL;
    pthread_mutex_unlock(&lock);
    give_back(full);
    pthread_mutex_lock(&lock);
  }
  for (;;) {
    struct buffer fresh = {0};
    size_t records = 0;
    pthread_mutex_unlock(&lock);
    requested(&fresh.bytes, &fresh.size, &records);
    pthread_mutex_lock(&lock);
    if (!fresh.bytes || held_count == 1024) return;
    if (held_count > 0 && held[held_count - 1].bytes == fresh.bytes) {
      current = held[--held_count];
      return;
    }
    held[held_count++] = fresh;
  }
}

/* A buffer of the tool's; under the lock, but not while the tool is asked, so that several threads may be at it. 0:
 * it gives none. */
static int take_buffer(unsigned bytes) {
  static struct buffer spares[64];
  static int spare_count;
  struct buffer fresh = {0};
  if (spare_count > 0) {
    fresh = spares[--spare_count];
  } else {
    size_t records = 0;
    pthread_mutex_unlock(&lock);
    requested(&fresh.bytes, &fresh.size, &records);
    pthread_mutex_lock(&lock);
    if (!fresh.bytes || fresh.size < bytes) return 0;
  }
  if (current.bytes && spare_count < 64) {
    spares[spare_count++] = fresh;
    return 1;
  }
  memset(fresh.bytes, 0, fresh.size < 4096 ? fresh.size : 4096);
  current = fresh;
  ++completed_count;
  return 1;
}

static uint8_t* room(unsigned bytes) { /* under the lock; NULL: dropped */
  size_t limit = (size_t)fake_cuda_number("FAKE_CUPTI_BUFFER", 1 << 30);
  while (!current.bytes || current.used + bytes > current.size || current.used + bytes > limit) {
    if (!current.bytes) {
      if (take_buffer(bytes)) continue;
      ++dropped;
      return NULL;
    }
    struct buffer full = current;
    current.bytes = NULL;
    if (knob("FAKE_CUPTI_LATE") && held_count < 1024) {
      held[held_count++] = full;
    } else {
      pthread_mutex_unlock(&lock);
      give_back(full);
      pthread_mutex_lock(&lock);
    }
  }
  uint8_t* at = current.bytes + current.used;
  memset(at, 0xEE, bytes); /* what a reader does not know must not matter */
  current.used += bytes;
  ++current.records;
  return at;
}

static void write_record(const struct fake_op* op) {
  const int index = index_of(op->kind);
  pthread_mutex_lock(&lock);
  if (!completed || index < 0 || !enabled_kinds[op->kind]) {
    pthread_mutex_unlock(&lock);
    return;
  }
  const int counted = op->kind != FAKE_EVENT;
  record_count += counted;
  if (counted && knob("FAKE_CUPTI_DROP") && record_count % (unsigned)knob("FAKE_CUPTI_DROP") == 0) {
    ++dropped;
    pthread_mutex_unlock(&lock);
    return;
  }
  const int zero = counted && knob("FAKE_CUPTI_ZERO") && record_count % (unsigned)knob("FAKE_CUPTI_ZERO") == 0;
  const int open = counted && knob("FAKE_CUPTI_OPEN") && record_count % (unsigned)knob("FAKE_CUPTI_OPEN") == 0;
  const uint64_t begin = zero ? 0 : op->start + offset_ns, end = zero || open ? 0 : op->end + offset_ns;
  if (counted && knob("FAKE_CUPTI_HOARD") && record_count == (unsigned)knob("FAKE_CUPTI_HOARD") + 1) hoard();
  uint8_t* r = room(sizes[index]);
  if (r) {
    put32(r, (uint32_t)op->kind);
    if (knob("FAKE_CUPTI_DAMAGE") && completed_count == 2 && current.records == 3) put32(r, 0x77777777);
    switch (op->kind) {
      case FAKE_KERNEL:
        put64(r + 16, begin);
        put64(r + 24, end);
        put64(r + 32, 0);
        put32(r + 40, (uint32_t)op->device);
        put32(r + 44, op->context_id);
        put32(r + 48, op->stream_id);
        put32(r + 92, op->correlation);
        put64(r + 104, (uint64_t)(uintptr_t)op->name);
        put64(r + 144, op->node);
        break;
      case FAKE_MEMCPY:
      case FAKE_MEMCPY2:
        r[4] = (uint8_t)op->copy;
        r[5] = (uint8_t)op->source;
        r[6] = (uint8_t)op->destination;
        r[7] = 0;
        put64(r + 8, op->bytes);
        put64(r + 16, begin);
        put64(r + 24, end);
        put32(r + 32, (uint32_t)op->device);
        put32(r + 36, op->context_id);
        put32(r + 40, op->stream_id);
        if (op->kind == FAKE_MEMCPY) {
          put32(r + 44, op->correlation);
          put64(r + 64, op->node);
        } else {
          put32(r + 44, (uint32_t)op->device);
          put32(r + 48, op->context_id);
          put32(r + 52, (uint32_t)op->peer);
          put32(r + 56, 1 + (uint32_t)op->peer);
          put32(r + 60, op->correlation);
          put64(r + 72, op->node);
        }
        break;
      case FAKE_MEMSET:
        put32(r + 4, (uint32_t)op->value);
        put64(r + 8, op->bytes);
        put64(r + 16, begin);
        put64(r + 24, end);
        put32(r + 32, (uint32_t)op->device);
        put32(r + 36, op->context_id);
        put32(r + 40, op->stream_id);
        put32(r + 44, op->correlation);
        r[48] = r[49] = 0;
        r[50] = (uint8_t)op->destination;
        r[51] = 0;
        put64(r + 64, op->node);
        break;
      case FAKE_SYNC:
        put32(r + 4, (uint32_t)op->value);
        put64(r + 8, begin);
        put64(r + 16, end);
        put32(r + 24, op->correlation);
        put32(r + 28, op->context_id);
        put32(r + 32, op->stream_id);
        put32(r + 36, op->event);
        if (sizes[index] >= 56) put64(r + 40, op->recording);
        break;
      case FAKE_EVENT:
        put32(r + 4, op->correlation);
        put32(r + 8, op->context_id);
        put32(r + 12, op->stream_id);
        put32(r + 16, op->event);
        if (sizes[index] >= 56) put64(r + 48, op->recording);
        break;
      case FAKE_OVERHEAD:
        put32(r + 4, (uint32_t)op->value);
        put64(r + 24, begin);
        put64(r + 32, end);
        break;
    }
  }
  const int first_of_buffer = r && current.records == 1;
  pthread_mutex_unlock(&lock);
  if (first_of_buffer && op->kind != FAKE_OVERHEAD && knob("FAKE_CUPTI_OVERHEAD")) {
    struct fake_op overhead = {.kind = FAKE_OVERHEAD, .value = 2 << 16, .start = op->start, .end = op->start + 500};
    write_record(&overhead);
  }
}

FAKE_EXPORT int cuptiActivityFlushAll(uint32_t forced) {
  pthread_mutex_lock(&lock);
  struct buffer last = current;
  current.bytes = NULL;
  if (last.bytes && knob("FAKE_CUPTI_LATE") && held_count < 1024) {
    held[held_count++] = last;
    last.bytes = NULL;
  }
  static struct buffer all[1024];
  int count = 0;
  while (forced && held_count > 0) all[count++] = held[--held_count];
  pthread_mutex_unlock(&lock);
  if (last.bytes) give_back(last);
  for (int i = 0; i < count; ++i) give_back(all[i]);
  return SUCCESS;
}

FAKE_EXPORT int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  start();
  uint8_t* next = buffer;
  if (*record) {
    uint32_t kind;
    memcpy(&kind, *record, sizeof kind);
    next = *record + sizes[index_of((int)kind)];
  }
  if (next >= buffer + valid) return MAX_LIMIT_REACHED;
  uint32_t kind;
  memcpy(&kind, next, sizeof kind);
  if (kind > 63 || index_of((int)kind) < 0) return INVALID_KIND;
  *record = next;
  return SUCCESS;
}

FAKE_EXPORT int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* count) {
  (void)context, (void)stream;
  pthread_mutex_lock(&lock);
  *count = dropped;
  dropped = 0;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

/* -------------------------------------------------------------------------------------------------------- callbacks */

struct callback_data { /* CUpti_CallbackData */
  int site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;
  void* context;
  uint32_t context_uid;
  uint64_t* data;
  uint32_t correlation;
};
struct graph_data { /* CUpti_GraphData */
  void *graph, *original_graph, *node, *original_node;
  int type;
  void *dependency, *executable;
};
struct resource_data { /* CUpti_ResourceData */
  void* context;
  void* stream;
  void* descriptor;
};

static void on_api(int domain, int cbid, int exit, const char* function, uint32_t correlation, uint64_t* data) {
  if (!callback || !enabled_calls[domain][cbid]) return;
  const struct callback_data told = {exit, function, NULL, NULL, NULL, NULL, 1, data, correlation};
  callback(callback_data, domain, (uint32_t)cbid, &told);
}

static void on_node(int cloned, uint64_t node, uint64_t original) {
  const int cbid = cloned ? 20 : 13;
  if (!callback || !enabled_calls[FAKE_RESOURCE][cbid]) return;
  const struct graph_data graph = {.node = (void*)(uintptr_t)node, .original_node = (void*)(uintptr_t)original};
  const struct resource_data told = {NULL, NULL, (void*)&graph};
  callback(callback_data, FAKE_RESOURCE, (uint32_t)cbid, &told);
}

static int subscribe(void** subscriber, callback_t function, void* data) {
  start();
  if (knob("FAKE_CUPTI_SUBSCRIBE")) return knob("FAKE_CUPTI_SUBSCRIBE");
  if (callback) return MULTIPLE_SUBSCRIBERS;
  callback = function;
  callback_data = data;
  fake_cuda_hooks.api = on_api;
  fake_cuda_hooks.node = on_node;
  fake_cuda_hooks.activity = write_record;
  *subscriber = &callback;
  return SUCCESS;
}

FAKE_EXPORT int cuptiSubscribe(void** subscriber, callback_t function, void* data) {
  return subscribe(subscriber, function, data);
}

struct subscriber_parameters {
  size_t size;
  const char* name;
  char* old_name;
  size_t old_bytes;
};

FAKE_EXPORT int cuptiSubscribe_v2(void** subscriber, callback_t function, void* data,
                                  struct subscriber_parameters* parameters) {
  if (knob("FAKE_CUPTI_NO_V2")) return NOT_SUPPORTED;
  const int result = subscribe(subscriber, function, data);
  if (result == MULTIPLE_SUBSCRIBERS && parameters->old_name && getenv("FAKE_CUPTI_HOLDER"))
    snprintf(parameters->old_name, parameters->old_bytes, "CUPTI for %s", getenv("FAKE_CUPTI_HOLDER"));
  return result;
}

FAKE_EXPORT int cuptiUnsubscribe(void* subscriber) {
  (void)subscriber;
  callback = NULL;
  return SUCCESS;
}

FAKE_EXPORT int cuptiEnableCallback(uint32_t enable, void* subscriber, int domain, uint32_t cbid) {
  if (!subscriber || domain < 1 || domain > 3 || cbid >= 1024) return INVALID_PARAMETER;
  if (refuses("callbacks")) return UNKNOWN;
  enabled_calls[domain][cbid] = (char)enable;
  return SUCCESS;
}

FAKE_EXPORT int cuptiEnableDomain(uint32_t enable, void* subscriber, int domain) {
  for (uint32_t cbid = 0; cbid < 1024; ++cbid) {
    const int result = cuptiEnableCallback(enable, subscriber, domain, cbid);
    if (result != SUCCESS) return result;
  }
  return SUCCESS;
}

/* --------------------------------------------------------------------------------------------------------- the rest */

FAKE_EXPORT int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) { return (void)kind, (void)id, SUCCESS; }
FAKE_EXPORT int cuptiFinalize(void) { return SUCCESS; }

FAKE_EXPORT int cuptiGetVersion(uint32_t* number) {
  start();
  *number = (uint32_t)version;
  return SUCCESS;
}
FAKE_EXPORT int cuptiActivityRegisterCallbacks(requested_t request, completed_t complete) {
  if (refuses("buffers")) return UNKNOWN;
  requested = request;
  completed = complete;
  return SUCCESS;
}
FAKE_EXPORT int cuptiActivityEnable(int kind) {
  if ((kind == FAKE_KERNEL && refuses("kernels")) || (kind == FAKE_EVENT && refuses("events")) || refuses("kinds"))
    return NOT_SUPPORTED;
  if (kind < 0 || kind > 63) return INVALID_KIND;
  enabled_kinds[kind] = 1;
  return SUCCESS;
}
FAKE_EXPORT int cuptiActivityDisable(int kind) {
  enabled_kinds[kind & 63] = 0;
  return SUCCESS;
}
FAKE_EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*function)(void)) {
  if (refuses("timestamps") || version < 17) return NOT_SUPPORTED;
  timestamp = function;
  offset_ns = function() - fake_cuda_now();
  return SUCCESS;
}
FAKE_EXPORT int cuptiGetTimestamp(uint64_t* now) {
  *now = timestamp ? timestamp() : fake_cuda_now() + offset_ns;
  return SUCCESS;
}
FAKE_EXPORT int cuptiActivitySetAttribute(int attribute, size_t* bytes, void* value) {
  (void)attribute, (void)bytes, (void)value;
  return SUCCESS;
}
FAKE_EXPORT int cuptiGetGraphNodeId(void* node, uint64_t* id) {
  *id = (uint64_t)(uintptr_t)node;
  return SUCCESS;
}
FAKE_EXPORT int cuptiGetResultString(int result, const char** text) {
  *text = result == MULTIPLE_SUBSCRIBERS ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : result == 15                 ? "CUPTI_ERROR_NOT_INITIALIZED"
                                         : "CUPTI_ERROR_UNKNOWN";
  return SUCCESS;
}
