"""The simulator: what a plan is worth."""
from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from . import _text
from ._graph import Graph, load
from ._library import CBounds, CEvaluation, Error, Handle, c_text, call, create, library, make_options, named_list, path_bytes, text, warn, whole
from ._machine import Machine, as_machine

if TYPE_CHECKING:
    from ._plan import Plan

GraphLike = Union[Graph, str, "os.PathLike[str]"]
MachineLike = Union[Machine, str, "os.PathLike[str]", Mapping[str, Any], None]


@dataclass(frozen=True)
class Evaluation:
    """What one simulated step of a plan came to. Times are seconds, sizes bytes."""

    valid: bool
    reason: Optional[str]  #: why not: "memory", "links", "order", ...; None if valid
    message: str  #: the reason in words, or ""
    step: Optional[float]  #: None where the plan has no step
    devices: tuple[str, ...]
    peak: tuple[int, ...]  #: largest use of memory per device; empty without a step
    memory: tuple[int, ...]  #: what each device has
    busy: tuple[float, ...]  #: time at work per device; empty without a step
    charged: tuple[float, ...]  #: the part of it that transfers take, where links charge something
    transfers: int
    transfer_bytes: int
    lower_bound: Optional[float]  #: what no plan with these groups can beat; None without a step
    lower_bound_fusion: Optional[float]  #: what no plan with any groups can beat
    measured_share: float  #: share of the work whose time was measured
    size_scale: float = 1.0  #: what peak and memory are divided by to be bytes: 1, but for dnn-partitioning inputs

    def _rows(self) -> list[list[str]]:
        if self.step is None:
            return []
        return [
            [name, _text.show_seconds(busy), f"{100 * busy / self.step if self.step else 0:.1f} %", _text.show_bytes(peak / self.size_scale),
             _text.show_bytes(memory / self.size_scale)]
            for name, busy, peak, memory in zip(self.devices, self.busy, self.peak, self.memory)
        ]  # fmt: skip

    _HEAD = ("device", "busy", "utilisation", "peak memory", "of")

    def __repr__(self) -> str:
        state = "valid" if self.valid else f"invalid ({self.reason}: {self.message})"
        lines = [f"step {'-' if self.step is None else _text.show_seconds(self.step)}, {state}"]
        if self.step is not None:
            lines[0] += (
                f"; lower bound {_text.show_seconds(self.lower_bound or 0)}; {self.transfers:,} transfers, "
                f"{_text.show_bytes(self.transfer_bytes)}; {100 * self.measured_share:.1f} % of the work measured"
            )
            lines.append(_text.text_table(self._HEAD, self._rows()))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _text.html_table(repr(self).split("\n")[0], self._HEAD, self._rows())


class Simulator:
    """A graph on a machine with the costs of its ops. Immutable; threads may share it.

    ``machine`` may be left out when the graph brings one. ``costs`` is a file of measured times. Worth keeping where
    many plans are evaluated; :func:`simulate` makes one each time. ``kernels="learned"``: what kernels of HLO modules take, where
    nothing was measured, is what was learnt from kernels on an H200, in place of the formula (docs/cost-model.md).
    """

    def __init__(self, graph: GraphLike, machine: MachineLike = None, *, costs: Union[str, "os.PathLike[str]", None] = None,
                 memory: Union[int, float, str, None] = None, kernels: Optional[str] = None) -> None:  # fmt: skip
        self.graph = graph if isinstance(graph, Graph) else load(graph)
        found = as_machine(machine) if machine is not None else self.graph.machine
        if found is None:
            raise Error(f"the graph {self.graph.name} brings no machine; name one, such as 'h200x4'")
        scale = self.graph._size_scale
        if memory is not None:
            found = found.with_memory(memory if scale == 1.0 else scale * _text.parse_bytes(memory))._counted_in(scale)
        self.machine = found._in_unit(scale)
        keep = (self.graph._handle, self.machine._handle)
        options = make_options({} if kernels is None else {"kernels": kernels})
        if costs is not None:
            call("stw_options_set", options.pointer, b"costs", path_bytes(costs))
        pointers = (keep[0].pointer, keep[1].pointer, options.pointer)
        self._costs = create("stw_costs_create", "stw_costs_destroy", *pointers, keep=keep)
        self._handle = create("stw_simulator_create", "stw_simulator_destroy", self._costs.pointer, keep=(self._costs,))
        self._local = threading.local()
        self._told = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before trusting times and memory: measured times that match no op, keys of the machine that nobody
        knows, sizes that the model leaves open, unknown operators, a program that is already partitioned."""
        found: list[str] = []
        while (line := library.stw_costs_warning(self._costs.pointer, len(found))) is not None:
            found.append(text(line))
        if self.machine.warning and self.machine.warning not in found:
            found.append(self.machine.warning)
        return tuple(found)

    def _tell(self) -> None:
        """The warnings, once; that of the machine is given where it is opened."""
        for line in () if self._told else self.warnings:
            if line != self.machine.warning or not self.machine._told:
                warn(line)
        self._told = True

    def op_seconds(self, node: int, device: int = 0) -> float:
        """What one op takes on one device; 0 for views and sources."""
        node, device = whole(node, 64), whole(device, 64)
        if not 0 <= node < len(self.graph) or not 0 <= device < len(self.machine):
            raise IndexError(f"node {node} on device {device}")
        return 1e-6 * library.stw_costs_op_us(self._costs.pointer, node, device)

    def run(self, method: str, **options: Any) -> Plan:
        """The plan that one method makes (:func:`methods` lists them). Options as for :func:`optimize`. A search may be
        interrupted: KeyboardInterrupt is raised. One that finds nothing which fits into memory gives the plan that it began
        with, which says so when it is simulated."""
        from ._plan import Plan
        from ._search import SEARCHES, run_search

        if method in SEARCHES:
            found = run_search(self, method, options)
            if found is not None:
                return found
            options = {**options, "budget": None, "evaluations": 1}
        chosen = make_options(options)
        handle = create(
            "stw_method_run", "stw_plan_destroy", c_text(method), self._handle.pointer, chosen.pointer, keep=(self._handle,)
        )
        return Plan._of(handle, self)

    def simulate(self, plan: Plan) -> Evaluation:
        """One evaluation of a plan. An invalid plan is a result, not an error."""
        workspace = getattr(self._local, "workspace", None)
        if workspace is None:  # one per thread
            workspace = create("stw_workspace_create", "stw_workspace_destroy", self._handle.pointer, keep=(self._handle,))
            self._local.workspace = workspace
        e, bounds = CEvaluation(), CBounds()
        call("stw_simulate", self._handle.pointer, plan._handle.pointer, workspace.pointer, e)
        has_step = bool(e.peak_bytes)
        if has_step:
            call("stw_lower_bounds", self._handle.pointer, plan._handle.pointer, bounds)
        devices = self.machine.devices
        count = len(devices) if has_step else 0
        return Evaluation(
            valid=e.reason == 0,
            reason=text(library.stw_reason_name(e.reason)) or None,
            message=text(e.message),
            step=e.step_s if has_step else None,
            devices=tuple(d.name for d in devices),
            peak=tuple(e.peak_bytes[k] for k in range(count)),
            memory=tuple(d.memory for d in devices),
            busy=tuple(1e-12 * e.busy_ps[k] for k in range(count)),
            charged=tuple(1e-12 * e.charged_ps[k] for k in range(count)),
            transfers=e.transfer_count,
            transfer_bytes=e.transfer_bytes,
            lower_bound=bounds.plan_s if has_step else None,
            lower_bound_fusion=bounds.fusion_s if has_step else None,
            measured_share=library.stw_measured_share(self._handle.pointer, plan._handle.pointer),
            size_scale=self.graph._size_scale,
        )

    def __repr__(self) -> str:
        return _text.plain(f"<Simulator of {self.graph.name} on {self.machine.name}>")


def simulate(graph: GraphLike, machine: MachineLike, plan: Union[Plan, str, "os.PathLike[str]"], *,
             costs: Union[str, "os.PathLike[str]", None] = None, memory: Union[int, float, str, None] = None,
             kernels: Optional[str] = None) -> Evaluation:  # fmt: skip
    """What a plan is worth: step time, peak memory, what no plan can beat.

    ``plan`` is a :class:`Plan`, a plan file or the name of a method. With ``machine`` None the plan's own machine holds. What
    there is to say about ``costs`` (rows that match no op, ...) is warned of. ``kernels`` as for :class:`Simulator`.
    """
    from ._plan import Plan

    graph = graph if isinstance(graph, Graph) else load(graph)
    if not isinstance(plan, Plan):
        name = os.fspath(plan)
        if library.stw_method_exists(c_text(name)):
            simulator = Simulator(graph, machine, costs=costs, memory=memory, kernels=kernels)
            simulator._tell()
            return simulator.simulate(simulator.run(name))
        plan = Plan.load(name, graph, machine)
    if machine is None and costs is None and memory is None and kernels is None and plan.graph is graph:
        return plan.evaluate()
    simulator = Simulator(graph, plan.machine if machine is None else machine, costs=costs, memory=memory, kernels=kernels)
    simulator._tell()
    return simulator.simulate(plan if plan._fits(simulator) else plan._moved(simulator))


def methods() -> dict[str, str]:
    """The methods that make plans and what they do."""
    return named_list("stw_method_list")
