"""Runs a program on CUDA devices: a stream for each, events between them, the whole step as one CUDA graph."""
from __future__ import annotations

import collections
import contextlib
from typing import Any, Callable, Iterator, Optional, Sequence, Union

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..._library import Error
from ._devices import Spec, streams_of
from ._messages import Message
from ._program import Program, Task, Transfer, substitute
from ._ranks import Ranks

Call = Callable[[Task], tuple[Callable[..., Any], tuple, dict]]  # a task's function and arguments, fx nodes for values
Around = Callable[[Union[Task, Transfer]], Any]  # a context manager for what an op, or a copy, gives the GPU to do


class Streams:
    """One step on streams. ``sources`` has what is there before it: (fx node, device) -> tensor.

    Values go by reference where both devices share a memory and ``copies`` is off; else they are copied, on a second stream of the
    receiver, which goes on with other work meanwhile. Values are dropped behind their last reader; one that another device has read is
    lent, and its memory is not used again before the stream that it belongs to has waited for that device.

    With ``ranks`` it runs the devices of this process alone and talks to the others by NCCL, which carries out what two ranks send each
    other in the order in which it was asked: both go through all tasks of the program, and ask where the sender's task stands.
    This part has never been run.
    """

    def __init__(self, program: Program, specs: Sequence[Spec], call: Call, sources: dict[tuple[Any, int], Any], copies: bool,
                 written: Sequence[torch.Tensor], captured: bool = True, ranks: Optional[Ranks] = None) -> None:  # fmt: skip
        self.program, self.specs, self.call, self.sources = program, specs, call, sources
        self.copies, self.ranks = copies, ranks
        here = [d for d in range(len(specs)) if self._is_here(d)]
        both = dict(zip(here, streams_of([specs[d] for d in here], 2)))
        self.streams, self.copiers = {d: s[0] for d, s in both.items()}, {d: s[1] for d, s in both.items()}
        self.gpus = {specs[d].gpu for d in here} or {torch.cuda.current_device()}
        self._coming: dict[Optional[int], list[Message]] = {}  # task of another rank -> what it sends here
        for message in (m for ms in ranks.receives().values() for m in ms) if ranks is not None else ():
            self._coming.setdefault(message.producer, []).append(message)
        if captured and len(self.gpus) > 1:
            raise Error("a CUDA graph holds the devices of one GPU; pass captured=False for several GPUs")
        self.values: dict[Any, Any] = {}  # outputs of the step by fx node
        self.graph: Optional[torch.cuda.CUDAGraph] = None
        self._waited_for = {k for task in program.tasks for k in task.waits}
        self.dependencies = 0  # between devices, as issued
        self._around: Around = _nothing
        self._gpu, self._closed = min(self.gpus), False
        with torch.cuda.device(self._gpu):
            with restored(written):  # a first run loads kernels and makes handles, which a capture must not
                try:
                    self._issue(torch.cuda.current_stream())
                finally:
                    self._synchronize()
            if captured:
                self._capture()

    def run(self) -> None:
        """Enqueues one step on the current stream of the first GPU."""
        if self._closed:
            raise Error("the step was closed")
        if self.ranks is not None and self.ranks.failure:
            raise Error(self.ranks.failure)
        with torch.cuda.device(self._gpu):
            if self.graph is not None:
                self.graph.replay()
            else:
                self._issue(torch.cuda.current_stream())

    def times(self, runs: int) -> list[float]:
        """Seconds of each of so many steps in a row, as in a training loop."""
        self._synchronize()
        with torch.cuda.device(self._gpu):
            return times_in_a_row(self.run, runs)

    def run_apart(self, around: Around) -> None:
        """One step that is issued op by op, also where others are replays, with a context around each op and copy. Outputs stay those of
        the last step."""
        self._synchronize()
        values, self._around = self.values, around
        try:
            with torch.cuda.device(self._gpu):
                self._issue(torch.cuda.current_stream())
            self._synchronize()
        finally:
            self.values, self._around = values, _nothing

    def close(self) -> None:
        self._closed = True
        self._synchronize()
        self.graph = None
        self.values = {}

    # ---- issuing ----

    def _capture(self) -> None:
        self._synchronize()
        self.values = {}
        self.graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self.graph, stream=self.streams[0]):
                self._issue(self.streams[0])
        except (RuntimeError, Error) as error:
            self.graph = None
            raise Error(f"the step cannot be captured into a CUDA graph: {_first_line(error)}; captured=False runs it op by op") from error

    def _issue(self, caller: Any) -> None:
        """The step on all streams, which begin behind the caller's and end before it goes on."""
        self._local: list[dict[Any, Any]] = [{} for _ in self.specs]
        self._done: dict[int, Any] = {}  # task -> event
        self._copied: dict[Transfer, Any] = {}  # -> event
        self._sent: dict[Transfer, Any] = {}  # values that others will read
        self._owner: dict[int, int] = {}  # of memory that others read: its address -> device
        self._lent = [[collections.deque() for _ in self.specs] for _ in self.specs]  # [owner][device]: (place of the task behind which it is free, value)
        self._known: dict[int, list[int]] = {}  # task -> what its device has waited for by then, as in _reached
        self._kept: list[Any] = []
        self._posted: dict[Message, tuple[Any, torch.Tensor]] = {}
        self._message: dict[Transfer, Message] = {}
        self._reached = [[-1] * len(self.specs) for _ in self.specs]  # [device][other]: up to which task it has waited for the other, also by way of a third
        self._place = {task.id: k for k, task in enumerate(self.program.tasks)}
        self.dependencies = 0
        self._begin = torch.cuda.Event()
        self._begin.record(caller)
        for stream in self.streams.values():
            if stream != caller:
                stream.wait_event(self._begin)
        with torch.no_grad(), self._told():
            self._exchange(None, caller)
            for task in self.program.tasks:
                if self._is_here(task.device):
                    self._issue_task(task)
                self._exchange(task, caller)
                if self._is_here(task.device):
                    self._drop(task)
            if self.ranks is not None:
                with torch.cuda.stream(caller):
                    self.ranks.settle()
        for stream in self.streams.values():  # copies have ended before who reads them
            if stream != caller:
                end = torch.cuda.Event()
                end.record(stream)
                caller.wait_event(end)
        self.values = {n: values[n] for values in self._local for n in self.program.outputs if n in values}
        self.values.update({m.node: self._arrived(m, caller) for m in self._posted if m.is_output})
        self._posted = {}
        self._local, self._done, self._copied, self._sent, self._kept, self._lent = [], {}, {}, {}, [], []

    def _issue_task(self, task: Task) -> None:
        stream, local = self.streams[task.device], self._local[task.device]
        with torch.cuda.stream(stream):
            for k in task.waits:
                if self._is_here(self.program.by_id[k].device):
                    self._wait(task.device, k)
            for transfer in task.copied:
                if transfer in self._copied:  # not by reference
                    stream.wait_event(self._copied[transfer])
            for transfer in task.receives:
                local[transfer.node] = self._receive(transfer, task)
            for n in task.views:
                local[n] = n.target(*self._real(n.args, task.device), **self._real(n.kwargs, task.device))
            function, args, kwargs = self.call(task)
            args, kwargs = self._real(args, task.device), self._real(kwargs, task.device)
            try:
                with self._around(task):
                    local[task.node] = function(*args, **kwargs)
            except torch.cuda.OutOfMemoryError as error:
                raise Error(f"the step does not fit into the memory of {self.specs[task.device].name}: {_first_line(error)}") from error
            except RuntimeError as error:  # a kernel that refuses a share of the GPU, say
                raise Error(f"{task.node.name} cannot run on {self.specs[task.device].name}: {_first_line(error)}") from error
            for n in task.results:
                local[n] = n.target(*self._real(n.args, task.device), **self._real(n.kwargs, task.device))
            if task.sends or task.id in self._waited_for:
                self._done[task.id] = torch.cuda.Event()
                self._done[task.id].record(stream)
                self._known[task.id] = [*self._reached[task.device]]
                self._known[task.id][task.device] = self._place[task.id]
            if task.sends:
                self._own(local[task.node], task.device, (args, kwargs))
            for transfer in task.sends:
                if self._is_here(transfer.target):
                    self._sent[transfer] = self._value(transfer.node, task.device)

    def _own(self, value: Any, device: int, given: Any) -> None:
        """What a device has made is its own, unless it is the memory of something that it was given."""
        before = {_address(t) for t in _tensors(given)}
        for address in map(_address, _tensors(value)):
            if address not in before or address not in self._owner:
                self._owner[address] = device

    def _drop(self, task: Task) -> None:
        for n in task.frees:
            for tensor in _tensors(self._local[task.device].pop(n, None)):
                owner = self._owner.get(_address(tensor), task.device)
                if owner != task.device:
                    self._lent[owner][task.device].append((self._place[task.id], tensor))

    def _take_back(self, owner: int) -> None:
        """What others have read is free, once their streams are before the owner's."""
        for lent, reached in zip(self._lent[owner], self._reached[owner]):
            while lent and lent[0][0] <= reached:
                lent.popleft()

    def _exchange(self, task: Optional[Task], caller: Any) -> None:
        """Asks NCCL for what goes between ranks behind a task, or before the first one."""
        if self.ranks is None:
            return
        producer = task.id if task is not None else None
        asked = [*self.ranks.sends(producer), *self._coming.get(producer, ())]
        for message in sorted(asked, key=lambda m: m.tag):
            if self._is_here(message.source):
                with torch.cuda.stream(self.streams[message.source]):  # NCCL begins behind it
                    self.ranks.send(message, self._value(message.node, message.source))
                continue
            with torch.cuda.stream(caller):
                self._posted[message] = self.ranks.post(message)
            for transfer in message.transfers:
                self._message[transfer] = message

    def _arrived(self, message: Message, stream: Any) -> torch.Tensor:
        """What another rank has sent. The stream waits for it, and not we."""
        work, buffer = self._posted[message]
        with torch.cuda.stream(stream):
            if work is not None:
                work.wait()
        self._kept.append(buffer)  # its memory is the caller's, which does not know who reads it
        return message.unpacked(buffer)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """The other ranks hear of a failure here."""
        try:
            yield
        except Exception as error:
            if self.ranks is None:
                raise
            raise Error(self.ranks.fail(error, f"the step failed: {_first_line(error)}")) from error

    def _is_here(self, device: int) -> bool:
        return self.ranks is None or self.ranks.is_mine(device)

    def _receive(self, transfer: Transfer, task: Task) -> Any:
        if not self._is_here(transfer.source):
            return self._arrived(self._message[transfer], self.streams[transfer.target])
        if self._is_copied(transfer):
            return self._copy(transfer, task)
        if transfer.producer is None:
            return self._value(transfer.node, transfer.source)
        self._wait(transfer.target, transfer.producer)
        return self._sent.pop(transfer)

    def _copy(self, transfer: Transfer, task: Task) -> Any:
        """The value in the receiver's memory. Copies begin when the value is there, whatever the receiver does then."""
        device, stream = self.specs[transfer.target].torch, self.copiers[transfer.target]
        if transfer.producer is None:
            value = self._value(transfer.node, transfer.source)
            stream.wait_event(self._begin)
        else:
            value = self._sent.pop(transfer)
            stream.wait_event(self._done[transfer.producer])
            self._lent[transfer.source][transfer.target].append((self._place[task.id], value))
        with torch.cuda.stream(stream), self._around(transfer):
            copy = tree_map(lambda t: t.to(device, non_blocking=True, copy=True) if isinstance(t, torch.Tensor) else t, value)
        arrived = self._copied[transfer] = torch.cuda.Event()
        arrived.record(stream)
        self.streams[transfer.target].wait_event(arrived)
        if transfer.producer is not None:
            self._reach(transfer.target, transfer.producer)
        self.dependencies += 1
        self._kept.append(copy)  # its memory is the copying stream's, which does not know who reads it
        return copy

    def _is_copied(self, transfer: Transfer) -> bool:
        return self.copies or self.specs[transfer.source].gpu != self.specs[transfer.target].gpu

    def _wait(self, device: int, task: int) -> None:
        """One device waits for a task of another, unless it is behind a later one of that already."""
        other = self.program.by_id[task].device
        if self._reached[device][other] >= self._place[task]:
            return
        self.dependencies += 1
        self.streams[device].wait_event(self._done[task])
        self._reach(device, task)

    def _reach(self, device: int, task: int) -> None:
        """A device's stream is now behind a task, and behind all that this was behind."""
        self._reached[device] = [max(a, b) for a, b in zip(self._reached[device], self._known[task])]
        self._take_back(device)

    def _real(self, args: Any, device: int) -> Any:
        return substitute(args, lambda m: self._value(m, device) if isinstance(m, torch.fx.Node) else m)

    def _value(self, n: Any, device: int) -> Any:
        local = self._local[device]
        if n in local:
            return local[n]
        if (n, device) in self.sources:
            return self.sources[n, device]
        if not self.program.is_view(n):
            raise Error(f"{n.name} is not on {self.specs[device].name} any more")
        return n.target(*self._real(n.args, device), **self._real(n.kwargs, device))

    def _synchronize(self) -> None:
        for gpu in self.gpus:
            torch.cuda.synchronize(gpu)


def times_in_a_row(run: Callable[[], None], count: int) -> list[float]:
    """Seconds on the current stream of each of so many runs, behind one that does not count: the next ones are given to the GPU while it
    works. A large CUDA graph is launched one stream after the other, at about a microsecond a kernel, which a GPU that has nothing else to do
    waits for."""
    run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    events[-1].synchronize()
    return [1e-3 * a.elapsed_time(b) for a, b in zip(events, events[1:])]


@contextlib.contextmanager
def restored(written: Sequence[torch.Tensor]) -> Iterator[None]:
    """What a trial run overwrites or moves is as before behind it."""
    kept = [t.detach().clone() for t in written]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in zip(written, kept):
                if tensor.device != before.device:  # placing the step has moved it
                    tensor.data = tensor.data.to(before.device)
                tensor.copy_(before)


def _nothing(what: Union[Task, Transfer]) -> Any:
    return contextlib.nullcontext()


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _first_line(error: BaseException) -> str:
    return str(error).split("\n")[0] or type(error).__name__
