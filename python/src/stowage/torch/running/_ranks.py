"""Devices in several processes, which torch.distributed calls ranks: what goes from rank to rank, and what happens when one fails.

All ranks trace the same step and derive the same list of messages from it (_messages.py): what travels is the bytes of tensors and
nothing else.

A rank that fails leaves a note in the store of the process group and then breaks its connections, which every rank that waits
for it notices at once; these do the same. A rank without a note was killed.

Ranks of CPU devices on one host share memory (_shared.py), others use gloo; what is agreed on at set-up goes by gloo everywhere. GPUs
use NCCL, one GPU in each rank: that part has never been run, since no machine with several GPUs was at hand.
"""
from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import os
import socket
import time
from collections import deque
from typing import Any, Callable, Iterator, Optional, Sequence

import torch
import torch.distributed as dist

from ..._library import Error
from ._devices import Spec
from ._messages import Message, messages_of
from ._program import Program, Transfer
from ._shared import Lost, Shared, one_host

_WINDOW = 16  # receives that are posted ahead of need, from each device of another rank: their memory is taken when they are posted
_PAYLOAD = 256  # bytes that each rank says of itself at set-up: four digests, or why it cannot go on
_BREAK = 2**30  # a tag that no message has
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


# ---- the processes ----


def are_needed(specs: Sequence[Spec]) -> bool:
    """Whether the devices' names ask for several processes. Rank 0 alone, in a process that nobody else started, is none."""
    named = [spec.rank for spec in specs if spec.rank is not None]
    started = dist.is_available() and (dist.is_initialized() or "WORLD_SIZE" in os.environ)
    return bool(named) and (started or max(named) > 0)


class Ranks:
    """This process among those of a placed step."""

    def __init__(self, specs: Sequence[Spec], timeout: float) -> None:
        cuda = specs[0].gpu is not None
        self.timeout = datetime.timedelta(seconds=timeout)
        _join_processes(self.timeout, cuda)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.of = [spec.rank or 0 for spec in specs]  #: the rank of each device
        for spec, rank in zip(specs, self.of):
            if rank >= self.size:
                raise Error(f"'{spec.name}' is in rank {rank}, and there are {self.size} processes; start more (torchrun --nproc-per-node)")
        self.messages: list[Message] = []
        self._by_transfer: dict[Transfer, Message] = {}
        self._shared: Optional[Shared] = None
        self._all_share = self._one_host = False
        self._sends: dict[Optional[int], list[Message]] = {}
        self.failure = ""  #: why the step has ended on all ranks
        self._agreed = False
        self._device = torch.device("cpu")
        self._sent: list[tuple[Any, int, torch.Tensor]] = []
        self._since: dict[int, tuple[float, int]] = {}  # device of another rank -> when we began to wait for its rank
        with _named_failure("the processes could not be connected"):
            self._group = dist.new_group(backend="gloo", timeout=self.timeout)  # our own: tags and timeouts are nobody else's
            self._wire = self._group
            if cuda:
                self._device = _own_gpu(list(zip(specs, self.of)), self.rank)
                self._wire = dist.new_group(backend="nccl", timeout=self.timeout)
        self._notes = dist.PrefixStore(f"stowage/{self._group.group_name}", dist.distributed_c10d._get_default_store())

    def is_mine(self, device: int) -> bool:
        return self.of[device] == self.rank

    def agree(self, graph: str, plan: str, devices: str, options: str) -> None:
        """All ranks have the same step before them, or all raise the same error."""
        said = {"graph": graph, "plan": plan, "device list": devices, "set of options (train, update, carrier)": options}
        mine = b"".join(hashlib.sha256(text.encode()).digest() for text in said.values())
        every = self._tell(b"\1" + mine)
        for rank, theirs in enumerate(every):
            if theirs[0] == 0:
                self._leave()
                raise Error(f"rank {rank} cannot place the step: {theirs[1:].rstrip(bytes(1)).decode('utf-8', 'replace')}")
        for k, name in enumerate(said):
            part = slice(1 + 32 * k, 33 + 32 * k)
            other = next((rank for rank, theirs in enumerate(every) if theirs[part] != every[0][part]), None)
            if other is not None:
                self._leave()
                raise Error(f"rank {other} has another {name} than rank 0; call place with the same module, plan, devices and options on every rank")

    def connect(self, carrier: Optional[str]) -> None:
        """Memory is shared with the ranks of this host, unless the carrier is to be "gloo". All ranks raise the same error if it is to be
        "shared" and cannot, or if they do not mean the same messages."""
        threads = self.of.count(self.rank)
        shared = self._shared = Shared(self.rank, self.of, self.messages, lambda: self.failure, self.timeout_s, threads)
        announced = self._tell(shared.announcement(carrier != "gloo"))
        try:
            self._one_host = one_host(announced)
            opened = shared.open(announced)
            self._all_share = shared.keep(self._tell(opened))
            kinds = {self._is_shared(m) for m in self.messages if self.rank in (self.of[m.source], m.target)} or {self._all_share}
            self._carrier = ", ".join(name for name, used in (("shared", True), ("gloo", False)) if used in kinds)
            if carrier == "shared" and not self._all_share:
                raise Error(f"not all ranks can share memory{f' ({shared.why})' if shared.why else ': are they on one host?'}; leave carrier out")
        except Error:
            self._leave()
            raise

    def timeout_s(self) -> float:
        return self.timeout.total_seconds()

    @property
    def carrier(self) -> str:
        """What values go by: "shared", "gloo" or "nccl"; "shared, gloo" where some ranks are on other hosts."""
        if self._wire is not self._group:
            return "nccl"
        return self._carrier

    def _is_shared(self, message: Message) -> bool:
        return self._shared is not None and self._shared.carries(message)

    def refuse(self, error: BaseException) -> None:
        """Tells the others that this rank cannot go on, unless they know, and leaves them."""
        if self._agreed:
            self.fail(error, first_line(error))
        else:
            with contextlib.suppress(Error):
                self._tell(b"\0" + first_line(error).encode()[:_PAYLOAD])
        self.close()

    def _tell(self, payload: bytes) -> list[bytes]:
        """What each rank says, in so many bytes."""
        self._agreed = True
        mine = torch.tensor(list(payload.ljust(1 + _PAYLOAD, b"\0")), dtype=torch.uint8)
        every = [torch.empty_like(mine) for _ in range(self.size)]
        with _named_failure("not all ranks called place, or one is gone"):
            dist.all_gather(every, mine, group=self._group)
        return [bytes(t.tolist()) for t in every]

    # ---- messages ----

    def carry(self, program: Program, updated: Sequence[Any]) -> None:
        """From now on the messages are those of this program."""
        self.messages = messages_of(program, self.of, self.size, updated)
        for m in self.messages:
            self._by_transfer.update(dict.fromkeys(m.transfers, m))
            if self.is_mine(m.source):
                self._sends.setdefault(m.producer, []).append(m)

    def sends(self, producer: Optional[int]) -> list[Message]:
        """What this rank sends behind a task, or before all."""
        return self._sends.get(producer, [])

    def receives(self) -> dict[int, list[Message]]:
        """What this rank gets from each device of the others through a connection, in the order in which that sends it."""
        found: dict[int, list[Message]] = {}
        for m in self.messages:
            if m.target == self.rank and not self._is_shared(m):
                found.setdefault(m.source, []).append(m)
        return found

    def begin(self) -> None:
        """A step."""
        if self.failure:
            raise Error(self.failure)
        if self._shared is not None:
            self._shared.begin()

    def sender(self, message: Message) -> Callable[[torch.Tensor], None]:
        """A function that sends the value of a message."""
        return self._shared.sender(message) if self._is_shared(message) else functools.partial(self.send, message)  # type: ignore[union-attr]

    def is_shared(self, transfer: Transfer) -> bool:
        """Whether a value goes through shared memory."""
        return transfer in self._by_transfer and self._is_shared(self._by_transfer[transfer])

    def taker(self, transfer: Transfer) -> Callable[[], torch.Tensor]:
        """A function that waits for such a value."""
        return self._shared.taker(self._by_transfer[transfer])  # type: ignore[union-attr]

    def outputs(self) -> dict[Any, torch.Tensor]:
        """What the step returns and others have left in shared memory, copied: users keep losses."""
        found = [m for m in self.messages if m.is_output and m.target == self.rank and self._is_shared(m)]
        return {m.node: self._shared.taker(m)().clone() for m in found}  # type: ignore[union-attr]

    def send(self, message: Message, value: torch.Tensor) -> None:
        """Begins to send; :meth:`settle` waits for the end."""
        self._isend(message.packed(value), message.target, message.tag)

    def post(self, message: Message) -> tuple[Any, torch.Tensor]:
        """Begins to receive."""
        buffer = message.buffer(self._device)
        source = self.of[message.source]
        with _named_loss(source):
            return dist.irecv(_bytes(buffer), source, group=self._wire, tag=message.tag) if buffer.numel() else None, buffer

    def arrivals(self, messages: Sequence[Message]) -> Iterator[tuple[Message, torch.Tensor]]:
        """The messages of one device as they come. Some are posted ahead, so that they need not wait for us."""
        posted: deque[tuple[Message, Any, torch.Tensor]] = deque()
        rest = iter(messages)
        for message in messages:
            while len(posted) < _WINDOW and (ahead := next(rest, None)) is not None:
                posted.append((ahead, *self.post(ahead)))
            _, work, buffer = posted.popleft()
            source = self.of[message.source]
            self._since[message.source] = (time.monotonic(), source)
            if work is not None:
                with _named_loss(source):
                    work.wait(2 * self.timeout)  # overdue() is before it, and can still leave a note
            self._since.pop(message.source)
            yield message, message.unpacked(buffer)

    def overdue(self) -> Optional[Lost]:
        """A rank that has let us wait for too long."""
        for since, rank in list(self._since.values()):
            if time.monotonic() - since > self.timeout.total_seconds():
                return Lost(rank, f"it has sent nothing for {self.timeout.total_seconds():g} s")
        return None

    def settle(self) -> None:
        """Waits until all that was sent has left its memory."""
        sent, self._sent = self._sent, []
        for work, target, _ in sent:
            with _named_loss(target):
                work.wait(self.timeout)

    def meet(self) -> None:
        """Waits until all ranks have come here."""
        with self._ending_all():
            if self._all_share:
                self._shared.meet()  # type: ignore[union-attr]
            else:
                dist.barrier(group=self._group)

    def span(self, began: float, ended: float) -> float:
        """Seconds from the first rank's begin to the last one's end; on several hosts, which have no common clock, those of the slowest."""
        with self._ending_all():
            if self._all_share:
                return self._shared.span(began, ended)  # type: ignore[union-attr]
            times = [torch.empty(2, dtype=torch.float64) for _ in range(self.size)]
            dist.all_gather(times, torch.tensor([began, ended], dtype=torch.float64), group=self._group)
            if self._one_host:
                return float(max(t[1] for t in times) - min(t[0] for t in times))
            return float(max(t[1] - t[0] for t in times))

    @contextlib.contextmanager
    def _ending_all(self) -> Iterator[None]:
        """What fails within ends the step on all ranks."""
        if self.failure:
            raise Error(self.failure)
        try:
            yield
        except Exception as error:
            raise Error(self.fail(error, first_line(error))) from error

    def gather(self, state: Sequence[tuple[torch.Tensor, int]]) -> None:
        """Brings tensors up to date on every rank: (tensor, the rank that has it)."""
        with self._ending_all():
            for tag, (tensor, owner) in enumerate(state):
                self._share(tensor, owner, len(self.messages) + tag)
            self.settle()

    def _share(self, tensor: torch.Tensor, owner: int, tag: int) -> None:
        if tensor.numel() == 0:
            return
        if owner != self.rank:
            buffer = torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device)
            with _named_loss(owner):
                dist.irecv(_bytes(buffer), owner, group=self._wire, tag=tag).wait(self.timeout)
            tensor.detach().copy_(buffer)
            return
        dense = tensor.detach().contiguous()
        for rank in range(self.size):
            if rank != self.rank:
                self._isend(dense, rank, tag)

    def _isend(self, dense: torch.Tensor, target: int, tag: int) -> None:
        if dense.numel():
            with _named_loss(target):
                self._sent.append((dist.isend(_bytes(dense), target, group=self._wire, tag=tag), target, dense))

    # ---- the end ----

    def fail(self, error: BaseException, said: str) -> str:
        """Ends the step on all ranks. Returns the line that says why: of a rank that was lost, what that has left as a note."""
        if not self.failure:
            self.failure = f"rank {self.rank}: {said}"
            if isinstance(error, Lost):
                self.failure = self._note(error.rank) or f"{first_line(error)}; the step has ended on all ranks"
            with contextlib.suppress(RuntimeError):  # the store may be gone with the rank
                self._notes.set(str(self.rank), self.failure)
                self._notes.check([str(self.rank)])  # the answer comes when the note is there
            if self._shared is not None:
                self._shared.fail()
            self._break()
        return self.failure

    def _note(self, rank: int) -> str:
        with contextlib.suppress(RuntimeError):
            if self._notes.check([str(rank)]):
                return self._notes.get(str(rank)).decode("utf-8", "replace")
        return ""

    def _break(self) -> None:
        """Closes the connections. gloo does so, and wakes all who wait, when a receive runs out of time; to shut the group down
        does neither."""
        for rank in range(self.size):
            if rank != self.rank:
                with contextlib.suppress(RuntimeError):
                    dist.irecv(torch.empty(1), rank, group=self._group, tag=_BREAK).wait(datetime.timedelta(milliseconds=1))
        self._sent = []

    def close(self) -> None:
        """Waits for the others, who may still have to read what we sent, and leaves the groups."""
        if not self.failure:
            self._leave()
        for group in {id(g): g for g in (self._wire, self._group) if g is not None}.values():
            dist.destroy_process_group(group)
        self._wire = self._group = None
        if self._shared is not None:
            self._shared.close()

    def _leave(self) -> None:
        self.failure = "the step was closed"
        with contextlib.suppress(RuntimeError):
            dist.barrier(group=self._group)


def first_line(error: BaseException) -> str:
    return str(error).split("\n")[0] or type(error).__name__


def _bytes(dense: torch.Tensor) -> torch.Tensor:
    return dense.reshape(-1).view(torch.uint8)  # which every backend can send


def _reason(error: BaseException) -> str:
    """Without the file of gloo that it comes from."""
    return first_line(error).rpartition(".cc:")[2].partition("] ")[2] or first_line(error)


@contextlib.contextmanager
def _named_failure(what: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise Error(f"{what}: {_reason(error)}") from error


class _named_loss:
    """Says which rank it was when an operation with it fails. (A class, since it stands around every message.)"""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if isinstance(error, RuntimeError):
            raise Lost(self.rank, _reason(error)) from error


# ---- how processes find each other ----


def _join_processes(timeout: datetime.timedelta, cuda: bool) -> None:
    """Into the default process group: that which is there, or one as torchrun's environment says."""
    if not dist.is_available():
        raise Error("this PyTorch has no torch.distributed, which devices of several ranks need")
    _listen_on_loopback()
    if dist.is_initialized():
        return
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise Error(f"devices of several ranks need as many processes, and {missing[0]} is not set; start them with torchrun")
    address = os.environ["MASTER_ADDR"]
    if address not in _LOOPBACK and "TORCHELASTIC_RUN_ID" not in os.environ:
        raise Error(f"MASTER_ADDR is {address}, another machine, and torchrun did not set it; call torch.distributed.init_process_group "
                    "before place if that is meant")  # fmt: skip
    with _named_failure("the processes did not find each other"):
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=timeout)


def _listen_on_loopback() -> None:
    """gloo listens on the interface of the machine's name unless told; processes of one machine have no need of that."""
    alone = "WORLD_SIZE" in os.environ and os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]
    if "GLOO_SOCKET_IFNAME" not in os.environ and (alone or os.environ.get("MASTER_ADDR") in _LOOPBACK):
        names = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
        if names:
            os.environ["GLOO_SOCKET_IFNAME"] = names[0]


def _own_gpu(devices: Sequence[tuple[Spec, int]], mine: int) -> torch.device:
    gpus: dict[int, Any] = {}
    for spec, rank in devices:
        if gpus.setdefault(rank, spec.gpu) != spec.gpu:
            raise Error(f"rank {rank} has devices of several GPUs; start a process for each GPU")
    device = torch.device("cuda", gpus.get(mine, 0))
    torch.cuda.set_device(device)
    return device
