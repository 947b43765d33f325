"""Small benchmarks of CPU devices that are in processes of their own, as ranks of one host are: they have no interpreter lock in common
and hand values over through shared memory (_shared.py).

Processes of this file's own are started for it, one for each device, pinned to its cores. They know nothing of the module: the step goes
to them as the text of a straight function, the names of its ops and its tensors. What they answer is JSON.
"""
from __future__ import annotations

import io
import json
import os
import pickle
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import types
from typing import Any, BinaryIO, Callable, Sequence

import torch

from ..._library import Error
from ..predicting._predict import Link, Links, Times
from ..running._devices import Spec
from ..running._messages import Message
from ..running._shared import Shared, lacks, memory_bytes
from ..running._workers import written_step
from ..tracing._trace import Nodes
from . import _host_bench

_SIZES = (4, 1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24)  # bytes of messages that are timed
_LARGE = 1 << 20  # bytes, of a message whose charges are compared with those of the smallest
_FEWEST, _MOST, _ENOUGH_S = 20, 400, 0.1  # rounds of messages of one size, and what they take
_WARM, _REPEATS = 4, 40  # steps


# ---- the processes ----


class _Process:
    """One that is pinned to a device's cores and does what it is told."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        paths = [path for path in sys.path if path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": str(len(spec.cores))}
        command = [sys.executable, "-c", "from stowage.torch.calibrating._process_bench import serve; serve()", json.dumps(spec.cores)]
        self._errors = tempfile.TemporaryFile()
        self._running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment)

    def ask(self, do: str, **given: Any) -> None:
        """Tells it to do something; :meth:`answer` waits for the result. Who asks several processes first makes them work at once."""
        payload = _pickled((do, given))
        try:
            self._running.stdin.write(struct.pack("<q", len(payload)) + payload)  # type: ignore[union-attr]
            self._running.stdin.flush()  # type: ignore[union-attr]
        except OSError:
            pass  # answer() says it

    def answer(self) -> Any:
        line = self._running.stdout.readline()  # type: ignore[union-attr]
        if not line:
            status = self._running.wait()
            self._errors.seek(0)
            said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            raise Error(f"the process that measures {self.spec.name} has ended with status {status}{f': {said[-1]}' if said else ''}")
        result, error = json.loads(line)
        if error:
            raise Error(f"measuring {self.spec.name} in a process of its own failed: {error}")
        return result

    def close(self) -> None:
        self._running.kill()
        self._running.wait()
        for pipe in (self._running.stdin, self._running.stdout, self._errors):
            try:
                pipe.close()  # type: ignore[union-attr]
            except OSError:  # what was not written yet
                pass


class _Processes:
    def __init__(self, specs: Sequence[Spec]) -> None:
        if lacks():
            raise Error(f"devices in processes of their own cannot be calibrated here: {lacks()}")
        self._all = [_Process(spec) for spec in specs]

    def __enter__(self) -> list[_Process]:
        return self._all

    def __exit__(self, *_: Any) -> None:
        for process in self._all:
            process.close()


def together(processes: Sequence[_Process], do: str, given: Sequence[dict[str, Any]] = ()) -> list[Any]:
    for k, process in enumerate(processes):
        process.ask(do, **(given[k] if given else {}))
    return [process.answer() for process in processes]


class _Pickler(pickle.Pickler):
    """Ops go by their names, and fx nodes, which only name results, likewise."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch._ops.OpOverload):
            return _op, (value.namespace, value._opname, value._overloadname)
        if isinstance(value, torch.fx.Node):
            return str, (value.name,)
        return NotImplemented


def _op(namespace: str, name: str, overload: str) -> Any:
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, protocol=4).dump(value)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise Error(f"the step cannot be sent to another process: {str(error).splitlines()[0]}") from error
    return file.getvalue()


# ---- what is measured ----


def devices(specs: Sequence[Spec]) -> list[dict[str, Any]]:
    """What a machine file says of each."""
    measured = {}
    for size, spec in {len(spec.cores): spec for spec in specs}.items():
        with _Processes([spec]) as processes:
            measured[size] = together(processes, "device")[0]
    memory = memory_bytes() // len(specs)
    return [{"kind": f"cpu{len(spec.cores)}", "memory_bytes": memory, **measured[len(spec.cores)]} for spec in specs]


def links(specs: Sequence[Spec], copies: bool) -> Links:
    """What it says of the link from one to another, measured between the first two. Values are always copied from process to process."""
    with _Processes(specs[:2]) as processes:
        link = _link(processes)
    return {(a, b): link for a in range(len(specs)) for b in range(len(specs)) if a != b}


def _link(processes: Sequence[_Process]) -> Link:
    """Two ranks send values to and fro. Of the time that the smallest takes, the sender and a receiver that need not wait have their
    parts, and the rest is latency. Larger ones take more from both, by size, which is told apart, and what is left of their time is the
    link's."""
    announced = together(processes, "announce", [{"rank": rank} for rank in range(2)])
    opened = together(processes, "open", [{"announced": announced}] * 2)
    if not all(together(processes, "keep", [{"opened": opened}] * 2)):
        raise Error("two processes of this machine could not share memory")
    least, send, receive = _charges(processes, _SIZES[0])
    _, *large = _charges(processes, _LARGE)
    more = [max(us - small, 0.0) / _LARGE for us, small in zip(large, (send, receive))]  # us per byte
    points, longest = [], 0.0
    for size in _SIZES[1:]:
        longest = max(_hop(processes, size) - least - size * sum(more), longest * 1.001, 1e-3)  # us; more bytes do not take less
        points.append([size, float(f"{size / (1e-6 * longest):.4g}")])
    return {"bandwidth_bytes_per_s": points, "latency_us": round(max(least - send - receive, 0.0), 3), "send_us": round(send, 3),
            "receive_us": round(receive, 3)}, (more[0], more[1])  # fmt: skip


def _charges(processes: Sequence[_Process], size: int) -> tuple[float, float, float]:
    """Microseconds from one rank to the other, and what of it the sender and the receiver take."""
    hop = _hop(processes, size)  # which also leaves the message that is taken
    processes[0].ask("charges", size=size)
    send, receive = processes[0].answer()
    return hop, send, receive


def _hop(processes: Sequence[_Process], size: int) -> float:
    """Microseconds from one rank to the other."""
    few = together(processes, "hops", [{"size": size, "rounds": _FEWEST}] * 2)[0]
    rounds = int(min(max(_ENOUGH_S / (2e-6 * few), _FEWEST), _MOST))
    return together(processes, "hops", [{"size": size, "rounds": rounds}] * 2)[0]


def times(nodes: Nodes, specs: Sequence[Spec], kinds: Sequence[str]) -> tuple[Times, Times]:
    """Microseconds of each op in place, by kind: in a step on one device, and in the same step on all of them at once, each in a process of
    its own with data of its own."""
    with _Processes(specs) as processes:
        for process in processes:
            text, names, ops = written_step(nodes, process.spec)
            process.ask("load", text=text, names=names)
        for process in processes:
            process.answer()
        alone: Times = {}
        for kind in dict.fromkeys(kinds):
            alone |= _in_place([processes[list(kinds).index(kind)]], [kind], ops)
        company = _in_place(processes, kinds, ops)
    return alone, {kind: {k: max(us, alone[kind][k]) for k, us in each.items()} for kind, each in company.items()}


def _in_place(processes: Sequence[_Process], kinds: Sequence[str], ops: Sequence[int]) -> Times:
    found: list[list[tuple[float, list[float]]]] = [[] for _ in processes]
    for k in range(_WARM + _REPEATS):
        for own, (whole, seconds) in zip(found, together(processes, "step")):
            if k >= _WARM:
                own.append((whole, seconds))
    return _host_bench.means_of_quickest(ops, kinds, found)


# ---- in such a process ----


class _Server:
    """What a process can be told to do, by name."""

    def device(self) -> dict[str, Any]:
        return _host_bench.rates()

    def load(self, text: str, names: dict[str, Any]) -> None:
        names["now"] = time.perf_counter
        exec(compile(text, "<the step>", "exec"), names)  # which our parent has written
        self._run: Callable[[], Any] = names["run"]

    def step(self) -> tuple[float, list[float]]:
        """Seconds of the whole, and of each op."""
        begin = time.perf_counter()
        seconds = self._run()[1]
        return time.perf_counter() - begin, seconds

    def announce(self, rank: int) -> str:
        self._messages = [_message(2 * k + source, source, size) for k, size in enumerate(_SIZES) for source in range(2)]
        self._shared = Shared(rank, [0, 1], self._messages, lambda: "", lambda: 60.0)
        return self._shared.announcement().hex()

    def open(self, announced: Sequence[str]) -> str:
        return self._shared.open([bytes.fromhex(said) for said in announced]).hex()

    def keep(self, opened: Sequence[str]) -> bool:
        return self._shared.keep([bytes.fromhex(said) for said in opened])

    def hops(self, size: int, rounds: int) -> float:
        """What a value takes to go over, in the median of so many rounds; only what the first rank says counts."""
        shared, first = self._shared, self._shared.rank == 0
        there, back = (m for m in self._messages if m.bytes == size)
        value, found = torch.zeros(size, dtype=torch.uint8), []
        move = (shared.sender(there), shared.taker(back)) if first else (shared.taker(there), shared.sender(back))
        for _ in range(rounds):
            shared.begin()
            begin = time.perf_counter()
            if first:
                move[0](value)
                move[1]()
            else:
                move[1](move[0]())
            found.append(1e6 * (time.perf_counter() - begin) / 2)
        return statistics.median(found)

    def charges(self, size: int) -> tuple[float, float]:
        """Microseconds that a message takes from its sender, and from a receiver that need not wait: it has just come."""
        there, back = (m for m in self._messages if m.bytes == size)
        send, take = self._shared.sender(there), self._shared.taker(back)
        value, repeats = torch.zeros(size, dtype=torch.uint8), 500 if size == _SIZES[0] else 50
        return _host_bench.median_us(lambda: send(value), repeats), _host_bench.median_us(take, repeats)


def _message(tag: int, source: int, size: int) -> Message:
    node = types.SimpleNamespace(name=f"m{tag}", meta={"val": torch.empty(size, dtype=torch.uint8, device="meta")})
    return Message(tag, node, source, 1 - source, None, (), False, False, (0,))


def _asked(file: BinaryIO) -> Any:
    length = file.read(8)
    return pickle.loads(file.read(struct.unpack("<q", length)[0])) if length else None  # from our parent, through a pipe


def serve() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed
    cores = json.loads(sys.argv[1])
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(len(cores))
    server = _Server()
    with torch.no_grad():
        while (asked := _asked(sys.stdin.buffer)) is not None:
            try:
                said = [getattr(server, asked[0])(**asked[1]), ""]
            except Exception as error:
                said = [None, str(error).split("\n")[0] or type(error).__name__]
            answers.write(json.dumps(said).encode() + b"\n")
            answers.flush()
