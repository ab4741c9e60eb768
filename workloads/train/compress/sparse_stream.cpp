#include "workloads/train/compress/sparse_stream.h"

#include <algorithm>
#include <cstring>

namespace ddl::train {

namespace {

constexpr int kStreamTag = 2;
constexpr uint32_t kDense = UINT32_MAX;  ///< in place of the number of entries

}  // namespace

SparseStreamSum::SparseStreamSum(MPI_Comm comm) {
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &ranks_);
}

SparseStreamSum::~SparseStreamSum() { MPI_Comm_free(&comm_); }

std::vector<std::byte> SparseStreamSum::packed(const Stream& stream) {
  const uint32_t entries = stream.dense ? kDense : static_cast<uint32_t>(stream.indices.size());
  std::vector<std::byte> bytes(sizeof entries + stream.indices.size() * sizeof(uint32_t) +
                               stream.values.size() * sizeof(float));
  std::memcpy(bytes.data(), &entries, sizeof entries);
  if (!stream.indices.empty())
    std::memcpy(bytes.data() + sizeof entries, stream.indices.data(), stream.indices.size() * sizeof(uint32_t));
  if (!stream.values.empty())
    std::memcpy(bytes.data() + bytes.size() - stream.values.size() * sizeof(float), stream.values.data(),
                stream.values.size() * sizeof(float));
  traffic_.messages += 1;
  traffic_.bytes += bytes.size();
  return bytes;
}

SparseStreamSum::Stream SparseStreamSum::unpacked(const std::vector<std::byte>& bytes, std::size_t count) {
  uint32_t entries = 0;
  std::memcpy(&entries, bytes.data(), sizeof entries);
  Stream stream;
  stream.dense = entries == kDense;
  stream.indices.resize(stream.dense ? 0 : entries);
  stream.values.resize(stream.dense ? count : entries);
  if (!stream.indices.empty())
    std::memcpy(stream.indices.data(), bytes.data() + sizeof entries, entries * sizeof(uint32_t));
  if (!stream.values.empty())
    std::memcpy(stream.values.data(), bytes.data() + sizeof entries + stream.indices.size() * sizeof(uint32_t),
                stream.values.size() * sizeof(float));
  return stream;
}

void SparseStreamSum::send(const Stream& stream, int to) {
  const std::vector<std::byte> bytes = packed(stream);
  MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, kStreamTag, comm_);
}

SparseStreamSum::Stream SparseStreamSum::receive(int from, std::size_t count) {
  // a sparse stream is no longer than that
  std::vector<std::byte> bytes(sizeof(uint32_t) + count * sizeof(float) + sizeof(float));
  MPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, kStreamTag, comm_, MPI_STATUS_IGNORE);
  return unpacked(bytes, count);
}

SparseStreamSum::Stream SparseStreamSum::exchange(const Stream& own, int with, std::size_t count) {
  const std::vector<std::byte> out = packed(own);
  std::vector<std::byte> in(sizeof(uint32_t) + count * sizeof(float) + sizeof(float));
  MPI_Sendrecv(out.data(), static_cast<int>(out.size()), MPI_BYTE, with, kStreamTag, in.data(),
               static_cast<int>(in.size()), MPI_BYTE, with, kStreamTag, comm_, MPI_STATUS_IGNORE);
  return unpacked(in, count);
}

SparseStreamSum::Stream SparseStreamSum::merged(const Stream& a, const Stream& b, std::size_t count) {
  if (a.dense && b.dense) {
    Stream sum = a;
    for (std::size_t i = 0; i < count; ++i) sum.values[i] += b.values[i];
    return sum;
  }
  if (a.dense || b.dense) {
    const Stream& sparse = a.dense ? b : a;
    Stream sum = a.dense ? a : b;
    for (std::size_t i = 0; i < sparse.indices.size(); ++i) sum.values[sparse.indices[i]] += sparse.values[i];
    return sum;
  }
  Stream sum;
  for (std::size_t i = 0, j = 0; i < a.indices.size() || j < b.indices.size();) {
    const bool first = j == b.indices.size() || (i < a.indices.size() && a.indices[i] <= b.indices[j]);
    const bool second = i == a.indices.size() || (j < b.indices.size() && b.indices[j] <= a.indices[i]);
    sum.indices.push_back(first ? a.indices[i] : b.indices[j]);
    sum.values.push_back((first ? a.values[i] : 0.0F) + (second ? b.values[j] : 0.0F));
    i += first ? 1 : 0;
    j += second ? 1 : 0;
  }
  if (sum.indices.size() <= switching_point(count)) return sum;
  Stream all;
  all.dense = true;
  all.values.resize(count);
  for (std::size_t i = 0; i < sum.indices.size(); ++i) all.values[sum.indices[i]] = sum.values[i];
  return all;
}

void SparseStreamSum::operator()(std::span<const uint32_t> indices, std::span<const float> values,
                                 std::span<float> sum) {
  const std::size_t count = sum.size();
  // A stream that is dense from the beginning becomes so by merging it with an empty one.
  Stream stream = merged({{indices.begin(), indices.end()}, {values.begin(), values.end()}, false}, {}, count);
  int power = 1;
  while (2 * power <= ranks_) power *= 2;
  const int beyond = ranks_ - power;
  if (rank_ >= power) {
    send(stream, rank_ - power);
    stream = receive(rank_ - power, count);
  } else {
    if (rank_ < beyond) stream = merged(stream, receive(rank_ + power, count), count);
    for (int distance = 1; distance < power; distance *= 2)
      stream = merged(stream, exchange(stream, rank_ ^ distance, count), count);
    if (rank_ < beyond) send(stream, rank_ + power);
  }
  if (stream.dense) {
    std::copy(stream.values.begin(), stream.values.end(), sum.begin());
    return;
  }
  std::fill(sum.begin(), sum.end(), 0.0F);
  for (std::size_t i = 0; i < stream.indices.size(); ++i) sum[stream.indices[i]] = stream.values[i];
}

}  // namespace ddl::train
