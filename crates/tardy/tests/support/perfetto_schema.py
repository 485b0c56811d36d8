"""Reads a trace for Perfetto with the published schema, and holds it against what trace-cmd and `tardy explain` say. `cargo xtask perfetto` runs it.

Arguments: the trace for Perfetto; what `trace-cmd report -R -t` prints of the same trace, compressed; `tardy explain --json` of it with all wake-ups;
the same as text.
"""

import gzip
import json
import re
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def switches_of_trace_cmd(path):
    fields = r"prev_comm=(.*) prev_pid=(\d+) prev_prio=(\d+) prev_state=(\d+) next_comm=(.*) next_pid=(\d+) next_prio=(\d+)"
    line = re.compile(r".* \[(\d+)\] +(\d+)\.(\d{9}): sched_switch: +" + fields)
    for text in gzip.open(path, "rt"):
        if found := line.match(text.rstrip()):
            cpu, seconds, nanos, *rest = found.groups()
            yield int(cpu), int(seconds) * 10**9 + int(nanos), *rest


def switches_of_perfetto(trace):
    for packet in trace.packet:
        for event in packet.ftrace_events.event:
            if event.HasField("sched_switch"):
                switch = event.sched_switch
                assert event.pid == switch.prev_pid
                values = (switch.prev_comm, switch.prev_pid, switch.prev_prio, switch.prev_state, switch.next_comm, switch.next_pid, switch.next_prio)
                yield packet.ftrace_events.cpu, event.timestamp, *map(str, values)


def slices(trace):
    """Begin, end, depth, name; in the order of their begins."""
    found, open_slices = [], {}
    for packet in trace.packet:
        if packet.HasField("track_event"):
            event = packet.track_event
            stack = open_slices.setdefault(event.track_uuid, [])
            if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
                stack.append(len(found))
                found.append([packet.timestamp, None, len(stack), event.name])
            else:
                assert event.type == schema.TrackEvent.TYPE_SLICE_END
                found[stack.pop()][1] = packet.timestamp
    assert not any(open_slices.values()), "a slice without an end"
    return found


def unknown_fields(message, path):
    """The paths of fields that the schema has not."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    for field in UnknownFieldSet(message):
        yield f"{path}.{field.field_number}"
    for descriptor, value in message.ListFields():
        if descriptor.message_type:
            for one in [value] if hasattr(value, "ListFields") else value:
                yield from unknown_fields(one, f"{path}.{descriptor.name}")


def main(perfetto, report, explanation, text):
    trace = schema.Trace()
    trace.ParseFromString(open(perfetto, "rb").read())
    unknown = set(unknown_fields(trace, "trace"))
    assert not unknown, unknown

    expected, found = sorted(switches_of_trace_cmd(report)), sorted(switches_of_perfetto(trace))
    assert expected and found == expected, "switches differ"

    stories = sorted(json.load(open(explanation))["worst"], key=lambda story: story["due_ns"] + story["lateness_ns"])
    # In the text, each piece of a wake-up has a bar, and after it the name of the thread or handler that had the CPU.
    told = [re.findall(r"^ +\|.{32}\| +\S+ \S+  (.*)$", part, re.M) for part in open(text).read().split("\nWorst ")[1:]]
    names = {story["due_ns"]: names for story, names in zip(json.load(open(explanation))["worst"], told, strict=True)}
    parts = {
        "timer": "due time to timer interrupt",
        "interrupt": "timer interrupt to the timer's function",
        "expiry": "the timer's function to wake-up",
        "switch": "wake-up to running",
    }
    wanted = []
    for story in stories:
        due = story["due_ns"]
        wanted.append([due, due + story["lateness_ns"], 1, f"late by {story['lateness_ns']} ns"])
        for piece, name in zip(story["pieces"], names[due], strict=True):
            begin, end = due + piece["start_ns"], due + piece["start_ns"] + piece["length_ns"]
            part = [begin, end, 2, parts[piece["component"]]]
            before = [slice for slice in wanted if slice[2] < 3][-1]
            if before[2:] == part[2:]:
                before[1] = end
            else:
                wanted.append(part)
            name = name.removesuffix(f" on CPU {piece['cpu']}") if piece["cpu"] != story["cpu"] else name
            wanted.append([begin, end, 3, name])
    slices_found = slices(trace)
    for one, other in zip(slices_found, wanted):
        assert one == other, f"{one} in place of {other}"
    assert len(slices_found) == len(wanted)
    for depth in (1, 2, 3):
        assert sum(end - begin for begin, end, of, _ in slices_found if of == depth) == sum(story["lateness_ns"] for story in stories)

    tracks = [packet.track_descriptor.name for packet in trace.packet if packet.HasField("track_descriptor")]
    clocks = [packet.clock_snapshot for packet in trace.packet if packet.HasField("clock_snapshot")]
    assert len(clocks) == 1 and clocks[0].primary_trace_clock == schema.BUILTIN_CLOCK_MONOTONIC
    print(f"{len(found)} switches and {len(slices_found)} slices of {len(stories)} wake-ups are equal; tracks: {', '.join(tracks)}")


main(*sys.argv[1:])
