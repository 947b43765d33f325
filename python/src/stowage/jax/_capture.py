"""The module that XLA hands over when it compiles a function."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

import jax

from ._hook import hooked
from ._module import module_name
from ._target import Target, passes_off
from .._library import Error


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
