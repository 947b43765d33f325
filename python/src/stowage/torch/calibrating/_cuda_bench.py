"""Small benchmarks of CUDA devices: kernels, copies, dependencies between streams. (_cuda_times.py has those of ops.)

All of it runs in CUDA graphs, so that nothing but the GPU's own work is timed. What a dependency takes is measured with kernels of
known length, every row beside its own reference and in turn with it:

    send       a row whose every kernel another device waits for, over one that nobody waits for
    receive    a row whose every kernel waits for one of another device that ended long before, over one that waits for none; where values
               are copied, a row of kernels that fill the device, each waiting for a copy made meanwhile, over one without copies
    latency    kernels that take turns between two devices, over the same kernels on one
"""
from __future__ import annotations

import statistics
from typing import Any, Callable, Optional, Sequence

import torch

from ..predicting._predict import Link, Links
from ..running._devices import Spec, streams_of
from ..running._streams import times_in_a_row
from ..tracing._times import device_kind

_KERNELS = 100
_LONG, _SHORT = 20000, 2000  # cycles: about 10 us and 1 us
_REPEATS = 15
SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24)  # bytes


def devices(specs: Sequence[Spec]) -> list[dict[str, Any]]:
    """What a machine file says of each."""
    measured: dict[str, dict[str, Any]] = {}
    found = []
    for spec, own in zip(specs, streams_of(specs, 2)):
        kind = _kind(spec)
        if kind not in measured:
            measured[kind] = _device(spec, own[0])
        sharing = sum(other.gpu == spec.gpu for other in specs)
        total = torch.cuda.get_device_properties(spec.gpu).total_memory
        found.append({"kind": kind, "memory_bytes": total // sharing, **measured[kind]})
    return found


def links(specs: Sequence[Spec], copies: bool) -> Links:
    """What it says of the link from one to another."""
    streams = streams_of(specs, 2)
    found, known = {}, {}
    for a, source in enumerate(specs):
        for b, target in enumerate(specs):
            if a == b:
                continue
            pair = (source, target)
            if pair not in known:
                known[pair] = _link(streams[a], streams[b], target, copies or source.gpu != target.gpu)
            found[a, b] = known[pair]
    return found


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

    return replay_us(captured([stream], [row]), 7) / count


# ---- what goes between two ----


def _link(source: Sequence[Any], target: Sequence[Any], spec: Spec, copied: bool) -> Link:
    """Of two devices, each with its stream and the stream on which it copies what it receives."""
    first, second = source[0], target[0]
    streams = [first, second]
    alone = captured(streams, [lambda: _pairs(first, second, None), None])
    send = _difference(captured(streams, [lambda: _pairs(first, second, first), None]), alone)
    alone = captured(streams, [lambda: _pairs(second, first, None), None])
    receive = _difference(captured(streams, [lambda: _pairs(second, first, first), None]), alone)
    together = captured(streams, [lambda: _turns(streams, None, None), None])
    turns = _difference(captured(streams, [lambda: _turns(streams, streams, None), None]), together)
    more = 0.0  # us per byte
    if copied:
        small, large = (_receive_copied(second, target[1], spec, size) for size in (SIZES[0], _RECEIVED))
        receive, more = max(receive, small), max(large - small, 0.0) / _RECEIVED
    send, receive = max(send, 0.0), max(receive, 0.0)
    link: dict[str, Any] = {"send_us": round(send, 3), "receive_us": round(receive, 3)}
    if not copied:  # what is not moved takes no time by its size
        return {"bandwidth_bytes_per_s": 1e15, "latency_us": round(max(turns - send - receive, 0.0), 3), **link}, (0.0, 0.0)
    found = []
    for size in SIZES:
        value = torch.zeros(size, dtype=torch.uint8, device=spec.torch)
        kept = torch.empty_like(value)
        row = lambda: _turns(streams, [source[1], target[1]], lambda: kept.copy_(value))  # noqa: E731
        found.append(_difference(captured(streams, [row, None]), together))
    latency = max(found[0] - send - receive, 0.0)
    return {"bandwidth_bytes_per_s": bandwidth_table(found), "latency_us": round(latency, 3), **link}, (0.0, more)


def _receive_copied(stream: Any, copier: Any, spec: Spec, size: int) -> float:
    """What a copy takes from the device that receives it and works meanwhile. Copies within a GPU are kernels, too, and take turns with the
    others; a sleeping kernel would not notice."""
    value = torch.zeros(size, dtype=torch.uint8, device=spec.torch)
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

    return _difference(captured([stream], [lambda: row(True)]), captured([stream], [lambda: row(False)]))


_RECEIVED = 1 << 22  # bytes: a large activation


def bandwidth_table(found: Sequence[float]) -> list[list[float]]:
    """Bytes per second by size, of transfers of SIZES that take so many microseconds; what the smallest takes is latency."""
    times: list[float] = []
    for us in found:  # more bytes never take less time
        least = times[-1] * 1.0001 if times else 0.01
        times.append(max(us - found[0], least))
    return [[size, size / (1e-6 * us)] for size, us in zip(SIZES, times)]


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
    return statistics.median((replay_us(graph, 1) - replay_us(reference, 1)) / _KERNELS for _ in range(_REPEATS))


# ---- graphs ----


def captured(streams: Sequence[Any], work: Sequence[Any]) -> Any:
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


def replay_us(graph: Any, times: int) -> float:
    """In the median of so many in a row."""
    torch.cuda.synchronize()
    return 1e6 * statistics.median(times_in_a_row(graph.replay, times))
