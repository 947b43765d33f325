"""The devices that a plan runs on, by name: "cuda:0", "cuda:0/sm:64" (64 of a GPU's multiprocessors), "cpu:0-3" (a thread on these
cores); "cuda:0@1" is in the process of rank 1."""
from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import Any, Optional, Sequence

import torch

from ..._library import Error


@dataclass(frozen=True)
class Spec:
    """What a device's name says."""

    name: str
    gpu: Optional[int] = None
    sms: int = 0  #: of the GPU; 0: all
    cores: tuple[int, ...] = ()
    rank: Optional[int] = None  #: of the process that it is in; None: not said

    @property
    def torch(self) -> torch.device:
        return torch.device("cpu") if self.gpu is None else torch.device("cuda", self.gpu)


def parse(name: str) -> Spec:
    at = re.fullmatch(r"(.*)@(\d+)", name)
    place, rank = (at[1], int(at[2])) if at else (name, None)
    gpu = re.fullmatch(r"cuda(?::(\d+))?(?:/sm:(\d+))?", place)
    if gpu:
        if gpu[2] is not None and int(gpu[2]) == 0:
            raise Error(f"'{name}' has no multiprocessors; give it 8 or more")
        return Spec(name, gpu=int(gpu[1] or 0), sms=int(gpu[2] or 0), rank=rank)
    cpu = re.fullmatch(r"cpu:(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)", place)
    if cpu is None:
        raise Error(f"'{name}' is no device; write 'cuda:0', 'cuda:0/sm:64' (a share of a GPU) or 'cpu:0-3' (cores), and '@1' behind it for rank 1")
    cores: list[int] = []
    for part in cpu[1].split(","):
        first, _, last = part.partition("-")
        if last and int(last) < int(first):
            raise Error(f"'{name}' names no core: {first} is above {last}")
        cores += range(int(first), int(last or first) + 1)
    return Spec(name, cores=tuple(dict.fromkeys(cores)), rank=rank)


def parse_all(names: Sequence[str]) -> list[Spec]:
    """The devices of this process, all of them there."""
    specs = parse_ranks(names)
    for spec in specs:
        if spec.rank is not None:
            raise Error(f"'{spec.name}' names a rank, and only place and calibrate take devices of several ranks; name devices of this process")
    check_here(specs)
    return specs


def parse_measured(names: Sequence[str]) -> list[Spec]:
    """Devices of this machine: all of one process, or CPUs each of which is in a process of its own."""
    specs = parse_ranks(names)
    check_here(specs)
    ranks = {spec.rank for spec in specs}
    if len(ranks) > 1 and (len(ranks) < len(specs) or None in ranks):
        raise Error("devices of which some are in one process and some in others cannot be calibrated together; give each a rank of its own, or none")
    if len(ranks) > 1 and len({len(spec.cores) for spec in specs}) > 1:
        raise Error("devices of unequal size in processes of their own cannot be calibrated together yet; name as many cores for each")
    if len(ranks) > 1 and any(spec.gpu is not None for spec in specs):
        raise Error(f"'{specs[-1].name}' names a rank; GPUs of several processes cannot be calibrated yet")
    return specs


def are_processes(specs: Sequence[Spec]) -> bool:
    """Whether each device is in a process of its own."""
    return len({spec.rank for spec in specs}) > 1


def parse_ranks(names: Sequence[str]) -> list[Spec]:
    """The devices; :func:`check_here` looks whether they are there."""
    specs = [parse(name) for name in names]
    if not specs:
        raise Error("no device is given")
    return specs


def are_mixed(specs: Sequence[Spec]) -> bool:
    """CPUs and GPUs together."""
    return len({spec.gpu is None for spec in specs}) > 1


def check_here(specs: Sequence[Spec]) -> None:
    """Devices of this process are there and do not overlap."""
    _check_cores([spec for spec in specs if spec.gpu is None])
    _check_gpus([spec for spec in specs if spec.gpu is not None])


def _check_cores(specs: Sequence[Spec]) -> None:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    for spec in specs:
        absent = [core for core in spec.cores if core not in allowed]
        if absent:
            raise Error(f"'{spec.name}' names core {absent[0]}; this process may use {_ranges(sorted(allowed))}")


def _ranges(cores: list[int]) -> str:
    parts: list[list[int]] = []
    for core in cores:
        if parts and core == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], core]
        else:
            parts.append([core])
    return ",".join("-".join(map(str, part)) for part in parts)


def _check_gpus(specs: Sequence[Spec]) -> None:
    count = torch.cuda.device_count() if specs and torch.cuda.is_available() else 0
    for spec in specs:
        if spec.gpu >= count:  # type: ignore[operator]
            raise Error(f"'{spec.name}' is not there: PyTorch sees {count} CUDA devices")
    for gpu in {spec.gpu for spec in specs}:
        here = [spec for spec in specs if spec.gpu == gpu]
        total = torch.cuda.get_device_properties(gpu).multi_processor_count
        if len(here) > 1 and any(spec.sms == 0 for spec in here):
            raise Error(f"'{here[0].name}' and '{here[1].name}' overlap; give each a share, such as 'cuda:{gpu}/sm:{total // len(here) // 8 * 8}'")
        if sum(spec.sms for spec in here) > total:
            raise Error(f"{' + '.join(str(s.sms) for s in here)} multiprocessors are asked of GPU {gpu}, which has {total}")


# ---- shares of a GPU ----


def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError:
        raise Error("shares of a GPU need the package cuda-bindings (pip install cuda-bindings)") from None
    return driver


def _ask(result: tuple) -> Any:
    if int(result[0]) != 0:
        raise Error(f"the CUDA driver refused a share of the GPU: {result[0]}")
    return result[1] if len(result) == 2 else result[1:]


class Partition:
    """Streams on disjoint groups of one GPU's multiprocessors (green contexts). Kernels stay on their group, also when a CUDA
    graph that was captured on these streams is replayed."""

    def __init__(self, gpu: int, sms: Sequence[int], streams_each: int = 1) -> None:
        driver = _driver()
        torch.zeros(1, device=f"cuda:{gpu}")  # the driver is initialised
        device = _ask(driver.cuDeviceGet(gpu))
        whole = _ask(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
        self.contexts, self.sms = [], []
        self.streams: list[list[Any]] = []  # of each group, streams_each
        unit = math.gcd(*sms)  # groups of unequal size are made of equal parts: what one split leaves cannot be split again
        parts, count, _ = _ask(driver.cuDevSmResourceSplitByCount(sum(sms) // unit, whole, 0, unit))
        if count < sum(sms) // unit:
            raise Error(f"GPU {gpu} has no {sum(sms) // unit} times {unit} multiprocessors; ask for fewer, in steps of 8")
        for size in sms:
            own, parts = parts[: size // unit], parts[size // unit :]
            flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
            context = _ask(driver.cuGreenCtxCreate(_ask(driver.cuDevResourceGenerateDesc(own, len(own))), device, flags))
            self.contexts.append(context)
            self.sms.append(sum(part.sm.smCount for part in own))
            raw = [_ask(driver.cuGreenCtxStreamCreate(context, driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0)) for _ in range(streams_each)]
            self.streams.append([torch.cuda.ExternalStream(int(r), device=gpu) for r in raw])


_partitions: dict[Any, Partition] = {}  # the driver keeps contexts as long as the process lives; so do we, and use them again


def streams_of(specs: Sequence[Spec], each: int = 1) -> list[list[Any]]:
    """`each` streams for every device."""
    found: list[list[Any]] = [[] for _ in specs]
    for gpu in dict.fromkeys(spec.gpu for spec in specs):
        here = [k for k, spec in enumerate(specs) if spec.gpu == gpu]
        sms = tuple(specs[k].sms for k in here)
        if sms == (0,):
            found[here[0]] = [torch.cuda.Stream(gpu) for _ in range(each)]
            continue
        key = (gpu, sms, each)
        if key not in _partitions:
            _partitions[key] = Partition(gpu, sms, each)  # type: ignore[arg-type]
        for k, streams in zip(here, _partitions[key].streams):
            found[k] = streams
    return found

