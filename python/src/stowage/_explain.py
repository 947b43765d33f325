"""Explanations: what a plan's step is made of, and what would change it."""
from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from . import _text
from ._library import call, create, library, make_options

if TYPE_CHECKING:
    from ._plan import Plan

Row = dict[str, Any]


class Explanation:
    """What :meth:`Plan.explain` found. Every list holds flat dicts, a row each, as ``pandas.DataFrame`` takes them; times are whole
    picoseconds (``_ps``), sizes bytes. docs/explain.md says what the keys mean."""

    def __init__(self, found: Row) -> None:
        self.graph: str = found["graph"]
        self.machine: str = found["machine"]
        self.step_ps: int = found["step_ps"]
        self.parts: dict[str, int] = found["parts"]  #: picoseconds by kind; they add up to the step
        self.path: list[Row] = found["path"]  #: the critical path, in order of time
        self.ops: list[Row] = found["ops"]  #: what its time went to, the dearest first
        self.groups: list[Row] = found["groups"]
        self.transfers: list[Row] = found["transfers"]
        self.devices: list[Row] = found["devices"]
        self.idle: list[Row] = found["idle"]  #: why devices idle
        self.what_ifs: list[Row] = found["what_ifs"]  #: other machines and times; the first row is what there is
        self.moved: list[Row] = found.get("moved", [])  #: with ``op``: the op and what must be with it,
        self.moves: list[Row] = found.get("moves", [])  #: on each device,
        self.pulls: list[Row] = found.get("pulls", [])  #: and the transfers that come and go
        self.group: Optional[Row] = found.get("group")  #: with ``group``: what it is worth,
        self.members: list[Row] = found.get("members", [])  #: what is in it,
        self.merges: list[Row] = found.get("merges", [])  #: and what merges with neighbours would give

    @property
    def step(self) -> float:
        """Seconds."""
        return 1e-12 * self.step_ps

    def _rows(self) -> list[list[str]]:
        step = self.step_ps or 1
        return [[kind, f"{1e-9 * ps:.4g} ms", f"{100 * ps / step:.1f} %"] for kind, ps in self.parts.items() if ps]

    def __repr__(self) -> str:
        parts = ", ".join(f"{kind} {share}" for kind, _, share in self._rows())
        return _text.plain(f"<Explanation of {self.graph} on {self.machine}: {1e3 * self.step:.4g} ms; {parts}>")

    def _repr_html_(self) -> str:
        title = f"{self.graph} on {self.machine}: a step of {1e3 * self.step:.4g} ms"
        return _text.html_table(title, ["critical path", "time", "of the step"], self._rows())


def explain(plan: Plan, op: Union[str, int, None], group: Union[str, int, None], what_if: Union[str, Sequence[str], None],
            options: dict[str, Any]) -> Explanation:  # fmt: skip
    from ._search import _Watch  # which knows plans

    if options.get("budget") is None and options.get("evaluations") is None:
        options = {**options, "budget": "1s"}
    chosen = make_options({**options, "op": op, "group": group, "what_if": what_if})
    simulator = plan.simulator
    handles = (simulator._handle.pointer, plan._handle.pointer)
    with _Watch(None) as watch:
        handle = create("stw_explain", "stw_explanation_destroy", *handles, chosen.pointer, watch.c, keep=(simulator._handle, plan._handle))
    if watch.raised is not None:
        raise watch.raised
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    call("stw_explanation_json", handle.pointer, ctypes.byref(text), ctypes.byref(size))
    try:
        return Explanation(json.loads(ctypes.string_at(text.value or 0, size.value)))
    finally:
        library.stw_bytes_free(text)
