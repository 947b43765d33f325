"""A module's step, run on the devices that a plan names."""
from __future__ import annotations

import os
import statistics
from typing import Any, Callable, Iterable, Optional, Sequence, Union

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..._graph import Graph
from ..._library import Error
from ..._plan import Path, Plan
from ..._search import Result
from ..tracing._trace import RATE, Nodes, Step
from . import _measured
from ._devices import Spec, are_mixed, check_here, parse_ranks
from ._lanes import Lanes
from ._program import Calls, Program, substitute
from ._ranks import Ranks, are_needed, first_line
from ._state import State
from ._streams import Streams
from ._workers import Workers


def place(module: torch.nn.Module, *args: Any, plan: Union[Plan, Path], devices: Sequence[str], train: bool = True,
          loss: Optional[Callable[..., Any]] = None, update: Optional[str] = None, rate: float = RATE, copies: bool = False,
          captured: bool = True, timeout: float = 60.0, carrier: Optional[str] = None, **kwargs: Any) -> "Placed":  # fmt: skip
    """The step of a module on real devices, as a plan says: a function that is called like the module.

        step = stowage.torch.place(module, x, plan=result.plan, devices=["cuda:0/sm:64", "cuda:0/sm:64"])
        loss = step(x)              # forward and backward; gradients are in .grad of the module's parameters
        optimizer.step()

    ``plan`` is one for the graph of ``trace(module, *args, train=train, loss=loss)``, or its file; device k of its machine is
    ``devices[k]``: "cuda:0", "cuda:0/sm:64" (that many of a GPU's multiprocessors; needs cuda-bindings), or "cpu:0-3" (a thread
    on these cores). The module's parameters are moved to where the plan has them, and stay the module's: ``state_dict``
    and optimizers go on working. A plan over CPUs and GPUs together is one for ``trace(..., portable=True)``.

    With ``train`` a call returns the loss and leaves the gradients of this step in ``.grad`` (those that were there are replaced);
    with ``update="sgd"`` it also updates the parameters in place, by ``rate`` (``step.rate`` may be set between steps).
    Without ``train`` it returns what the module returns. Inputs must have the shapes, types and other arguments of ``args``.
    What a call returns and leaves in ``.grad`` is overwritten by the next call; clone what is to be kept.

    CUDA devices of one GPU run as one CUDA graph, unless ``captured`` is false; together with CPUs they are given op by op, each by a
    thread of its own, and a call returns when all are through. ``copies`` has values copied from device to
    device even where they share a memory, as separate GPUs would. Random ops draw in an order of their own, so that dropout
    is another dropout than that of the module by itself.

    Devices of several processes, on one machine or more, have the rank of theirs behind them: ``["cpu:0@0", "cpu:0@1"]``. Every
    process, started by torchrun, calls ``place`` with the same module, plan and devices, and then the step with the same inputs.
    Each runs its own devices; values go from rank to rank as bytes of tensors: between CPU devices of one host through memory that the
    processes share, else through torch.distributed (gloo for CPUs, NCCL for GPUs, one in each process; NCCL has never been run
    here). ``carrier="gloo"`` uses gloo all the same, ``"shared"`` refuses to. The loss is returned on every rank. Gradients and updates
    are on the rank that has the parameter by the plan, and elsewhere ``.grad`` is None; :meth:`Placed.gather` brings the parameters
    together.
    When a process fails, is gone, or sends nothing for ``timeout`` seconds, all others raise an error that names it.
    """
    return Placed(module, args, kwargs, plan, devices, train, loss, update, rate, copies, captured, timeout, carrier)


class Placed:
    """What :func:`place` returns."""

    def __init__(self, module: torch.nn.Module, args: tuple, kwargs: dict, plan: Union[Plan, Path], devices: Sequence[str], train: bool,
                 loss: Optional[Callable[..., Any]], update: Optional[str], rate: float, copies: bool,
                 captured: bool, timeout: float = 60.0, carrier: Optional[str] = None) -> None:  # fmt: skip
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"a torch.nn.Module is needed, not {type(module).__name__}")
        if update not in (None, "sgd") or (update is not None and not train):
            raise ValueError(f"update is {update!r}; it may be None (gradients are left in .grad) or, when training, 'sgd'")
        if carrier not in (None, "shared", "gloo"):
            raise ValueError(f"carrier is {carrier!r}; it may be 'shared', 'gloo' or None (memory that is shared, where ranks are on one host)")
        if isinstance(devices, str):
            raise Error(f"devices are a list of names, such as ['{devices}']")
        self.module, self.devices, self.train = module, [str(d) for d in devices], train
        self.specs = parse_ranks(self.devices)
        self._update, self._carrier = update, carrier
        self._is_mixed = are_mixed(self.specs)
        if self._is_mixed and are_needed(self.specs):
            raise Error("CPUs and GPUs together run in one process; devices of several ranks must be of one sort, since gloo carries "
                        "what CPUs have and NCCL what GPUs have")  # fmt: skip
        if carrier is not None and self.specs[0].gpu is not None:
            raise ValueError(f"carrier is {carrier!r}, which is for CPU devices")
        self._ranks = Ranks(self.specs, timeout) if are_needed(self.specs) else None
        try:
            self._set_up(Step(module, args, kwargs, train, loss, self._is_mixed), tree_flatten((args, kwargs)), plan, rate, copies, captured)
        except Exception as error:
            if self._ranks is not None:
                self._ranks.refuse(error)
            raise

    def _set_up(self, step: Step, given: tuple[list, Any], plan: Union[Plan, Path], rate: float, copies: bool, captured: bool) -> None:
        module, ranks = self.module, self._ranks
        self._here = [d for d in range(len(self.specs)) if ranks is None or ranks.is_mine(d)]  # the devices of this process
        check_here([self.specs[d] for d in self._here])
        self.nodes = Nodes(step)
        self.graph = Graph.parse(self.nodes.opgraph(type(module).__name__), f"the trace of {type(module).__name__}")
        self.plan = _checked(plan, self.graph, self.specs)
        self.program = Program(self.nodes, self.plan)
        _check_writes(self.program, self.specs, copies)
        places = [spec.torch if d in self._here else torch.device("cpu") for d, spec in enumerate(self.specs)]
        self._calls = Calls(step, places, self._update is not None, rate)
        if ranks is not None:
            ranks.carry(self.program, [] if self._update is None else list(self._calls.updates))
            ranks.agree(str(self.graph.fingerprint), self._decisions(), repr(self.devices), repr((self.train, self._update, self._carrier)))
            if self.specs[0].gpu is None:
                ranks.connect(self._carrier)
        if captured and ranks is None and not self._is_mixed and len({spec.gpu for spec in self.specs}) > 1:
            raise Error("a CUDA graph holds the devices of one GPU; pass captured=False for several GPUs")
        self._state = State(module, self.program, self.specs, self._here, given)
        sources = self._state.sources
        if self._is_mixed or self.specs[0].gpu is None:
            lanes = Lanes(self.specs, copies) if self._is_mixed else None
            self.runner: Union[Streams, Workers] = Workers(self.program, self.specs, self._calls, sources, ranks=ranks, lanes=lanes)
        else:
            written = self._state.written(self._update is not None)
            self.runner = Streams(self.program, self.specs, self._calls, sources, copies, written, captured and ranks is None, ranks)
        self._output_spec = None if self.train else step.output_spec

    def _decisions(self) -> str:
        """What ranks must agree on: where everything is, and in what order it runs."""
        return repr((self.program.home, [task.id for task in self.program.tasks]))

    # ---- what users call ----

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            self._state.fill(args, kwargs)
        except BaseException as error:
            if self._ranks is not None:  # the others would wait for our part of the step
                self._ranks.fail(error, first_line(error))
            raise
        self.runner.run()
        values = self.runner.values
        outputs, _ = self.nodes.step.outputs()
        if not self.train:
            return tree_unflatten([self._shown(n) for n in outputs], self._output_spec)
        if self._update is None:
            for update in self._calls.updates.values():
                self.nodes.step.parameters[update.parameter].grad = values.get(update.new)  # None on other ranks
        return values[outputs[0]]

    def _shown(self, n: Any) -> Any:
        """What the step returns for a node: a value that it made, or something that was there before, or a view of that."""
        if not isinstance(n, torch.fx.Node):
            return n
        if n in self.runner.values:
            return self.runner.values[n]
        there = next((value for (m, _), value in self._state.sources.items() if m is n), None)
        if there is not None:
            return there
        return n.target(*substitute(n.args, self._shown), **substitute(dict(n.kwargs), self._shown))

    @property
    def rate(self) -> float:
        """Of the update "sgd"."""
        return float(next(iter(self._calls.rates.values())))

    @rate.setter
    def rate(self, value: float) -> None:
        for tensor in self._calls.rates.values():
            tensor.fill_(float(value))

    def gather(self) -> None:
        """Brings the module's parameters and buffers up to date on every rank, from those that have them. All ranks must call it."""
        if self._ranks is not None:
            state = [(tensor, self._ranks.of[home]) for tensor, home in self._state.tensors]
            self._ranks.gather(state)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the module, whose parameters are where the plan has them. With several ranks call :meth:`gather` before."""
        return self.module.state_dict(*args, **kwargs)

    def seconds(self, runs: int = 20, warm: int = 3) -> float:
        """What a step takes, in the median of so many. Parameters change as in any step. All ranks must call it; then each step is from
        when the first rank begins until the last has ended, and all return the same."""
        self.runner.times(warm)
        return statistics.median(self.runner.times(runs))

    def trace(self, path: Path, runs: int = 10) -> None:
        """Runs some steps and writes when each op of the quickest ran, for ``stowage report --measured`` and trace viewers: ops have the
        names of the graph's nodes, tracks those of the plan's devices. The inputs are those of the last call. Parameters change as in any
        step.

        Steps are those of CPU devices of one process, where taking the time of each op makes it a little longer; or of GPU devices that run as
        one CUDA graph. Of these PyTorch's profiler records the kernels, which takes about 0.1 us of each until the process ends. An op is
        from the begin of its first kernel to the end of its last one; what launches none has no event. Where values are copied, copies have
        tracks of their own.
        """
        if runs < 1:
            raise ValueError(f"runs is {runs}; it must be 1 or more")
        if self._ranks is None and isinstance(self.runner, Streams) and self.runner.graph is not None:
            rows = _measured.on_streams(self.runner, runs)
        elif self._ranks is None and all(spec.gpu is None for spec in self.specs):
            timed = Workers(self.program, self.specs, self._calls, self._state.sources, timed=True)
            try:
                rows = _measured.on_threads(timed, runs)
            finally:
                timed.close()
        else:
            raise Error("only steps of one process, on CPU devices or on GPU devices that run as one CUDA graph, are traced op by op; of others "
                        "PyTorch's profiler has a trace")  # fmt: skip
        _measured.write(path, self.plan, rows)

    @property
    def carrier(self) -> str:
        """What values go by: "threads" (or streams) of one process, "shared" memory, "gloo" or "nccl" between several."""
        if self._ranks is None:
            return "threads" if isinstance(self.runner, Workers) else "streams"
        return self._ranks.carrier

    def close(self) -> None:
        """Ends the threads, or frees the CUDA graph with its memory. With several ranks it waits until all have come here."""
        self.runner.close()
        if self._ranks is not None:
            self._ranks.close()

    def __enter__(self) -> "Placed":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is not None and self._ranks is not None:
            self._ranks.fail(error, first_line(error))
        self.close()

    def __repr__(self) -> str:
        count = sum(1 for _ in self.program.transfers)
        return f"<{type(self.module).__name__} on {', '.join(self.devices)}: {len(self.program.tasks)} ops, {count} transfers>"


def _checked(plan: Union[Plan, Path], graph: Graph, specs: Sequence[Spec]) -> Plan:
    plan = plan.plan if isinstance(plan, Result) else plan
    if plan is None:
        raise Error("the search found no plan, so there is none to run")
    if not isinstance(plan, Plan):
        plan = Plan.load(os.fspath(plan), graph)
    if plan.graph.fingerprint != graph.fingerprint:
        remedy = "; a plan over CPUs and GPUs is one for trace(..., portable=True)" if are_mixed(specs) else ""
        raise Error(f"the plan is of another graph ({plan.graph.name}, {len(plan.graph)} nodes) than the module's step ({len(graph)} nodes){remedy}")
    if len(plan.machine) != len(specs):
        raise Error(f"the plan is for {len(plan.machine)} devices ({plan.machine.name}), and {len(specs)} are given")
    return plan


def _check_writes(program: Program, specs: Sequence[Spec], copies: bool) -> None:
    """What is written in place and then read by an older name is one memory; a copy would be behind. Devices that share a memory
    still have copies of their own of what comes from elsewhere."""
    memory = [(spec.rank or 0, spec.torch) for spec in specs]
    for task in program.tasks:
        for k in program.nodes.written(task.node):
            source = program.nodes.nodes[k] if isinstance(k, int) else {"op": "one of several results"}
            apart = isinstance(k, int) and program.home[k] != task.device and (copies or memory[program.home[k]] != memory[task.device])
            if source["op"] in ("parameter", "buffer") and apart:
                raise Error(f"{task.node.name} writes {source['name']} in place, which is in another memory by the plan; keep both on one device")
    for writer, reader in program.nodes.stale:
        a, b = program.home[writer], program.home[reader]
        roots = {program.root(m) for m in program.nodes.fx[reader].all_input_nodes if m in program.nodes.id}
        makers = [program.home[program.nodes.id[m]] for m in roots if not program.is_everywhere(m)]
        if a != b and (copies or any(memory[d] != memory[a] for d in [b, *makers])):
            name = program.nodes.nodes[writer]["name"]
            raise Error(f"{name} writes in place what {program.nodes.nodes[reader]['name']} reads on another device, whose copy would be behind; "
                        "write the module without that, or keep both on one device")  # fmt: skip


def one_turn(placed: Iterable[Placed], runs: int) -> list[list[float]]:
    """Seconds of so many steps of each, one after the other. The first of each finds what the others have left in the caches, and is left
    out. In turns what disturbs one disturbs all."""
    return [step.runner.times(runs)[1:] for step in placed]
