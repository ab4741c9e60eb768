#include "store/ingest/contexts.h"

#include "store/insert.h"
#include "store/text.h"

namespace ddl::store {

namespace {

/// Writers number contexts from 1 without gaps and stop at 2^16; an id far beyond is damage and must not size a table.
constexpr uint32_t kMaxContextId = 1u << 20;

const char* kind_name(ContextKind kind) {
  switch (kind) {
    case ContextKind::kStep:
      return "step";
    case ContextKind::kPhase:
      return "phase";
    case ContextKind::kOperator:
      return "operator";
    default:
      return "layer";
  }
}

}  // namespace

Regions::Regions() { regions_.push_back({0, "none", "", {}, {}}); }

uint32_t Regions::region(uint32_t parent, ContextKind kind, const std::string& name) {
  const auto [entry, is_new] =
      region_ids_.emplace(std::make_tuple(parent, kind, name), static_cast<uint32_t>(regions_.size()));
  if (is_new) {
    Region region = {parent, kind_name(kind), name, regions_[parent].phase, regions_[parent].layer};
    if (kind == ContextKind::kPhase) region.phase = name;
    // Where nobody named a layer, the outermost operator stands for it: conv2d, not the four functions inside.
    if (kind == ContextKind::kLayer || (kind == ContextKind::kOperator && !region.layer)) region.layer = name;
    regions_.push_back(std::move(region));
  }
  return entry->second;
}

uint32_t Regions::site(const std::string& module, uint64_t offset) {
  const uint32_t module_id = modules_.emplace(module, static_cast<uint32_t>(modules_.size())).first->second;
  return site_ids_.emplace(std::make_pair(module_id, offset), static_cast<uint32_t>(site_ids_.size() + 1))
      .first->second;
}

std::vector<std::string> Regions::modules_by_id() const {
  std::vector<std::string> modules(modules_.size());
  for (const auto& [module, id] : modules_) modules.at(id) = module;
  return modules;
}

Regions::Ids Regions::append(const Regions& part) {
  std::vector<const std::tuple<uint32_t, ContextKind, std::string>*> regions(part.region_ids_.size() + 1);
  for (const auto& [region, id] : part.region_ids_) regions.at(id) = &region;
  Ids ids = {{0}, {0}};
  for (size_t id = 1; id < regions.size(); ++id) {  // a parent before its children
    const auto& [parent, kind, name] = *regions[id];
    ids.regions.push_back(region(ids.regions.at(parent), kind, name));
  }
  const std::vector<std::string> modules = part.modules_by_id();
  std::vector<std::pair<uint32_t, uint64_t>> sites(part.site_ids_.size() + 1);
  for (const auto& [site, id] : part.site_ids_) sites.at(id) = site;
  for (size_t id = 1; id < sites.size(); ++id) ids.sites.push_back(site(modules.at(sites[id].first), sites[id].second));
  return ids;
}

void Regions::write(SQLite::Database& db) const {
  Insert insert(db, "INSERT INTO region VALUES (?, ?, ?, ?, ?, ?)");
  for (size_t id = 0; id < regions_.size(); ++id) {
    const Region& r = regions_[id];
    insert.row(id, id > 0 ? std::optional(r.parent) : std::nullopt, r.kind, r.name, r.phase, r.layer);
  }
  const std::vector<std::string> modules = modules_by_id();
  std::map<uint32_t, std::pair<uint32_t, uint64_t>> sites;
  for (const auto& [site, id] : site_ids_) sites[id] = site;
  Insert insert_site(db, "INSERT INTO site VALUES (?, ?, ?)");
  for (const auto& [id, site] : sites) insert_site.row(id, modules[site.first], site.second);
}

void ProcessContexts::add_module(const ModuleMeta& meta, std::string_view path) {
  modules_[meta.begin] = {meta.end, meta.file_offset, clean_text(path)};
}

void ProcessContexts::add(const ContextMeta& meta, const std::string& name) {
  if (meta.id >= kMaxContextId) return;
  if (meta.id >= entries_.size()) entries_.resize(meta.id + 1);
  const uint32_t parent = (*this)[meta.parent].region;
  const auto kind = static_cast<ContextKind>(meta.kind);
  Entry& entry = entries_[meta.id];
  entry.known = true;
  if (kind == ContextKind::kSite) {
    entry.region = parent;
    sites_.emplace_back(meta.id, meta.site);
  } else {
    entry.region = regions_.region(parent, kind, kind == ContextKind::kStep ? std::string() : name);
  }
}

void ProcessContexts::resolve_sites() {
  for (const auto& [context, address] : sites_) {
    auto module = modules_.upper_bound(address);
    const bool below = module == modules_.begin();
    if (!below) --module;
    if (below || address >= module->second.end) {
      entries_[context].site = regions_.site("?", address);
    } else {
      entries_[context].site = regions_.site(module->second.path, address - module->first + module->second.file_offset);
    }
  }
}

}  // namespace ddl::store
