"""Small benchmarks of CUDA devices: kernels, copies, dependencies between streams, ops alone and in company.

All of it runs in CUDA graphs, so that nothing but the GPU's own work is timed. What a dependency takes is measured with kernels of
known length, every row beside its own reference and in turn with it:

    send       a row whose every kernel another device waits for, over one that nobody waits for
    receive    a row whose every kernel waits for one of another device that ended long before, over one that waits for none
    latency    kernels that take turns between two devices, over the same kernels on one
"""
from __future__ import annotations

import statistics
from typing import Any, Callable, Sequence

import torch

from .._library import Error
from ._devices import Spec, streams_of
from ._times import device_kind, made_up, signature
from ._trace import Nodes

_KERNELS = 100
_LONG, _SHORT = 20000, 2000  # cycles: about 10 us and 1 us
_REPEATS = 15
_SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24)  # bytes


def machine(specs: Sequence[Spec], copies: bool, name: str) -> dict[str, Any]:
    """The machine file of these devices."""
    streams = [s[0] for s in streams_of(specs)]
    kinds = {spec: _kind(spec) for spec in specs}
    measured = {kinds[spec]: _device(spec, stream) for spec, stream in zip(specs, streams)}
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


def _link(source: Any, target: Any, spec: Spec, copied: bool) -> dict[str, Any]:
    streams = [source, target]
    alone_source = _captured(streams, [lambda: _pairs(source, target, None), None])
    alone_target = _captured(streams, [lambda: _pairs(target, source, None), None])
    send = _difference(_captured(streams, [lambda: _pairs(source, target, source), None]), alone_source)
    link: dict[str, Any] = {}
    place = spec.torch
    if not copied:
        receive = _difference(_captured(streams, [lambda: _pairs(target, source, source), None]), alone_target)
        latency = _difference(_captured(streams, [lambda: _turns(streams, False), None]), _captured(streams, [lambda: _turns(streams, True), None]))
        # a value that is not moved takes no time by its size
        link = {"bandwidth_bytes_per_s": 1e15, "latency_us": max(latency - send - receive, 0.0)}
    else:
        found = []
        for size in _SIZES:
            value = torch.zeros(size, dtype=torch.uint8, device=place)
            copy = torch.empty_like(value)
            graph = _captured(streams, [lambda: _pairs(target, source, source, lambda: copy.copy_(value)), None])
            found.append(max(_difference(graph, alone_target), 0.01))
        receive = found[0]
        rises = [max(us - receive, 0.01 * (k + 1)) for k, us in enumerate(found)]
        table = [[size, size / (1e-6 * us)] for size, us in zip(_SIZES, _ascending(rises))]
        latency = _difference(_captured(streams, [lambda: _turns(streams, False), None]), _captured(streams, [lambda: _turns(streams, True), None]))
        link = {"bandwidth_bytes_per_s": table, "latency_us": max(latency - send, 0.0)}
    return {**link, "latency_us": round(link["latency_us"], 3), "send_us": round(max(send, 0.0), 3), "receive_us": round(max(receive, 0.0), 3)}


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


def _pairs(at_hand: Any, other: Any, waited_for: Any, before: Callable[[], Any] = lambda: None) -> None:
    """A long kernel of the device at hand and a short one of the other, many times; one may wait for the other."""
    for _ in range(_KERNELS):
        if waited_for is other:
            _kernel(other, _SHORT)
            _wait(at_hand, other)
            with torch.cuda.stream(at_hand):
                before()
        _kernel(at_hand, _LONG)
        if waited_for is at_hand:
            _wait(other, at_hand)
        if waited_for is not other:
            _kernel(other, _SHORT)


def _turns(streams: Sequence[Any], together: bool) -> None:
    for k in range(_KERNELS):
        stream = streams[0] if together else streams[k % 2]
        if not together and k > 0:
            _wait(stream, streams[(k + 1) % 2])
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

_RUNS = 10  # of an op in one graph


def times(nodes: Nodes, specs: Sequence[Spec], module: Any, args: tuple, kwargs: dict) -> tuple[dict[int, float], dict[int, float]]:
    """Microseconds of each op, with the other devices idle and with the same op on all of them."""
    streams = [s[0] for s in streams_of(specs)]
    known: dict[Any, tuple[float, float]] = {}
    alone, company = {}, {}
    for k, n in nodes.fx.items():
        key = signature(n)
        if key not in known:
            known[key] = _op(n, streams)
        alone[k], company[k] = known[key]
    return alone, company


def _op(n: Any, streams: Sequence[Any]) -> tuple[float, float]:
    try:
        runs = [made_up(n)[0] for _ in streams]
        with torch.no_grad():
            rows = [_repeated(run) for run in runs]
            alone = _replay_us(_captured(streams[:1], rows[:1]), 5) / _RUNS
            together = _replay_us(_captured(streams, rows), 5) / _RUNS if len(streams) > 1 else alone
    except RuntimeError as error:
        raise Error(f"{n.target} cannot be timed on these devices: {str(error).splitlines()[0]}") from error
    return alone, max(alone, together)


def _repeated(run: Callable[[], Any]) -> Callable[[], None]:
    def row() -> None:
        for _ in range(_RUNS):
            run()

    return row
