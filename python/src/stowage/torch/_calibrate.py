"""Measures devices: a machine file for them, and what the ops of a module take there, alone and in company.

Small benchmarks, and the whole step on one device and on all at once; no plan that shares a step among devices is run, so what is
predicted of those is not fitted on them.
"""
from __future__ import annotations

import bisect
import csv
import io
import json
import math
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence, Union

import torch

from .._files import whole_file
from .._graph import Graph
from .._library import Error
from .._machine import Machine
from .._plan import Path, Plan
from .._search import optimize
from .._simulate import Evaluation, Simulator
from .._text import parse_seconds
from . import _cross_bench, _cuda_bench, _cuda_times, _host_bench, _process_bench
from ._devices import Spec, are_mixed, are_processes, parse_measured
from ._host_bench import Times
from ._trace import Nodes, Step

Progress = Optional[Callable[[str], None]]


@dataclass
class Calibration:
    """What was measured of some devices, and of the ops of one step on them.

    ``machine`` is a machine file as a dict. The times of ops are microseconds by kind of device (as in the machine) and node id:
    ``alone``, with the other devices idle, and in ``company``, with the same step on all devices of that sort (CPUs, or GPUs) at
    once; equal where devices share nothing.
    """

    machine: dict[str, Any]
    devices: list[str]
    alone: dict[str, dict[int, float]]
    company: dict[str, dict[int, float]]
    file: Optional[dict[str, Any]] = None  #: the opgraph of the step, without times

    @property
    def graph(self) -> Graph:
        """The step with its times in company, which plans should be made for."""
        return self._graph(self.company)

    def save(self, path: Path) -> None:
        """Writes the machine file."""
        with whole_file(path, "w", encoding="utf-8") as opened:
            json.dump(self.machine, opened, indent=1)
            opened.write("\n")

    def predict(self, plan: Plan, rounds: int = 4) -> Evaluation:
        """What a plan is expected to take. An op is as slow as in company only while the others work: its time lies between alone and
        company by the share of it during which they do, as the simulation before tells."""
        return self._settle(plan, rounds)[0]

    def optimize(self, budget: Union[str, float, None] = "10s", rounds: int = 3, **options: Any) -> Plan:
        """The plan that is expected to take least. Its first search takes all ops for as slow as in company; those that follow begin with
        the best plan so far and with the times that ops have in it. With ``budget`` None and ``evaluations`` each search has so many."""
        seconds = parse_seconds(budget) / rounds if budget is not None else None
        tasks = {"tasks": "placement,schedule", **options}
        times, best, least = self.company, None, math.inf
        for _ in range(rounds):
            simulator = self._simulator(times)
            start = copy_onto(best, simulator) if best is not None else None
            found = optimize(simulator, budget=seconds, start=start, **tasks).plan
            plans = [found] if best is not None else [found, *(simulator.run(name) for name in BUILDERS)]
            for plan in plans:
                evaluation, settled = self._settle(plan, 4)
                if evaluation.step is not None and evaluation.valid and evaluation.step < least:
                    best, least, times = plan, evaluation.step, settled
        if best is None:
            raise Error("no plan was found that fits the devices")
        return copy_onto(best, self._simulator(self.company))

    def _settle(self, plan: Plan, rounds: int) -> tuple[Evaluation, Times]:
        """The evaluation, and the times of ops that belong to it."""
        times = self.company
        sorts = sorts_of(self)
        for k in range(rounds):
            simulator = self._simulator(times)
            same = copy_onto(plan, simulator)
            evaluation = simulator.simulate(same)
            if evaluation.step is None or k == rounds - 1:
                break
            shares = _shares_in_company(_timeline(same), sorts)
            times = {kind: {k: us + shares.get(k, 0.0) * (self.company[kind][k] - us) for k, us in alone.items()}
                     for kind, alone in self.alone.items()}  # fmt: skip
        return evaluation, times

    def _simulator(self, times: Times) -> Simulator:
        return Simulator(self._graph(times), self.machine)

    def _graph(self, times: Times) -> Graph:
        if self.file is None:
            raise Error("no module was given when the devices were calibrated, so there is no step to predict")
        nodes = [dict(node) for node in self.file["nodes"]]
        for k in next(iter(times.values())):
            nodes[k]["us"] = {kind: round(us[k], 4) for kind, us in times.items()}
        return Graph.parse({**self.file, "nodes": nodes}, "the calibrated step")


BUILDERS = ("single", "expert", "metis", "heft", "steer")


def copy_onto(plan: Plan, simulator: Simulator) -> Plan:
    """The same decisions for a simulator of the same graph with other times."""
    same = Plan(simulator.graph, simulator.machine, device=plan.device, priority=plan.priority)
    for d in range(len(simulator.machine)):
        same.set_order(d, plan.order(d))
    same._simulator = simulator
    return same


def _timeline(plan: Plan) -> list[tuple[int, int, float, float]]:
    """(node, device, start, end) of every task, by start."""
    index = {device.name: k for k, device in enumerate(plan.machine.devices)}
    rows = csv.DictReader(io.StringIO(plan.export_bytes("csv").decode()))
    found = [(int(r["node"]), index[r["device"]], float(r["start_us"]), float(r["end_us"])) for r in rows if r["start_us"]]
    return sorted(found, key=lambda f: f[2])


def sorts_of(calibration: Calibration) -> list[bool]:
    """Of each device whether it is a CPU. Those of one sort keep each other company."""
    return [name.startswith("cpu:") for name in calibration.devices]


def _shares_in_company(timeline: list[tuple[int, int, float, float]], sorts: Sequence[Any]) -> dict[int, float]:
    """Of each task: the share of its time during which the other devices of the same sort work, in their mean. ``sorts`` has that of each
    device."""
    count = len(sorts)
    begins: list[list[float]] = [[] for _ in range(count)]
    ends: list[list[float]] = [[] for _ in range(count)]
    worked: list[list[float]] = [[0.0] for _ in range(count)]  # before the k-th task of a device
    for _, device, begin, end in timeline:
        begins[device].append(begin)
        ends[device].append(end)
        worked[device].append(worked[device][-1] + end - begin)

    def busy_until(device: int, when: float) -> float:
        k = bisect.bisect_right(begins[device], when)
        return worked[device][k] - (max(ends[device][k - 1] - when, 0.0) if k > 0 else 0.0)

    shares = {}
    for node, device, begin, end in timeline:
        others = [busy_until(d, end) - busy_until(d, begin) for d in range(count) if d != device and sorts[d] == sorts[device]]
        if end > begin and others:
            shares[node] = sum(others) / len(others) / (end - begin)
    return shares


def calibrate(devices: Sequence[str], module: Optional[torch.nn.Module] = None, *args: Any, train: bool = True,
              loss: Optional[Callable[..., Any]] = None, copies: bool = False, name: Optional[str] = None,
              machine: Optional[dict[str, Any]] = None, progress: Progress = None, **kwargs: Any) -> Calibration:  # fmt: skip
    """Measures the devices (named as for :func:`place`) and, if a module is given, each op of its step on them.

        found = stowage.torch.calibrate(["cuda:0/sm:64", "cuda:0/sm:64"], module, x)
        result = stowage.optimize(found.graph, found.machine, tasks="placement,schedule")
        found.predict(result.plan)

    Devices may be of several sizes and sorts. CPU devices of several ranks, one in each (``["cpu:0@0", "cpu:1@1"]``), are measured in
    processes that this function starts; call it in one process, and give the plan to all. ``copies`` as for :func:`place`. ``machine`` is
    one that was measured before, of the same devices: then only the ops are timed. ``progress`` is called with a line for every part of
    the work.
    """
    specs = parse_measured([str(d) for d in devices])
    say = progress or (lambda line: None)
    if machine is None:
        say(f"measuring {', '.join(spec.name for spec in specs)}")
        machine = _machine(specs, copies, name or "+".join(spec.name for spec in specs))
    if len(Machine(machine)) != len(specs):  # what cannot be a machine file is said here
        raise Error(f"the machine has {len(machine['devices'])} devices, and {len(specs)} are given")
    found = Calibration(machine, [spec.name for spec in specs], {}, {})
    if module is not None:
        step = Step(module, args, kwargs, train, loss, are_mixed(specs))
        nodes = Nodes(step)
        found.file = nodes.opgraph(type(module).__name__)
        say(f"timing {len(nodes.fx)} ops of {type(module).__name__}")
        found.alone, found.company = _times(nodes, specs, [device["kind"] for device in machine["devices"]])
    return found


def _sorts(specs: Sequence[Spec], of_cpus: Any, of_gpus: Any) -> list[tuple[Any, list[int]]]:
    """What belongs to each sort of device, and the devices."""
    cpus, gpus = ([d for d, spec in enumerate(specs) if (spec.gpu is None) == is_cpu] for is_cpu in (True, False))
    return [(own, here) for own, here in ((of_cpus, cpus), (of_gpus, gpus)) if here]


def _cpu_bench(specs: Sequence[Spec]) -> Any:
    return _process_bench if are_processes(specs) else _host_bench


def _machine(specs: Sequence[Spec], copies: bool, name: str) -> dict[str, Any]:
    """The machine file of these devices."""
    devices: list[dict[str, Any]] = [{}] * len(specs)
    links: dict[tuple[int, int], dict[str, Any]] = {}
    for bench, here in _sorts(specs, _cpu_bench(specs), _cuda_bench):
        own = [specs[d] for d in here]
        for d, measured in zip(here, bench.devices(own)):
            devices[d] = {"name": f"{d}:{specs[d].name}", **measured}
        links.update({(here[a], here[b]): link for (a, b), link in bench.links(own, copies).items()})
    if are_mixed(specs):
        links.update(_cross_bench.links(specs))
    rows = [{"from": devices[a]["name"], "to": devices[b]["name"], **links[a, b]} for a, b in sorted(links)]
    return {"format": "machine", "version": 1, "name": name, "contention": "queue", "devices": devices, "links": rows}


def _times(nodes: Nodes, specs: Sequence[Spec], kinds: Sequence[str]) -> tuple[Times, Times]:
    """Alone and in company. What CPUs do beside GPUs, and these beside CPUs, is not measured."""
    alone: Times = {}
    company: Times = {}
    for times_of, here in _sorts(specs, _cpu_bench(specs).times, _cuda_times.times):
        for times, found in zip((alone, company), times_of(nodes, [specs[d] for d in here], [kinds[d] for d in here])):
            times.update(found)
    if are_mixed(specs):  # GPUs are given op by op, each of which takes the host a while
        for kind, issued in _cross_bench.issue_times(nodes, specs, kinds).items():
            for times in (alone, company):
                times[kind] = {k: max(us, issued[k]) for k, us in times[kind].items()}
    return alone, company
