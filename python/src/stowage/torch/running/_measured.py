"""When each op of a placed step ran, as a file in the Trace Event format for ``stowage report --measured`` and trace viewers."""
from __future__ import annotations

import json
import warnings
from typing import Any, Iterable, NamedTuple

from ..._files import whole_file
from ..._plan import Path, Plan
from . import _kernels
from ._program import Transfer
from ._streams import Streams
from ._workers import Workers


class Row(NamedTuple):
    """Something that a device did, in microseconds from the step's beginning."""

    device: int
    node: int
    is_copy: bool  # of the node's value, to this device
    start: float
    length: float
    kernels: int = 0  # of a GPU


def on_threads(timed: Workers, runs: int) -> list[Row]:
    """The quickest of so many steps on CPU devices."""
    devices = {task.id: task.device for task in timed.program.tasks}
    least, rows = float("inf"), []
    for _ in range(runs):
        took = timed.times(1)[0]
        if took < least:
            least = took
            rows = [Row(devices[k], k, False, 1e6 * (start - timed.began), 1e6 * seconds)
                    for k, start, seconds in zip(timed.timed_tasks, timed.starts, timed.seconds)]  # fmt: skip
    return rows


def on_streams(streams: Streams, runs: int) -> list[Row]:
    """The quickest of so many steps that are replayed on a GPU."""
    replay = _kernels.quickest(streams, runs)
    missing = replay.launched - len(replay.spans)
    if missing > 0:
        warnings.warn(f"of {missing} of {replay.launched} ops and copies not all kernels were recorded; they are left out of the trace", stacklevel=3)
    rows = []
    for what, start, end, kernels in replay.spans:
        is_copy = isinstance(what, Transfer)
        node = streams.program.nodes.id[what.node] if isinstance(what, Transfer) else what.id
        rows.append(Row(what.target if isinstance(what, Transfer) else what.device, node, is_copy, start - replay.start, end - start, kernels))
    return rows


def write(path: Path, plan: Plan, rows: Iterable[Row]) -> None:
    """Ops have the names of the graph's nodes and are on tracks with the names of the plan's devices; copies have tracks of their own."""
    with whole_file(path, "w", encoding="utf-8") as file:
        json.dump({"displayTimeUnit": "ms", "traceEvents": _events(plan, list(rows))}, file)


def _events(plan: Plan, rows: list[Row]) -> list[dict[str, Any]]:
    devices = plan.machine.devices
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "measured"}}]
    events += [{"ph": "M", "name": "thread_name", "pid": 1, "tid": d.index + 1, "args": {"name": d.name}} for d in devices]
    events += [{"ph": "M", "name": "thread_name", "pid": 1, "tid": len(devices) + d + 1, "args": {"name": f"copies to {devices[d].name}"}}
               for d in sorted({row.device for row in rows if row.is_copy})]  # fmt: skip
    for row in rows:
        node = plan.graph.nodes[row.node]
        about = {"id": node.id, **({"kernels": row.kernels} if row.kernels > 0 else {})}
        name, category, track = (f"copy of {node.name}", "copy", len(devices) + row.device) if row.is_copy else (node.name, node.op, row.device)
        events.append({"ph": "X", "name": name, "cat": category, "pid": 1, "tid": track + 1, "ts": round(row.start, 3),
                       "dur": round(row.length, 3), "args": about})  # fmt: skip
    return events
