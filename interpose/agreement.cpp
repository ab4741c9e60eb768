#include "interpose/agreement.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collectors/collectors.h"
#include "core/names.h"

namespace ddl {

namespace {

constexpr uint64_t kMaxBytes = 4096;

constexpr uint32_t code_of_and() {
  for (const NamedCode& reduction : kReductionNames) {
    if (__builtin_strcmp(reduction.name, "MPI_BAND") == 0) return reduction.code;
  }
  return 0;
}

}  // namespace

uint32_t count_bits(const void* words, uint64_t bytes) {
  if (bytes > kMaxBytes) return kNotRead;
  const int saved_errno = errno;
  uint64_t copy[64];
  uint32_t bits = 0;
  const char* at = static_cast<const char*>(words);
  while (bytes > 0) {
    const uint64_t part = bytes < sizeof copy ? bytes : sizeof copy;
    copy[(part - 1) / sizeof *copy] = 0;
    const iovec to = {copy, part}, from = {const_cast<char*>(at), part};
    // memory of a device, most likely
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != static_cast<ssize_t>(part)) {
      bits = kNotRead;
      break;
    }
    for (uint64_t i = 0; i <= (part - 1) / sizeof *copy; ++i)
      bits += static_cast<uint32_t>(__builtin_popcountll(copy[i]));
    at += part;
    bytes -= part;
  }
  errno = saved_errno;
  return bits;
}

uint64_t bytes_of_bits(const void* words, uint64_t bytes) {
  constexpr uint64_t kStatusBits = 7;  // Horovod's, which are set in the second half whatever they are in the first
  if (bytes == 0 || bytes > kMaxBytes || bytes % 16 != 0) return bytes;
  const int saved_errno = errno;
  const uint64_t half = bytes / 2;
  uint64_t copy[64];
  const char* at = static_cast<const char*>(words);
  bool inverted = true;
  for (uint64_t done = 0; inverted && done < half;) {
    const uint64_t part = half - done < sizeof copy / 2 ? half - done : sizeof copy / 2;
    const iovec to = {copy, 2 * part};
    const iovec from[] = {{const_cast<char*>(at + done), part}, {const_cast<char*>(at + half + done), part}};
    inverted = process_vm_readv(getpid(), &to, 1, from, 2, 0) == static_cast<ssize_t>(2 * part);
    for (uint64_t i = 0, n = part / sizeof *copy; inverted && i < n; ++i) {
      const uint64_t status = done == 0 && i == 0 ? kStatusBits : 0;
      inverted = copy[n + i] == (~copy[i] | status);
    }
    done += part;
  }
  errno = saved_errno;
  return inverted ? half : bytes;
}

bool is_agreement(const OpenCall& call) {
  if (!call.thread || call.payload == kAskLater || payload_reduction(call.payload) != code_of_and()) return false;
  call.slot->caller = 0;  // the next such call comes here, too, and does not take the short way
  return is_background_thread();
}

void write_agreement(const OpenCall& call, uint32_t sequence, uint32_t own_bits, uint32_t agreed_bits) {
  if (own_bits == kNotRead || agreed_bits == kNotRead) return;
  Record record = {};
  record.start_ticks = call.start_ticks;
  record.word = record_word(RecordKind::kAgreement, call.op, 0);
  record.payload = static_cast<uint64_t>(own_bits) << 32 | agreed_bits;
  record.comm = call.comm;
  record.sequence = sequence;
  record.peer = -1;
  write_record(call.thread, call.keep, record);
}

}  // namespace ddl
