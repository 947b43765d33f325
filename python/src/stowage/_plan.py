"""Plans: the decisions."""
from __future__ import annotations

import ctypes
import json
import math
import os
import tempfile
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, Optional, Sequence, Union

from . import _picture, _text
from ._explain import Explanation, explain
from ._graph import Graph
from ._library import CExportIo, Error, Handle, c_text, call, create, library, make_options, named_list, path_bytes, text, whole
from ._machine import Machine, as_machine
from ._simulate import Evaluation, MachineLike, Simulator

if TYPE_CHECKING:
    import numpy

Path = Union[str, "os.PathLike[str]"]


class Price(NamedTuple):
    """Simulated seconds of a step; None where it is not valid."""

    exported: Optional[float]  #: as the target will run it
    plan: Optional[float]
    one_device: Optional[float]  #: everything on the one that does best


class Plan:
    """Where every op runs, in what order, and what is fused.

    A new plan has everything on device 0, priority 0 and nothing fused, unless lists with an entry per node say
    otherwise; their values are checked when the plan is simulated. What is read is a tuple: a change is assigned as a whole.
    A plan that is being changed belongs to one thread.
    """

    def __init__(self, graph: Graph, machine: MachineLike = None, *, device: Optional[Sequence[int]] = None,
                 priority: Optional[Sequence[float]] = None, group: Optional[Sequence[int]] = None) -> None:  # fmt: skip
        found = as_machine(machine)._in_unit(graph._size_scale) if machine is not None else graph.machine
        if found is None:
            raise Error(f"the graph {graph.name} brings no machine; name one, such as 'h200x4'")
        keep = (graph._handle, found._handle)
        handle = create("stw_plan_create", "stw_plan_destroy", keep[0].pointer, keep[1].pointer, keep=keep)
        self._set(handle, graph, found)
        for name, values in (("device", device), ("priority", priority), ("group", group)):
            if values is not None:
                setattr(self, name, values)

    def _set(self, handle: Handle, graph: Graph, machine: Machine, simulator: Optional[Simulator] = None) -> None:
        self._handle = handle
        self.graph = graph
        self.machine = machine
        self.warning = ""  #: of :meth:`load`, or ""
        self._simulator = simulator
        self._result: Optional[Handle] = None  # that a read-only plan is part of

    @classmethod
    def _of(cls, handle: Handle, simulator: Simulator, result: Optional[Handle] = None) -> Plan:
        plan = cls.__new__(cls)
        plan._set(handle, simulator.graph, simulator.machine, simulator)
        plan._result = result
        return plan

    @classmethod
    def load(cls, path: Path, graph: Graph, machine: MachineLike = None) -> Plan:
        """Reads a plan file for this graph. Without ``machine`` the machine in the file holds; else devices are matched by
        name. A plan of another graph is refused; ``warning`` has what else there is to say."""
        given = as_machine(machine)._in_unit(graph._size_scale) if machine is not None else None
        keep = (graph._handle, given._handle if given else None)
        pointers = (graph._handle.pointer, given._handle.pointer if given else None)
        handle = create("stw_plan_open", "stw_plan_destroy", path_bytes(path), *pointers, keep=keep)
        own = Machine(Handle(library.stw_plan_machine(handle.pointer), None, handle))._counted_in(graph._size_scale)
        plan = cls.__new__(cls)
        plan._set(handle, graph, given or own)
        plan.warning = text(library.stw_plan_warning(handle.pointer))
        return plan

    @classmethod
    def carried(cls, graph: Graph, machine: MachineLike) -> Plan:
        """The plan that is in the graph's file: an HLO module that was exported with one for two or more devices. Devices are
        matched by name."""
        given = as_machine(machine)._in_unit(graph._size_scale)
        out = ctypes.c_void_p()
        call("stw_plan_carried", graph._handle.pointer, given._handle.pointer, ctypes.byref(out))
        plan = cls.__new__(cls)
        plan._set(Handle(out.value, library.stw_plan_destroy, graph._handle, given._handle), graph, given)
        return plan

    # ---- the decisions, an entry per node of the graph ----

    @property
    def device(self) -> tuple[int, ...]:
        """Index of the device of each node. What stands at views, inputs and constants has no meaning."""
        return self._read("stw_plan_device")

    @device.setter
    def device(self, values: Sequence[int]) -> None:
        self._write("stw_plan_set_device", ctypes.c_int32, values, whole)

    @property
    def priority(self) -> tuple[float, ...]:
        """Higher runs first."""
        return self._read("stw_plan_priority")

    @priority.setter
    def priority(self, values: Sequence[float]) -> None:
        self._write("stw_plan_set_priority", ctypes.c_double, values, float)

    @property
    def group(self) -> tuple[int, ...]:
        """Equal numbers are one kernel; -1 is recomputed where it is read."""
        return self._read("stw_plan_group")

    @group.setter
    def group(self, values: Sequence[int]) -> None:
        self._write("stw_plan_set_group", ctypes.c_int32, values, whole)

    def order(self, device: int) -> Optional[tuple[int, ...]]:
        """The strict order of one device: ids of its tasks. None where it has none."""
        count = ctypes.c_int32()
        ids = library.stw_plan_order(self._handle.pointer, whole(device), ctypes.byref(count))
        return tuple(ids[: count.value]) if count.value >= 0 else None

    def set_order(self, device: int, tasks: Optional[Sequence[int]]) -> None:
        """A strict order for one device: ids of its tasks. None removes it."""
        self._check_writable()
        ids = [whole(task) for task in tasks] if tasks is not None else []
        array = (ctypes.c_int32 * max(len(ids), 1))(*ids)
        call("stw_plan_set_order", self._handle.pointer, whole(device), array, -1 if tasks is None else len(ids))

    def fuse(self, rule: str = "default") -> None:
        """Sets ``group`` by a fusion rule, for the plan's devices: "none", "default" (greedy by estimated saving), "one-pass"
        (quicker), "joined" (also kernels that read the same values) or "reverse-post-order" (every legal merge). Strict
        orders are removed."""
        self._check_writable()
        call("stw_plan_fuse", self._handle.pointer, self.simulator._costs.pointer, c_text(rule))

    def to_numpy(self) -> dict[str, numpy.ndarray]:
        """Copies of ``device``, ``priority`` and ``group`` as numpy arrays. Needs numpy."""
        import numpy

        return {
            "device": numpy.array(self.device, dtype=numpy.int32),
            "priority": numpy.array(self.priority, dtype=numpy.float64),
            "group": numpy.array(self.group, dtype=numpy.int32),
        }

    def _read(self, name: str) -> tuple:
        return tuple(getattr(library, name)(self._handle.pointer)[: len(self.graph)])

    def _write(self, name: str, entry: Any, values: Sequence[Any], convert: Callable[[Any], Any]) -> None:
        self._check_writable()
        if len(values) != len(self.graph):
            raise ValueError(f"{len(values)} values; the graph has {len(self.graph)} nodes")
        getattr(library, name)(self._handle.pointer, (entry * len(values))(*(convert(value) for value in values)))

    def _check_writable(self) -> None:
        if self._result is not None:
            raise Error("the plan of a result cannot be changed; copy() it first")

    def copy(self) -> Plan:
        """The same decisions in a plan that can be changed."""
        plan = Plan.__new__(Plan)
        handle = create("stw_plan_copy", "stw_plan_destroy", self._handle.pointer, keep=(self._handle,))
        plan._set(handle, self.graph, self.machine, self._simulator)
        return plan

    __copy__ = copy

    # ---- what it is worth ----

    @property
    def simulator(self) -> Simulator:
        """That of the search which found the plan; else one with the graph's own and modelled costs."""
        if self._simulator is None:
            self._simulator = Simulator(self.graph, self.machine)
        return self._simulator

    def evaluate(self) -> Evaluation:
        """What the plan is worth on its machine."""
        return self.simulator.simulate(self)

    def explain(self, *, op: Union[str, int, None] = None, group: Union[str, int, None] = None,
                what_if: Union[str, Sequence[str], None] = None, **options: Any) -> Explanation:  # fmt: skip
        """What the plan's step is made of: its critical path, why devices idle, what costs most. ``op`` (a name or an id): the step
        with that op on each other device. ``group``: what the group of that op saves, and what merges were left. ``what_if``:
        other machines and times, such as ``["bandwidth=x2", "devices=+1"]``, or "all"; each is simulated with this plan and with
        that of a new search, whose options are those of :func:`optimize` (``budget``: a second unless one is given)."""
        return explain(self, op, group, what_if, options)

    def _fits(self, simulator: Simulator) -> bool:
        return not math.isnan(library.stw_measured_share(simulator._handle.pointer, self._handle.pointer))

    def _moved(self, simulator: Simulator) -> Plan:
        """On another machine, devices matched by name, by way of a file."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "plan.json")
            call("stw_plan_write", self.simulator._handle.pointer, self._handle.pointer, path_bytes(file))
            plan = Plan.load(file, simulator.graph, simulator.machine)
        plan._simulator = simulator
        return plan

    # ---- out ----

    def save(self, path: Path) -> None:
        """Writes the plan file; the plan of a search with its candidates."""
        if self._result is not None:
            call("stw_result_write", self._result.pointer, path_bytes(path), False)
        else:
            call("stw_plan_write", self.simulator._handle.pointer, self._handle.pointer, path_bytes(path))

    def report(self, path: Path, measured: Optional[Path] = None) -> None:
        """Writes one HTML file that shows the plan beside the default: timelines, memory, the critical path, modules and, of the plan
        of a search, its candidates. ``measured`` is a trace of a real run (JSON in the Trace Event format) to be shown beside."""
        options = make_options({"measured": None if measured is None else os.fspath(measured)})
        result = self._result.pointer if self._result is not None else None
        call("stw_plan_report", self.simulator._handle.pointer, self._handle.pointer, result, options.pointer, path_bytes(path))

    def export(self, format: str, path: Path, model: Optional[Path] = None, strip: Optional[str] = None) -> str:
        """Writes the plan in another format (:func:`formats` lists them); returns what a user may paste elsewhere or should
        know, or "". ``model`` is the file that the graph was read from, for formats that are such a file with the plan
        in it; without it, the path that was given to :func:`load`. ``strip`` is a module that names of modules begin behind
        (device-map, split-points)."""
        model = self.graph.path if model is None else model
        io = CExportIo(model_path=None if model is None else path_bytes(model), path=path_bytes(path))
        self._export(format, make_options({"strip": strip}), io)
        return text(io.note)

    def export_bytes(self, format: str, model: Optional[bytes] = None) -> bytes:
        """The same in memory: the bytes of the model in, those of the result out."""
        io = CExportIo(model=model, model_size=0 if model is None else len(model))
        self._export(format, None, io)
        try:
            return ctypes.string_at(io.bytes, io.size) if io.size else b""
        finally:
            library.stw_bytes_free(io.bytes)

    def _export(self, format: str, options: Optional[Handle], io: CExportIo) -> None:
        handles = (self.simulator._handle.pointer, self._handle.pointer)
        call("stw_plan_export", *handles, c_text(format), options.pointer if options else None, ctypes.byref(io))

    def at_grain(self, grain: str = "module", *, evaluations: int = 500, **options: Any) -> Plan:
        """A plan that places whole modules, layers or stages, found from this one by a short search; on one device, if several gain
        less than ``min_gain`` ("1%"). Ops run in the order of the program, each alone. Options as for :func:`optimize`. A plan that is
        at the grain already keeps its devices."""
        chosen = make_options({"grain": grain, "evaluations": None if "budget" in options else evaluations, **options})
        simulator = self.simulator
        handle = create("stw_plan_regrain", "stw_plan_destroy", simulator._handle.pointer, self._handle.pointer, chosen.pointer,
                        keep=(self._handle, simulator._handle))  # fmt: skip
        return Plan._of(handle, simulator)

    def price(self, format: str, model: Optional[bytes] = None, strip: Optional[str] = None) -> Price:
        """What the plan is worth once it is exported as it is, as the target will run it. ``model`` is the file that the graph was
        read from, for formats that are such a file; without it, the path that was given to :func:`load`."""
        path = None if model is not None or self.graph.path is None else path_bytes(self.graph.path)
        io = CExportIo(model=model, model_size=0 if model is None else len(model), model_path=path)
        self._export(format, make_options({"strip": strip}), io)
        library.stw_bytes_free(io.bytes)
        return Price(*(None if math.isnan(s) else s for s in (io.exported_s, io.plan_s, io.one_device_s)))

    def to_device_map(self, strip: Optional[str] = None, grain: str = "module", **options: Any) -> dict[str, Any]:
        """Module names to devices, as Hugging Face's ``device_map`` takes them; ``strip`` as for :meth:`export`. The plan is brought to
        the grain of modules before (:meth:`at_grain`, which takes the options), since a map tells no more; ``grain="op"``: it is
        not, and each module goes to where most of its parameters are."""
        plan = self if grain == "op" else self.at_grain(grain, **options)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "device_map.json")
            plan.export("device-map", file, strip=strip)
            with open(file, encoding="utf-8") as opened:
                return json.load(opened)

    # ---- for people ----

    def _rows(self) -> Iterator[list[str]]:
        device, ops = self.device, self.graph._sums()["ops"]
        count = Counter(device[k] for k in ops)
        for d in self.machine.devices:
            yield [d.name, f"{count[d.index]:,}", f"{100 * count[d.index] / len(ops) if ops else 0:.1f} %"]

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {ops} ops" for name, ops, _ in self._rows())
        return _text.plain(f"<Plan of {self.graph.name} on {self.machine.name}; {parts}>")

    def _repr_svg_(self) -> Optional[str]:
        """The simulated step as a small timeline; nothing where the plan is invalid."""
        return _picture.timeline(self) or None

    def _repr_html_(self) -> str:
        table = _text.html_table(f"plan of {self.graph.name} on {self.machine.name}", ["device", "ops", "share"], list(self._rows()))
        return f"<div>{table}{_picture.timeline(self)}</div>"


def formats() -> dict[str, str]:
    """The formats of :meth:`Plan.export` and what they are."""
    return named_list("stw_export_list")
