"""Small benchmarks of CPU devices: threads on cores of their own, which share the memory.

Times of ops are taken in place, in a step that runs on one device: calls by themselves find their data in other caches. In company the
same step runs on all devices at once. Other work on the machine only ever lengthens a step, so the quickest quarter of the steps counts.
"""
from __future__ import annotations

import statistics
import threading
import time
from typing import Any, Optional, Sequence

import torch

from ..predicting._predict import Links, Times
from ..running._devices import Spec
from ..running._lanes import Lanes
from ..running._shared import memory_bytes
from ..running._workers import Workers, on_device, whole_step
from ..tracing._trace import Nodes

_WARM, _LEAST, _MOST = 4, 16, 80  # steps
_LONG_ENOUGH = 1.5  # seconds of steps, once there are enough of them
_SLEEPS, _ROUNDS = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3), 40  # seconds that a receiver waits, and how often each


def devices(specs: Sequence[Spec]) -> list[dict[str, Any]]:
    """What a machine file says of each."""
    measured = {size: _device(spec) for size, spec in {len(spec.cores): spec for spec in specs}.items()}
    memory = memory_bytes() // len(specs)
    return [{"kind": f"cpu{len(spec.cores)}", "memory_bytes": memory, **measured[len(spec.cores)]} for spec in specs]


def links(specs: Sequence[Spec], copies: bool) -> Links:
    """What it says of the link from one to another. Nothing is copied, and threads hand values over alike, whatever cores they have."""
    if len(specs) < 2:
        return {}
    latency, send, receive = dependency(specs[0], specs[1])
    link = {"bandwidth_bytes_per_s": 1e15, "latency_us": round(latency, 3), "send_us": round(send, 3), "receive_us": round(receive, 3)}
    return {(a, b): (link, (0.0, 0.0)) for a in range(len(specs)) for b in range(len(specs)) if a != b}


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


def dependency(first: Spec, second: Spec) -> tuple[float, float, float]:
    """Between the threads of two devices: latency, and what a dependency takes from its sender and its receiver, in microseconds. A release
    and an acquire that need not wait are timed by themselves. The latency is that of a receiver that has slept for as long as it does in
    steps, while the sender runs ops before and after: cores that have slept for a millisecond wake up several times as slowly as cores of
    threads that play ball, and then the interpreter's lock must be had."""
    given, taken = threading.Lock(), threading.Lock()
    given.acquire()
    taken.acquire()
    arrived: list[float] = []

    def receive() -> None:
        for _ in range(_ROUNDS * len(_SLEEPS)):
            given.acquire()
            arrived.append(time.perf_counter())
            taken.release()

    def give() -> list[float]:
        square, hops = torch.zeros(96, 96), []
        for sleep in _SLEEPS * _ROUNDS:
            until = time.perf_counter() + sleep
            while time.perf_counter() < until:
                square @ square
            begin = time.perf_counter()
            given.release()
            while not taken.acquire(blocking=False):
                square @ square
            hops.append(1e6 * (arrived[-1] - begin))
        return hops

    other = threading.Thread(target=lambda: on_device(second, receive), daemon=True)
    other.start()
    hop = statistics.median(on_device(first, give))
    other.join()
    free = threading.Lock()
    free.acquire()
    send = on_device(first, lambda: median_us(lambda: (free.release(), free.acquire()), 500)) / 2
    return max(hop - 2 * send, 0.0), send, send


def times(nodes: Nodes, specs: Sequence[Spec], kinds: Sequence[str]) -> tuple[Times, Times]:
    """Microseconds of each op in place, by kind: in a step on one device, and in the same step on all of them at once, each on data of
    its own."""
    return in_place([step_on(nodes, spec, True) for spec in specs], kinds)


def in_place(steps: Sequence[Workers], kinds: Sequence[str]) -> tuple[Times, Times]:
    """Microseconds of each op by kind, from a timed step for each device, which are closed: of one step alone, and of all at once. Small
    devices have others beside them to the end: large ones run the step again and again meanwhile."""
    try:
        first = {kind: steps[list(kinds).index(kind)] for kind in kinds}
        alone = {kind: _at_once([step], [kind], [1])[kind] for kind, step in first.items()}
        totals = [sum(alone[kind].values()) for kind in kinds]
        counts = [max(1, round(max(totals) / total)) for total in totals]
        company = _at_once(steps, kinds, counts) if len(steps) > 1 else alone
    finally:
        for step in steps:
            step.close()
    return alone, {kind: {k: max(us, alone[kind][k]) for k, us in each.items()} for kind, each in company.items()}


def step_on(nodes: Nodes, spec: Spec, timed: bool, lanes: Optional[Lanes] = None) -> Workers:
    """A whole step on one device, in the order of the trace; whether its calls are timed, one by one."""
    program, calls, sources = whole_step(nodes, spec)
    return Workers(program, [spec], calls, sources, timed=timed, lanes=lanes)


def _at_once(steps: Sequence[Workers], kinds: Sequence[str], counts: Sequence[int]) -> Times:
    """All steps at once, each so many times while the slowest runs once."""
    found: list[list[tuple[float, list[float]]]] = [[] for _ in steps]  # of each run: its whole time, and that of each op
    most, rounds, began = max(counts), 0, time.perf_counter()
    while rounds < _WARM + _LEAST or (rounds < _MOST and time.perf_counter() - began < _LONG_ENOUGH):
        for step in steps:
            step.begin()
        for turn in range(1, most + 1):
            for step, own, count in zip(steps, found, counts):
                if turn * count // most > (turn - 1) * count // most:  # one more of its runs is due
                    step.end()
                    if rounds >= _WARM:
                        own.append((_own_seconds(step), list(step.seconds)))
                    if turn < most:
                        step.begin()
        rounds += 1
    return means_of_quickest(steps[0].timed_tasks, kinds, found)


def _own_seconds(step: Workers) -> float:
    """What the thread of a device took for its step. That of a GPU waits between two ops for the kernels of the first one."""
    return step.ended - step.began if step.specs[0].gpu is None else sum(step.seconds)


def means_of_quickest(ops: Sequence[int], kinds: Sequence[str], found: Sequence[Sequence[tuple[float, list[float]]]]) -> Times:
    """Microseconds of each op by kind, from the runs of each device: its whole time, and that of each op in seconds. They add up to the
    whole, as medians would not: what is between ops belongs to all of them alike. Each device counts alike, also one that is always slower."""
    quiet: dict[str, list[tuple[float, list[float]]]] = {kind: [] for kind in kinds}
    for kind, runs in zip(kinds, found):
        quiet[kind] += quickest(runs)
    times: Times = {}
    for kind, runs in quiet.items():
        means = [statistics.fmean(each) for each in zip(*(own for _, own in runs))]
        between = (statistics.fmean(whole for whole, _ in runs) - sum(means)) / len(means)
        times[kind] = {op: 1e6 * (mean + max(between, 0.0)) for op, mean in zip(ops, means)}
    return times


def quickest(found: Sequence[Any]) -> list[Any]:
    """The quickest quarter of what was repeated: times, or pairs that begin with one."""
    return sorted(found, key=lambda f: f[0] if isinstance(f, tuple) else f)[: max(len(found) // 4, 1)]
