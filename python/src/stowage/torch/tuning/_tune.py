"""Plans found by running them: the search proposes, the devices decide, and what they say corrects what the search believes."""
from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence, Union

import torch

from ..._library import Error
from ..._plan import Plan
from ..._search import optimize
from ..._simulate import Simulator
from ..calibrating._calibrate import calibrate
from ..predicting._predict import Calibration, copy_onto, nearer_to_trace
from ..running._devices import parse_all
from ..running._place import Placed, one_turn, place
from ..running._streams import restored
from ._belief import Belief, Process, expected_gain
from ._outline import Factors, Outline

_STEPS_EACH = 11  # of a plan that is tried
_TURNS = 3  # with the first
_BUILDERS = ("heft", "steer", "metis", "expert", "etf")
_FINALISTS = 3  # that are run again, with one device, before one is chosen
_FEW = 8  # runs: with fewer than these nothing is run again
_POOL = 40  # plans that wait for a run
_AGAIN = 3  # times at most that a plan is run before the last round
_REPEATS = 3  # of the plans that Tuned.after tells of


_NEARER = ", nearer to the trace"


@dataclass
class Run:
    """A plan that was run."""

    name: str
    plan: Plan
    predicted: float  #: seconds, by what was believed when it was run
    measured: float
    best: Plan  #: that was thought to be the fastest after it


@dataclass
class Tuned:
    """What :func:`tune` found."""

    plan: Plan  #: the fastest by measurement
    seconds: float
    single: float  #: seconds of one device, measured in the same round
    runs: list[Run]  #: in their order, those of plans that were run again included
    belief: Belief
    calibration: Calibration
    report: dict[int, float] = field(default_factory=dict)  #: see :meth:`after`

    def after(self, count: int) -> float:
        """Seconds of the plan that was thought to be the fastest after so many runs, measured once more when all was over: the least of
        many noisy times is too small. Only of those counts that ``report`` of :func:`tune` named."""
        if count not in self.report:
            raise Error(f"what was found after {count} runs was not measured again; name it in report, with at most {len(self.runs)} runs")
        return self.report[count]

    def __repr__(self) -> str:
        return f"<{1e3 * self.seconds:.3f} ms after {len(self.runs)} runs; one device {1e3 * self.single:.3f} ms>"


def tune(module: torch.nn.Module, *args: Any, devices: Sequence[str], runs: int = 25, budget: Union[str, float, None] = "3s", train: bool = True,
         loss: Optional[Callable[..., Any]] = None, copies: bool = False, calibration: Optional[Calibration] = None,
         progress: Optional[Callable[[str], None]] = None, seed: int = 1, evaluations: Optional[int] = None, report: Sequence[int] = (),
         **kwargs: Any) -> Tuned:  # fmt: skip
    """The plan with the shortest measured step, found with at most so many runs of plans (2 or more); never slower than one device.

    The devices are calibrated first, unless ``calibration`` is given. The plan of ``Calibration.optimize`` and one device are run; then, for
    each run that is left, what has been measured corrects what is believed of ops, links and company, a search goes on from a good plan by
    that belief or by one that may be as true, and of all plans that wait the one is run that is expected to gain most, the less alike those
    before the better. Of the last runs one goes to each of the fastest few and to one device, and only these decide.

    ``budget`` is that of one search, of which there are as many as runs; ``evaluations`` instead of it makes searches that repeat exactly.
    ``report`` has numbers of runs: what would have been chosen after them is measured again at the end, beside the runs that count, for
    :meth:`Tuned.after`. The module's parameters and buffers are as before when it returns.
    """
    if runs < 2:
        raise Error(f"runs is {runs}; tuning takes 2 at least, one device and another plan")
    if len({spec.gpu for spec in parse_all([str(d) for d in devices])} - {None}) > 1:
        raise Error("plans over several GPUs cannot be tuned yet: the module would have to be traced on all of them")
    found = calibration or calibrate(devices, module, *args, train=train, loss=loss, copies=copies, progress=progress, **kwargs)
    limits = {"budget": None, "evaluations": evaluations} if evaluations is not None else {"budget": budget}

    def placed(plan: Plan) -> Placed:
        update = "sgd" if train else None
        return place(module, *args, plan=plan, devices=devices, train=train, loss=loss, update=update, rate=0.0, copies=copies, **kwargs)

    one_memory = len({spec.torch for spec in parse_all([str(d) for d in devices])}) == 1
    with restored([*module.parameters(), *module.buffers()]), _Stopwatch(placed, one_memory) as measure:
        return _Tuning(found, measure, runs, limits, progress or (lambda line: None), seed).result(report)


class _Stopwatch:
    """Times plans, each by turns with the first one, which stays placed: a machine may be slower for seconds, and what a GPU takes between
    two kernels changes when other processes come and go (docs/results/run.md). Both slow down alike, so that the times of all plans are
    those of the machine as it was at first. Where devices have memories of their own, parameters are moved to where a plan wants them, so
    only one is placed at a time, and its times are as they are."""

    def __init__(self, placed: Callable[[Plan], Placed], by_turns: bool) -> None:
        self._placed, self._by_turns = placed, by_turns
        self._first: Optional[Placed] = None
        self._seconds = 0.0  # of the first

    def __enter__(self) -> "Callable[[Plan], float]":
        return self._measured

    def __exit__(self, *error: Any) -> None:
        self._by_turns = False
        if self._first is not None:
            self._first.close()
            self._first = None

    def _measured(self, plan: Plan) -> float:
        try:
            step = self._placed(plan)
        except Error:
            if self._first is None:
                raise
            self.__exit__()  # it may fit, though not beside the first
            step = self._placed(plan)
        if self._by_turns and self._first is None:
            try:
                self._seconds = step.seconds(_STEPS_EACH)
            except BaseException:
                step.close()
                raise
            self._first = step
            return self._seconds
        with step:
            return step.seconds(_STEPS_EACH) if self._first is None else self._over_first(step) * self._seconds

    def _over_first(self, step: Placed) -> float:
        """How many times as long it takes as the first."""
        assert self._first is not None
        own: list[float] = []
        first: list[float] = []
        for _ in range(_TURNS):
            for times, found in zip((own, first), one_turn([step, self._first], _STEPS_EACH // 2)):
                times += found
        return statistics.median(own) / statistics.median(first)


class _Tuning:
    def __init__(self, calibration: Calibration, measure: Callable[[Plan], float], runs: int, limits: dict[str, Any],
                 say: Callable[[str], None], seed: int) -> None:  # fmt: skip
        self.calibration, self.measure, self.limit, self.limits, self.say, self.seed = calibration, measure, runs, limits, say, seed
        self.factors = Factors(calibration)
        self.runs: list[Run] = []
        self.process = Process(self.factors, [])
        self._tried: list[tuple[Outline, float]] = []
        self._pool: list[Outline] = []
        self._refused: list[Outline] = []
        self._draw, self._generator = random.Random(seed), torch.Generator().manual_seed(seed)

    def result(self, report: Sequence[int] = ()) -> Tuned:
        simulator = Simulator(self.calibration.graph, self.calibration.machine)
        self.single = Outline(self.factors, simulator.run("single"), "single")
        self._run(Outline(self.factors, self.calibration.optimize(seed=self.seed, min_gain=0, **self.limits), "search"))
        self._run(self.single)
        if not self._tried:
            raise Error("neither the plan that was found nor one device could be run")
        for name in _BUILDERS:
            self._add(name, simulator.run(name))
        last = min(_FINALISTS + 1, self.limit // 4) if self.limit >= _FEW else 0
        turn = 0
        while len(self.runs) < self.limit - last and turn < 2 * self.limit:
            self._propose(turn)
            self._run(self._most_promising())
            turn += 1
        return self._chosen(last, report)

    # ---- what is run ----

    def _run(self, outline: Outline) -> Optional[float]:
        predicted = math.exp(self.process.expected(outline)[0])
        self._pool = [o for o in self._pool if o is not outline]
        try:
            measured = self.measure(outline.plan)
        except Error as error:  # it does not fit, or a kernel refuses its share of the GPU
            self.say(f"{outline.name}: {error}")
            self._refused.append(outline)
            return None
        self._tried.append((outline, measured))
        self.process = Process(self.factors, self._tried)
        self.runs.append(Run(outline.name, outline.plan, predicted, measured, self._leaders()[0].plan))
        self.say(f"run {len(self.runs)}, {outline.name}: predicted {1e3 * predicted:.3f} ms, measured {1e3 * measured:.3f} ms")
        return measured

    def _leaders(self) -> list[Outline]:
        """The plans that were run, the fastest by all that is known first."""
        outlines = dict.fromkeys(outline for outline, _ in self._tried)
        return sorted(outlines, key=lambda outline: self.process.expected(outline)[0])

    def _most_promising(self) -> Outline:
        """What to run next: a plan that waits, or once more one that may be better than the best."""
        leader, *others = self._leaders()
        best = self.process.expected(leader)[0]
        times = Counter(outline for outline, _ in self._tried)
        gain = {o: expected_gain(*self.process.expected(o), best) for o in [*self._pool, *(o for o in others if times[o] < _AGAIN)]}
        self._pool = sorted(self._pool, key=lambda o: -gain[o])[:_POOL]
        return max(gain, key=gain.__getitem__, default=leader)

    # ---- what is proposed ----

    def _propose(self, turn: int) -> None:
        """A search by what is believed, from the best plan; or by what may be true as well, from what is best then, from two good plans
        joined, or from nothing. And a plan that is built."""
        leaders = self._leaders()
        kind = turn % 4
        logs = self.process.logs if kind == 0 else self.process.drawn(self._generator)
        known = [*leaders, *self._pool]
        beside = leaders[0] if kind == 0 else min(known, key=lambda outline: outline.log_seconds(logs)[0])
        simulator = beside.simulator(logs)
        start: Optional[Plan] = copy_onto(beside.plan, simulator)
        if kind == 2:
            start = self._joined(known, simulator)
        elif kind == 3:
            start = None
        self.seed += 1
        found = optimize(simulator, tasks="placement,schedule", seed=self.seed, start=start, **self.limits).plan
        self._add(f"search {('by belief', 'by a draw', 'by a draw, from two plans', 'by a draw, anew')[kind]}", found)
        name = _BUILDERS[turn % len(_BUILDERS)]
        self._add(f"{name} by {'belief' if kind == 0 else 'a draw'}", simulator.run(name))
        for outline in dict.fromkeys([leaders[0], self._draw.choice(known)]):
            plan = nearer_to_trace(simulator, outline.home, outline.order, self.factors.ops, self._draw.random())
            self._add(f"{outline.name.removesuffix(_NEARER)}{_NEARER}", plan)

    def _add(self, name: str, plan: Optional[Plan]) -> None:
        if plan is None or not plan.evaluate().valid:
            return
        outline = Outline(self.factors, plan, name)
        known = [*self._pool, *self._refused, *(o for o, _ in self._tried)]
        if not any(outline.equals(o) for o in known):
            self._pool.append(outline)

    def _joined(self, known: list[Outline], simulator: Simulator) -> Plan:
        """One plan up to somewhere in the trace and another from there on, with the devices of the other renamed to fit."""
        first, second = self._draw.sample(known[: max(4, len(known) // 2)], 2) if len(known) > 2 else (known[0], known[-1])
        count = len(simulator.machine)
        shared = [[0.0] * count for _ in range(count)]
        for k, w in zip(self.factors.ops, self.factors.weights.tolist()):
            shared[second.home[k]][first.home[k]] += w
        kinds = [device["kind"] for device in self.calibration.machine["devices"]]
        new = _assigned([[w - (kinds[a] != kinds[b]) * 2.0 for b, w in enumerate(row)] for a, row in enumerate(shared)])  # weights sum up to 1
        cut = self._draw.choice(self.factors.ops)
        device = [a if k < cut else new[b] for k, (a, b) in enumerate(zip(first.home, second.home))]
        priority = [0.0] * len(device)
        for rank, k in enumerate(first.order):
            priority[k] = -float(rank)
        joined = Plan(simulator.graph, simulator.machine, device=device, priority=priority)
        joined._simulator = simulator
        return joined

    # ---- what is chosen ----

    def _chosen(self, last: int, report: Sequence[int]) -> Tuned:
        """The fastest few and one device once more: the least of many noisy times is too small. The best by all runs is taken, unless one
        device was faster in this round."""
        finalists = [outline for outline in self._leaders() if outline is not self.single][: max(last - 1, 0)]
        again = [self._run(outline) for outline in [*finalists, self.single]] if last > 0 else []
        times = dict(self._tried)  # of each the last
        best = next(outline for outline in self._leaders() if outline in finalists or not (finalists and again))
        single = times.get(self.single, math.inf)
        if times[best] > single:
            best = self.single
        self.runs[-1].best = best.plan
        found = Tuned(best.plan, times[best], single, self.runs, self.process.belief(), self.calibration)
        found.report = self._reported([count for count in report if count <= len(self.runs)])
        return found

    def _reported(self, counts: Sequence[int]) -> dict[int, float]:
        """Of each count the plan that was best then, measured anew, in turn with the others."""
        plans = {id(self.runs[count - 1].best): self.runs[count - 1].best for count in counts}
        rounds = [{key: self.measure(plan) for key, plan in plans.items()} for _ in range(_REPEATS)]
        return {count: statistics.median(times[id(self.runs[count - 1].best)] for times in rounds) for count in counts}


def _assigned(shared: list[list[float]]) -> list[int]:
    """For each row a column of its own, largest entries first."""
    count = len(shared)
    new, taken = [-1] * count, set()
    for _, row, column in sorted(((-shared[r][c], r, c) for r in range(count) for c in range(count))):
        if new[row] < 0 and column not in taken:
            new[row] = column
            taken.add(column)
    return new
