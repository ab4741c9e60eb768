#include "tui/snapshot.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace ddl::tui {
namespace {

using nlohmann::ordered_json;

template <class T>
ordered_json maybe(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json ns(const std::optional<double>& value) {
  return value ? ordered_json(static_cast<int64_t>(std::llround(*value))) : ordered_json(nullptr);
}

ordered_json text_or_null(const std::string& text) { return text.empty() ? ordered_json(nullptr) : ordered_json(text); }

ordered_json shares(const std::optional<Shares>& s, bool gpus) {
  if (!s) return nullptr;
  return {{"compute_ratio", (*s)[kCompute]},
          {"overlapped_ratio", (*s)[kOverlapped]},
          {"exposed_transfer_ratio", (*s)[kTransfer]},
          {"waiting_ratio", (*s)[kWaiting]},
          {"copy_ratio", (*s)[kCopy]},
          {"idle_ratio", gpus ? ordered_json(nullptr) : ordered_json((*s)[kIdle])}};
}

const char* name_of(Feed feed) {
  constexpr const char* kNames[] = {"waiting", "live", "stale", "hung", "ended", "replay"};
  return kNames[static_cast<size_t>(feed)];
}

}  // namespace

std::string to_json(const Snapshot& s) {
  ordered_json j;
  j["schema"] = 1;
  j["run"] = {{"name", s.name},     {"job_id", text_or_null(s.job_id)},
              {"directory", s.run}, {"ranks", s.world_size},
              {"nodes", s.nodes},   {"gpus", s.gpus}};
  j["feed"] = {{"state", name_of(s.feed)},
               {"silent_ns", ns(s.silent_ns)},
               {"ended", text_or_null(s.how_ended)},
               {"interval_s", s.interval_s}};
  j["cost"] = {{"own_cpu_ratio", maybe(s.own_cpu_ratio)},
               {"recording_overhead_ratio", maybe(s.overhead_ratio)},
               {"lost_events", s.lost},
               {"unreadable_spools", s.unreadable_spools},
               {"spools_in_turns", s.spools_in_turns}};
  j["window"] = {{"annotated", s.annotated},
                 {"steps", s.window},
                 {"first_step", maybe(s.first_step)},
                 {"last_step", maybe(s.step)},
                 {"parts", s.parts}};
  j["step"] = {{"now_ns", ns(s.now_ns)},
               {"p50_ns", ns(s.p50_ns)},
               {"p99_ns", ns(s.p99_ns)},
               {"samples_per_second", maybe(s.samples_per_s)},
               {"exposed_ratio", maybe(s.exposed_ratio)},
               {"overlap_ratio", maybe(s.overlap_ratio)},
               {"waiting_known", s.waiting_known},
               {"by_device", s.by_device},
               {"devices_unknown", s.devices_unknown},
               {"gpu_ccr_raw", s.gpu_ratios ? maybe(s.gpu_ratios->raw) : nullptr},
               {"gpu_ccr_xfer", s.gpu_ratios ? maybe(s.gpu_ratios->transfer) : nullptr},
               {"gpu_ccr_exposed", s.gpu_ratios ? maybe(s.gpu_ratios->exposed) : nullptr},
               {"shares", shares(s.shares, s.gpus)}};
  j["headline"] = {{"sentence", s.headline.text}, {"alarm", s.headline.alarm}, {"rank", maybe(s.headline.rank)}};
  j["stall"] = nullptr;
  if (s.stall)
    j["stall"] = {{"call", s.stall->call.empty() ? ordered_json() : ordered_json(s.stall->call)},
                  {"waiting", s.stall->waiting},
                  {"missing", s.stall->missing},
                  {"waited_ns", ns(s.stall->waited_ns)}};
  j["ranks"] = ordered_json::array();
  for (const RankRow& r : s.ranks) {
    j["ranks"].push_back({{"rank", r.rank},
                          {"node", r.node},
                          {"slot", r.slot},
                          {"state", name_of(r.life)},
                          {"alarm", r.alarm},
                          {"part", maybe(r.part)},
                          {"late_ns", ns(r.late_ns)},
                          {"wait_ns", ns(r.wait_ns)},
                          {"step_ns", ns(r.step_ns)},
                          {"compute_ns", ns(r.compute_ns)},
                          {"exposed_ns", ns(r.exposed_ns)},
                          {"shares", shares(r.shares, s.gpus)},
                          {"computing_ratio", maybe(r.computing_ratio)},
                          {"call", text_or_null(r.call)},
                          {"call_ns", r.call.empty() ? ordered_json(nullptr) : ns(r.call_ns)},
                          {"silent_ns", ns(r.silent_ns)},
                          {"lost_events", r.lost},
                          {"stack", text_or_null(r.stack)}});
  }
  j["collectives"] = ordered_json::array();
  for (const CollectiveRow& c : s.collectives) {
    j["collectives"].push_back({{"op", c.op},
                                {"comm", c.comm},
                                {"ranks", c.ranks},
                                {"bytes", maybe(c.bytes)},
                                {"per_step", c.per_step},
                                {"time_ns", ns(c.time_ns)},
                                {"wait_ns", ns(c.wait_ns)},
                                {"transfer_ns", ns(c.transfer_ns)},
                                {"algbw_bytes_per_second", maybe(c.algbw)},
                                {"busbw_bytes_per_second", maybe(c.busbw)},
                                {"upper_bound", c.nonblocking}});
  }
  j["axes"] = ordered_json::array();
  for (const AxisRow& a : s.axes) {
    j["axes"].push_back({{"axis", a.axis},
                         {"source", a.source},
                         {"communicators", a.communicators},
                         {"ranks", a.ranks},
                         {"per_step", a.per_step},
                         {"time_ns", ns(a.time_ns)},
                         {"wait_ns", ns(a.wait_ns)},
                         {"transfer_ns", ns(a.transfer_ns)}});
  }
  j["layers"] = ordered_json::array();
  for (const LayerRow& l : s.layers) {
    j["layers"].push_back({{"layer", l.name},
                           {"forward_ns", ns(l.forward_ns)},
                           {"backward_ns", ns(l.backward_ns)},
                           {"other_ns", ns(l.other_ns)},
                           {"comm_ns", ns(l.comm_ns)}});
  }
  j["blame"] = ordered_json::array();
  for (const auto& [pair, wait_ns] : s.blame)
    j["blame"].push_back({{"late", pair.first}, {"waiter", pair.second}, {"wait_ns", ns(wait_ns)}});
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace ddl::tui
