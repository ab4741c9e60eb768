#include "cli/library.h"

#include <elf.h>
#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "core/own_library.h"
#include "core/regular_file.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

template <class T>
std::optional<T> read_at(const std::string& file, uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::vector<Elf64_Phdr> program_headers(const std::string& file, const Elf64_Ehdr& header) {
  std::vector<Elf64_Phdr> result;
  for (size_t i = 0; i < header.e_phnum; ++i)
    if (const auto segment = read_at<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr)))
      result.push_back(*segment);
  return result;
}

// Where an address of the loaded image lies in the file.
uint64_t file_offset(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments)
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  return UINT64_MAX;
}

}  // namespace

fs::path find_library(Flavour flavour) {
  std::error_code error;
  if (const char* given = std::getenv("DDL_LIBRARY"); given != nullptr && *given != '\0') {
    fs::path path = fs::absolute(given, error);
    if (!fs::is_regular_file(path, error))
      throw Error(fmt::format("DDL_LIBRARY={} is not a file", given), "unset it to use the library beside this program",
                  ExitCode::kCannotLaunch);
    return path;
  }
  const bool mpich = flavour == Flavour::kMpich;
  fs::path path = own_library(mpich ? "libddl-mpich.so" : "libddl.so");
  if (!fs::is_regular_file(path, error))
    throw Error(
        fmt::format("the preload library is missing: {}", path.string()),
        mpich
            ? "the job uses MPICH: build with its mpi.h (cmake says \"MPICH flavour\"), or set DDL_LIBRARY=.../libddl-mpich.so"
            : "build it (ninja ddl_preload), or set DDL_LIBRARY=.../libddl.so",
        ExitCode::kCannotLaunch);
  return path;
}

fs::path find_own_library(const char* name) {
  std::error_code error;
  fs::path path = own_library(name);
  if (!fs::is_regular_file(path, error))
    throw Error(fmt::format("{} is missing", path.string()), "build it: tools/build; or install ddl again");
  return path;
}

std::vector<std::string> needed_libraries(const fs::path& path) {
  const std::string file = read_regular_file(path.string(), NamedBy::kUser, size_t{4} << 30);
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  const unsigned char own_order = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != own_order || (header->e_type != ET_DYN && header->e_type != ET_EXEC))
    throw Error(fmt::format("{} is not a program or library for this machine", path.string()),
                "build it for this machine");

  const std::vector<Elf64_Phdr> segments = program_headers(file, *header);
  std::vector<uint64_t> names;
  uint64_t strings = UINT64_MAX;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
      const auto entry = read_at<Elf64_Dyn>(file, segment.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_STRTAB) strings = file_offset(segments, entry->d_un.d_ptr);
    }
  }
  std::vector<std::string> result;
  for (const uint64_t name : names) {
    if (strings > file.size() || name >= file.size() - strings)
      throw Error(fmt::format("{} is damaged", path.string()), "build or install it again");
    const size_t start = strings + name;
    result.push_back(file.substr(start, file.find('\0', start) - start));
  }
  return result;
}

std::string python_path() {
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  const fs::path hooks = prefix / "share" / "ddl" / "python" / "ddl_hooks";
  if (!fs::is_regular_file(hooks / "sitecustomize.py", error) || hooks.string().find(':') != std::string::npos)
    return "";
  const char* before = std::getenv("PYTHONPATH");
  return before == nullptr || *before == '\0' ? hooks.string() : hooks.string() + ":" + before;
}

std::string preload_value(const fs::path& library) {
  const std::string path = library.string();
  // The loader splits LD_PRELOAD at both and knows no quoting.
  if (path.find_first_of(" :") != std::string::npos)
    throw Error(fmt::format("the path of the preload library contains a space or a colon: {}", path),
                "LD_PRELOAD cannot name it; install ddl elsewhere", ExitCode::kCannotLaunch);
  const char* before = std::getenv("LD_PRELOAD");
  return before == nullptr || *before == '\0' ? path : path + ":" + before;
}

}  // namespace ddl::cli
