"""Reads a Perfetto trace as trace_processor does, by the description in perfetto.proto: packets in the order of time (of equal times in that of the file), names by
their numbers, slices by a stack per track. Whatever is not well-formed is an AssertionError."""
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

STATE_CLEARED, NEEDS_STATE = 1, 2
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
REALTIME, BOOTTIME = 1, 6


def load_messages():
    """The classes that protoc makes of perfetto.proto."""
    with tempfile.TemporaryDirectory(prefix="ddl-test-") as folder:
        subprocess.run(["protoc", f"-I{Path(__file__).parent}", f"--python_out={folder}", "perfetto.proto"], check=True)
        sys.path.insert(0, folder)
        try:
            import perfetto_pb2
        finally:
            sys.path.remove(folder)
    return perfetto_pb2


@dataclass
class Slice:
    track: int
    category: str
    name: str
    start: int
    arguments: dict
    flows: tuple
    parent: "Slice" = None
    end: int = None
    children: list = field(default_factory=list)

    @property
    def duration(self):
        return self.end - self.start


class Trace:
    def __init__(self, encoded, messages):
        trace = messages.Trace()
        assert trace.MergeFromString(encoded) == len(encoded)
        assert not unknown_fields(trace), "fields that perfetto.proto does not know"
        self.tracks, self.processes, self.names = {}, {}, {}
        self.slices, self.instants, self.counts = [], [], {}
        self.clocks = {}
        events = []
        for number, packet in enumerate(trace.packet):
            assert packet.trusted_packet_sequence_id == 1
            assert packet.sequence_flags == (NEEDS_STATE if number else STATE_CLEARED), "state of interned names"
            for kind in ("event_categories", "event_names", "debug_annotation_names"):
                for entry in getattr(packet.interned_data, kind):
                    assert entry.iid > 0 and (kind, entry.iid) not in self.names, "a number is given twice"
                    self.names[kind, entry.iid] = entry.name
            if packet.HasField("track_descriptor"):
                self.add_track(packet.track_descriptor)
            elif packet.HasField("clock_snapshot"):
                self.clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            else:
                assert packet.HasField("track_event") and packet.HasField("timestamp")
                assert packet.timestamp < 1 << 63, "a time before zero"
                # Names must be there before they are used, in the order of the file.
                events.append((packet.timestamp, number, self.resolve(packet.track_event)))
        open_slices = {}
        for time, _, (event, category, name, arguments) in sorted(events, key=lambda e: e[:2]):
            assert event.track_uuid in self.tracks, "an event on a track that nobody described"
            stack = open_slices.setdefault(event.track_uuid, [])
            if event.type == BEGIN:
                parent = stack[-1] if stack else None
                stack.append(Slice(event.track_uuid, category, name, time, arguments, tuple(event.flow_ids), parent))
                if parent:
                    parent.children.append(stack[-1])
                self.slices.append(stack[-1])
            elif event.type == END:
                assert stack, f"an end without a begin on {self.tracks[event.track_uuid].name}"
                stack.pop().end = time
            elif event.type == INSTANT:
                self.instants.append(Slice(event.track_uuid, category, name, time, arguments, ()))
            else:
                assert event.type == COUNTER and self.tracks[event.track_uuid].HasField("counter")
                value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
                self.counts.setdefault(event.track_uuid, []).append((time, value))
        assert not any(open_slices.values()), "a slice that never ends"
        for s in self.slices:
            assert s.end >= s.start, "a negative duration"
            assert s.parent is None or (s.parent.start <= s.start and s.end <= s.parent.end), f"{s.name} is not inside of {s.parent.name}"

    def add_track(self, descriptor):
        if descriptor.HasField("process_ordering"):
            assert descriptor.uuid == 0 and not self.tracks, "the root comes first"
            return
        assert descriptor.uuid > 0 and descriptor.uuid not in self.tracks, "a track is described twice"
        assert not descriptor.HasField("parent_uuid") or descriptor.parent_uuid in self.tracks, "a track without its parent"
        self.tracks[descriptor.uuid] = descriptor
        if descriptor.HasField("process"):
            assert descriptor.process.pid > 0 and descriptor.process.pid not in (p.pid for p in self.processes.values())
            self.processes[descriptor.uuid] = descriptor.process

    def resolve(self, event):
        category = "".join(self.names["event_categories", iid] for iid in event.category_iids)
        name = self.names["event_names", event.name_iid] if event.HasField("name_iid") else event.name
        arguments = {}
        for a in event.debug_annotations:
            key = self.names["debug_annotation_names", a.name_iid]
            assert key not in arguments
            arguments[key] = a.int_value if a.HasField("int_value") else a.double_value if a.HasField("double_value") else a.string_value
        return event, category, name, arguments

    def process_of(self, track):
        """The pid of its process, None if it is of the run."""
        while track not in self.processes:
            if not self.tracks[track].HasField("parent_uuid"):
                return None
            track = self.tracks[track].parent_uuid
        return self.processes[track].pid

    def of(self, *categories):
        return [s for s in self.slices if s.category in categories]

    def counters(self):
        """(pid, name of the track) -> [(time, value)]"""
        found = {}
        for track, values in self.counts.items():
            key = (self.process_of(track), self.tracks[track].name)
            assert key not in found, f"two counter tracks {key}"
            found[key] = values
        return found


def unknown_fields(message):
    """Does the message, or one in it, hold a field that its description does not name? They are thrown away."""
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return message.ByteSize() != size
