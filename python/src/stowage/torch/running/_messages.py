"""What goes from rank to rank in a step.

All ranks derive the same list of messages from the same program, so that shapes, types and the order of everything are known on both
sides. A value goes to a rank once, however many devices read it there; within a rank the devices share it as they do without ranks.

A task that must wait for a task of another rank and gets no value from it does so for the sake of a memory that one of them
writes. The other rank has a copy of its own, so that nothing is left to wait for once the copy is made: a value that is overwritten
later in the step is copied before it is sent.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence

import torch

from ..._library import Error
from ._program import Program, Transfer


@dataclass(frozen=True, eq=False)
class Message:
    """A value that one rank has and another reads or returns."""

    tag: int  #: its place in the order that all ranks agree on
    node: Any
    source: int  #: device
    target: int  #: rank
    producer: Optional[int]  #: the task behind which it is sent; None for parameters and buffers, which go first
    transfers: tuple[Transfer, ...]  #: those of the program that it carries out
    is_output: bool  #: the step returns it
    is_overwritten: bool  #: later in the step, in the sender's memory
    axes: tuple[int, ...]  #: from the slowest to the fastest in memory, so that a transposed value needs no copy

    @property
    def value(self) -> torch.Tensor:
        """As the trace has it: shape, strides and type."""
        return self.node.meta["val"]

    @property
    def bytes(self) -> int:
        return self.value.numel() * self.value.element_size()

    def mismatch(self, value: torch.Tensor) -> Error:
        traced = self.value
        return Error(f"{self.node.name} is {tuple(value.shape)} of {value.dtype}; the trace has {tuple(traced.shape)} of {traced.dtype}")

    def packed(self, value: torch.Tensor) -> torch.Tensor:
        """The value as it travels: without gaps."""
        if value.shape != self.value.shape or value.dtype != self.value.dtype:
            raise self.mismatch(value)
        if value.is_conj() or value.is_neg():  # which only their readers would apply
            value = value.resolve_conj().resolve_neg()
        dense = value.permute(self.axes).contiguous()
        return dense.clone() if self.is_overwritten and dense.data_ptr() == value.data_ptr() else dense

    def buffer(self, device: torch.device) -> torch.Tensor:
        return torch.empty([self.value.shape[k] for k in self.axes], dtype=self.value.dtype, device=device)

    def unpacked(self, buffer: torch.Tensor) -> torch.Tensor:
        """With the axes where the trace has them, and its strides."""
        back = [0] * len(self.axes)
        for place, axis in enumerate(self.axes):
            back[axis] = place
        return buffer.permute(back)


def messages_of(program: Program, ranks: Sequence[int], size: int, updated: Sequence[Any]) -> list[Message]:
    """All messages of a step in the order of the tasks that make them, the same on every rank. ``ranks`` has that of each device,
    ``updated`` the tasks that write parameters in place though the trace does not say so."""
    place: dict[Optional[int], int] = {task.id: k for k, task in enumerate(program.tasks)}
    place[None] = -1
    wanted: dict[tuple[Any, int], tuple[int, Optional[int], list[Transfer]]] = {}
    for t in program.transfers:
        if ranks[t.source] != ranks[t.target]:
            wanted.setdefault((t.node, ranks[t.target]), (t.source, t.producer, []))[2].append(t)
    outputs = set()
    for n in program.nodes.step.outputs()[0]:
        maker = next((task for task in program.tasks if task.node is n or n in task.views or n in task.results), None)
        for rank in range(size):
            if maker is not None and ranks[maker.device] != rank:
                outputs.add((n, rank))
                wanted.setdefault((n, rank), (maker.device, maker.id, []))
    last = _last_writes(program, updated)
    found = []
    for tag, ((n, rank), (source, producer, carried)) in enumerate(sorted(wanted.items(), key=lambda item: place[item[1][1]])):
        overwritten = last.get(program.nodes.memory(n), -2) > place[producer]
        found.append(Message(tag, n, source, rank, producer, tuple(carried), (n, rank) in outputs, overwritten, _axes(n)))
    return found


def _last_writes(program: Program, updated: Sequence[Any]) -> dict[Any, int]:
    """Memory -> place of the last task that writes it in place."""
    nodes, last = program.nodes, {}
    for k, task in enumerate(program.tasks):
        written = [*nodes.written(task.node), *nodes.tracked(task.node)]
        if task.node in updated:
            written.append(nodes.memory(program.fx[nodes.nodes[task.id].get("updates", task.id)]))
        last.update(dict.fromkeys(written, k))
    return last


def _axes(n: Any) -> tuple[int, ...]:
    value = n.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise Error(f"{n.name} is no single tensor and would go from rank to rank; keep it and its readers in one rank")
    axes = sorted(range(value.dim()), key=lambda k: -value.stride(k))
    length = 1
    for k in reversed(axes):
        if value.shape[k] != 1 and value.stride(k) != length:  # gaps, or the same elements several times
            return tuple(range(value.dim()))
        length *= value.shape[k]
    return tuple(axes)
