"""What the ops of a step read, wait for and touch, and what comes of that when they run in some order: who waits for another device, and how
much of what an op reads is in the cache still."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from ..._graph import Graph


@dataclass(frozen=True)
class Cache:
    """What a device's cache does for an op that reads something again, by how many bytes were touched meanwhile."""

    bytes: tuple[float, ...]  #: touched meanwhile, ascending
    found: tuple[float, ...]  #: the share of what is read that is in the cache then, from 1 to 0
    us_per_byte: float  #: that reading takes longer where it is not in the cache

    def share(self, touched: float) -> float:
        if touched <= self.bytes[0]:
            return self.found[0]
        for a, b, x, y in zip(self.bytes, self.bytes[1:], self.found, self.found[1:]):
            if touched <= b:
                return x + (y - x) * (touched - a) / (b - a)
        return self.found[-1]


class Traffic:
    """Of a traced step. Values are named by the nodes that make them, views by what they show."""

    def __init__(self, graph: Graph, file: dict[str, Any]) -> None:
        nodes = list(graph.nodes)
        self.ops = [node.id for node in graph.ops]
        self.kind = {node.id: node.kind for node in nodes}
        self.bytes = {node.id: node.bytes for node in nodes}
        self.reads = {k: sorted({nodes[i].root for i in nodes[k].inputs} - {k}) for k in self.ops}
        self.waits = self._waits(nodes, file)  # of each op the ops that it waits for without reading them
        self._touched = {k: _touched(nodes, k) for k in self.ops}  # bytes by what they belong to

    def _waits(self, nodes: list[Any], file: dict[str, Any]) -> dict[int, list[int]]:
        readers: dict[int, list[int]] = {}
        for k in self.ops:
            for r in self.reads[k]:
                readers.setdefault(r, []).append(k)
        found = {}
        for k in self.ops:
            first = {nodes[i].root for i in file["nodes"][k].get("control", ())}
            if nodes[k].updates is not None:
                first |= set(readers.get(nodes[k].updates, ()))
            found[k] = sorted(i for i in first - {k} if self.kind[i] == "op")
        return found

    def transfers(self, home: Sequence[int]) -> dict[tuple[int, int], int]:
        """What crosses by the rules of the simulator: (value, the device it goes to) -> the op there that receives it."""
        first: dict[tuple[int, int], int] = {}
        for k in self.ops:
            for r in self.reads[k]:
                if home[r] != home[k] and self.kind[r] in ("op", "parameter", "buffer"):
                    first.setdefault((r, home[k]), k)
        return first

    def dependencies(self, order: Sequence[int], home: Sequence[int]) -> tuple[dict[int, list[int]], set[int]]:
        """Between streams that share a memory, for ops given in this order: the devices that each op waits for, and the ops that others
        wait for or read. Who is behind a later op of a device already, also by way of a third, need not wait again (_streams.py)."""
        place = {k: i for i, k in enumerate(order)}
        count = max((home[k] for k in order), default=0) + 1
        reached = [[-1] * count for _ in range(count)]
        known: dict[int, list[int]] = {}
        waits: dict[int, list[int]] = {}
        told: set[int] = set()
        for k in order:
            d = home[k]
            for r in [*self.waits[k], *self.reads[k]]:
                if r not in place or home[r] == d:
                    continue
                told.add(r)
                if reached[d][home[r]] < place[r]:
                    waits.setdefault(k, []).append(home[r])
                    reached[d] = list(map(max, reached[d], known[r]))
            known[k] = [*reached[d]]
            known[k][d] = place[k]
        return waits, told

    def found(self, order: Sequence[int], cache: Cache, copies: int = 1) -> dict[int, float]:
        """Bytes that each op finds in the cache when ops run in this order, one step after the other, on so many devices at once that each
        have data of their own."""
        found: dict[int, float] = {}
        last: dict[int, int] = {}
        clock = 0
        for k in [*order, *order]:
            touched = self._touched[k]
            found[k] = sum(size * cache.share(clock - last[r]) for r, size in touched.items() if r != k and r in last)
            for r, size in touched.items():
                clock += size * copies
                last[r] = clock
        return found


def _touched(nodes: list[Any], k: int) -> dict[int, int]:
    """What an op reads and writes."""
    found: dict[int, int] = {}
    for i in nodes[k].inputs:
        root = nodes[i].root
        found[root] = max(found.get(root, 0), min(nodes[i].bytes, nodes[root].bytes))
    found[k if nodes[k].updates is None else nodes[k].updates] = nodes[k].bytes
    return found
