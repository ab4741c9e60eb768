// The wrappers that the table alone defines.
//
// Each is: find the communicator, open a record, call, close the record, remember the request. Nothing here looks
// at an argument before MPI would, or at one that MPI ignores, and nothing asks MPI about a handle before a call
// has proved it good.
#include <type_traits>

#include "interpose/agreement.h"
#include "interpose/payload.h"
#include "interpose/requests.h"
#include "interpose/wrapper.h"

namespace ddl {
namespace {

/// A collective is counted on its communicator whether or not this thread records, or the ranks' numbers
/// would drift apart.
DDL_INLINE OpenCall begin_numbered(uint32_t op, const void* site, Communicator* c, int root, PayloadKey key) {
  before_collective();
  return begin_call(op, site, c->index, true, next_sequence(c), root, key, known_payload);
}

DDL_INLINE OpenCall begin_numbered(uint32_t op, const void* site, Communicator* c, int root, uint64_t payload) {
  before_collective();
  return begin_call(op, site, c->index, true, next_sequence(c), root, payload);
}

DDL_INLINE OpenCall begin_plain(uint32_t op, const void* site, const Communicator* c, int peer, int tag,
                                PayloadKey key) {
  return begin_call(op, site, c->index, false, static_cast<uint32_t>(tag), peer, key, known_payload);
}
DDL_INLINE OpenCall begin_plain(uint32_t op, const void* site, const Communicator* c, int peer, int tag,
                                uint64_t payload) {
  return begin_call(op, site, c->index, false, static_cast<uint32_t>(tag), peer, payload);
}

/// What a row says of its payload before the call. The communicator may be one that was not seen being made; a row that
/// sends nothing needs none: it says 0, which is a payload.
template <class MakeKey>
DDL_INLINE auto key_for(const Communicator* c, MakeKey make_key) {
  if constexpr (std::is_same_v<decltype(make_key(PayloadArguments())), int>) {
    return uint64_t{0};
  } else {
    return __builtin_expect(c->index != kNoComm, 1) ? make_key(PayloadArguments()) : kUnknownPayload;
  }
}
DDL_INLINE uint64_t known_payload(uint64_t payload) { return payload; }
/// Under which the call's slot is found.
DDL_INLINE PayloadKey slot_key(PayloadKey key) { return key; }
DDL_INLINE PayloadKey slot_key(int payload) { return {0, static_cast<uint64_t>(payload)}; }

/// The key of a message has its communicator's handle where that of a reduction has its operation.
DDL_INLINE PayloadKey message_key(PayloadKey key, MPI_Comm comm) { return {key.count, key.type, key_of(comm)}; }
DDL_INLINE PayloadKey receive_key(MPI_Datatype datatype, MPI_Comm comm) { return {0, key_of(datatype), key_of(comm)}; }
DDL_INLINE OpenCall begin_send(uint32_t op, const void* site, const Communicator* c, int peer, int tag, PayloadKey key,
                               MPI_Comm comm) {
  return begin_call(op, site, c->index, false, static_cast<uint32_t>(tag), peer, message_key(key, comm),
                    [&](PayloadKey) { return known_payload(key); });
}

/// The bytes come with the status.
DDL_INLINE OpenCall begin_receive(uint32_t op, const void* site, const Communicator* c, int peer, int tag,
                                  MPI_Datatype datatype, MPI_Comm comm) {
  return begin_call(op, site, c->index, false, static_cast<uint32_t>(tag), peer, receive_key(datatype, comm),
                    received_type);
}
DDL_INLINE uint64_t type_of(MPI_Datatype datatype) { return received_type(PayloadKey(0, key_of(datatype))); }

DDL_INLINE void end(const OpenCall& call, uint64_t payload) {
  if (call.thread) end_call(call, payload);
}

/// Allreduce: what the ranks may agree on with it, from its begin to its end.
template <uint32_t op>
class Agreement {
 public:
  template <class... Arguments>
  DDL_INLINE Agreement(const OpenCall&, const Arguments&...) {}
  DDL_INLINE void end(const OpenCall&, int) {}
};
template <>
class Agreement<kOp_MPI_Allreduce> {
 public:
  Agreement(const OpenCall& call, const void* own, const void* result, int, MPI_Datatype, MPI_Op, MPI_Comm) {
    if (__builtin_expect(!is_agreement(call), 1)) return;
    result_ = result;
    sequence_ = call.record->sequence;  // the record may be another call's by the end
    const void* words = own == MPI_IN_PLACE ? result : own;
    bytes_ = bytes_of_bits(words, payload_bytes(call.payload));
    bits_ = count_bits(words, bytes_);
  }
  void end(const OpenCall& call, int result) {
    if (__builtin_expect(bits_ != kNotRead && result == MPI_SUCCESS, 0))
      write_agreement(call, sequence_, bits_, count_bits(result_, bytes_));
  }

 private:
  const void* result_ = nullptr;
  uint64_t bytes_ = 0;
  uint32_t sequence_ = kNoSequence;
  uint32_t bits_ = kNotRead;
};

/// The payload of a receive that has ended.
DDL_INLINE uint64_t learn_received(const OpenCall& call, int result, const MPI_Status& status) {
  if (__builtin_expect(result != MPI_SUCCESS, 0)) return 0;
  set_source(call, source_of(status), static_cast<uint32_t>(status.MPI_TAG));
  return received(status, payload_datatype(call.payload));
}
DDL_INLINE void end_receive(const OpenCall& call, int result, const MPI_Status& status) {
  if (call.thread) end_call(call, learn_received(call, result, status));
}
DDL_INLINE void end_repeated_receive(const OpenCall& call, int result, const MPI_Status& status) {
  end_repeated_call(call, learn_received(call, result, status));
}

/// Sendrecv: the call is the send. What it received is a record of its own, of kind request, as if it had been posted
/// and completed within the call; the profile does not count it.
DDL_INLINE void end_exchange(const OpenCall& call, int result, uint64_t sent, const MPI_Status& status,
                             uint32_t datatype_code) {
  if (!call.thread) return;
  const uint64_t now = end_call(call, sent);
  if (result != MPI_SUCCESS) return;
  Record half;
  half.start_ticks = call.start_ticks;
  half.word = record_word(RecordKind::kRequest, call.op, now - call.start_ticks);
  half.payload = received(status, datatype_code);
  half.comm = call.comm;
  half.context = call.context;
  half.sequence = static_cast<uint32_t>(status.MPI_TAG);
  half.peer = source_of(status);
  write_record(call.thread, call.keep, half);
}

DDL_INLINE void end_file_read(const OpenCall& call, int result, const MPI_Status& status, uint32_t datatype_code) {
  end(call, result == MPI_SUCCESS ? was_read(status, datatype_code) : 0);
}

/// Posts: the call itself, then the request that it left behind.
DDL_INLINE void end_post(const OpenCall& call, int result, const MPI_Request* request, uint64_t call_payload,
                         const Posted& posted) {
  if (!call.thread) return;
  const uint64_t now = end_call(call, call_payload);
  if (result == MPI_SUCCESS) post_request(*request, call, now, posted);
}

/// The same where the request is what the call's record says. `end_as(kind)` ends the call.
template <class EndAs>
DDL_INLINE void end_post_as_recorded(const OpenCall& call, int result, const MPI_Request* request, Fill fill,
                                     bool collective, EndAs end_as) {
  if (__builtin_expect(result != MPI_SUCCESS, 0)) {
    end_as(RecordKind::kCall);
  } else if (fill == Fill::kNothing && is_shared_request(*request)) {
    end_as(RecordKind::kCompleteCall);
  } else {
    post_as_recorded(*request, call, end_as(RecordKind::kCall), fill, collective);
  }
}
DDL_INLINE void end_post(const OpenCall& call, int result, const MPI_Request* request, uint64_t payload, Fill fill,
                         bool collective) {
  if (call.thread)
    end_post_as_recorded(call, result, request, fill, collective,
                         [&](RecordKind kind) { return end_call(call, payload, kind); });
}
DDL_INLINE void end_repeated_post(const OpenCall& call, int result, const MPI_Request* request, Fill fill,
                                  bool collective) {
  end_post_as_recorded(call, result, request, fill, collective,
                       [&](RecordKind kind) { return end_repeated_call(call, kind); });
}

DDL_INLINE Posted posted_collective(uint64_t payload, const Communicator* c, int root, Fill fill) {
  Posted result = {};
  result.payload = payload;
  result.fill = fill;
  result.collective = true;
  result.sequence = c->index == kNoComm ? kNoSequence : c->sequence;
  result.peer = root;
  return result;
}

DDL_INLINE Posted posted(uint64_t payload, int peer, int tag, Fill fill, bool persistent) {
  Posted result = {};
  result.payload = payload;
  result.fill = fill;
  result.persistent = persistent;
  result.sequence = static_cast<uint32_t>(tag);
  result.peer = peer;
  return result;
}

DDL_INLINE Posted posted_persistent_collective(uint64_t payload, const Communicator* c, int root) {
  Posted result = {};
  result.payload = payload;
  result.persistent = true;
  result.collective = true;
  result.numbered_key = c->key;
  result.peer = root;
  return result;
}

/// MPI-4 makes communicators from groups and a tag that is text.
[[maybe_unused]] int tag_of(const char* text) {
  uint32_t hash = 2166136261u;
  for (; text && *text; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 16777619u;
  return static_cast<int>(hash);
}

}  // namespace
}  // namespace ddl

using namespace ddl;

// clang-format off
#define DDL_RECORDED(NAME, PARAMETERS, ARGUMENTS, FIND, LEARN, BEFORE, AFTER)              \
  namespace {                                                                              \
  template <class Real>                                                                    \
  [[gnu::noinline]] int NAME##_recorded(Real real, const void* site, DDL_UNLIST PARAMETERS) { \
    [[maybe_unused]] Communicator* c = FIND;                                               \
    BEFORE;                                                                                \
    const int result = real ARGUMENTS;                                                     \
    LEARN;                                                                                 \
    AFTER;                                                                                 \
    return result;                                                                         \
  }                                                                                        \
  }

// On a communicator: one that is not known yet (MPI was initialized by other means) is learned once a call on it has succeeded.
#define DDL_COMM_RECORDED(NAME, PARAMETERS, ARGUMENTS, COMM, BEFORE, AFTER)                \
  DDL_RECORDED(NAME, PARAMETERS, ARGUMENTS, find_communicator(key_of(COMM)),               \
              if (__builtin_expect(c->index == kNoComm, 0) && result == MPI_SUCCESS) c = learn_communicator(COMM), BEFORE, AFTER)
#define DDL_COMM_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, BEFORE, AFTER)                 \
  DDL_COMM_RECORDED(NAME, PARAMETERS, ARGUMENTS, COMM, BEFORE, AFTER)                      \
  DDL_EXPORTS(NAME, PARAMETERS, ARGUMENTS)
// The same for a collective or a message that may be a repeated one, which ends with AFTER_REPEATED.
#define DDL_COLLECTIVE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, ROOT, KEY, BEFORE, AFTER, AFTER_REPEATED) \
  DDL_COMM_RECORDED(NAME, PARAMETERS, ARGUMENTS, COMM, BEFORE, AFTER)                      \
  DDL_SHORT_EXPORTS(NAME, PARAMETERS, ARGUMENTS,                                           \
    if (Communicator* c; communicator_at_hand(key_of(COMM), &c)) { \
      OpenCall call;                                                                       \
      if (__builtin_expect(begin_repeated_call(thread, kOp_##NAME, site, c->index, ROOT, KEY, [&] { return next_sequence_at_hand(c); }, &call), 1)) { \
        const int result = real ARGUMENTS;                                                 \
        AFTER_REPEATED;                                                                    \
        return result;                                                                     \
      }                                                                                    \
    })
#define DDL_MESSAGE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, KEY, BEFORE, AFTER, REPEATED, AFTER_REPEATED) \
  DDL_COMM_RECORDED(NAME, PARAMETERS, ARGUMENTS, COMM, BEFORE, AFTER)                      \
  DDL_SHORT_EXPORTS(NAME, PARAMETERS, ARGUMENTS,                                           \
    OpenCall call;                                                                         \
    if (__builtin_expect(begin_repeated_message(thread, kOp_##NAME, site, PEER, static_cast<uint32_t>(TAG), KEY, &call), 1)) { \
      REPEATED                                                                             \
      const int result = real ARGUMENTS;                                                   \
      AFTER_REPEATED;                                                                      \
      return result;                                                                       \
    })
// On a window or a file.
#define DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, HANDLE, BEFORE, AFTER)              \
  DDL_RECORDED(NAME, PARAMETERS, ARGUMENTS, find_communicator(key_of(HANDLE)), (void)0, BEFORE, AFTER) \
  DDL_EXPORTS(NAME, PARAMETERS, ARGUMENTS)

// The row's payload expression, twice: with what is known before the call, and again where that was not enough.
#define DDL_KEY(PAYLOAD) slot_key([&]([[maybe_unused]] const PayloadArguments& payload) { return PAYLOAD; }(PayloadArguments()))
#define DDL_KEY_TO(PEER, PAYLOAD, COMM) message_key(PEER == MPI_PROC_NULL ? PayloadKey() : DDL_KEY(PAYLOAD), COMM)
#define DDL_PAYLOAD_BEFORE(PAYLOAD)                                                        \
  const auto key = key_for(c, [&]([[maybe_unused]] const PayloadArguments& payload) { return PAYLOAD; });
#define DDL_PAYLOAD_AFTER(PAYLOAD) DDL_PAYLOAD_AFTER_FROM(call.payload, PAYLOAD)
#define DDL_PAYLOAD_AFTER_FROM(KNOWN, PAYLOAD)                                             \
  uint64_t sent = KNOWN;                                                                   \
  if (__builtin_expect(sent == kAskLater, 0)) { [[maybe_unused]] const AskedPayload payload; sent = result == MPI_SUCCESS ? PAYLOAD : 0; }

#define DDL_MPI_COLLECTIVE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, ROOT, PAYLOAD)        \
  DDL_COLLECTIVE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, ROOT, DDL_KEY(PAYLOAD), \
              DDL_PAYLOAD_BEFORE(PAYLOAD)                                                  \
              const OpenCall call = begin_numbered(kOp_##NAME, site, c, ROOT, key);        \
              Agreement<kOp_##NAME> agreement(call DDL_MORE ARGUMENTS),                    \
              DDL_PAYLOAD_AFTER(PAYLOAD) end(call, sent); agreement.end(call, result),     \
              end_repeated_call(call))

#define DDL_MPI_ICOLLECTIVE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, ROOT, PAYLOAD)       \
  DDL_COLLECTIVE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, ROOT, DDL_KEY(PAYLOAD), \
              DDL_PAYLOAD_BEFORE(PAYLOAD)                                                  \
              const OpenCall call = begin_numbered(kOp_##NAME, site, c, ROOT, key), \
              DDL_PAYLOAD_AFTER(PAYLOAD) end_post(call, result, request, sent, Fill::kNothing, true), \
              end_repeated_post(call, result, request, Fill::kNothing, true))

#define DDL_MPI_PCOLLECTIVE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, ROOT, PAYLOAD)       \
  DDL_COMM_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                      \
              DDL_PAYLOAD_BEFORE(PAYLOAD)                                                  \
              const OpenCall call = begin_plain(kOp_##NAME, site, c, ROOT, 0, 0),          \
              DDL_PAYLOAD_AFTER_FROM(known_payload(key), PAYLOAD)                                                   \
              end_post(call, result, request, 0, posted_persistent_collective(sent, c, ROOT)))

#define DDL_MPI_SEND(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD)         \
  DDL_MESSAGE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, DDL_KEY_TO(PEER, PAYLOAD, COMM), \
              DDL_PAYLOAD_BEFORE((PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                    \
              const OpenCall call = begin_send(kOp_##NAME, site, c, PEER, TAG, key, COMM), \
              DDL_PAYLOAD_AFTER((PEER == MPI_PROC_NULL ? 0 : PAYLOAD)) end(call, sent), ,  \
              end_repeated_call(call))

#define DDL_OWN_STATUS MPI_Status own; if (status == MPI_STATUS_IGNORE) status = &own;
#define DDL_MPI_EXCHANGE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD, DATATYPE) \
  DDL_COMM_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                      \
              DDL_OWN_STATUS                                                               \
              DDL_PAYLOAD_BEFORE((PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                    \
              const OpenCall call = begin_plain(kOp_##NAME, site, c, PEER, TAG, key), \
              DDL_PAYLOAD_AFTER((PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                     \
              end_exchange(call, result, sent, *status, payload_datatype(type_of(DATATYPE))))

#define DDL_MPI_IEXCHANGE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD, DATATYPE) \
  DDL_COMM_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                      \
              DDL_PAYLOAD_BEFORE((PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                    \
              const OpenCall call = begin_plain(kOp_##NAME, site, c, PEER, TAG, key), \
              DDL_PAYLOAD_AFTER((PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                     \
              end_post(call, result, request, sent,                                        \
                       posted(type_of(DATATYPE), source, recvtag, Fill::kReceivedHalf, false)))

#define DDL_MPI_ISEND(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD)        \
  DDL_MESSAGE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, DDL_KEY_TO(PEER, PAYLOAD, COMM), \
              DDL_PAYLOAD_BEFORE((PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                    \
              const OpenCall call = begin_send(kOp_##NAME, site, c, PEER, TAG, key, COMM), \
              DDL_PAYLOAD_AFTER((PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                     \
              end_post(call, result, request, sent, Fill::kNothing, false), , \
              end_repeated_post(call, result, request, Fill::kNothing, false))

#define DDL_MPI_RECV(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, DATATYPE)        \
  DDL_MESSAGE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, receive_key(DATATYPE, COMM), \
              DDL_OWN_STATUS                                                               \
              const OpenCall call = begin_receive(kOp_##NAME, site, c, PEER, TAG, DATATYPE, COMM), \
              end_receive(call, result, *status),                                          \
              DDL_OWN_STATUS,                                                              \
              end_repeated_receive(call, result, *status))

// The payload carries the datatype; the bytes come with the status.
#define DDL_MPI_IRECV(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, DATATYPE)       \
  DDL_MESSAGE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, receive_key(DATATYPE, COMM), \
              const OpenCall call = begin_receive(kOp_##NAME, site, c, PEER, TAG, DATATYPE, COMM), \
              end_post(call, result, request, call.payload, Fill::kMessage, false), , \
              end_repeated_post(call, result, request, Fill::kMessage, false))

#define DDL_MPI_PERSISTENT(NAME, CLASS, FROM_STATUS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD) \
  DDL_COMM_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                      \
              DDL_PAYLOAD_BEFORE((PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                    \
              const OpenCall call = begin_plain(kOp_##NAME, site, c, PEER, TAG, 0),        \
              DDL_PAYLOAD_AFTER_FROM(known_payload(key), (PEER == MPI_PROC_NULL ? 0 : PAYLOAD))                     \
              end_post(call, result, request, 0, posted(sent, PEER, TAG, FROM_STATUS ? Fill::kMessage : Fill::kNothing, true)))

#define DDL_MPI_COMMUNICATOR(NAME, PARAMETERS, ARGUMENTS, PARENT, NEW, COLLECTIVE, TAG)    \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, PARENT,                                   \
              const OpenCall call = COLLECTIVE ? begin_numbered(kOp_##NAME, site, c, -1, 0) \
                                               : begin_plain(kOp_##NAME, site, c, -1, 0, 0), \
              end(call, 0);                                                                \
              if (result == MPI_SUCCESS) add_communicator(*NEW, c, kOp_##NAME, #NAME, TAG))

#define DDL_MPI_WINDOW(NAME, PARAMETERS, ARGUMENTS)                                        \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, comm,                                     \
              const OpenCall call = begin_numbered(kOp_##NAME, site, c, -1, 0),            \
              end(call, 0);                                                                \
              if (result == MPI_SUCCESS) add_window(*win, c, kOp_##NAME, #NAME))

#define DDL_MPI_ONE_SIDED(NAME, PARAMETERS, ARGUMENTS, PAYLOAD)                            \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, win,                                      \
              DDL_PAYLOAD_BEFORE((target == MPI_PROC_NULL ? 0 : PAYLOAD))                  \
              const OpenCall call = begin_plain(kOp_##NAME, site, c, target, 0, key), \
              DDL_PAYLOAD_AFTER((target == MPI_PROC_NULL ? 0 : PAYLOAD)) end(call, sent))

#define DDL_MPI_IONE_SIDED(NAME, PARAMETERS, ARGUMENTS, PAYLOAD)                           \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, win,                                      \
              DDL_PAYLOAD_BEFORE((target == MPI_PROC_NULL ? 0 : PAYLOAD))                  \
              const OpenCall call = begin_plain(kOp_##NAME, site, c, target, 0, key), \
              DDL_PAYLOAD_AFTER((target == MPI_PROC_NULL ? 0 : PAYLOAD))                   \
              end_post(call, result, request, sent, Fill::kNothing, false))

#define DDL_MPI_CALL(NAME, CLASS, PARAMETERS, ARGUMENTS, HANDLE, NUMBERED, PEER)           \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, HANDLE,                                   \
              const OpenCall call = NUMBERED ? begin_numbered(kOp_##NAME, site, c, PEER, 0) \
                                             : begin_plain(kOp_##NAME, site, c, PEER, 0, 0), \
              end(call, 0))

#define DDL_BEGIN_FILE(NAME, COLLECTIVE, PAYLOAD)                                          \
  const OpenCall call = COLLECTIVE ? begin_numbered(kOp_##NAME, site, c, -1, PAYLOAD)      \
                                   : begin_plain(kOp_##NAME, site, c, -1, 0, PAYLOAD)

#define DDL_MPI_FILE_CALL(NAME, PARAMETERS, ARGUMENTS, COLLECTIVE, PAYLOAD)                \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, fh,                                       \
              DDL_PAYLOAD_BEFORE(PAYLOAD) DDL_BEGIN_FILE(NAME, COLLECTIVE, key),  \
              DDL_PAYLOAD_AFTER(PAYLOAD) end(call, sent))

#define DDL_MPI_FILE_READ(NAME, PARAMETERS, ARGUMENTS, COLLECTIVE, DATATYPE)               \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, fh,                                       \
              DDL_OWN_STATUS                                                               \
              DDL_BEGIN_FILE(NAME, COLLECTIVE, 0),                                         \
              end_file_read(call, result, *status, payload_datatype(type_of(DATATYPE))))

#define DDL_MPI_FILE_IREAD(NAME, PARAMETERS, ARGUMENTS, COLLECTIVE, DATATYPE)              \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, fh,                                       \
              DDL_BEGIN_FILE(NAME, COLLECTIVE, 0);                                         \
              const Posted info = COLLECTIVE ? posted_collective(type_of(DATATYPE), c, -1, Fill::kBytes) : posted(type_of(DATATYPE), -1, 0, Fill::kBytes, false), \
              end_post(call, result, request, 0, info))

#define DDL_MPI_FILE_IWRITE(NAME, PARAMETERS, ARGUMENTS, COLLECTIVE, PAYLOAD)              \
  DDL_SCOPE_WRAPPER(NAME, PARAMETERS, ARGUMENTS, fh,                                       \
              DDL_PAYLOAD_BEFORE(PAYLOAD) DDL_BEGIN_FILE(NAME, COLLECTIVE, key),  \
              DDL_PAYLOAD_AFTER(PAYLOAD) end_post(call, result, request, sent, Fill::kNothing, COLLECTIVE))

// clang-format on

#include "interpose/mpi_calls.def"
