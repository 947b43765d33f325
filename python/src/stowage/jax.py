"""Plans that XLA runs: fusions and order for a jitted JAX function.

    plan = stowage.jax.plan(step, params, batch)
    with stowage.jax.apply(plan):
        compiled = jax.jit(step).lower(params, batch).compile(plan.compiler_options)

XLA hands its module over when all its own passes but the last are done; the plan's groups and order are put into it, and XLA makes
code from that. Works on CPUs and on NVIDIA GPUs, with jax 0.10.2 or newer.
"""
from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Union

import jax

from . import _text
from ._graph import Graph
from ._jax_groups import MAX_MEMBERS, MAX_OPERANDS, Rule, settle
from ._jax_hook import check_module, hooked, module_text
from ._jax_module import module_name, read_module
from ._jax_order import set_order
from ._jax_profile import profile
from ._jax_target import Target, passes_off
from ._library import Error
from ._plan import Path, Plan
from ._simulate import Evaluation, MachineLike, Simulator

__all__ = ["Applied", "Capture", "JaxPlan", "apply", "capture", "load", "plan", "profile"]


class JaxPlan:
    """A plan for one module of XLA, and how to compile the function so that XLA arrives at that module.

    Made by :func:`plan` or :func:`load`.
    """

    def __init__(self, module: bytes, plan: Plan, info: dict[str, Any]) -> None:
        self.module = module  #: the module that XLA hands over: an HloModuleProto
        self.plan = plan  #: a plan of :attr:`graph`; may be changed before it is applied
        self._info = info

    @property
    def graph(self) -> Graph:
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
    def platform(self) -> str:
        return str(self._info["platform"])

    @property
    def order(self) -> str:
        """Where the order came from: "module" (XLA's own was best), or the method that found it."""
        return str(self._info["order"])

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
        """Tasks of a step: fusions and ops that stand alone."""
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
        """This very module, perhaps with other constants or names, with the plan in it."""
        return self.plan.export_bytes("hlo", module)

    def save(self, path: Path) -> None:
        """One file (zip) with the module, the plan and the options."""
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            file = os.path.join(folder, "plan.json")
            self.plan.save(file)
            archive.write(file, "plan.json")
            archive.writestr("module.hlo.pb", self.module)
            archive.writestr("info.json", json.dumps(self._info, indent=1))

    @classmethod
    def load(cls, path: Path) -> JaxPlan:
        """Reads a file of :meth:`save`."""
        return load(path)

    def __repr__(self) -> str:
        e = self.evaluation
        what = "fusions and order" if self.fuse else "order on XLA's fusions"
        step = _text.show_seconds(e.step) if e.step is not None else "no step"
        return (
            f"<JaxPlan of {self.graph.name} for {self.platform}: {what} ({self.order}); {len(self.graph._sums()['ops']):,} ops in "
            f"{self.kernels:,} kernels, predicted {step}, peak {_text.show_bytes(self.peak)} on {self.plan.machine.name}>"
        )


@dataclass(frozen=True)
class Capture:
    """A compiled function and the module that XLA handed over on the way."""

    module: bytes  #: an HloModuleProto
    compiled: Any  #: what ``lowered.compile`` returned: XLA's own result
    compiler_options: dict[str, Any]
    fuse: bool  #: XLA's fusion passes were off
    target: Target


def capture(fn: Any, *args: Any, fuse: bool = True, compiler_options: Optional[Mapping[str, Any]] = None) -> Capture:
    """Compiles ``fn`` (jitted or not) for these arguments and keeps the module that XLA hands over. ``fuse`` as for :func:`plan`."""
    target = Target(args)
    options = dict(compiler_options or {})
    if fuse:
        options = passes_off(options, target)
    seen: list[bytes] = []

    def record(data: bytes) -> None:
        seen.append(bytes(data))

    with hooked(record, target.hook):
        lowered = (fn if hasattr(fn, "lower") else jax.jit(fn)).lower(*args)
        compiled = lowered.compile(options)
    if not seen:
        raise Error(f"jax {jax.__version__} on {target.hook} compiled the function without calling the hook")
    named = [data for data in seen if module_name(data) == _name_of(lowered)] or seen
    module = max(named, key=len)  # XLA may compile small parts by themselves to time them
    return Capture(module, compiled, options, fuse, target)


def _name_of(lowered: Any) -> str:
    try:
        return str(lowered.compiler_ir().operation.attributes["sym_name"]).strip('"')
    except Exception:
        return ""


def plan(fn: Any, *args: Any, machine: MachineLike = None, fuse: bool = True, budget: Union[str, int, float, None] = "2s",
         compiler_options: Optional[Mapping[str, Any]] = None, objective: str = "memory", costs: Optional[Path] = None,
         max_members: int = MAX_MEMBERS, max_operands: int = MAX_OPERANDS, **options: Any) -> JaxPlan:  # fmt: skip
    """Compiles ``fn`` (jitted or not) once for these arguments and plans the module that XLA arrives at.

    With ``fuse`` XLA's fusion passes are off, and each element-wise op joins its only consumer; else XLA's fusions stay and
    only their order is planned. The order is the best of the module's own and of a search within ``budget``; on one device it
    decides the memory, so that is the ``objective`` unless another is given. ``machine`` has one device, and is by default the
    one that jax runs on; ``costs`` is a file of measured times, as :func:`profile` writes it. ``compiler_options`` go to XLA; the
    other options are those of :func:`stowage.optimize`. In place of the function a :class:`Capture` will do.
    """
    captured = fn if isinstance(fn, Capture) else capture(fn, *args, fuse=fuse, compiler_options=compiler_options)
    module = read_module(captured.module)
    graph = Graph.parse(captured.module, module.name or "the module")
    simulator = Simulator(graph, captured.target.machine() if machine is None else machine, costs=costs)
    if len(simulator.machine) != 1:
        raise Error(f"XLA runs a module on one device, and {simulator.machine.name} has {len(simulator.machine)}; docs/xla.md says how "
                    "to split a step")  # fmt: skip
    made = simulator.run("single").copy()
    if captured.fuse:
        settle(made, Rule(graph, module, max_members, max_operands), captured.module)
    outputs = {n.id for n in graph.nodes if n.name in module.outputs()}
    origin = set_order(made, outputs, objective, None if options.get("evaluations") is not None else budget, options)
    info = {"format": "stowage-jax", "version": 1, "jax": jax.__version__, "platform": captured.target.platform,
            "hook": captured.target.hook, "fuse": captured.fuse, "order": origin,
            "compiler_options": captured.compiler_options}  # fmt: skip
    result = JaxPlan(captured.module, made, info)
    check_module(result.planned)
    return result


def load(path: Path) -> JaxPlan:
    """Reads a file of :meth:`JaxPlan.save`."""
    try:
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
            info = json.loads(archive.read("info.json"))
            if info.get("format") != "stowage-jax" or info.get("version") != 1:
                raise Error(f"{os.fspath(path)} is no plan for jax that this version reads")
            module = archive.read("module.hlo.pb")
            return JaxPlan(module, Plan.load(archive.extract("plan.json", folder), Graph.parse(module, os.fspath(path))), info)
    except (KeyError, zipfile.BadZipFile, ValueError) as error:
        raise Error(f"{os.fspath(path)} is no plan for jax: {error}") from None


class Applied:
    """What became of a plan within :func:`apply`."""

    def __init__(self, plan: JaxPlan) -> None:
        self.plan = plan
        self.modules: list[bytes] = []  #: the changed modules, as given to XLA
        self.others: list[str] = []  #: names of modules that were left as they are
        self.error: Optional[BaseException] = None  #: why the plan's module could not be changed

    def _change(self, data: bytes) -> Optional[bytes]:
        """Called by XLA: nothing may be raised here."""
        try:
            if Graph.parse(bytes(data), "a module").fingerprint != self.plan.graph.fingerprint:
                self.others.append(module_name(data))
                return None
        except Exception:  # what cannot be read is not the plan's module
            self.others.append("?")
            return None
        try:
            changed = self.plan.rewrite(bytes(data))
            check_module(changed)
        except BaseException as error:
            self.error = self.error or error
            return None
        self.modules.append(changed)
        return changed

    def _finish(self) -> None:
        name = self.plan.graph.name
        if self.error is not None and not isinstance(self.error, Exception):  # KeyboardInterrupt
            raise self.error
        if self.error is not None:
            raise Error(f"the plan could not be put into the module {name}, which XLA compiled as its own: {self.error}") from self.error
        if self.modules:
            return
        seen = ", ".join(dict.fromkeys(self.others)) or "nothing"
        raise Error(
            f"the plan is for another module {name}; within the context XLA compiled {seen}. Compile the same function for the same "
            f"shapes with plan.compiler_options, on {self.plan.platform}, with jax {self.plan._info['jax']} (this is {jax.__version__})"
        )


@contextlib.contextmanager
def apply(plan: JaxPlan) -> Iterator[Applied]:
    """Within, XLA makes the code of the plan's module from the plan; other modules pass untouched.

    Compile with ``plan.compiler_options``. Leaving the context raises :class:`stowage.Error` if the plan's module did not come by
    or could not be changed; what was compiled then is XLA's own. Caches are cleared on entry, and the cache on disk is off within.
    """
    applied = Applied(plan)
    with hooked(applied._change, plan._info["hook"]):
        yield applied
    applied._finish()
