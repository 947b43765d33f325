"""Streams, events and locks of the CPU's memory that keep count of what happens before what, in place of CUDA's: work that reads what
somebody else has written, and was not told to wait for that, is noticed, whatever the order in which it happened to run.

Streams and threads have a clock: up to which work of each of them everything has happened before their next. What a thread puts on
a stream comes behind all that the thread knows of. The main thread, which calls a step, works on its GPU's current stream. Memory is
that of the stream that made it: once nobody has it any more, that stream may use it again, and so must know that all have read it.
"""
import collections
import contextlib
import queue
import threading
import types
from unittest import mock

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from stowage.torch.running import _devices, _lanes, _place, _streams, _workers, _writer

_MOST = 32  # streams and threads of one test


class Clocked:
    """A stream, or a thread, that knows what has happened before its next work."""

    def __init__(self, world, is_thread=False):
        self.world, self.is_thread = world, is_thread
        self.index = len(world.made)
        self.clock = [0] * _MOST
        world.made.append(self)

    def learn(self, clock):
        self.clock = list(map(max, self.clock, clock))

    def wait_event(self, event):
        if event.clock is not None:  # CUDA waits for no event that was not recorded
            self.learn(event.clock)

    def synchronize(self):
        self.world.thread().learn(self.clock)


class Event:
    world = None

    def __init__(self, **_):
        self.clock = None

    def record(self, stream):
        self.clock = list(self.world.launching(stream))

    def synchronize(self):
        if self.clock is not None:
            self.world.thread().learn(self.clock)


class Lock:
    """One of threading that tells who acquires it what its releaser knows."""

    world = None

    def __init__(self):
        self._lock, self._clocks = threading.Lock(), collections.deque()

    def acquire(self, blocking=True):
        taken = self._lock.acquire(blocking)
        if taken and self._clocks:
            self.world.thread().learn(self._clocks.popleft())
        return taken

    def release(self):
        self._clocks.append(list(self.world.thread().clock))
        try:
            self._lock.release()
        except RuntimeError:
            self._clocks.pop()
            raise


class Queue:
    world = None

    def __init__(self):
        self._queue = queue.SimpleQueue()

    def put(self, value):
        self._queue.put((value, list(self.world.thread().clock)))

    def get(self, timeout=None):
        value, clock = self._queue.get(timeout=timeout)
        self.world.thread().learn(clock)
        return value


class World:
    """Everything that has a clock, and who has written and read each memory."""

    def __init__(self):
        self.made, self.guard = [], threading.RLock()
        self._mine = threading.local()
        self.caller = Clocked(self)  # the current stream of the GPU, on which the main thread works
        self._mine.thread, self._mine.stack = Clocked(self, is_thread=True), [self.caller]
        self.writer, self.readers = {}, {}  # of each storage: the stream and its count then; of readers, all streams
        self.memory = {}  # storage -> the stream it belongs to, and a weak reference, by which no address is used twice
        self.shared = collections.defaultdict(set)  # stream -> its storages that other streams read

    def thread(self):
        """The clock of the thread at hand."""
        if not hasattr(self._mine, "thread"):
            with self.guard:
                self._mine.thread = Clocked(self, is_thread=True)
            self._mine.stack = [self._mine.thread]
        return self._mine.thread

    def current(self, *_):
        self.thread()
        return self._mine.stack[-1]

    @contextlib.contextmanager
    def use(self, stream):
        self.thread()
        self._mine.stack.append(stream)
        try:
            yield
        finally:
            self._mine.stack.pop()

    def launching(self, stream):
        """The clock of a stream that the thread at hand gives work. What the main thread did is over for threads that compute by themselves:
        it is they whom it waits for."""
        if stream is not self.thread():
            stream.learn(self.thread().clock)
        elif stream is not self.caller:
            stream.clock[self.caller.index] = max(stream.clock[self.caller.index], self.caller.clock[self.caller.index])
        return stream.clock

    def synchronize(self, *_):
        for one in list(self.made):
            if not one.is_thread:
                self.thread().learn(one.clock)

    # ---- memory ----

    def run(self, function, args, kwargs):
        stream = self.current()
        self.launching(stream)
        self.check_reuse(stream)
        for tensor in tensors((args, kwargs)):
            self.must_follow(stream, function, [self.writer.get(address(tensor), (stream.index, 0))])
        for tensor in overwritten(function, args):  # not before others have read it
            self.must_follow(stream, function, self.readers.get(address(tensor), {}).items())
        out = function(*args, **kwargs)
        stream.clock[stream.index] += 1
        now = (stream.index, stream.clock[stream.index])
        for tensor in [] if is_alias(function) else tensors((args, kwargs)):
            self.readers.setdefault(address(tensor), {})[stream.index] = now[1]
            self.remember(tensor, None)
            owner = self.memory[address(tensor)][0]
            if owner not in (None, stream) and not stream.is_thread:
                self.shared[owner].add(address(tensor))
        for tensor in overwritten(function, args):
            self.writer[address(tensor)] = now
        given = {id(t) for t in tensors((args, kwargs))}
        for tensor in tensors(out):
            if id(tensor) not in given and not is_alias(function):
                self.writer[address(tensor)] = now
                self.remember(tensor, stream)
        return out

    def must_follow(self, stream, function, done):
        for other, count in done:
            if stream.clock[other] < count:
                raise AssertionError(f"{function} on {self.name(stream.index)} does not wait for {self.name(other)}")

    def name(self, index):
        return f"{'thread' if self.made[index].is_thread else 'stream'} {index}"

    def remember(self, tensor, stream):
        self.memory.setdefault(address(tensor), (stream, StorageWeakRef(tensor.untyped_storage())))

    def check_reuse(self, stream):
        """What nobody has any more may be used again by the stream it belongs to. (A thread has read what it drops.)"""
        for storage in [s for s in self.shared[stream] if self.memory[s][1].expired()]:
            for reader, count in self.readers[storage].items():
                if stream.clock[reader] < count and not self.made[reader].is_thread:
                    raise AssertionError(f"{self.name(stream.index)} may use memory again that {self.name(reader)} still reads")
            self.shared[stream].remove(storage)


class Races(TorchDispatchMode):
    """All work of one thread runs at once, and is looked at."""

    def __init__(self, world):
        super().__init__()
        self.world = world

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        with self.world.guard:
            return self.world.run(function, args, kwargs or {})


def address(tensor):
    return tensor.untyped_storage()._cdata


def overwritten(function, args):
    written = [a for a, s in zip(args, function._schema.arguments) if s.alias_info is not None and s.alias_info.is_write]
    return tensors(written)


def tensors(value):
    return [t for t in tree_flatten(value)[0] if isinstance(t, torch.Tensor)]


def is_alias(function):
    return "_unsafe_view" in str(function) or any(r.alias_info is not None for r in function._schema.returns)


@contextlib.contextmanager
def clocked_streams():
    """Whatever `place` does within has clocks: its streams, its threads, and the memory that they write."""
    world = World()
    event, lock, line = (type(kind.__name__, (kind,), {"world": world}) for kind in (Event, Lock, Queue))
    run = _workers._Worker.run

    def watched(worker):
        with Races(world):
            run(worker)

    def streams_of(specs, each):
        return [[Clocked(world) for _ in range(each)] for _ in specs]

    made = types.SimpleNamespace(Lock=lock, get_native_id=threading.get_native_id, Thread=threading.Thread)
    patches = [
        mock.patch.object(torch.cuda, "Event", event), mock.patch.object(torch.cuda, "stream", world.use),
        mock.patch.object(torch.cuda, "current_stream", world.current), mock.patch.object(torch.cuda, "synchronize", world.synchronize),
        mock.patch.object(_streams, "streams_of", streams_of), mock.patch.object(_lanes, "streams_of", streams_of),
        mock.patch.object(_workers, "threading", made), mock.patch.object(_writer, "threading", made),
        mock.patch.object(_workers, "queue", types.SimpleNamespace(SimpleQueue=line, Empty=queue.Empty)),
        mock.patch.object(_workers._Worker, "run", watched),
        mock.patch.object(_place, "check_here", lambda specs: None), mock.patch.object(_devices, "check_here", lambda specs: None),
        mock.patch.object(torch.cuda, "device", contextlib.nullcontext),
        mock.patch.object(_devices.Spec, "torch", torch.device("cpu")),
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        stack.enter_context(Races(world))
        yield world
