"""Runs a model that was cut by a plan: a session of ONNX Runtime per part, a thread per device, tensors handed over between them.

A thread runs the parts of its device one after the other, each as soon as all that it reads is there. Sessions of "cpu:CORES" have as
many threads as cores and stay on them. Tensors go from thread to thread as numpy arrays, so what a GPU made passes through the host.
"""
from __future__ import annotations

import contextlib
import os
import queue
import re
import threading
import time
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

from ._library import Error
from ._onnx_split import Part, Split

if TYPE_CHECKING:
    import numpy


def parse_device(name: str) -> tuple[str, list[int]]:
    """("cpu", cores) or ("cuda", [number])."""
    cuda = re.fullmatch(r"cuda:(\d+)", name)
    if cuda:
        return "cuda", [int(cuda[1])]
    if name == "cpu":
        return "cpu", []
    cpu = re.fullmatch(r"cpu:(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)", name)
    if not cpu:
        raise Error(f"'{name}' is no device of ONNX Runtime here; write 'cpu', 'cpu:0-3' (cores) or 'cuda:0'")
    ends = [piece.partition("-") for piece in cpu[1].split(",")]
    cores = [core for first, _, last in ends for core in range(int(first), int(last or first) + 1)]
    there = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    missing = sorted(set(cores) - set(there))
    if missing:
        raise Error(f"'{name}': core {missing[0]} is not there, or not for this process; it may use {sorted(there)}")
    return "cpu", cores


def _session(runtime: Any, part: Part, sort: str, places: list[int], optimize: bool, profile: Optional[str]) -> Any:
    options = runtime.SessionOptions()
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not optimize:  # nodes as planned, in planned order
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_order = runtime.ExecutionOrder.PRIORITY_BASED
    if sort == "cpu" and places:
        options.intra_op_num_threads = len(places)
        if len(places) > 1:  # the calling thread is the first; processors count from 1 there
            options.add_session_config_entry("session.intra_op_thread_affinities", ";".join(str(core + 1) for core in places[1:]))
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    providers: list[Any] = ["CPUExecutionProvider"]
    if sort == "cuda":
        if "CUDAExecutionProvider" not in runtime.get_available_providers():
            raise Error("this onnxruntime has no CUDA provider; install onnxruntime-gpu, or name 'cpu' devices")
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": places[0]}))
    return runtime.InferenceSession(part.model.SerializeToString(), options, providers=providers)


class _Step:
    """The tensors of one step: each a promise until it is there."""

    def __init__(self, names: Sequence[str]) -> None:
        self.tensor: dict[str, Future] = {name: Future() for name in names}

    def fail(self, error: BaseException) -> None:
        for promise in self.tensor.values():
            with contextlib.suppress(InvalidStateError):  # it is there, or another thread has just kept or broken it
                promise.set_exception(error)


class Runner:
    """Runs a :class:`Split`; close it, or use it in a ``with``.

    ``devices`` names a place for each device of the plan's machine: "cpu:0" (a session with one thread on that core), "cpu:0-3",
    "cpu" (wherever), "cuda:0". Without ``optimize`` ONNX Runtime leaves nodes as the plan has them. One step runs at a time.
    """

    def __init__(self, split: Split, devices: Sequence[str], *, optimize: bool = False, profile: Optional[str] = None) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError(f"stowage.onnx.Runner needs the package onnxruntime (pip install onnxruntime): {error}") from None
        count = len(split.plan.machine.devices)
        if len(devices) != count:
            raise Error(f"{len(devices)} devices are named; the plan's machine has {count}")
        self.split = split
        self._places = [parse_device(name) for name in devices]
        self._sessions = [_session(onnxruntime, part, *self._places[part.device], optimize, profile) for part in split.parts]
        self._lock = threading.Lock()
        self._queue: dict[int, queue.SimpleQueue] = {}
        self._threads = []
        for device in sorted({part.device for part in split.parts}):
            self._queue[device] = queue.SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(device,), name=f"stowage-{devices[device]}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def __call__(self, feeds: Mapping[str, Any]) -> dict[str, numpy.ndarray]:
        """One step: arrays by the names of the model's inputs; the model's outputs by name."""
        missing = [name for name in self.split.inputs if name not in feeds]
        if missing:
            raise Error(f"the input '{missing[0]}' is not given; the model needs {', '.join(self.split.inputs)}")
        if not self._threads:
            raise Error("the runner is closed")
        with self._lock:
            step = _Step([name for part in self.split.parts for name in part.outputs])
            for work in self._queue.values():
                work.put((step, feeds))
            try:
                return {name: step.tensor[name].result() for name in self.split.outputs}
            finally:
                for work in self._queue.values():  # nobody is still at it when the next step begins
                    done: Future = Future()
                    work.put(done)
                    done.result()

    def seconds(self, feeds: Mapping[str, Any], runs: int = 10) -> list[float]:
        """How long each of several steps took, after one that does not count."""
        self(feeds)
        took = []
        for _ in range(runs):
            began = time.perf_counter()
            self(feeds)
            took.append(time.perf_counter() - began)
        return took

    def end_profiling(self) -> list[str]:
        """The profiles of the parts, where they were asked for: files that ``costs=`` takes."""
        return [session.end_profiling() for session in self._sessions]

    def close(self) -> None:
        for work in self._queue.values():
            work.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- the thread of a device ----

    def _serve(self, device: int) -> None:
        sort, places = self._places[device]
        if sort == "cpu" and places and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, places[:1] if len(places) == 1 else places)  # of this thread alone
        mine = [(part, session) for part, session in zip(self.split.parts, self._sessions) if part.device == device]
        while (work := self._queue[device].get()) is not None:
            if isinstance(work, Future):
                work.set_result(None)
                continue
            step, feeds = work
            try:
                for part, session in mine:
                    given = {name: step.tensor[name].result() if name in step.tensor else feeds[name] for name in part.inputs}
                    for name, value in zip(part.outputs, session.run(part.outputs, given)):
                        step.tensor[name].set_result(value)
            except BaseException as error:  # noqa: B902: whoever waits must hear of it
                step.fail(error)
