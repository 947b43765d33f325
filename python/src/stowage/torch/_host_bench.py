"""Small benchmarks of CPU devices: threads on cores of their own, which share the memory.

Times of ops are taken in place, in a step that runs on one device: calls by themselves find their data in other caches. In company the same step runs on all devices at once.
"""
from __future__ import annotations

import statistics
import threading
import time
from typing import Any, Sequence

import torch

from ._devices import Spec
from ._shared import memory_bytes
from ._trace import Nodes
from ._workers import Workers, on_device, whole_step

_WARM, _REPEATS = 4, 15  # steps


def machine(specs: Sequence[Spec], copies: bool, name: str) -> dict[str, Any]:
    """The machine file of these devices."""
    measured = {len(spec.cores): _device(spec) for spec in specs}
    memory = memory_bytes() // len(specs)
    devices = [{"name": f"{k}:{spec.name}", "kind": f"cpu{len(spec.cores)}", "memory_bytes": memory, **measured[len(spec.cores)]}
               for k, spec in enumerate(specs)]  # fmt: skip
    latency, send, receive = _dependency(specs) if len(specs) > 1 else (0.0, 0.0, 0.0)
    link = {"bandwidth_bytes_per_s": 1e15, "latency_us": round(latency, 3), "send_us": round(send, 3), "receive_us": round(receive, 3)}
    links = [{"from": a["name"], "to": b["name"], **link} for a in devices for b in devices if a is not b]
    return {"format": "machine", "version": 1, "name": name, "contention": "queue", "devices": devices, "links": links}


def _device(spec: Spec) -> dict[str, Any]:
    return on_device(spec, rates)


def rates() -> dict[str, Any]:
    """What the cores that this thread is on come to."""
    one = torch.zeros(1)
    launch = median_us(lambda: one.add_(1), 200)
    a = torch.randn(512, 512)
    rate = 2 * 512**3 / (1e-6 * median_us(lambda: a @ a, 15))
    big = torch.empty(1 << 26, dtype=torch.uint8)
    target = torch.empty_like(big)
    bandwidth = 2 * big.numel() / (1e-6 * median_us(lambda: target.copy_(big), 7))
    return {"launch_us": round(launch, 3), "flops_per_s": {"f32": float(f"{rate:.4g}")}, "bandwidth_bytes_per_s": float(f"{bandwidth:.4g}"),
            "efficiency": {"matmul": 0.8, "elementwise": 0.8}}  # fmt: skip


def median_us(run: Any, repeats: int) -> float:
    run()
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        found.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(found)


def _dependency(specs: Sequence[Spec]) -> tuple[float, float, float]:
    """Latency, and what a dependency takes from its sender and its receiver: microseconds. Two threads hand a lock to and fro; a
    release and an acquire that need not wait are timed by themselves."""
    there, back = threading.Lock(), threading.Lock()
    there.acquire()
    back.acquire()
    rounds = 200

    def answer() -> None:
        for _ in range(rounds + 1):
            there.acquire()
            back.release()

    def ask() -> float:
        there.release()
        back.acquire()
        begin = time.perf_counter()
        for _ in range(rounds):
            there.release()
            back.acquire()
        return 1e6 * (time.perf_counter() - begin) / (2 * rounds)

    other = threading.Thread(target=lambda: on_device(specs[1], answer), daemon=True)
    other.start()
    hop = on_device(specs[0], ask)
    other.join()
    free = threading.Lock()
    free.acquire()
    send = on_device(specs[0], lambda: median_us(lambda: (free.release(), free.acquire()), 500)) / 2
    return max(hop - 2 * send, 0.0), send, send


def times(nodes: Nodes, specs: Sequence[Spec]) -> tuple[dict[int, float], dict[int, float]]:
    """Microseconds of each op in place: in a step on one device, and in the same step on all of them at once, each on data of its own."""
    steps = [_whole(nodes, spec) for spec in specs]
    try:
        alone = _in_place(steps[:1])
        company = _in_place(steps) if len(steps) > 1 else alone
    finally:
        for step in steps:
            step.close()
    return alone, {k: max(us, alone[k]) for k, us in company.items()}


def _whole(nodes: Nodes, spec: Spec) -> Workers:
    program, calls, sources = whole_step(nodes, spec)
    return Workers(program, [spec], calls, sources, timed=True)


def _in_place(steps: Sequence[Workers]) -> dict[int, float]:
    found: list[list[float]] = []
    for k in range(_WARM + _REPEATS):
        for step in steps:
            step.begin()
        for step in steps:
            step.end()
            if k >= _WARM:
                found.append(step.seconds)
    return {op: 1e6 * statistics.median(times) for op, times in zip(steps[0].timed_tasks, zip(*found))}
