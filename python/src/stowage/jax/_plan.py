"""A plan for the module that XLA compiles: its groups, its order, what it is saved as."""
from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from typing import Any, Mapping, Optional, Sequence, Union

import jax

from .. import _text
from .._graph import Graph
from .._library import Error, warn
from .._plan import Path, Plan
from .._simulate import Evaluation, MachineLike, Simulator
from ._apply import compile_applied
from ._best import Model, best_regions
from ._bodies import View, find_bodies
from ._capture import Capture, capture
from ._compare import Arguments, Comparison, compare
from ._hook import check_module, module_text
from ._module import read_module
from ._order import set_order
from ._profile import check_costs
from ._target import Target
from ._values import computes_same


class JaxPlan:
    """A plan for one module of XLA, and how to compile the function so that XLA arrives at that module.

    Made by :func:`plan`, :func:`tune` or :func:`load`.
    """

    def __init__(self, module: bytes, plan: Plan, info: dict[str, Any], bodies: Sequence[Plan] = (),
                 spliced: Optional[bytes] = None) -> None:  # fmt: skip
        self.module = module  #: the module that XLA hands over: an HloModuleProto
        self.plan = plan  #: of the entry, a plan of :attr:`graph`; may be changed before it is applied
        self.bodies = list(bodies)  #: of bodies of loops and branches, those within others first; empty where XLA's fusions stay
        self.spliced = spliced  #: the module with regions of other modules of the same function, which the plan is of
        self.comparison: Optional[Comparison] = None  #: with XLA's own module, where both were run; not kept in a file
        self._info = info
        self._fingerprint: Optional[str] = None

    @property
    def fingerprint(self) -> str:
        """Of the module that XLA hands over, without the plan."""
        if self._fingerprint is None:
            self._fingerprint = Graph.parse(self.module, "the module").fingerprint
        return self._fingerprint

    @property
    def graph(self) -> Graph:
        """The entry's; loops and branches in it have their planned bodies."""
        return self.plan.graph

    @property
    def compiler_options(self) -> dict[str, Any]:
        """For ``lowered.compile``: the options that the module was made with."""
        return dict(self._info["compiler_options"])

    @property
    def fuse(self) -> bool:
        """Whether the fusions are the plan's; else they are XLA's, and only the order is planned."""
        return bool(self._info["fuse"])

    @property
    def keeps_xla(self) -> bool:
        """XLA's own module was faster where both were run, and stays as it is."""
        return bool(self._info.get("keeps_xla", False))

    @property
    def expected(self) -> dict[str, float]:
        """With ``fuse="best"`` the seconds that the kernels of XLA's own module, of other plans and of what was "chosen" were expected to
        take; else empty."""
        return dict(self._info.get("expected", {}))

    @property
    def regions(self) -> int:
        """With ``fuse="best"`` the parts of the module that are another plan's than XLA's; 0: XLA's own stays as it is."""
        return int(self._info.get("regions", 0))

    @property
    def platform(self) -> str:
        return str(self._info["platform"])

    @property
    def order(self) -> str:
        """Where the order came from: "module" (XLA's own was best), or the method that found it."""
        return str(self._info["order"])

    @property
    def interrupted(self) -> bool:
        """Ctrl-C ended the search for an order: this is the best until then."""
        return bool(self._info.get("interrupted", False))

    @property
    def evaluation(self) -> Evaluation:
        """The simulated step."""
        return self.plan.evaluate()

    @property
    def step(self) -> Optional[float]:
        """Predicted seconds of a step."""
        return self.evaluation.step

    @property
    def peak(self) -> int:
        """Predicted peak of memory in bytes, arguments and results included."""
        return max(self.evaluation.peak, default=0)

    @property
    def kernels(self) -> int:
        """Tasks of the entry: fusions and ops that stand alone. A loop or branch is one."""
        group = self.plan.group
        return len({group[k] for k in self.graph._sums()["ops"]} - {-1})

    @property
    def text(self) -> str:
        """The module that XLA hands over, as XLA prints it."""
        return module_text(self.module)

    @property
    def planned(self) -> bytes:
        """The module with the plan in it."""
        return self.rewrite(self.module)

    def rewrite(self, module: bytes) -> bytes:
        """This very module, perhaps with other constants or names, with the plan in it. Other constants are an error where the plan
        has regions of other modules."""
        if self.keeps_xla:
            return module
        if self.spliced is not None:
            if not computes_same(module, self.module):
                raise Error("the module has other constants, or is of another version of XLA, than the one that was planned; plan or tune again")
            module = self.spliced
        elif self.bodies:
            for body, made in zip(find_bodies(read_module(module)), self.bodies):
                view = View(module, body)
                module = view.put_back(made.export_bytes("hlo", view.data))
        return self.plan.export_bytes("hlo", module)

    def save(self, path: Path) -> None:
        """One file (zip) with the module, the plan and the options; written aside and renamed."""
        try:
            info = json.dumps(self._info, indent=1)
        except (TypeError, ValueError) as error:
            raise Error(f"the compiler options are not all text, numbers or truth values: {error}") from None
        target = os.path.abspath(path)
        with tempfile.TemporaryDirectory(prefix=".stowage-", dir=os.path.dirname(target)) as folder:
            file, aside = os.path.join(folder, "plan.json"), os.path.join(folder, "aside")
            self.plan.save(file)
            with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.write(file, "plan.json")
                for k, made in enumerate(self.bodies):
                    made.save(file)
                    archive.write(file, f"body{k}.json")
                archive.writestr("module.hlo.pb", self.module)
                if self.spliced is not None:
                    archive.writestr("spliced.hlo.pb", self.spliced)
                archive.writestr("info.json", info)
            os.replace(aside, target)

    @classmethod
    def load(cls, path: Path) -> JaxPlan:
        """Reads a file of :meth:`save`."""
        return load(path)

    def __repr__(self) -> str:
        e = self.evaluation
        what = "fusions and order" if self.fuse else f"{self.regions} regions of other plans" if self.regions else "order on XLA's fusions"
        step = _text.show_seconds(e.step) if e.step is not None else "no step"
        return (
            f"<JaxPlan of {self.graph.name} for {self.platform}: {what} ({self.order}); {len(self.graph._sums()['ops']):,} ops in "
            f"{self.kernels:,} kernels, predicted {step}, peak {_text.show_bytes(self.peak)} on {self.plan.machine.name}>"
        )


def plan(fn: Any, *args: Any, machine: MachineLike = None, fuse: Union[bool, str, None] = None, budget: Union[str, int, float, None] = "2s",
         compiler_options: Optional[Mapping[str, Any]] = None, objective: str = "memory", costs: Optional[Path] = None,
         fusion: Optional[str] = None, verify: bool = False, kernels: Optional[str] = None, **options: Any) -> JaxPlan:  # fmt: skip
    """Compiles ``fn`` (jitted or not) for these arguments and plans the module that XLA arrives at.

    With ``fuse="best"``, which is the default on a GPU where neither ``fusion`` nor ``costs`` are given, XLA's own module is changed
    where the model of kernels expects other plans to be faster, region by region: one on fusions of our own, and XLA's fusions merged
    further. Where that is expected to bring less than 2 %, XLA's own module stays as it is (``keeps_xla``). ``expected`` and
    ``regions`` say what was found. That takes two compiles, the others one. With ``fuse=True``,
    the default elsewhere, XLA's fusion passes are off, and ``fusion`` is the rule that makes the groups (:meth:`Plan.fuse`): by default
    "joined" on a GPU, "default" elsewhere, in bodies of loops and branches as well. With ``fuse=False`` XLA's fusions stay; only their order
    is planned, or, where ``fusion`` is given, that rule merges them. The order is the best of
    the module's own and of a search within ``budget``; on one device it decides the memory, so that is the ``objective`` unless
    another is given; on a GPU it may then be changed for the cache. ``machine`` has one device, and is by default the
    one that jax runs on; ``costs`` is a file of measured times, as :func:`profile` writes it, and ``kernels="learned"`` has what was
    learnt from kernels on an H200 in place of the formula for what nothing was measured. ``compiler_options`` go to XLA; the
    other options are those of :func:`stowage.optimize`. In place of the function a :class:`Capture` will do.

    With ``verify`` the plan's module and XLA's own are run in turn for some seconds, and XLA's own is kept (``keeps_xla``) where the
    plan is not faster; ``comparison`` says what was found. Arguments that the function donates are copied for each run.

    A body that cannot be planned would be left without any fusion: XLA's fusions stay then, with a warning.

    KeyboardInterrupt ends the search for an order; the best until then is taken, with ``interrupted`` set. What there is to say
    about ``costs`` (rows that match no op, times of another module) is warned of.
    """
    if verify:
        _check_can_run(fn, args)
    if fuse not in (None, True, False, "best"):
        raise Error(f"fuse is True, False or 'best', not {fuse!r}")
    settings: dict[str, Any] = {"machine": machine, "objective": objective, "kernels": kernels}
    if fuse is None:
        fuse = "best" if _may_choose(fn, args, fusion, costs) else True
    if fuse == "best":
        if isinstance(fn, Capture) or costs is not None or fusion is not None:
            raise Error("fuse='best' compiles the function twice, chooses among fusions, and costs are of one module: give the function, and neither "
                        "costs nor fusion")  # fmt: skip
        own = capture(fn, *args, fuse=False, compiler_options=compiler_options)
        bare = capture(fn, *args, fuse=True, compiler_options=compiler_options)
        made = _plan_best(own, bare, budget, options, settings)
        return _verified(fn, args, made, own, machine) if verify and not made.keeps_xla else made
    captured = fn if isinstance(fn, Capture) else capture(fn, *args, fuse=fuse, compiler_options=compiler_options)
    fault = _fault_of_bodies(captured)
    if fault:
        if isinstance(fn, Capture):
            raise Error(f"a body cannot be planned ({fault}), and would be left without fusions; capture with fuse=False")
        warn(f"a body cannot be planned ({fault}): XLA's fusions stay")
        captured = capture(fn, *args, fuse=False, compiler_options=compiler_options)
    made = plan_captured(captured, costs=costs, fusion=fusion, budget=budget, options=options, **settings)
    if not verify:
        return made
    if captured.fuse:
        captured = capture(fn, *args, fuse=False, compiler_options=compiler_options)
    return _verified(fn, args, made, captured, machine)


_VERIFY_SECONDS = 5.0


def _verified(fn: Any, args: Sequence[Any], made: JaxPlan, own: Capture, machine: MachineLike) -> JaxPlan:
    jitted = fn if hasattr(fn, "lower") else jax.jit(fn)
    compiled, _ = compile_applied(jitted, args, made)
    return keep_faster(made, compiled, own, Arguments(args, jitted.lower(*args)), _VERIFY_SECONDS, machine)[0]


def _may_choose(fn: Any, args: Sequence[Any], fusion: Optional[str], costs: Optional[Path]) -> bool:
    return not isinstance(fn, Capture) and fusion is None and costs is None and Target(args).platform == "gpu"


def _plan_best(own: Capture, bare: Capture, budget: Union[str, int, float, None], options: dict[str, Any], settings: dict[str, Any]) -> JaxPlan:
    """XLA's own module with what the model expects to be better in those of two plans; nothing is changed where that is too little."""
    rule = "joined" if own.target.platform == "gpu" else "default"
    ways = [("ours", bare, None)] if not _fault_of_bodies(bare) else []
    plans, quick = {}, {"evaluations": 1}
    for name, captured, fusion in [*ways, ("merged", own, rule)]:
        try:
            plans[name] = plan_captured(captured, fusion=fusion, options=quick, **settings).planned
        except Error:  # then there is no such plan
            continue
    kept = plan_captured(own, options=quick, keeps_xla=True, **settings)

    def fits(module: bytes) -> bool:
        return plan_captured(own, options=quick, spliced=module, **settings).peak <= _MORE_MEMORY * kept.peak

    machine = own.target.machine() if settings["machine"] is None else settings["machine"]
    found = best_regions(own.module, plans, Model(machine, settings["kernels"]), fits)
    made = kept
    if found.module is not None:
        made = plan_captured(own, budget=budget, options=options, spliced=found.module, **settings)
    made._info.update(expected=found.seconds, regions=found.regions)
    return made


_MORE_MEMORY = 1.05  # of the simulated peak of XLA's own module


def _check_can_run(fn: Any, args: Sequence[Any]) -> None:
    if isinstance(fn, Capture):
        raise Error("verify=True runs the function, and a Capture has none; give the function and its arguments, or leave verify out")
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree_util.tree_leaves(args)):
        raise Error("verify=True runs the function, and jax.ShapeDtypeStruct has no values; give arrays, or leave verify out")


def keep_faster(made: JaxPlan, compiled: Any, own: Capture, arguments: Arguments, seconds: float,
                machine: MachineLike) -> tuple[JaxPlan, Any]:  # fmt: skip
    """The plan and its executable where that is faster than XLA's own, run in turn for so long; else a plan that keeps XLA's own, and
    that. The plan has what was found."""
    found = compare(compiled, own.compiled, arguments, seconds)
    if not found.is_faster:
        made, compiled = keep_xla(own, machine), own.compiled
    made.comparison = found
    return made, compiled


def keep_xla(own: Capture, machine: MachineLike) -> JaxPlan:
    """A plan that changes nothing."""
    return plan_captured(own, machine=machine, options={"evaluations": 1}, keeps_xla=True)


def plan_captured(captured: Capture, *, machine: MachineLike = None, costs: Optional[Path] = None, fusion: Optional[str] = None,
                  objective: str = "memory", budget: Union[str, int, float, None] = "2s", options: Optional[dict[str, Any]] = None,
                  spliced: Optional[bytes] = None, keeps_xla: bool = False, kernels: Optional[str] = None) -> JaxPlan:  # fmt: skip
    """As :func:`plan`. With ``spliced`` that module stands in the place of the captured one and is given an order; with ``keeps_xla``
    nothing is changed."""
    planner = _Planner(captured, machine, costs, fusion, objective, budget, options or {}, kernels)
    module, bodies = planner.plan_bodies() if (captured.fuse or fusion) and spliced is None else (spliced or captured.module, [])
    made = planner.plan_entry(module)
    info = {"format": "stowage-jax", "version": _VERSION, "jax": jax.__version__, "platform": captured.target.platform,
            "hook": captured.target.hook, "fuse": captured.fuse, "order": planner.order, "interrupted": planner.interrupted,
            "compiler_options": captured.compiler_options, "keeps_xla": keeps_xla}  # fmt: skip
    result = JaxPlan(captured.module, made, info, bodies, spliced)
    check_module(result.planned)
    return result


def _fault_of_bodies(captured: Capture) -> str:
    """Why a body of a module without fusions cannot be planned, or ""."""
    bodies = find_bodies(read_module(captured.module)) if captured.fuse else []
    return next((fault for fault in (View(captured.module, body).fault for body in bodies) if fault), "")


class _Planner:
    """Plans the computations of a captured module, one after the other."""

    def __init__(self, captured: Capture, machine: MachineLike, costs: Optional[Path], fusion: Optional[str], objective: str,
                 budget: Union[str, int, float, None], options: dict[str, Any], kernels: Optional[str]) -> None:  # fmt: skip
        self._kernels = kernels
        self._captured, self._costs, self._objective, self._options = captured, costs, objective, options
        self._machine = captured.target.machine() if machine is None else machine
        self._fusion = fusion or (("joined" if captured.target.platform == "gpu" else "default") if captured.fuse else None)
        self._seconds = None if budget is None or options.get("evaluations") is not None else _text.parse_seconds(budget)
        self.order, self.interrupted = "module", False

    def plan_bodies(self) -> tuple[bytes, list[Plan]]:
        """The module with its bodies planned, and their plans. Half of the time for orders is theirs."""
        module, plans = self._captured.module, []
        bodies = find_bodies(read_module(module))
        share = self._seconds and self._seconds / 2 / max(1, len(bodies))
        for body in bodies:
            view = View(module, body)
            if view.fault:
                break
            made = self._plan_one(view.data, share)[0]
            module = view.put_back(made.export_bytes("hlo", view.data))
            plans.append(made)
        return (module, plans) if len(plans) == len(bodies) else (self._captured.module, [])

    def plan_entry(self, module: bytes) -> Plan:
        made, self.order = self._plan_one(module, self._seconds, is_entry=True)
        return made

    def _plan_one(self, data: bytes, seconds: Optional[float], is_entry: bool = False) -> tuple[Plan, str]:
        module = read_module(data)
        graph = Graph.parse(data, (module.name if is_entry else module.entry.name) or "the module")
        simulator = Simulator(graph, self._machine, costs=self._costs, kernels=self._kernels)
        if len(simulator.machine) != 1:
            raise Error(f"XLA runs a module on one device, and {simulator.machine.name} has {len(simulator.machine)}; docs/xla.md says "
                        "how to split a step")  # fmt: skip
        if is_entry:
            simulator._tell()
            check_costs(self._costs, graph)
        made = simulator.run("single").copy()
        if self._fusion:
            made.fuse(self._fusion)
        outputs = {n.id for n in graph.nodes if n.name in module.outputs()}
        found, interrupted = set_order(made, outputs, self._objective, seconds, self._options, self._captured.target.cache)
        self.interrupted |= interrupted
        return made, found


_VERSION = 2  # 1 had no bodies
_KEYS = {"format", "version", "jax", "platform", "hook", "fuse", "order", "compiler_options"}


def load(path: Path) -> JaxPlan:
    """Reads a file of :meth:`JaxPlan.save`."""
    try:
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
            info = json.loads(archive.read("info.json"))
            is_ours = isinstance(info, dict) and _KEYS <= info.keys() and info.get("format") == "stowage-jax"
            if not is_ours or info.get("version") not in (1, _VERSION):
                raise Error(f"{os.fspath(path)} is no plan for jax that this version reads")
            module = archive.read("module.hlo.pb")
            return _load_plans(module, archive, folder, info, os.fspath(path))
    except (KeyError, zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise Error(f"{os.fspath(path)} is no plan for jax: {error}") from None


def _load_plans(module: bytes, archive: zipfile.ZipFile, folder: str, info: dict[str, Any], name: str) -> JaxPlan:
    count = sum(member.startswith("body") for member in archive.namelist())
    spliced = archive.read("spliced.hlo.pb") if "spliced.hlo.pb" in archive.namelist() else None
    bodies, planned = [], module if spliced is None else spliced
    for k, body in zip(range(count), find_bodies(read_module(module))):
        view = View(planned, body)
        bodies.append(Plan.load(archive.extract(f"body{k}.json", folder), Graph.parse(view.data, name)))
        planned = view.put_back(bodies[-1].export_bytes("hlo", view.data))
    return JaxPlan(module, Plan.load(archive.extract("plan.json", folder), Graph.parse(planned, name)), info, bodies, spliced)
