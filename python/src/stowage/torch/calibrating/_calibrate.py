"""Measures devices: a machine file for them, and what the ops of a module take there, alone and in company.

Small benchmarks, and the whole step on one device and on all at once; no plan that shares a step among devices is run, so what is
predicted of those is not fitted on them.
"""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Union

import torch

from ..._library import Error
from ..._machine import Machine
from ..predicting._predict import Calibration, Links, Times
from ..running._devices import Spec, are_mixed, are_processes, parse_measured
from ..tracing._trace import Nodes, Step
from . import _cross_bench, _cuda_bench, _cuda_cache, _cuda_times, _host_bench, _process_bench

Progress = Optional[Callable[[str], None]]


def calibrate(devices: Sequence[str], module: Optional[torch.nn.Module] = None, *args: Any, train: bool = True,
              loss: Optional[Callable[..., Any]] = None, copies: bool = False, name: Optional[str] = None,
              machine: Union[Calibration, dict[str, Any], None] = None, progress: Progress = None, **kwargs: Any) -> Calibration:  # fmt: skip
    """Measures the devices (named as for :func:`place`) and, if a module is given, each op of its step on them.

        found = stowage.torch.calibrate(["cuda:0/sm:64", "cuda:0/sm:64"], module, x)
        result = stowage.optimize(found.graph, found.machine, tasks="placement,schedule")
        found.predict(result.plan)

    Devices may be of several sizes and sorts. CPU devices of several ranks, one in each (``["cpu:0@0", "cpu:1@1"]``), are measured in
    processes that this function starts; call it in one process, and give the plan to all. ``copies`` as for :func:`place`. ``machine`` is
    one that was measured before, of the same devices, or the calibration that has it: then only the ops are timed. ``progress`` is called
    with a line for every part of the work.
    """
    specs = parse_measured([str(d) for d in devices])
    say = progress or (lambda line: None)
    by_size: dict[tuple[int, int], tuple[float, float]] = {}
    if isinstance(machine, Calibration):
        machine, by_size = machine.machine, machine.by_size
    elif machine is None:
        say(f"measuring {', '.join(spec.name for spec in specs)}")
        machine, by_size = _machine(specs, copies, name or "+".join(spec.name for spec in specs))
    if len(Machine(machine)) != len(specs):  # what cannot be a machine file is said here
        raise Error(f"the machine has {len(machine['devices'])} devices, and {len(specs)} are given")
    found = Calibration(machine, [spec.name for spec in specs], {}, {}, copies=copies, by_size=by_size)
    if module is not None:
        step = Step(module, args, kwargs, train, loss, are_mixed(specs))
        nodes = Nodes(step)
        found.file = nodes.opgraph(type(module).__name__)
        say(f"timing {len(nodes.fx)} ops of {type(module).__name__}")
        kinds = [device["kind"] for device in machine["devices"]]
        found.alone, found.company = _times(nodes, specs, kinds)
        if all(spec.gpu is not None for spec in specs) and len({spec.gpu for spec in specs}) == 1:
            found.caches = _cuda_cache.caches(specs, kinds)
    return found


def _sorts(specs: Sequence[Spec], of_cpus: Any, of_gpus: Any) -> list[tuple[Any, list[int]]]:
    """What belongs to each sort of device, and the devices."""
    cpus, gpus = ([d for d, spec in enumerate(specs) if (spec.gpu is None) == is_cpu] for is_cpu in (True, False))
    return [(own, here) for own, here in ((of_cpus, cpus), (of_gpus, gpus)) if here]


def _cpu_bench(specs: Sequence[Spec]) -> Any:
    return _process_bench if are_processes(specs) else _host_bench


def _machine(specs: Sequence[Spec], copies: bool, name: str) -> tuple[dict[str, Any], dict[tuple[int, int], tuple[float, float]]]:
    """The machine file of these devices, and what their links charge by size."""
    devices: list[dict[str, Any]] = [{}] * len(specs)
    links: Links = {}
    for bench, here in _sorts(specs, _cpu_bench(specs), _cuda_bench):
        own = [specs[d] for d in here]
        for d, measured in zip(here, bench.devices(own)):
            devices[d] = {"name": f"{d}:{specs[d].name}", **measured}
        links.update({(here[a], here[b]): link for (a, b), link in bench.links(own, copies).items()})
    if are_mixed(specs):
        links.update(_cross_bench.links(specs))
    rows = [{"from": devices[a]["name"], "to": devices[b]["name"], **links[a, b][0]} for a, b in sorted(links)]
    by_size = {pair: more for pair, (_, more) in sorted(links.items()) if any(more)}
    return {"format": "machine", "version": 1, "name": name, "contention": "queue", "devices": devices, "links": rows}, by_size


def _times(nodes: Nodes, specs: Sequence[Spec], kinds: Sequence[str]) -> tuple[Times, Times]:
    """Alone and in company."""
    if not are_mixed(specs):
        bench = _cpu_bench(specs) if specs[0].gpu is None else _cuda_times
        return bench.times(nodes, specs, kinds)
    alone, company = _cross_bench.times(nodes, specs, kinds)
    gpus = [d for d, spec in enumerate(specs) if spec.gpu is not None]
    for times, found in zip((alone, company), _cuda_times.times(nodes, [specs[d] for d in gpus], [kinds[d] for d in gpus])):
        for kind, kernels in found.items():  # an op takes its kernels' time, or that of its thread where this is longer
            times[kind] = {k: max(us, kernels[k]) for k, us in times[kind].items()}
    for kind, whole in _cross_bench.whole_steps(nodes, specs, kinds).items():
        between = max(whole - sum(alone[kind].values()), 0.0) / len(alone[kind])  # issuing takes longer where nobody waits for each op
        for times in (alone, company):
            times[kind] = {k: us + between for k, us in times[kind].items()}
    return alone, company
