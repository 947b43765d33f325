"""Runs a program on CPU devices, or on CPUs and GPUs together: a thread for each that calls its ops one after the other. That of a CPU is
pinned to its cores; that of a GPU issues the ops on a stream (_lanes.py). Values go by reference where devices share a memory. What another
process leaves in memory that is shared is waited for where it is needed; each device of another process that sends through a connection
has a thread here that takes in what it sends."""
from __future__ import annotations

import functools
import os
import queue
import threading
import time
import weakref
from typing import Any, Callable, Optional, Sequence

import torch

from ..._graph import Graph
from ..._library import Error
from ..._plan import Plan
from ..tracing._trace import Nodes
from ._devices import Spec
from ._lanes import Lanes
from ._program import Calls, Program, own_sources
from ._ranks import Ranks
from ._writer import Call, Writer


class _Worker(threading.Thread):
    """A thread on the cores of one device, which runs what it is given. A device without cores is a GPU, or not here:
    then its thread only receives."""

    def __init__(self, spec: Spec, over: "queue.SimpleQueue[_Worker]") -> None:
        super().__init__(name=f"stowage {spec.name}", daemon=True)
        self.spec = spec
        self._over = over  # where it says that it is through
        self.work: Optional[Callable[[], Any]] = None
        self.result: Any = None
        self.error: Optional[BaseException] = None
        self.began = self.ended = 0.0
        self._go = threading.Lock()
        self._go.acquire()
        self.start()

    def begin(self, work: Optional[Callable[[], Any]]) -> None:
        self.work = work
        self._go.release()

    def run(self) -> None:
        ready = False
        with torch.no_grad():
            while True:
                self._go.acquire()
                work, self.work = self.work, None
                if work is None:
                    return
                self.error = self.result = None
                self.began = time.perf_counter()
                try:
                    if not ready:
                        self._take_cores()
                        ready, self.began = True, time.perf_counter()
                    self.result = work()
                except BaseException as error:  # noqa: B036  told to the caller
                    self.error = error
                self.ended = time.perf_counter()
                del work
                self._over.put(self)

    def _take_cores(self) -> None:
        if self.spec.cores:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(threading.get_native_id(), self.spec.cores)
            torch.set_num_threads(len(self.spec.cores))  # of this thread, where PyTorch computes with OpenMP


class Workers:
    """One step on threads. ``sources`` as in Streams. With ``ranks`` it runs the devices of this process alone; ``lanes`` has its GPUs."""

    def __init__(self, program: Program, specs: Sequence[Spec], call: Call, sources: dict[tuple[Any, int], Any], timed: bool = False,
                 ranks: Optional[Ranks] = None, lanes: Optional[Lanes] = None) -> None:  # fmt: skip
        self.program, self.specs, self._ranks, self._lanes = program, specs, ranks, lanes
        self.values: dict[Any, Any] = {}
        self.seconds: list[float] = []  # of each task, in the order of `timed_tasks`, after a timed run
        self.starts: list[float] = []  # likewise, by time.perf_counter
        self._over: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._locks: list[threading.Lock] = []
        self._failure: Optional[tuple[str, BaseException]] = None  # of this step: what came first, and its cause
        writer = Writer(program, call, sources, timed, self._locks, ranks, lanes)
        self._box = writer.names["box"]  # values between devices
        self._threads = torch.get_num_threads()
        here = [d for d in range(len(specs)) if ranks is None or ranks.is_mine(d)]
        self.timed_tasks = [task.id for d in here for task in program.of(d)]
        self._devices_here = len(here)
        self._functions = [writer.function(d) for d in here]
        self._workers = [_Worker(specs[d], self._over) for d in here]
        for d in ranks.receives() if ranks is not None else ():
            self._functions.append(writer.receiver(d))
            self._workers.append(_Worker(Spec(specs[d].name), self._over))
        self.began = self.ended = 0.0  #: of the last step, by time.perf_counter
        self._end = weakref.finalize(self, _dismiss, self._workers)  # also where nobody calls close()

    def run(self) -> None:
        """One step; returns when all devices are through."""
        self.begin()
        self.end()

    def begin(self) -> None:
        if not self._end.alive:
            raise Error("the step was closed")
        if self._ranks is not None:
            self._ranks.begin()
        started = 0
        if self._lanes is not None:
            self._lanes.begin()
        try:
            for worker, function in zip(self._workers, self._functions):
                worker.begin(function)
                started += 1
        except BaseException as error:  # an interrupt: those who have begun would wait for the others
            self._stop("the step was interrupted", error)
            self._join(started)
            self._reset()
            raise

    def end(self) -> None:
        arrived: dict[Any, Any] = {}
        try:
            self._join(len(self._workers))
            if self._ranks is not None and self._failure is None:
                arrived = self._from_ranks()
        except KeyboardInterrupt:
            self._reset()
            raise
        if self._failure is not None:
            said, error = self._failure
            self._reset()
            raise Error(said) from error
        self.values = {**arrived, **{n: value for w in self._workers for n, value in w.result[0].items()}}
        self.seconds = [s for w in self._workers for s in w.result[1]]
        self.starts = [s for w in self._workers for s in w.result[2]]
        if self._lanes is not None:
            self._lanes.end()
        self.began = min((w.began for w in self._workers), default=time.perf_counter())
        self.ended = time.perf_counter() if arrived else max((w.ended for w in self._workers), default=self.began)

    def _from_ranks(self) -> dict[Any, Any]:
        """Values that the step returns and that other ranks have left in memory. Nothing of ours is on its way any more, either."""
        try:
            self._ranks.settle()  # type: ignore[union-attr]
            return self._ranks.outputs()  # type: ignore[union-attr]
        except Error as error:
            self._stop(str(error), error)
        except KeyboardInterrupt as error:
            self._stop("the step was interrupted", error)
            raise
        return {}

    def times(self, runs: int) -> list[float]:
        """Seconds of each of so many steps, from the first device's begin to the last one's end, on all ranks."""
        found = []
        for _ in range(runs):
            if self._ranks is not None:
                self._ranks.meet()
            self.run()
            found.append(self.ended - self.began if self._ranks is None else self._ranks.span(self.began, self.ended))
        return found

    def close(self) -> None:
        workers, self._workers = self._workers, []
        if self._end.detach() is not None:
            _dismiss(workers)
        for worker in workers:
            worker.join()
        if workers:
            torch.set_num_threads(self._threads)  # workers set it for threads that begin later, too
        for function in self._functions[: self._devices_here]:
            _unwrapped(function).__globals__.clear()  # among them is the function itself, so that nothing would go before a collection of garbage
        self._functions, self.values = [], {}

    def _join(self, left: int) -> None:
        """Until so many have finished, whatever the user says meanwhile: a step that is left half done would spoil the next one."""
        interrupt = None
        while left > 0:
            try:
                worker = self._over.get(timeout=None if self._ranks is None else 1)
            except KeyboardInterrupt as error:
                interrupt = error
                continue
            except queue.Empty:
                late = self._ranks.overdue() if self._ranks is not None else None
                if late is not None:
                    self._stop(str(late), late)
                continue
            left -= 1
            if worker.error is not None:
                self._stop(_told(worker), worker.error)
        if interrupt is not None:
            raise interrupt

    def _stop(self, said: str, error: BaseException) -> None:
        """Nobody may wait for what will never come. Later failures are consequences of the first."""
        if self._failure is None:
            self._failure = (said if self._ranks is None else self._ranks.fail(error, said), error)
        for lock in self._locks:
            _open(lock)

    def _reset(self) -> None:
        """For the next step: every lock is closed, and nothing is on its way."""
        self._failure = None
        self._box.clear()
        if self._lanes is not None:
            self._lanes.end()
        for lock in self._locks:
            lock.acquire(blocking=False)


def _told(worker: _Worker) -> str:
    said = str(worker.error).split("\n")[0] or repr(worker.error)
    if isinstance(worker.error, torch.cuda.OutOfMemoryError):
        return f"the step does not fit into the memory of {worker.spec.name}: {said}"
    return f"the step failed on {worker.spec.name}: {said}"


def _dismiss(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.begin(None)


def on_device(spec: Spec, work: Callable[[], Any]) -> Any:
    """What a function returns that runs on a device's thread."""
    over: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    threads = torch.get_num_threads()
    worker = _Worker(spec, over)
    worker.begin(work)
    over.get()
    worker.begin(None)
    worker.join()
    torch.set_num_threads(threads)
    if worker.error is not None:
        raise worker.error
    return worker.result


def written_step(nodes: Nodes, spec: Spec) -> tuple[str, dict[str, Any], list[int]]:
    """A whole step on one device, timed, as text and names, for another process; and the ops in its order."""
    program, calls, sources = whole_step(nodes, spec)
    text, names = Writer(program, calls, sources, True, [], None, None).written(0)
    del names["now"]  # which the other has
    return text, names, [task.id for task in program.of(0)]


def whole_step(nodes: Nodes, spec: Spec) -> tuple[Program, Calls, dict[tuple[Any, int], Any]]:
    """A step on one device, in the order of the trace, with data of its own."""
    graph = Graph.parse(nodes.opgraph("step"), "the traced step")
    one = {"name": spec.name, "kind": "one", "memory_bytes": 1 << 50, "launch_us": 1.0, "flops_per_s": {"f32": 1e11},
           "bandwidth_bytes_per_s": 1e10, "efficiency": {}}  # fmt: skip
    plan = Plan(graph, {"format": "machine", "version": 1, "name": "one", "devices": [one], "links": []})
    plan.set_order(0, list(nodes.fx))
    sources = {(n, 0): value for n, value in own_sources(nodes.step, spec.torch).items()}
    return Program(nodes, plan), Calls(nodes.step, [spec.torch], updates=True, rate=0.0), sources


def _unwrapped(function: Any) -> Any:
    """That of a GPU is run by its lane."""
    return function.args[0] if isinstance(function, functools.partial) else function


def _open(lock: threading.Lock) -> None:
    try:
        lock.release()
    except RuntimeError:  # it is open
        pass
