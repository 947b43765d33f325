"""Values between the ranks of one host, through memory that they share.

Each rank makes one segment: a page of words about itself, and behind it a place for every message that it sends. A place has a word,
the number of the step whose value is there, and two slots, for odd and for even steps. The sender copies the value into the slot and
then writes the word; the receiver waits for the word and computes with the slot itself, without a copy. The slot is this receiver's
alone, so that it may also write there in place. What it got in a step stays as it is until it begins the next one: a rank tells by a
word which step it has begun, and nobody sends it a value of a step that is more than one ahead of that.

A segment is a file without a name (memfd), which others open through /proc while its maker is alive: nothing is left behind, however
processes end. Its size is sealed, so that it cannot shrink under those who have mapped it.

Order of memory: a word is written after the value and read before it. This relies on x86-64, where stores are seen in their order and
loads are done in theirs, and on aligned 8-byte words being read and written whole, as memoryview does with items of format "q". Other
processors get gloo.
"""
from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
import pathlib
import platform
import secrets
import select
import struct
import time
from typing import Any, Callable, Optional, Sequence

import torch

from ..._library import Error

_LINE = 64  # bytes of a cache line
_HEADER = 4096
_NONCE, _FAILED, _BEGUN, _WAITS, _ARRIVED, _TIMES = 0, 8, 16, 24, 32, 40  # words of the first page, each on a line of its own
_SPINS = 200  # looks at a word before the first pause: some 10 us
_YIELDS_S = 0.005  # of pauses that only let others of this core go first, before sleeps
_LOOK_S = 0.001  # between looks at whether the other rank still lives
_ADD_SEALS, _SHRINK_AND_GROW = 1033, 2 | 4  # fcntl has names for them from Python 3.9 on, not everywhere
_ANNOUNCED = struct.Struct("<?32s16sqqqqq")


class Lost(Error):
    """Another rank does not answer."""

    def __init__(self, rank: int, why: str) -> None:
        super().__init__(f"rank {rank} is gone ({why})")
        self.rank = rank


def lacks() -> str:
    """Why memory cannot be shared here, or ""."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"the order of memory on {platform.machine()} is not relied on"
    if not hasattr(os, "memfd_create") or not hasattr(os, "pidfd_open"):
        return "this system has no memfd or no pidfd"
    return ""


def host() -> bytes:
    """Equal for processes that see the same processes and the same clock."""
    parts = []
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid", "/proc/self/ns/time"):
        try:
            parts.append(os.readlink(path) if "/ns/" in path else pathlib.Path(path).read_text(encoding="ascii"))
        except OSError:
            parts.append(platform.node())
    return hashlib.sha256("\n".join(parts).encode()).digest()


def one_host(announced: Sequence[bytes]) -> bool:
    return len({_ANNOUNCED.unpack_from(said)[1] for said in announced}) == 1


def memory_bytes() -> int:
    """What this machine has left."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


def layout(messages: Sequence[Any]) -> tuple[dict[int, int], int]:
    """Where the place of each message is in its sender's segment, by tag, and the size of that."""
    places, size = {}, _HEADER
    for m in messages:
        places[m.tag] = size
        size += _LINE + 2 * _rounded(m.bytes)
    return places, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _rounded(size: int) -> int:
    return -(-size // _LINE) * _LINE


class Segment:
    """Mapped memory. It goes when nothing refers to it any more, tensors included."""

    def __init__(self, file: int, size: int) -> None:
        memory = mmap.mmap(file, size)
        self.words = memoryview(memory).cast("q")
        self._bytes = torch.frombuffer(memory, dtype=torch.uint8)

    def slots(self, message: Any, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Of even and of odd steps, shaped as the trace has the value."""
        size = _rounded(message.bytes)
        return self._slot(message, place + _LINE), self._slot(message, place + _LINE + size)

    def _slot(self, message: Any, begin: int) -> torch.Tensor:
        if message.bytes == 0:
            return message.unpacked(message.buffer(torch.device("cpu")))
        like = message.buffer(torch.device("meta"))
        return message.unpacked(self._bytes[begin : begin + message.bytes].view(like.dtype).view(like.shape))


def new_file(size: int) -> int:
    """A descriptor of that many bytes of memory, which is taken as it is used. (To take it at once would end the process where there
    is too little, since no file system limits it.)"""
    if size > memory_bytes():
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    file = os.memfd_create("stowage", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, size)
        fcntl.fcntl(file, _ADD_SEALS, _SHRINK_AND_GROW)
    except BaseException:
        os.close(file)
        raise
    return file


def _has_ended(process: int) -> bool:
    poll = select.poll()  # one for each look: threads cannot share one
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


class Shared:
    """The segments of all ranks that this one can map. Built in three steps, between which ranks tell each other what came of them:
    :meth:`announcement`, :meth:`open`, :meth:`keep`."""

    def __init__(self, rank: int, ranks: Sequence[int], messages: Sequence[Any], failure: Callable[[], str], timeout: Callable[[], float],
                 threads: int = 1) -> None:  # fmt: skip
        """``ranks`` has that of each device; ``failure`` says why this rank has failed, if it has; ``threads`` is how many wait here."""
        self.rank, self._ranks, self._failure, self._timeout, self._threads = rank, ranks, failure, timeout, threads
        size = 1 + max([rank, *ranks, *(m.target for m in messages)])
        self._layouts = [layout([m for m in messages if ranks[m.source] == r]) for r in range(size)]
        self.step = 0
        self.why = ""  #: this rank does not share
        self._nonce = secrets.token_bytes(16)
        self._file: Optional[int] = None
        self._segments: dict[int, Segment] = {}
        self._both: set[int] = set()  # ranks that map ours and whose we map
        self._processes: dict[int, int] = {}  # rank -> a descriptor of its process
        self._met = 0

    # ---- how segments are found ----

    def announcement(self, wanted: bool = True) -> bytes:
        """Makes the segment and says where it is."""
        size = self._size_of(self.rank)
        self.why = "gloo was asked for" if not wanted else lacks()
        try:
            if not self.why:
                self._file = new_file(size)
        except OSError as error:
            self.why = f"{size} bytes of memory to share: {error.strerror}"
        if self._file is None:
            return _ANNOUNCED.pack(False, host(), b"", 0, 0, 0, 0, size)
        about = os.fstat(self._file)
        own = self._segments[self.rank] = Segment(self._file, size)
        own.words[_NONCE], own.words[_NONCE + 1] = struct.unpack("<qq", self._nonce)
        return _ANNOUNCED.pack(True, host(), self._nonce, os.getpid(), self._file, about.st_dev, about.st_ino, size)

    def _size_of(self, rank: int) -> int:
        return self._layouts[rank][1] if rank < len(self._layouts) else layout([])[1]

    def open(self, announced: Sequence[bytes]) -> bytes:
        """Maps what the others have announced; a byte for each rank says whether that succeeded."""
        opened = bytearray(len(announced))
        for rank, said in enumerate(announced):
            there, where, nonce, process, file, device, inode, size = _ANNOUNCED.unpack_from(said)
            if size != self._size_of(rank):
                raise Error(f"rank {rank} shares {size} bytes for what it sends, and {self._size_of(rank)} are expected; "
                            "are stowage and PyTorch the same on all ranks?")  # fmt: skip
            if rank != self.rank and there and where == host() and not self.why:
                opened[rank] = self._map(rank, nonce, process, file, (device, inode, size))
        return bytes(opened)

    def _map(self, rank: int, nonce: bytes, process: int, file: int, expected: tuple[int, int, int]) -> bool:
        try:
            self._processes[rank] = os.pidfd_open(process)
            mine = os.open(f"/proc/{process}/fd/{file}", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            about = os.fstat(mine)
            if (about.st_dev, about.st_ino, about.st_size) != expected or about.st_uid != os.getuid():
                return False
            segment = Segment(mine, about.st_size)
        except OSError:
            return False
        finally:
            os.close(mine)
        if struct.pack("<qq", segment.words[_NONCE], segment.words[_NONCE + 1]) != nonce:
            return False
        self._segments[rank] = segment
        return True

    def keep(self, opened: Sequence[bytes]) -> bool:
        """What both sides have mapped is used. Whether that is so of all."""
        if self._file is not None:
            os.close(self._file)  # everybody has it
            self._file = None
        self._both = {r for r in range(len(opened)) if opened[r][self.rank] and opened[self.rank][r]}
        for rank in [r for r in self._segments if r not in self._both and r != self.rank]:
            del self._segments[rank]
        return all(said[r] for rank, said in enumerate(opened) for r in range(len(opened)) if r != rank)

    # ---- messages ----

    def carries(self, message: Any) -> bool:
        source = self._ranks[message.source]
        return (message.target if source == self.rank else source) in self._both

    def sender(self, message: Any) -> Callable[[torch.Tensor], None]:
        """A function that sends the value of a step."""
        slots, words, at = self._place(message)
        begun, target = self._segments[message.target].words, message.target
        shape, dtype = message.value.shape, message.value.dtype

        def send(value: torch.Tensor) -> None:
            step = self.step
            if begun[_BEGUN] < step - 1:
                self._wait(begun, _BEGUN, step - 1, target)
            if value.shape != shape or value.dtype != dtype:
                raise message.mismatch(value)
            slots[step & 1].copy_(value)
            words[at] = step

        return send

    def taker(self, message: Any) -> Callable[[], torch.Tensor]:
        """A function that waits for the value of a step and returns its slot."""
        slots, words, at = self._place(message)
        source = self._ranks[message.source]

        def take() -> torch.Tensor:
            step = self.step
            if words[at] < step:
                self._wait(words, at, step, source)
            return slots[step & 1]

        return take

    def _place(self, message: Any) -> tuple[tuple[torch.Tensor, torch.Tensor], Any, int]:
        source = self._ranks[message.source]
        segment, place = self._segments[source], self._layouts[source][0][message.tag]
        return segment.slots(message, place), segment.words, place // 8

    def begin(self) -> None:
        """A step. What came in the last one may be overwritten from now on."""
        self.step += 1
        if self.rank in self._segments:
            self._segments[self.rank].words[_BEGUN] = self.step

    # ---- all ranks ----

    def meet(self) -> None:
        """Waits until all ranks have come here. Only where :meth:`keep` said that all share."""
        self._met += 1
        self._segments[self.rank].words[_ARRIVED] = self._met
        for rank in self._both:
            self._wait(self._segments[rank].words, _ARRIVED, self._met, rank)

    def span(self, began: float, ended: float) -> float:
        """Seconds from the first rank's begin to the last one's end, by the clock of the host."""
        own = self._segments[self.rank].words
        own[_TIMES], own[_TIMES + 1] = int(1e9 * began), int(1e9 * ended)
        self.meet()
        times = [(segment.words[_TIMES], segment.words[_TIMES + 1]) for segment in self._segments.values()]
        self.meet()  # nobody writes the next ones before all have read these
        return 1e-9 * (max(end for _, end in times) - min(begin for begin, _ in times))

    # ---- waits ----

    def _wait(self, words: Any, at: int, value: int, rank: int) -> None:
        """Until a word of that rank has come to a value: first by looking alone, then letting others go first, then with sleeps."""
        for _ in range(_SPINS if self._threads == 1 else 1):
            if words[at] >= value:
                return
        own = self._segments[self.rank].words
        began = looked = now = time.monotonic()
        while words[at] < value:
            if now - looked > _LOOK_S:
                looked = now
                own[_WAITS] = rank + 1
                self._look(rank, now - began)
            self._pause(now - began)
            now = time.monotonic()
        own[_WAITS] = 0

    def _pause(self, waited: float) -> None:
        if waited > _YIELDS_S:
            time.sleep(min(waited / 50, 0.001))
            return
        if self._threads > 1:
            select.select((), (), (), 0)  # lets go of the interpreter's lock, which sched_yield keeps before Python 3.14
        os.sched_yield()

    def _look(self, rank: int, waited: float) -> None:
        """Whether there is still something to wait for."""
        if self._failure():
            raise Error(self._failure())
        for other in self._both:
            if self._segments[other].words[_FAILED]:
                raise Lost(other, "it has failed")
        for other in self._both:
            if _has_ended(self._processes[other]):
                raise Lost(other, "its process has ended and its connection is closed")
        if waited > self._timeout():
            raise Lost(self._culprit(rank), f"it has sent nothing for {self._timeout():g} s")

    def _culprit(self, rank: int) -> int:
        """The rank at the end of a row of ranks that wait, each for the next."""
        last, seen = rank, {self.rank}
        while last in self._both and last not in seen and self._segments[last].words[_WAITS] > 0:
            seen.add(last)
            last = self._segments[last].words[_WAITS] - 1
        return rank if last in seen else last

    # ---- the end ----

    def fail(self) -> None:
        """Tells the others, who look while they wait."""
        if self.rank in self._segments:
            self._segments[self.rank].words[_FAILED] = 1

    def close(self) -> None:
        """Lets go of everything; memory stays as long as tensors refer to it."""
        for file in self._processes.values():
            os.close(file)
        if self._file is not None:
            os.close(self._file)
        self._processes, self._segments, self._both, self._file = {}, {}, set(), None
