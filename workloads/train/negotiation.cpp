#include "workloads/train/negotiation.h"

#include <cstring>
#include <numeric>

#include "workloads/train/error.h"
#include "workloads/train/timeline.h"

namespace ddl::train {

namespace {

/** A message: this, and `count` entries. */
struct MessageHeader {
  int32_t shut_down;
  int32_t count;
};

/** What a rank asks for, and what rank 0 answers. */
struct MessageEntry {
  uint64_t tensor;
  uint64_t floats;
  char name[32];
};

std::vector<std::byte> write_message(std::span<const std::size_t> tensors, std::span<const NamedTensor> all,
                                     bool shut_down) {
  const MessageHeader header{shut_down ? 1 : 0, static_cast<int32_t>(tensors.size())};
  std::vector<std::byte> message(sizeof header + tensors.size() * sizeof(MessageEntry));
  std::memcpy(message.data(), &header, sizeof header);
  std::size_t at = sizeof header;
  for (const std::size_t tensor : tensors) {
    MessageEntry entry{tensor, all[tensor].floats, {}};
    all[tensor].name.copy(entry.name, sizeof entry.name - 1);
    std::memcpy(message.data() + at, &entry, sizeof entry);
    at += sizeof entry;
  }
  return message;
}

/** Reads one message from the front of `bytes` and takes it off them. */
Negotiation::Outcome read_message(std::span<const std::byte>& bytes, std::span<const NamedTensor> all) {
  MessageHeader header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes = bytes.subspan(sizeof header);
  Negotiation::Outcome result{{}, header.shut_down != 0};
  for (int32_t i = 0; i < header.count; ++i) {
    MessageEntry entry{};
    std::memcpy(&entry, bytes.data(), sizeof entry);
    bytes = bytes.subspan(sizeof entry);
    const bool known =
        entry.tensor < all.size() && all[entry.tensor].floats == entry.floats && all[entry.tensor].name == entry.name;
    if (!known) throw Error("ranks do not hand over the same tensors: were they all given the same options?");
    result.tensors.push_back(entry.tensor);
  }
  return result;
}

/** The complemented status bits at the front of the words. */
enum StatusBit : std::size_t { kNobodyShutsDown, kNobodyIsUncached, kNobodyIsOutOfDate, kStatusBits };

}  // namespace

Negotiation::Outcome Negotiation::agree(std::span<const std::size_t> handed_over, bool shut_down) {
  return cache_ ? agree_by_bits(handed_over, shut_down) : agree_by_messages(handed_over, shut_down);
}

Negotiation::Outcome Negotiation::agree_by_bits(std::span<const std::size_t> handed_over, bool shut_down) {
  std::vector<std::size_t> uncached;
  for (const std::size_t tensor : handed_over) {
    if (place_[tensor] == kNowhere) {
      uncached.push_back(tensor);
    } else {
      ready_[place_[tensor]] = true;
    }
  }
  Bits bits(kStatusBits + cached_.size());
  bits.set(kNobodyShutsDown, !shut_down);
  bits.set(kNobodyIsUncached, uncached.empty());
  bits.set(kNobodyIsOutOfDate, true);
  for (std::size_t i = 0; i < cached_.size(); ++i) bits.set(kStatusBits + i, ready_[i]);
  mpi_.and_bits(bits.words());

  Outcome result{{}, !bits.get(kNobodyShutsDown)};
  for (std::size_t i = 0; i < cached_.size(); ++i) {
    if (!bits.get(kStatusBits + i)) continue;
    result.tensors.push_back(cached_[i]);
    ready_[i] = false;
  }
  if (bits.get(kNobodyIsUncached)) return result;
  for (const std::size_t tensor : agree_by_messages(uncached, shut_down).tensors) {
    result.tensors.push_back(tensor);
    place_[tensor] = cached_.size();
    cached_.push_back(tensor);
    ready_.push_back(false);
  }
  return result;
}

Negotiation::Outcome Negotiation::agree_by_messages(std::span<const std::size_t> requested, bool shut_down) {
  const std::vector<std::byte> requests = gather(write_message(requested, tensors_, shut_down));
  std::vector<std::byte> message;
  if (mpi_.rank() == 0) {
    const Outcome decided = answer(requests);
    message = write_message(decided.tensors, tensors_, decided.shut_down);
  }
  int length = static_cast<int>(message.size());
  mpi_.broadcast_length(length);
  message.resize(static_cast<std::size_t>(length));
  mpi_.broadcast_bytes(message);
  std::span<const std::byte> rest = message;
  return read_message(rest, tensors_);
}

std::vector<std::byte> Negotiation::gather(const std::vector<std::byte>& own) {
  const auto ranks = static_cast<std::size_t>(mpi_.rank() == 0 ? mpi_.size() : 0);
  std::vector<int> lengths(ranks);
  mpi_.gather(static_cast<int>(own.size()), lengths);
  std::vector<int> offsets(ranks);
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::vector<std::byte> all(static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), 0)));
  mpi_.gather(own, all, lengths, offsets);
  return all;
}

Negotiation::Outcome Negotiation::answer(std::span<const std::byte> requests) {
  Outcome result;
  for (int number = 0; !requests.empty(); ++number) {
    const Outcome rank = read_message(requests, tensors_);
    result.shut_down = result.shut_down || rank.shut_down;
    for (const std::size_t tensor : rank.tensors) {
      if (timeline_ != nullptr) timeline_->rank_is_ready(tensor, number);
      if (++asked_[tensor] < mpi_.size()) continue;
      if (timeline_ != nullptr) timeline_->all_are_ready(tensor);
      asked_[tensor] = 0;
      result.tensors.push_back(tensor);
    }
  }
  return result;
}

std::vector<std::vector<std::size_t>> fuse(std::span<const std::size_t> tensors, std::span<const NamedTensor> all,
                                           std::size_t most) {
  std::vector<std::vector<std::size_t>> batches;
  std::size_t floats = 0;
  for (const std::size_t tensor : tensors) {
    if (batches.empty() || floats + all[tensor].floats > most) {
      batches.emplace_back();
      floats = 0;
    }
    batches.back().push_back(tensor);
    floats += all[tensor].floats;
  }
  return batches;
}

}  // namespace ddl::train
