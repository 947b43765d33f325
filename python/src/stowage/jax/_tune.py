"""Plans by measuring: what each kernel takes under several plans, the best of them region by region, and XLA's own where nothing is
faster."""
from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Union

import jax

from .._library import Error
from .._plan import Path
from .._simulate import MachineLike
from ._apply import apply
from ._capture import Capture, capture
from ._compare import Arguments, Comparison, compare
from ._module import read_module
from ._plan import JaxPlan, plan, plan_captured
from ._profile import profile_compiled
from ._splice import Pair
from ._times import Known, default_path, total


@dataclass
class Tuned:
    """A function that runs as it was fastest. Call it like the function."""

    plan: JaxPlan  #: what is kept; of XLA's own module where that was faster (``plan.keeps_xla``)
    compiled: Any  #: the executable that is kept
    comparison: Optional[Comparison]  #: the plan's module against XLA's; None where no plan changed anything
    regions: int  #: parts of the module that are another plan's than XLA's
    kernels_us: dict[str, float]  #: sums of the kernels: "XLA", each plan that was tried, and "chosen"
    seconds: float  #: what the tuning took

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)

    @property
    def ratio(self) -> float:
        """Seconds of a run over those of XLA's own module; 1 where that is kept."""
        return 1.0 if self.comparison is None or self.plan.keeps_xla else self.comparison.ratio

    def __str__(self) -> str:
        kept = "XLA's own module" if self.plan.keeps_xla else f"{self.regions} regions of other plans"
        found = f"; {self.comparison}" if self.comparison is not None else ""
        return f"kept {kept}{found}; tuned in {self.seconds:.0f} s"


def tune(fn: Any, *args: Any, seconds: float = 60.0, compiler_options: Optional[Mapping[str, Any]] = None,
         machine: MachineLike = None, cache: Union[Path, bool] = True, more_memory: float = 0.05, progress: bool = False) -> Tuned:  # fmt: skip
    """Measures what kernels take on the device at hand, and keeps what is fastest: XLA's module with regions of other plans, or XLA's
    own. For about ``seconds``; a compile that has begun is ended.

    Each plan's module is run under JAX's profiler; where one takes less time for a region than XLA's kernels, that region is taken
    from it. The module that comes of it and XLA's are run in turn at the end. ``cache`` is the file that remembers times of kernels
    (True: one of the user's for this device; False: none), ``more_memory`` what may be needed beyond XLA's temporary memory.
    Arguments that the function donates are copied for each run. Runs of JAX's profiler and others on the device disturb it.
    """
    return _Tuning(fn, args, seconds, dict(compiler_options or {}), machine, cache, more_memory, progress).run()


class _Tuning:
    def __init__(self, fn: Any, args: tuple, seconds: float, options: dict[str, Any], machine: MachineLike, cache: Union[Path, bool],
                 more_memory: float, progress: bool) -> None:  # fmt: skip
        self._fn, self._args, self._options, self._machine = fn if hasattr(fn, "lower") else jax.jit(fn), args, options, machine
        self._begin, self._seconds, self._progress, self._more_memory = time.monotonic(), seconds, progress, more_memory
        self._arguments = Arguments(args, self._fn.lower(*args))
        self._own = self._capture(False, options)
        target = self._own.target
        path = default_path(target.kind) if cache is True else None if cache is False else str(cache)
        self._known = Known(path, target.kind)
        # Within CUDA graphs kernels lose their names.
        self._profiled = {"xla_gpu_enable_command_buffer": "", **options} if target.platform == "gpu" else options
        self.kernels_us: dict[str, float] = {}
        self._plans: dict[str, Optional[JaxPlan]] = {}

    def run(self) -> Tuned:
        found = None
        for share in (1.0, 0.5, 0.25):
            chosen = self._splice(share)
            if chosen is None:
                break
            module, regions = chosen
            made = self._plan_of(module)
            compiled = self._compile(made)
            if not self._fits(compiled):  # with fewer regions, those that gain most, it may
                continue
            self._tell("both in turn")
            found = compare(compiled, self._own.compiled, self._arguments, max(2.0, min(10.0, self._left() / 2)))
            if found.is_faster:
                return self._done(made, compiled, found, regions)
            break
        return self._done(self._kept_xla(), self._own.compiled, found, 0)

    def _fits(self, compiled: Any) -> bool:
        needs, had = (each.memory_analysis().temp_size_in_bytes for each in (compiled, self._own.compiled))
        return bool(needs <= (1.0 + self._more_memory) * had)

    def _done(self, made: JaxPlan, compiled: Any, found: Optional[Comparison], regions: int) -> Tuned:
        self._known.save()
        result = Tuned(made, compiled, found, regions, self.kernels_us, time.monotonic() - self._begin)
        self._tell(str(result), last=True)
        return result

    def _left(self) -> float:
        return self._seconds - (time.monotonic() - self._begin)

    def _tell(self, what: str, last: bool = False) -> None:
        if self._progress:
            print(f"\r\033[Ktune: {time.monotonic() - self._begin:.0f} s, {what}", end="\n" if last else "", file=sys.stderr, flush=True)

    # ---- what kernels take ----

    def _splice(self, share: float) -> Optional[tuple[bytes, int]]:
        """XLA's module with the regions that other plans do faster, that share of them which gains most, and how many those are;
        None: there are none."""
        module, regions = self._own.module, 0
        times = self._times("XLA", module, None)
        self.kernels_us["XLA"] = sum(times.values())
        for name, made in self._candidates():
            theirs = made.planned
            their_times = self._times(name, theirs, made)
            self.kernels_us[name] = sum(their_times.values())
            pair = Pair(module, theirs)
            gain = _gains(pair, times, their_times)
            best = sorted(gain, key=lambda k: -gain[k])[: math.ceil(share * len(gain))]
            if not best:
                continue
            module, old_name, taken = pair.best({k: gain[k] for k in best})
            gone = {i.name for region in taken for i in region.ours}
            times = {k: us for k, us in times.items() if k not in gone}
            times.update((new, their_times.get(old, 0.0)) for new, old in old_name.items())
            regions += len(taken)
        self.kernels_us["chosen"] = sum(times.values())
        return (module, regions) if regions else None

    def _candidates(self) -> Iterator[tuple[str, JaxPlan]]:
        """Plans to take regions from: the library's groups, made from the module without fusions; XLA's fusions, merged further."""
        for name, make in (("ours", self._plan_ours), ("merged", self._plan_merged)):
            if name not in self._plans and self._left() > 0:
                self._tell(f"the plan {name}")
                self._plans[name] = make()
            made = self._plans.get(name)
            if made is not None:
                yield name, made

    def _plan_ours(self) -> Optional[JaxPlan]:
        try:
            return plan(self._capture(True, self._options), machine=self._machine, budget="300ms")
        except Error:  # a body that cannot be planned
            return None

    def _plan_merged(self) -> Optional[JaxPlan]:
        rule = "joined" if self._own.target.platform == "gpu" else "default"
        return plan(self._own, machine=self._machine, fusion=rule, budget="300ms")

    def _times(self, name: str, module: bytes, made: Optional[JaxPlan]) -> dict[str, float]:
        """Of the kernels of a module, by name: those that are known, else by running it under the profiler."""
        read = read_module(module)
        known = self._known.times(read)
        if known is not None:
            return known
        self._tell(f"kernels of {name}")
        compiled = self._compile(made, self._profiled) if made else self._compile_own(self._profiled)
        label = compiled.as_text().split(None, 2)[1].rstrip(",")
        times = profile_compiled(compiled, self._arguments.fresh, label, _PROFILED_RUNS)
        self._known.learn(read, times)
        return times

    # ---- compiling ----

    def _capture(self, fuse: bool, options: dict[str, Any]) -> Capture:
        return capture(self._fn, *self._args, fuse=fuse, compiler_options=options)

    def _compile(self, made: JaxPlan, options: Optional[dict[str, Any]] = None) -> Any:
        with apply(made):
            return self._fn.lower(*self._args).compile({**made.compiler_options, **(options or {})})

    def _compile_own(self, options: dict[str, Any]) -> Any:
        return self._own.compiled if options == self._options else self._capture(False, options).compiled

    def _plan_of(self, module: bytes) -> JaxPlan:
        """The spliced module in the best order that is found."""
        self._tell("an order")
        return plan_captured(self._own, machine=self._machine, budget="1s", spliced=module)

    def _kept_xla(self) -> JaxPlan:
        return plan_captured(self._own, machine=self._machine, options={"evaluations": 1}, keeps_xla=True)


def _gains(pair: Pair, times: Mapping[str, float], their_times: Mapping[str, float]) -> dict[int, float]:
    """Microseconds that regions take less in the second module, by number, where that is more than noise."""
    found = {}
    for k, region in enumerate(pair.regions):
        us = total(region.ours, times)
        gain = us - total(region.theirs, their_times)
        if not region.fixed and gain > max(_LEAST_US, _LEAST_SHARE * us):
            found[k] = gain
    return found


_LEAST_US, _LEAST_SHARE = 0.5, 0.02  # less is within the noise of a profile
_PROFILED_RUNS = 20
