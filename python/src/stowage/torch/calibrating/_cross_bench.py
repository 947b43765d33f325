"""Small benchmarks of what CPUs and GPUs together add to either: values that go from one memory to the other, GPUs that a thread gives
op by op (_lanes.py, whose own ways are timed here), and threads of one interpreter, which slow each other down."""
from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Sequence

import torch

from ..predicting._predict import Link, Links, Times
from ..running._devices import Spec
from ..running._lanes import Lane, Lanes
from ..running._workers import on_device
from ..tracing._trace import Nodes
from ._cuda_bench import SIZES, bandwidth_table
from ._host_bench import dependency, in_place, quickest, step_on

_WARM, _REPEATS = 4, 15


def links(specs: Sequence[Spec]) -> Links:
    """What a machine file says of the links between CPUs and GPUs. All CPUs reach a GPU alike, and all of its shares."""
    cpus = [d for d, spec in enumerate(specs) if spec.gpu is None]
    gpus = [d for d, spec in enumerate(specs) if spec.gpu is not None]
    known: dict[Any, tuple[Link, Link]] = {}
    found = {}
    for g in gpus:
        gpu = specs[g].gpu
        if gpu not in known:
            known[gpu] = _both_ways(specs[cpus[0]], specs[g])
        for c in cpus:
            found[c, g], found[g, c] = known[gpu]
    return found


def _both_ways(cpu: Spec, gpu: Spec) -> tuple[Link, Link]:
    """To the GPU, and from it. The thread of the GPU begins all copies, which is what they take from it; a CPU only hands a value over, or
    takes it."""
    hop, give, take = dependency(cpu, gpu)
    lanes = Lanes([gpu], copies=False)
    lane = lanes.get(0)
    assert lane is not None
    lanes.begin()
    to_gpu, from_gpu = on_device(gpu, lambda: lane.run(lambda: _copies(lane, lanes)))
    more = [_per_byte(copies) for copies in (to_gpu, from_gpu)]
    return ((_link(to_gpu, hop, send=give, receive=min(issued for issued, _ in to_gpu)), (0.0, more[0])),
            (_link(from_gpu, hop, send=min(issued for issued, _ in from_gpu), receive=take), (more[1], 0.0)))  # fmt: skip


def _per_byte(copies: Sequence[tuple[float, float]]) -> float:
    """Microseconds by which beginning a large copy takes longer: one from memory that is not pinned goes through the thread's hands."""
    return max(copies[-1][0] - copies[0][0], 0.0) / SIZES[-1]


def _link(copies: Sequence[tuple[float, float]], hop: float, send: float, receive: float) -> dict[str, Any]:
    whole = [us for _, us in copies]
    issued = copies[0][0]  # it stands among the charges already
    return {"bandwidth_bytes_per_s": bandwidth_table(whole), "latency_us": round(hop + max(whole[0] - issued, 0.0), 3),
            "send_us": round(send, 3), "receive_us": round(receive, 3)}  # fmt: skip


def _copies(lane: Lane, lanes: Lanes) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """For each size what it takes to begin a copy, and until it is there: microseconds, to the GPU and from it."""
    to_gpu, from_gpu = [], []
    for size in SIZES:
        here, there = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8, device=lane.device)
        lane.stream.synchronize()  # it fills them
        arrived = torch.cuda.Event()
        to_gpu.append(_timed(lambda: lane.copied_in(here, None, arrived), arrived, lanes))  # noqa: B023
        from_gpu.append(_timed(lambda: lane.copied_out(there, None, arrived), arrived, lanes))  # noqa: B023
    return to_gpu, from_gpu


def _timed(copy: Callable[[], Any], arrived: Any, lanes: Lanes) -> tuple[float, float]:
    found = []
    for _ in range(_WARM + _REPEATS):
        begin = time.perf_counter()
        copy()
        issued = time.perf_counter()
        arrived.synchronize()
        found.append((1e6 * (issued - begin), 1e6 * (time.perf_counter() - begin)))
        lanes.end()
    return statistics.median(f[0] for f in found[_WARM:]), statistics.median(f[1] for f in found[_WARM:])


def times(nodes: Nodes, specs: Sequence[Spec], kinds: Sequence[str]) -> tuple[Times, Times]:
    """Microseconds that the thread of a device takes for each op, by kind, alone and with the threads of all devices at work: that of a CPU
    computes it, that of a GPU issues it. No op takes less, however short its kernels are."""
    return in_place([step_on(nodes, spec, True, Lanes([spec], copies=False) if spec.gpu is not None else None) for spec in specs], kinds)


def whole_steps(nodes: Nodes, specs: Sequence[Spec], kinds: Sequence[str]) -> dict[str, float]:
    """Microseconds of the whole step on each kind of GPU, issued op by op as plans are."""
    found = {}
    for spec, kind in zip(specs, kinds):
        if spec.gpu is not None and kind not in found:
            step = step_on(nodes, spec, False, Lanes([spec], copies=False))
            try:
                found[kind] = 1e6 * statistics.fmean(quickest(step.times(_WARM + _REPEATS)[_WARM:]))
            finally:
                step.close()
    return found
