"""Machines: devices and links."""
from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

from . import _text
from ._library import Handle, call, create, library, named_list, path_bytes, text, warn

Bytes = Union[int, float, str]
_MOST_BYTES = 1 << 56  # that a device may have


@dataclass(frozen=True)
class Device:
    """One device of a machine."""

    index: int
    name: str
    memory: int  #: bytes


class Machine:
    """Devices and links. Immutable; threads may share it.

    ``source`` is a built-in name ("h200x4", "cpu+h200x2", "0.1/h200x4"; :func:`machines` lists them), the path of a machine file, or
    the contents of one as a dict. ``memory`` gives every device this much: bytes, or text such as "4GB".
    """

    _scale = 1.0  # what its memory is divided by to be bytes: that of the graph for which it was made (Graph._size_scale)
    _told = False  # its warning was given when it was opened

    def __init__(self, source: Union[str, "os.PathLike[str]", Mapping[str, Any], Handle], memory: Optional[Bytes] = None) -> None:
        self._handle = source if isinstance(source, Handle) else _open(source)
        #: what the reader of its file has to say, such as a key that nobody knows; or ""
        self.warning = text(library.stw_machine_warning(self._handle.pointer))
        if self.warning and not isinstance(source, Handle):
            warn(self.warning)
            self._told = True
        if memory is not None:
            self._handle = self.with_memory(memory)._handle

    @property
    def name(self) -> str:
        return text(library.stw_machine_name(self._handle.pointer))

    @property
    def devices(self) -> list[Device]:
        pointer = self._handle.pointer
        return [
            Device(k, text(library.stw_machine_device_name(pointer, k)), library.stw_machine_device_memory(pointer, k))
            for k in range(library.stw_machine_device_count(pointer))
        ]

    @property
    def memory(self) -> list[int]:
        """Bytes of each device."""
        return [device.memory for device in self.devices]

    def with_memory(self, memory: Bytes) -> Machine:
        """The same machine with this much memory on every device."""
        size = _text.parse_bytes(memory)
        handle = _open(self._described())  # another object: simulators may use this one
        call("stw_machine_set_memory", handle.pointer, size)
        return Machine(handle)._opened_as(self)

    def _in_unit(self, scale: float) -> Machine:
        """The machine with its memory as a graph of this scale counts it."""
        if scale == self._scale:
            return self
        described = self._described()
        for device in described["devices"]:
            device["memory_bytes"] = min(int(device["memory_bytes"] * (scale / self._scale)), _MOST_BYTES)
        return Machine(described)._opened_as(self)._counted_in(scale)

    def _counted_in(self, scale: float) -> Machine:
        self._scale = scale
        return self

    def _opened_as(self, other: Machine) -> Machine:
        """What was said of the other holds for this copy: what nobody knows is not copied."""
        self.warning, self._told = other.warning, other._told
        return self

    def _described(self) -> dict[str, Any]:
        """What a machine file would say. Plan files hold their machine, so a plan of the smallest graph is written."""
        graph = create("stw_graph_parse", "stw_graph_destroy", _SMALLEST, len(_SMALLEST), b"graph", None)
        plan = create("stw_plan_create", "stw_plan_destroy", graph.pointer, self._handle.pointer, keep=(graph, self._handle))
        costs = create("stw_costs_create", "stw_costs_destroy", graph.pointer, self._handle.pointer, None, keep=(graph, self._handle))
        simulator = create("stw_simulator_create", "stw_simulator_destroy", costs.pointer, keep=(costs,))
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "plan.json")
            call("stw_plan_write", simulator.pointer, plan.pointer, path_bytes(file))
            with open(file, encoding="utf-8") as opened:
                return json.load(opened)["machine"]

    def __len__(self) -> int:
        return library.stw_machine_device_count(self._handle.pointer)

    def __repr__(self) -> str:
        devices = self.devices
        memory = sorted({_text.show_bytes(d.memory) for d in devices})
        return f"<Machine {self.name!r}: {len(devices)} devices ({', '.join(_text.plain(d.name) for d in devices)}), {' / '.join(memory)} each>"

    def _repr_html_(self) -> str:
        rows = [[str(d.index), d.name, _text.show_bytes(d.memory)] for d in self.devices]
        return _text.html_table(f"machine {self.name}", ["device", "name", "memory"], rows)


_SMALLEST = json.dumps(
    {
        "format": "opgraph", "version": 1, "name": "one", "outputs": [0],
        "nodes": [{"id": 0, "name": "one", "op": "add", "inputs": [], "dtype": "f32", "shape": [1]}],
    }
).encode()  # fmt: skip


def _open(source: Union[str, "os.PathLike[str]", Mapping[str, Any]]) -> Handle:
    if isinstance(source, Mapping):
        data = json.dumps(source).encode()
        return create("stw_machine_parse", "stw_machine_destroy", data, len(data), b"machine")
    return create("stw_machine_open", "stw_machine_destroy", path_bytes(source))


def as_machine(machine: Union[Machine, str, "os.PathLike[str]", Mapping[str, Any]]) -> Machine:
    return machine if isinstance(machine, Machine) else Machine(machine)


def machines() -> dict[str, str]:
    """The families of built-in machines and what they are."""
    return named_list("stw_machine_list")
