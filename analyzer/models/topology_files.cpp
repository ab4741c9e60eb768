// Files that say what joins a machine's places: each parser makes a Topology, read_topology() tells them apart.
#include <fmt/format.h>

#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <unordered_map>

#include "analyzer/csv_table.h"
#include "analyzer/models/topology.h"
#include "core/error.h"
#include "core/regular_file.h"

namespace ddl::models {
namespace {

// What is assumed where a file is silent: the slowest link of its kind that is common (ddl model links), so that no
// answer rests on a link that the machine may not have.
constexpr double kPcie3x16 = 15.754e9, kNvlink = 25e9, kNetwork = 12.5e9;
constexpr const char* kPcieAssumed = "assumed: PCIe 3.0 x16";
constexpr const char* kNvlinkAssumed = "assumed: 25 GB/s a lane, NVLink 2 to 4";
constexpr const char* kNetworkAssumed = "assumed: 100 Gbit/s a host, not oversubscribed";

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr int kDeepestXml = 256;
constexpr size_t kMostGpus = 1024;

[[noreturn]] void refuse_topology(const std::string& name, const std::string& what, const std::string& hint = "") {
  throw Error(fmt::format("{}: {}", name, what), hint, ExitCode::kDataMissing);
}

std::vector<std::string> words_of_line(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Terminals underline the head of the matrix.
std::string without_escapes(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      while (i < text.size() && std::isalpha(static_cast<unsigned char>(text[i])) == 0) ++i;
    } else if (text[i] != '\r') {
      plain += text[i];
    }
  }
  return plain;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// ------------------------------------------------------------------------------------------------ CSV

Topology of_csv(const std::string& text, const std::string& name) {
  constexpr std::string_view kSwitch = "switch:";
  const CsvTable table = CsvTable::parse(text, name);
  Topology topology;
  std::vector<std::string> switches;
  std::unordered_map<std::string, size_t> index;  // among its kind
  const auto add_node = [&](const std::string& node) {
    auto& kind = node.starts_with(kSwitch) ? switches : topology.names;
    if (index.try_emplace(node, kind.size()).second) kind.push_back(node);
  };
  for (size_t r = 0; r < table.rows(); ++r) add_node(table.text(r, "from")), add_node(table.text(r, "to"));
  topology.places = topology.names.size();
  topology.names.insert(topology.names.end(), switches.begin(), switches.end());
  const auto number = [&](const std::string& node) {
    return index.at(node) + (node.starts_with(kSwitch) ? topology.places : 0);
  };

  // Tiers as the column names them, in the order of the file; without it by bandwidth, the fastest first.
  std::map<double, size_t, std::greater<>> by_rate;
  std::map<std::string, size_t> by_name;
  const bool named = table.has("tier");
  for (size_t r = 0; r < table.rows(); ++r) {
    const double rate = table.number(r, "gb_per_s") * 1e9;
    if (named && by_name.try_emplace(table.text(r, "tier"), by_name.size()).second)
      topology.tiers.push_back({table.text(r, "tier"), {}, {}, ""});
    by_rate.try_emplace(rate, 0);
  }
  if (!named) {
    for (auto& [rate, tier] : by_rate) {
      tier = topology.tiers.size();
      topology.tiers.push_back({fmt::format("{:.4g} GB/s", rate * 1e-9), rate, {}, "the file"});
    }
  }
  for (size_t r = 0; r < table.rows(); ++r) {
    const double rate = table.number(r, "gb_per_s") * 1e9;
    const size_t tier = named ? by_name.at(table.text(r, "tier")) : by_rate.at(rate);
    Tier& of = topology.tiers[tier];
    // A lane is the slowest link of a tier: what one message can count on.
    of.bytes_per_second = of.bytes_per_second ? std::min(*of.bytes_per_second, rate) : rate;
    of.from = "the file";
    if (table.has("alpha_us")) of.alpha_s = std::max(of.alpha_s.value_or(0), table.number(r, "alpha_us") * 1e-6);
    topology.links.push_back({number(table.text(r, "from")), number(table.text(r, "to")), tier, 1, rate});
  }
  return topology;
}

// ------------------------------------------------------------------------------------------------ hwloc

using Tree = boost::property_tree::ptree;

/// An object of hwloc that places are below, or that is one.
struct HwlocNode {
  std::string type, name;
  bool place = false;
  double bytes_per_second = 0;  ///< of its PCI link; 0: not known
  std::vector<HwlocNode> children;
};

std::string attribute(const Tree& object, const char* name) {
  return object.get<std::string>(std::string("<xmlattr>.") + name, "");
}

/// A display, 3D or other controller of class 03, or a processing accelerator (12).
bool is_accelerator(const Tree& object) {
  if (attribute(object, "type") != "PCIDev") return false;
  const std::string pci_class = attribute(object, "pci_type");
  if (pci_class.starts_with("0302") || pci_class.starts_with("0380") || pci_class.starts_with("12")) return true;
  // Consoles of servers are VGA controllers as well: one counts if a runtime computes on it.
  for (const auto& [key, child] : object) {
    const std::string name = attribute(child, "name");
    if (key == "object" &&
        (name.starts_with("cuda") || name.starts_with("nvml") || name.starts_with("rsmi") || name.starts_with("ze")))
      return true;
  }
  return false;
}

std::string name_of_gpu(const Tree& object) {
  for (const char* prefix : {"cuda", "nvml", "rsmi", "ze"})
    for (const auto& [key, child] : object)
      if (const std::string name = attribute(child, "name"); key == "object" && name.starts_with(prefix)) return name;
  return attribute(object, "pci_busid");
}

HwlocNode hwloc_node(const Tree& object, bool gpus) {
  HwlocNode node;
  node.type = attribute(object, "type");
  node.bytes_per_second = object.get<double>("<xmlattr>.pci_link_speed", 0) * 1e9;
  node.place = gpus ? is_accelerator(object) : node.type == "Core";
  node.name = gpus && node.place ? name_of_gpu(object)
                                 : fmt::format("{} {}", lower_case(node.type), attribute(object, "os_index"));
  if (node.type == "Bridge")
    node.name = "PCI " + attribute(object, attribute(object, "pci_busid").empty() ? "bridge_pci" : "pci_busid");
  if (node.type == "Machine") node.name = "host";
  if (node.place) return node;
  for (const auto& [key, child] : object) {
    if (key != "object") continue;
    HwlocNode below = hwloc_node(child, gpus);
    // Only what is worth a switch stays: a node with one way down is part of that way, and as fast as the
    // slowest link on it.
    if (!below.place && below.children.empty()) continue;
    if (!below.place && below.children.size() == 1) {
      const double own = below.bytes_per_second;
      HwlocNode only = std::move(below.children[0]);
      if (own > 0) only.bytes_per_second = only.bytes_per_second > 0 ? std::min(own, only.bytes_per_second) : own;
      below = std::move(only);
    }
    node.children.push_back(std::move(below));
  }
  return node;
}

int deepest_nesting(const std::string& xml) {
  int depth = 0, deepest = 0;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const char next = at + 1 < xml.size() ? xml[at + 1] : '\0';
    if (next == '/') {
      --depth;
    } else if (next != '?' && next != '!') {
      const size_t end = xml.find('>', at);
      if (end != std::string::npos && xml[end - 1] != '/') deepest = std::max(deepest, ++depth);
    }
  }
  return deepest;
}

class HwlocTopology {
 public:
  Topology make(const HwlocNode& root, const std::string& name) {
    collect(root);
    if (topology_.names.empty())
      refuse_topology(name, "no GPUs and no cores", "lstopo --of xml, of hwloc 2, with all I/O: lstopo --whole-io");
    topology_.places = topology_.names.size();
    topology_.tiers = {{"PCIe switch", kPcie3x16, {}, kPcieAssumed},
                       {"socket", kPcie3x16, {}, kPcieAssumed},
                       {"host", kPcie3x16, {}, kPcieAssumed}};
    if (root.place) return topology_;
    topology_.root = join(root);
    return topology_;
  }

 private:
  void collect(const HwlocNode& node) {
    if (node.place) topology_.names.push_back(node.name);
    for (const HwlocNode& child : node.children) collect(child);
  }

  size_t join(const HwlocNode& node) {
    if (node.place) return next_place_++;
    const size_t me = topology_.names.size();
    topology_.names.push_back("switch:" + node.name);
    const size_t tier = node.type == "Bridge" ? 0 : node.type == "Machine" ? 2 : 1;
    for (const HwlocNode& child : node.children) {
      const size_t below = join(child);
      TopologyLink link{me, below, tier};
      if (child.bytes_per_second > 0) link.bytes_per_second = child.bytes_per_second;
      topology_.links.push_back(link);
    }
    return me;
  }

  Topology topology_;
  size_t next_place_ = 0;
};

Topology of_hwloc(const std::string& text, const std::string& name) {
  if (deepest_nesting(text) > kDeepestXml)
    refuse_topology(name, fmt::format("XML that is nested more than {} deep", kDeepestXml));
  Tree document;
  try {
    std::istringstream stream(text);
    boost::property_tree::read_xml(stream, document);
  } catch (const boost::property_tree::xml_parser_error& error) {
    refuse_topology(name, fmt::format("not XML: {} (line {})", error.message(), error.line()));
  }
  const auto machine = document.get_child_optional("topology.object");
  if (!machine) refuse_topology(name, "XML that is not of hwloc", "lstopo --of xml");
  try {
    for (const bool gpus : {true, false}) {
      HwlocNode root = hwloc_node(*machine, gpus);
      while (!root.place && root.children.size() == 1 && !root.children[0].children.empty())
        root = std::move(root.children[0]);
      if (root.place || !root.children.empty()) return HwlocTopology().make(root, name);
    }
  } catch (const boost::property_tree::ptree_error& error) {
    refuse_topology(name, error.what());
  }
  refuse_topology(name, "no GPUs and no cores", "lstopo --of xml");
}

// ------------------------------------------------------------------------------------------------ nvidia-smi topo -m

/// Ways over PCIe, nearest first: at most one bridge, several, the host bridge, several host bridges of a NUMA node,
/// the link between those.
constexpr const char* kPcieWays[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
/// Links of a GPU at most (H100, B200). Who shows more to its peers together has them to switches, which
/// all of them share.
constexpr int64_t kMostNvlinks = 18;

Topology of_nvidia_smi(const std::string& text, const std::string& name) {
  std::istringstream stream(text);
  std::vector<std::string> gpus;
  std::map<std::pair<size_t, size_t>, std::string> how;
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> words = words_of_line(line);
    if (words.empty() || !words[0].starts_with("GPU")) continue;
    if (gpus.empty()) {
      for (const std::string& word : words)
        if (word.starts_with("GPU") && word.size() > 3 && std::isdigit(static_cast<unsigned char>(word[3])) != 0)
          gpus.push_back(word);
      if (gpus.size() > kMostGpus) refuse_topology(name, "more GPUs than a host can have");
      continue;
    }
    const auto row = std::find(gpus.begin(), gpus.end(), words[0]);
    if (row == gpus.end()) continue;
    if (words.size() < gpus.size() + 1)
      refuse_topology(name, fmt::format("the row of {} has {} columns", words[0], words.size() - 1));
    for (size_t c = 0; c < gpus.size(); ++c) how[{static_cast<size_t>(row - gpus.begin()), c}] = words[c + 1];
  }
  if (gpus.empty() || how.size() != gpus.size() * gpus.size())
    refuse_topology(name, "no whole matrix of GPUs", "nvidia-smi topo -m > FILE");

  Topology topology;
  topology.names = gpus;
  topology.places = gpus.size();
  topology.tiers.push_back({"NVLink", kNvlink, {}, kNvlinkAssumed});
  std::vector<int64_t> nvlinks(gpus.size(), 0);
  std::vector<std::vector<int64_t>> count(gpus.size(), std::vector<int64_t>(gpus.size(), 0));
  for (const auto& [pair, way] : how) {
    const auto [a, b] = pair;
    if (a == b) continue;
    if (way != how.at({b, a})) refuse_topology(name, fmt::format("{} and {} disagree on their link", gpus[a], gpus[b]));
    if (way.starts_with("NV") && way.size() > 2 && way.size() < 5 &&
        std::all_of(way.begin() + 2, way.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
      count[a][b] = std::stoll(way.substr(2));
      nvlinks[a] += count[a][b];
    } else if (std::find(std::begin(kPcieWays), std::end(kPcieWays), way) == std::end(kPcieWays)) {
      refuse_topology(name, fmt::format("{} and {} are joined by '{}'", gpus[a], gpus[b], way),
                      "known: NV#, PIX, PXB, PHB, NODE, SYS");
    }
  }
  const bool switched = std::any_of(nvlinks.begin(), nvlinks.end(), [](int64_t links) { return links > kMostNvlinks; });
  if (switched) {
    const size_t nvswitch = topology.names.size();
    topology.names.push_back("switch:NVSwitch");
    for (size_t gpu = 0; gpu < gpus.size(); ++gpu)
      if (const int64_t lanes = *std::max_element(count[gpu].begin(), count[gpu].end()); lanes > 0)
        topology.links.push_back({gpu, nvswitch, 0, static_cast<double>(lanes)});
  } else {
    for (size_t a = 0; a < gpus.size(); ++a)
      for (size_t b = a + 1; b < gpus.size(); ++b)
        if (count[a][b] > 0) topology.links.push_back({a, b, 0, static_cast<double>(count[a][b])});
  }
  // PCIe as far as the matrix shows it: a pair with NVLink does not say how PCIe joins it. From the nearest way to the
  // farthest, what a way joins hangs on a switch of its own.
  std::vector<size_t> top(gpus.size());  // the outermost node that each GPU hangs on so far
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) top[gpu] = gpu;
  for (const char* way : kPcieWays) {
    std::vector<size_t> group(gpus.size());
    for (size_t gpu = 0; gpu < gpus.size(); ++gpu) group[gpu] = gpu;
    const auto unite = [&](size_t a, size_t b) {
      const size_t from = group[b], to = group[a];
      std::replace(group.begin(), group.end(), from, to);
    };
    for (size_t a = 0; a < gpus.size(); ++a)
      for (size_t b = 0; b < gpus.size(); ++b)
        if (a != b && (top[a] == top[b] || how.at({a, b}) == way)) unite(a, b);
    std::map<size_t, std::set<size_t>> joined;
    for (size_t gpu = 0; gpu < gpus.size(); ++gpu) joined[group[gpu]].insert(top[gpu]);
    size_t tier = SIZE_MAX;
    size_t number = 0;
    for (const auto& [first, below] : joined) {
      if (below.size() < 2) continue;
      if (tier == SIZE_MAX) tier = topology.tiers.size(), topology.tiers.push_back({way, kPcie3x16, {}, kPcieAssumed});
      const size_t node = topology.names.size();
      topology.names.push_back(fmt::format("switch:{} {}", way, number++));
      for (const size_t one : below) topology.links.push_back({one, node, tier});
      for (size_t gpu = 0; gpu < gpus.size(); ++gpu)
        if (group[gpu] == first) top[gpu] = node;
    }
  }
  if (std::all_of(top.begin(), top.end(), [&](size_t node) { return node == top[0] && node >= gpus.size(); }))
    topology.root = top[0];
  if (topology.links.empty() || topology.tiers.size() == 1 ||
      std::any_of(topology.links.begin(), topology.links.end(), [](const auto& link) { return link.tier == 0; }))
    return topology;
  topology.tiers.erase(topology.tiers.begin());  // no NVLink
  for (TopologyLink& link : topology.links) --link.tier;
  return topology;
}

// ------------------------------------------------------------------------------------------------ Slurm

struct SlurmSwitch {
  std::vector<std::string> nodes, switches;
};

Topology of_slurm(const std::string& text, const std::string& name) {
  std::map<std::string, SlurmSwitch> switches;
  std::vector<std::string> order;
  bool blocks = false;
  std::istringstream stream(text);
  size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    std::string me;
    SlurmSwitch one;
    for (const std::string& word : words_of_line(line)) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos)
        refuse_topology(name, fmt::format("line {}: '{}' is not NAME=VALUE", number, word));
      const std::string key = lower_case(word.substr(0, equals)), value = word.substr(equals + 1);
      if (key == "switchname" || key == "blockname") {
        me = value;
        blocks = blocks || key == "blockname";
      } else if (key == "nodes") {
        one.nodes = expand_hosts(value);
      } else if (key == "switches") {
        one.switches = expand_hosts(value);
      } else if (key != "linkspeed" && key != "blocksizes" && key != "blocklevels") {
        // LinkSpeed has no unit, and Slurm does not use it
        refuse_topology(name, fmt::format("line {}: unknown key '{}'", number, key));
      }
    }
    if (me.empty()) continue;
    if (!switches.try_emplace(me, std::move(one)).second)
      refuse_topology(name, fmt::format("line {}: switch {} is there already", number, me));
    order.push_back(me);
  }
  std::map<std::string, size_t> above;  // how many list it
  for (const auto& [me, one] : switches)
    for (const std::string& below : one.switches) {
      if (!switches.contains(below))
        refuse_topology(name, fmt::format("switch {} has {} below it, which is not described", me, below));
      ++above[below];
    }
  std::vector<std::string> roots;
  for (const std::string& me : order)
    if (above[me] == 0) roots.push_back(me);
  if (roots.empty()) refuse_topology(name, "switches are below each other");
  constexpr const char* kCore = "core";
  if (blocks && roots.size() > 1) switches[kCore].switches = roots, order.emplace_back(kCore), roots = {kCore};

  Topology topology;
  std::map<std::string, size_t> place, node;
  for (const std::string& me : order)
    for (const std::string& host : switches[me].nodes)
      if (place.try_emplace(host, topology.names.size()).second) topology.names.push_back(host);
  topology.places = topology.names.size();
  if (topology.places == 0) refuse_topology(name, "no switch has nodes");
  for (const std::string& me : order) node[me] = topology.names.size(), topology.names.push_back("switch:" + me);

  // Levels and hosts below, from the leaves up; as many passes as there are levels.
  std::map<std::string, std::pair<size_t, double>> known;
  while (known.size() < order.size()) {
    const size_t before = known.size();
    for (const std::string& me : order) {
      const SlurmSwitch& one = switches[me];
      if (known.contains(me) ||
          !std::all_of(one.switches.begin(), one.switches.end(), [&](const auto& s) { return known.contains(s); }))
        continue;
      std::pair<size_t, double> of{0, static_cast<double>(one.nodes.size())};
      for (const std::string& below : one.switches)
        of.first = std::max(of.first, known[below].first + 1), of.second += known[below].second;
      known[me] = of;
    }
    if (known.size() == before) refuse_topology(name, "switches are below each other");
  }
  size_t levels = 0;
  for (const auto& [me, of] : known) levels = std::max(levels, of.first + 1);
  for (size_t level = 0; level < levels; ++level)
    topology.tiers.push_back(
        {level == 0 ? "leaf switch" : fmt::format("switch level {}", level + 1), kNetwork, {}, kNetworkAssumed});
  for (const std::string& me : order) {
    for (const std::string& host : switches[me].nodes) topology.links.push_back({place[host], node[me], 0});
    for (const std::string& below : switches[me].switches)
      topology.links.push_back({node[below], node[me], known[me].first, std::max(1.0, known[below].second)});
  }
  if (roots.size() == 1) topology.root = node[roots[0]];
  return topology;
}

}  // namespace

std::vector<std::string> expand_hosts(std::string_view list) {
  const auto refuse = [&](const std::string& why) -> void {
    throw Error(fmt::format("invalid list of hosts '{}': {}", list.substr(0, 80), why), "such as tux[0-3,7],login",
                ExitCode::kDataMissing);
  };
  std::vector<std::string> result;
  size_t at = 0;
  while (at < list.size()) {
    std::vector<std::string> names = {""};
    for (; at < list.size() && list[at] != ','; ++at) {
      if (list[at] != '[') {
        for (std::string& name : names) name += list[at];
        continue;
      }
      const size_t end = list.find(']', at);
      if (end == std::string_view::npos) refuse("a bracket is not closed");
      std::vector<std::string> numbers;
      std::istringstream ranges{std::string(list.substr(at + 1, end - at - 1))};
      for (std::string range; std::getline(ranges, range, ',');) {
        const std::string first = range.substr(0, range.find('-')),
                          last = range.find('-') == std::string::npos ? first : range.substr(range.find('-') + 1);
        const auto is_number = [](const std::string& text) {
          return !text.empty() && text.size() < 10 &&
                 std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
        };
        if (!is_number(first) || !is_number(last) || std::stol(first) > std::stol(last))
          refuse("ranges are such as 0-15");
        if (static_cast<size_t>(std::stol(last) - std::stol(first)) >= kMostHosts) refuse("too many hosts");
        for (long number = std::stol(first); number <= std::stol(last); ++number)
          numbers.push_back(fmt::format("{:0{}}", number, first.size()));
      }
      if (numbers.empty() || names.size() * numbers.size() > kMostHosts) refuse("too many hosts, or none");
      std::vector<std::string> longer;
      for (const std::string& name : names)
        for (const std::string& number : numbers) longer.push_back(name + number);
      names = std::move(longer);
      at = end;
    }
    ++at;
    result.insert(result.end(), names.begin(), names.end());
    if (result.size() > kMostHosts) refuse("too many hosts");
  }
  std::erase(result, "");
  return result;
}

Topology parse_topology(const std::string& text, const std::string& name) {
  const std::string plain = without_escapes(text);
  const size_t begin = plain.find_first_not_of(" \t\n");
  if (begin == std::string::npos) refuse_topology(name, "an empty file");
  if (plain[begin] == '<') return of_hwloc(plain, name);
  const std::string head = plain.substr(begin, plain.find('\n', begin) - begin);
  if (head.starts_with("GPU")) return of_nvidia_smi(plain, name);
  if (head.find(',') != std::string::npos && head.find('=') == std::string::npos) return of_csv(text, name);
  if (lower_case(plain).find("switchname=") != std::string::npos ||
      lower_case(plain).find("blockname=") != std::string::npos)
    return of_slurm(plain, name);
  refuse_topology(name, "no topology that is known",
                  "CSV with columns from, to, gb_per_s; lstopo --of xml; nvidia-smi topo -m; Slurm's topology.conf");
}

Topology read_topology(const std::filesystem::path& path) {
  return parse_topology(read_regular_file(path.string(), NamedBy::kUser, kMostBytes), path.string());
}

}  // namespace ddl::models
