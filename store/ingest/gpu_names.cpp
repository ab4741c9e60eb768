#include "store/ingest/gpu_names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "store/insert.h"

namespace ddl::store {

uint32_t GpuNames::id(const std::string& name) {
  return ids_.try_emplace(name, static_cast<uint32_t>(ids_.size() + 1)).first->second;
}

std::string GpuNames::readable(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

const char* GpuNames::class_of(const std::string& name) {
  if (name.starts_with("[CUDA mem")) return "copy";
  if (name.starts_with("[CU")) return "other";
  return kernel_class(name);
}

std::vector<const std::string*> GpuNames::by_id() const {
  std::vector<const std::string*> names(ids_.size());
  for (const auto& [name, id] : ids_) names.at(id - 1) = &name;
  return names;
}

std::vector<uint32_t> GpuNames::append(const GpuNames& part) {
  std::vector<uint32_t> ids = {0};
  for (const std::string* name : part.by_id()) ids.push_back(id(*name));
  return ids;
}

void GpuNames::write(SQLite::Database& db) const {
  const std::vector<const std::string*> names = by_id();
  Insert insert(db, "INSERT INTO gpu_name VALUES (?, ?, ?)");
  for (size_t i = 0; i < names.size(); ++i) insert.row(i + 1, *names[i], class_of(*names[i]));
}

}  // namespace ddl::store
