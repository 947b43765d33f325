"""What is there before a placed step: parameters and buffers in the memories where the plan has them, inputs in all of them, constants."""
from __future__ import annotations

from typing import Any, Sequence

import torch
from torch.utils._pytree import tree_flatten

from ..._library import Error
from ..tracing._trace import attribute
from ._devices import Spec
from ._program import Program


class State:
    """The module's parameters and buffers, moved to their devices, and what is beside them. ``here`` are the devices of this process,
    ``given`` the arguments that the step was traced with, flat."""

    def __init__(self, module: torch.nn.Module, program: Program, specs: Sequence[Spec], here: Sequence[int], given: tuple[list, Any]) -> None:
        self._step, self._places = program.nodes.step, {d: specs[d].torch for d in here}
        self._flat, self._spec = given
        self._placeholders = [n for n in self._step.graph.nodes if n.op == "placeholder"]
        state = [*self._step.parameters.values(), *self._step.buffers.values()]
        homes = [program.home[program.nodes.id[n]] for n in self._placeholders[: len(state)]]
        self.tensors = list(zip(state, homes))  #: parameters and buffers, and the device of each
        self._move()
        self._expected = [(owner, name, tensor, tensor.data_ptr()) for m in module.modules() for owner in (m._parameters, m._buffers)
                          for name, tensor in owner.items() if tensor is not None]  # fmt: skip
        self._inputs = self._static_inputs()
        self.sources = self._find_sources()  #: (fx node, device) -> value

    def _move(self) -> None:
        """Parameters and buffers to their devices, as the module's own."""
        with torch.no_grad():
            for tensor, home in self.tensors:
                if home in self._places and tensor.device != self._places[home]:
                    tensor.data = tensor.data.to(self._places[home])

    def _static_inputs(self) -> list[dict[torch.device, torch.Tensor]]:
        """A tensor for each input on each kind of memory, which every call fills."""
        places = dict.fromkeys(self._places.values())
        return [{place: self._flat[k].detach().to(place, copy=True) for place in places} for k in self._step.tensors]

    def _find_sources(self) -> dict[tuple[Any, int], Any]:
        found: dict[tuple[Any, int], Any] = {}
        for n, (tensor, home) in zip(self._placeholders, self.tensors):
            if home in self._places:
                found[n, home] = tensor.detach()
        for n, tensors in zip(self._placeholders[len(self.tensors) :], self._inputs):
            found.update({(n, d): tensors[place] for d, place in self._places.items()})
        for n in self._step.graph.nodes:
            if n.op == "get_attr":
                value = attribute(self._step.module, n.target)
                found.update({(n, d): value.to(place) if isinstance(value, torch.Tensor) else value for d, place in self._places.items()})
        return found

    def written(self, updates: bool) -> list[torch.Tensor]:
        """What a step changes: buffers, and with an update the parameters."""
        trained = [self._step.parameters[name] for name in self._step.trained] if updates else []
        return [*trained, *self._step.buffers.values()]

    # ---- a call ----

    def fill(self, args: tuple, kwargs: dict) -> None:
        """The inputs of a call, if it is one that the step was placed for."""
        self._check()
        flat, spec = tree_flatten((args, kwargs))
        if spec != self._spec:
            raise Error("the step was placed for other arguments; place it again for these")
        for k, (given, traced) in enumerate(zip(flat, self._flat)):
            if k not in self._step.tensors:
                if given is not traced and given != traced:
                    raise Error(f"argument {k} is {given!r} and was {traced!r} when the step was placed; place it again")
                continue
            if not isinstance(given, torch.Tensor) or given.shape != traced.shape or given.dtype != traced.dtype:
                said = f"{tuple(given.shape)} of {given.dtype}" if isinstance(given, torch.Tensor) else type(given).__name__
                raise Error(f"argument {k} is {said}; the step was placed for {tuple(traced.shape)} of {traced.dtype}: place it again")
            for tensor in self._inputs[self._step.tensors.index(k)].values():
                if tensor.data_ptr() != given.data_ptr():
                    tensor.copy_(given, non_blocking=tensor.is_cuda)

    def _check(self) -> None:
        """The module still has the tensors that the step computes with."""
        for owner, name, tensor, pointer in self._expected:
            if owner.get(name) is not tensor or tensor.data_ptr() != pointer:
                raise Error(f"the module's {name} was replaced after the step was placed; place it again")
