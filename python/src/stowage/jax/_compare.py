"""Two executables of one function, run in turn: which is faster, and how sure that is."""
from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import jax


@dataclass(frozen=True)
class Comparison:
    """What a comparison of a plan with XLA's own module found."""

    ours: float  #: median seconds of a run
    xla: float
    ratio: float  #: ours over XLA's: the median over pairs of runs
    low: float  #: between these the ratio is, in 19 of 20 cases
    high: float
    runs: int  #: of each

    @property
    def is_faster(self) -> bool:
        return self.high < 1.0

    def __str__(self) -> str:
        return f"{1e3 * self.ours:.4g} ms against XLA's {1e3 * self.xla:.4g} ms: {self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"


def compare(ours: Callable[..., Any], xla: Callable[..., Any], arguments: "Arguments", seconds: float, most: int = 200) -> Comparison:
    """Runs both in turn, each first as often as the other, so that all see the same load of the machine."""
    least, begin = 10, time.perf_counter()
    for run in (ours, xla) * 3:
        arguments.time(run)
    pairs: list[tuple[float, float]] = []
    while len(pairs) < most and (len(pairs) < least or time.perf_counter() - begin < seconds):
        if len(pairs) % 2:
            mine = arguments.time(ours)
            pairs.append((mine, arguments.time(xla)))
        else:
            its = arguments.time(xla)
            pairs.append((arguments.time(ours), its))
    low, middle, high = _interval([a / b for a, b in pairs])
    return Comparison(statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), middle, low, high, len(pairs))


def _interval(ratios: Sequence[float], draws: int = 1000) -> tuple[float, float, float]:
    """The median, and between what it is when as many are drawn from these again: 2.5 % of the draws are below, 2.5 % above."""
    source = random.Random(7)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[draws * 25 // 1000], statistics.median(ratios), medians[draws * 975 // 1000 - 1]


class Arguments:
    """Arguments for many runs: those that a run takes for itself are copied for each, before the clock starts."""

    def __init__(self, args: Sequence[Any], lowered: Any) -> None:
        self._args = tuple(args)
        leaves = jax.tree_util.tree_leaves(getattr(lowered, "args_info", ()))
        self._donates = any(getattr(leaf, "donated", False) for leaf in leaves)

    def fresh(self) -> tuple[Any, ...]:
        if not self._donates:
            return self._args
        copies = jax.tree_util.tree_map(lambda a: a.copy() if isinstance(a, jax.Array) else a, self._args)
        return tuple(jax.block_until_ready(copies))

    def time(self, run: Callable[..., Any]) -> float:
        given = self.fresh()
        begin = time.perf_counter()
        jax.block_until_ready(run(*given))
        return time.perf_counter() - begin
