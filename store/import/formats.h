// The importers, one function a format. Each is a ReadTraces (store/import.h): it throws Error with file and byte for
// what it cannot read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace ddl::store {

class ImportedRun;

using BytesRead = std::function<void(uint64_t bytes)>;

void read_chakra(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_chrome(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_flight_recorder(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_horovod(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_kineto(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_nccl_inspector(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_nccl_ras(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_nsys(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_nvprof(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_pipedream(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);
void read_rocm(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read);

}  // namespace ddl::store
