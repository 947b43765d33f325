"""What PyTorch's profiler records of a GPU, as the events of its trace: dicts with times in microseconds."""
from __future__ import annotations

import bisect
import json
import os
import tempfile
from typing import Any, Sequence

Event = dict[str, Any]

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of what a GPU does


def events_of(recorded: Any) -> list[Event]:
    """What a profiler recorded, as in its trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        recorded.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            return [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]


def grouped(events: Sequence[Event], *keys: str) -> list[list[Event]]:
    """What the device did by its context, stream and the like, each in order of time."""
    groups: dict[Any, list[Event]] = {}
    for e in sorted((e for e in events if e.get("cat") in ON_DEVICE), key=lambda e: e["ts"]):
        groups.setdefault(tuple(e["args"].get(key) for key in keys), []).append(e)
    return list(groups.values())


def launched(events: Sequence[Event], prefix: str) -> list[tuple[int, Event]]:
    """What the device did in order of time, each with the number N of the range, ``record_function(f"{prefix} N")``, in which it was
    launched. Ranges do not lie within each other."""
    ranges = sorted((e["ts"], e["ts"] + e["dur"], int(e["name"].split()[-1])) for e in events
                    if e.get("cat") == "user_annotation" and e["name"].startswith(prefix + " "))  # fmt: skip
    begins = [r[0] for r in ranges]
    of: dict[int, int] = {}  # by correlation of a launch with what it launched
    for e in events:
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {}):
            at = bisect.bisect_right(begins, e["ts"]) - 1
            if at >= 0 and e["ts"] <= ranges[at][1]:
                of[e["args"]["correlation"]] = ranges[at][2]
    on_device = sorted((e for e in events if e.get("cat") in ON_DEVICE), key=lambda e: e["ts"])
    return [(of[e["args"]["correlation"]], e) for e in on_device if e["args"].get("correlation") in of]
