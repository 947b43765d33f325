"""Times of single ops, each run by itself on tensors of the traced shapes: for traces of modules that no device was calibrated for."""
from __future__ import annotations

import operator
import re
import statistics
import time
import warnings
from typing import Any, Callable, Optional

import torch
from torch.utils._pytree import tree_flatten, tree_map

_GPUS = ("h200", "h100", "a100", "v100", "p100")
_ENOUGH_S = 0.02  # of runs per op
_FEWEST, _MOST = 5, 100  # runs


def device_kind(device: Optional[torch.device]) -> str:
    """A kind of device as machine files name it: "h200", "cpu8"; of other GPUs their name without blanks."""
    if device is None or device.type == "cpu":
        return f"cpu{torch.get_num_threads()}"
    name = torch.cuda.get_device_name(device).lower() if device.type == "cuda" else device.type
    known = next((gpu for gpu in _GPUS if gpu in name), None)
    return known or re.sub(r"[^a-z0-9]+", "-", name.replace("nvidia", "")).strip("-")


class Clock:
    """Measures each distinct op once; remembers which could not be run."""

    def __init__(self) -> None:
        self.device: Optional[torch.device] = None
        self._known: dict[Any, Optional[float]] = {}
        self._failed: dict[str, str] = {}

    def microseconds(self, n: Any) -> Optional[float]:
        """Median time of the call of an fx node, or None if it cannot be run by itself."""
        key = signature(n)
        if key not in self._known:
            try:
                self._known[key] = self._run(n)
            except Exception as error:
                self._known[key] = None
                self._failed.setdefault(str(n.target), str(error).split("\n")[0])
        return self._known[key]

    def _run(self, n: Any) -> float:
        if "rnn" in str(n.target):
            raise RuntimeError("its workspace is opaque, so it cannot be run on made-up tensors")
        run, device, random = made_up(n)
        self.device = device if self.device is None or device.type != "cpu" else self.device
        with torch.no_grad():
            return _time_cuda(run, capture=not random) if device.type == "cuda" else _time_host(run)

    def warn(self) -> None:
        if self._failed:
            name, reason = next(iter(self._failed.items()))
            warnings.warn(f"{len(self._failed)} operators could not be measured and are modelled, such as {name}: {reason}", stacklevel=4)


def made_up(n: Any, place: Optional[torch.device] = None) -> tuple[Callable[[], Any], torch.device, bool]:
    """The call of an fx node on made-up tensors, where it runs (where it was traced, unless `place` is given), and whether it draws
    random numbers."""
    rows, random = _index_bound(n), _random_state(n)
    args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), lambda m: random[m] if m in random else _real(m.meta["val"], rows))
    if place is not None:
        args, kwargs = tree_map(lambda v: v.to(place) if isinstance(v, torch.Tensor) else place if isinstance(v, torch.device) else v, (args, kwargs))
    tensor = next((t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)), None)
    made = n.meta.get("val")
    device = tensor.device if tensor is not None else getattr(made, "device", torch.device("cpu"))
    return lambda: n.target(*args, **kwargs), device, bool(random)


def signature(n: Any) -> Any:
    """Calls with equal ones take equal times."""
    return n.target, repr(torch.fx.node.map_arg((n.args, n.kwargs), _signature))


def _signature(m: Any) -> Any:
    return tuple(
        (tuple(v.shape), tuple(v.stride()), str(v.dtype), str(v.device)) if isinstance(v, torch.Tensor) else v
        for v in tree_flatten(m.meta.get("val"))[0]
    )


def _index_bound(n: Any) -> int:
    """Indices of an embedding are drawn over all of its rows; others are 0, which is valid everywhere."""
    name = getattr(getattr(n.target, "overloadpacket", None), "__name__", "")
    if name == "embedding":
        return int(n.args[0].meta["val"].shape[0])
    return int(n.args[2]) if name == "embedding_dense_backward" else 1


def _random_state(n: Any) -> dict[Any, Any]:
    """The seeds from which the backward pass of attention draws its dropout again, by fx node, as the forward pass left them. It reads
    them on the host, or within a CUDA graph on the GPU; made-up ones, on the wrong side, end the process."""
    schema = getattr(n.target, "_schema", None)
    names = [a.name for a in schema.arguments] if schema is not None else []
    given = {**dict(zip(names, n.args)), **n.kwargs}
    wanted = [given[name] for name in ("philox_seed", "philox_offset", "rng_state") if isinstance(given.get(name), torch.fx.Node)]
    if not wanted or not given.get("dropout_p"):
        return {}
    if any(m.target is not operator.getitem for m in wanted):
        raise RuntimeError("its seeds are not results of the forward pass")
    made = {}
    for forward in {m.args[0] for m in wanted}:
        args, kwargs = torch.fx.node.map_arg((forward.args, forward.kwargs), lambda m: _real(m.meta["val"], 1))
        with torch.no_grad():
            made[forward] = forward.target(*args, **kwargs)
    return {m: made[m.args[0]][m.args[1]] for m in wanted}


def _real(value: Any, rows: int) -> Any:
    """A tensor like the fake one, with numbers in it."""
    if isinstance(value, (list, tuple)):
        return type(value)(_real(v, rows) for v in value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.device.type == "meta":
        raise RuntimeError("the module is on the device meta, which computes nothing")
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    dense = made if 0 not in made.stride() else made.as_strided((max(made.untyped_storage().nbytes() // made.element_size(), 1),), (1,))
    if value.dtype.is_floating_point or value.dtype.is_complex:
        try:
            dense.normal_()
        except RuntimeError:  # 8-bit floats
            dense.view(torch.uint8).zero_()
    elif value.dtype == torch.bool:
        dense.fill_(True)
    else:
        dense.random_(0, max(rows, 1))
    return made


def _time_host(run: Callable[[], Any]) -> float:
    run()
    times: list[float] = []
    while len(times) < _FEWEST or (sum(times) < _ENOUGH_S and len(times) < _MOST):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(times)


def _time_cuda(run: Callable[[], Any], capture: bool) -> float:
    """In a replayed CUDA graph, so that the time of the launch from the host does not count; else one call after another."""
    repeats = 10
    for _ in range(3):
        run()
    torch.cuda.synchronize()

    def again() -> None:
        for _ in range(repeats):
            run()

    if capture:
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                again()
            again = graph.replay
        except RuntimeError:
            torch.cuda.synchronize()

    times = []
    for _ in range(_FEWEST):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        again()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / repeats)
    return statistics.median(times)
