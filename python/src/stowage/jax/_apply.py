"""What becomes of a plan: within a context, XLA makes the code of its module from it."""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence

import jax

from .._graph import Graph
from .._library import Error, warn
from ._hook import check_module, hooked
from ._module import module_name

if TYPE_CHECKING:
    from ._plan import JaxPlan


class Applied:
    """What became of a plan within :func:`apply`."""

    def __init__(self, plan: JaxPlan) -> None:
        self.plan = plan
        self.modules: list[bytes] = []  #: the changed modules, as given to XLA
        self.others: list[str] = []  #: names of modules that were left as they are
        self.error: Optional[BaseException] = None  #: why the plan's module could not be changed

    def _change(self, data: bytes) -> Optional[bytes]:
        """Called by XLA: nothing may be raised here. The plan's module is known by its fingerprint, in which names and constants
        play no part."""
        try:
            if Graph.parse(bytes(data), "a module").fingerprint != self.plan.fingerprint:
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

    def _fault(self) -> str:
        """Why the plan is not in what XLA compiled, or ""."""
        name = self.plan.graph.name
        if self.error is not None:
            return f"the plan could not be put into the module {name}, which XLA compiled as its own: {self.error}"
        if self.modules:
            return ""
        seen = ", ".join(dict.fromkeys(self.others)) or "nothing"
        return (
            f"the plan is for another module {name}; within the context XLA compiled {seen}. Compile the same function for the same "
            f"shapes with plan.compiler_options, on {self.plan.platform}, with jax {self.plan._info['jax']} (this is {jax.__version__})"
        )

    def _finish(self) -> None:
        if self.error is not None and not isinstance(self.error, Exception):  # KeyboardInterrupt
            raise self.error
        if self._fault():
            raise Error(self._fault()) from self.error


@contextlib.contextmanager
def apply(plan: JaxPlan) -> Iterator[Applied]:
    """Within, XLA makes the code of modules with the plan's fingerprint from the plan; other modules pass untouched.

    Names and constants play no part in the fingerprint. Compile with ``plan.compiler_options``. Leaving the context raises
    :class:`stowage.Error` if no such module came by or it could not be changed; what was compiled then is XLA's own. Where
    something else was raised within, that comes out, with a warning of such a fault if XLA compiled anything. Caches are
    cleared on entry, and the cache on disk is off within.
    """
    applied = Applied(plan)
    with hooked(applied._change, plan._info["hook"]):
        try:
            yield applied
        except BaseException:
            if applied._fault() and (applied.others or applied.error):
                warn(applied._fault())
            raise
    applied._finish()


def compile_applied(jitted: Any, args: Sequence[Any], plan: JaxPlan, options: Optional[Mapping[str, Any]] = None) -> tuple[Any, bytes]:
    """The executable with the plan in it, and its module: names in that may be others than in the plan's. ``options`` beside the
    plan's."""
    with apply(plan) as applied:
        compiled = jitted.lower(*args).compile({**plan.compiler_options, **(options or {})})
    return compiled, applied.modules[0]
