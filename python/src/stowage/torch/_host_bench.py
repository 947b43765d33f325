"""Small benchmarks of CPU devices: threads on cores of their own, which share the memory.

Times of ops are taken in place, in a step that runs on one device: calls by themselves find their data in other caches. In company the
same step runs on all devices at once. Other work on the machine only ever lengthens a step, so the quickest quarter of the steps counts.
"""
from __future__ import annotations

import statistics
import threading
import time
from typing import Any, Sequence

import torch

from .._graph import Graph
from .._plan import Plan
from ._devices import Spec
from ._program import Calls, Program, own_sources
from ._trace import Nodes
from ._workers import Workers, on_device

_WARM, _LEAST, _MOST = 4, 16, 80  # steps
_LONG_ENOUGH = 1.5  # seconds of steps, once there are enough of them


def machine(specs: Sequence[Spec], copies: bool, name: str) -> dict[str, Any]:
    """The machine file of these devices."""
    measured = {len(spec.cores): _device(spec) for spec in specs}
    memory = _memory_bytes() // len(specs)
    devices = [{"name": f"{k}:{spec.name}", "kind": f"cpu{len(spec.cores)}", "memory_bytes": memory, **measured[len(spec.cores)]}
               for k, spec in enumerate(specs)]  # fmt: skip
    latency, send, receive = _dependency(specs) if len(specs) > 1 else (0.0, 0.0, 0.0)
    link = {"bandwidth_bytes_per_s": 1e15, "latency_us": round(latency, 3), "send_us": round(send, 3), "receive_us": round(receive, 3)}
    links = [{"from": a["name"], "to": b["name"], **link} for a in devices for b in devices if a is not b]
    return {"format": "machine", "version": 1, "name": name, "contention": "queue", "devices": devices, "links": links}


def _memory_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


def _device(spec: Spec) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        one = torch.zeros(1)
        launch = _median_us(lambda: one.add_(1), 200)
        a = torch.randn(512, 512)
        rate = 2 * 512**3 / (1e-6 * _median_us(lambda: a @ a, 15))
        big = torch.empty(1 << 26, dtype=torch.uint8)
        target = torch.empty_like(big)
        bandwidth = 2 * big.numel() / (1e-6 * _median_us(lambda: target.copy_(big), 7))
        return {"launch_us": round(launch, 3), "flops_per_s": {"f32": float(f"{rate:.4g}")}, "bandwidth_bytes_per_s": float(f"{bandwidth:.4g}"),
                "efficiency": {"matmul": 0.8, "elementwise": 0.8}}  # fmt: skip

    return on_device(spec, work)


def _median_us(run: Any, repeats: int) -> float:
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
    send = on_device(specs[0], lambda: _median_us(lambda: (free.release(), free.acquire()), 500)) / 2
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
    """A whole step on one device, in the order of the trace."""
    file = nodes.opgraph("step")
    graph = Graph.parse(file, "the traced step")
    one = {"name": spec.name, "kind": "cpu1", "memory_bytes": 1 << 50, "launch_us": 1.0, "flops_per_s": {"f32": 1e11},
           "bandwidth_bytes_per_s": 1e10, "efficiency": {}}  # fmt: skip
    plan = Plan(graph, {"format": "machine", "version": 1, "name": "one", "devices": [one], "links": []})
    plan.set_order(0, list(nodes.fx))
    sources = {(n, 0): value for n, value in own_sources(nodes.step, spec.torch).items()}
    return Workers(Program(nodes, plan), [spec], Calls(nodes.step, [spec.torch], updates=True, rate=0.0), sources, timed=True)


def _in_place(steps: Sequence[Workers]) -> dict[int, float]:
    found: list[tuple[float, list[list[float]]]] = []  # of each repetition: its whole time, and the times of ops on each device
    began = time.perf_counter()
    while len(found) < _WARM + _LEAST or (len(found) < _MOST and time.perf_counter() - began < _LONG_ENOUGH):
        for step in steps:
            step.begin()
        for step in steps:
            step.end()
        times = [list(step.seconds) for step in steps]
        found.append((sum(map(sum, times)), times))
    quiet = [times for _, all_times in quickest(found[_WARM:]) for times in all_times]
    return {op: 1e6 * statistics.median(times) for op, times in zip(steps[0].timed_tasks, zip(*quiet))}


def quickest(found: Sequence[Any]) -> list[Any]:
    """The quickest quarter of what was repeated."""
    return sorted(found, key=lambda f: f[0] if isinstance(f, tuple) else f)[: max(len(found) // 4, 1)]
