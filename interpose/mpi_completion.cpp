// Wait, Test, Probe and Start families, written by hand: each completes requests in its own way.
//
// MPI overwrites the handles of completed requests, so they are copied first; where a receive may be among them MPI is given statuses to
// fill even if the caller wanted none. Test and Probe that find nothing are counted, not recorded: they come in millions.
#include <string.h>
#include <sys/mman.h>

#include "core/recorder_internal.h"
#include "interpose/payload.h"
#include "interpose/requests.h"

namespace ddl {
namespace {

constexpr int kOnStack = 32;

/// Copies of the handles of one completing call, and statuses for MPI to fill. Short lists live on the stack, long ones in pages of their
/// own.
class Pending {
 public:
  Pending(int count, const MPI_Request* requests, MPI_Status* statuses)
      : count_(count > 0 && requests ? count : 0), handles_(stack_handles_), statuses_(statuses) {
    if (count_ > kOnStack) {
      bytes_ = static_cast<size_t>(count_) * (sizeof(MPI_Request) + sizeof(MPI_Status));
      pages_ = internal::take_pages(bytes_);
      if (!pages_) {
        count_loss(kLossRequests, static_cast<uint64_t>(count_));
        count_ = 0;
        return;
      }
      handles_ = static_cast<MPI_Request*>(pages_);
    }
    if (count_ > 0) memcpy(static_cast<void*>(handles_), requests, static_cast<size_t>(count_) * sizeof(MPI_Request));
    if (statuses_ == MPI_STATUSES_IGNORE) {
      statuses_ = pages_ ? reinterpret_cast<MPI_Status*>(handles_ + count_) : stack_statuses_;
    }
  }
  ~Pending() {
    if (pages_) munmap(pages_, bytes_);
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  MPI_Status* statuses() const { return statuses_; }
  void complete(int request, int status, uint64_t now) const {
    if (request >= 0 && request < count_) complete_request(handles_[request], statuses_[status], now);
  }
  void complete_all(uint64_t now) const {
    for (int i = 0; i < count_; ++i) complete(i, i, now);
  }
  /// MPI_ERR_IN_STATUS: some are done, others are not.
  void complete_good(uint64_t now) const {
    for (int i = 0; i < count_; ++i) {
      if (statuses_[i].MPI_ERROR == MPI_SUCCESS) complete(i, i, now);
    }
  }

  /// Opens the record of a waiting call. It carries what is waited for: of several requests the last collective, because a rank that is
  /// missing from an earlier one is missing from that one too; else the first message.
  OpenCall begin(uint32_t op, const void* site) const {
    RequestInfo best = {}, info;
    best.peer = -1;
    bool found = false;
    for (int i = 0; i < count_; ++i) {
      if (!look_up_request(handles_[i], &info)) continue;
      if (!found || (info.collective && (!best.collective || info.sequence > best.sequence))) best = info;
      found = true;
    }
    return begin_call(op, site, best.comm, best.collective, best.collective ? best.sequence : kNoSequence, best.collective ? -1 : best.peer,
                      0);
  }

 private:
  int count_;
  MPI_Request* handles_;
  MPI_Status* statuses_;
  void* pages_ = nullptr;
  size_t bytes_ = 0;
  MPI_Request stack_handles_[kOnStack];
  MPI_Status stack_statuses_[kOnStack];
};

}  // namespace
}  // namespace ddl

using namespace ddl;

DDL_EXPORT int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  DDL_REAL(MPI_Wait);
  if (!mpi_recording(site)) return real(request, status);
  const Pending pending(1, request, status);
  const OpenCall call = pending.begin(kOp_MPI_Wait, site);
  const int result = real(request, pending.statuses());
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    if (result == MPI_SUCCESS) pending.complete_all(now);
  }
  return result;
}

DDL_EXPORT int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  DDL_REAL(MPI_Waitall);
  if (!mpi_recording(site)) return real(count, requests, statuses);
  const Pending pending(count, requests, statuses);
  const OpenCall call = pending.begin(kOp_MPI_Waitall, site);
  const int result = real(count, requests, pending.statuses());
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    if (result == MPI_SUCCESS) pending.complete_all(now);
    if (result == MPI_ERR_IN_STATUS) pending.complete_good(now);
  }
  return result;
}

DDL_EXPORT int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  DDL_REAL(MPI_Waitany);
  if (!mpi_recording(site)) return real(count, requests, index, status);
  const Pending pending(count, requests, status);
  const OpenCall call = pending.begin(kOp_MPI_Waitany, site);
  const int result = real(count, requests, index, pending.statuses());
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    if (result == MPI_SUCCESS) pending.complete(*index, 0, now);
  }
  return result;
}

DDL_EXPORT int MPI_Waitsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  DDL_REAL(MPI_Waitsome);
  if (!mpi_recording(site)) return real(incount, requests, outcount, indices, statuses);
  const Pending pending(incount, requests, statuses);
  const OpenCall call = pending.begin(kOp_MPI_Waitsome, site);
  const int result = real(incount, requests, outcount, indices, pending.statuses());
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    for (int i = 0; result == MPI_SUCCESS && i < *outcount; ++i) pending.complete(indices[i], i, now);
  }
  return result;
}

DDL_EXPORT int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  DDL_REAL(MPI_Test);
  if (!mpi_recording(site)) return real(request, flag, status);
  const Pending pending(1, request, status);
  const uint64_t start = ticks();
  const int result = real(request, flag, pending.statuses());
  if (result == MPI_SUCCESS && *flag) {
    pending.complete_all(record_poll(kOp_MPI_Test, site, kNoComm, -1, kNoSequence, start));
  } else {
    count_poll(kOp_MPI_Test, site, kNoComm, start);
  }
  return result;
}

DDL_EXPORT int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  DDL_REAL(MPI_Testall);
  if (!mpi_recording(site)) return real(count, requests, flag, statuses);
  const Pending pending(count, requests, statuses);
  const uint64_t start = ticks();
  const int result = real(count, requests, flag, pending.statuses());
  if (result == MPI_SUCCESS && *flag) {
    pending.complete_all(record_poll(kOp_MPI_Testall, site, kNoComm, -1, kNoSequence, start));
  } else {
    count_poll(kOp_MPI_Testall, site, kNoComm, start);
  }
  return result;
}

DDL_EXPORT int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  DDL_REAL(MPI_Testany);
  if (!mpi_recording(site)) return real(count, requests, index, flag, status);
  const Pending pending(count, requests, status);
  const uint64_t start = ticks();
  const int result = real(count, requests, index, flag, pending.statuses());
  if (result == MPI_SUCCESS && *flag) {
    pending.complete(*index, 0, record_poll(kOp_MPI_Testany, site, kNoComm, -1, kNoSequence, start));
  } else {
    count_poll(kOp_MPI_Testany, site, kNoComm, start);
  }
  return result;
}

DDL_EXPORT int MPI_Testsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  DDL_REAL(MPI_Testsome);
  if (!mpi_recording(site)) return real(incount, requests, outcount, indices, statuses);
  const Pending pending(incount, requests, statuses);
  const uint64_t start = ticks();
  const int result = real(incount, requests, outcount, indices, pending.statuses());
  if (result == MPI_SUCCESS && *outcount > 0) {
    const uint64_t now = record_poll(kOp_MPI_Testsome, site, kNoComm, -1, kNoSequence, start);
    for (int i = 0; i < *outcount; ++i) pending.complete(indices[i], i, now);
  } else {
    count_poll(kOp_MPI_Testsome, site, kNoComm, start);
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------------------- starting and ending
// requests

DDL_EXPORT int MPI_Start(MPI_Request* request) {
  DDL_REAL(MPI_Start);
  if (!mpi_recording(site)) return real(request);
  const OpenCall call = begin_call(kOp_MPI_Start, site, kNoComm, false, 0, -1, 0);
  const int result = real(request);
  if (call.thread) {
    if (result == MPI_SUCCESS) start_request(*request, call.start_ticks);
    end_call(call, 0);
  }
  return result;
}

DDL_EXPORT int MPI_Startall(int count, MPI_Request requests[]) {
  DDL_REAL(MPI_Startall);
  if (!mpi_recording(site)) return real(count, requests);
  const OpenCall call = begin_call(kOp_MPI_Startall, site, kNoComm, false, 0, -1, 0);
  const int result = real(count, requests);
  if (call.thread) {
    for (int i = 0; result == MPI_SUCCESS && i < count; ++i) start_request(requests[i], call.start_ticks);
    end_call(call, 0);
  }
  return result;
}

DDL_EXPORT int MPI_Cancel(MPI_Request* request) {
  DDL_REAL(MPI_Cancel);
  if (!mpi_recording(site)) return real(request);
  // The request still has to be completed; its status will say whether the cancellation won.
  const OpenCall call = begin_call(kOp_MPI_Cancel, site, kNoComm, false, 0, -1, 0);
  const int result = real(request);
  if (call.thread) end_call(call, 0);
  return result;
}

DDL_EXPORT int MPI_Request_free(MPI_Request* request) {
  DDL_REAL(MPI_Request_free);
  if (!mpi_recording(site)) return real(request);
  const OpenCall call = begin_call(kOp_MPI_Request_free, site, kNoComm, false, 0, -1, 0);
  if (request) forget_request(*request);  // before: MPI may hand the handle out again at once
  const int result = real(request);
  if (call.thread) end_call(call, 0);
  return result;
}

// ---------------------------------------------------------------------------------------------------------------- probes and matched
// receives

namespace {

/// A probe names the message that it found, not the wildcards that it looked for.
void end_probe(const OpenCall& call, int result, const MPI_Status& status) {
  if (!call.thread) return;
  if (result == MPI_SUCCESS) set_source(call, status.MPI_SOURCE, static_cast<uint32_t>(status.MPI_TAG));
  end_call(call, 0);
}

}  // namespace

DDL_EXPORT int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  DDL_REAL(MPI_Probe);
  if (!mpi_recording(site)) return real(source, tag, comm, status);
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const OpenCall call = begin_call(kOp_MPI_Probe, site, find_communicator(comm)->index, false, static_cast<uint32_t>(tag), source, 0);
  const int result = real(source, tag, comm, status);
  end_probe(call, result, *status);
  return result;
}

DDL_EXPORT int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  DDL_REAL(MPI_Mprobe);
  if (!mpi_recording(site)) return real(source, tag, comm, message, status);
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const OpenCall call = begin_call(kOp_MPI_Mprobe, site, find_communicator(comm)->index, false, static_cast<uint32_t>(tag), source, 0);
  const int result = real(source, tag, comm, message, status);
  end_probe(call, result, *status);
  return result;
}

DDL_EXPORT int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  DDL_REAL(MPI_Iprobe);
  if (!mpi_recording(site)) return real(source, tag, comm, flag, status);
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const uint64_t start = ticks();
  const int result = real(source, tag, comm, flag, status);
  const uint32_t index = find_communicator(comm)->index;
  if (result == MPI_SUCCESS && *flag) {
    record_poll(kOp_MPI_Iprobe, site, index, status->MPI_SOURCE, static_cast<uint32_t>(status->MPI_TAG), start);
  } else {
    count_poll(kOp_MPI_Iprobe, site, index, start);
  }
  return result;
}

DDL_EXPORT int MPI_Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  DDL_REAL(MPI_Improbe);
  if (!mpi_recording(site)) return real(source, tag, comm, flag, message, status);
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const uint64_t start = ticks();
  const int result = real(source, tag, comm, flag, message, status);
  const uint32_t index = find_communicator(comm)->index;
  if (result == MPI_SUCCESS && *flag) {
    record_poll(kOp_MPI_Improbe, site, index, status->MPI_SOURCE, static_cast<uint32_t>(status->MPI_TAG), start);
  } else {
    count_poll(kOp_MPI_Improbe, site, index, start);
  }
  return result;
}

DDL_EXPORT int MPI_Mrecv(void* buf, int count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status) {
  DDL_REAL(MPI_Mrecv);
  if (!mpi_recording(site)) return real(buf, count, datatype, message, status);
  MPI_Status own;
  if (status == MPI_STATUS_IGNORE) status = &own;
  const OpenCall call = begin_call(kOp_MPI_Mrecv, site, kNoComm, false, 0, -1, 0);
  const int result = real(buf, count, datatype, message, status);
  if (call.thread) {
    uint64_t bytes = 0;
    if (result == MPI_SUCCESS) {
      bytes = received(*status, payload_datatype(payload(1, datatype)));
      set_source(call, status->MPI_SOURCE, static_cast<uint32_t>(status->MPI_TAG));
    }
    end_call(call, bytes);
  }
  return result;
}

DDL_EXPORT int MPI_Imrecv(void* buf, int count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* request) {
  DDL_REAL(MPI_Imrecv);
  if (!mpi_recording(site)) return real(buf, count, datatype, message, request);
  const OpenCall call = begin_call(kOp_MPI_Imrecv, site, kNoComm, false, 0, -1, 0);
  RequestInfo info = {};
  info.payload = payload(1, datatype);
  info.receive = true;
  info.peer = -1;
  const int result = real(buf, count, datatype, message, request);
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    if (result == MPI_SUCCESS) post_request(*request, call, now, info);
  }
  return result;
}
