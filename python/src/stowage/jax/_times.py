"""What kernels take on the device at hand, remembered by what they are."""
from __future__ import annotations

import hashlib
import json
import os
from typing import Mapping, Optional

import jax

from .._files import whole_file
from .._library import warn
from ._bodies import find_bodies
from ._module import Computation, Instruction, Module
from ._values import VIEWS, Values
from ._wire import fields

_NAMES = {1, 7, 35, 36, 37, 38, 68}  # of HloInstructionProto: name, metadata, ids, hints of ours


def _run(module: Module) -> list[Computation]:
    """The entry, and bodies of loops and branches."""
    return [module.entry] + [module.computations[body.id] for body in find_bodies(module)]


def _all(module: Module) -> list[Instruction]:
    return [i for c in _run(module) for i in c.instructions.values()]


def contents_of(module: Module) -> dict[str, str]:
    """By the name of each kernel, a hash of what it is: alike kernels have the same, whatever they are called."""
    values, found = Values(module), {}
    runs = {body: _attributes(i) for i in _all(module) if i.opcode == "while" for body in i.called}  # how often: the count of trips
    for c in _run(module):
        for i in c.instructions.values():
            if i.opcode not in VIEWS:
                what = runs.get(c.id), _attributes(i), [c.instructions[o].shape for o in i.operands], [values.function(k) for k in i.called]
                found[i.name] = hashlib.blake2b(repr(what).encode(), digest_size=12).hexdigest()
    return found


def _attributes(i: Instruction) -> list[bytes]:
    return [f.raw for f in fields(i.raw) if f.number not in _NAMES]


class Known:
    """Times of kernels by contents, in a file of this device and version of jax; without a path nothing is kept."""

    def __init__(self, path: Optional[str], device: str) -> None:
        self._path, self._head = path, {"format": "stowage-kernels", "version": 1, "device": device, "jax": jax.__version__}
        self._us: dict[str, tuple[float, int]] = self._read()  # a mean, and of how many

    def _read(self) -> dict[str, tuple[float, int]]:
        if self._path is None or not os.path.exists(self._path):
            return {}
        try:
            with open(self._path, encoding="utf-8") as opened:
                data = json.load(opened)
            if {k: data[k] for k in self._head} != self._head:
                return {}  # of another device, or another version: made anew without a word
            return {str(k): (float(us), int(count)) for k, (us, count) in data["us"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            warn(f"{self._path} holds no times of kernels ({type(error).__name__}); it is made anew")
            return {}

    def times(self, module: Module) -> Optional[dict[str, float]]:
        """Microseconds by name, if all kernels of the module are known."""
        contents = contents_of(module)
        if not all(each in self._us for each in contents.values()):
            return None
        return {name: self._us[each][0] for name, each in contents.items()}

    def learn(self, module: Module, us: Mapping[str, float]) -> None:
        """Of alike kernels, in whatever module, the mean counts: so none is taken for another that it is equal to by chance."""
        for name, each in contents_of(module).items():
            mean, count = self._us.get(each, (0.0, 0))
            self._us[each] = (mean + (us.get(name, 0.0) - mean) / (count + 1), count + 1)  # what no profile names took no time

    def save(self) -> None:
        if self._path is None:
            return
        try:
            os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
            with whole_file(self._path, "w", encoding="utf-8") as opened:
                json.dump({**self._head, "us": self._us}, opened)
        except OSError as error:
            warn(f"times of kernels are not kept: {error}")


def default_path(device: str) -> str:
    """Below the user's folder for what can be made again."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(folder, "stowage", f"kernels-{device}.json")

