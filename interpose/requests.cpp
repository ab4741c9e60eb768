#include "interpose/requests.h"

#include <sched.h>
#include <string.h>

#include "core/recorder_internal.h"
#include "interpose/payload.h"

namespace ddl {

namespace {

constexpr uint32_t kStripes = 64;
constexpr uint32_t kBucketsPerStripe = 256;
constexpr size_t kPoolBytes = 64 * 1024;

struct alignas(64) Stripe {
  bool locked;
  RequestInfo* free;
  RequestInfo* buckets[kBucketsPerStripe];
};
Stripe g_stripes[kStripes];
uint64_t g_outstanding = 0;

class StripeLock {
 public:
  explicit StripeLock(Stripe& stripe) : stripe_(g_mpi.multiple ? &stripe : nullptr) {
    while (stripe_ && __atomic_test_and_set(&stripe_->locked, __ATOMIC_ACQUIRE)) sched_yield();
  }
  ~StripeLock() {
    if (stripe_) __atomic_clear(&stripe_->locked, __ATOMIC_RELEASE);
  }
  StripeLock(const StripeLock&) = delete;
  StripeLock& operator=(const StripeLock&) = delete;

 private:
  Stripe* stripe_;
};

uint64_t hash_of(MPI_Request handle) { return key_of(handle) * 0x9e3779b97f4a7c15ull >> 40; }
Stripe& stripe_of(uint64_t hash) { return g_stripes[hash % kStripes]; }
RequestInfo** bucket_of(Stripe& stripe, uint64_t hash) { return &stripe.buckets[hash / kStripes % kBucketsPerStripe]; }

/// The link that points to the entry of `handle` that no completing call holds, or to the NULL at the end of its chain.
RequestInfo** find(RequestInfo** link, MPI_Request handle) {
  while (*link && ((*link)->handle != handle || (*link)->held)) link = &(*link)->next;
  return link;
}

bool is_none(MPI_Request handle) { return !key_of(handle) || handle == g_mpi.request_null; }

RequestInfo* take_node(Stripe& stripe) {
  if (!stripe.free) {
    RequestInfo* nodes = static_cast<RequestInfo*>(internal::take_pages(kPoolBytes));
    if (!nodes) return nullptr;
    for (size_t i = 0; i < kPoolBytes / sizeof(RequestInfo); ++i) {
      nodes[i].next = stripe.free;
      stripe.free = &nodes[i];
    }
  }
  RequestInfo* node = stripe.free;
  stripe.free = node->next;
  return node;
}

void remove(Stripe& stripe, RequestInfo* node) {
  RequestInfo** link = bucket_of(stripe, hash_of(node->handle));
  while (*link && *link != node) link = &(*link)->next;
  if (*link) *link = node->next;
  node->next = stripe.free;
  stripe.free = node;
}

void count_outstanding(int64_t change) { __atomic_fetch_add(&g_outstanding, static_cast<uint64_t>(change), __ATOMIC_RELAXED); }

/// Bytes of what is posted without knowing them (receives, persistent operations) join the row of the posting call when they are known.
void add_bytes(Thread* thread, const RequestInfo& info, uint64_t bytes) {
  if (bytes != 0) profile_entry(thread, info.context, info.comm, info.op, 0)->bytes += bytes;
}

void write_request(const RequestInfo& info, uint64_t now) {
  Thread* thread = this_thread();
  if (!thread) return;
  if (info.fill == Fill::kBytes || info.fill == Fill::kMessage) add_bytes(thread, info, payload_bytes(info.payload));
  Record record;
  record.start_ticks = info.start_ticks;
  record.word = record_word(RecordKind::kRequest, info.op, now - info.start_ticks);
  record.payload = info.payload;
  record.comm = info.comm;
  record.context = info.context;
  record.sequence = info.sequence;
  record.peer = info.peer;
  write_record(thread, info.keep, record);
}

void write_completion(RequestInfo info, const MPI_Status& status, uint64_t now) {
  const uint32_t datatype = payload_datatype(info.payload);
  if (info.fill != Fill::kNothing) info.payload = info.fill == Fill::kBytes ? was_read(status, datatype) : received(status, datatype);
  if (info.fill == Fill::kMessage || info.fill == Fill::kReceivedHalf) {
    info.peer = source_of(status);
    info.sequence = static_cast<uint32_t>(status.MPI_TAG);
  }
  write_request(info, now);
}

}  // namespace

void post_request(MPI_Request handle, const OpenCall& call, uint64_t now, RequestInfo info) {
  if (!call.thread) return;
  info.handle = handle;
  info.start_ticks = call.start_ticks;
  info.context = call.context;
  info.comm = call.comm;
  info.op = call.op;
  info.keep = call.keep;
  info.active = !info.persistent;
  if (handle == g_mpi.request_null || is_shared_request(handle)) {
    if (info.fill != Fill::kNothing) info.payload = 0;  // a receive that is complete when posted is one from MPI_PROC_NULL
    if (!info.persistent) write_request(info, now);
    return;
  }
  const uint64_t hash = hash_of(handle);
  Stripe& stripe = stripe_of(hash);
  const StripeLock lock(stripe);
  RequestInfo** link = find(bucket_of(stripe, hash), handle);
  RequestInfo* node = *link;
  if (node) {
    // MPI gave the handle out again without our having seen its end (completed through a call that we do not wrap).
    if (node->active) {
      count_loss(kLossRequests);
      count_outstanding(-1);
    }
  } else {
    node = take_node(stripe);
    if (!node) {
      count_loss(kLossRequests);
      return;
    }
    node->next = nullptr;
    *link = node;
  }
  if (info.active) count_outstanding(1);
  info.next = node->next;
  *node = info;
}

RequestInfo* find_request(MPI_Request handle, bool hold) {
  if (is_none(handle)) return nullptr;
  const uint64_t hash = hash_of(handle);
  Stripe& stripe = stripe_of(hash);
  const StripeLock lock(stripe);
  RequestInfo* node = *find(bucket_of(stripe, hash), handle);
  if (node && hold && g_mpi.multiple) node->held = true;
  return node;
}

void release_request(RequestInfo* request) {
  if (!request || !g_mpi.multiple) return;
  const StripeLock lock(stripe_of(hash_of(request->handle)));
  request->held = false;
}

bool is_active(const RequestInfo* request) { return request && request->active; }

void complete_request(RequestInfo* request, const MPI_Status& status, uint64_t now) {
  if (!request) return;
  RequestInfo info;
  {
    Stripe& stripe = stripe_of(hash_of(request->handle));
    const StripeLock lock(stripe);
    request->held = false;
    info = *request;
    request->active = false;
    if (info.active) count_outstanding(-1);
    if (!info.persistent) remove(stripe, request);
  }
  if (!info.active) return;
  write_completion(info, status, now);
  if (key_of(info.new_comm)) add_communicator(info.new_comm, find_communicator(key_of(info.parent)), info.op, "MPI_Comm_idup", 0);
}

void observe_completion(RequestInfo* request, const MPI_Status& status, uint64_t now) {
  if (!is_active(request)) return;
  request->active = false;
  count_outstanding(-1);
  write_completion(*request, status, now);
}

void start_request(MPI_Request handle, uint64_t now) {
  if (is_none(handle)) return;
  RequestInfo info;
  {
    const uint64_t hash = hash_of(handle);
    Stripe& stripe = stripe_of(hash);
    const StripeLock lock(stripe);
    RequestInfo* node = *find(bucket_of(stripe, hash), handle);
    if (!node || !node->persistent || node->active) return;
    if (node->numbered_key) {
      Communicator* c = find_communicator(node->numbered_key);
      node->sequence = c->index == node->comm ? next_sequence(c) : kNoSequence;
    }
    node->active = true;
    node->start_ticks = now;
    count_outstanding(1);
    info = *node;
  }
  if (Thread* thread = this_thread(); thread && info.fill == Fill::kNothing) add_bytes(thread, info, payload_bytes(info.payload));
}

void forget_request(MPI_Request handle) {
  RequestInfo* node = find_request(handle, false);
  if (!node) return;
  Stripe& stripe = stripe_of(hash_of(handle));
  const StripeLock lock(stripe);
  if (node->active) {
    count_loss(kLossRequests);
    count_outstanding(-1);
  }
  remove(stripe, node);
}

uint64_t outstanding_requests() { return __atomic_load_n(&g_outstanding, __ATOMIC_RELAXED); }

void reset_requests() {
  memset(static_cast<void*>(g_stripes), 0, sizeof g_stripes);
  g_outstanding = 0;
}

}  // namespace ddl
