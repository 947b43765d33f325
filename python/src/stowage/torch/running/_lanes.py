"""GPUs among the threads of a step: a GPU's thread issues its ops on a stream of its own, and values cross between the memories.

What a CPU has made is there when its thread hands it over; what a GPU has made is there when an event says so. The side that knows
the earlier moment copies: a GPU copies what it makes for a CPU as soon as it is made, and takes what a CPU made when it is handed over.
Both happen on a second stream, so that the first goes on with other work.

The allocator gives memory back to the stream that asked for it, which does not know who else reads it. So all that crosses is kept until
the step has ended on all devices.
"""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch
from torch.utils._pytree import tree_map

from ._devices import Spec, streams_of


class Lane:
    """One GPU device: the stream of its ops, and that of its copies."""

    def __init__(self, device: torch.device, streams: Sequence[Any], begun: Sequence[Any], keep: Callable[[Any], Any]) -> None:
        self.device = device
        self.stream, self._copier = streams
        self._begun, self._keep = begun, keep

    def run(self, work: Callable[[], Any]) -> Any:
        """What a thread does with its part of the step: everything behind what the caller has issued, until all of it is over."""
        with torch.cuda.stream(self.stream):
            for event in self._begun:
                self.stream.wait_event(event)
                self._copier.wait_event(event)
            try:
                return work()
            finally:
                self.stream.synchronize()
                self._copier.synchronize()

    def copied_in(self, value: Any, made: Optional[Any], copied: Any) -> Any:
        """A value of another memory in this one, once it is `made`; None: it is there. Our stream waits for it, and not we."""
        if made is not None:
            self._copier.wait_event(made)
        copy = self._keep(self._copy(value, self.device))
        copied.record(self._copier)
        self.stream.wait_event(copied)
        return copy

    def copied_out(self, value: Any, made: Optional[Any], copied: Any) -> Any:
        """A value of this memory in the CPU's, which may be read when `copied` has come."""
        if made is not None:
            self._copier.wait_event(made)
        copy = self._copy(self._keep(value), torch.device("cpu"))
        copied.record(self._copier)
        return copy

    def _copy(self, value: Any, device: torch.device) -> Any:
        with torch.cuda.stream(self._copier):  # to a CPU that goes into pinned memory
            return tree_map(lambda t: t.to(device, non_blocking=True, copy=True) if isinstance(t, torch.Tensor) else t, value)


class Lanes:
    """The GPU devices among those of a step, by their number."""

    def __init__(self, specs: Sequence[Spec], copies: bool) -> None:
        self._specs, self._copies = specs, copies
        self._kept: list[Any] = []
        gpus = [d for d, spec in enumerate(specs) if spec.gpu is not None]
        self._begun = {specs[d].gpu: torch.cuda.Event() for d in gpus}  # what the caller has issued there
        streams = streams_of([specs[d] for d in gpus], 2)
        self._of = {d: Lane(specs[d].torch, own, list(self._begun.values()), self.keep) for d, own in zip(gpus, streams)}

    def get(self, device: int) -> Optional[Lane]:
        """None: a CPU."""
        return self._of.get(device)

    def is_copied(self, source: int, target: int) -> bool:
        """Whether a value that goes from one to the other is copied. CPUs always share their memory."""
        if source not in self._of and target not in self._of:
            return False
        return self._specs[source].gpu != self._specs[target].gpu or self._copies

    def keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def begin(self) -> None:
        for gpu, event in self._begun.items():
            event.record(torch.cuda.current_stream(gpu))

    def end(self) -> None:
        """All devices are through."""
        self._kept.clear()
