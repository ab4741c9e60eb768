#include "workloads/train/compress/compressed_sum.h"

#include <algorithm>

namespace ddl::train {

namespace {

std::span<float> part(std::span<float> values, std::size_t i, std::size_t parts) {
  const allreduce::Range range = allreduce::Range{0, values.size()}.part(i, parts);
  return values.subspan(range.begin, range.size());
}

/** residual = values - what the code stands for. */
void lose(const Codec& codec, const std::byte* code, std::span<const float> values, std::span<float> residual) {
  std::fill(residual.begin(), residual.end(), 0.0F);
  codec.add_decoded(code, residual);
  for (std::size_t i = 0; i < values.size(); ++i) residual[i] = values[i] - residual[i];
}

}  // namespace

CompressedSum::CompressedSum(MPI_Comm comm, std::unique_ptr<Codec> codec) : codec_(std::move(codec)) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  rank_ = static_cast<std::size_t>(rank);
  ranks_ = static_cast<std::size_t>(ranks);
  MPI_Comm_dup(comm, &comm_);
}

CompressedSum::~CompressedSum() { MPI_Comm_free(&comm_); }

void CompressedSum::operator()(std::span<float> values, std::span<float> residual, Random& random) {
  if (ranks_ == 1) {
    std::fill(residual.begin(), residual.end(), 0.0F);
  } else if (codec_->sparse()) {
    sum_sparse(values, residual, random);
  } else {
    sum_dense(values, residual, random);
  }
}

std::size_t CompressedSum::exchange(const std::byte* code, std::size_t bytes, std::size_t to, std::size_t bytes_in,
                                    std::size_t from) {
  in_.resize(std::max(in_.size(), bytes_in));
  if (bytes > 0) traffic_.messages += 1;
  traffic_.bytes += bytes;
  constexpr int kTag = 1;
  // For an empty shard nothing is sent; both sides know its size.
  const int receiver = bytes > 0 ? static_cast<int>(to) : MPI_PROC_NULL;
  const int sender = bytes_in > 0 ? static_cast<int>(from) : MPI_PROC_NULL;
  MPI_Status status;
  MPI_Sendrecv(code, static_cast<int>(bytes), MPI_BYTE, receiver, kTag, in_.data(), static_cast<int>(bytes_in),
               MPI_BYTE, sender, kTag, comm_, &status);
  int came = 0;
  MPI_Get_count(&status, MPI_BYTE, &came);
  return static_cast<std::size_t>(came);
}

void CompressedSum::sum_dense(std::span<float> values, std::span<float> residual, Random& random) {
  const std::span<float> own = part(values, rank_, ranks_);
  const std::size_t own_bytes = codec_->bytes(own.size());
  // Sums are collected apart, so that no rank's values are changed before they are encoded.
  std::vector<float> sum(own.begin(), own.end());
  for (std::size_t distance = 1; distance < ranks_; ++distance) {
    const std::size_t to = (rank_ + distance) % ranks_;
    const std::span<float> shard = part(values, to, ranks_);
    out_.resize(codec_->bytes(shard.size()));
    codec_->encode(shard, random, out_.data());
    lose(*codec_, out_.data(), shard, part(residual, to, ranks_));
    exchange(out_.data(), out_.size(), to, own_bytes, (rank_ + ranks_ - distance) % ranks_);
    codec_->add_decoded(in_.data(), sum);
  }
  out_.resize(own_bytes);
  codec_->encode(sum, random, out_.data());
  lose(*codec_, out_.data(), sum, part(residual, rank_, ranks_));
  std::fill(values.begin(), values.end(), 0.0F);
  codec_->add_decoded(out_.data(), own);
  for (std::size_t distance = 1; distance < ranks_; ++distance) {
    const std::size_t from = (rank_ + ranks_ - distance) % ranks_;
    const std::span<float> shard = part(values, from, ranks_);
    exchange(out_.data(), out_.size(), (rank_ + distance) % ranks_, codec_->bytes(shard.size()), from);
    codec_->add_decoded(in_.data(), shard);
  }
}

void CompressedSum::sum_sparse(std::span<float> values, std::span<float> residual, Random& random) {
  const std::size_t bytes = codec_->bytes(values.size());
  out_.resize(bytes * ranks_);  // of all ranks: they are added in the order of ranks everywhere
  std::byte* const own = out_.data() + rank_ * bytes;
  codec_->encode(values, random, own);
  lose(*codec_, own, values, residual);
  for (std::size_t distance = 1; distance < ranks_; ++distance) {
    const std::size_t from = (rank_ + ranks_ - distance) % ranks_;
    const std::size_t came =
        exchange(own, codec_->size_of(own, values.size()), (rank_ + distance) % ranks_, bytes, from);
    std::copy_n(in_.data(), came, out_.data() + from * bytes);
  }
  std::fill(values.begin(), values.end(), 0.0F);
  for (std::size_t rank = 0; rank < ranks_; ++rank) codec_->add_decoded(out_.data() + rank * bytes, values);
}

}  // namespace ddl::train
