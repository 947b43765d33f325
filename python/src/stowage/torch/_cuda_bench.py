"""Small benchmarks of CUDA devices: kernels, copies, dependencies between streams, ops alone and in company.

All of it runs in CUDA graphs, so that nothing but the GPU's own work is timed. What a dependency takes is measured with kernels of
known length, every row beside its own reference and in turn with it:

    send       a row whose every kernel another device waits for, over one that nobody waits for
    receive    a row whose every kernel waits for one of another device that ended long before, over one that waits for none; where values
               are copied, a row of kernels that fill the device, each waiting for a copy made meanwhile, over one without copies
    latency    kernels that take turns between two devices, over the same kernels on one
"""
from __future__ import annotations

import bisect
import contextlib
import difflib
import json
import os
import statistics
import tempfile
import warnings
from typing import Any, Callable, NamedTuple, Optional, Sequence

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from .._library import Error
from ._devices import Spec, streams_of
from ._program import Calls, Task, own_sources
from ._times import device_kind, made_up, signature
from ._trace import Nodes

_KERNELS = 100
_LONG, _SHORT = 20000, 2000  # cycles: about 10 us and 1 us
_REPEATS = 15
_SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24)  # bytes


def machine(specs: Sequence[Spec], copies: bool, name: str) -> dict[str, Any]:
    """The machine file of these devices."""
    streams = streams_of(specs, 2)
    kinds = {spec: _kind(spec) for spec in specs}
    measured = {kinds[spec]: _device(spec, own[0]) for spec, own in zip(specs, streams)}
    devices = []
    for k, spec in enumerate(specs):
        sharing = sum(other.gpu == spec.gpu for other in specs)
        total = torch.cuda.get_device_properties(spec.gpu).total_memory
        devices.append({"name": f"{k}:{spec.name}", "kind": kinds[spec], "memory_bytes": total // sharing, **measured[kinds[spec]]})
    links, known = [], {}
    for a, source in enumerate(specs):
        for b, target in enumerate(specs):
            if a == b:
                continue
            pair = (source, target)
            if pair not in known:
                known[pair] = _link(streams[a], streams[b], target, copies or source.gpu != target.gpu)
            links.append({"from": devices[a]["name"], "to": devices[b]["name"], **known[pair]})
    return {"format": "machine", "version": 1, "name": name, "contention": "queue", "devices": devices, "links": links}


def _kind(spec: Spec) -> str:
    kind = device_kind(spec.torch)
    return f"{kind}-sm{spec.sms}" if spec.sms else kind


# ---- a device by itself ----


def _device(spec: Spec, stream: Any) -> dict[str, Any]:
    place = spec.torch
    empty = _row_us(stream, lambda: torch.cuda._sleep(1), _KERNELS)
    small = torch.zeros(1, device=place)
    launch = max(empty, _row_us(stream, lambda: small.add_(1), _KERNELS))
    rates = {}
    for key, dtype, tf32 in (("f32", torch.float32, False), ("tf32", torch.float32, True), ("bf16", torch.bfloat16, False)):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a = torch.randn(4096, 4096, device=place, dtype=dtype)
        rates[key] = 2 * 4096**3 / (1e-6 * _row_us(stream, lambda: a @ a, 3))
        torch.backends.cuda.matmul.allow_tf32 = before
    big = torch.empty(1 << 28, dtype=torch.uint8, device=place)
    target = torch.empty_like(big)
    bandwidth = 2 * big.numel() / (1e-6 * _row_us(stream, lambda: target.copy_(big), 3))
    efficiency = {"matmul": 0.8, "elementwise": 0.8}
    return {"launch_us": round(launch, 3), "flops_per_s": {k: float(f"{v:.4g}") for k, v in rates.items()},
            "bandwidth_bytes_per_s": float(f"{bandwidth:.4g}"), "efficiency": efficiency}  # fmt: skip


def _row_us(stream: Any, run: Callable[[], Any], count: int) -> float:
    """Of one of so many runs in a row."""
    def row() -> None:
        for _ in range(count):
            run()

    return _replay_us(_captured([stream], [row]), 7) / count


# ---- what goes between two ----


def _link(source: Sequence[Any], target: Sequence[Any], spec: Spec, copied: bool) -> dict[str, Any]:
    """Of two devices, each with its stream and the stream on which it copies what it receives."""
    first, second = source[0], target[0]
    streams = [first, second]
    alone = _captured(streams, [lambda: _pairs(first, second, None), None])
    send = _difference(_captured(streams, [lambda: _pairs(first, second, first), None]), alone)
    alone = _captured(streams, [lambda: _pairs(second, first, None), None])
    receive = _difference(_captured(streams, [lambda: _pairs(second, first, first), None]), alone)
    together = _captured(streams, [lambda: _turns(streams, None, None), None])
    turns = _difference(_captured(streams, [lambda: _turns(streams, streams, None), None]), together)
    if copied:
        receive = max(receive, _receive_copied(second, target[1], spec))
    send, receive = max(send, 0.0), max(receive, 0.0)
    link: dict[str, Any] = {"send_us": round(send, 3), "receive_us": round(receive, 3)}
    if not copied:  # what is not moved takes no time by its size
        return {"bandwidth_bytes_per_s": 1e15, "latency_us": round(max(turns - send - receive, 0.0), 3), **link}
    found = []
    for size in _SIZES:
        value = torch.zeros(size, dtype=torch.uint8, device=spec.torch)
        kept = torch.empty_like(value)
        row = lambda: _turns(streams, [source[1], target[1]], lambda: kept.copy_(value))  # noqa: E731
        found.append(_difference(_captured(streams, [row, None]), together))
    latency = max(found[0] - send - receive, 0.0)
    table = [[size, size / (1e-6 * us)] for size, us in zip(_SIZES, _ascending([max(us - found[0], 0.01) for us in found]))]
    return {"bandwidth_bytes_per_s": table, "latency_us": round(latency, 3), **link}


def _receive_copied(stream: Any, copier: Any, spec: Spec) -> float:
    """What a copy takes from the device that receives it and works meanwhile. Copies within a GPU are kernels, too, and take turns with the
    others; a sleeping kernel would not notice."""
    value = torch.zeros(_RECEIVED, dtype=torch.uint8, device=spec.torch)
    kept = torch.empty_like(value)
    a = torch.randn(1024, 2048, device=spec.torch, dtype=torch.bfloat16)
    b, c = a.t().contiguous(), torch.empty(1024, 1024, device=spec.torch, dtype=torch.bfloat16)

    def row(copies: bool) -> None:
        over: list[Any] = [None, None]  # events of the last two kernels: a copy runs beside the last one
        for _ in range(_KERNELS):
            if copies and over[0] is not None:
                copier.wait_event(over[0])
                with torch.cuda.stream(copier):
                    kept.copy_(value)
                _wait(stream, copier)
            with torch.cuda.stream(stream):
                torch.mm(a, b, out=c)
            event = torch.cuda.Event()
            event.record(stream)
            over = [over[1], event]

    return _difference(_captured([stream], [lambda: row(True)]), _captured([stream], [lambda: row(False)]))


_RECEIVED = 1 << 20  # bytes: an activation of middling size


def _ascending(values: Sequence[float]) -> list[float]:
    """More bytes never take less time."""
    found: list[float] = []
    for value in values:
        found.append(max(value, found[-1] * 1.0001) if found else value)
    return found


def _kernel(stream: Any, cycles: int) -> None:
    with torch.cuda.stream(stream):
        torch.cuda._sleep(cycles)


def _wait(later: Any, first: Any) -> None:
    event = torch.cuda.Event()
    event.record(first)
    later.wait_event(event)


def _pairs(at_hand: Any, other: Any, waited_for: Any) -> None:
    """A long kernel of the device at hand and a short one of the other, many times; one may wait for the other."""
    for _ in range(_KERNELS):
        if waited_for is other:
            _kernel(other, _SHORT)
            _wait(at_hand, other)
        _kernel(at_hand, _LONG)
        if waited_for is at_hand:
            _wait(other, at_hand)
        if waited_for is not other:
            _kernel(other, _SHORT)


def _turns(streams: Sequence[Any], between: Optional[Sequence[Any]], copy: Optional[Callable[[], Any]]) -> None:
    """Short kernels, all on one stream, or by turns on two; `between` them the value is copied on these streams."""
    for k in range(_KERNELS):
        stream = streams[0] if between is None else streams[k % 2]
        if between is not None and k > 0:
            before = streams[(k + 1) % 2]
            if copy is not None:
                _wait(between[k % 2], before)
                with torch.cuda.stream(between[k % 2]):
                    copy()
                before = between[k % 2]
            _wait(stream, before)
        _kernel(stream, _SHORT)


def _difference(graph: Any, reference: Any) -> float:
    """Microseconds per kernel by which one takes longer than the other."""
    return statistics.median((_replay_us(graph, 1) - _replay_us(reference, 1)) / _KERNELS for _ in range(_REPEATS))


# ---- graphs ----


def _captured(streams: Sequence[Any], work: Sequence[Any]) -> Any:
    """A CUDA graph of what is put on these streams, each list of work on its own."""
    for stream, do in zip(streams, work):  # kernels are loaded and handles made before the capture
        if do is not None:
            with torch.cuda.stream(stream):
                do()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=streams[0]):
        for stream in streams[1:]:
            _wait(stream, streams[0])
        for stream, do in zip(streams, work):
            if do is not None:
                with torch.cuda.stream(stream):
                    do()
        for stream in streams[1:]:
            _wait(streams[0], stream)
    graph.replay()
    torch.cuda.synchronize()
    return graph


def _replay_us(graph: Any, times: int) -> float:
    found = []
    for _ in range(times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(1e3 * begin.elapsed_time(end))
    return statistics.median(found)


# ---- ops ----

_STEPS = 5  # that are recorded


def times(nodes: Nodes, specs: Sequence[Spec]) -> tuple[dict[int, float], dict[int, float]]:
    """Microseconds of each op in place: in a step on one device with the others idle, and in the same step on all devices at once, each
    with a module of its own. By themselves, over and over on the same tensors, ops find everything in the cache."""
    streams = [s[0] for s in streams_of(specs, 2)]
    steps = [_Whole(nodes, spec) for spec in specs]
    try:
        kernels = _kernels_of(steps[0], streams[0])
        alone = _in_place(nodes, kernels, streams[:1], steps[:1])
        company = _in_place(nodes, kernels, streams, steps) if len(specs) > 1 else alone
    except _NotRecorded as error:
        warnings.warn(f"{error}; ops are timed by themselves, where caches flatter them", stacklevel=2)
        alone, company = _one_by_one(nodes, streams)
    return alone, {k: max(us, alone[k]) for k, us in company.items()}


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
    events = _events(recorded)
    ranges = sorted((e["ts"], e["ts"] + e["dur"], int(e["name"].split()[-1])) for e in events
                    if e.get("cat") == "user_annotation" and e["name"].startswith("stowage op "))  # fmt: skip
    begins = [r[0] for r in ranges]
    op_of: dict[int, int] = {}  # by correlation of a launch with what it launched
    for e in events:
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {}):
            at = bisect.bisect_right(begins, e["ts"]) - 1
            if at >= 0 and e["ts"] <= ranges[at][1]:
                op_of[e["args"]["correlation"]] = ranges[at][2]
    on_device = sorted((e for e in events if e.get("cat") in _ON_DEVICE), key=lambda e: e["ts"])
    return [_Kernel(op_of[e["args"]["correlation"]], e["name"], e["dur"]) for e in on_device if e["args"].get("correlation") in op_of]


_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def _events(recorded: Any) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        recorded.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            return [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]


def _in_place(nodes: Nodes, kernels: list[_Kernel], streams: Sequence[Any], steps: Sequence[_Whole]) -> dict[int, float]:
    """Of each op: the time of its kernels, and for each of them an equal share of the gaps. Recording lengthens the gaps, so these come
    from a step that is not recorded."""
    graph = _captured(streams, [step.run for step in steps])
    whole = _replay_us(graph, 15)
    times: list[list[float]] = [[] for _ in kernels]
    for _ in range(_STEPS):
        with profile(activities=[ProfilerActivity.CUDA]) as recorded:
            graph.replay()
            torch.cuda.synchronize()
        by_stream: dict[Any, list[Any]] = {}
        for e in _events(recorded):
            if e.get("cat") in _ON_DEVICE:
                by_stream.setdefault((e["args"].get("context"), e["args"].get("stream")), []).append(e)
        for events in by_stream.values():
            _match(kernels, sorted(events, key=lambda e: e["ts"]), times)
    missed = sum(not found for found in times)
    if missed > _MOST_MISSED * len(kernels):
        raise _NotRecorded(f"{missed} of the {len(kernels)} kernels of a step were not recorded")
    durations = [statistics.median(found) if found else kernel.us for kernel, found in zip(kernels, times)]
    gap = max((whole - sum(durations)) / len(durations), 0.0)
    each = dict.fromkeys(nodes.fx, 0.0)
    for kernel, us in zip(kernels, durations):
        if kernel.op in each:
            each[kernel.op] += us + gap
    return each


_MOST_MISSED = 0.1  # of the kernels; the recorder may lose some


def _match(kernels: list[_Kernel], events: list[Any], times: list[list[float]]) -> None:
    """Adds what one device recorded in one step to the times of its kernels, which are told by their order and names."""
    a, b = [kernel.name for kernel in kernels], [e["name"] for e in events]
    if a == b:
        blocks = [(0, 0, len(a))]
    else:
        blocks = list(difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    for i, j, size in blocks:
        for k in range(size):
            times[i + k].append(events[j + k]["dur"])


# ---- ops by themselves, where the profiler does not tell ----

_RUNS = 10  # of an op in one graph


def _one_by_one(nodes: Nodes, streams: Sequence[Any]) -> tuple[dict[int, float], dict[int, float]]:
    known: dict[Any, tuple[float, float]] = {}
    alone, company = {}, {}
    for k, n in nodes.fx.items():
        key = signature(n)
        if key not in known:
            known[key] = _by_itself(n, streams)
        alone[k], company[k] = known[key]
    return alone, company


def _by_itself(n: Any, streams: Sequence[Any]) -> tuple[float, float]:
    """Microseconds of an op with the other devices idle, and with the same op on all of them."""
    try:
        with torch.no_grad():
            rows = [_repeated(made_up(n)[0]) for _ in streams]
            alone = _replay_us(_captured(streams[:1], rows[:1]), 5) / _RUNS
            return alone, _replay_us(_captured(streams, rows), 5) / _RUNS if len(streams) > 1 else alone
    except RuntimeError as error:
        raise Error(f"{n.target} cannot be timed on these devices: {str(error).splitlines()[0]}") from error


def _repeated(run: Callable[[], Any]) -> Callable[[], None]:
    def row() -> None:
        for _ in range(_RUNS):
            run()

    return row
