#include "tests/support/growing_run.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/reader.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl::test {
namespace {

std::vector<unsigned char> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

GrowingRun::GrowingRun(const std::filesystem::path& from, std::filesystem::path to) : to_(std::move(to)) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (entry.path().extension() == ".spool") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    Spool spool{path.filename().string(), read_bytes(path), {}};
    const SpoolReader reader(path.string());
    std::vector<Record> records;
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
      reader.read_records(chunk, records);
      spool.logs.push_back({chunk.offset + sizeof(ChunkHeader), records.size()});
    }
    spools_.push_back(std::move(spool));
  }
}

void GrowingRun::grow(const std::vector<double>& shares) {
  for (size_t i = 0; i < spools_.size(); ++i) {
    const Spool& spool = spools_[i];
    std::vector<unsigned char> bytes = spool.bytes;
    uint64_t all = 0;
    for (const Spool::Log& log : spool.logs) all += log.records;
    auto left = static_cast<uint64_t>(shares[i] * static_cast<double>(all));
    for (const Spool::Log& log : spool.logs) {
      const uint64_t kept = std::min(left, log.records);
      left -= kept;
      memset(bytes.data() + log.begin + kept * sizeof(Record), 0, (log.records - kept) * sizeof(Record));
    }
    if (shares[i] < 1) {
      FileHeader h;
      memcpy(&h, bytes.data(), sizeof h);
      h.flags &= ~static_cast<uint32_t>(kMpiFinalized | kExited);
      h.latest = h.begin;
      memcpy(bytes.data(), &h, sizeof h);
    }
    write_bytes(to_ / spool.name, bytes);
  }
}

void change_header(const std::filesystem::path& spool, const std::function<void(FileHeader&)>& change) {
  std::vector<unsigned char> bytes = read_bytes(spool);
  FileHeader h;
  memcpy(&h, bytes.data(), sizeof h);
  change(h);
  memcpy(bytes.data(), &h, sizeof h);
  write_bytes(spool, bytes);
}

void change_chunks(const std::filesystem::path& spool, ChunkKind kind,
                   const std::function<void(ChunkHeader&)>& change) {
  std::vector<unsigned char> bytes = read_bytes(spool);
  const SpoolReader reader(spool.string());
  for (const SpoolChunk& chunk : reader.chunks(kind)) {
    ChunkHeader h;
    memcpy(&h, bytes.data() + chunk.offset, sizeof h);
    change(h);
    memcpy(bytes.data() + chunk.offset, &h, sizeof h);
  }
  write_bytes(spool, bytes);
}

}  // namespace ddl::test
