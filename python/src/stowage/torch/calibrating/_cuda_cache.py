"""What the cache of a GPU does for one of its devices: a kernel that reads the same again, with more and more touched in between."""
from __future__ import annotations

import functools
import statistics
from typing import Any, Optional, Sequence

import torch
from torch.profiler import ProfilerActivity, profile

from ..predicting._traffic import Cache
from ..running._devices import Spec, streams_of
from ..running._recorded import events_of
from ._cuda_bench import captured

_READ = 4 << 20  # bytes: what is read again
_ROWS, _REPLAYS = 8, 3
_LEAST_GAIN = 0.02  # of the kernel's time; what is less is noise


def caches(specs: Sequence[Spec], kinds: Sequence[str]) -> dict[str, Cache]:
    """By kind; without those that the profiler does not tell of, or that gain nothing."""
    streams = streams_of(specs, 2)
    found = {kind: _cache(specs[d], streams[d][0]) for kind, d in {kind: list(kinds).index(kind) for kind in kinds}.items()}
    return {kind: cache for kind, cache in found.items() if cache is not None}


@functools.lru_cache(maxsize=16)
def _cache(spec: Spec, stream: Any) -> Optional[Cache]:
    """With up to twice the cache's size touched in between."""
    size = getattr(torch.cuda.get_device_properties(spec.gpu), "L2_cache_size", 0)
    if size <= 0:
        return None
    touched = [k * size // 8 for k in (0, 2, 3, 4, 5, 6, 7, 8, 10, 16)]
    area = torch.empty(touched[-1], dtype=torch.uint8, device=spec.torch)
    value = torch.zeros(_READ // 4, device=spec.torch)
    sink = torch.empty_like(value)
    times = [_read_us(stream, value, sink, area[:amount]) for amount in touched]
    if None in times:
        return None
    return curve([amount + 2 * _READ for amount in touched], times)  # type: ignore[arg-type]


def _read_us(stream: Any, value: torch.Tensor, sink: torch.Tensor, area: torch.Tensor) -> Optional[float]:
    """Of the kernel that reads the value, with the area touched since it was read before."""
    half = area.numel() // 2

    def row() -> None:
        for _ in range(_ROWS):
            if half > 0:
                area[half : 2 * half].copy_(area[:half])
            torch.neg(value, out=sink)

    graph = captured([stream], [row])
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(_REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
    found = [e["dur"] for e in events_of(recorded) if e.get("cat") == "kernel" and "neg" in e["name"]]
    return statistics.median(found) if found else None


def curve(touched: Sequence[float], times: Sequence[float]) -> Optional[Cache]:
    """From what a read takes with so many bytes touched since the one before; the first and the last amount are all and nothing."""
    hot, cold = min(times[:2]), statistics.mean(times[-2:])
    if cold < (1 + _LEAST_GAIN) * hot:
        return None
    found = []
    for us in times:  # more that was touched leaves no more
        share = min(max((cold - us) / (cold - hot), 0.0), 1.0)
        found.append(min(share, found[-1]) if found else 1.0)
    found[-1] = 0.0
    return Cache(tuple(map(float, touched)), tuple(found), (cold - hot) / _READ)
