"""What a plan's step takes when ops and links take other times than were measured, without another simulation.

Ops have factors, by what they are, and so have links, by their direction, and what company adds. With the order of every device fixed, a
step is the longest path through its tasks, which a pass over them tells together with what lies on that path: by how much each factor
counts. It is what Calibration.predict says, but that transfers do not queue here.

One term is not a factor: caches. When ops were timed, some of what they read had been touched shortly before, in the order of the trace;
in a plan that may be more or less. Where the cache was measured the difference counts once, elsewhere not at all, until runs say otherwise.
"""
from __future__ import annotations

import dataclasses
import math
from typing import Any, Optional, Sequence

import torch

from ..._library import Error
from ..._plan import Plan
from ..._simulate import Simulator
from ..predicting._predict import Calibration, in_order, shares_in_company, timeline
from ..predicting._traffic import Cache

_SHARE = 0.03  # of the work: what is below it has no factor of its own
_CLASSES = 8  # with a factor, the rest included
_ROUNDS = 3  # until company has settled

# How far off they are thought to be before anything has run: standard deviations of the logarithms.
_OF_ALL, _OF_CLASS, _OF_COMPANY, _OF_LINK = 0.05, 0.07, 0.5, 0.7
_OF_CACHES = 0.5  # which have no logarithm: how much more often the difference counts

_MOST_SAVED = 0.5  # of an op's time, by caches
_CACHE_BYTES = 20e6  # of a cache that was not measured

Logs = Sequence[float]  # of all factors; of caches how much more often they count than expected


# ---- the two places that know how a calibration keeps its times ----


def _times_on(calibration: Calibration, device: int) -> tuple[dict[int, float], dict[int, float]]:
    """Microseconds of each op on a device: alone, and in company."""
    kind = calibration.machine["devices"][device]["kind"]
    return calibration.alone[kind], calibration.company[kind]


def _with_times(calibration: Calibration, machine: dict[str, Any], change: Any) -> Calibration:
    """Every op as long as `change` says of its node and its times alone and in company, whoever works beside it."""
    times = {kind: {k: change(k, us, calibration.company[kind][k]) for k, us in alone.items()} for kind, alone in calibration.alone.items()}
    return dataclasses.replace(calibration, machine=machine, alone=times, company=times)


class Factors:
    """The factors of a calibrated step, and what of it they belong to."""

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        graph = calibration.graph
        nodes = list(graph.nodes)
        alone = _times_on(calibration, 0)[0]
        self.ops = sorted(alone)
        self.weights = torch.tensor([alone[k] for k in self.ops], dtype=torch.float64) / max(sum(alone.values()), 1e-9)
        weight = dict(zip(self.ops, self.weights.tolist()))
        self.traffic = calibration.traffic
        shares: dict[str, float] = {}
        for k in self.ops:
            shares[nodes[k].op] = shares.get(nodes[k].op, 0.0) + weight[k]
        large = sorted((op for op, share in shares.items() if share >= _SHARE), key=lambda op: -shares[op])[: _CLASSES - 1]
        self.names = ["all ops", *large, "other ops", "company"]
        self.class_of = {k: 1 + (large.index(nodes[k].op) if nodes[k].op in large else len(large)) for k in self.ops}
        self.company = len(self.names) - 1
        index = {device["name"]: d for d, device in enumerate(calibration.machine["devices"])}
        self.links = {(index[link["from"]], index[link["to"]]): link for link in calibration.machine["links"]}
        self.link_of = {}
        for a, b in self.links:
            self.link_of[a, b] = len(self.names)
            self.names.append(f"{calibration.machine['devices'][a]['name']} to {calibration.machine['devices'][b]['name']}")
        self.caches = len(self.names)
        self.names.append("caches")
        self.spread = [_OF_ALL, *[_OF_CLASS] * (self.company - 1), _OF_COMPANY, *[_OF_LINK] * len(self.link_of), _OF_CACHES]
        self._expected_caches = 1.0 if calibration.caches else 0.0
        kinds = [device["kind"] for device in calibration.machine["devices"]]
        self._caches = [calibration.caches.get(kind) or _guessed(device) for kind, device in zip(kinds, calibration.machine["devices"])]
        self._timed = {cache: [self.traffic.found(self.ops, cache, count) for count in (1, len(index))] for cache in set(self._caches)}

    def missed_us(self, order: Sequence[int], shares: dict[int, float], home: Sequence[int]) -> list[float]:
        """What reading takes that was in the cache when ops were timed and is not in this order, or the other way round, less."""
        now = {cache: self.traffic.found(order, cache) for cache in self._timed}
        found = []
        for k in order:
            cache = self._caches[home[k]]
            alone, company = (then[k] for then in self._timed[cache])
            found.append(cache.us_per_byte * (alone + shares[k] * (company - alone) - now[cache][k]))
        return found

    def by(self, logs: Logs) -> list[float]:
        return [self._expected_caches + value if k == self.caches else math.exp(value) for k, value in enumerate(logs)]

    def machine(self, logs: Logs) -> dict[str, Any]:
        """The machine file with links that take as much as is believed."""
        links = []
        for pair, link in self.links.items():
            by = math.exp(logs[self.link_of[pair]])
            rate = link["bandwidth_bytes_per_s"]
            slower = [[size, r / by] for size, r in rate] if isinstance(rate, list) else rate / by
            times = {key: link[key] * by for key in ("send_us", "receive_us", "latency_us") if key in link}
            links.append({**link, "bandwidth_bytes_per_s": slower, **times})
        return {**self.calibration.machine, "links": links}


class Outline:
    """A plan in which every device has a strict order, and its step as the longest path through the tasks."""

    def __init__(self, factors: Factors, plan: Plan, name: str) -> None:
        self.name, self.factors = name, factors
        line = timeline(plan)
        if len(line) != len(factors.ops):
            raise Error("the plan has no step")
        self.plan, self.home = in_order(plan, line), plan.device
        self.order = [task[0] for task in line]
        self._lay_out()
        self._settle()

    def _lay_out(self) -> None:
        """What each task waits for, and what transfers charge it."""
        factors, home, order = self.factors, self.home, self.order
        place = {k: i for i, k in enumerate(order)}
        self._charges: list[list[tuple[int, float]]] = [[] for _ in order]
        self._behind: list[list[tuple[int, int, float]]] = [[] for _ in order]  # (task, link or -1, microseconds)
        for r, k, source, target in self._exchanges():
            link, charged = factors.link_of[source, target], factors.links[source, target]
            if k is not None:
                self._charges[place[k]].append((link, charged.get("receive_us", 0.0)))
            if r in place:
                self._charges[place[r]].append((link, charged.get("send_us", 0.0)))
        last: dict[int, int] = {}
        before = {}
        for i, k in enumerate(order):
            d = home[k]
            before[k] = order[last[d]] if d in last else -1
            if d in last:
                self._behind[i].append((last[d], -1, 0.0))
            last[d] = i
            for r in factors.traffic.reads[k]:
                if r in place and home[r] != d:
                    link = factors.links[home[r], d]
                    self._behind[i].append((place[r], factors.link_of[home[r], d], _transfer_us(link, factors.traffic.bytes[r])))
            self._behind[i] += [(place[r], -1, 0.0) for r in factors.traffic.waits[k] if home[r] != d]
        self.before = torch.tensor([before[k] for k in factors.ops])  # of each op the one that runs before it on its device
        kinds = [device["kind"] for device in factors.calibration.machine["devices"]]
        self.on = torch.tensor([kinds.index(kinds[home[k]]) for k in factors.ops])  # of each op the first device of the kind that it is on

    def _exchanges(self) -> list[tuple[Optional[int], Optional[int], int, int]]:
        """What is charged: (who sends, who receives, from which device, to which), as Calibration.predict has it."""
        home, traffic = self.home, self.factors.traffic
        if not self.factors.calibration.merges_waits:
            return [(r, k, home[r], d) for (r, d), k in traffic.transfers(home).items()]
        waits, told = traffic.dependencies(self.order, home)
        other = {source: target for source, target in self.factors.link_of}
        return [*((None, k, source, home[k]) for k, sources in waits.items() for source in sources),
                *((r, None, home[r], other[home[r]]) for r in sorted(told))]  # fmt: skip

    def _settle(self) -> None:
        """The share of its time that each op has company, as Calibration.predict finds it."""
        home, devices = self.home, self.factors.calibration.devices
        nothing = self.factors.by([0.0] * len(self.factors.names))
        self.shares = dict.fromkeys(self.order, 1.0)
        self._missed = [0.0] * len(self.order)
        for _ in range(_ROUNDS):
            self._op = [(self.factors.class_of[k], *self._times(k)) for k in self.order]
            begins, ends, _ = self._run(nothing)
            line = sorted(zip(self.order, (home[k] for k in self.order), begins, ends), key=lambda task: task[2])
            self.shares.update(shares_in_company(line, len(devices)))
        self._op = [(self.factors.class_of[k], *self._times(k)) for k in self.order]
        begins, _, _ = self._run(nothing)
        order = [k for _, k in sorted(zip(begins, self.order))]  # over all devices, which share the cache
        missed = dict(zip(order, self.factors.missed_us(order, self.shares, home)))
        self._missed = [missed[k] for k in self.order]

    def _times(self, k: int) -> tuple[float, float]:
        alone, company = _times_on(self.factors.calibration, self.home[k])
        return alone[k], self.shares[k] * (company[k] - alone[k])

    def log_seconds(self, logs: Logs) -> tuple[float, list[float]]:
        """The logarithm of the step's seconds under these factors, and its derivatives by their logarithms."""
        by = self.factors.by(logs)
        _, ends, via = self._run(by)
        parts = [0.0] * len(by)
        at = max(range(len(ends)), key=ends.__getitem__)
        length = ends[at]
        while at >= 0:  # back along the longest path
            self._add(at, by, parts)
            at, link, us = via[at]
            if link >= 0:
                parts[link] += by[link] * us
        return math.log(1e-6 * length), [part / length for part in parts]

    def _run(self, by: list[float]) -> tuple[list[float], list[float], list[tuple[int, int, float]]]:
        """Begin and end of every task, and what it waited for last."""
        every, company, caches = by[0], by[self.factors.company], by[self.factors.caches]
        begins, ends, via = [], [], []
        for (kind, alone, extra), missed, charges, behind in zip(self._op, self._missed, self._charges, self._behind):
            begin, last = 0.0, (-1, -1, 0.0)
            for edge in behind:
                at = ends[edge[0]] + (by[edge[1]] * edge[2] if edge[1] >= 0 else 0.0)
                if at >= begin:
                    begin, last = at, edge
            end = begin + every * by[kind] * (alone + company * extra) + max(caches * missed, -_MOST_SAVED * alone)
            for link, us in charges:
                end += by[link] * us
            begins.append(begin)
            ends.append(end)
            via.append(last)
        return begins, ends, via

    def _add(self, at: int, by: list[float], parts: list[float]) -> None:
        """Adds a task to what the factors have of the path."""
        kind, alone, extra = self._op[at]
        scale = by[0] * by[kind]
        added = scale * by[self.factors.company] * extra
        parts[0] += scale * alone + added
        parts[kind] += scale * alone + added
        parts[self.factors.company] += added
        parts[self.factors.caches] += self._missed[at]
        for link, us in self._charges[at]:
            parts[link] += by[link] * us

    def likeness(self, other: "Outline") -> float:
        """The share of the work that runs behind the same op as in another plan, on a device of the same kind: these may change their
        names."""
        return float(self.factors.weights[(self.before == other.before) & (self.on == other.on)].sum())

    def equals(self, other: "Outline") -> bool:
        return torch.equal(self.before, other.before) and torch.equal(self.on, other.on)

    def simulator(self, logs: Logs) -> Simulator:
        """One in which ops and links take what is believed, beside whom they have in this plan."""
        by = self.factors.by(logs)
        company, class_of, shares = by[self.factors.company], self.factors.class_of, self.shares

        def believed(k: int, alone: float, beside: float) -> float:
            return by[0] * by[class_of[k]] * (alone + company * shares[k] * (beside - alone))

        found = _with_times(self.factors.calibration, self.factors.machine(logs), believed)
        return Simulator(found.graph, found.machine)


def _guessed(device: dict[str, Any]) -> Cache:
    """One that keeps what was touched shortly before, at the device's bandwidth."""
    return Cache((_CACHE_BYTES, _CACHE_BYTES + 1), (1.0, 0.0), 1e6 / device["bandwidth_bytes_per_s"])


def _transfer_us(link: dict[str, Any], size: int) -> float:
    """Of a transfer by itself: its latency, and the time by size (docs/simulator.md)."""
    rate = link["bandwidth_bytes_per_s"]
    points = [(s, s / r) for s, r in rate] if isinstance(rate, list) else [(1, 1 / rate)]
    seconds = size * points[-1][1] / points[-1][0] if size >= points[-1][0] else size * points[0][1] / points[0][0]
    for (a, ta), (b, tb) in zip(points, points[1:]):
        if a < size < b:
            seconds = ta + (size - a) * (tb - ta) / (b - a)
    return float(link.get("latency_us", 0.0) + 1e6 * seconds)
