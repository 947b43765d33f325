"""The device that jax compiles for: its name, its machine, and the passes of XLA that fuse there."""
from __future__ import annotations

import functools
import os
import re
from typing import Any, Mapping, Optional

import jax

from .._machine import Machine

_GPUS = ("h200", "h100", "a100", "v100", "p100")
_CACHES = {"h200": 50_000_000, "h100": 50_000_000, "a100": 40_000_000, "v100": 6_000_000, "p100": 4_000_000}  # bytes
_FUSION_PASSES = {
    "cpu": ("fusion", "cpu_multi_output_fusion"),
    "gpu": (
        "priority-fusion", "multi_output_fusion", "horizontal_loop_fusion", "horizontal_input_fusion", "softmax-rewriter-triton",
        "triton-softmax-rewriter",
    ),
}  # fmt: skip
_DISABLE = "xla_disable_hlo_passes"
_YNN = "xla_cpu_experimental_ynn_fusion_type"  # fusions for the library YNNPACK, which no pass of that list makes; "" is none


class Target:
    """Where a function with these arguments is compiled for."""

    def __init__(self, args: Any = (), kwargs: Optional[Mapping[str, Any]] = None) -> None:
        self.device = _device_of((args, dict(kwargs or {})))
        self.platform = "gpu" if self.device.platform in ("gpu", "cuda", "rocm") else self.device.platform  #: "cpu", "gpu", ...
        version = str(getattr(getattr(self.device, "client", None), "platform_version", "")).lower()
        self.hook = {"gpu": "rocm" if "rocm" in version else "cuda"}.get(self.platform, self.platform)  #: jax.extend.xla's name for it

    @property
    def kind(self) -> str:
        """A kind of device as machine files name it: "h200", "cpu8"; of other GPUs their name without blanks."""
        if self.platform == "cpu":
            return f"cpu{os.cpu_count() or 1}"
        name = self.device.device_kind.lower()
        known = next((gpu for gpu in _GPUS if gpu in name), None)
        return known or re.sub(r"[^a-z0-9]+", "-", name.replace("nvidia", "")).strip("-")

    @property
    def cache(self) -> int:
        """Bytes of the cache that all of the device shares, as far as known."""
        return _CACHES.get(self.kind, 0)

    def machine(self) -> Machine:
        """The device alone. Of a kind that is not built in the peaks are rough: measured times are worth more."""
        kind = self.kind
        if kind in _GPUS:
            return self._by_rows(Machine(f"{kind}x1")._described())
        device: dict[str, Any] = {"name": self.platform, "kind": kind, "memory_bytes": self._memory()}
        if self.platform == "cpu":
            cores = os.cpu_count() or 1
            if kind != "cpu8":
                device.update(launch_us=1.0, flops_per_s={"f32": 5e10 * cores}, bandwidth_bytes_per_s=1e10 + 2e9 * cores)
        else:
            device.update(launch_us=2.0, flops_per_s={"f32": 2e13}, bandwidth_bytes_per_s=1e12)
        if kind != "cpu8":
            device["efficiency"] = {"elementwise": 0.7}
        return self._by_rows({"format": "machine", "version": 1, "name": kind, "devices": [device], "links": []})

    def _by_rows(self, described: dict[str, Any]) -> Machine:
        """XLA for NVIDIA's GPUs has kernels that reduce rows and go on with the results."""
        if self.hook == "cuda":
            described["devices"][0]["fuses_epilogue"] = ["reduce"]
        return Machine(described)

    def _memory(self) -> int:
        statistics = self.device.memory_stats() if hasattr(self.device, "memory_stats") else None
        if statistics and statistics.get("bytes_limit"):
            return int(statistics["bytes_limit"])
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):
            return 64 * 10**9


def _device_of(tree: Any) -> Any:
    for leaf in jax.tree_util.tree_leaves(tree):
        if isinstance(leaf, jax.Array) and getattr(leaf, "committed", False):
            return next(iter(leaf.devices()))
    default: Any = getattr(jax.config, "jax_default_device")
    return default if hasattr(default, "platform") else jax.devices(default)[0] if default else jax.devices()[0]


def passes_off(options: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """The options with XLA's fusion passes off. The list replaces that of XLA_FLAGS, so what stands there is repeated."""
    flags = re.findall(r"--xla_disable_hlo_passes=(\S+)", os.environ.get("XLA_FLAGS", ""))
    given = [options[_DISABLE]] if _DISABLE in options else flags[-1:]
    names = [name for text in given for name in str(text).split(",") if name]
    names += [name for name in _FUSION_PASSES.get(target.platform, ()) if name not in names]
    off = {_YNN: ""} if target.platform == "cpu" and _YNN not in options and _knows(_YNN, "", target.device) else {}
    return {**options, _DISABLE: ",".join(names), **off}


@functools.lru_cache(maxsize=None)
def _knows(name: str, value: str, device: Any) -> bool:
    """Whether this XLA has an option: versions differ, and refuse what they do not know."""
    try:
        jax.jit(lambda x: x).lower(jax.device_put(0.0, device)).compile({name: value})
    except Exception as error:
        if name not in str(error):
            raise
        return False
    return True
