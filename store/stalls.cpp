#include "store/stalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "core/regular_file.h"
#include "store/text.h"

namespace ddl {

namespace {

using nlohmann::json;

constexpr size_t kMaxStallBytes = 64 << 20;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? clean_text(found->get_ref<const std::string&>()) : std::string();
}

std::optional<int64_t> integer_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

const json& list_of(const json& object, const char* name) {
  static const json kNothing = json::array();
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : kNothing;
}

StalledRank rank_of(const json& object) {
  StalledRank rank;
  rank.rank = integer_of(object, "rank").value_or(-1);
  if (rank.rank < 0 || rank.rank > INT32_MAX) rank.rank = -1;  // as one that is not known
  rank.pid = integer_of(object, "pid").value_or(0);
  rank.host = text_of(object, "host");
  rank.role = text_of(object, "role");
  rank.in_call = text_of(object, "in_call");
  rank.state = text_of(object, "state");
  rank.python_why = text_of(object, "python_why");
  rank.c_why = text_of(object, "c_why");
  if (const auto ratio = object.find("cpu_ratio"); ratio != object.end() && ratio->is_number())
    rank.cpu_ratio = ratio->get<double>();
  for (const json& thread : list_of(object, "threads")) {
    if (thread.is_object())
      rank.threads.push_back({text_of(thread, "language"), text_of(thread, "name"), text_of(thread, "frames")});
  }
  return rank;
}

std::vector<std::string> split_frames(const std::string& frames) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < frames.size();) {
    const size_t end = std::min(frames.find(" < ", begin), frames.size());
    parts.push_back(frames.substr(begin, end - begin));
    begin = end + 3;
  }
  return parts;
}

/// "all_reduce (/home/u/train.py:81)" -> "all_reduce train.py:81"
std::string short_frame(const std::string& frame) {
  const size_t open = frame.rfind(" (");
  if (open == std::string::npos || !frame.ends_with(")")) return frame;
  const std::string place = frame.substr(open + 2, frame.size() - open - 3);
  return fmt::format("{} {}", frame.substr(0, open), place.substr(place.rfind('/') + 1));
}

/// What lies within a call that is recorded is the waiting of a library, of which no two looks see the same.
std::string up_to_the_call(const std::string& frames) {
  const std::vector<std::string> parts = split_frames(frames);
  size_t begin = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string_view name = std::string_view(parts[i]).substr(parts[i].starts_with("P") ? 1 : 0);
    if (name.starts_with("MPI_") || name.starts_with("nccl")) begin = i;
  }
  return fmt::format("{}", fmt::join(parts.begin() + static_cast<ptrdiff_t>(begin), parts.end(), " < "));
}

/// What C does below the interpreter; empty: the interpreter itself is at work.
std::string below_python(const std::string& frames) {
  const std::vector<std::string> parts = split_frames(frames);
  const auto is_interpreter = [](const std::string& part) {
    return part.starts_with("_PyEval_") || part.starts_with("cfunction_") || part.starts_with("_PyObject_") ||
           part.starts_with("PyObject_") || part.starts_with("_PyFunction_");
  };
  auto end = std::find_if(parts.begin(), parts.end(), is_interpreter);
  while (end != parts.begin() && *(end - 1) == "?") --end;  // without a name
  return fmt::format("{}", fmt::join(parts.begin(), end, " < "));
}

const StalledThread* first_of(const StalledRank& rank, const char* language) {
  const auto found = std::find_if(rank.threads.begin(), rank.threads.end(),
                                  [&](const StalledThread& t) { return t.language == language; });
  return found == rank.threads.end() ? nullptr : &*found;
}

}  // namespace

std::string to_json_line(const ToldStall& stall) {
  json ranks = json::array();
  for (const StalledRank& rank : stall.ranks) {
    json threads = json::array();
    for (const StalledThread& thread : rank.threads)
      threads.push_back({{"language", thread.language}, {"name", thread.name}, {"frames", thread.frames}});
    ranks.push_back({{"rank", rank.rank},
                     {"pid", rank.pid},
                     {"host", rank.host},
                     {"role", rank.role},
                     {"in_call", rank.in_call},
                     {"state", rank.state},
                     {"cpu_ratio", rank.cpu_ratio ? json(*rank.cpu_ratio) : json()},
                     {"threads", std::move(threads)},
                     {"python_why", rank.python_why},
                     {"c_why", rank.c_why}});
  }
  return json{{"kind", stall.kind},         {"number", stall.number},     {"told_ns", stall.told_ns},
              {"since_ns", stall.since_ns}, {"limit_ns", stall.limit_ns}, {"call", stall.call},
              {"sentence", stall.sentence}, {"action", stall.action},     {"ranks", std::move(ranks)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string resumed_json_line(int64_t number, int64_t resumed_ns) {
  return json{{"kind", "resumed"}, {"number", number}, {"resumed_ns", resumed_ns}}.dump();
}

std::vector<ToldStall> read_stalls(const std::filesystem::path& path) {
  std::vector<ToldStall> stalls;
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::not_found) return stalls;
  std::istringstream file(read_regular_file(path, NamedBy::kFolder, kMaxStallBytes));
  std::map<int64_t, size_t> places;  // in `stalls`, by number
  for (std::string line; std::getline(file, line);) {
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    ToldStall stall;
    stall.kind = text_of(object, "kind");
    stall.number = integer_of(object, "number").value_or(0);
    if (stall.kind == "resumed") {
      if (const auto told = places.find(stall.number); told != places.end())
        stalls[told->second].resumed_ns = integer_of(object, "resumed_ns");
      continue;
    }
    if ((stall.kind != "stall" && stall.kind != "waiting") || stall.number <= 0 || places.contains(stall.number))
      continue;
    stall.told_ns = integer_of(object, "told_ns").value_or(0);
    stall.since_ns = integer_of(object, "since_ns").value_or(0);
    stall.limit_ns = integer_of(object, "limit_ns").value_or(0);
    stall.call = text_of(object, "call");
    stall.sentence = text_of(object, "sentence");
    stall.action = text_of(object, "action");
    for (const json& rank : list_of(object, "ranks"))
      if (rank.is_object()) stall.ranks.push_back(rank_of(rank));
    places[stall.number] = stalls.size();
    stalls.push_back(std::move(stall));
  }
  return stalls;
}

std::vector<StackGroup> group_stacks(const ToldStall& stall) {
  std::map<std::tuple<std::string, std::string, std::string>, StackGroup> groups;
  for (const StalledRank& rank : stall.ranks) {
    const StalledThread* python = first_of(rank, "python");
    const StalledThread* c = first_of(rank, "c");
    StackGroup group;
    if (python != nullptr) {
      group.stack = python->frames;
      if (c != nullptr) group.inner = below_python(c->frames);
    } else if (c != nullptr) {
      group.stack = up_to_the_call(c->frames);
    } else {
      group.why = rank.c_why.empty() ? rank.python_why : rank.c_why;
    }
    for (const StalledThread& thread : rank.threads)
      if (thread.name.starts_with(kWorkerThread) && group.worker.empty())
        group.worker = fmt::format("its {}: {}", thread.name, short_stack(thread.frames));
    const std::string stopped = rank.state == "stopped" ? rank.state : "";
    auto& all = groups.try_emplace({group.stack, group.why, stopped}, group).first->second;
    if (all.ranks.empty()) all.state = rank.state;
    if (all.state != rank.state) all.state.clear();
    all.ranks.push_back(rank.rank);
  }
  std::vector<StackGroup> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const StackGroup& a, const StackGroup& b) { return a.ranks.size() > b.ranks.size(); });
  return sorted;
}

std::string stack_line(const StackGroup& group) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < group.ranks.size();) {
    size_t last = i;
    while (last + 1 < group.ranks.size() && group.ranks[last + 1] == group.ranks[last] + 1) ++last;
    ranges.push_back(last == i ? fmt::format("{}", group.ranks[i])
                               : fmt::format("{}-{}", group.ranks[i], group.ranks[last]));
    i = last + 1;
  }
  std::string line = fmt::format("{} {}", group.ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranges, ", "));
  if (!group.state.empty()) line += fmt::format(" ({})", group.state);
  if (group.stack.empty()) return fmt::format("{}: stack not known: {}", line, group.why);
  line += fmt::format(": {}", short_stack(group.stack));
  if (!group.inner.empty()) line += fmt::format("; in C: {}", short_stack(group.inner, 4));
  if (!group.worker.empty()) line += "; " + group.worker;
  return line;
}

std::string short_stack(const std::string& frames, size_t most) {
  std::vector<std::string> parts = split_frames(frames);
  for (std::string& part : parts) part = short_frame(part);
  if (parts.size() > most) {
    const std::string last = parts.back();
    parts.resize(most - 1);
    parts.emplace_back("...");
    parts.push_back(last);
  }
  return fmt::format("{}", fmt::join(parts, " <- "));
}

}  // namespace ddl
