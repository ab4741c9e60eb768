// Wait, Test, Probe and Start families, written by hand: each completes requests in its own way.
//
// MPI overwrites the handles of completed requests, so they are looked up or copied first; where a receive may be among
// them MPI is given statuses to fill even if the caller wanted none. Test and Probe that find nothing, or only what had
// been completed before, are counted, not recorded: they come in millions.
#include <string.h>

#include "core/scratch.h"
#include "interpose/payload.h"
#include "interpose/requests.h"
#include "interpose/wrapper.h"

namespace ddl {
namespace {

constexpr int kOnStack = 16;
constexpr size_t kMaxKeptBytes = 1 << 20;  // per thread: 26,000 requests

enum class Calls { kWait, kTest };

bool is_collective(const RequestInfo* info) { return info->flags & kRequestCollective; }

/// The last collective of several requests, because a rank that is missing from an earlier one is missing from that one
/// too; else the first message.
DDL_INLINE const RequestInfo* more_awaited(const RequestInfo* best, const RequestInfo* info) {
  return info && (!best || (is_collective(info) && (!is_collective(best) || info->sequence > best->sequence))) ? info
                                                                                                               : best;
}

/// Opens the record of a waiting call. It carries what is waited for.
DDL_INLINE OpenCall begin_wait(uint32_t op, const void* site, const RequestInfo* awaited) {
  if (!awaited) return begin_call(op, site, kNoComm, false, kNoSequence, -1, 0);
  const bool collective = is_collective(awaited);
  return begin_call(op, site, awaited->comm, collective, collective ? awaited->sequence : kNoSequence,
                    collective ? -1 : awaited->peer, 0);
}

/// The request of a call that completes one. Waits look at what they wait for, to say so. Polls do not care unless they
/// find something; until then the handle will do, except where another thread may be given it meanwhile.
class PendingOne {
 public:
  PendingOne(Calls calls, const MPI_Request* request) : handle_(request ? *request : g_mpi.request_null) {
    found_ = calls == Calls::kWait || g_mpi.multiple;
    entry_ = found_ ? find_request(handle_, true) : nullptr;
  }
  ~PendingOne() {
    if (g_mpi.multiple) release_request(entry_);
  }
  PendingOne(const PendingOne&) = delete;
  PendingOne& operator=(const PendingOne&) = delete;

  RequestInfo* entry() {
    if (!found_) entry_ = find_request(handle_, false);
    found_ = true;
    return entry_;
  }
  bool is_active() { return entry() && entry_->flags & kRequestActive; }
  DDL_INLINE void complete(Thread* thread, const MPI_Status& status, uint64_t now) {
    if (entry()) complete_request(thread, entry_, status, now);
    entry_ = nullptr;
  }

 private:
  MPI_Request handle_;
  bool found_;
  RequestInfo* entry_;
};

/// The requests of one completing call, and statuses for MPI to fill. Short lists live on the stack, long ones in
/// memory of the thread.
class Pending {
 public:
  Pending(Calls calls, int count, const MPI_Request* requests, MPI_Status* statuses)
      : count_(count > 0 && requests ? count : 0), requests_(stack_requests_), statuses_(statuses) {
    if (count_ > kOnStack) take_memory();
    // Without memory the caller's word stands: MPI would write `count` statuses.
    if (statuses_ == MPI_STATUSES_IGNORE && (scratch_ || count <= kOnStack))
      statuses_ = scratch_ ? reinterpret_cast<MPI_Status*>(requests_ + count_) : stack_statuses_;
    const bool find_now = calls == Calls::kWait || g_mpi.multiple;
    for (int i = 0; i < count_; ++i) {
      requests_[i] = {requests[i], find_now ? find_request(requests[i], true) : nullptr};
    }
    found_ = find_now;
  }
  ~Pending() {
    if (g_mpi.multiple) {
      for (int i = 0; i < count_; ++i) release_request(requests_[i].entry);
    }
    if (scratch_) give_back_scratch(kept_, scratch_, kept_ == &unkept_ ? 0 : kMaxKeptBytes);
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  MPI_Status* statuses() const { return statuses_; }
  RequestInfo* entry(int request) const { return request < count_ ? requests_[request].entry : nullptr; }

  /// Is there anything to complete at `request`? Then complete() must follow.
  bool is_news(int request) {
    if (request < 0 || request >= count_) return false;
    if (!found_) requests_[request].entry = find_request(requests_[request].handle, false);
    return requests_[request].entry != nullptr;
  }
  DDL_INLINE void complete(Thread* thread, int request, int status, uint64_t now) {
    if (!is_news(request)) return;
    complete_request(thread, requests_[request].entry, statuses_[status], now);
    requests_[request] = {g_mpi.request_null, nullptr};
  }
  bool is_any_active() {
    bool active = false;
    for (int i = 0; i < count_; ++i) active |= is_active_at(i);
    return active;
  }
  bool is_active_at(int request) { return is_news(request) && requests_[request].entry->flags & kRequestActive; }
  DDL_INLINE void complete_all(Thread* thread, uint64_t now) {
    for (int i = 0; i < count_; ++i) complete(thread, i, i, now);
  }
  /// After an error: what MPI has let go of is done all the same.
  void complete_gone(Thread* thread, const MPI_Request* requests, bool one_status, uint64_t now) {
    for (int i = 0; i < count_; ++i) {
      if (requests[i] == g_mpi.request_null) complete(thread, i, one_status ? 0 : i, now);
    }
  }

  DDL_INLINE OpenCall begin(uint32_t op, const void* site) const {
    const RequestInfo* awaited = nullptr;
    for (int i = 0; i < count_; ++i) awaited = more_awaited(awaited, requests_[i].entry);
    return begin_wait(op, site, awaited);
  }

 private:
  struct Request {
    MPI_Request handle;
    RequestInfo* entry;
  };

  void take_memory() {
    Thread* thread = this_thread();
    kept_ = thread ? &thread->scratch : &unkept_;
    scratch_ = take_scratch(kept_, static_cast<size_t>(count_) * (sizeof(Request) + sizeof(MPI_Status)));
    if (scratch_) {
      requests_ = reinterpret_cast<Request*>(scratch_ + 1);
    } else {
      count_loss(kLossRequests, static_cast<uint64_t>(count_));
      count_ = 0;
    }
  }

  int count_;
  bool found_;
  Request* requests_;
  MPI_Status* statuses_;
  ScratchPages* scratch_ = nullptr;
  ScratchPages** kept_ = nullptr;
  ScratchPages* unkept_ = nullptr;  ///< of a call that is not recorded
  Request stack_requests_[kOnStack];
  MPI_Status stack_statuses_[kOnStack];
};

// ------------------------------------------------------------------------------------------------ wait

/// MPI_Waitall has failed, and the program asked for no statuses. MPICH 4.2 then lets go of all requests, which
/// are complete; but we asked for statuses, and then it keeps those behind the one that failed. How many bytes
/// they moved is lost.
template <class EntryOf>
void free_rest(int result, int count, MPI_Request* requests, MPI_Status* statuses, EntryOf entry_of) {
  constexpr int kClassOfCode = 0x7f;  // MPICH's codes have their class there
  if (statuses == MPI_STATUSES_IGNORE || !g_mpi.failed_waitall_frees || (result & kClassOfCode) != MPI_ERR_IN_STATUS)
    return;
  for (int i = 0; i < count; ++i) {
    const RequestInfo* entry = entry_of(i);
    if (requests[i] == g_mpi.request_null || statuses[i].MPI_ERROR != MPI_ERR_PENDING) continue;
    if (entry ? entry->flags & kRequestPersistent : !is_shared_request(requests[i])) continue;
    memset(&statuses[i], 0, sizeof statuses[i]);
    g_mpi.p.Request_free(&requests[i]);
  }
}

/// Wait and Waitall as repeated calls. False: nothing was done.
template <class CallReal>
DDL_INLINE bool wait_short(Thread* thread, uint32_t op, const void* site, int count, MPI_Request* requests,
                           MPI_Status* statuses, CallReal call_real, int* result) {
  if (__builtin_expect(g_mpi.multiple || count < 1 || count > kOnStack || !requests, 0)) return false;
  RequestInfo* entries[kOnStack];
  const RequestInfo* awaited = nullptr;
  for (int i = 0; i < count; ++i) {
    entries[i] = request_at_hand(requests[i]);
    if (entries[i]) {
      awaited = more_awaited(awaited, entries[i]);
    } else if (__builtin_expect(!is_no_request(requests[i]), 0)) {
      return false;
    }
  }
  const bool collective = awaited && is_collective(awaited);
  const uint32_t comm = awaited ? awaited->comm : kNoComm, sequence = collective ? awaited->sequence : kNoSequence;
  const int32_t peer = awaited && !collective ? awaited->peer : -1;
  OpenCall call;
  if (!begin_repeated_call(
          thread, op, site, comm, peer, PayloadKey(), [&] { return sequence; }, &call))
    return false;
  MPI_Status own[kOnStack];
  const bool asked = statuses != MPI_STATUSES_IGNORE;
  if (!asked) statuses = own;
  *result = call_real(statuses);
  const uint64_t now = end_repeated_wait(call);
  if (__builtin_expect(*result == MPI_SUCCESS, 1)) {
    for (int i = 0; i < count; ++i) {
      if (entries[i]) complete_request_at_hand(thread, entries[i], statuses[i], now);
    }
  } else {
    if (!asked && count > 1) free_rest(*result, count, requests, statuses, [&](int i) { return entries[i]; });
    for (int i = 0; i < count; ++i) {  // what MPI has let go of is done all the same
      if (entries[i] && requests[i] == g_mpi.request_null) complete_request(thread, entries[i], statuses[i], now);
    }
  }
  return true;
}

template <class Real>
DDL_INLINE int MPI_Wait_recorded(Real real, const void* site, MPI_Request* request, MPI_Status* status) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  PendingOne pending(Calls::kWait, request);
  const OpenCall call = begin_wait(kOp_MPI_Wait, site, pending.entry());
  const int result = real(request, status);
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    if (result == MPI_SUCCESS || (request && *request == g_mpi.request_null))
      pending.complete(call.thread, *status, now);
  }
  return result;
}

template <class Real>
DDL_INLINE int MPI_Waitall_recorded(Real real, const void* site, int count, MPI_Request requests[],
                                    MPI_Status statuses[]) {
  Pending pending(Calls::kWait, count, requests, statuses);
  const OpenCall call = pending.begin(kOp_MPI_Waitall, site);
  const int result = real(count, requests, pending.statuses());
  if (result != MPI_SUCCESS && statuses == MPI_STATUSES_IGNORE)
    free_rest(result, count, requests, pending.statuses(), [&](int i) { return pending.entry(i); });
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    result == MPI_SUCCESS ? pending.complete_all(call.thread, now)
                          : pending.complete_gone(call.thread, requests, false, now);
  }
  return result;
}

template <class Real>
DDL_INLINE int MPI_Waitany_recorded(Real real, const void* site, int count, MPI_Request requests[], int* index,
                                    MPI_Status* status) {
  Pending pending(Calls::kWait, count, requests, status);
  const OpenCall call = pending.begin(kOp_MPI_Waitany, site);
  const int result = real(count, requests, index, pending.statuses());
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    result == MPI_SUCCESS ? pending.complete(call.thread, *index, 0, now)
                          : pending.complete_gone(call.thread, requests, true, now);
  }
  return result;
}

/// Waitsome, Testsome: are `outcount` and `indices` filled?
bool has_list(int result) { return result == MPI_SUCCESS || result == MPI_ERR_IN_STATUS; }

template <class Real>
DDL_INLINE int MPI_Waitsome_recorded(Real real, const void* site, int incount, MPI_Request requests[], int* outcount,
                                     int indices[], MPI_Status statuses[]) {
  Pending pending(Calls::kWait, incount, requests, statuses);
  const OpenCall call = pending.begin(kOp_MPI_Waitsome, site);
  const int result = real(incount, requests, outcount, indices, pending.statuses());
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    for (int i = 0; has_list(result) && i < *outcount; ++i) pending.complete(call.thread, indices[i], i, now);
  }
  return result;
}

// ------------------------------------------------------------------------------------------------ test

/// Leaves a test that is not merely in vain.
void end_test(const OpenPoll& poll, const void* site, PendingOne& pending, const MPI_Request* request,
              const MPI_Status& status, int result) {
  const bool done = result == MPI_SUCCESS;
  const uint64_t now = end_poll(poll, kOp_MPI_Test, site, kNoComm, -1, done && pending.is_active());
  if (done) pending.complete(poll.thread, status, now);
  if (!done && request && *request == g_mpi.request_null) pending.complete(poll.thread, status, ticks());
}

template <class Real>
DDL_INLINE int MPI_Test_recorded(Real real, const void* site, MPI_Request* request, int* flag, MPI_Status* status) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  PendingOne pending(Calls::kTest, request);
  const OpenPoll poll = begin_poll();
  const int result = real(request, flag, status);
  if (__builtin_expect(result == MPI_SUCCESS && !*flag, 1)) {  // what loops do most: the short way out
    end_poll(poll, kOp_MPI_Test, site, kNoComm, -1, false);
    return result;
  }
  end_test(poll, site, pending, request, *status, result);
  return result;
}

/// The same as a repeated poll. False: nothing was done.
template <class Real>
DDL_INLINE bool test_short(Thread* thread, const void* site, Real real, MPI_Request* request, int* flag,
                           MPI_Status* status, int* result) {
  if (__builtin_expect(g_mpi.multiple || !request, 0)) return false;
  OpenPoll poll;
  ProfileEntry* entry;
  if (!begin_repeated_poll(thread, kOp_MPI_Test, site, kNoComm, &poll, &entry)) return false;
  const MPI_Request handle = *request;
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  *result = real(request, flag, status);
  if (__builtin_expect(*result == MPI_SUCCESS && (!*flag || is_no_request(handle)), 1)) {
    end_repeated_poll(poll, entry);
  } else {
    count_repeated_poll(poll);
    PendingOne pending(Calls::kTest, &handle);
    end_test(poll, site, pending, request, *status, *result);
  }
  return true;
}

template <class Real>
DDL_INLINE int MPI_Testall_recorded(Real real, const void* site, int count, MPI_Request requests[], int* flag,
                                    MPI_Status statuses[]) {
  Pending pending(Calls::kTest, count, requests, statuses);
  const OpenPoll poll = begin_poll();
  const int result = real(count, requests, flag, pending.statuses());
  const bool done = result == MPI_SUCCESS && *flag;
  const uint64_t now = end_poll(poll, kOp_MPI_Testall, site, kNoComm, -1, done && pending.is_any_active());
  if (done) pending.complete_all(poll.thread, now);
  if (result != MPI_SUCCESS) pending.complete_gone(poll.thread, requests, false, ticks());
  return result;
}

template <class Real>
DDL_INLINE int MPI_Testany_recorded(Real real, const void* site, int count, MPI_Request requests[], int* index,
                                    int* flag, MPI_Status* status) {
  Pending pending(Calls::kTest, count, requests, status);
  const OpenPoll poll = begin_poll();
  const int result = real(count, requests, index, flag, pending.statuses());
  const bool done = result == MPI_SUCCESS && *flag;
  const uint64_t now = end_poll(poll, kOp_MPI_Testany, site, kNoComm, -1, done && pending.is_active_at(*index));
  if (done) pending.complete(poll.thread, *index, 0, now);
  if (result != MPI_SUCCESS) pending.complete_gone(poll.thread, requests, true, ticks());
  return result;
}

template <class Real>
DDL_INLINE int MPI_Testsome_recorded(Real real, const void* site, int incount, MPI_Request requests[], int* outcount,
                                     int indices[], MPI_Status statuses[]) {
  Pending pending(Calls::kTest, incount, requests, statuses);
  const OpenPoll poll = begin_poll();
  const int result = real(incount, requests, outcount, indices, pending.statuses());
  const bool done = has_list(result) && *outcount > 0;
  const uint64_t now = end_poll(poll, kOp_MPI_Testsome, site, kNoComm, -1, done);
  for (int i = 0; done && i < *outcount; ++i) pending.complete(poll.thread, indices[i], i, now);
  return result;
}

template <class Real>
DDL_INLINE int MPI_Request_get_status_recorded(Real real, const void* site, MPI_Request request, int* flag,
                                               MPI_Status* status) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  PendingOne pending(Calls::kTest, &request);
  const OpenPoll poll = begin_poll();
  const int result = real(request, flag, status);
  const bool news = result == MPI_SUCCESS && *flag && pending.is_active();
  const uint64_t now = end_poll(poll, kOp_MPI_Request_get_status, site, kNoComm, -1, news);
  if (news && poll.thread) observe_completion(poll.thread, pending.entry(), *status, now);
  return result;
}

#if DDL_MPI4
template <class Real>
DDL_INLINE int MPI_Parrived_recorded(Real real, const void* site, MPI_Request request, int partition, int* flag) {
  const OpenPoll poll = begin_poll();
  const int result = real(request, partition, flag);
  end_poll(poll, kOp_MPI_Parrived, site, kNoComm, -1, false);
  return result;
}
#endif

// ------------------------------------------------------------------------------------------------ start, free

template <class Real>
DDL_INLINE int MPI_Start_recorded(Real real, const void* site, MPI_Request* request) {
  const OpenCall call = begin_call(kOp_MPI_Start, site, kNoComm, false, 0, -1, 0);
  const int result = real(request);
  if (call.thread) {
    if (result == MPI_SUCCESS) start_request(*request, call.start_ticks);
    end_call(call, 0);
  }
  return result;
}

template <class Real>
DDL_INLINE int MPI_Startall_recorded(Real real, const void* site, int count, MPI_Request requests[]) {
  const OpenCall call = begin_call(kOp_MPI_Startall, site, kNoComm, false, 0, -1, 0);
  const int result = real(count, requests);
  if (call.thread) {
    for (int i = 0; result == MPI_SUCCESS && i < count; ++i) start_request(requests[i], call.start_ticks);
    end_call(call, 0);
  }
  return result;
}

template <class Real>
DDL_INLINE int MPI_Request_free_recorded(Real real, const void* site, MPI_Request* request) {
  const OpenCall call = begin_call(kOp_MPI_Request_free, site, kNoComm, false, 0, -1, 0);
  if (request) forget_request(*request);  // before: MPI may hand the handle out again at once
  const int result = real(request);
  if (call.thread) end_call(call, 0);
  return result;
}

template <class Real>
DDL_INLINE int MPI_Grequest_start_recorded(Real real, const void* site, MPI_Grequest_query_function* query,
                                           MPI_Grequest_free_function* free, MPI_Grequest_cancel_function* cancel,
                                           void* state, MPI_Request* request) {
  const OpenCall call = begin_call(kOp_MPI_Grequest_start, site, kNoComm, false, 0, -1, 0);
  const int result = real(query, free, cancel, state, request);
  if (call.thread) {
    Posted info = {};
    info.peer = -1;
    const uint64_t now = end_call(call, 0);
    if (result == MPI_SUCCESS) post_request(*request, call, now, info);
  }
  return result;
}

// ------------------------------------------------------------------------------------------------ probe

/// A probe names the message that it found, not the wildcards that it looked for.
DDL_INLINE void end_probe(const OpenCall& call, int result, const MPI_Status& status) {
  if (!call.thread) return;
  if (result == MPI_SUCCESS) set_source(call, status.MPI_SOURCE, static_cast<uint32_t>(status.MPI_TAG));
  end_call(call, 0);
}

DDL_INLINE void end_probe(const OpenPoll& poll, uint32_t op, const void* site, MPI_Comm comm, bool found,
                          const MPI_Status& status) {
  end_poll(poll, op, site, find_communicator(key_of(comm))->index, found ? status.MPI_SOURCE : -1, found,
           found ? static_cast<uint32_t>(status.MPI_TAG) : kNoSequence);
}

template <class Real>
DDL_INLINE int MPI_Probe_recorded(Real real, const void* site, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const uint32_t index = find_communicator(key_of(comm))->index;
  const OpenCall call = begin_call(kOp_MPI_Probe, site, index, false, static_cast<uint32_t>(tag), source, 0);
  const int result = real(source, tag, comm, status);
  end_probe(call, result, *status);
  return result;
}

template <class Real>
DDL_INLINE int MPI_Mprobe_recorded(Real real, const void* site, int source, int tag, MPI_Comm comm,
                                   MPI_Message* message, MPI_Status* status) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const uint32_t index = find_communicator(key_of(comm))->index;
  const OpenCall call = begin_call(kOp_MPI_Mprobe, site, index, false, static_cast<uint32_t>(tag), source, 0);
  const int result = real(source, tag, comm, message, status);
  end_probe(call, result, *status);
  return result;
}

template <class Real>
DDL_INLINE int MPI_Iprobe_recorded(Real real, const void* site, int source, int tag, MPI_Comm comm, int* flag,
                                   MPI_Status* status) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const OpenPoll poll = begin_poll();
  const int result = real(source, tag, comm, flag, status);
  end_probe(poll, kOp_MPI_Iprobe, site, comm, result == MPI_SUCCESS && *flag, *status);
  return result;
}

template <class Real>
DDL_INLINE int MPI_Improbe_recorded(Real real, const void* site, int source, int tag, MPI_Comm comm, int* flag,
                                    MPI_Message* message, MPI_Status* status) {
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const OpenPoll poll = begin_poll();
  const int result = real(source, tag, comm, flag, message, status);
  end_probe(poll, kOp_MPI_Improbe, site, comm, result == MPI_SUCCESS && *flag, *status);
  return result;
}

}  // namespace
}  // namespace ddl

using namespace ddl;

// clang-format off
DDL_SHORT_EXPORTS(MPI_Wait, (MPI_Request* request, MPI_Status* status), (request, status), int result;
                  if (wait_short(thread, kOp_MPI_Wait, site, 1, request, status, [&](MPI_Status* filled) { return real(request, filled); }, &result))
                    return result;)
DDL_SHORT_EXPORTS(MPI_Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), (count, requests, statuses), int result;
                  if (wait_short(thread, kOp_MPI_Waitall, site, count, requests, statuses, [&](MPI_Status* filled) { return real(count, requests, filled); }, &result))
                    return result;)
DDL_EXPORTS(MPI_Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status), (count, requests, index, status))
DDL_EXPORTS(MPI_Waitsome, (int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]),
            (incount, requests, outcount, indices, statuses))
DDL_SHORT_EXPORTS(MPI_Test, (MPI_Request* request, int* flag, MPI_Status* status), (request, flag, status), int result;
                  if (test_short(thread, site, real, request, flag, status, &result)) return result;)
DDL_EXPORTS(MPI_Testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[]), (count, requests, flag, statuses))
DDL_EXPORTS(MPI_Testany, (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status), (count, requests, index, flag, status))
DDL_EXPORTS(MPI_Testsome, (int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]),
            (incount, requests, outcount, indices, statuses))
DDL_EXPORTS(MPI_Request_get_status, (MPI_Request request, int* flag, MPI_Status* status), (request, flag, status))
#if DDL_MPI4
DDL_EXPORTS(MPI_Parrived, (MPI_Request request, int partition, int* flag), (request, partition, flag))
#endif
DDL_EXPORTS(MPI_Start, (MPI_Request* request), (request))
DDL_EXPORTS(MPI_Startall, (int count, MPI_Request requests[]), (count, requests))
DDL_EXPORTS(MPI_Request_free, (MPI_Request* request), (request))
DDL_EXPORTS(MPI_Grequest_start,
            (MPI_Grequest_query_function* query, MPI_Grequest_free_function* free, MPI_Grequest_cancel_function* cancel, void* state, MPI_Request* request),
            (query, free, cancel, state, request))
DDL_EXPORTS(MPI_Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status), (source, tag, comm, status))
DDL_EXPORTS(MPI_Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status), (source, tag, comm, message, status))
DDL_EXPORTS(MPI_Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status), (source, tag, comm, flag, status))
DDL_EXPORTS(MPI_Improbe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status),
            (source, tag, comm, flag, message, status))
// clang-format on
