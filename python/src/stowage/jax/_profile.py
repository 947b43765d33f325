"""Measured times of a module's instructions, from JAX's profiler."""
from __future__ import annotations

import csv
import glob
import os
import statistics
import tempfile
from typing import Any, Callable, Iterator, Mapping, Optional

import jax

from .._files import whole_file
from .._graph import Graph
from ._capture import capture
from .._library import Error, warn
from .._plan import Path


def profile(fn: Any, *args: Any, kind: Optional[str] = None, path: Optional[Path] = None, fuse: bool = True, repeats: int = 10,
            compiler_options: Optional[Mapping[str, Any]] = None) -> dict[str, float]:  # fmt: skip
    """Runs ``fn`` under JAX's profiler: the median microseconds of each instruction of the module that :func:`plan` plans.

    ``fuse`` and ``compiler_options`` as for :func:`plan`. With ``path`` the times are written as ``name,kind,us``, for
    ``costs=`` there and ``--costs`` on the command line; ``kind`` is the kind of device in the machine file, by default
    that of the device at hand. The file begins with the fingerprint of the module, by which :func:`plan` knows times of another
    one. Donated arguments cannot be run again: profile a function that donates nothing.
    """
    captured = capture(fn, *args, fuse=fuse, compiler_options=compiler_options)
    target, compiled = captured.target, captured.compiled
    if target.platform == "gpu":  # once more: kernels within a CUDA graph lose their names
        options = {"xla_gpu_enable_command_buffer": "", **captured.compiler_options}
        compiled = (fn if hasattr(fn, "lower") else jax.jit(fn)).lower(*args).compile(options)
    module = compiled.as_text().split(None, 2)[1].rstrip(",")
    times = profile_compiled(compiled, lambda: args, module, repeats)
    if path is not None:
        with whole_file(path, "w", newline="", encoding="utf-8") as opened:
            opened.write(f"{_HEAD}{Graph.parse(captured.module, module).fingerprint} {module}, jax {jax.__version__}\n")
            writer = csv.writer(opened, lineterminator="\n")
            writer.writerow(["name", "kind", "us"])
            writer.writerows([name, kind or target.kind, f"{us:.4g}"] for name, us in times.items())
    return times


_HEAD = "# stowage.jax.profile: module "


def check_costs(path: Optional[Path], graph: Graph) -> None:
    """Warns if the times in a file of :func:`profile` are those of another module."""
    if path is None:
        return
    with open(path, "rb") as opened:
        line = opened.readline(1000).decode(errors="replace")
    words = line[len(_HEAD):].split(None, 1) if line.startswith(_HEAD) else []
    if words and words[0] != graph.fingerprint:
        warn(f"{os.fspath(path)} has the times of another module ({words[-1].strip()}): other shapes, options or version of jax. Names "
             "that both have get its times; profile again")  # fmt: skip


def profile_compiled(compiled: Any, args: Callable[[], tuple], module: str, repeats: int) -> dict[str, float]:
    """Median microseconds of each instruction; several kernels of one instruction in a run are added up."""
    for _ in range(2):
        jax.block_until_ready(compiled(*args()))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(repeats):
                jax.block_until_ready(compiled(*args()))
        found = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
        if not found or not hasattr(jax.profiler, "ProfileData"):
            raise Error(f"the profiler of jax {jax.__version__} wrote nothing that can be read")
        runs: dict[str, list[float]] = {}
        for name, us in _events(jax.profiler.ProfileData.from_file(found[0]), module):
            runs.setdefault(name, []).append(us)
    if not runs:
        raise Error(f"the profiler of jax {jax.__version__} names no instruction of the module {module} on this platform")
    times = {}
    for name, each in runs.items():
        kernels = max(1, round(len(each) / repeats))
        times[name] = statistics.median(each) if kernels == 1 else sum(each) / repeats
    return times


def _events(data: Any, module: str) -> list[tuple[str, float]]:
    """(instruction, microseconds) of each run. Those of a device where there are any, else those of the host's threads: a device may
    have a plane with nothing of the module in it, as where the CPU is used beside a GPU."""
    planes = list(data.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    others = [plane for plane in planes if not plane.name.startswith("/device:")]
    found = [run for plane in devices for run in _of_plane(plane, module, False)]
    return found or [run for plane in others for run in _of_plane(plane, module, True)]


def _of_plane(plane: Any, module: str, on_host: bool) -> list[tuple[str, float]]:
    lines = list(plane.lines)
    found = list(_runs([line for line in lines if not line.name.startswith(_SUMMARIES)], module, on_host))
    if not found:
        found = [(event.name, event.duration_ns) for line in lines if line.name == "XLA Ops" for event in line.events]
    return [(name, ns / 1000) for name, ns in found]


_SUMMARIES = ("XLA", "Steps", "Framework", "TensorFlow", "Source")  # lines that show the same again


def _runs(lines: list[Any], module: str, on_host: bool) -> Iterator[tuple[str, float]]:
    begun: dict[Any, tuple[str, float, float]] = {}
    ended: dict[Any, float] = {}
    for line in lines:
        for number, event in enumerate(line.events):
            stats = dict(event.stats)
            if "hlo_op" in stats and str(stats.get("hlo_module", module)).split("(")[0] == module:
                key = stats["_p"] if on_host and "_p" in stats else (line.name, number)
                begun[key] = (str(stats["hlo_op"]), event.start_ns, event.duration_ns)
            elif event.name.startswith("end: ") and "_c" in stats:
                ended[stats["_c"]] = event.start_ns
    for key, (name, start, duration) in begun.items():
        yield name, max(duration, ended.get(key, start) - start)  # what runs on other threads ends later
