"""Plans found by running them: the search proposes, the devices decide, and what they say corrects what the search believes."""
from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence, Union

import torch

from .._library import Error
from .._plan import Plan
from .._search import optimize
from .._simulate import Simulator
from ._calibrate import BUILDERS, Calibration, calibrate, copy_onto
from ._devices import parse_all
from ._place import place
from ._streams import restored

_STEPS_EACH = 11  # of a plan that is tried
_FINALISTS, _ROUNDS = 3, 3  # that are run again before one is chosen, and how often


@dataclass(frozen=True)
class Belief:
    """What the search takes for true: how much of the measured charges holds, and how much of what company adds."""

    charges: float = 1.0
    company: float = 1.0


@dataclass
class Run:
    """A plan that was run."""

    name: str
    plan: Plan
    predicted: float  #: seconds, by what was believed when it was run
    measured: float


@dataclass
class Tuned:
    """What :func:`tune` found."""

    plan: Plan  #: the fastest by measurement
    seconds: float
    single: float  #: seconds of one device
    runs: list[Run]  #: in their order
    belief: Belief
    calibration: Calibration

    def after(self, count: int) -> float:
        """Seconds of the fastest plan among the first so many runs."""
        return min(run.measured for run in self.runs[:count])

    def __repr__(self) -> str:
        return f"<{1e3 * self.seconds:.3f} ms after {len(self.runs)} runs; one device {1e3 * self.single:.3f} ms>"


def tune(module: torch.nn.Module, *args: Any, devices: Sequence[str], runs: int = 25, budget: Union[str, float] = "3s", train: bool = True,
         loss: Optional[Callable[..., Any]] = None, copies: bool = False, calibration: Optional[Calibration] = None,
         progress: Optional[Callable[[str], None]] = None, seed: int = 1, **kwargs: Any) -> Tuned:  # fmt: skip
    """The plan with the shortest measured step, found with at most so many runs of plans; never slower than one device.

    The devices are calibrated first, unless ``calibration`` is given. Then one device, the methods that build plans and the search's
    best plan are run; what they took corrects the belief about charges and company, and the search goes on from the fastest plan,
    with other seeds and with beliefs around the corrected one, so that the plans differ. ``budget`` is that of one search. The
    module's parameters and buffers are as before when it returns.
    """
    if len({spec.gpu for spec in parse_all([str(d) for d in devices])} - {None}) > 1:
        raise Error("plans over several GPUs cannot be tuned yet: the module would have to be traced on all of them")
    found = calibration or calibrate(devices, module, *args, train=train, loss=loss, copies=copies, progress=progress, **kwargs)

    def measure(plan: Plan) -> float:
        update = "sgd" if train else None
        with place(module, *args, plan=plan, devices=devices, train=train, loss=loss, update=update, rate=0.0, copies=copies, **kwargs) as step:
            return step.seconds(_STEPS_EACH)

    with restored([*module.parameters(), *module.buffers()]):
        return _Tuning(found, measure, runs, budget, progress or (lambda line: None), seed).result()


class _Tuning:
    def __init__(self, calibration: Calibration, measure: Callable[[Plan], float], runs: int, budget: Any, say: Callable[[str], None],
                 seed: int) -> None:  # fmt: skip
        self.calibration, self.measure, self.limit, self.budget, self.say, self.seed = calibration, measure, runs, budget, say, seed
        self.belief = Belief()
        self.runs: list[Run] = []
        self._known: set[Any] = set()

    def result(self) -> Tuned:
        for name in BUILDERS:  # one device is always among what is run
            self._try(name, self._simulator(self.belief).run(name))
        self._try("search", self.calibration.optimize(self.budget))
        k = 0
        while len(self.runs) < self.limit and k < 4 * self.limit:
            if k % 4 == 0:
                self.belief = self._corrected()
            self._search(self._varied(k), self._best() if k % 3 else None)
            k += 1
        return self._chosen()

    # ---- what is run ----

    def _try(self, name: str, plan: Optional[Plan]) -> None:
        if plan is None or len(self.runs) >= self.limit:
            return
        key = (plan.device, tuple(plan.order(d) for d in range(len(plan.machine))), plan.priority)
        if key in self._known:
            return
        self._known.add(key)
        predicted = self._predicted(plan, self.belief)
        try:
            measured = self.measure(plan)
        except Error as error:  # it does not fit, or a kernel refuses its share of the GPU
            self.say(f"{name}: {error}")
            return
        self.runs.append(Run(name, plan, predicted, measured))
        self.say(f"run {len(self.runs)}, {name}: predicted {1e3 * predicted:.3f} ms, measured {1e3 * measured:.3f} ms")

    def _search(self, belief: Belief, start: Optional[Run]) -> None:
        self.seed += 1
        simulator = self._simulator(belief)
        given = copy_onto(start.plan, simulator) if start is not None else None
        found = optimize(simulator, budget=self.budget, tasks="placement,schedule", seed=self.seed, start=given)
        self._try(f"search, charges {belief.charges:.2g}, company {belief.company:.2g}{', from the best' if start else ''}", found.plan)

    def _varied(self, k: int) -> Belief:
        """Beliefs around the corrected one, so that plans with fewer transfers and with more are tried."""
        factor = (1.0, 2.0, 0.5, 1.5, 3.0, 0.75)[k % 6]
        return Belief(self.belief.charges * factor, self.belief.company)

    def _best(self) -> Run:
        return min(self.runs, key=lambda run: run.measured)

    def _chosen(self) -> Tuned:
        """The fastest few and one device once more, in turn, and only that counts: the least of many noisy times is too small."""
        if not self.runs:
            raise Error("no plan could be run")
        finalists = sorted(self.runs, key=lambda run: run.measured)[:_FINALISTS]
        finalists += [run for run in self.runs if run.name == "single" and run not in finalists]
        rounds = [[self.measure(run.plan) for run in finalists] for _ in range(_ROUNDS)]
        again = [statistics.median(times) for times in zip(*rounds)]
        k = min(range(len(finalists)), key=again.__getitem__)
        single = next((again[i] for i, run in enumerate(finalists) if run.name == "single"), math.inf)
        return Tuned(finalists[k].plan, again[k], single, self.runs, self.belief, self.calibration)

    # ---- what is believed ----

    def _simulator(self, belief: Belief) -> Simulator:
        found = self._believed(belief)
        return Simulator(found.graph, found.machine)

    def _believed(self, belief: Belief) -> Calibration:
        links = [{**link, **{key: link[key] * belief.charges for key in ("send_us", "receive_us") if key in link}}
                 for link in self.calibration.machine["links"]]  # fmt: skip
        company = {kind: {k: us + belief.company * (self.calibration.company[kind][k] - us) for k, us in alone.items()}
                   for kind, alone in self.calibration.alone.items()}  # fmt: skip
        return dataclasses.replace(self.calibration, machine={**self.calibration.machine, "links": links}, company=company)

    def _predicted(self, plan: Plan, belief: Belief) -> float:
        return self._believed(belief).predict(plan, rounds=3).step or math.inf

    def _corrected(self) -> Belief:
        """The belief, among those near the present one, under which what was run comes out best. Errors that all plans share say nothing
        about which is better, so their mean is left out."""
        recent = self.runs[-12:]
        if len({run.plan.device for run in recent}) < 3:
            return self.belief
        options = [Belief(min(max(self.belief.charges * a, 0.25), 4.0), min(max(self.belief.company + b, 0.0), 2.0))
                   for a in (0.7, 1.0, 1.4) for b in (-0.25, 0.0, 0.25)]  # fmt: skip

        def spread(belief: Belief) -> float:
            errors = [math.log(run.measured / self._predicted(run.plan, belief)) for run in recent]
            mean = sum(errors) / len(errors)
            return sum((e - mean) ** 2 for e in errors)

        return min(options, key=spread)

