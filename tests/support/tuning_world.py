"""A made-up machine on which plans "run": for tests of tuning and for bench/tune.py, without any device.

What a calibration says of it is wrong in the ways in which it is on real devices: kinds of ops take longer or less than when they were
timed, single ops too, links charge other times, company adds more or less, ops find more or less of what they read in the cache than in
the order of the trace, and every run has noise. All of it is drawn from a seed. The truth is simulated, with the order in which the plan runs.
"""
import dataclasses
import math
import random

from stowage.torch import Calibration
from stowage.torch.predicting._predict import in_order, timeline

_CACHE = 3e7  # bytes
_KIND = "part"  # of all devices


class World:
    def __init__(self, file, ops, devices=2, seed=1, speed=1.0, kinds=0.07, single=0.03, cache=4.0, noise=0.005):
        draw = random.Random(f"{file['name']} {devices} {seed}")
        self.nodes, self.cache, self.noise, self.draw = file["nodes"], draw.uniform(0, cache), noise, draw
        alone, company = self._times(ops, devices / speed)
        machine = _machine(devices, lambda: (0.17, 0.8))
        self.calibration = Calibration(machine, [d["name"] for d in machine["devices"]], {_KIND: alone}, {_KIND: company}, file)
        factor = {op: math.exp(draw.gauss(0, kinds)) for op in sorted({self.nodes[k]["op"] for k in ops})}
        own = {k: factor[self.nodes[k]["op"]] * math.exp(draw.gauss(0, single)) for k in ops}
        more = draw.uniform(0.5, 1.5)
        links = _machine(devices, lambda: tuple(us * math.exp(draw.uniform(-math.log(2), math.log(2))) for us in (0.17, 0.8)))
        self.truth = dataclasses.replace(self.calibration, machine=links, alone={_KIND: {k: own[k] * us for k, us in alone.items()}},
                                         company={_KIND: {k: own[k] * (us + more * (company[k] - us)) for k, us in alone.items()}})  # fmt: skip
        roots = {node.id: node.root for node in self.calibration.graph.nodes}
        self._reads = {k: {roots[i] for i in self.nodes[k]["inputs"]} for k in ops}
        self._timed = self._in_cache(ops)
        self.runs = 0

    def _times(self, ops, parts):
        """As on one of so many parts of a GPU: by flops, or by bytes, which company slows down."""
        alone, company = {}, {}
        for k in ops:
            node = self.nodes[k]
            moved = node["bytes"] + sum(self.nodes[i]["bytes"] for i in node["inputs"])
            flops, bytes_us = 1e6 * node.get("flops", 0) / (2e14 / parts), 1e6 * moved / (5e12 / parts)
            alone[k] = 1.5 + max(flops, bytes_us)
            company[k] = alone[k] + (0.5 * bytes_us if bytes_us > flops else 0.1 * flops)
        return alone, company

    def _in_cache(self, order):
        """Bytes that each op finds in the cache: the fewer, the more has been touched since."""
        found, last, clock = {}, {}, 0
        for k in [*order, *order]:
            found[k] = sum(self.nodes[r]["bytes"] * math.exp(-(clock - last[r]) / _CACHE) for r in self._reads[k] if r in last)
            clock += self.nodes[k]["bytes"]
            for r in [k, *self._reads[k]]:
                last[r] = clock
        return found

    def seconds(self, plan):
        """What the plan takes, without noise."""
        line = timeline(plan)
        found = self._in_cache([task[0] for task in line])
        more = {k: self.cache * (self._timed[k] - found[k]) / 4e6 for k in found}  # microseconds
        times = [{k: max(us + more[k], 0.5 * us) for k, us in each[_KIND].items()} for each in (self.truth.alone, self.truth.company)]
        return dataclasses.replace(self.truth, alone={_KIND: times[0]}, company={_KIND: times[1]}).predict(in_order(plan, line)).step

    def measure(self, plan):
        """A run."""
        self.runs += 1
        return self.seconds(plan) * math.exp(self.draw.gauss(0, self.noise))


def _machine(count, charges):
    device = {"kind": _KIND, "memory_bytes": 1 << 40, "launch_us": 1.0, "flops_per_s": {"f32": 1e12}, "bandwidth_bytes_per_s": 1e12, "efficiency": {}}
    names = "abcdefgh"[:count]
    links = []
    for a in names:
        for b in names.replace(a, ""):
            send, receive = charges()
            links.append({"from": a, "to": b, "bandwidth_bytes_per_s": 1e15, "latency_us": 0.0, "send_us": send, "receive_us": receive})
    return {"format": "machine", "version": 1, "name": f"{count} parts", "contention": "queue", "devices": [{"name": n, **device} for n in names],
            "links": links}  # fmt: skip
