"""What was measured of devices and ops, and what a plan is expected to take by it.

The simulator takes an op's time for given. Three things that change it from plan to plan are added here, each from small measurements, and
the plan is simulated again until they have settled: how long the other devices work beside the op (company), what it finds in the cache
(where that was measured), and the waits that are left where streams need not wait twice.
"""
from __future__ import annotations

import bisect
import csv
import functools
import io
import json
import math
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence, Union

from ..._files import whole_file
from ..._graph import Graph
from ..._library import Error
from ..._plan import Path, Plan
from ..._search import optimize
from ..._simulate import Evaluation, Simulator
from ..._text import parse_seconds, parse_share
from ._traffic import Cache, Traffic

Times = dict[str, dict[int, float]]  # kind of device -> node id -> microseconds
Link = tuple[dict[str, Any], tuple[float, float]]  # as in a machine file; microseconds per byte that it charges its two ends besides
Links = dict[tuple[int, int], Link]  # (from, to)

BUILDERS = ("single", "expert", "metis", "heft", "steer", "etf")
_MOST_SAVED = 0.5  # of an op's time, by caches
_ROUNDS = 4  # until company has settled
_NEARER = (0.15, 0.4, 0.7)  # parts of the way to the order of the trace
_LIMITS = ("grain", "pin", "keep_together", "forbid", "max_devices")
_ROUGH_GAIN = 0.3  # with CPUs and GPUs in one plan: so much longer than predicted do plans take (docs/results/run.md)


@dataclass
class Calibration:
    """What was measured of some devices, and of the ops of one step on them.

    ``machine`` is a machine file as a dict. The times of ops are microseconds by kind of device (as in the machine) and node id:
    ``alone``, with the other devices idle, and in ``company``, with the same step on all devices at once; equal where devices share
    nothing. ``caches`` has, by kind, what is known of the cache that devices share. ``by_size`` has
    microseconds per byte, of (from, to), that a transfer takes from the device that sends and from the one that receives, beside the
    charges of the machine: where they copy it themselves.
    """

    machine: dict[str, Any]
    devices: list[str]
    alone: Times
    company: Times
    file: Optional[dict[str, Any]] = None  #: the opgraph of the step, without times
    copies: bool = False  #: values are copied, also between devices that share a memory
    caches: dict[str, Cache] = field(default_factory=dict)
    by_size: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """The step with its times in company, which plans should be made for."""
        return self._graph(self.company)

    def save(self, path: Path) -> None:
        """Writes the machine file."""
        with whole_file(path, "w", encoding="utf-8") as opened:
            json.dump(self.machine, opened, indent=1)
            opened.write("\n")

    def predict(self, plan: Plan) -> Evaluation:
        """What a plan is expected to take. An op is as slow as in company only while the others work: its time lies between alone and
        company by the share of it during which they do, as the simulation before tells."""
        return self._settle(plan).evaluation

    def as_predicted(self, plan: Plan) -> Plan:
        """The plan with the order and the times that its ops are expected to have, their waits included: it takes what :meth:`predict`
        says. Its ``report`` beside a trace compares with these times, and not with those of all ops in company."""
        return self._settle(plan).plan

    def optimize(self, budget: Union[str, float, None] = "10s", rounds: int = 3, min_gain: Union[str, float, None] = None,
                 **options: Any) -> Plan:  # fmt: skip
        """The plan that is expected to take least. Its first search takes all ops for as slow as in company; those that follow begin with
        the best plan so far and with the times that ops have in it. With ``budget`` None and ``evaluations`` each search has so many.

        Several devices that are expected to gain less than ``min_gain`` ("2%", or 0.02) are not worth it: then it is the plan of one device.
        Left out, it is 0; but 30 % where CPUs and GPUs are together, whose plans take about so much longer than predicted.
        """
        seconds = parse_seconds(budget) / rounds if budget is not None else None
        least_gain = parse_share("min_gain", min_gain) if min_gain is not None else _ROUGH_GAIN if self.is_mixed else 0.0
        limits = {name: options[name] for name in _LIMITS if options.get(name) is not None}
        tasks = {"tasks": "placement,schedule", **options}
        best: Optional[_Settled] = None
        for _ in range(rounds):
            simulator = Simulator(self.graph, self._charged_by_size({})) if best is None else Simulator(self._graph(best.times), best.machine)
            start = copy_onto(best.plan, simulator) if best is not None else None
            found = optimize(simulator, budget=seconds, start=start, **tasks).plan
            plans = [found] if best is not None else [found, *(simulator.run(name, **limits) for name in BUILDERS)]
            best = self._best([*([best] if best is not None else []), *map(self._settle, filter(None, plans))])
        if best is None:
            raise Error("no plan was found that fits the devices")
        simulator = Simulator(self._graph(best.times), best.machine)
        nearer = (nearer_to_trace(simulator, best.plan.device, best.order, self.traffic.ops, part) for part in _NEARER)
        best = self._best([best, *map(self._settle, nearer)]) or best
        simulator = self._simulator(self.company)
        one = self._best([self._settle(simulator.run("single", **limits))])
        on_one = one is not None and len({one.plan.device[k] for k in self.traffic.ops}) == 1  # pins may want several
        if on_one and best.evaluation.step > (1.0 - least_gain) * one.evaluation.step:  # type: ignore[operator, union-attr]
            best = one
        return copy_onto(best.plan, simulator)

    @property
    def is_mixed(self) -> bool:
        """CPUs and GPUs are among the devices."""
        return {name.split(":")[0] for name in self.devices} >= {"cpu", "cuda"}

    @staticmethod
    def _best(settled: "Sequence[_Settled]") -> "Optional[_Settled]":
        runs = [s for s in settled if s.evaluation.step is not None and s.evaluation.valid]
        return min(runs, key=lambda s: s.evaluation.step, default=None)  # type: ignore[arg-type, return-value]

    # ---- what a plan makes of the times ----

    @functools.cached_property
    def traffic(self) -> Traffic:
        assert self.file is not None
        return Traffic(self.graph, self.file)

    @property
    def merges_waits(self) -> bool:
        """Streams that share a memory wait for a device once, not for each value."""
        return not self.copies and len({name.split("/")[0] for name in self.devices}) == 1 and self.devices[0].startswith("cuda:")

    def _settle(self, plan: Plan) -> "_Settled":
        """The plan in the order in which it runs, and the times of ops that belong to it."""
        evaluation = plan.evaluate()
        if evaluation.step is None:
            return _Settled(plan, evaluation, [], self.company, self.machine)
        line = timeline(plan)
        plan, home = in_order(plan, line), plan.device
        order = [task[0] for task in line]
        charges, machine, cheaper = self._charges(order, home)
        plain = self.company
        for k in range(_ROUNDS):
            times = {kind: {k: us + charges.get(k, 0.0) for k, us in each.items()} for kind, each in plain.items()}
            simulator = Simulator(self._graph(times), machine)
            same = copy_onto(plan, simulator)
            evaluation = simulator.simulate(same)
            if evaluation.step is None or k == _ROUNDS - 1:
                break
            line = timeline(same)
            plain = self._in_plan(line)
        return _Settled(same, evaluation, [task[0] for task in line], plain, cheaper)

    def _in_plan(self, line: "Sequence[Task]") -> Times:
        """The times of ops with the company that they have, and what they find in the cache."""
        shares = shares_in_company(line, len(self.devices))
        missed = self._missed_us(line, shares) if self.caches else {}
        found: Times = {}
        for kind, alone in self.alone.items():
            each = found[kind] = {}
            for k, us in alone.items():
                time = us + shares.get(k, 0.0) * (self.company[kind][k] - us)
                each[k] = time + max(missed.get(k, 0.0), -_MOST_SAVED * time)
        return found

    def _missed_us(self, line: "Sequence[Task]", shares: dict[int, float]) -> dict[int, float]:
        """What an op takes longer for what was in the cache when it was timed and is not in this plan; or, the other way round, less."""
        kinds = [device["kind"] for device in self.machine["devices"]]
        order = [task[0] for task in line]  # over all devices, which share the cache
        found: dict[int, float] = {}
        for kind, cache in self.caches.items():
            alone, company = self._found_when_timed[kind]
            now = self.traffic.found(order, cache)
            for k, d, _, _ in line:
                if kinds[d] == kind:
                    then = alone[k] + shares.get(k, 0.0) * (company[k] - alone[k])
                    found[k] = cache.us_per_byte * (then - now[k])
        return found

    @functools.cached_property
    def _found_when_timed(self) -> dict[str, list[dict[int, float]]]:
        count = len(self.devices)
        return {kind: [self.traffic.found(self.traffic.ops, cache, copies) for copies in (1, count)] for kind, cache in self.caches.items()}

    def _charges(self, order: Sequence[int], home: Sequence[int]) -> tuple[dict[int, float], dict[str, Any], dict[str, Any]]:
        """What is added to ops that the machine's charges do not tell; the machine to simulate it with; and one for searches, whose
        charges for each value come to as much as those of this plan."""
        if self.merges_waits:
            return self._charges_of_waits(order, home)
        charges: dict[int, float] = {}
        sizes: dict[tuple[int, int], list[int]] = {}
        for (value, target), k in self.traffic.transfers(home).items():
            send, receive = self.by_size.get((home[value], target), (0.0, 0.0))
            size = self.traffic.bytes[value]
            sizes.setdefault((home[value], target), []).append(size)
            charges[k] = charges.get(k, 0.0) + receive * size
            if self.traffic.kind[value] == "op":
                charges[value] = charges.get(value, 0.0) + send * size
        return charges, self.machine, self._charged_by_size(sizes) if self.by_size else self.machine

    def _charges_of_waits(self, order: Sequence[int], home: Sequence[int]) -> tuple[dict[int, float], dict[str, Any], dict[str, Any]]:
        """Where streams do not wait for each value: the machine's charges for each would be too many."""
        links = self._links
        waits, told = self.traffic.dependencies(order, home)
        charges: dict[int, float] = {}
        for k, sources in waits.items():
            charges[k] = sum(links[d, home[k]].get("receive_us", 0.0) for d in sources)
        for k in told:
            charges[k] = charges.get(k, 0.0) + next(link.get("send_us", 0.0) for (d, _), link in links.items() if d == home[k])
        crossing = len(self.traffic.transfers(home))
        part = min(sum(map(len, waits.values())) / crossing, 1.0) if crossing else 1.0
        return charges, self._charged(0.0), self._charged(part)

    @property
    def _links(self) -> dict[tuple[int, int], dict[str, Any]]:
        index = {device["name"]: d for d, device in enumerate(self.machine["devices"])}
        return {(index[link["from"]], index[link["to"]]): link for link in self.machine["links"]}

    def _charged_by_size(self, sizes: dict[tuple[int, int], list[int]]) -> dict[str, Any]:
        """With what a value of the mean size takes, of those that cross; where none does, of all."""
        usual = sum(self.traffic.bytes[k] for k in self.traffic.ops) / max(len(self.traffic.ops), 1)
        links = []
        for pair, link in self._links.items():
            mean = sum(sizes[pair]) / len(sizes[pair]) if sizes.get(pair) else usual
            more = dict(zip(("send_us", "receive_us"), self.by_size.get(pair, (0.0, 0.0))))
            links.append({**link, **{key: link.get(key, 0.0) + us * mean for key, us in more.items()}})
        return {**self.machine, "links": links}

    def _charged(self, part: float) -> dict[str, Any]:
        links = [{**link, **{key: part * link[key] for key in ("send_us", "receive_us") if key in link}} for link in self.machine["links"]]
        return {**self.machine, "links": links}

    def _simulator(self, times: Times) -> Simulator:
        return Simulator(self._graph(times), self.machine)

    def _graph(self, times: Times) -> Graph:
        if self.file is None:
            raise Error("no module was given when the devices were calibrated, so there is no step to predict")
        nodes = [dict(node) for node in self.file["nodes"]]
        for k in next(iter(times.values())):
            nodes[k]["us"] = {kind: round(us[k], 4) for kind, us in times.items()}
        return Graph.parse({**self.file, "nodes": nodes}, "the calibrated step")


@dataclass
class _Settled:
    plan: Plan  # in a strict order
    evaluation: Evaluation
    order: list[int]  # ops by their start
    times: Times  # of ops in this plan, without what waits add
    machine: dict[str, Any]  # for searches that go on from it


# ---- plans and their timelines ----

Task = tuple[int, int, float, float]  # node, device, start, end in microseconds


def nearer_to_trace(simulator: Simulator, home: Sequence[int], order: Sequence[int], ops: Sequence[int], part: float) -> Plan:
    """The same placement in an order between its own and that of the trace (``ops``), in which ops were timed and caches were as they were
    then; ``part`` 1 is that of the trace."""
    place = {k: i for i, k in enumerate(ops)}
    priority = [0.0] * len(home)
    for rank, k in enumerate(order):
        priority[k] = -(part * place[k] + (1 - part) * rank)
    plan = Plan(simulator.graph, simulator.machine, device=home, priority=priority)
    plan._simulator = simulator
    return plan


def copy_onto(plan: Plan, simulator: Simulator) -> Plan:
    """The same decisions for a simulator of the same graph with other times."""
    same = Plan(simulator.graph, simulator.machine, device=plan.device, priority=plan.priority)
    for d in range(len(simulator.machine)):
        same.set_order(d, plan.order(d))
    same._simulator = simulator
    return same


def in_order(plan: Plan, line: Sequence[Task]) -> Plan:
    """The same plan with the order in which it runs, whatever ops take: its priorities would mean another order with other times."""
    same = Plan(plan.graph, plan.machine, device=plan.device)
    for d in range(len(plan.machine)):
        same.set_order(d, [task[0] for task in line if task[1] == d])
    return same


def timeline(plan: Plan) -> list[Task]:
    """Every task of a plan, by start."""
    index = {device.name: k for k, device in enumerate(plan.machine.devices)}
    rows = csv.DictReader(io.StringIO(plan.export_bytes("csv").decode()))
    found = [(int(r["node"]), index[r["device"]], float(r["start_us"]), float(r["end_us"])) for r in rows if r["start_us"]]
    return sorted(found, key=lambda task: (task[2], task[3], task[0]))


def shares_in_company(line: Sequence[Task], count: int) -> dict[int, float]:
    """Of each task: the share of its time during which the other devices work, of so many in all, in their mean."""
    begins: list[list[float]] = [[] for _ in range(count)]
    ends: list[list[float]] = [[] for _ in range(count)]
    worked: list[list[float]] = [[0.0] for _ in range(count)]  # before the k-th task of a device
    for _, device, begin, end in line:
        begins[device].append(begin)
        ends[device].append(end)
        worked[device].append(worked[device][-1] + end - begin)

    def busy_until(device: int, when: float) -> float:
        k = bisect.bisect_right(begins[device], when)
        return worked[device][k] - (max(ends[device][k - 1] - when, 0.0) if k > 0 else 0.0)

    shares = {}
    for node, device, begin, end in line:
        others = [busy_until(d, end) - busy_until(d, begin) for d in range(count) if d != device]
        if end > begin and others:
            shares[node] = sum(others) / len(others) / (end - begin)
    return shares
