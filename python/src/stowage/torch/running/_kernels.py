"""When the ops of a step ran that is replayed as a CUDA graph: its kernels, as PyTorch's profiler records them, and whose each of them is.

The profiler does not say which op a kernel of a graph belongs to. A step that is issued op by op does: there every launch lies within a
range of its op. It launches the same kernels in the same order on each device, so that the k-th of a device's stream is the k-th of its
part of the graph; their names say whether that holds. Kernels that are not found so belong to nobody, and ops that lack one are left out.
"""
from __future__ import annotations

import difflib
from collections import Counter
from typing import Any, Callable, NamedTuple, Sequence, Union

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from ..._library import Error
from ._program import Task, Transfer
from ._recorded import Event, events_of, grouped, launched
from ._streams import Streams


class Span(NamedTuple):
    """When the kernels of an op, or a copy, ran: from the first one's begin to the last one's end, in microseconds of the profiler."""

    what: Union[Task, Transfer]
    start: float
    end: float
    kernels: int


class Replay(NamedTuple):
    """One step."""

    spans: list[Span]
    start: float
    end: float
    launched: int  #: ops and copies that launch something; those without a span were not told
    left_over: int  #: kernels that belong to nobody


class _Kernel(NamedTuple):
    of: int  # which op or copy
    name: str


class _Device(NamedTuple):
    """What a device's streams do in a step, each in its order."""

    ops: list[_Kernel]
    copies: list[_Kernel]
    context: Any  # of its kernels


def quickest(streams: Streams, runs: int) -> Replay:
    """Of so many steps in a row, as in a training loop: the quickest of those of which most was told."""
    what, devices = _issued(streams)
    steps = _recorded(streams.run, runs, sum(len(device.ops) + len(device.copies) for device in devices))
    found = [_told(what, devices, events) for events in steps]
    best = min(found, key=lambda replay: (-len(replay.spans), replay.end - replay.start))
    if not best.spans:
        raise Error("the kernels of the step's CUDA graph have other names than those of its ops, so that nobody knows whose they are")
    return best


def _issued(streams: Streams) -> tuple[list[Union[Task, Transfer]], list[_Device]]:
    """Ops and copies, and the kernels that each launches, by a step that is issued op by op."""
    what: list[Union[Task, Transfer]] = []

    def around(one: Union[Task, Transfer]) -> Any:
        what.append(one)
        return record_function(f"{_RANGE} {len(what) - 1}")

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        streams.run_apart(around)
    found = launched(events_of(recorded), _RANGE)
    devices = []
    for d in range(len(streams.specs)):
        ops = [(k, e) for k, e in found if isinstance(what[k], Task) and what[k].device == d]
        copies = [(k, e) for k, e in found if isinstance(what[k], Transfer) and what[k].target == d]  # type: ignore[union-attr]
        contexts = Counter(e["args"].get("context") for _, e in [*ops, *copies])
        context = contexts.most_common(1)[0][0] if contexts else None
        devices.append(_Device(*([_Kernel(k, _name(e)) for k, e in own] for own in (ops, copies)), context))
    return what, devices


_RANGE = "stowage launch"


def _name(event: Event) -> str:
    """Copies are called by where the memory is, which the profiler does not know of all that are in a graph."""
    return event["name"] if event["cat"] == "kernel" else event["cat"]


def _recorded(run: Callable[[], None], runs: int, count: int) -> list[list[Event]]:
    """What the GPU does in each of so many replays, behind one that does not count: the next ones are given to it while it works. All that a
    replay does has the correlation of its launch."""
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(runs + 1):
            run()
        torch.cuda.synchronize()
    events = events_of(recorded)
    steps = [own for own in grouped(events, "correlation") if 2 * len(own) > count]
    if len(steps) < 2:
        seen = sum(len(own) for own in grouped(events))
        raise Error(f"PyTorch's profiler recorded {seen} kernels and copies of {runs + 1} steps of {count}, and no whole step; another profiler "
                    "that is at work keeps them from it")  # fmt: skip
    return steps[1:]


# ---- whose a kernel is ----


def _told(what: Sequence[Union[Task, Transfer]], devices: Sequence[_Device], events: Sequence[Event]) -> Replay:
    """A replay's kernels as spans of ops and copies."""
    found: dict[int, list[Event]] = {}
    needed = Counter(kernel.of for device in devices for kernel in (*device.ops, *device.copies))
    for device, own in zip(devices, _by_device(devices, events)):
        for chain in (device.ops, device.copies):
            matched = _matched(chain, own)
            for kernel, event in matched:
                found.setdefault(kernel.of, []).append(event)
            taken = {id(event) for _, event in matched}
            own = [event for event in own if id(event) not in taken]
    spans = [Span(what[k], min(e["ts"] for e in own), max(e["ts"] + e["dur"] for e in own), len(own))
             for k, own in sorted(found.items()) if len(own) == needed[k]]  # fmt: skip
    start, end = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
    return Replay(spans, start, end, len(needed), len(events) - sum(map(len, found.values())))


def _by_device(devices: Sequence[_Device], events: Sequence[Event]) -> list[list[Event]]:
    """What each device did, in order of time: what was done in the context that it had before or, where there is none such, what is most
    like that which it is to do."""
    if len(devices) == 1:
        return grouped(events)
    groups = grouped(events, "context")  # shares of a GPU have one each
    if len(groups) < sum(bool(device.ops) for device in devices):
        groups = grouped(events, "context", "stream")
    groups.sort(key=lambda own: (own[0]["args"].get("context"), own[0]["args"].get("stream")))
    names = [Counter(map(_name, own)) for own in groups]

    def fit(d: int, g: int) -> tuple[bool, int]:
        expected = Counter(kernel.name for kernel in (*devices[d].ops, *devices[d].copies))
        alike = 2 * sum((expected & names[g]).values()) - len(groups[g])
        return groups[g][0]["args"].get("context") == devices[d].context, alike

    own: list[list[Event]] = [[] for _ in devices]
    given: set[int] = set()
    pairs = [(d, g) for d in range(len(devices)) for g in range(len(groups))]
    for d, g in sorted(pairs, key=lambda pair: fit(*pair), reverse=True):
        if not own[d] and g not in given:
            own[d] = groups[g]
            given.add(g)
    return own


def _matched(chain: Sequence[_Kernel], events: Sequence[Event]) -> list[tuple[_Kernel, Event]]:
    """The kernels of a chain and their events, by order and name: of one stream if it has just these, else of all, as far as they are in
    that order."""
    expected = [kernel.name for kernel in chain]
    for own in (events, *grouped(events, "stream")):
        if [_name(e) for e in own] == expected:
            return list(zip(chain, own))
    blocks = difflib.SequenceMatcher(None, expected, [_name(e) for e in events], autojunk=False).get_matching_blocks()
    return [(chain[i + k], events[j + k]) for i, j, size in blocks for k in range(size)]
