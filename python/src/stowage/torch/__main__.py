"""python -m stowage.torch: measures devices and writes a machine file; ``stowage calibrate`` runs it."""
from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import re
import signal
import sys
import textwrap
import traceback
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any, Callable, NoReturn, Optional, Sequence

import torch
from torch.utils._pytree import tree_map

from .._library import Error
from .._text import plain, show_bytes, show_flops, show_seconds, text_table
from .calibrating._calibrate import calibrate
from .running._devices import parse_measured

_INTERRUPTED = 130
_NOT_MOVED = 1e15  # bytes per second of links over which nothing is moved
_NAME = 22  # characters of a name in a line of a table
_MOST_LINKS = 32  # in the table
_OWN = ("devices", "module", "copies", "name", "machine", "progress")  # of calibrate


# ---- arguments ----


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m stowage.torch", allow_abbrev=False, description="Measures devices and writes a machine file for them.")
    parser.add_argument("--devices", required=True, metavar="D,D,...", help="cuda:0, cuda:0/sm:64 or cpu:0-3, of any sizes and sorts")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the machine file; '-' is standard output")
    parser.add_argument("--model", metavar="FILE.py:FUNCTION", help="FUNCTION() returns (module, args) or (module, args, kwargs)")
    parser.add_argument("--graph", metavar="FILE", help="the step of the model with its times in company")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument("--copies", action="store_true", help="values are copied between shares of one GPU")
    parser.add_argument("-f", "--format", choices=("text", "json"), default="text", help="what is printed: tables or the machine")
    return parser


def split_devices(text: str) -> list[str]:
    """Names between commas; a piece that is only a core or a range of cores belongs to the device before it."""
    found: list[str] = []
    for piece in text.split(","):
        if not piece:
            raise Error(f"--devices: '{text}' has an empty entry")
        if found and re.fullmatch(r"\d+(-\d+)?", piece):
            found[-1] += "," + piece
        else:
            found.append(piece)
    return found


def _check_output(path: str) -> None:
    """Whether a file can be written, before anything is measured."""
    target = os.path.realpath(path)
    fault = 0
    if os.path.isdir(target):
        fault = errno.EISDIR
    elif os.path.exists(target):
        fault = 0 if os.access(target, os.W_OK) else errno.EACCES
    elif not os.path.isdir(os.path.dirname(target)):
        fault = errno.ENOENT
    elif not os.access(os.path.dirname(target), os.W_OK):
        fault = errno.EACCES
    if fault:
        raise OSError(fault, os.strerror(fault), path)


def _check(options: argparse.Namespace) -> None:
    if (options.model is None) != (options.graph is None):
        raise Error("--model FILE.py:FUNCTION and --graph FILE need each other")
    if options.graph == "-":
        raise Error("--graph needs a file; only the machine can go to standard output")
    for path in (options.output, options.graph):
        if path not in (None, "-"):
            _check_output(path)
    if options.graph and options.output != "-" and os.path.realpath(options.graph) == os.path.realpath(options.output):
        raise Error(f"--graph: '{options.graph}' is also that of --output; name another file")


# ---- the model ----


def _call_theirs(file: str, what: Callable[[], Any]) -> Any:
    """Runs code of the model's file. Its faults are told in one line, and what it prints is no result."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return what()
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        at = f", line {lines[-1]}" if lines else ""
        raise Error(f"--model: {file}{at}: {type(error).__name__}: {error}") from error


def _load(model: str) -> tuple[str, Any]:
    """The file and the function that FILE.py:FUNCTION names. The file finds its neighbours, as a program does."""
    file, colon, name = model.rpartition(":")
    if not (colon and file and name):
        raise Error(f"--model: '{model}' names no function; write FILE.py:FUNCTION")
    if not os.path.isfile(file):
        raise Error(f"--model: there is no file '{file}'")
    spec = spec_from_loader("stowage_model", SourceFileLoader("stowage_model", file))
    assert spec is not None and spec.loader is not None
    module = sys.modules["stowage_model"] = module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    _call_theirs(file, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    function = getattr(module, name, None)
    if not callable(function):
        raise Error(f"--model: {file} has no function '{name}'")
    return file, function


def _step_of(model: str, place: torch.device) -> tuple[torch.nn.Module, tuple, dict[str, Any]]:
    """What the function returns, in the memory of the first device."""
    file, function = _load(model)
    made = _call_theirs(file, function)
    if not isinstance(made, (tuple, list)) or len(made) not in (2, 3) or not isinstance(made[0], torch.nn.Module):
        raise Error(f"--model: {model} must return (module, args) or (module, args, kwargs), with a torch.nn.Module")
    module, args, kwargs = made if len(made) == 3 else (*made, {})
    if not isinstance(args, (tuple, list)) or not isinstance(kwargs, dict):
        raise Error(f"--model: {model} must return args as a tuple, such as (x,), and kwargs as a dict")
    for name in _OWN:
        if name in kwargs:
            raise Error(f"--model: {model} returns the keyword '{name}', which stowage.torch.calibrate has itself; pass it by position")

    def move(value: Any) -> Any:
        return tree_map(lambda v: v.to(place) if isinstance(v, torch.Tensor) else v, value)

    return module.to(place), tuple(move(args)), move(kwargs)


# ---- what is printed ----


def _folded(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first two columns are names: long ones go over several lines."""
    lines: list[list[str]] = []
    for row in rows:
        cells = [textwrap.wrap(plain(cell), _NAME) or [""] for cell in row[:2]] + [[cell] for cell in row[2:]]
        lines += [[cell[k] if k < len(cell) else "" for cell in cells] for k in range(max(map(len, cells)))]
    return text_table(head, lines, left=(0, 1))


def _rate(link: dict[str, Any]) -> str:
    rate = link["bandwidth_bytes_per_s"]
    if isinstance(rate, list):  # by size; the last is that of large transfers
        rate = rate[-1][1]
    return "not moved" if rate >= _NOT_MOVED else show_bytes(rate) + "/s"


def _link_row(ends: tuple[str, str], link: dict[str, Any]) -> list[str]:
    return [*ends, _us(link["latency_us"]), _rate(link), _us(link.get("send_us", 0.0)), _us(link.get("receive_us", 0.0))]


def _us(value: float) -> str:
    return show_seconds(1e-6 * value)


def summary(machine: dict[str, Any]) -> str:
    """The devices and links of a machine file, for people: at most 100 columns."""
    devices, links = machine["devices"], machine["links"]
    head = ["device", "kind", "memory", "f32", "bandwidth", "launch"]
    rows = [[d["name"], d["kind"], show_bytes(d["memory_bytes"]), show_flops(d["flops_per_s"]["f32"]) + "/s",
             show_bytes(d["bandwidth_bytes_per_s"]) + "/s", _us(d["launch_us"])] for d in devices]  # fmt: skip
    parts = [_folded(head, rows)]
    values = [{key: value for key, value in link.items() if key not in ("from", "to")} for link in links]
    if links and len(links) > 1 and all(value == values[0] for value in values):
        rows = [_link_row(("every device", "every other"), links[0])]
    else:
        rows = [_link_row((link["from"], link["to"]), link) for link in links[:_MOST_LINKS]]
    if rows:
        parts.append(_folded(["from", "to", "latency", "bandwidth", "send", "receive"], rows))
    if len(rows) == _MOST_LINKS < len(links):
        parts[-1] += f"\n  and {len(links) - _MOST_LINKS} more; --format json lists all"
    return "\n\n".join(parts)


# ---- the program ----


def _run(arguments: Optional[Sequence[str]]) -> None:
    options = _parser().parse_args(arguments)
    devices = split_devices(options.devices)
    specs = parse_measured(devices)
    _check(options)
    say = _say if sys.stderr.isatty() and not options.quiet else None
    step = _step_of(options.model, specs[0].torch) if options.model else None
    found = calibrate(devices, copies=options.copies, progress=say)
    if step is not None:
        module, args, kwargs = step
        found = calibrate(devices, module, *args, copies=options.copies, machine=found.machine, progress=say, **kwargs)
        found.graph.save(options.graph)
    if options.output != "-":
        found.save(options.output)
    if options.output == "-" or options.format == "json":
        print(json.dumps(found.machine, indent=1))
    else:
        print(summary(found.machine))


def _say(line: str) -> None:
    print(plain(line), file=sys.stderr, flush=True)


def _catch_signals() -> None:
    """Ctrl-C, SIGTERM and SIGHUP end the work, once: on a terminal the first comes from there and from ``stowage`` too, which
    starts us with all of them held. Who has one ignored means it."""
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]

    def ignore(number: int, frame: Any) -> None:
        """Not SIG_IGN: of a signal that is pending when that is set, the interpreter complains on standard error."""

    def end(number: int, frame: Any) -> None:
        for other in numbers:
            signal.signal(other, ignore)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has seen enough (head) ends us silently


def _told(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: cannot be written: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return f"standard output: cannot be written: {error.strerror}"
    return str(error) or type(error).__name__


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The exit status: 0, or 2 with one line on standard error."""
    try:
        _run(arguments)
        sys.stdout.flush()
        return 0
    except (Error, OSError, MemoryError, torch.cuda.OutOfMemoryError) as error:
        _say("stowage: " + " ".join(_told(error).split()))
        return 2


if __name__ == "__main__":
    try:
        _catch_signals()  # one that was held comes here
        _status = main()
    except KeyboardInterrupt:
        _status = _INTERRUPTED
    if _status != 0:
        os._exit(_status)  # threads that compute are not waited for, and what could not be printed is not tried again
