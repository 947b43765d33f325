"""The path of the module that each op of a traced step belongs to. Ops of the backward pass have that of their forward op."""
from __future__ import annotations

import bisect
import contextlib
from typing import Any, Iterator, Optional

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

PATH = "stowage_module"  # the key of an fx node's meta; the path of the traced module itself is ""


class Paths:
    """Marks the fx nodes of a trace as they are made: those between two calls or returns belong to the module on top."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._names = {inner: name for name, inner in module.named_modules()}
        self._stack = [""]
        self._last: Optional[Any] = None  # that is marked
        self._began = [-1]  # autograd's counter when each stretch of the forward pass began, ascending
        self._path_of = [""]

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        hooks = []
        for inner in self._names:
            hooks.append(inner.register_forward_pre_hook(self._enter, prepend=True))
            hooks.append(inner.register_forward_hook(self._leave, always_call=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, inner: torch.nn.Module, *_: Any) -> None:
        self._change(lambda: self._stack.append(self._names[inner]))

    def _leave(self, *_: Any) -> None:
        self._change(self._stack.pop)

    def _change(self, change: Any) -> None:
        self.mark()
        change()
        self._began.append(torch.autograd._get_sequence_nr())
        self._path_of.append(self._stack[-1])

    def mark(self) -> None:
        """What has been made since the last mark belongs to the module on top."""
        mode = get_proxy_mode()
        if mode is None:
            return
        nodes = mode.tracer.graph._root
        n = nodes if self._last is None else self._last
        while n._next is not nodes:
            n = n._next
            n.meta[PATH] = self._stack[-1]
        self._last = None if n is nodes else n

    def follow(self, loss: torch.Tensor) -> None:
        """To be called before the gradient of this value is taken: what autograd does for an op belongs where the op does."""
        self.mark()
        waiting, seen = [loss.grad_fn], {loss.grad_fn}
        while waiting:
            at = waiting.pop()
            if at is None:
                continue
            if at.name() != "torch::autograd::AccumulateGrad":
                path = self._path_of[bisect.bisect_right(self._began, at._sequence_nr()) - 1]
                at.register_prehook(lambda *_, path=path: self._visit(path))
                at.register_hook(lambda *_: self._visit(None))
            for behind, _ in at.next_functions:
                if behind not in seen:
                    seen.add(behind)
                    waiting.append(behind)

    def _visit(self, path: Optional[str]) -> None:
        self.mark()
        if path is None:
            self._stack.pop()
        else:
            self._stack.append(path)
