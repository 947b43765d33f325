"""XLA's hook for changed modules, as jax.extend.xla offers it."""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterator, Optional

import jax

from .._library import Error

Change = Callable[[bytes], Optional[bytes]]

_NAME = "stowage"
_active = threading.Lock()  # one hook at a time: XLA's registry belongs to the process


def _registry() -> Any:
    try:
        import jax.extend.xla as xla

        xla.register_hlo_module_transformation, xla.clear_hlo_module_transformation, xla.PipelineStage.POST_SCHEDULER
    except (ImportError, AttributeError):
        raise Error(f"jax {jax.__version__} lets nobody change modules before code is made; 0.10.2 and newer do") from None
    return xla


@contextlib.contextmanager
def _no_persistent_cache() -> Iterator[None]:
    """The cache on disk does not know of changed modules: nothing is taken from it or put into it."""
    state: Any
    try:
        from jax._src.config import enable_compilation_cache as state

        before = state.get_global()
    except (ImportError, AttributeError):
        before = getattr(jax.config, "jax_enable_compilation_cache")
        state = contextlib.nullcontext
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        with state(False):  # what a context manager of jax set for this thread counts before the global value
            _forget_cache_state()
            yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        _forget_cache_state()


def _forget_cache_state() -> None:
    """Whether the cache is in use is decided once and remembered."""
    try:
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()
    except (ImportError, AttributeError):
        pass


@contextlib.contextmanager
def hooked(change: Change, platform: str) -> Iterator[None]:
    """Within, `change` is called with every module that XLA is about to make code from. What it raises must not reach XLA."""
    xla = _registry()
    if not _active.acquire(blocking=False):
        raise Error("another stowage.jax context is open; one at a time can change modules")
    try:
        stage = xla.PipelineStage.POST_SCHEDULER
        open_now = [True]

        def called(data: bytes) -> Optional[bytes]:
            return change(data) if open_now[0] else None  # a backend that starts later registers it again

        with _no_persistent_cache():
            jax.clear_caches()
            try:
                xla.register_hlo_module_transformation(called, name=_NAME, stage=stage, platforms=platform)
            except NotImplementedError as error:
                raise Error(f"jax {jax.__version__}: {error}") from None
            try:
                yield
            finally:
                open_now[0] = False
                xla.clear_hlo_module_transformation(name=_NAME, stage=stage, platforms=platform)
    finally:
        _active.release()


def module_text(data: bytes) -> str:
    """A module as XLA prints it."""
    return _hlo().HloModule.from_serialized_hlo_module_proto(data).to_string()


def check_module(data: bytes) -> None:
    """Refuses bytes that XLA cannot read, or whose order it does not accept."""
    try:
        module = _hlo().HloModule.from_serialized_hlo_module_proto(data)
        verify = getattr(module.schedule(), "verify", None) if hasattr(module, "schedule") else None
        if verify is not None:
            verify()
    except Exception as error:
        raise Error(f"XLA does not accept the planned module: {str(error).splitlines()[0]}") from None


def _hlo() -> Any:
    try:
        from jax._src.lib import hlo
    except ImportError:
        from jax._src.lib import xla_client

        hlo = getattr(xla_client, "hlo", None) or xla_client._xla
    return hlo
