#include "reports/trace/perfetto_packets.h"

#include <utility>

#include "store/text.h"

namespace ddl::reports {
namespace {

constexpr size_t kPacketBufferBytes = 1 << 16;
constexpr uint32_t kSequence = 1;

// Field numbers.
namespace trace {
constexpr uint32_t kPacket = 1;
}
namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kInternedData = 12,
                   kSequenceFlags = 13, kTrackDescriptor = 60;
constexpr uint64_t kIncrementalStateCleared = 1, kNeedsIncrementalState = 2;
}  // namespace packet
namespace clock_snapshot {
constexpr uint32_t kClocks = 1, kClockId = 1, kClockTimestamp = 2;
constexpr uint64_t kRealtime = 1, kBoottime = 6;  // boottime: the clock of packets that name none
}  // namespace clock_snapshot
namespace descriptor {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8, kChildOrdering = 11,
                   kSiblingOrder = 12, kProcessOrdering = 19;
constexpr uint64_t kExplicitOrder = 3, kExplicitProcessOrder = 1, kRoot = 0;
constexpr uint32_t kPid = 1, kProcessName = 6, kProcessLabels = 8;
constexpr uint32_t kUnit = 3, kUnitName = 6;
constexpr uint64_t kNs = 1, kBytes = 3;
}  // namespace descriptor
namespace track_event {
constexpr uint32_t kCategory = 3, kArguments = 4, kType = 9, kNameNumber = 10, kTrack = 11, kName = 23, kCount = 30,
                   kReal = 44, kFlow = 47;
constexpr uint32_t kArgumentNameNumber = 1, kArgumentInteger = 4, kArgumentReal = 5, kArgumentText = 6;
enum Type { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };
}  // namespace track_event
namespace interned {
constexpr uint32_t kCategories = 1, kNames = 2, kArgumentNames = 3, kNumber = 1, kText = 2;
}

}  // namespace

PerfettoPackets::PerfettoPackets(Sink sink, int64_t origin_ns, int64_t realtime_ns)
    : sink_(std::move(sink)), origin_ns_(origin_ns) {
  Message root;  // no track of its own: it says that processes have an order
  root.number(descriptor::kUuid, descriptor::kRoot)
      .number(descriptor::kProcessOrdering, descriptor::kExplicitProcessOrder);
  packet_.message(packet::kTrackDescriptor, root);
  write_packet(packet_);
  if (realtime_ns == 0) return;
  constexpr int64_t kAnyMoment = 1'000'000'000;
  const auto clock = [&](uint64_t id, int64_t time_ns) {
    Message message;
    return message.number(clock_snapshot::kClockId, id).integer(clock_snapshot::kClockTimestamp, time_ns);
  };
  Message snapshot;
  snapshot.message(clock_snapshot::kClocks, clock(clock_snapshot::kBoottime, kAnyMoment))
      .message(clock_snapshot::kClocks, clock(clock_snapshot::kRealtime, realtime_ns + origin_ns + kAnyMoment));
  packet_.integer(packet::kTimestamp, kAnyMoment).message(packet::kClockSnapshot, snapshot);
  write_packet(packet_);
}

TrackId PerfettoPackets::process(int64_t number, std::string_view name, const std::vector<std::string>& labels) {
  Message process, track;
  process.integer(descriptor::kPid, number).bytes(descriptor::kProcessName, clean_text(name));
  for (const std::string& label : labels) process.bytes(descriptor::kProcessLabels, clean_text(label));
  track.number(descriptor::kUuid, next_track_)
      .message(descriptor::kProcess, process)
      .number(descriptor::kChildOrdering, descriptor::kExplicitOrder);
  track.integer(descriptor::kSiblingOrder, next_process_++);
  packet_.message(packet::kTrackDescriptor, track);
  write_packet(packet_);
  return next_track_++;
}

TrackId PerfettoPackets::track(TrackId parent, std::string_view name, int order) {
  Message track;
  track.number(descriptor::kUuid, next_track_).bytes(descriptor::kName, clean_text(name));
  if (parent != kNoTrack) track.number(descriptor::kParent, parent);
  track.integer(descriptor::kSiblingOrder, order);
  packet_.message(packet::kTrackDescriptor, track);
  write_packet(packet_);
  return next_track_++;
}

TrackId PerfettoPackets::counter(TrackId parent, std::string_view name, std::string_view unit, int order) {
  Message counter, track;
  if (unit == "bytes")
    counter.number(descriptor::kUnit, descriptor::kBytes);
  else if (unit == "ns")
    counter.number(descriptor::kUnit, descriptor::kNs);
  else if (!unit.empty())
    counter.bytes(descriptor::kUnitName, unit);
  track.number(descriptor::kUuid, next_track_)
      .bytes(descriptor::kName, clean_text(name))
      .number(descriptor::kParent, parent);
  track.message(descriptor::kCounter, counter).integer(descriptor::kSiblingOrder, order);
  packet_.message(packet::kTrackDescriptor, track);
  write_packet(packet_);
  return next_track_++;
}

void PerfettoPackets::begin(TrackId track, int64_t time_ns, const TraceEvent& e) {
  event(track, track_event::kBegin);
  describe(e);
  write_event(time_ns);
}

void PerfettoPackets::end(TrackId track, int64_t time_ns) {
  event(track, track_event::kEnd);
  write_event(time_ns);
}

void PerfettoPackets::instant(TrackId track, int64_t time_ns, const TraceEvent& e) {
  event(track, track_event::kInstant);
  describe(e);
  write_event(time_ns);
}

void PerfettoPackets::count(TrackId track, int64_t time_ns, std::variant<int64_t, double> value) {
  event(track, track_event::kCounter);
  if (const auto* integer = std::get_if<int64_t>(&value))
    event_.integer(track_event::kCount, *integer);
  else
    event_.real(track_event::kReal, std::get<double>(value));
  write_event(time_ns);
}

Message& PerfettoPackets::event(TrackId track, int type) {
  return event_.integer(track_event::kType, type).number(track_event::kTrack, track);
}

void PerfettoPackets::describe(const TraceEvent& e) {
  event_.number(track_event::kCategory, intern(categories_, interned::kCategories, e.category));
  if (e.name_is_unique)
    event_.bytes(track_event::kName, clean_text(e.name));
  else
    event_.number(track_event::kNameNumber, intern(names_, interned::kNames, e.name));
  for (const Argument& a : e.arguments) {
    Message argument;
    argument.number(track_event::kArgumentNameNumber, intern(argument_names_, interned::kArgumentNames, a.name));
    if (const auto* integer = std::get_if<int64_t>(&a.value))
      argument.integer(track_event::kArgumentInteger, *integer);
    else if (const auto* real = std::get_if<double>(&a.value))
      argument.real(track_event::kArgumentReal, *real);
    else
      argument.bytes(track_event::kArgumentText, clean_text(std::get<std::string>(a.value)));
    event_.message(track_event::kArguments, argument);
  }
  if (e.flow != 0) event_.fixed64(track_event::kFlow, e.flow);
}

uint64_t PerfettoPackets::intern(Names& names, uint32_t field, std::string_view text) {
  const auto known = names.find(text);
  if (known != names.end()) return known->second;
  const uint64_t number = names.size() + 1;
  names.emplace(text, number);
  Message name;
  name.number(interned::kNumber, number).bytes(interned::kText, clean_text(text));
  interned_.message(field, name);
  return number;
}

void PerfettoPackets::write_event(int64_t time_ns) {
  packet_.integer(packet::kTimestamp, time_ns - origin_ns_);
  if (!interned_.empty()) packet_.message(packet::kInternedData, interned_);
  packet_.message(packet::kTrackEvent, event_);
  interned_.clear();
  event_.clear();
  write_packet(packet_);
}

void PerfettoPackets::write_packet(Message& packet) {
  packet.number(packet::kSequenceId, kSequence);
  packet.number(packet::kSequenceFlags, begun_ ? packet::kNeedsIncrementalState : packet::kIncrementalStateCleared);
  begun_ = true;
  Message trace;
  trace.message(trace::kPacket, packet);
  buffer_ += trace.encoded();
  packet.clear();
  if (buffer_.size() > kPacketBufferBytes) flush();
}

void PerfettoPackets::flush() {
  sink_(buffer_);
  buffer_.clear();
}

}  // namespace ddl::reports
