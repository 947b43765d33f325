"""XLA's own module with the regions of other plans that the model of kernels expects to take less: plans without measuring.

The same regions as those of :mod:`._tune`, which measures them. Bodies of loops and branches keep XLA's fusions.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

from .._graph import Graph
from .._library import Error
from .._simulate import MachineLike, Simulator
from ._module import read_module
from ._splice import Pair, take_gains

_LEAST_GAIN = 0.02  # of the kernels' sum: kernels of a library differ by as much from one compile to the next
_SHARES = (1.0, 0.5, 0.25)  # of the regions, those that gain most: with fewer it may need no more memory


@dataclass
class Expected:
    """What came of it."""

    module: Optional[bytes]  #: with regions of other plans; None: XLA's own is expected to be as good
    regions: int
    seconds: dict[str, float]  #: sums of the kernels of each module, as the model has them


class Model:
    """What kernels take, by name."""

    def __init__(self, machine: MachineLike, kernels: Optional[str]) -> None:
        self._machine, self._kernels = machine, kernels or "learned"

    def times(self, module: bytes) -> dict[str, float]:
        """Microseconds of the instructions of the entry."""
        graph = Graph.parse(module, "the module")
        simulator = Simulator(graph, self._machine, kernels=self._kernels)
        return {n.name: 1e6 * simulator.op_seconds(n.id) for n in graph.ops}

    def seconds(self, module: bytes) -> float:
        return 1e-6 * sum(self.times(module).values())


def best_regions(own: bytes, plans: dict[str, bytes], model: Model, fits: Callable[[bytes], bool]) -> Expected:
    """``plans``: modules of the same function by name; ``fits``: whether a module may take the place of XLA's own."""
    seconds = {"XLA": model.seconds(own), **{name: model.seconds(module) for name, module in plans.items()}}
    for share in _SHARES:
        module, regions = own, 0
        for theirs in plans.values():
            module, taken = _take(module, theirs, model, share)
            regions += taken
        chosen = model.seconds(module) if regions else seconds["XLA"]
        if chosen > (1.0 - _LEAST_GAIN) * seconds["XLA"]:
            break
        if fits(module):
            return Expected(module, regions, {**seconds, "chosen": chosen})
    return Expected(None, 0, {**seconds, "chosen": seconds["XLA"]})


def _take(module: bytes, theirs: bytes, model: Model, share: float) -> tuple[bytes, int]:
    pair = Pair(module, theirs)
    times = {"ours": model.times(module), "theirs": model.times(theirs)}
    entry: Any = {i.name for i in read_module(module).entry.instructions.values()}
    for region in pair.regions:  # what bodies take is not known kernel by kernel
        region.fixed |= any(i.name not in entry for i in region.ours)
    try:
        return take_gains(pair, times["ours"], times["theirs"], share) or (module, 0)
    except Error:  # the module as it is needs none of them
        return module, 0
