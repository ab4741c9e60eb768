#include "analyzer/passes/critical_path.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ddl {
namespace {

constexpr int64_t kStampErrorNs = 2000;  // traces round to microseconds

/// What was over last of what is awaited. `operation` unset: of an earlier step.
struct Cause {
  int64_t end_ns = INT64_MIN;
  std::optional<size_t> operation = {};
};

/// A call in which the host did wait: until `released_ns`, for `operation`.
struct HostWait {
  Interval call;
  int64_t released_ns = 0;
  std::optional<size_t> operation;
  int64_t name = 0, region = 0;
};

struct HostCall {
  Interval interval;
  int64_t region = 0;
};

class PathWalk {
 public:
  PathWalk(const PathStep& step, EarlierEnds& earlier) : step_(step), causes_(step.operations.size()) {
    find_host_waits(earlier);
    find_causes(earlier);
    for (const PathOperation& o : step.operations)
      if (o.launch) calls_.push_back({*o.launch, o.region});
    for (const PathSynchronization& s : step.synchronizations) calls_.push_back({s.call, s.region});
    const auto by_begin = [](const HostCall& a, const HostCall& b) {
      return a.interval.begin_ns < b.interval.begin_ns;
    };
    std::stable_sort(calls_.begin(), calls_.end(), by_begin);
  }

  std::vector<PathPiece> walk() {
    const std::vector<PathOperation>& all = step_.operations;
    const auto last = std::max_element(all.begin(), all.end(), [](const PathOperation& a, const PathOperation& b) {
      return a.interval.end_ns < b.interval.end_ns;
    });
    std::optional<size_t> at;
    int64_t now_ns = step_.window.end_ns;
    std::optional<int64_t> region;  // of what the host does next
    if (last != all.end() && last->interval.end_ns >= now_ns) {
      at = static_cast<size_t>(last - all.begin());
      now_ns = last->interval.end_ns;
    }
    while (now_ns > step_.window.begin_ns) {
      if (!at) {
        if (!go_back_on_host(now_ns, region, at)) break;
        continue;
      }
      const PathOperation& o = all[*at];
      add_operation(o, now_ns);
      now_ns = o.interval.begin_ns;
      const Cause& cause = causes_[*at];
      const bool is_caused = cause.end_ns != INT64_MIN;
      if (o.launch && (!is_caused || o.launch->begin_ns >= cause.end_ns)) {
        const int64_t launched_ns = std::min(o.launch->begin_ns, now_ns);
        const PathKind kind = now_ns - launched_ns > kLaunchLatencyNs ? PathKind::kUnknown : PathKind::kLaunch;
        add(kind, o.name, o.region, launched_ns, now_ns);
        now_ns = launched_ns;
        region = o.region;
        at.reset();
      } else if (is_caused) {
        const int64_t over_ns = std::min(cause.end_ns, now_ns);
        add(now_ns - over_ns > kKernelWaitNs ? PathKind::kUnknown : PathKind::kBetween, o.name, o.region, over_ns,
            now_ns);
        now_ns = over_ns;
        if (!cause.operation) break;
        at = cause.operation;
      } else {
        add(PathKind::kUnknown, o.name, o.region, step_.window.begin_ns, now_ns);
        break;
      }
    }
    name_long_pieces();
    return std::move(pieces_);
  }

 private:
  void add(PathKind kind, std::optional<int64_t> name, std::optional<int64_t> region, int64_t begin_ns,
           int64_t end_ns) {
    begin_ns = std::max(begin_ns, step_.window.begin_ns);
    if (begin_ns < end_ns) pieces_.push_back({kind, name, region, {begin_ns, end_ns}});
  }

  void add_operation(const PathOperation& o, int64_t until_ns) {
    const int64_t begin_ns = o.interval.begin_ns;
    if (o.device_class != DeviceClass::kCommunication) {
      add(o.device_class == DeviceClass::kCopy ? PathKind::kCopy : PathKind::kCompute, o.name, o.region, begin_ns,
          until_ns);
    } else if (!o.wait_ns) {
      add(PathKind::kCollective, o.name, o.region, begin_ns, until_ns);
    } else {
      const int64_t met_ns = std::min(until_ns, begin_ns + *o.wait_ns);
      add(PathKind::kTransfer, o.name, o.region, met_ns, until_ns);
      add(PathKind::kWait, o.name, o.region, begin_ns, met_ns);
    }
  }

  /// To the begin of the step, or to the last call from which the host came back. False: there the path begins.
  bool go_back_on_host(int64_t& now_ns, std::optional<int64_t>& region, std::optional<size_t>& at) {
    const auto after = std::upper_bound(host_waits_.begin(), host_waits_.end(), now_ns,
                                        [](int64_t ns, const HostWait& w) { return ns < w.call.end_ns; });
    const HostWait* const wait = after == host_waits_.begin() ? nullptr : &*(after - 1);
    const int64_t since_ns = std::max(step_.window.begin_ns, wait == nullptr ? INT64_MIN : wait->call.end_ns);
    add_host(since_ns, now_ns, region);
    if (wait == nullptr || wait->call.end_ns <= step_.window.begin_ns) return false;
    add(PathKind::kHost, wait->name, wait->region, wait->released_ns, wait->call.end_ns);
    now_ns = wait->released_ns;
    at = wait->operation;
    return at.has_value();
  }

  /// What lies between two calls was done for the second.
  void add_host(int64_t begin_ns, int64_t end_ns, std::optional<int64_t> region) {
    auto call = std::lower_bound(calls_.begin(), calls_.end(), end_ns,
                                 [](const HostCall& c, int64_t ns) { return c.interval.begin_ns < ns; });
    while (end_ns > begin_ns && call != calls_.begin() && (--call)->interval.begin_ns >= begin_ns) {
      const int64_t left_ns = std::min(end_ns, call->interval.end_ns);
      add(PathKind::kHost, std::nullopt, region, left_ns, end_ns);
      add(PathKind::kHost, std::nullopt, call->region, call->interval.begin_ns, left_ns);
      end_ns = call->interval.begin_ns;
      region = call->region;
    }
    add(PathKind::kHost, std::nullopt, region, begin_ns, end_ns);
  }

  /// Long ones belong to the range that began last of those around their middle: while data are loaded
  /// nothing is launched.
  void name_long_pieces() {
    std::vector<const PathRange*> open;
    auto range = step_.ranges.begin();
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
      if (piece->kind != PathKind::kHost || piece->name || piece->interval.length_ns() < kLongHostNs) continue;
      const int64_t middle_ns = piece->interval.begin_ns + piece->interval.length_ns() / 2;
      for (; range != step_.ranges.end() && range->interval.begin_ns <= middle_ns; ++range) open.push_back(&*range);
      while (!open.empty() && open.back()->interval.end_ns <= middle_ns) open.pop_back();
      if (!open.empty()) piece->region = open.back()->region;
    }
  }

  /// What each operation came after on the GPU, by the order of the calls.
  void find_causes(EarlierEnds& earlier) {
    enum What { kRecord, kWait, kOperation };
    std::vector<std::tuple<int64_t, What, int64_t, size_t>> calls;  // number, what, begin, place
    for (size_t i = 0; i < step_.waits.size(); ++i) {
      calls.emplace_back(step_.waits[i].on_call, kRecord, 0, i);
      calls.emplace_back(step_.waits[i].call, kWait, 0, i);
    }
    for (size_t i = 0; i < step_.operations.size(); ++i)
      calls.emplace_back(step_.operations[i].call, kOperation, step_.operations[i].interval.begin_ns, i);
    std::sort(calls.begin(), calls.end());
    std::vector<Cause> over(earlier.size());  // by stream: what comes next comes after this
    for (size_t s = 0; s < earlier.size(); ++s) over[s].end_ns = earlier[s];
    std::vector<Cause> recorded(step_.waits.size());
    for (const auto& [number, what, begin_ns, i] : calls) {
      if (what == kRecord) {
        recorded[i] = over[step_.waits[i].on_stream];
      } else if (what == kWait) {
        Cause& cause = over[step_.waits[i].stream];
        if (recorded[i].end_ns > cause.end_ns) cause = recorded[i];
      } else {
        const PathOperation& o = step_.operations[i];
        const Cause& cause = over[o.stream];
        // What did not come before, by the stamps, was not waited for: launches of several threads, nodes of a graph.
        const bool is_before =
            cause.end_ns <= o.interval.begin_ns + kStampErrorNs &&
            (!cause.operation || step_.operations[*cause.operation].interval.begin_ns < o.interval.begin_ns);
        if (is_before) causes_[i] = cause;
        over[o.stream] = {o.interval.end_ns, i};
      }
    }
    for (size_t s = 0; s < earlier.size(); ++s) earlier[s] = std::max(earlier[s], over[s].end_ns);
  }

  void find_host_waits(const EarlierEnds& earlier) {
    const std::vector<PathOperation>& all = step_.operations;
    std::vector<size_t> by_end(all.size());
    for (size_t i = 0; i < all.size(); ++i) by_end[i] = i;
    const auto end_of = [&](size_t i) { return all[i].interval.end_ns; };
    std::sort(by_end.begin(), by_end.end(),
              [&](size_t a, size_t b) { return std::pair(end_of(a), a) < std::pair(end_of(b), b); });
    std::vector<int64_t> earlier_ends = earlier;
    std::sort(earlier_ends.begin(), earlier_ends.end());
    for (const PathSynchronization& s : step_.synchronizations) {
      // The last thing to end before the call returned, of what had been launched before it.
      const int64_t latest_ns = s.call.end_ns + kStampErrorNs;
      Cause cause{s.call.begin_ns};
      bool is_released = false;
      int64_t earlier_ns = INT64_MIN;
      if (s.stream) {
        earlier_ns = earlier[*s.stream];
      } else if (const auto later = std::upper_bound(earlier_ends.begin(), earlier_ends.end(), latest_ns);
                 later != earlier_ends.begin()) {
        earlier_ns = *(later - 1);
      }
      if (earlier_ns > cause.end_ns && earlier_ns <= latest_ns) {
        cause.end_ns = earlier_ns;
        is_released = true;
      }
      auto after = std::upper_bound(by_end.begin(), by_end.end(), latest_ns,
                                    [&](int64_t ns, size_t i) { return ns < end_of(i); });
      while (after != by_end.begin() && end_of(*--after) > cause.end_ns) {
        const PathOperation& o = all[*after];
        const int64_t given_ns = o.launch ? o.launch->begin_ns : o.interval.begin_ns;
        // What begins when the call is over by the stamps would lead the walk forwards.
        if (given_ns >= s.call.begin_ns || o.interval.begin_ns >= s.call.end_ns || (s.stream && o.stream != *s.stream))
          continue;
        cause = {end_of(*after), *after};
        is_released = true;
        break;
      }
      if (is_released)
        host_waits_.push_back({s.call, std::min(cause.end_ns, s.call.end_ns), cause.operation, s.name, s.region});
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const PathOperation& o = all[i];
      if (o.device_class != DeviceClass::kCopy || !o.launch || end_of(i) <= o.launch->begin_ns ||
          end_of(i) > o.launch->end_ns)
        continue;
      if (o.interval.begin_ns < o.launch->begin_ns) continue;
      host_waits_.push_back({*o.launch, end_of(i), i, o.name, o.region});
    }
    const auto order = [](const HostWait& a, const HostWait& b) { return a.call.end_ns < b.call.end_ns; };
    std::stable_sort(host_waits_.begin(), host_waits_.end(), order);
  }

  const PathStep& step_;
  std::vector<Cause> causes_;         ///< by operation; end_ns INT64_MIN: nothing is known of any
  std::vector<HostWait> host_waits_;  ///< by the end of the call
  std::vector<HostCall> calls_;       ///< by begin
  std::vector<PathPiece> pieces_;
};

}  // namespace

const char* name_of(PathKind kind) {
  switch (kind) {
    case PathKind::kHost:
      return "host";
    case PathKind::kLaunch:
      return "launch";
    case PathKind::kBetween:
      return "between";
    case PathKind::kCompute:
      return "compute";
    case PathKind::kWait:
      return "wait";
    case PathKind::kTransfer:
      return "transfer";
    case PathKind::kCollective:
      return "collective";
    case PathKind::kCopy:
      return "copy";
    case PathKind::kUnknown:
      break;
  }
  return "unknown";
}

std::vector<PathPiece> critical_path(const PathStep& step, EarlierEnds& earlier) {
  return PathWalk(step, earlier).walk();
}

}  // namespace ddl
