"""Writes a device's part of a program out as one straight function, since with small ops an interpreter of tasks would take as long as
the ops. Threads run these functions (_workers.py)."""
from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable, Optional

import torch

from ..tracing._trace import attribute
from ._lanes import Lanes
from ._program import Program, Task, Transfer, substitute
from ._ranks import Ranks

Call = Callable[[Task], tuple[Callable[..., Any], tuple, dict]]  # a task's function and arguments, fx nodes for values


class Writer:
    """Writes the function of each device: lines of Python over names v12 (the value of node 12), f12 (its function) and l3 (a lock
    that is open once a value is there), take12 (waits for it in shared memory). With GPUs also e12 (an event behind task 12) and a12_1 (one behind the copy of the value of
    node 12 for device 1); the same events serve every step, since a step begins when the one before is over."""

    def __init__(self, program: Program, call: Call, sources: dict[tuple[Any, int], Any], timed: bool, locks: list[Any],
                 ranks: Optional[Ranks], lanes: Optional[Lanes]) -> None:  # fmt: skip
        self.program, self.call, self.sources, self.timed, self.ranks, self.lanes = program, call, sources, timed, ranks, lanes
        self.names: dict[str, Any] = {"now": time.perf_counter, "box": {}}
        if lanes is not None:
            self.names["keep"] = lanes.keep
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
        self._add_events()

    def _is_here(self, device: int) -> bool:
        return self.ranks is None or self.ranks.is_mine(device)

    def _comes_later(self, transfer: Transfer) -> bool:
        """Whether the value is not there before the step; what a GPU has, it copies for a CPU."""
        out = self._is_gpu(transfer.source) and not self._is_gpu(transfer.target)
        return transfer.producer is not None or out or not self._is_here(transfer.source)

    def _is_shared(self, transfer: Transfer) -> bool:
        """Whether the value comes through memory that another rank shares."""
        return self.ranks is not None and self.ranks.is_shared(transfer)

    def _is_gpu(self, device: int) -> bool:
        return self.lanes is not None and self.lanes.get(device) is not None

    def _is_copied(self, transfer: Transfer) -> bool:
        return self.lanes is not None and self.lanes.is_copied(transfer.source, transfer.target)

    def _waits(self, task: Task) -> list[int]:
        """Those of this process; _messages.py says why no others are needed."""
        return [k for k in task.waits if self._is_here(self.program.by_id[k].device)]

    def _add_lock(self, key: Any) -> None:
        lock = threading.Lock()
        lock.acquire()
        self._arrival[key] = len(self._locks)
        self.names[f"l{len(self._locks)}"] = lock
        self._locks.append(lock)

    def _add_events(self) -> None:
        """Behind every task of a GPU that another device waits for, and behind every copy."""
        for task in self.program.tasks:
            if self._is_gpu(task.device) and (task.sends or task.id in self._waiting):
                self.names[f"e{task.id}"] = torch.cuda.Event()
            for transfer in task.receives:
                if self._is_copied(transfer):
                    self.names[self._copy_of(transfer)] = torch.cuda.Event()

    def _copy_of(self, transfer: Transfer) -> str:
        """The name of the event behind a copy."""
        return f"a{self.program.nodes.id[transfer.node]}_{transfer.target}"

    def function(self, device: int) -> Callable[[], Any]:
        text, names = self.written(device)
        exec(compile(text, f"<the part of device {device}>", "exec"), names)  # lines of our own making
        return functools.partial(names["lane"].run, names["run"]) if "lane" in names else names["run"]

    def written(self, device: int) -> tuple[str, dict[str, Any]]:
        """A function `run` as text, and the names that it uses."""
        tasks = self.program.of(device)
        names = dict(self.names)
        lane = self.lanes.get(device) if self.lanes is not None else None
        if lane is not None:
            names.update(lane=lane, stream=lane.stream)
        lines = ["def run():", "    times, starts = [], []"]
        for k, value in self._sources_of(tasks, device):
            names[f"s{k}"] = value
            lines.append(f"    v{k} = s{k}")
        lines += ["    " + line for line in [*self._messages(None, device, names), *self._first_copies(device, names)]]
        for task in tasks:
            lines += ["    " + line for line in self._task(task, names)]
        mine = [n for n in self.program.outputs if self._made_here(n, tasks)]
        names.update({f"n{self.program.nodes.id[n]}": n for n in mine})
        lines.append("    return {" + ", ".join(f"n{i}: v{i}" for i in (self.program.nodes.id[n] for n in mine)) + "}, times, starts")
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
            return outputs, [], []

        return run

    def _made_here(self, n: Any, tasks: list[Task]) -> bool:
        return any(task.node is n or n in task.views or n in task.results for task in tasks)

    def _sources_of(self, tasks: list[Task], device: int) -> list[tuple[int, Any]]:
        """What is there before the step: inputs and constants, and parameters wherever they are read."""
        found = {}
        for task in tasks:
            for transfer in task.receives:
                if not self._comes_later(transfer) and not self._is_copied(transfer):
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
            lines.append(f"l{self._arrival[k, task.id]}.acquire(){self._wait(k, task.device)}")
        for transfer in task.receives:
            lines += self._receive(transfer, names)
        if self.timed and self._is_gpu(task.device):
            lines.append("stream.synchronize()")  # or a long queue would have us wait for earlier ops
        if self.timed:
            lines.append("began = now()")
        lines += [self._view(n, names) for n in task.views]
        function, args, kwargs = self.call(task)
        names[f"f{task.id}"] = function
        lines.append(f"v{task.id} = f{task.id}({self._arguments(task.id, args, kwargs, names)})")
        lines += [self._view(n, names) for n in task.results]
        lines += self._messages(task, task.device, names)  # first: who gets the value here may write it in place
        if f"e{task.id}" in names:
            lines.append(f"e{task.id}.record(stream)")
        for transfer in (t for t in task.sends if self._is_here(t.target)):
            lines.append(self._send(transfer, self._expression(transfer.node, transfer.producer, names)))
        lines += [f"l{lock}.release()" for lock in self._waiting.get(task.id, ())]
        if task.frees:
            lines.append("del " + ", ".join(f"v{ids[n]}" for n in task.frees))
        if self.timed:
            lines.append("times.append(now() - began); starts.append(began)")
        return lines

    def _wait(self, task: int, device: int) -> str:
        """What a device does that must wait for a task, once that has been run or, by a GPU, issued."""
        if not self._is_gpu(self.program.by_id[task].device):
            return ""
        return f"; stream.wait_event(e{task})" if self._is_gpu(device) else f"; e{task}.synchronize()"

    def _receive(self, transfer: Transfer, names: dict[str, Any]) -> list[str]:
        k = self.program.nodes.id[transfer.node]
        if self._is_shared(transfer):
            names[f"take{k}"] = self.ranks.taker(transfer)  # type: ignore[union-attr]
            return [f"v{k} = take{k}()"]
        made = f"e{transfer.producer}" if transfer.producer is not None and self._is_gpu(transfer.source) else None
        if not self._comes_later(transfer):
            if not self._is_copied(transfer):
                return []  # among the sources
            names[f"s{k}"] = self._source(transfer.node, transfer.source)
            return [f"v{k} = lane.copied_in(s{k}, None, {self._copy_of(transfer)})"]
        lock = self._arrival[transfer]
        if not self._is_copied(transfer):
            wait = f"stream.wait_event({made}); " if made else ""
            return [f"l{lock}.acquire(); {wait}v{k} = box.pop({lock})"]
        if not self._is_gpu(transfer.target):
            return [f"l{lock}.acquire(); {self._copy_of(transfer)}.synchronize(); v{k} = box.pop({lock})"]
        return [f"l{lock}.acquire(); v{k} = lane.copied_in(box.pop({lock}), {made}, {self._copy_of(transfer)})"]

    def _send(self, transfer: Transfer, value: str) -> str:
        lock = self._arrival[transfer]
        if self._is_gpu(transfer.source) and not self._is_gpu(transfer.target):
            made = f"e{transfer.producer}" if transfer.producer is not None else None
            value = f"lane.copied_out({value}, {made}, {self._copy_of(transfer)})"
        elif self._is_gpu(transfer.target):
            value = f"keep({value})"
        return f"box[{lock}] = {value}; l{lock}.release()"

    def _first_copies(self, device: int, names: dict[str, Any]) -> list[str]:
        """What a GPU has before the step and CPUs read."""
        lines = []
        for transfer in self.program.transfers:
            if transfer.source == device and transfer.producer is None and self._is_here(transfer.source) and self._comes_later(transfer):
                value = f"p{self._arrival[transfer]}"
                names[value] = self._source(transfer.node, device)
                lines.append(self._send(transfer, value))
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

