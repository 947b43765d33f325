"""Measures devices: a machine file for them, and what the ops of a module take there, alone and in company.

Only small benchmarks are run, none of them a plan: what is predicted of plans is not fitted on plans.
"""
from __future__ import annotations

import json
import statistics
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence

import torch

from .._files import whole_file
from .._graph import Graph
from .._library import Error
from .._machine import Machine
from .._plan import Path, Plan
from .._simulate import Evaluation, Simulator
from . import _cuda_bench, _host_bench
from ._devices import Spec, parse_all
from ._times import device_kind
from ._trace import Nodes, Step

Progress = Optional[Callable[[str], None]]


@dataclass
class Calibration:
    """What was measured of some devices, and of the ops of one step on them.

    ``machine`` is a machine file as a dict. The times of ops are microseconds by node id: ``alone``, with the other devices
    idle, and in ``company``, with the same op on all devices at once; equal where devices share nothing.
    """

    machine: dict[str, Any]
    devices: list[str]
    alone: dict[int, float]
    company: dict[int, float]
    file: Optional[dict[str, Any]] = None  #: the opgraph of the step, without times

    @property
    def graph(self) -> Graph:
        """The step with its times in company, which plans should be made for."""
        return self._graph([self.company] * len(self.devices), [d["kind"] for d in self.machine["devices"]])

    def save(self, path: Path) -> None:
        """Writes the machine file."""
        with whole_file(path, "w", encoding="utf-8") as opened:
            json.dump(self.machine, opened, indent=1)
            opened.write("\n")

    def predict(self, plan: Plan, rounds: int = 4) -> Evaluation:
        """What a plan is expected to take. An op is as slow as in company only while the others work: its time lies between alone and
        company by the share of the step in which they do, which a first simulation tells."""
        busy = [1.0] * len(self.devices)
        kinds = [f"{d['kind']} {k}" for k, d in enumerate(self.machine["devices"])]
        machine = {**self.machine, "devices": [{**d, "kind": kind} for d, kind in zip(self.machine["devices"], kinds)]}
        for _ in range(rounds):
            graph = self._graph([self._between(_of_others(busy, k)) for k in range(len(busy))], kinds)
            simulator = Simulator(graph, machine)
            moved = Plan(graph, simulator.machine, device=plan.device, priority=plan.priority)
            for d in range(len(busy)):
                moved.set_order(d, plan.order(d))
            evaluation = simulator.simulate(moved)
            if evaluation.step is None:
                return evaluation
            busy = [b / evaluation.step if evaluation.step else 0.0 for b in evaluation.busy]
        return evaluation

    def _between(self, share: float) -> dict[int, float]:
        return {k: us + share * (self.company[k] - us) for k, us in self.alone.items()}

    def _graph(self, times: Sequence[dict[int, float]], kinds: Sequence[str]) -> Graph:
        if self.file is None:
            raise Error("no module was given when the devices were calibrated, so there is no step to predict")
        nodes = [dict(node) for node in self.file["nodes"]]
        for k in self.alone:
            nodes[k]["us"] = {kind: round(us[k], 4) for kind, us in zip(kinds, times)}
        return Graph.parse({**self.file, "nodes": nodes}, "the calibrated step")


def _of_others(busy: Sequence[float], device: int) -> float:
    others = [b for k, b in enumerate(busy) if k != device]
    return sum(others) / len(others) if others else 0.0


def calibrate(devices: Sequence[str], module: Optional[torch.nn.Module] = None, *args: Any, train: bool = True,
              loss: Optional[Callable[..., Any]] = None, copies: bool = False, name: Optional[str] = None,
              machine: Optional[dict[str, Any]] = None, progress: Progress = None, **kwargs: Any) -> Calibration:  # fmt: skip
    """Measures the devices (named as for :func:`place`) and, if a module is given, each op of its step on them.

        found = stowage.torch.calibrate(["cuda:0/sm:64", "cuda:0/sm:64"], module, x)
        result = stowage.optimize(found.graph, found.machine, tasks="placement,schedule")
        found.predict(result.plan)

    ``copies`` as for :func:`place`. ``machine`` is one that was measured before, of the same devices: then only the ops are timed.
    ``progress`` is called with a line for every part of the work.
    """
    specs = parse_all([str(d) for d in devices])
    say = progress or (lambda line: None)
    bench = _host_bench if specs[0].gpu is None else _cuda_bench
    if machine is None:
        say(f"measuring {', '.join(spec.name for spec in specs)}")
        machine = bench.machine(specs, copies, name or "+".join(spec.name for spec in specs))
    Machine(machine)  # what cannot be a machine file is said here
    found = Calibration(machine, [spec.name for spec in specs], {}, {})
    if module is not None:
        step = Step(module, args, kwargs, train, loss)
        nodes = Nodes(step)
        found.file = nodes.opgraph(type(module).__name__)
        say(f"timing {len(nodes.fx)} ops of {type(module).__name__}")
        found.alone, found.company = bench.times(nodes, specs, module, args, kwargs)
    return found
