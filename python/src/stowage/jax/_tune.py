"""Plans by measuring: what each kernel takes under several plans, the best of them region by region, and XLA's own where nothing is
faster."""
from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

import jax

from .._library import Error
from .._plan import Path
from .._simulate import MachineLike
from ._apply import compile_applied
from ._capture import Capture, capture
from ._compare import Arguments, Comparison
from ._module import read_module
from ._plan import JaxPlan, keep_faster, keep_xla, plan, plan_captured
from ._profile import profile_compiled
from ._splice import Pair, take_gains
from ._times import Known, default_path


@dataclass
class Tuned:
    """A function that runs as it was fastest. Call it like the function."""

    plan: JaxPlan  #: what is kept; of XLA's own module where that was faster (``plan.keeps_xla``)
    compiled: Any  #: the executable that is kept
    comparison: Optional[Comparison]  #: the plan's module against XLA's; None where no plan changed anything
    regions: int  #: parts of the module that are another plan's than XLA's
    kernels_us: dict[str, float]  #: sums of the kernels: "XLA", each plan that was tried, and "chosen"
    steps: list[str]  #: what was tried, a line each
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
         machine: MachineLike = None, cache: Union[Path, bool] = True, more_memory: float = 0.05,
         progress: bool = False) -> Tuned:  # fmt: skip
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
        self._plans: dict[str, bytes] = {}  # their modules
        self._steps: list[str] = []

    def run(self) -> Tuned:
        self._base = self._measure("XLA", self._own.module, None)
        for name, make in _PLANS.items():
            if self._left() > 0:
                self._tell(f"the plan {name}")
                made = make(self)
                if made is not None:
                    self._plans[name] = self._measure(name, made.planned, made)
        for share in (1.0, 0.5, 0.25):
            module, regions = self._spliced(share)
            if not regions:
                break
            module, regions = self._refined(module, regions)
            made = self._plan_of(module)
            compiled, _ = self._compile(made)
            if not self._fits(compiled):  # with fewer regions, those that gain most, it may
                continue
            self._tell("both in turn")
            made, compiled = keep_faster(made, compiled, self._own, self._arguments, max(2.0, min(10.0, self._left() / 2)), self._machine)
            self._steps.append(f"in turn: {made.comparison}")
            return self._done(made, compiled, 0 if made.keeps_xla else regions)
        return self._done(keep_xla(self._own, self._machine), self._own.compiled, 0)

    def _fits(self, compiled: Any) -> bool:
        needs, had = (each.memory_analysis().temp_size_in_bytes for each in (compiled, self._own.compiled))
        self._steps.append(f"temporary memory: {needs / 2**20:.0f} MiB, XLA's {had / 2**20:.0f} MiB")
        return bool(needs <= (1.0 + self._more_memory) * had)

    def _done(self, made: JaxPlan, compiled: Any, regions: int) -> Tuned:
        self._known.save()
        result = Tuned(made, compiled, made.comparison, regions, self.kernels_us, self._steps, time.monotonic() - self._begin)
        self._tell(str(result), last=True)
        return result

    def _left(self) -> float:
        return self._seconds - (time.monotonic() - self._begin)

    def _tell(self, what: str, last: bool = False) -> None:
        if self._progress:
            print(f"\r\033[Ktune: {time.monotonic() - self._begin:.0f} s, {what}", end="\n" if last else "", file=sys.stderr, flush=True)

    # ---- choosing ----

    def _spliced(self, share: float) -> tuple[bytes, int]:
        """XLA's module with the regions that other plans do faster, that share of them which gains most, and how many those are."""
        module, regions = self._base, 0
        for name, theirs in self._plans.items():
            module, taken = self._take(module, theirs, share)
            regions += taken
            self._steps.append(f"{taken} regions of {name}: kernels {sum(self._times(module).values()):.0f} us")
        self.kernels_us["chosen"] = sum(self._times(module).values())
        return module, regions

    def _refined(self, module: bytes, regions: int) -> tuple[bytes, int]:
        """The same, less what does not gain where it stands now: beside other kernels, with another cache."""
        if self._left() <= 0:
            return module, regions
        better, taken = self._take(self._base, self._measure("chosen", module, self._plan_of(module)), 1.0)
        self._steps.append(f"{taken} of {regions} regions still gain: kernels {sum(self._times(better).values()):.0f} us")
        return (better, taken) if taken else (module, regions)

    def _take(self, module: bytes, theirs: bytes, share: float) -> tuple[bytes, int]:
        try:
            taken = take_gains(Pair(module, theirs), self._times(module), self._times(theirs), share)
        except Error as error:  # the module as it is needs none of them
            self._steps.append(f"no regions are taken: {error}")
            taken = None
        return taken or (module, 0)

    # ---- plans to take regions from ----

    def _plan_ours(self) -> Optional[JaxPlan]:
        try:
            return plan(self._capture(True, self._options), machine=self._machine, budget="300ms")
        except Error:  # a body that cannot be planned
            return None

    def _plan_single(self) -> Optional[JaxPlan]:
        try:
            return plan(self._capture(True, self._options), machine=self._machine, fusion="default", budget="300ms")
        except Error:
            return None

    def _plan_merged(self) -> Optional[JaxPlan]:
        rule = "joined" if self._own.target.platform == "gpu" else "default"
        try:
            return plan(self._own, machine=self._machine, fusion=rule, budget="300ms")
        except Error:
            return None

    # ---- what kernels take ----

    def _times(self, module: bytes) -> dict[str, float]:
        """Of the kernels of a module that has run, or was made of such, by name."""
        return self._known.times(read_module(module)) or {}

    def _measure(self, name: str, module: bytes, made: Optional[JaxPlan]) -> bytes:
        """Runs a module under the profiler, unless all its kernels are known. Returns the module that ran: libraries may have found
        other algorithms for it, and XLA other names."""
        if self._known.times(read_module(module)) is None:
            self._tell(f"kernels of {name}")
            compiled, run = self._compile(made, self._profiled) if made else self._compile_own(self._profiled)
            label = compiled.as_text().split(None, 2)[1].rstrip(",")
            self._known.learn(read_module(run), profile_compiled(compiled, self._arguments.fresh, label, _PROFILED_RUNS))
            module = run
        self.kernels_us[name] = sum(self._times(module).values())
        return module

    # ---- compiling ----

    def _capture(self, fuse: bool, options: dict[str, Any]) -> Capture:
        return capture(self._fn, *self._args, fuse=fuse, compiler_options=options)

    def _compile(self, made: JaxPlan, options: Optional[dict[str, Any]] = None) -> tuple[Any, bytes]:
        return compile_applied(self._fn, self._args, made, options)

    def _compile_own(self, options: dict[str, Any]) -> tuple[Any, bytes]:
        own = self._own if options == self._options else self._capture(False, options)
        return own.compiled, own.module

    def _plan_of(self, module: bytes) -> JaxPlan:
        """The spliced module in the best order that is found."""
        self._tell("an order")
        return plan_captured(self._own, machine=self._machine, budget="1s", spliced=module)


_PROFILED_RUNS = 20
_PLANS = {  # what regions are taken from: groups made from the module without fusions, and XLA's merged further
    "ours": _Tuning._plan_ours, "one result each": _Tuning._plan_single, "merged": _Tuning._plan_merged,
}  # fmt: skip
