"""Searches: the best plan within a budget."""
from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import tempfile
import textwrap
import threading
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from . import _text
from ._library import CCandidate, CProgress, CWatch, Handle, ProgressFunction, c_text, create, library, make_options, text
from ._plan import Path, Plan
from ._simulate import Evaluation, GraphLike, MachineLike, Simulator


@dataclass(frozen=True)
class Progress:
    """How far a search is."""

    method: str  #: at work now
    elapsed: float  #: seconds
    budget: Optional[float]  #: seconds; None: no limit of time
    evaluations: int
    evaluation_budget: Optional[int]
    best: Optional[float]  #: step time of the best valid plan so far, seconds
    lower_bound: float  #: of the step time


@dataclass(frozen=True)
class Found:
    """A valid plan that was better than those before it."""

    seconds: float  #: since the method's run began
    evaluations: int
    value: float  #: of the objective


@dataclass(frozen=True)
class Candidate:
    """What one method came to."""

    method: str
    valid: bool
    reason: str  #: why not, in words; "" if valid
    step: Optional[float]  #: seconds; None when there is none
    value: Optional[float]  #: of the objective: seconds or bytes
    peak: tuple[int, ...]  #: bytes per device, or ()
    search_seconds: float
    evaluations: int
    seed: int
    repaired: bool  #: its first plan did not fit into memory
    note: str  #: how the plan was found, or ""
    found: tuple[Found, ...]  #: in order, the last being the plan itself


@dataclass(frozen=True)
class Bounds:
    """What no plan can beat: the step in seconds with the plan's groups and with the groups free, and the largest peak of
    memory in bytes with the plan's groups."""

    plan: float
    fusion: float
    peak: int


class Result:
    """What a search came to: its candidates and the best plan among them."""

    def __init__(self, handle: Handle, simulator: Simulator, title: str) -> None:
        self._handle = handle
        self._title = title
        self.simulator = simulator
        self.candidates = list(_candidates(handle.pointer, len(simulator.machine)))  #: in the order in which they ran
        index = library.stw_result_best(handle.pointer)
        self.best: Optional[Candidate] = self.candidates[index] if index >= 0 else None  #: that the plan came from
        pointer = library.stw_result_plan(handle.pointer)
        #: the best valid plan, or None; read-only (``plan.copy()`` is not)
        self.plan: Optional[Plan] = Plan._of(Handle(pointer, None, handle), simulator, handle) if pointer else None
        bounds = library.stw_result_bounds(handle.pointer)
        self.bounds = Bounds(bounds.plan_s, bounds.fusion_s, bounds.peak_bytes)
        self.interrupted = bool(library.stw_result_is_interrupted(handle.pointer))  #: stopped by the user
        #: a method ran out of memory; the plan is the best of the others, and of what that method had found
        self.short_of_memory = bool(library.stw_result_is_short_of_memory(handle.pointer))
        self.optimal = bool(library.stw_result_is_optimal(handle.pointer))  #: proved: no plan within the limits is better
        self.limits = text(library.stw_result_limits(handle.pointer))  #: as options, "--grain module"; "": none
        self.lacking = text(library.stw_result_lacking(handle.pointer))  #: what every plan lacks, in words, or ""
        self.measured_share = float(library.stw_result_measured_share(handle.pointer))  #: of the work
        noise = library.stw_result_noise(handle.pointer)
        self.ahead = int(noise.ahead)  #: draws of noise in which it stays ahead of the default
        self.draws = int(noise.draws)  #: in which times are off by what is known of them
        #: how far the times of the plan's kernels were off, by "measured", "carried", "modelled" and "fused": a share, in the mean
        self.noise = {name: error for name in ("measured", "carried", "modelled", "fused")
                      if not math.isnan(error := float(getattr(noise, f"{name}_error")))} if noise.draws > 0 else {}  # fmt: skip

    @property
    def step(self) -> Optional[float]:
        """Step time of the plan in seconds, or None without one."""
        return self.best.step if self.best is not None else None

    @property
    def default(self) -> Optional[Candidate]:
        """The default (the plan that was given, else everything on one device), or None if it did not run."""
        return next((c for c in self.candidates if c.method in ("given", "single")), None)

    @property
    def speedup(self) -> Optional[float]:
        """Step time of the default over that of the plan; None unless both have one and the default is valid."""
        default = self.default
        if default is None or not default.valid or not default.step or not self.step:
            return None
        return default.step / self.step

    @property
    def evaluation(self) -> Optional[Evaluation]:
        """The plan simulated once more, with its use of each device."""
        return self.plan.evaluate() if self.plan is not None else None

    def save(self, path: Path) -> None:
        """Writes the plan file with its candidates."""
        if self.plan is None:
            raise ValueError(f"there is no plan to save: {self.lacking}")
        self.plan.save(path)

    _HEAD = ("method", "step time", "speed-up", "state", "peak memory", "search time", "evaluations", "note")

    def _rows(self) -> list[list[str]]:
        default = self.default
        rows = []
        for c in self.candidates:
            reference = default.step if default is not None and default.valid else None
            rows.append(
                [
                    ("* " if c is self.best else "  ") + c.method + (" (default)" if c is default else ""),
                    _text.show_seconds(c.step) if c.step is not None else "-",
                    f"{reference / c.step:.2f}" if reference and c.valid and c.step else "-",
                    "valid" if c.valid else "invalid",
                    _text.show_bytes(max(c.peak) / self.simulator.graph._size_scale) if c.peak else "-",
                    _text.show_seconds(c.search_seconds),
                    f"{c.evaluations:,}",
                    c.note if c.valid else c.reason,
                ]
            )
        return rows

    def _summary(self) -> str:
        if self.best is None or self.step is None:
            return self.lacking
        text = f"step time {_text.show_seconds(self.step)} by {self.best.method}"
        if self.speedup is not None:
            text += f", {self.speedup:.3f} times as fast as the default"
        if self.optimal:
            text += "; proved to be the best there is" + (" within the limits" if self.limits else "")
        elif self.bounds.plan > 0:
            text += f"; {100 * (self.step / self.bounds.plan - 1):.1f} % above the lower bound {_text.show_seconds(self.bounds.plan)}"
        if self.draws > 0 and self.best is not self.candidates[0]:
            off = ", ".join(f"{100 * error:.0f} % where {name}" for name, error in self.noise.items())
            text += f"; ahead of the default in {self.ahead} of {self.draws} draws with times off by {off}"
        return text + ("; interrupted" if self.interrupted else "")

    def __repr__(self) -> str:
        rows = self._rows()
        parts = [_text.text_table(self._HEAD[:-1], [row[:-1] for row in rows], left=(0, 3)),
                 _text.text_notes([(c.method, row[-1]) for c, row in zip(self.candidates, rows)]),
                 textwrap.fill(_text.plain(self._summary()), _text.WIDTH)]
        return _text.plain(self._title) + "\n" + "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        bold = next((k for k, c in enumerate(self.candidates) if c is self.best), -1)
        return _text.html_table(f"{self._title}: {self._summary()}", self._HEAD, self._rows(), bold)


def _number(value: float) -> Optional[float]:
    return None if math.isnan(value) else value


def _candidates(result: Optional[int], devices: int) -> Any:
    c, index = CCandidate(), 0
    while library.stw_result_candidate(result, index, c):
        yield Candidate(
            method=text(c.method),
            valid=c.valid,
            reason=text(c.reason),
            step=_number(c.step_s),
            value=_number(c.value),
            peak=tuple(c.peak_bytes[:devices]) if c.peak_bytes else (),
            search_seconds=c.search_s,
            evaluations=c.evaluations,
            seed=c.seed,
            repaired=c.repaired,
            note=text(c.note),
            found=tuple(Found(f.seconds, f.evaluations, f.value) for f in c.found[: c.found_count]),
        )
        index += 1


# ---- watching a search ----


class _Line:
    """A line on standard error that is written over; in a log, one each second."""

    def __init__(self) -> None:
        self._over = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._width, self._next = 0, 0.0

    def __call__(self, p: Progress) -> None:
        left = f"{p.elapsed:.1f} s" + (f" of {p.budget:g} s" if p.budget else "")
        best = f"best {_text.show_seconds(p.best)}" if p.best is not None else "no valid plan yet"
        line = f"{p.method}: {left}, {p.evaluations:,} evaluations, {best}"
        if self._over:
            self._write("\r" + line.ljust(self._width))
            self._width = len(line)
        elif p.elapsed >= self._next:
            self._write(line + "\n")
            self._next = p.elapsed + 1

    def clear(self) -> None:
        if self._width > 0:
            self._write("\r" + " " * self._width + "\r")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class _Watch:
    """Progress and the request to stop. Exceptions cannot pass through the library: the first one is kept and the search
    ends. Python's handler of SIGINT runs only between bytecodes, that is within a progress call, so it is replaced by one
    that keeps what it raises."""

    def __init__(self, progress: Union[bool, Callable[[Progress], Any], None]) -> None:
        self._line = _Line() if progress is True else None
        self._report: Optional[Callable[[Progress], Any]] = self._line or (progress if callable(progress) else None)
        self._cancel = create("stw_cancel_create", "stw_cancel_destroy")
        self.raised: Optional[BaseException] = None
        self._function = ProgressFunction(self._called)
        self.c = CWatch(progress=self._function, cancel=self._cancel.pointer)
        self._previous: Any = None

    def _called(self, _context: Any, progress: Any) -> None:
        if self._report is None or self.raised is not None:
            return
        try:
            self._report(_progress(progress.contents))
        except BaseException as error:  # noqa: B036: raised again when the search has ended
            self._stop(error)

    def _interrupted(self, number: int, frame: Any) -> None:
        try:
            self._previous(number, frame)
        except BaseException as error:  # noqa: B036
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        self.raised = self.raised or error
        library.stw_cancel_request(self._cancel.pointer)

    def __enter__(self) -> _Watch:
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._previous = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        if self._line is not None:
            self._line.clear()


def _progress(p: CProgress) -> Progress:
    return Progress(
        method=text(p.method),
        elapsed=p.elapsed_s,
        budget=p.budget_s or None,
        evaluations=p.evaluations,
        evaluation_budget=p.evaluation_budget or None,
        best=p.best_step_s if p.has_plan else None,
        lower_bound=p.lower_bound_s,
    )


def _search(name: str, simulator: Simulator, progress: Any, options: dict[str, Any], title: str, *first: Any) -> Result:
    chosen = make_options(options)
    with _Watch(progress) as watch:
        handle = create(
            name, "stw_result_destroy", simulator._handle.pointer, *first, chosen.pointer, watch.c, keep=(simulator._handle,)
        )
    result = Result(handle, simulator, title)
    if watch.raised is not None and not (isinstance(watch.raised, KeyboardInterrupt) and result.plan is not None):
        raise watch.raised
    result.interrupted = result.interrupted or watch.raised is not None
    return result


def run_search(simulator: Simulator, method: str, options: dict[str, Any]) -> Optional[Plan]:
    """One method that searches, with Ctrl-C raised as itself; None if it finds no valid plan."""
    options = {"tasks": "placement,schedule", **options}  # as every method by itself
    result = _search("stw_compare", simulator, None, options, method, c_text(method))
    if result.interrupted:
        raise KeyboardInterrupt
    return result.plan.copy() if result.plan is not None else None


def _simulator(graph: Union[GraphLike, Simulator], machine: MachineLike, costs: Any, memory: Any, kernels: Any) -> Simulator:
    if isinstance(graph, Simulator):
        if machine is not None or costs is not None or memory is not None or kernels is not None:
            raise ValueError("a simulator has its machine and its costs already")
        simulator = graph
    else:
        simulator = Simulator(graph, machine, costs=costs, memory=memory, kernels=kernels)
    simulator._tell()
    return simulator


def _budget_text(budget: Union[str, int, float, None], options: dict[str, Any]) -> Optional[str]:
    if budget is None:
        return None if options.get("evaluations") is not None else "10s"
    return budget if isinstance(budget, str) else f"{budget}s"


@contextlib.contextmanager
def _begun_with(start: Union[Plan, Path, None], options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The options with ``from``: the library reads a file, so a plan is written to one for the time being."""
    options = dict(options)
    if "from_" in options:
        if start is not None:
            raise ValueError("start and from_ are the same option")
        start = options.pop("from_")
    if not isinstance(start, Plan):
        yield {**options, "from": start} if start is not None else options
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "start.json")
        start.save(path)
        yield {**options, "from": path}


def optimize(graph: Union[GraphLike, Simulator], machine: MachineLike = None, budget: Union[str, int, float, None] = None, *,
             start: Union[Plan, Path, None] = None, progress: Union[bool, Callable[[Progress], Any], None] = None,
             costs: Optional[Path] = None, memory: Union[int, float, str, None] = None, **options: Any) -> Result:  # fmt: skip
    """The best plan within a budget: never worse than the default, nor than any of its candidates.

    ``graph`` is a :class:`Graph`, a file or a :class:`Simulator`; ``machine`` as for :class:`Machine`, and may be left out
    when the graph brings one. ``budget`` is text such as "500ms" or "2min", or seconds; 10 seconds unless
    ``evaluations`` is given, whose results repeat exactly. ``memory`` gives every device this much; ``costs`` is a file
    of measured times; what there is to say about it (rows that match no op, ...) is warned of. ``start`` is a :class:`Plan` or a
    plan file to start from: what is not among the ``tasks`` stays as it is there (``tasks="fusion"`` decides about groups only),
    and the first candidate is that plan, "given". ``progress`` is called some times per second with a :class:`Progress`; True
    prints a line to standard error. The other options are those of ``stowage help optimize``, with underscores for dashes:
    ``objective``, ``tasks``, ``rule``, ``fusion``, ``kernels``, ``units``, ``threads``, ``seed``, ``grain`` ("module": whole modules are placed),
    ``pin`` ({"encoder.0": 1}), ``keep_together``, ``forbid``, ``max_devices``, ``min_gain``, ...

    KeyboardInterrupt ends the search and returns the best plan so far, with ``interrupted`` set; it is raised only when
    there is no valid plan yet. What ``progress`` raises ends the search and is raised.
    """
    simulator = _simulator(graph, machine, costs, memory, options.pop("kernels", None))
    text = _budget_text(budget, options)
    title = f"{simulator.graph.name} on {simulator.machine.name}"
    with _begun_with(start, options) as chosen:
        return _search("stw_optimize", simulator, progress, {**chosen, "budget": text}, title)


def compare(graph: Union[GraphLike, Simulator], machine: MachineLike = None, methods: Union[str, Sequence[str], None] = None,
            budget: Union[str, int, float, None] = None, *, start: Union[Plan, Path, None] = None,
            progress: Union[bool, Callable[[Progress], Any], None] = None, costs: Optional[Path] = None,
            memory: Union[int, float, str, None] = None, **options: Any) -> Result:  # fmt: skip
    """Each of these methods by itself, each with the whole budget and with the same scheduling rule.

    ``methods`` are names (:func:`methods` lists them; "optimize" is one), in a list or separated by commas; without it,
    those that build plans in one go. The rest is as for :func:`optimize`.
    """
    simulator = _simulator(graph, machine, costs, memory, options.pop("kernels", None))
    names = BUILDERS if methods is None else methods
    names = names if isinstance(names, str) else ",".join(names)
    text = _budget_text(budget, options)
    title = f"{simulator.graph.name} on {simulator.machine.name}: methods compared"
    with _begun_with(start, options) as chosen:
        return _search("stw_compare", simulator, progress, {**chosen, "budget": text}, title, c_text(names))


SEARCHES = ("go-zero", "go-tune", "go-one", "hdp", "placeto", "coarse", "breed", "stretches", "anneal", "exact")  # that may take long
BUILDERS = ("single", "spread", "topo", "etf", "expert", "metis", "heft", "sct", "steer")
