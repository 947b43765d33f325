"""The shared library: where it is, the functions of stowage.h with their types, and what every call needs."""
from __future__ import annotations

import ctypes
import ctypes.util
import operator
import os
import sys
import warnings
from ctypes import POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

VERSION = "0.1.0"  # of the interface below

STATUS = {-1: "input", -2: "io", -3: "memory", -4: "no plan", -5: "cancelled"}


class Error(Exception):
    """A call failed. The text is the library's: what, where, and what helps.

    ``status`` is ``"input"`` (a file, a name or an option is wrong), ``"io"``, ``"memory"``, ``"no plan"`` or ``"cancelled"``.
    """

    def __init__(self, message: str, status: str = "input") -> None:
        super().__init__(message)
        self.status = status


# ---- the structures of stowage.h, field by field ----


class CError(Structure):
    _fields_ = [("status", c_int), ("message", ctypes.c_char * 500)]


class CNode(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("op", c_char_p),
        ("kind", c_char_p),
        ("label", c_char_p),
        ("dtype", c_char_p),
        ("bytes", c_int64),
        ("flops", c_int64),
        ("shape", POINTER(c_int64)),
        ("input", POINTER(c_int32)),
        ("rank", c_int32),
        ("input_count", c_int32),
        ("root", c_int32),
        ("updates", c_int32),
    ]


class CEvaluation(Structure):
    _fields_ = [
        ("reason", c_int),
        ("step_s", c_double),
        ("step_ps", c_int64),
        ("transfer_count", c_int32),
        ("transfer_bytes", c_int64),
        ("worst_peak_bytes", c_int64),
        ("peak_bytes", POINTER(c_int64)),
        ("busy_ps", POINTER(c_int64)),
        ("charged_ps", POINTER(c_int64)),
        ("message", c_char_p),
    ]


class CBounds(Structure):
    _fields_ = [("plan_s", c_double), ("fusion_s", c_double), ("peak_bytes", c_int64), ("load_s", c_double), ("load_fusion_s", c_double)]


class CNoise(Structure):
    _fields_ = [
        ("ahead", c_int32),
        ("draws", c_int32),
        ("measured_error", c_double),
        ("carried_error", c_double),
        ("modelled_error", c_double),
        ("fused_error", c_double),
    ]


class CProgress(Structure):
    _fields_ = [
        ("method", c_char_p),
        ("elapsed_s", c_double),
        ("budget_s", c_double),
        ("evaluations", c_int64),
        ("evaluation_budget", c_int64),
        ("has_plan", c_bool),
        ("best_step_s", c_double),
        ("best_value", c_double),
        ("lower_bound_s", c_double),
    ]


ProgressFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(CProgress))


class CWatch(Structure):
    _fields_ = [("progress", ProgressFunction), ("context", c_void_p), ("cancel", c_void_p), ("curve", c_void_p), ("spent_s", c_double)]


class CFound(Structure):
    _fields_ = [("seconds", c_double), ("evaluations", c_int64), ("value", c_double)]


class CCandidate(Structure):
    _fields_ = [
        ("method", c_char_p),
        ("valid", c_bool),
        ("reason", c_char_p),
        ("step_s", c_double),
        ("value", c_double),
        ("peak_bytes", POINTER(c_int64)),
        ("search_s", c_double),
        ("evaluations", c_int64),
        ("seed", c_int64),
        ("repaired", c_bool),
        ("note", c_char_p),
        ("found", POINTER(CFound)),
        ("found_count", c_int32),
    ]


class CExportIo(Structure):
    _fields_ = [
        ("model_path", c_char_p),
        ("model", c_char_p),
        ("model_size", c_size_t),
        ("path", c_char_p),
        ("bytes", c_void_p),
        ("size", c_size_t),
        ("note", ctypes.c_char * 6000),
        ("exported_s", c_double),
        ("plan_s", c_double),
        ("one_device_s", c_double),
    ]


# ---- the functions: result, arguments; those that can fail end in a stw_error and go through `call` ----

_P = c_void_p
_OUT = POINTER(c_void_p)
_CAN_FAIL: dict[str, list[Any]] = {
    "stw_options_create": [_OUT],
    "stw_options_set": [_P, c_char_p, c_char_p],
    "stw_graph_open": [c_char_p, _P, _OUT],
    "stw_graph_parse": [c_char_p, c_size_t, c_char_p, _P, _OUT],
    "stw_machine_open": [c_char_p, _OUT],
    "stw_machine_parse": [c_char_p, c_size_t, c_char_p, _OUT],
    "stw_machine_set_memory": [_P, c_int64],
    "stw_costs_create": [_P, _P, _P, _OUT],
    "stw_plan_create": [_P, _P, _OUT],
    "stw_plan_open": [c_char_p, _P, _P, _OUT],
    "stw_plan_copy": [_P, _OUT],
    "stw_plan_regrain": [_P, _P, _P, _OUT],
    "stw_plan_carried": [_P, _P, _OUT],
    "stw_plan_set_order": [_P, c_int32, POINTER(c_int32), c_int32],
    "stw_plan_fuse": [_P, _P, c_char_p],
    "stw_simulator_create": [_P, _OUT],
    "stw_workspace_create": [_P, _OUT],
    "stw_simulate": [_P, _P, _P, POINTER(CEvaluation)],
    "stw_lower_bounds": [_P, _P, POINTER(CBounds)],
    "stw_method_run": [c_char_p, _P, _P, _OUT],
    "stw_cancel_create": [_OUT],
    "stw_optimize": [_P, _P, POINTER(CWatch), _OUT],
    "stw_compare": [_P, c_char_p, _P, POINTER(CWatch), _OUT],
    "stw_result_write": [_P, c_char_p, c_bool],
    "stw_plan_write": [_P, _P, c_char_p],
    "stw_plan_export": [_P, _P, c_char_p, _P, POINTER(CExportIo)],
    "stw_plan_report": [_P, _P, _P, _P, c_char_p],
    "stw_explain": [_P, _P, _P, POINTER(CWatch), _OUT],
    "stw_explanation_json": [_P, _OUT, POINTER(c_size_t)],
}
_PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "stw_version": (c_char_p, []),
    "stw_options_destroy": (None, [_P]),
    "stw_options_get": (c_char_p, [_P, c_char_p]),
    "stw_graph_destroy": (None, [_P]),
    "stw_graph_name": (c_char_p, [_P]),
    "stw_graph_fingerprint": (c_char_p, [_P]),
    "stw_graph_node_count": (c_int32, [_P]),
    "stw_graph_op_count": (c_int32, [_P]),
    "stw_graph_node": (c_bool, [_P, c_int32, POINTER(CNode)]),
    "stw_graph_machine": (_P, [_P]),
    "stw_graph_size_scale": (c_double, [_P]),
    "stw_machine_destroy": (None, [_P]),
    "stw_machine_list": (c_bool, [c_int32, POINTER(c_char_p), POINTER(c_char_p)]),
    "stw_machine_name": (c_char_p, [_P]),
    "stw_machine_warning": (c_char_p, [_P]),
    "stw_machine_device_count": (c_int32, [_P]),
    "stw_machine_device_name": (c_char_p, [_P, c_int32]),
    "stw_machine_device_memory": (c_int64, [_P, c_int32]),
    "stw_costs_destroy": (None, [_P]),
    "stw_costs_op_us": (c_double, [_P, c_int32, c_int32]),
    "stw_costs_warning": (c_char_p, [_P, c_int32]),
    "stw_plan_destroy": (None, [_P]),
    "stw_plan_machine": (_P, [_P]),
    "stw_plan_warning": (c_char_p, [_P]),
    "stw_plan_device": (POINTER(c_int32), [_P]),
    "stw_plan_priority": (POINTER(c_double), [_P]),
    "stw_plan_group": (POINTER(c_int32), [_P]),
    "stw_plan_order": (POINTER(c_int32), [_P, c_int32, POINTER(c_int32)]),
    "stw_plan_set_device": (None, [_P, POINTER(c_int32)]),
    "stw_plan_set_priority": (None, [_P, POINTER(c_double)]),
    "stw_plan_set_group": (None, [_P, POINTER(c_int32)]),
    "stw_simulator_destroy": (None, [_P]),
    "stw_workspace_destroy": (None, [_P]),
    "stw_reason_name": (c_char_p, [c_int]),
    "stw_measured_share": (c_double, [_P, _P]),
    "stw_method_list": (c_bool, [c_int32, POINTER(c_char_p), POINTER(c_char_p)]),
    "stw_method_exists": (c_bool, [c_char_p]),
    "stw_cancel_destroy": (None, [_P]),
    "stw_cancel_request": (None, [_P]),
    "stw_result_destroy": (None, [_P]),
    "stw_result_plan": (_P, [_P]),
    "stw_result_best": (c_int32, [_P]),
    "stw_result_candidate": (c_bool, [_P, c_int32, POINTER(CCandidate)]),
    "stw_result_lacking": (c_char_p, [_P]),
    "stw_result_bounds": (CBounds, [_P]),
    "stw_result_measured_share": (c_double, [_P]),
    "stw_result_is_interrupted": (c_bool, [_P]),
    "stw_result_is_short_of_memory": (c_bool, [_P]),
    "stw_result_is_optimal": (c_bool, [_P]),
    "stw_result_limits": (c_char_p, [_P]),
    "stw_result_noise": (CNoise, [_P]),
    "stw_explanation_destroy": (None, [_P]),
    "stw_bytes_free": (None, [_P]),
    "stw_export_list": (c_bool, [c_int32, POINTER(c_char_p), POINTER(c_char_p)]),
}


def _places() -> Iterator[str]:
    """Where the library may be, best first."""
    here = Path(__file__).resolve().parent
    yield str(here / "libstowage.so")
    checkout = here.parents[2] if len(here.parents) > 2 else here
    if (checkout / "include" / "stowage.h").is_file():
        for build in ("release", "python"):
            yield str(checkout / "build" / build / "libstowage.so")
    installed = ctypes.util.find_library("stowage")
    if installed is not None:
        yield installed


def _open() -> ctypes.CDLL:
    named = os.environ.get("STOWAGE_LIBRARY")
    for place in [named] if named else _places():
        if not named and os.path.isabs(place) and not os.path.isfile(place):
            continue
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            raise ImportError(f"stowage: the library {place} cannot be loaded: {error}") from None
    raise ImportError(
        "stowage: libstowage.so is not there. Set STOWAGE_LIBRARY to it, or, in a checkout, run 'make' and then "
        "'pip install ./python', which builds it where CMake, a C compiler, zlib and libzstd are installed"
    )


def _declare(library: ctypes.CDLL) -> None:
    try:
        for name, arguments in _CAN_FAIL.items():
            function = getattr(library, name)
            function.restype, function.argtypes = c_int, [*arguments, POINTER(CError)]
        for name, (result, arguments) in _PLAIN.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise ImportError(f"stowage: the library {library._name} does not fit this package: {error}") from None
    version = library.stw_version().decode()
    if version.split(".")[:2] != VERSION.split(".")[:2]:  # structures may differ
        raise ImportError(f"stowage: the library {library._name} is version {version}, this package needs {VERSION}")


library = _open()
_declare(library)


# ---- calls ----


def call(name: str, *arguments: Any) -> None:
    """A function that can fail; raises Error with the library's message."""
    error = CError()
    status = getattr(library, name)(*arguments, ctypes.byref(error))
    if status == 0:
        return
    message = error.message.decode(errors="replace") or f"{name} failed"
    if status == -3:
        raise MemoryError(message)
    raise Error(message, STATUS.get(status, "input"))


class Handle:
    """An object of the library and what must outlive it; given back with the last reference."""

    __slots__ = ("pointer", "_destroy", "_keep", "__weakref__")

    def __init__(self, pointer: Optional[int], destroy: Optional[Callable[[int], None]], *keep: Any) -> None:
        self.pointer = pointer
        self._destroy = destroy
        self._keep = keep

    def __del__(self) -> None:
        destroy, pointer = getattr(self, "_destroy", None), getattr(self, "pointer", None)  # lacking if it was never finished
        if destroy is not None and pointer:
            destroy(pointer)
            self.pointer = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("objects of stowage cannot be pickled or deep-copied; save() them and load the file (plans have copy())")


def create(name: str, destroy: str, *arguments: Any, keep: tuple = ()) -> Handle:
    """Calls a function whose last argument but the error is the object that it makes."""
    out = c_void_p()
    call(name, *arguments, ctypes.byref(out))
    return Handle(out.value, getattr(library, destroy), *keep)


def named_list(name: str) -> dict[str, str]:
    """Names with descriptions, from one of the functions that give the i-th."""
    found: dict[str, str] = {}
    first, second = c_char_p(), c_char_p()
    while getattr(library, name)(len(found), ctypes.byref(first), ctypes.byref(second)):
        found[text(first.value)] = text(second.value)
    return found


def text(value: Optional[bytes]) -> str:
    return value.decode(errors="replace") if value is not None else ""


def c_text(value: str) -> bytes:
    """Text as C takes it, which ends it at the first NUL: a text with one would be another text there."""
    if "\0" in value:
        raise ValueError(f"embedded null byte in {value!r}")
    return value.encode()


def path_bytes(path: Any) -> bytes:
    path = os.fsencode(os.fspath(path))
    if b"\0" in path:
        raise ValueError(f"embedded null byte in the path {path!r}")
    return path


def whole(value: Any, bits: int = 32) -> int:
    """A whole number that C can hold: others would lose their upper bits or their fraction without a word."""
    if hasattr(value, "is_integer") and not hasattr(value, "__index__"):  # a float, also numpy's
        if not value.is_integer():
            raise ValueError(f"{value} is not a whole number")
        value = int(value)
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{value!r} is not a whole number") from None
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise OverflowError(f"{number} is beyond {bits} bits")
    return number


def warn(message: str) -> None:
    """A warning that points at the first line outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in ("stowage", "contextlib"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def option_text(name: str, value: Any) -> str:
    """A value as it stands on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(int(value)) if name != "budget" and value.is_integer() else repr(value)
    if isinstance(value, dict):
        return ",".join(f"{key}={v}" for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(str(v) for v in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def make_options(options: dict[str, Any]) -> Handle:
    """Options by name, with underscores for dashes; None leaves the default."""
    handle = create("stw_options_create", "stw_options_destroy")
    for name, value in options.items():
        if value is not None:
            name = name.replace("_", "-")
            call("stw_options_set", handle.pointer, c_text(name), c_text(option_text(name, value)))
    return handle
