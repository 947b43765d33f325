"""Runs a program on CPU devices: a thread for each, pinned to its cores, that calls its ops one after the other. Values go by
reference: the devices of a process share the memory. What another process leaves in memory that is shared is waited for where it is
needed; each device of another process that sends through a connection has a thread here that takes in what it sends.
A device's part of the program is written out as one straight function, since with small ops an interpreter of tasks would take as
long as the ops."""
from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from typing import Any, Callable, Optional, Sequence

import torch

from .._graph import Graph
from .._library import Error
from .._plan import Plan
from ._devices import Spec
from ._program import Calls, Program, Task, Transfer, own_sources, substitute
from ._ranks import Ranks
from ._trace import Nodes, attribute

Call = Callable[[Task], tuple[Callable[..., Any], tuple, dict]]


class _Worker(threading.Thread):
    """A thread on the cores of one device, which runs what it is given. A device without cores is not here: its thread only receives."""

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
    """One step on pinned threads. ``sources`` as in Streams. With ``ranks`` it runs the devices of this process alone."""

    def __init__(self, program: Program, specs: Sequence[Spec], call: Call, sources: dict[tuple[Any, int], Any], timed: bool = False,
                 ranks: Optional[Ranks] = None) -> None:  # fmt: skip
        self.program, self.specs, self._ranks = program, specs, ranks
        self.values: dict[Any, Any] = {}
        self.seconds: list[float] = []  # of each task, in the order of `timed_tasks`, after a timed run
        self._over: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._locks: list[threading.Lock] = []
        self._failure: Optional[tuple[str, BaseException]] = None  # of this step: what came first, and its cause
        writer = _Writer(program, call, sources, timed, self._locks, ranks)
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
            function.__globals__.clear()  # among them is the function itself, so that nothing would go before a collection of garbage
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
                said = str(worker.error).split("\n")[0] or repr(worker.error)
                self._stop(f"the step failed on {worker.spec.name}: {said}", worker.error)
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
        for lock in self._locks:
            lock.acquire(blocking=False)


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
    text, names = _Writer(program, calls, sources, True, [], None).written(0)
    del names["now"]  # which the other has
    return text, names, [task.id for task in program.of(0)]


def whole_step(nodes: Nodes, spec: Spec) -> tuple[Program, Calls, dict[tuple[Any, int], Any]]:
    """A step on one device, in the order of the trace, with data of its own."""
    graph = Graph.parse(nodes.opgraph("step"), "the traced step")
    one = {"name": spec.name, "kind": "cpu1", "memory_bytes": 1 << 50, "launch_us": 1.0, "flops_per_s": {"f32": 1e11},
           "bandwidth_bytes_per_s": 1e10, "efficiency": {}}  # fmt: skip
    plan = Plan(graph, {"format": "machine", "version": 1, "name": "one", "devices": [one], "links": []})
    plan.set_order(0, list(nodes.fx))
    sources = {(n, 0): value for n, value in own_sources(nodes.step, spec.torch).items()}
    return Program(nodes, plan), Calls(nodes.step, [spec.torch], updates=True, rate=0.0), sources


def _open(lock: threading.Lock) -> None:
    try:
        lock.release()
    except RuntimeError:  # it is open
        pass


class _Writer:
    """Writes the function of each device: lines of Python over names v12 (the value of node 12), f12 (its function) and l3 (a lock
    that is open once a value is there), take12 (waits for it in shared memory)."""

    def __init__(self, program: Program, call: Call, sources: dict[tuple[Any, int], Any], timed: bool, locks: list[Any],
                 ranks: Optional[Ranks]) -> None:  # fmt: skip
        self.program, self.call, self.sources, self.timed, self.ranks = program, call, sources, timed, ranks
        self.names: dict[str, Any] = {"now": time.perf_counter, "box": {}}
        self._locks = locks
        self._arrival: dict[Any, int] = {}  # transfer, or (task, device that waits for it) -> lock
        self._waiting: dict[int, list[int]] = {}  # task -> locks of those that wait for it
        for task in (task for task in program.tasks if self._is_here(task.device)):
            for transfer in task.receives:
                if self._comes_later(transfer) and not self._is_shared(transfer):
                    self._add_lock(transfer)
            for k in self._waits(task):
                self._add_lock((k, task.id))
                self._waiting.setdefault(k, []).append(self._arrival[k, task.id])

    def _is_here(self, device: int) -> bool:
        return self.ranks is None or self.ranks.is_mine(device)

    def _comes_later(self, transfer: Transfer) -> bool:
        """Whether the value is not there before the step."""
        return transfer.producer is not None or not self._is_here(transfer.source)

    def _is_shared(self, transfer: Transfer) -> bool:
        """Whether the value comes through memory that another rank shares."""
        return self.ranks is not None and self.ranks.is_shared(transfer)

    def _waits(self, task: Task) -> list[int]:
        """Those of this process; _messages.py says why no others are needed."""
        return [k for k in task.waits if self._is_here(self.program.by_id[k].device)]

    def _add_lock(self, key: Any) -> None:
        lock = threading.Lock()
        lock.acquire()
        self._arrival[key] = len(self._locks)
        self.names[f"l{len(self._locks)}"] = lock
        self._locks.append(lock)

    def function(self, device: int) -> Callable[[], Any]:
        text, names = self.written(device)
        exec(compile(text, f"<the part of device {device}>", "exec"), names)  # lines of our own making
        return names["run"]

    def written(self, device: int) -> tuple[str, dict[str, Any]]:
        """A function `run` as text, and the names that it uses."""
        tasks = self.program.of(device)
        names = dict(self.names)
        lines = ["def run():", "    times = []"]
        for k, value in self._sources_of(tasks, device):
            names[f"s{k}"] = value
            lines.append(f"    v{k} = s{k}")
        lines += ["    " + line for line in self._messages(None, device, names)]
        for task in tasks:
            lines += ["    " + line for line in self._task(task, names)]
        mine = [n for n in self.program.outputs if self._made_here(n, tasks)]
        names.update({f"n{self.program.nodes.id[n]}": n for n in mine})
        lines.append("    return {" + ", ".join(f"n{i}: v{i}" for i in (self.program.nodes.id[n] for n in mine)) + "}, times")
        return "\n".join(lines), names

    def receiver(self, device: int) -> Callable[[], Any]:
        """Takes in what a device of another rank sends, for all who read it here."""
        ranks, box, locks = self.ranks, self.names["box"], self._locks
        messages = ranks.receives()[device]  # type: ignore[union-attr]
        readers = {m: [self._arrival[transfer] for transfer in m.transfers] for m in messages}

        def run() -> Any:
            outputs = {}
            for message, value in ranks.arrivals(messages):  # type: ignore[union-attr]
                for lock in readers[message]:
                    box[lock] = value
                    locks[lock].release()
                if message.is_output:
                    outputs[message.node] = value
            return outputs, []

        return run

    def _made_here(self, n: Any, tasks: list[Task]) -> bool:
        return any(task.node is n or n in task.views or n in task.results for task in tasks)

    def _sources_of(self, tasks: list[Task], device: int) -> list[tuple[int, Any]]:
        """What is there before the step: inputs and constants, and parameters wherever they are read."""
        found = {}
        for task in tasks:
            for transfer in task.receives:
                if not self._comes_later(transfer):
                    found[transfer.node] = None
            for n in [task.node, *task.views]:
                for m in n.all_input_nodes:
                    if (m, device) in self.sources:
                        found[m] = None
        return [(self.program.nodes.id[n], self._source(n, device)) for n in found]

    def _source(self, n: Any, device: int) -> Any:
        """A source, or a view of one that was sent instead of it."""
        if (n, device) in self.sources:
            return self.sources[n, device]
        if n.op != "call_function":
            return self.sources[n, self.program.home[self.program.nodes.id[n]]]
        real = lambda m: self._source(m, device) if isinstance(m, torch.fx.Node) else m  # noqa: E731
        return n.target(*substitute(n.args, real), **substitute(n.kwargs, real))

    def _task(self, task: Task, names: dict[str, Any]) -> list[str]:
        ids = self.program.nodes.id
        lines = []
        for k in self._waits(task):
            lines.append(f"l{self._arrival[k, task.id]}.acquire()")
        for transfer in task.receives:
            if self._is_shared(transfer):
                names[f"take{ids[transfer.node]}"] = self.ranks.taker(transfer)  # type: ignore[union-attr]
                lines.append(f"v{ids[transfer.node]} = take{ids[transfer.node]}()")
            elif self._comes_later(transfer):
                lock = self._arrival[transfer]
                lines.append(f"l{lock}.acquire(); v{ids[transfer.node]} = box.pop({lock})")
        if self.timed:
            lines.append("began = now()")
        lines += [self._view(n, names) for n in task.views]
        function, args, kwargs = self.call(task)
        names[f"f{task.id}"] = function
        lines.append(f"v{task.id} = f{task.id}({self._arguments(task.id, args, kwargs, names)})")
        lines += [self._view(n, names) for n in task.results]
        lines += self._messages(task, task.device, names)  # first: who gets the value here may write it in place
        for transfer in (t for t in task.sends if self._is_here(t.target)):
            lock = self._arrival[transfer]
            lines.append(f"box[{lock}] = {self._expression(transfer.node, transfer.producer, names)}; l{lock}.release()")
        lines += [f"l{lock}.release()" for lock in self._waiting.get(task.id, ())]
        if task.frees:
            lines.append("del " + ", ".join(f"v{ids[n]}" for n in task.frees))
        if self.timed:
            lines.append("times.append(now() - began)")
        return lines

    def _view(self, n: Any, names: dict[str, Any]) -> str:
        k = self.program.nodes.id[n]
        names[f"f{k}"] = n.target
        return f"v{k} = f{k}({self._arguments(k, n.args, n.kwargs, names)})"

    def _messages(self, task: Optional[Task], device: int, names: dict[str, Any]) -> list[str]:
        """What goes to other ranks behind a task, or before the first one."""
        lines = []
        for m in self.ranks.sends(task.id if task is not None else None) if self.ranks is not None else ():
            if m.source != device:
                continue
            value = f"v{self.program.nodes.id[m.node]}"
            if task is None:
                names[value := f"m{m.tag}"] = self._source(m.node, device)
            elif m.node not in task.views:
                value = self._expression(m.node, m.producer, names)
            names[f"send{m.tag}"] = self.ranks.sender(m)  # type: ignore[union-attr]
            lines.append(f"send{m.tag}({value})")
        return lines

    def _expression(self, n: Any, producer: Optional[int], names: dict[str, Any]) -> str:
        """The value to send; a view of what was just made is made for the receiver."""
        k = self.program.nodes.id[n]
        if k == producer or n.op != "call_function":
            return f"v{k}"
        names[f"f{k}"] = n.target
        inner = {m: self._expression(m, producer, names) for m in n.all_input_nodes if m in self.program.nodes.id}
        return f"f{k}({self._arguments(k, n.args, n.kwargs, names, inner)})"

    def _arguments(self, k: int, args: tuple, kwargs: dict, names: dict[str, Any], inner: Optional[dict[Any, str]] = None) -> str:
        """Arguments as text. What has no plain spelling becomes a name."""
        def spell(value: Any) -> str:
            if isinstance(value, torch.fx.Node):
                if inner is not None and value in inner:
                    return inner[value]
                if value not in self.program.nodes.id:  # an attribute that is no tensor
                    return constant(attribute(self.program.nodes.step.module, value.target))
                return f"v{self.program.nodes.id[value]}"
            if isinstance(value, (list, tuple)):
                inside = ", ".join(spell(v) for v in value)
                return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if value else "()"
            if value is None or isinstance(value, (bool, int, str)):
                return repr(value)
            return constant(value)

        def constant(value: Any) -> str:
            name = f"c{k}_{sum(key.startswith(f'c{k}_') for key in names)}"
            names[name] = value
            return name

        return ", ".join([*(spell(a) for a in args), *(f"{key}={spell(a)}" for key, a in kwargs.items())])

