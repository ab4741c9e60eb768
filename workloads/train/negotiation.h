#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "workloads/train/mpi.h"

/*
 * How the ranks of a background runtime agree on which tensors to reduce next and in which order, by the calls that Horovod makes, for it
 * is those that a profiler sees.
 *
 * A tensor that is not in the response cache takes the long way. Each rank sends rank 0 its requests: the tensors that were handed over
 * since it last did. Rank 0 counts until all ranks have asked for a tensor, and then answers: MPI_Gather of lengths, MPI_Gatherv of
 * requests, MPI_Bcast of the answer's length and of the answer. All ranks read the same answers in the same order, so each gives a tensor
 * the same place in its cache.
 *
 * From then on a bit is enough: MPI_Allreduce (MPI_BAND) of words that begin with three status bits, complemented so that one rank can
 * clear them for all - nobody shuts down, nobody has a tensor that is not cached, nobody's cache is out of date -, followed by one bit for each
 * cached tensor that is ready here. The third is always set: a tensor of ours keeps its size.
 */
namespace ddl::train {

class Timeline;

struct NamedTensor {
  std::string name;
  std::size_t floats = 0;
};

/** Bits in the words that MPI_BAND takes; clear at first. */
class Bits {
 public:
  explicit Bits(std::size_t bits) : words_((bits + 63) / 64) {}
  bool get(std::size_t i) const { return (static_cast<unsigned long long>(words_[i / 64]) >> i % 64 & 1) != 0; }
  void set(std::size_t i, bool value) {
    const unsigned long long bit = 1ULL << i % 64;
    const auto word = static_cast<unsigned long long>(words_[i / 64]);
    words_[i / 64] = static_cast<long long>(value ? word | bit : word & ~bit);
  }
  std::span<long long> words() { return words_; }

 private:
  std::vector<long long> words_;
};

class Negotiation {
 public:
  struct Outcome {
    std::vector<std::size_t> tensors;  ///< ready on all ranks; the same, in the same order, everywhere
    bool shut_down = false;            ///< some rank wants to
  };

  /** Not collective. `timeline`, of rank 0, is told what requests say. The tensors are those of every rank; a number in
   * what follows is a place in them. */
  Negotiation(Mpi& mpi, std::vector<NamedTensor> tensors, bool cache, Timeline* timeline = nullptr)
      : mpi_(mpi), tensors_(std::move(tensors)), cache_(cache), timeline_(timeline) {
    place_.assign(tensors_.size(), kNowhere);
    asked_.assign(tensors_.size(), 0);
  }

  /** Collective: one cycle. `handed_over`: since the last one. Throws Error where ranks do not mean the same
   * tensors. */
  Outcome agree(std::span<const std::size_t> handed_over, bool shut_down);

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  Outcome agree_by_bits(std::span<const std::size_t> handed_over, bool shut_down);
  Outcome agree_by_messages(std::span<const std::size_t> requested, bool shut_down);
  std::vector<std::byte> gather(const std::vector<std::byte>& own);
  /** Rank 0: reads all requests. */
  Outcome answer(std::span<const std::byte> requests);

  Mpi& mpi_;
  std::vector<NamedTensor> tensors_;
  bool cache_;
  Timeline* timeline_;
  std::vector<std::size_t> cached_;  ///< tensors, in the order in which they were first agreed on
  std::vector<std::size_t> place_;   ///< of each tensor in `cached_`
  std::vector<bool> ready_;          ///< of each cached tensor: handed over here, not agreed on yet
  std::vector<int> asked_;           ///< rank 0: how many ranks have asked for each tensor
};

/** Cuts tensors that are reduced one after the other into batches of at most `most` floats; a larger tensor is a
 * batch of its own. */
std::vector<std::vector<std::size_t>> fuse(std::span<const std::size_t> tensors, std::span<const NamedTensor> all,
                                           std::size_t most);

}  // namespace ddl::train
