"""One module out of two that compute the same: each region of kernels from the one where it takes less time.

Kernels that share a value which only one of the modules has in memory belong together: a region. At its borders both have the same values
in memory, so a region of one module can stand in the place of that of the other. What is found again is what computes the same
(:mod:`._values`), and by the same numbers the result is checked.
"""
from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Iterable, Mapping, Optional

from ._bodies import find_bodies
from ._module import Computation, Instruction, Module, ints, read_module
from ._values import VIEWS, Value, Values, arrays, base, is_second_buffer
from ._wire import Field, bytes_field, fields, int_field, ints_field, of
from .._library import Error

_CONTROL = {"while", "conditional", "call"}
_IN_PLACE = {"dynamic-update-slice", "scatter", "while"}  # may write over what they read
_EFFECTS = {"infeed", "outfeed", "send", "recv", "rng", "rng-get-and-update-state", "partition-id", "replica-id"}
_SCHEDULE = 7  # of HloModuleProto
_METADATA, _OPERANDS, _CONTROLS, _HAS_EFFECT, _OUTPUT_ALIASING = 7, 36, 37, 65, 74  # of HloInstructionProto
_FRAME = 15  # of OpMetadata: stack_frame_id


@dataclass
class Region:
    """Kernels (instructions) of both modules, in a pair of computations, that make the same of the same."""

    place: int  #: of the pair of computations
    ours: list[Instruction] = field(default_factory=list)  #: of the first module
    theirs: list[Instruction] = field(default_factory=list)  #: of the second
    fixed: bool = False  #: stays as it is


class Knot(Exception):
    """These regions together would wait for themselves."""

    def __init__(self, regions: list[Region]) -> None:
        super().__init__("regions that would wait for themselves")
        self.regions = regions


class Pair:
    """Two modules of one function, by their entries and the bodies of their loops."""

    def __init__(self, ours: bytes, theirs: bytes) -> None:
        self.ours, self.theirs = read_module(ours), read_module(theirs)
        self._bytes = ours
        self._values = Values(self.ours), Values(self.theirs)
        bodies = [[m.computations[b.id] for b in find_bodies(m)] for m in (self.ours, self.theirs)]
        bodies = bodies if len(bodies[0]) == len(bodies[1]) else [[], []]
        self._places = [(self.ours.entry, self.theirs.entry), *zip(*bodies)]
        # Where the results are not the same (a draw is never), nothing can be checked.
        same = self._values[0].result(self.ours.entry) == self._values[1].result(self.theirs.entry)
        self.regions = [region for k in range(len(self._places)) for region in self._find_regions(k)] if same else []

    # ---- regions ----

    def _find_regions(self, place: int) -> list[Region]:
        found = [values.of(c) for values, c in zip(self._values, self._places[place])]
        if found[0][self._places[place][0].root] != found[1][self._places[place][1].root]:
            return []  # not the same function: nothing in it is found again for sure
        sides = [_Side(m, c, v) for m, c, v in zip((self.ours, self.theirs), self._places[place], found)]
        common = sides[0].made & sides[1].made
        union = _Union()
        for s, side in enumerate(sides):
            for i in side.kernels:
                for value in side.makes[i.id]:
                    union.join((s, i.id), value)
                for value in (side.reads[i.id] & side.made) - common:
                    union.join((s, i.id), value)
        regions: dict[object, Region] = {}
        for s, side in enumerate(sides):
            for i in side.kernels:
                region = regions.setdefault(union.find((s, i.id)), Region(place))
                (region.ours, region.theirs)[s].append(i)
                region.fixed |= side.is_bound(i)
        for region in regions.values():
            region.fixed |= not region.ours or not region.theirs
        return list(regions.values())

    # ---- choosing ----

    def best(self, gain: Mapping[int, float]) -> tuple[bytes, dict[str, str], list[Region]]:
        """As :meth:`spliced`, of the regions (by number) with a gain; where some cannot be together, the one with the least gain
        stays as it was. And which were taken."""
        number = {id(region): k for k, region in enumerate(self.regions)}
        left = [region for k, region in enumerate(self.regions) if not region.fixed and gain.get(k, 0.0) > 0.0]
        while True:
            try:
                return (*self.spliced(left), left)
            except Knot as knot:
                worst = min(knot.regions, key=lambda region: gain[number[id(region)]])
                left = [region for region in left if region is not worst]

    def spliced(self, chosen: Iterable[Region]) -> tuple[bytes, dict[str, str]]:
        """The first module with these regions as the second has them, and what the second calls the kernels that were taken. Error
        where the result would not compute the same, Knot where regions would wait for themselves."""
        by_place: dict[int, list[Region]] = {}
        for region in chosen:
            by_place.setdefault(region.place, []).append(region)
        writer = _Writer(self.ours, self.theirs)
        for place, regions in by_place.items():
            writer.replace(*self._places[place], regions, *(v.of(c) for v, c in zip(self._values, self._places[place])))
        result = writer.write(self._bytes)
        made = read_module(result)
        if Values(made).result(made.entry) != self._values[0].result(self.ours.entry):
            raise Error("the spliced module would not compute the same")
        return result, writer.old_name


_LEAST_US, _LEAST_SHARE = 0.5, 0.02  # less is within the noise of a profile


def take_gains(pair: Pair, ours: Mapping[str, float], theirs: Mapping[str, float], share: float) -> Optional[tuple[bytes, int]]:
    """The first module with the regions that take less time in the second, by microseconds of instructions: that share of them which gains
    most, and how many were taken. None: no region gains. Error: they cannot be spliced."""
    gain = {}
    for k, region in enumerate(pair.regions):
        us = total(region.ours, ours)
        less = us - total(region.theirs, theirs)
        if not region.fixed and less > max(_LEAST_US, _LEAST_SHARE * us):
            gain[k] = less
    best = sorted(gain, key=lambda k: -gain[k])[: math.ceil(share * len(gain))]
    if not best:
        return None
    spliced, _, taken = pair.best({k: gain[k] for k in best})
    return spliced, len(taken)


def total(kernels: Iterable[Instruction], us: Mapping[str, float]) -> float:
    return sum(us.get(i.name, 0.0) for i in kernels)


class _Side:
    """A computation of one of the modules: its kernels, what they make and read."""

    def __init__(self, module: Module, computation: Computation, values: Mapping[int, Value]) -> None:
        self._module, self._computation = module, computation
        self.kernels = [i for i in computation.instructions.values() if i.opcode not in VIEWS]
        self.makes = {i.id: arrays(values[i.id]) for i in self.kernels}
        self.reads = {i.id: {v for o in i.operands for v in arrays(values[o])} for i in self.kernels}
        counts: dict[Value, int] = {}
        for i in self.kernels:
            for value in self.makes[i.id]:
                counts[value] = counts.get(value, 0) + 1
        self.made = set(counts)
        self._twice = {value for value, count in counts.items() if count > 1}
        self._awaited = {k for i in computation.instructions.values() for k in ints(i.raw, _CONTROLS)}
        self._whole = {o for i in computation.instructions.values() if i.opcode != "get-tuple-element" for o in i.operands}
        self._whole.add(computation.root)
        self._handed_on = {i.id for i in self.kernels if self.makes[i.id] & self.reads[i.id]}

    def is_bound(self, i: Instruction) -> bool:
        """Whether it stays: it runs others, has effects, hands out a tuple that is read whole, or makes or reads one of several buffers
        of a value."""
        if i.opcode in _CONTROL or i.opcode in _EFFECTS or i.opcode.startswith("async"):
            return True
        if ints(i.raw, _HAS_EFFECT) or (i.is_tuple and i.id in self._whole):
            return True
        if i.id in self._awaited or ints(i.raw, _CONTROLS) or (i.opcode == "copy" and is_second_buffer(i)):
            return True
        if any(self._is_second_buffer(o) for o in i.operands):
            return True
        return bool(self.makes[i.id] & self._twice) or i.id in self._handed_on or writes_over(self._module, i)

    def _is_second_buffer(self, k: int) -> bool:
        """A copy, or a view of one: the other module's first buffer of that value will not do where the first is written over."""
        i = self._computation.instructions[k]
        while i.opcode in VIEWS and i.opcode != "tuple" and i.operands:
            i = self._computation.instructions[i.operands[0]]
        return i.opcode == "copy" and is_second_buffer(i)


def writes_over(module: Module, i: Instruction) -> bool:
    """It may write its result over what it reads, and must then come after the other readers."""
    if i.opcode in _IN_PLACE or any(f.number == _OUTPUT_ALIASING for f in fields(i.raw)):
        return True
    called = [module.computations[c] for c in i.called] if i.opcode in ("fusion", "async-start", "call", "conditional") else []
    return any(writes_over(module, inner) for c in called for inner in c.instructions.values())


class _Union:
    """Sets that are joined."""

    def __init__(self) -> None:
        self._parent: dict[object, object] = {}

    def find(self, x: object) -> object:
        self._parent.setdefault(x, x)
        while self._parent[x] != x:
            self._parent[x] = self._parent[self._parent[x]]
            x = self._parent[x]
        return x

    def join(self, a: object, b: object) -> None:
        self._parent[self.find(a)] = self.find(b)


# ---- writing ----


class _Writer:
    """Makes the new module: computations of the first with instructions of the second in them."""

    def __init__(self, ours: Module, theirs: Module) -> None:
        self._ours, self._theirs = ours, theirs
        instructions = [i for c in ours.computations.values() for i in c.instructions.values()]
        self._names = {i.name for i in instructions} | {c.name for c in ours.computations.values()}
        self._last_computation = max(ours.computations)
        self._last = max(i.id for i in instructions)
        self._in_halves = ours.entry.id > 0 and max(ours.entry.instructions) >> 32 == ours.entry.id
        self._copied: dict[int, int] = {}  # computations of the second
        self._new: list[bytes] = []
        self._changed: dict[int, list[bytes]] = {}  # instructions of computations
        self._roots: dict[int, int] = {}
        self._schedule = dict(ours.schedule)
        self.old_name: dict[str, str] = {}  #: of kernels that were taken, what the second module calls them

    def _name(self, like: str) -> str:
        stem, number = like.rsplit(".", 1)[0] if like.rsplit(".", 1)[-1].isdigit() else like, 1
        while f"{stem}.{number}" in self._names:
            number += 1
        self._names.add(f"{stem}.{number}")
        self.last_name = f"{stem}.{number}"
        return self.last_name

    def _next_id(self, computation: int, used: Iterable[int]) -> int:
        if not self._in_halves:
            self._last += 1
            return self._last
        return max(used, default=computation << 32) + 1

    # ---- a computation that is copied whole ----

    def copy(self, c: int) -> int:
        """The id of a copy of a computation of the second module, and of all that it calls."""
        if c in self._copied:
            return self._copied[c]
        source = self._theirs.computations[c]
        called = {k: self.copy(k) for i in source.instructions.values() for k in i.called}
        self._last_computation += 1
        number = self._copied[c] = self._last_computation
        ids: dict[int, int] = {}
        for i in source.instructions.values():
            ids[i.id] = self._next_id(number, ids.values())
        out = bytearray()
        for f in fields(source.raw):
            if f.number == 1:
                out += bytes_field(1, self._name(source.name).encode())
            elif f.number == 2:
                i = source.instructions[_id_of(of(f))]
                out += bytes_field(2, self._rewritten(i, ids[i.id], [ids[o] for o in i.operands], called))
            elif f.number not in (5, 6):
                out += f.raw
        self._new.append(bytes(out) + int_field(5, number) + int_field(6, ids[source.root]))
        if c in self._theirs.schedule:
            self._schedule[number] = [ids[i] for i in self._theirs.schedule[c]]
        return number

    def _rewritten(self, i: Instruction, number: int, operands: list[int], called: Mapping[int, int]) -> bytes:
        """An instruction of the second module under another name, with other ids."""
        kept = b"".join(_without_frame(f) if f.number == _METADATA else f.raw for f in fields(i.raw) if f.number not in (1, 35, 36, 37, 38))
        out = bytes_field(1, self._name(i.name).encode()) + kept + int_field(35, number)
        out += ints_field(36, operands) if operands else b""
        return out + (ints_field(38, [called[c] for c in i.called]) if i.called else b"")

    # ---- a computation in which regions are replaced ----

    def replace(self, ours: Computation, theirs: Computation, regions: list[Region], values: Mapping[int, Value],
                their_values: Mapping[int, Value]) -> None:  # fmt: skip
        _Replacing(self, self._ours, ours, theirs, regions, values, their_values).write()

    def take(self, computation: int, instructions: list[bytes], root: int, order: list[int]) -> None:
        self._changed[computation], self._roots[computation] = instructions, root
        if computation in self._schedule:
            self._schedule[computation] = order

    def write(self, module: bytes) -> bytes:
        """The bytes of the first module with all that was changed. New computations stand in front."""
        out, begun = bytearray(), False
        for f in fields(module):
            if f.number == 3:
                if not begun:
                    out += b"".join(bytes_field(3, each) for each in self._new)
                begun = True
                out += self._computation(of(f))
            elif f.number != _SCHEDULE:
                out += f.raw
        schedule = b"".join(bytes_field(1, int_field(1, c) + bytes_field(2, ints_field(1, ids))) for c, ids in self._schedule.items())
        return bytes(out) + (bytes_field(_SCHEDULE, schedule) if schedule else b"")

    def _computation(self, data: bytes) -> bytes:
        number = next((f.value for f in fields(data) if f.number == 5), 0)
        if number not in self._changed:
            return bytes_field(3, data)
        kept = b"".join(f.raw for f in fields(data) if f.number not in (2, 6))
        made = b"".join(bytes_field(2, each) for each in self._changed[number])
        return bytes_field(3, kept + made + int_field(6, self._roots[number]))


class _Replacing:
    """One computation of the first module, with regions of the second."""

    def __init__(self, writer: _Writer, module: Module, ours: Computation, theirs: Computation, regions: list[Region],
                 values: Mapping[int, Value], their_values: Mapping[int, Value]) -> None:  # fmt: skip
        self._writer, self._module, self._ours, self._theirs = writer, module, ours, theirs
        self._values, self._their_values, self._regions = values, their_values, regions
        self._gone = {i.id for region in regions for i in region.ours}
        self._taken = [i for region in regions for i in region.theirs]
        self._used = set(ours.instructions)
        self._new_id = {i.id: self._fresh() for i in self._taken}
        self._made: dict[int, bytes] = {}  # new instructions by id
        self._operands: dict[int, list[int]] = {}  # of all instructions of the new computation
        self._views: dict[int, int] = {}  # of the second module: their ids here
        self._holder = self._find_holders()
        self._makers = {v: i for i in self._taken for v in arrays(their_values[i.id])}
        self._shapes: dict[int, bytes] = {i.id: i.shape for i in ours.instructions.values()}

    def _fresh(self) -> int:
        number = self._writer._next_id(self._ours.id, self._used)
        self._used.add(number)
        return number

    def _find_holders(self) -> dict[Value, int]:
        """Of each value that stays: the first instruction that has it as an array."""
        found: dict[Value, int] = {}
        for i in self._ours.instructions.values():
            if self._comes_of_what_goes(i) or i.is_tuple:
                continue
            value = self._values[i.id]
            found.setdefault(value, i.id)
            found.setdefault(base(value), i.id)
        return found

    def _comes_of_what_goes(self, i: Instruction) -> bool:
        """A kernel that is replaced, or a view of what it makes."""
        while i.opcode in VIEWS and i.operands and i.opcode != "tuple":
            i = self._ours.instructions[i.operands[0]]
        return i.id in self._gone

    # ---- instructions ----

    def write(self) -> None:
        for i in self._taken:
            self._take(i)
        for i in self._ours.instructions.values():
            if i.id in self._gone or (i.opcode in VIEWS and i.opcode != "tuple" and self._comes_of_what_goes(i)):
                continue
            self._operands[i.id] = [self._ours_now(o) for o in i.operands]
        root = self._ours_now(self._ours.root)
        live = self._live(root)
        order = self._order(live)
        instructions = [self._made[k] if k in self._made else self._stays(k, live) for k in order]
        self._writer.take(self._ours.id, instructions, root, order)

    def _take(self, i: Instruction) -> None:
        number = self._new_id[i.id]
        if number in self._operands:
            return
        self._operands[number] = []
        operands = [self._their(o) for o in i.operands]
        called = {c: self._writer.copy(c) for c in i.called}
        self._put(number, i, operands, called)
        self._writer.old_name[self._writer.last_name] = i.name

    def _put(self, number: int, like: Instruction, operands: list[int], called: Mapping[int, int]) -> int:
        self._operands[number], self._shapes[number] = operands, like.shape
        self._made[number] = self._writer._rewritten(like, number, operands, called)
        return number

    def _their(self, k: int) -> int:
        """What stands in the new computation for an instruction of the second module."""
        i = self._theirs.instructions[k]
        if i.opcode == "parameter":
            return next(p.id for p in self._ours.instructions.values() if p.opcode == "parameter" and p.number == i.number)
        if k in self._new_id:
            return self._new_id[k]
        if k in self._views:
            return self._views[k]
        value = self._their_values[k]
        if not i.is_tuple and base(value) not in self._makers:
            held = self._held(value, i)
            if held is not None:
                self._views[k] = held
                return held
        if i.opcode not in VIEWS:
            raise Error(f"{i.name} is not to be found in the other module")
        self._views[k] = self._put(self._fresh(), i, [self._their(o) for o in i.operands], {})
        return self._views[k]

    def _ours_now(self, k: int) -> int:
        """What stands there for an instruction of the first module: itself, or the same value of the second."""
        i = self._ours.instructions[k]
        if not self._comes_of_what_goes(i):
            return k
        value = self._values[k]
        if i.is_tuple:
            raise Error(f"{i.name}, a tuple, is read whole")
        maker = self._makers.get(base(value))
        if maker is None:
            raise Error(f"{i.name} is not made any more")
        source = self._array_of(maker, base(value))
        return source if self._shapes[source] == i.shape else self._bitcast(source, i)

    def _array_of(self, maker: Instruction, value: Value) -> int:
        """The new instruction for one of the arrays that a taken kernel makes."""
        if not maker.is_tuple:
            return self._new_id[maker.id]
        for i in self._theirs.instructions.values():
            if i.opcode == "get-tuple-element" and i.operands[0] == maker.id and base(self._their_values[i.id]) == value:
                return self._their(i.id)
        raise Error(f"nobody takes a part of {maker.name}")

    def _held(self, value: Value, like: Instruction) -> Optional[int]:
        """An instruction of the first module with that value, which stays, or a bitcast of one."""
        found = self._holder.get(value, self._holder.get(base(value)))
        if found is None:
            return None
        return found if self._shapes[found] == like.shape else self._bitcast(found, like)

    def _bitcast(self, source: int, like: Instruction) -> int:
        number = self._fresh()
        self._operands[number], self._shapes[number] = [source], like.shape
        self._made[number] = (bytes_field(1, self._writer._name("bitcast").encode()) + bytes_field(2, b"bitcast")
                              + bytes_field(3, like.shape) + int_field(35, number) + ints_field(36, [source]))  # fmt: skip
        return number

    def _stays(self, k: int, live: set[int]) -> bytes:
        i = self._ours.instructions[k]
        controls = ints(i.raw, _CONTROLS)
        left = [c for c in controls if c in live]
        if self._operands[k] == i.operands and left == controls:
            return i.raw
        kept = b"".join(f.raw for f in fields(i.raw) if f.number not in (_OPERANDS, _CONTROLS))
        return kept + ints_field(_OPERANDS, self._operands[k]) + (ints_field(_CONTROLS, left) if left else b"")

    def _live(self, root: int) -> set[int]:
        """What somebody reads, and kernels with effects; parameters stay."""
        found: set[int] = set()
        left = [root, *self._new_id.values()] + [i.id for i in self._ours.instructions.values()
                         if i.id in self._operands and (i.opcode == "parameter" or i.opcode not in VIEWS)]  # fmt: skip
        while left:
            k = left.pop()
            if k not in found:
                found.add(k)
                left.extend(self._operands[k])
        return found

    # ---- the order ----

    def _order(self, live: set[int]) -> list[int]:
        """An order in which every instruction comes after what it reads, and what is written over after its other readers: as it was,
        new instructions as early as they can."""
        place = {k: n for n, k in enumerate(self._module.schedule.get(self._ours.id) or list(self._ours.instructions))}
        before: dict[int, set[int]] = {k: set(self._operands[k]) for k in live}
        for k in live:
            if k not in self._made:
                before[k] |= {c for c in ints(self._ours.instructions[k].raw, _CONTROLS) if c in live}
        for reader, writer in self._waits(live, place):
            before[writer].add(reader)
        readers: dict[int, list[int]] = {}
        for k, each in before.items():
            for b in each:
                readers.setdefault(b, []).append(k)
        missing = {k: len(each) for k, each in before.items()}
        when: dict[int, int] = {}
        ready = [(self._when(k, place, when), k) for k in live if missing[k] == 0]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            at, k = heapq.heappop(ready)
            when[k] = at
            order.append(k)
            for r in readers.get(k, ()):
                missing[r] -= 1
                if missing[r] == 0:
                    heapq.heappush(ready, (self._when(r, place, when), r))
        if len(order) < len(live):
            raise Knot(self._regions_on(_find_cycle({k: before[k] for k in live - set(order)})))
        return order

    def _regions_on(self, cycle: list[int]) -> list[Region]:
        taken = {self._new_id[i.id]: region for region in self._regions for i in region.theirs}
        found = [taken[k] for k in cycle if k in taken]
        if not found:
            raise Error("the module's own order cannot be kept")
        return found

    def _when(self, k: int, place: Mapping[int, int], when: Mapping[int, int]) -> int:
        """New instructions come when the last of what they read is there."""
        return place[k] if k in place else max((when[o] for o in self._operands[k]), default=0)

    def _waits(self, live: set[int], place: Mapping[int, int]) -> list[tuple[int, int]]:
        """(reader, writer): the writer may write over what the reader reads."""
        readers: dict[int, set[int]] = {}
        for k in live:
            for source in {s for o in self._operands[k] for s in self._sources(o)}:
                readers.setdefault(source, set()).add(k)
        writing = [(s, k) for k in live if k not in self._made and writes_over(self._module, self._ours.instructions[k])
                   for o in self._operands[k] for s in self._sources(o)]  # fmt: skip
        return [(reader, writer) for source, writer in dict.fromkeys(writing + self._written_over())
                for reader in readers.get(source, ()) if reader != writer and self._goes_before(reader, writer, place)]  # fmt: skip

    def _goes_before(self, reader: int, writer: int, place: Mapping[int, int]) -> bool:
        """As in the first module, where both are of it. A new reader does in any case: where it needs what the writer makes, its region
        would wait for itself, and stays as it was."""
        if reader in place and writer in place:
            return place[reader] < place[writer]
        return self._opcode(reader) not in VIEWS

    def _sources(self, k: int) -> set[int]:
        """What is behind views: kernels, parts of parameters."""
        found, left = set(), [k]
        while left:
            at = left.pop()
            opcode = self._opcode(at)
            if opcode == "get-tuple-element" and self._is_parameter(self._operands[at][0]):
                found.add(at)
            elif opcode in VIEWS and self._operands[at]:
                left.extend(self._operands[at])
            else:
                found.add(at)
        return found

    def _opcode(self, k: int) -> str:
        if k in self._ours.instructions:
            return self._ours.instructions[k].opcode
        return next(of(f).decode() for f in fields(self._made[k]) if f.number == 2)

    def _is_parameter(self, k: int) -> bool:
        return k in self._ours.instructions and self._ours.instructions[k].opcode == "parameter"

    def _written_over(self) -> list[tuple[int, int]]:
        """(source, writer) by what the module or a loop says: outputs that are written over parameters."""
        root = self._ours.instructions[self._ours.root]
        is_body = self._ours.id != self._module.entry.id
        found = []
        outputs = self._operands.get(root.id, []) if root.opcode == "tuple" else [self._ours_now(root.id)]
        for i in self._ours.instructions.values():
            if is_body and i.opcode == "get-tuple-element" and self._is_parameter(i.operands[0]) and i.tuple_index < len(outputs):
                found += [(i.id, writer) for writer in self._sources(outputs[i.tuple_index]) if writer != i.id]
        for output, parameter in self._module.aliases if not is_body else ():
            source = next((i.id for i in self._ours.instructions.values() if i.opcode == "parameter" and i.number == parameter), None)
            if source is not None and output < len(outputs):
                found += [(source, writer) for writer in self._sources(outputs[output]) if writer != source]
        return found


def _without_frame(metadata: Field) -> bytes:
    """Frames are numbers in a table of the module that the instruction comes from."""
    return bytes_field(_METADATA, b"".join(f.raw for f in fields(of(metadata)) if f.number != _FRAME))


def _find_cycle(before: Mapping[int, Iterable[int]]) -> list[int]:
    """Each of these waits for another of them."""
    at, seen = next(iter(before)), {}
    while at not in seen:
        seen[at] = len(seen)
        at = next(b for b in before[at] if b in before)
    return [k for k, place in seen.items() if place >= seen[at]]


def _id_of(instruction: bytes) -> int:
    return next((f.value for f in fields(instruction) if f.number == 35 and isinstance(f.value, int)), 0)
