"""Machines: devices and links."""
from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Union

from . import _text
from ._library import Error, Handle, call, create, library, named_list, path_bytes, text

Bytes = Union[int, float, str]


@dataclass(frozen=True)
class Device:
    """One device of a machine."""

    index: int
    name: str
    memory: int  #: bytes


class Machine:
    """Devices and links. Immutable; threads may share it.

    ``source`` is a built-in name ("h200x4", "cpu+h200x2"; :func:`machines` lists them), the path of a machine file, or
    the contents of one as a dict. ``memory`` gives every device this much: bytes, or text such as "4GB".
    """

    def __init__(self, source: Union[str, "os.PathLike[str]", Mapping[str, Any], Handle], memory: Optional[Bytes] = None) -> None:
        self._reopen: Optional[Callable[[], Handle]] = None
        if isinstance(source, Handle):
            self._handle = source
        else:
            self._reopen = lambda: _open(source)
            self._handle = self._reopen()
        if memory is not None:
            self._handle = self._sized(memory)._handle

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
        return self._sized(memory)

    def _sized(self, memory: Bytes) -> Machine:
        if self._reopen is None:
            raise Error("the memory of a machine that came with a graph or a plan cannot be set; open it from a file")
        handle = self._reopen()  # another object: simulators may use this one
        call("stw_machine_set_memory", handle.pointer, _text.parse_bytes(memory))
        machine = Machine(handle)
        machine._reopen = self._reopen
        return machine

    def __len__(self) -> int:
        return library.stw_machine_device_count(self._handle.pointer)

    def __repr__(self) -> str:
        devices = self.devices
        memory = sorted({_text.show_bytes(d.memory) for d in devices})
        return f"<Machine {self.name!r}: {len(devices)} devices ({', '.join(d.name for d in devices)}), {' / '.join(memory)} each>"

    def _repr_html_(self) -> str:
        rows = [[str(d.index), d.name, _text.show_bytes(d.memory)] for d in self.devices]
        return _text.html_table(f"machine {self.name}", ["device", "name", "memory"], rows)


def _open(source: Union[str, "os.PathLike[str]", Mapping[str, Any]]) -> Handle:
    if isinstance(source, Mapping):
        data = json.dumps(source).encode()
        return create("stw_machine_parse", "stw_machine_destroy", data, len(data), b"machine")
    return create("stw_machine_open", "stw_machine_destroy", path_bytes(source))


def as_machine(machine: Union[Machine, str, "os.PathLike[str]", Mapping[str, Any]]) -> Machine:
    return machine if isinstance(machine, Machine) else Machine(machine)


def machines() -> dict[str, str]:
    """The families of built-in machines and what they are."""
    return named_list("stw_machine_builtin")
