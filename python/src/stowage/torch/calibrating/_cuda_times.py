"""Times of a step's ops on CUDA devices, in place: within a step that runs on one device, and on all of them at once. Kernels are recorded
by PyTorch's profiler, within CUDA graphs, so that nothing but the GPU's own work is timed."""
from __future__ import annotations

import contextlib
import difflib
import statistics
import warnings
from typing import Any, Callable, NamedTuple, Optional, Sequence

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from ..._library import Error
from ..running._devices import Spec, streams_of
from ..running._program import Calls, Task, own_sources
from ..running._recorded import events_of, grouped, launched
from ..tracing._times import made_up, signature
from ..tracing._trace import Nodes
from ._cuda_bench import captured, replay_us

_STEPS = 5  # that are recorded
_APART = 0.01  # of a step: what devices begin apart at the least, and up to nine times as much


def times(nodes: Nodes, specs: Sequence[Spec], kinds: Sequence[str]) -> tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]:
    """Microseconds of each op in place, by kind: in a step on one device with the others idle, and in the same step on all devices at
    once, each with a module of its own. Small devices have others beside them to the end: large ones run the step again meanwhile.
    By themselves, over and over on the same tensors, ops find everything in the cache."""
    streams = [s[0] for s in streams_of(specs, 2)]
    steps = [_Whole(nodes, spec) for spec in specs]
    firsts = {kind: list(kinds).index(kind) for kind in kinds}
    try:
        kernels = {kind: _kernels_of(steps[d], streams[d]) for kind, d in firsts.items()}
        loads = [_Load(kind, steps[d], streams[d], kernels[kind]) for d, kind in enumerate(kinds)]
        found = {kind: _in_place(nodes, loads[d]) for kind, d in firsts.items()}
        longest = max(part.total for part in found.values())
        loads = [load._replace(count=max(1, round(longest / found[load.kind].total)), alone=found[load.kind]) for load in loads]
        together = _in_company(nodes, loads) if len(specs) > 1 else found
        alone, company = ({kind: part.each for kind, part in parts.items()} for parts in (found, together))
    except _NotRecorded as error:
        warnings.warn(f"{error}; ops are timed by themselves, where caches flatter them", stacklevel=2)
        alone, company = _one_by_one(nodes, specs, kinds, streams)
    return alone, {kind: {k: max(us, alone[kind][k]) for k, us in each.items()} for kind, each in company.items()}


class _Whole:
    """A whole step on one device: its ops one after the other, as traced, on tensors of its own."""

    def __init__(self, nodes: Nodes, spec: Spec) -> None:
        self.nodes, self.name = nodes, spec.name
        step = nodes.step
        self.sources = own_sources(step, spec.torch)
        self.calls = Calls(step, [spec.torch], updates=True, rate=0.0)
        self.last: dict[Any, list[Any]] = {}  # fx node -> what is read there for the last time
        seen: set[Any] = set()
        for n in reversed(step.graph.nodes):
            for m in n.all_input_nodes:
                if m not in seen and m.op == "call_function":
                    seen.add(m)
                    self.last.setdefault(n, []).append(m)

    def run(self, around: Callable[[int], Any] = lambda k: contextlib.nullcontext()) -> None:
        values = dict(self.sources)
        with torch.no_grad():
            for n in self.nodes.step.graph.nodes:
                if n.op != "call_function" or n not in self.nodes.id:
                    continue
                function, args, kwargs = self.calls(Task(self.nodes.id[n], n, 0))
                args, kwargs = torch.fx.node.map_arg((args, kwargs), values.__getitem__)
                with around(self.nodes.id[n]):
                    try:
                        values[n] = function(*args, **kwargs)
                    except RuntimeError as error:  # a kernel that refuses a share of the GPU, say
                        raise Error(f"{n.name} cannot run on {self.name}: {str(error).splitlines()[0]}") from error
                for m in self.last.get(n, ()):
                    values.pop(m, None)


class _NotRecorded(Exception):
    """The profiler did not tell the kernels of a step."""


class _Kernel(NamedTuple):
    op: int  # node id
    name: str
    us: float  # launched one by one


def _kernels_of(step: _Whole, stream: Any) -> list[_Kernel]:
    """The kernels of a step in their order on the device, with the ops that launch them."""
    with torch.cuda.stream(stream):
        step.run()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
            step.run(lambda k: record_function(f"stowage op {k}"))
            torch.cuda.synchronize()
    return [_Kernel(op, e["name"], e["dur"]) for op, e in launched(events_of(recorded), "stowage op")]


class _Part(NamedTuple):
    """What was measured of a step on devices of one kind."""

    each: dict[int, float]  # op -> microseconds
    total: float  # of its kernels
    gap: float  # between two kernels


class _Load(NamedTuple):
    """A device that runs the step so many times in one measurement."""

    kind: str
    step: _Whole
    stream: Any
    kernels: list[_Kernel]
    count: int = 1
    alone: Optional[_Part] = None

    def run(self) -> None:
        for _ in range(self.count):
            self.step.run()


def _in_place(nodes: Nodes, load: _Load) -> _Part:
    """On one device, with the others idle. Of each op: the time of its kernels, and for each of them an equal share of the gaps. Recording
    lengthens the gaps, so these come from a step that is not recorded."""
    graph = captured([load.stream], [load.run])
    whole = replay_us(graph, 15)
    times: list[list[float]] = [[] for _ in load.kernels]
    for _ in range(_STEPS):
        for _, events in _by_load([load], _recorded(graph)):
            _match(load, events, times)
    durations = _durations(load.kernels, times, statistics.median)
    gap = max((whole - sum(durations)) / len(durations), 0.0)
    return _part(nodes, load.kernels, durations, gap)


def _in_company(nodes: Nodes, loads: Sequence[_Load]) -> dict[str, _Part]:
    """On all devices at once. They begin apart, each time by another part of a step: in lockstep the same kernels would always meet, and
    wait for each other to be launched, as in no plan. What an op meets differs then, so the mean counts. Gaps are those of the device
    alone; recording spreads the kernels, which have less company meanwhile, so that all are stretched until they add up to a step that is not
    recorded (of devices of several kinds, which end at several times, that is not known)."""
    kernels = {load.kind: load.kernels for load in loads}
    times: dict[str, list[list[float]]] = {kind: [[] for _ in own] for kind, own in kernels.items()}
    wholes = []
    for turn in range(_STEPS):
        delays = [_APART * load.alone.total * (d * (2 * turn + 1) % 10) if load.alone else 0.0 for d, load in enumerate(loads)]
        graph = captured([load.stream for load in loads], [_delayed(load, us) for load, us in zip(loads, delays)])
        whole = replay_us(graph, 7)
        events = _recorded(graph)
        slept = [e["dur"] for e in events if _SLEEPS in e["name"]]
        wholes.append(whole - max(slept, default=0.0))
        for load, own in _by_load(loads, [e for e in events if _SLEEPS not in e["name"]]):
            _match(load, own, times[load.kind])
    found = {}
    for kind, own in kernels.items():
        durations = _durations(own, times[kind], statistics.fmean)
        alone = next(load.alone for load in loads if load.kind == kind)
        gap = alone.gap if alone is not None else 0.0
        stretched = (statistics.fmean(wholes) - gap * len(own)) / sum(durations) if len(kernels) == 1 else 1.0
        found[kind] = _part(nodes, own, [stretched * us for us in durations], gap)
    return found


_SLEEPS = "spin_kernel"  # the kernel of torch.cuda._sleep
_CYCLES = 1900  # of a microsecond, about


def _delayed(load: _Load, us: float) -> Callable[[], None]:
    def run() -> None:
        if us > 0.0:
            torch.cuda._sleep(int(us * _CYCLES))
        load.run()

    return run


def _recorded(graph: Any) -> list[dict[str, Any]]:
    """What the GPU does in a step that follows another: it is given to it meanwhile, so that all streams begin at once."""
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        graph.replay()
        graph.replay()
        torch.cuda.synchronize()
    groups = grouped(events_of(recorded), "context", "stream")
    return [event for group in groups for event in group[len(group) // 2 :]]


def _durations(kernels: Sequence[_Kernel], times: Sequence[Sequence[float]], middle: Callable[[Any], float]) -> list[float]:
    """Microseconds of each kernel; the recorder may lose some."""
    missed = sum(not measured for measured in times)
    if missed > _MOST_MISSED * len(kernels):
        raise _NotRecorded(f"{missed} of the {len(kernels)} kernels of a step were not recorded")
    return [middle(measured) if measured else kernel.us for kernel, measured in zip(kernels, times)]


def _part(nodes: Nodes, kernels: Sequence[_Kernel], durations: Sequence[float], gap: float) -> _Part:
    each = dict.fromkeys(nodes.fx, 0.0)
    for kernel, us in zip(kernels, durations):
        if kernel.op in each:
            each[kernel.op] += us + gap
    return _Part(each, sum(durations), gap)


_MOST_MISSED = 0.1  # of the kernels; the recorder may lose some


def _by_load(loads: Sequence[_Load], events: Sequence[Any]) -> list[tuple[_Load, list[Any]]]:
    """What each device recorded, in order. The recorder numbers streams as it likes; which is whose is told by how long their kernels
    take, for which those of equal devices need no telling."""
    groups = grouped(events, "context", "stream")
    if len({load.kind for load in loads}) == 1:
        return [(loads[0], group) for group in groups]
    if len(groups) != len(loads):
        groups = grouped(events, "context")  # shares of a GPU have one each
    if len(groups) != len(loads):
        raise _NotRecorded(f"{len(groups)} streams were recorded of {len(loads)} devices")
    groups.sort(key=lambda group: sum(e["dur"] for e in group) / len(group))
    return list(zip(sorted(loads, key=lambda load: load.alone.total / len(load.kernels) if load.alone else 0.0), groups))


def _match(load: _Load, events: list[Any], times: list[list[float]]) -> None:
    """Adds what one device recorded in one measurement to the times of its kernels, which are told by their order and names."""
    a, b = [kernel.name for kernel in load.kernels] * load.count, [e["name"] for e in events]
    if a == b:
        blocks = [(0, 0, len(a))]
    else:
        blocks = list(difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    for i, j, size in blocks:
        for k in range(size):
            times[(i + k) % len(load.kernels)].append(events[j + k]["dur"])


# ---- ops by themselves, where the profiler does not tell ----

_RUNS = 10  # of an op in one graph


def _one_by_one(nodes: Nodes, specs: Sequence[Spec], kinds: Sequence[str],
                streams: Sequence[Any]) -> tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]:  # fmt: skip
    known: dict[Any, tuple[dict[str, float], float]] = {}
    alone: dict[str, dict[int, float]] = {kind: {} for kind in kinds}
    company: dict[str, dict[int, float]] = {kind: {} for kind in kinds}
    for k, n in nodes.fx.items():
        key = signature(n)
        if key not in known:
            known[key] = _by_itself(n, specs, kinds, streams)
        by_kind, slowdown = known[key]
        for kind, us in by_kind.items():
            alone[kind][k], company[kind][k] = us, us * slowdown
    return alone, company


def _by_itself(n: Any, specs: Sequence[Spec], kinds: Sequence[str], streams: Sequence[Any]) -> tuple[dict[str, float], float]:
    """Microseconds of an op on each kind with the other devices idle, and how many times as long the slowest takes with the same op on
    all of them."""
    try:
        with torch.no_grad():
            rows = [_repeated(made_up(n, spec.torch)[0]) for spec in specs]
            one = {kind: ([stream], [row]) for kind, stream, row in zip(kinds, streams, rows)}
            alone = {kind: replay_us(captured(*work), 5) / _RUNS for kind, work in one.items()}
            together = replay_us(captured(streams, rows), 5) / _RUNS if len(streams) > 1 else 0.0
            return alone, max(together / max(alone.values()), 1.0)
    except RuntimeError as error:
        raise Error(f"{n.target} cannot be timed on these devices: {str(error).splitlines()[0]}") from error


def _repeated(run: Callable[[], Any]) -> Callable[[], None]:
    def row() -> None:
        for _ in range(_RUNS):
            run()

    return row
