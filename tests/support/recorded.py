"""A GPU's profiler, graphs and kernels for tests, in place of CUDA's and PyTorch's: every op launches kernels whose names many ops share, a
captured step is replayed without computing anything, and the profiler tells of each kernel what a real one does. Who launched it is
known here, to compare with."""
import contextlib
import itertools
from unittest import mock

import torch

from clocked import is_alias
from stowage.torch.running import _kernels, _streams
from stowage.torch.running._program import Task

KERNELS = {"mm": ("gemm", "memset"), "addmm": ("gemm",), "bmm": ("gemm", "split"), "sum": ("memset", "reduce"), "mean": ("reduce",), "empty": ()}
FIRST_CONTEXT = 5  # of the devices; each has two streams


def kernels_of(function):
    name = str(function).split(".")[1].rstrip("_")
    writes = any(a.alias_info is not None and a.alias_info.is_write for a in function._schema.arguments)
    return () if name.startswith("empty") or (is_alias(function) and not writes) else KERNELS.get(name, ("elementwise",))


class Gpu:
    """What is launched, captured and recorded. ``lose`` says of (replay, place in it) whether the profiler loses a kernel, ``slow`` how
    many times as long a replay takes, ``seen_as`` as which context and stream the profiler shows a device's stream in a replay."""

    def __init__(self, world):
        self.world, self.device_of = world, {}
        self.recorded = None  # events
        self.nodes = None  # while capturing
        self.replays = 0
        self.truth = []  # of each replay: what (see what_of) -> (begin, end, number of kernels)
        self.now, self.what = 0.0, None
        self.free = {}  # stream -> when it is through
        self.correlations = itertools.count(1000)
        self.lose, self.slow, self.seen_as = lambda replay, place: False, lambda replay: 1.0, lambda context, stream: (context, stream)

    def launch(self, function):
        stream = self.world.current().index
        for name in kernels_of(function):
            node = (name, stream, self.what)
            if self.nodes is not None:
                self.nodes.append(node)
            elif self.recorded is not None:
                self.now += 2.0
                correlation = next(self.correlations)
                self.recorded.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": self.now, "dur": 1.0,
                                      "args": {"correlation": correlation}})  # fmt: skip
                self.add(node, correlation, self.now, 3.0, context_of(stream), stream)

    def add(self, node, correlation, earliest, length, context, stream):
        """One kernel behind the others of its stream, and when it ran."""
        name = node[0]
        begin = max(self.free.get(node[1], 0.0), earliest) + 0.5
        self.free[node[1]] = begin + length
        self.recorded.append({"ph": "X", "cat": "gpu_memset" if name == "memset" else "kernel", "name": name, "ts": begin, "dur": length,
                              "args": {"correlation": correlation, "context": context, "stream": stream}})  # fmt: skip
        return begin, begin + length

    def replay(self, nodes):
        if self.recorded is None:
            return
        correlation, begin, truth = next(self.correlations), max([self.now, *self.free.values()]), {}
        for place, node in enumerate(nodes):
            length = self.slow(self.replays) * (1.0 + place % 7)
            before = len(self.recorded)
            ran = self.add(node, correlation, begin, length, *self.seen_as(context_of(node[1]), node[1]))
            first, _, count = truth.get(node[2], (ran[0], 0.0, 0))
            truth[node[2]] = first, ran[1], count + 1
            if self.lose(self.replays, place):
                del self.recorded[before:]
        self.truth.append(truth)
        self.replays += 1


def what_of(nodes, one):
    """A task or a transfer, as (its node's name, its device, whether it is copied there)."""
    name = nodes.nodes[nodes.id[one.node]]["name"]
    return (name, one.device, False) if isinstance(one, Task) else (name, one.target, True)


def context_of(stream):
    return FIRST_CONTEXT + (stream - 2) // 2  # behind the caller and its thread


@contextlib.contextmanager
def recorded_gpu(world):
    """Within, and within `clocked_streams`, steps are captured, and traced by the profiler that is here."""
    gpu = Gpu(world)
    run, issue_task, copy = world.run, _streams.Streams._issue_task, _streams.Streams._copy

    def launching(function, args, kwargs):
        out = run(function, args, kwargs)
        if not world.current().is_thread and world.current() is not world.caller and gpu.what is not None:
            gpu.launch(function)
        return out

    def noting(method):
        def noted(streams, first, *more):
            before, gpu.what = gpu.what, what_of(streams.program.nodes, first)
            try:
                return method(streams, first, *more)
            finally:
                gpu.what = before

        return noted

    class Graph:
        def __init__(self):
            self.nodes = []

        def replay(self):
            gpu.replay(self.nodes)

    @contextlib.contextmanager
    def capture(graph, stream):
        gpu.nodes = graph.nodes
        with world.use(stream):
            yield
        gpu.nodes = None

    class Profile:
        def __init__(self, activities):
            self.events = []

        def __enter__(self):
            gpu.recorded = self.events
            return self

        def __exit__(self, *_):
            gpu.recorded = None

    @contextlib.contextmanager
    def record_function(name):
        gpu.now += 1.0
        begin = gpu.now
        yield
        gpu.now += 1.0
        gpu.recorded.append({"ph": "X", "cat": "user_annotation", "name": name, "ts": begin, "dur": gpu.now - begin})

    patches = [
        mock.patch.object(world, "run", launching), mock.patch.object(_streams.Streams, "_issue_task", noting(issue_task)),
        mock.patch.object(_streams.Streams, "_copy", noting(copy)), mock.patch.object(torch.cuda, "CUDAGraph", Graph),
        mock.patch.object(torch.cuda, "graph", capture),
        mock.patch.multiple(_kernels, profile=Profile, record_function=record_function, events_of=lambda profile: profile.events),
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield gpu
