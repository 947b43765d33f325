"""A module's step, run on the devices that a plan names."""
from __future__ import annotations

import os
import statistics
from typing import Any, Callable, Optional, Sequence, Union

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .._graph import Graph
from .._library import Error
from .._plan import Path, Plan
from ._devices import Spec, parse_all
from ._program import Calls, Program
from ._streams import Streams
from ._trace import RATE, Nodes, Step, attribute
from ._workers import Workers


def place(module: torch.nn.Module, *args: Any, plan: Union[Plan, Path], devices: Sequence[str], train: bool = True,
          loss: Optional[Callable[..., Any]] = None, update: Optional[str] = None, rate: float = RATE, copies: bool = False,
          captured: bool = True, **kwargs: Any) -> "Placed":  # fmt: skip
    """The step of a module on real devices, as a plan says: a function that is called like the module.

        step = stowage.torch.place(module, x, plan=result.plan, devices=["cuda:0/sm:64", "cuda:0/sm:64"])
        loss = step(x)              # forward and backward; gradients are in .grad of the module's parameters
        optimizer.step()

    ``plan`` is one for the graph of ``trace(module, *args, train=train, loss=loss)``, or its file; device k of its machine is
    ``devices[k]``: "cuda:0", "cuda:0/sm:64" (that many of a GPU's multiprocessors; needs cuda-bindings), or "cpu:0-3" (a thread
    on these cores). The module's parameters are moved to where the plan has them, and stay the module's: ``state_dict``
    and optimizers go on working.

    With ``train`` a call returns the loss and leaves the gradients of this step in ``.grad`` (those that were there are replaced);
    with ``update="sgd"`` it also updates the parameters in place, by ``rate`` (``step.rate`` may be set between steps).
    Without ``train`` it returns what the module returns. Inputs must have the shapes, types and other arguments of ``args``.
    What a call returns and leaves in ``.grad`` is overwritten by the next call; clone what is to be kept.

    CUDA devices of one GPU run as one CUDA graph, unless ``captured`` is false. ``copies`` has values copied from device to
    device even where they share a memory, as separate GPUs would. Random ops draw in an order of their own, so that dropout
    is another dropout than that of the module by itself.
    """
    return Placed(module, args, kwargs, plan, devices, train, loss, update, rate, copies, captured)


class Placed:
    """What :func:`place` returns."""

    def __init__(self, module: torch.nn.Module, args: tuple, kwargs: dict, plan: Union[Plan, Path], devices: Sequence[str], train: bool,
                 loss: Optional[Callable[..., Any]], update: Optional[str], rate: float, copies: bool,
                 captured: bool) -> None:  # fmt: skip
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"a torch.nn.Module is needed, not {type(module).__name__}")
        if update not in (None, "sgd"):
            raise ValueError(f"update is {update!r}; it may be None (gradients are left in .grad) or 'sgd'")
        self.module, self.devices, self.train = module, [str(d) for d in devices], train
        self.specs = parse_all(self.devices)
        self._update = update
        step = Step(module, args, kwargs, train, loss)
        self.nodes = Nodes(step)
        self.graph = Graph.parse(self.nodes.opgraph(type(module).__name__), f"the trace of {type(module).__name__}")
        self.plan = _checked(plan, self.graph, self.specs)
        self.program = Program(self.nodes, self.plan)
        _check_writes(self.program, self.specs, copies)
        self._move_state()
        self._flat, self._spec = tree_flatten((args, kwargs))
        self._inputs = self._static_inputs(step)
        self._calls = Calls(step, [spec.torch for spec in self.specs], update is not None, rate)
        sources = self._sources(step)
        if self.specs[0].gpu is None:
            self.runner: Union[Streams, Workers] = Workers(self.program, self.specs, self._calls, sources)
        else:
            self.runner = Streams(self.program, self.specs, self._calls, sources, copies, self._written(), captured)
        self._output_spec = None if train else step.output_spec

    # ---- what users call ----

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._fill(args, kwargs)
        self.runner.run()
        values = self.runner.values
        outputs, _ = self.nodes.step.outputs()
        if not self.train:
            return tree_unflatten([values.get(n, n) if isinstance(n, torch.fx.Node) else n for n in outputs], self._output_spec)
        if self._update is None:
            for update in self._calls.updates.values():
                self.nodes.step.parameters[update.parameter].grad = values[update.new]
        return values[outputs[0]]

    @property
    def rate(self) -> float:
        """Of the update "sgd"."""
        return float(next(iter(self._calls.rates.values())))

    @rate.setter
    def rate(self, value: float) -> None:
        for tensor in self._calls.rates.values():
            tensor.fill_(float(value))

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the module, whose parameters are where the plan has them."""
        return self.module.state_dict(*args, **kwargs)

    def seconds(self, runs: int = 20, warm: int = 3) -> float:
        """What a step takes, in the median of so many. Parameters change as in any step."""
        self.runner.times(warm)
        return statistics.median(self.runner.times(runs))

    def close(self) -> None:
        """Ends the threads, or frees the CUDA graph with its memory."""
        self.runner.close()

    def __enter__(self) -> "Placed":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        count = sum(1 for _ in self.program.transfers)
        return f"<{type(self.module).__name__} on {', '.join(self.devices)}: {len(self.program.tasks)} ops, {count} transfers>"

    # ---- what is there before a step ----

    def _move_state(self) -> None:
        """Parameters and buffers to their devices, as the module's own."""
        step = self.nodes.step
        state = {**step.parameters, **step.buffers}
        placeholders = [n for n in step.graph.nodes if n.op == "placeholder"]
        with torch.no_grad():
            for (path, tensor), n in zip(state.items(), placeholders):
                target = self.specs[self.program.home[self.nodes.id[n]]].torch
                if tensor.device != target:
                    tensor.data = tensor.data.to(target)

    def _static_inputs(self, step: Step) -> list[dict[torch.device, torch.Tensor]]:
        """A tensor for each input on each kind of memory, which every call fills."""
        places = dict.fromkeys(spec.torch for spec in self.specs)
        return [{place: self._flat[k].detach().to(place, copy=True) for place in places} for k in step.tensors]

    def _sources(self, step: Step) -> dict[tuple[Any, int], Any]:
        state = [*step.parameters.values(), *step.buffers.values()]
        found: dict[tuple[Any, int], Any] = {}
        placeholders = [n for n in step.graph.nodes if n.op == "placeholder"]
        for k, n in enumerate(placeholders):
            for d, spec in enumerate(self.specs):
                if k >= len(state):
                    found[n, d] = self._inputs[k - len(state)][spec.torch]
                elif self.program.home[self.nodes.id[n]] == d:
                    found[n, d] = state[k].detach()
        for n in step.graph.nodes:
            if n.op == "get_attr":
                value = attribute(step.module, n.target)
                for d, spec in enumerate(self.specs):
                    found[n, d] = value.to(spec.torch) if isinstance(value, torch.Tensor) else value
        return found

    def _written(self) -> list[torch.Tensor]:
        """What a step changes: buffers, and with an update the parameters."""
        step = self.nodes.step
        trained = [step.parameters[name] for name in step.trained] if self._update is not None else []
        return [*trained, *step.buffers.values()]

    def _fill(self, args: tuple, kwargs: dict) -> None:
        flat, spec = tree_flatten((args, kwargs))
        if spec != self._spec:
            raise Error("the step was placed for other arguments; place it again for these")
        step = self.nodes.step
        for k, (given, traced) in enumerate(zip(flat, self._flat)):
            if k not in step.tensors:
                if given is not traced and given != traced:
                    raise Error(f"argument {k} is {given!r} and was {traced!r} when the step was placed; place it again")
                continue
            if not isinstance(given, torch.Tensor) or given.shape != traced.shape or given.dtype != traced.dtype:
                said = f"{tuple(given.shape)} of {given.dtype}" if isinstance(given, torch.Tensor) else type(given).__name__
                raise Error(f"argument {k} is {said}; the step was placed for {tuple(traced.shape)} of {traced.dtype}: place it again")
            for tensor in self._inputs[step.tensors.index(k)].values():
                if tensor.data_ptr() != given.data_ptr():
                    tensor.copy_(given, non_blocking=True)


def _checked(plan: Union[Plan, Path], graph: Graph, specs: Sequence[Spec]) -> Plan:
    if not isinstance(plan, Plan):
        plan = Plan.load(os.fspath(plan), graph)
    if plan.graph.fingerprint != graph.fingerprint:
        raise Error(f"the plan is of another graph ({plan.graph.name}, {len(plan.graph)} nodes) than the module's step ({len(graph)} nodes)")
    if len(plan.machine) != len(specs):
        raise Error(f"the plan is for {len(plan.machine)} devices ({plan.machine.name}), and {len(specs)} are given")
    return plan


def _check_writes(program: Program, specs: Sequence[Spec], copies: bool) -> None:
    """What is written in place and then read by an older name is one memory; a copy would be behind."""
    for writer, reader in program.nodes.stale:
        a, b = program.home[writer], program.home[reader]
        if a != b and (copies or specs[a].torch != specs[b].torch):
            name = program.nodes.nodes[writer]["name"]
            raise Error(f"{name} writes in place what {program.nodes.nodes[reader]['name']} reads on another device, whose copy would be behind; "
                        "write the module without that, or keep both on one device")  # fmt: skip
