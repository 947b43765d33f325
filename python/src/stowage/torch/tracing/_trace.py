"""Graphs from PyTorch modules. A module is traced with fake tensors: nothing is computed, however large it is."""
from __future__ import annotations

import contextlib
import csv
import os
import re
from typing import Any, Callable, Iterator, NamedTuple, Optional, Union

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import flop_counter
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from ..._files import whole_file
from ..._graph import Graph
from ..._library import Error
from ._paths import PATH, Paths
from ._times import Clock, device_kind

_DTYPE = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int64": "s64", "int32": "s32", "int16": "s16",
    "int8": "s8", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "complex64": "c64", "complex128": "c128",
    "bool": "pred", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
}  # fmt: skip
RATE = 0.01  # of the traced update
_FREE = {"_unsafe_view"}  # aliases in fact, though their schema does not say so
_REDUCES = {"sum", "mean", "amax", "amin", "max", "min", "prod", "var", "std", "var_mean", "norm", "linalg_vector_norm", "argmax",
            "argmin", "any", "all", "logsumexp", "nll_loss_forward"}  # fmt: skip
# Write their running statistics, arguments 3 and 4, when argument 5 says that they train; their schemas do not tell.
_TRACKS_STATISTICS = {"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"}
_MOVES = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}


def trace(module: torch.nn.Module, *args: Any, train: bool = True, measure: bool = False, loss: Optional[Callable[..., Any]] = None,
          name: Optional[str] = None, kind: Optional[str] = None, costs: Union[str, "os.PathLike[str]", None] = None,
          portable: bool = False, **kwargs: Any) -> Graph:  # fmt: skip
    """The graph of one step of a module called with ``args`` and ``kwargs``.

    With ``train`` the step is forward, backward and a plain SGD update of every parameter that requires a gradient; else
    forward alone. ``loss`` makes the loss from the module's output; without it, a scalar output is the loss, as is an
    attribute ``loss`` of the output, else the mean of squares of its first floating-point tensor stands in for one.

    Parameters carry their paths in the module as labels. FLOPs follow torch.utils.flop_counter; other ops count one per
    element. An op that works in place counts its result as memory of its own.

    ``measure`` runs every op on the device that its tensors are on and adds the times, under ``kind`` (a kind of device as
    in machine files; without it, "h200" and the like from the name of the GPU, "cpu8" for eight threads). ``costs`` also
    writes them to a file for ``costs=`` of :func:`stowage.optimize` and ``--costs``.

    With ``portable`` the step has only ops that CPUs and GPUs both have, which plans over both need: attention as matrix products
    and a softmax, batch norm without cuDNN. A module with tensors on several devices is always traced so. Its ops cannot be timed
    (``measure``): they are on no device.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"a torch.nn.Module is needed, not {type(module).__name__}")
    step = Step(module, args, kwargs, train, loss, portable)
    nodes = Nodes(step)
    file = nodes.opgraph(name or type(module).__name__)
    if measure and step.portable:
        raise Error("a portable step belongs to no device, so its ops are not timed; pass measure=False and calibrate the devices instead, "
                    "or have the module and its inputs on one device")  # fmt: skip
    if measure:
        _measure(nodes, kind)
    graph = Graph.parse(file, f"the trace of {type(module).__name__}")
    if costs is not None:
        if not measure:
            raise ValueError("costs are written of measured times only; pass measure=True")
        costs_of(file, costs)
    return graph


def costs_of(opgraph: dict[str, Any], path: Union[str, "os.PathLike[str]"]) -> None:
    """Writes the measured times of an opgraph as a costs file: rows name,kind,us."""
    with whole_file(path, "w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened, lineterminator="\n")
        rows.writerow(["name", "kind", "us"])
        for node in opgraph["nodes"]:
            for kind, us in node.get("us", {}).items():
                rows.writerow([node["name"], kind, us])


# ---- the trace ----


class Update(NamedTuple):
    """The fx nodes of one parameter's update: new = parameter - scaled, scaled = rate * gradient."""

    parameter: str  # its path in the module
    gradient: Any
    scaled: Any
    new: Any


class Step:
    """The traced step: an fx graph, and what its placeholders and its outputs are. A ``portable`` one is traced as on a CPU."""

    def __init__(self, module: torch.nn.Module, args: tuple, kwargs: dict, train: bool, loss: Optional[Callable[..., Any]],
                 portable: bool = False) -> None:  # fmt: skip
        self.parameters = dict(module.named_parameters())
        self.buffers = dict(module.named_buffers())
        flat, spec = tree_flatten((args, kwargs))
        self.tensors = [k for k, value in enumerate(flat) if isinstance(value, torch.Tensor)]
        self.trained = [n for n, p in self.parameters.items() if train and p.requires_grad]
        if train and not self.trained:
            raise Error("no parameter requires a gradient, so there is nothing to train; pass train=False")

        paths = Paths(module)

        def run(parameters: list, buffers: list, tensors: list) -> tuple:
            state = dict(zip([*self.parameters, *self.buffers], [*parameters, *buffers]))
            values = list(flat)
            for k, tensor in zip(self.tensors, tensors):
                values[k] = tensor
            inner_args, inner_kwargs = tree_unflatten(values, spec)
            if not train:
                with torch.no_grad():
                    out = torch.func.functional_call(module, state, inner_args, inner_kwargs)
                leaves, self.output_spec = tree_flatten(_plain(out))
                paths.mark()
                return leaves, []
            value = loss_of(torch.func.functional_call(module, state, inner_args, inner_kwargs), loss)
            trained = [state[n] for n in self.trained]
            paths.follow(value)
            gradients = torch.autograd.grad(value, trained, allow_unused=True)
            paths.mark()
            with torch.no_grad():
                return [value], [None if g is None else p - RATE * g for p, g in zip(trained, gradients)]

        self.inputs = [flat[k].detach() for k in self.tensors]
        given = [list(self.parameters.values()), list(self.buffers.values()), self.inputs]
        self.portable = portable = portable or len({tensor.device for tensors in given for tensor in tensors}) > 1
        try:
            with paths.recorded(), _recurrent_steps(module), _plain_attention() if portable else contextlib.nullcontext():
                traced = make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True)(*(_on_cpu(given) if portable else given))
        except (Error, TypeError, ValueError):
            raise
        except Exception as error:  # whatever the module or the tracer raised
            raise Error(f"{type(module).__name__} cannot be traced: {str(error).splitlines()[0] if str(error) else error!r}") from error
        self.graph = traced.graph
        self.module = traced
        self.train = train

    def sources(self) -> list[tuple[str, str, str]]:
        """(kind, name, label) of each placeholder."""
        return [
            *(("parameter", f"p_{_identifier(n)}", n) for n in self.parameters),
            *(("buffer", f"b_{_identifier(n)}", n) for n in self.buffers),
            *(("input", f"input_{k}", "") for k in range(len(self.tensors))),
        ]

    def outputs(self) -> tuple[list[Any], list[Any]]:
        """The fx nodes of the outputs (training: the loss alone) and of the new parameters, None where there is none."""
        out = next(n for n in self.graph.nodes if n.op == "output").args[0]
        flat = list(tree_flatten(out)[0])  # None is a leaf
        count = len(flat) - len(self.trained)  # of what the module returns, numbers and None included
        return flat[:count], flat[count:]

    def updates(self) -> list[Update]:
        """What the traced step does with each gradient: p - rate * g."""
        found = []
        for name, new in zip(self.trained, self.outputs()[1]):
            if new is not None:
                scaled = new.args[1]
                found.append(Update(name, gradient=scaled.args[0], scaled=scaled, new=new))
        return found


@contextlib.contextmanager
def _recurrent_steps(module: torch.nn.Module) -> Iterator[None]:
    """A recurrent layer is traced as its steps, not as one op of oneDNN or cuDNN. cuDNN is off within such layers alone: it also
    decides on ops of others. (torch.backends.mkldnn.flags warns of GPUs.)"""
    onednn, cudnn = torch._C._get_mkldnn_enabled(), torch._C._get_cudnn_enabled()
    hooks = []
    for layer in module.modules():
        if isinstance(layer, torch.nn.RNNBase):
            hooks.append(layer.register_forward_pre_hook(lambda *_: torch._C._set_cudnn_enabled(False)))
            hooks.append(layer.register_forward_hook(lambda *_: torch._C._set_cudnn_enabled(cudnn)))
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(onednn)
        torch._C._set_cudnn_enabled(cudnn)
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def _plain_attention() -> Iterator[None]:
    """Attention is traced as matrix products and a softmax: its fused forms are other ops on a CPU than on a GPU."""
    sorts = [sort for sort in ("flash", "mem_efficient", "cudnn") if hasattr(torch.backends.cuda, f"enable_{sort}_sdp")]
    before = {sort: getattr(torch.backends.cuda, f"{sort}_sdp_enabled")() for sort in [*sorts, "math"]}
    for sort in before:
        getattr(torch.backends.cuda, f"enable_{sort}_sdp")(sort == "math")
    try:
        yield
    finally:
        for sort, enabled in before.items():
            getattr(torch.backends.cuda, f"enable_{sort}_sdp")(enabled)


def _on_cpu(given: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
    """Fake tensors like these in the CPU's memory."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        return [[torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu", requires_grad=t.requires_grad) for t in tensors]
                for tensors in given]  # fmt: skip


def _plain(out: Any) -> Any:
    """Outputs that behave like a dict (those of Hugging Face) as one."""
    return dict(out) if hasattr(out, "items") else out


def loss_of(out: Any, given: Optional[Callable[..., Any]]) -> torch.Tensor:
    if given is not None:
        value = given(out)
    elif isinstance(getattr(out, "loss", None), torch.Tensor):
        value = out.loss
    else:
        leaves = [t for t in tree_flatten(_plain(out))[0] if isinstance(t, torch.Tensor) and t.is_floating_point()]
        if not leaves:
            raise Error("the module returns no floating-point tensor; pass loss=, a function of its output")
        value = leaves[0] if leaves[0].numel() == 1 else leaves[0].pow(2).mean()
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise Error("the loss must be a tensor with one element; pass loss=, a function of the module's output")
    return value.reshape(())


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


# ---- from fx nodes to the nodes of an opgraph ----


class Nodes:
    def __init__(self, step: Step) -> None:
        self.step = step
        self.nodes: list[dict[str, Any]] = []
        self.id: dict[Any, int] = {}  # fx node -> id
        self.fx: dict[int, Any] = {}  # id of an op -> fx node
        self._storage: dict[int, Any] = {}  # id -> what it is an alias of
        self._source: dict[Any, int] = {}  # storage -> parameter or buffer
        self._writer: dict[Any, int] = {}  # storage -> the op that wrote it last
        self._readers: dict[Any, set[int]] = {}  # storage -> ops that read it since
        self._tracker: dict[int, int] = {}  # buffer -> the batch norm that wrote it last
        self.stale: list[tuple[int, int]] = []  # (op that wrote in place, op that then reads it by an older name, or made it if it is returned)
        live = self._live()
        sources = iter(step.sources())
        for n in step.graph.nodes:
            if n.op == "placeholder":
                self._add_source(n, *next(sources))
            elif n.op == "get_attr":
                self._add_constant(n)
            elif n.op == "call_function" and n in live:
                self._add_call(n)
        self._mark_outputs()

    def memory(self, n: Any) -> Any:
        """What the value of an fx node is an alias of: nodes of which it is equal share memory. The id of a node, or with ops of several
        results a pair."""
        return self._storage[self.id[n]]

    def written(self, n: Any) -> list[Any]:
        """The memory that a call writes in place."""
        return [self.memory(m) for m in _written(n) if m in self.id]

    def tracked(self, n: Any) -> list[Any]:
        """The memory of running statistics that a call writes."""
        return [self.memory(m) for m in _statistics(n) if m in self.id]

    def _live(self) -> set[Any]:
        """What an output or a write in place depends on."""
        live: set[Any] = set()
        for n in reversed(self.step.graph.nodes):
            if n.op == "output" or n in live or (n.op == "call_function" and (_writes(n.target) or _statistics(n))):
                live.add(n)
                live.update(n.all_input_nodes)
        return live

    def _add(self, n: Any, **node: Any) -> int:
        k = len(self.nodes)
        self.nodes.append({"id": k, **node})
        self.id[n] = k
        self._storage[k] = k
        return k

    def _add_source(self, n: Any, kind: str, name: str, label: str) -> None:
        value = n.meta["val"]
        extra = {"label": label} if label else {}
        k = self._add(n, name=name, op=kind, inputs=[], **_tensor(value), bytes=_bytes(value), **extra)
        if kind in ("parameter", "buffer"):
            self._source[k] = k

    def _add_constant(self, n: Any) -> None:
        value = n.meta.get("val")
        value = value if value is not None else attribute(self.step.module, n.target)
        if isinstance(value, torch.Tensor):
            self._add(n, name=n.name, op="constant", inputs=[], **_tensor(value), bytes=_bytes(value))

    def _add_call(self, n: Any) -> None:
        values = [v for v in tree_flatten(n.meta.get("val"))[0] if isinstance(v, torch.Tensor)]
        if not values and not n.all_input_nodes:
            return
        op, view = _op_name(n.target), is_view(n)
        inputs = [self.id[m] for m in _arguments(n) if m in self.id]
        view = view and bool(inputs)
        node = {"name": n.name, "op": op, "inputs": inputs, **_tensor(values[0] if values else None)}
        node["bytes"] = 0 if view else sum(_bytes(v) for v in values)
        if view:
            k = self._add(n, **node, view=True)
            self._storage[k] = self._alias_of(n, inputs[0])
            return
        path = {"module": n.meta[PATH]} if n.meta.get(PATH) else {}
        k = self._add(n, **node, flops=_flops(n, op, values), **path)
        self.fx[k] = n
        self._order_writes(n, k)
        self._keep_statistics(n, k)

    def _keep_statistics(self, n: Any, k: int) -> None:
        """Batch norm runs where the buffers are that it writes. (They are not what it `updates`: its output has memory of its own.)"""
        written = [self.id[m] for m in _statistics(n) if m in self.id]
        before = {self._tracker[buffer] for buffer in written if buffer in self._tracker}
        if before:  # a layer that is called twice
            self.nodes[k]["control"] = sorted(before | set(self.nodes[k].get("control", ())))
        self._tracker.update(dict.fromkeys(written, k))
        if written:
            self.nodes[k]["colocate"] = written[0]
        for buffer in written[1:]:
            self.nodes[buffer]["colocate"] = written[0]

    def _alias_of(self, n: Any, first: int) -> Any:
        storage = self._storage[first]
        several = _op_name(n.target) == "getitem" and not self.nodes[first].get("view")
        return (storage, n.args[1]) if several else storage  # each result of an op is a storage of its own

    def _root(self, k: int) -> int:
        while self.nodes[k].get("view"):
            k = self.nodes[k]["inputs"][0]
        return k

    def _order_writes(self, n: Any, k: int) -> None:
        """Readers before and after a write in place keep their places. What reads the writer itself needs nothing more."""
        node, control = self.nodes[k], set()
        written = [self._storage[self.id[m]] for m in _written(n) if m in self.id]
        for i in node["inputs"]:
            storage = self._storage[i]
            if storage in self._writer:
                control.add(self._writer[storage])
                if self._root(i) != self._writer[storage]:
                    self.stale.append((self._writer[storage], k))
            if storage in written:
                control |= self._readers.get(storage, set())
            self._readers.setdefault(storage, set()).add(k)
        for storage in written:
            self._writer[storage], self._readers[storage] = k, set()
            source = self._source.pop(storage, None)
            if source is not None and "updates" not in node:
                node["updates"] = source
        if len(written) > 0 and not _returns_several(n.target):
            self._storage[k] = written[0]
        control -= {k, *node["inputs"]}
        if control:
            node["control"] = sorted(control)

    def _mark_outputs(self) -> None:
        outputs, new = self.step.outputs()
        self.output = [self.id[n] for n in outputs if n in self.id]
        self.loss = self.output[0] if self.step.train and self.output else None
        for k in self.output:
            writer, root = self._writer.get(self._storage[k]), self._root(k)
            if writer is not None and root != writer and root in self.fx:
                self.stale.append((writer, root))
        names = list(self.step.parameters)
        for label, n in zip(self.step.trained, new):
            if n is None or n not in self.id:  # its gradient is not part of the loss
                continue
            node, parameter = self.nodes[self.id[n]], names.index(label)
            if parameter in self._source.values():  # not written by the module itself
                node["updates"] = parameter
            self.output.append(node["id"])

    def opgraph(self, name: str) -> dict[str, Any]:
        file: dict[str, Any] = {"format": "opgraph", "version": 1, "name": name, "family": name, "outputs": self.output}
        if self.loss is not None:
            file["loss"] = self.loss
        return {**file, "nodes": self.nodes}


def _tensor(value: Any) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {"dtype": "none", "shape": []}
    dtype = _DTYPE.get(str(value.dtype).split(".")[-1])
    if dtype is None:
        raise Error(f"tensors of {value.dtype} are not supported")
    return {"dtype": dtype, "shape": [int(size) for size in value.shape]}


def _bytes(value: torch.Tensor) -> int:
    return int(value.numel()) * value.element_size()


def attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _arguments(n: Any) -> list[Any]:
    """The fx nodes among the arguments, in order, with repeats."""
    return [m for m in tree_flatten((n.args, n.kwargs))[0] if isinstance(m, torch.fx.Node)]


def _op_name(target: Any) -> str:
    packet = getattr(target, "overloadpacket", target)
    return getattr(packet, "__name__", str(packet))


def _schema_arguments(target: Any) -> Iterator[Any]:
    schema = getattr(target, "_schema", None)
    return iter(schema.arguments if schema is not None else ())


def _writes(target: Any) -> bool:
    return any(a.alias_info is not None and a.alias_info.is_write for a in _schema_arguments(target))


def _written(n: Any) -> list[Any]:
    """The fx nodes that the call writes in place."""
    found = []
    for k, a in enumerate(_schema_arguments(n.target)):
        if a.alias_info is not None and a.alias_info.is_write:
            value = n.args[k] if k < len(n.args) else n.kwargs.get(a.name)
            found += [m for m in tree_flatten(value)[0] if isinstance(m, torch.fx.Node)]
    return found


def _statistics(n: Any) -> list[Any]:
    """The fx nodes of running statistics that the call writes without its schema saying so."""
    if _op_name(n.target) not in _TRACKS_STATISTICS or len(n.args) < 6 or not n.args[5]:
        return []
    return [m for m in n.args[3:5] if isinstance(m, torch.fx.Node)]


def _returns_several(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and len(schema.returns) != 1


def is_view(n: Any) -> bool:
    name = _op_name(n.target)
    if name == "getitem" or name in _FREE:
        return True
    schema = getattr(n.target, "_schema", None)
    return (
        schema is not None
        and len(schema.returns) > 0
        and schema.returns[0].alias_info is not None
        and not any(r.alias_info is not None and r.alias_info.is_write for r in schema.returns)
    )


_FORMULAS: dict[Any, Any] = getattr(flop_counter, "flop_registry", None) or getattr(flop_counter, "flop_mapping", {})


def _apply(formula: Callable[..., Any], args: Any, kwargs: Any, out: Any) -> Any:
    if hasattr(flop_counter, "flop_registry"):
        return formula(*args, **kwargs, out_val=out)
    shapes = tree_map(lambda v: v.shape if isinstance(v, torch.Tensor) else v, (args, kwargs, out))  # before torch 2.2
    return formula(*shapes[0], **shapes[1], out_shape=shapes[2])


def _flops(n: Any, op: str, values: list[torch.Tensor]) -> int:
    """By the formulas of torch.utils.flop_counter; else one per element of what is written or, of reductions, read."""
    formula = _FORMULAS.get(getattr(n.target, "overloadpacket", None))
    if formula is not None:
        args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), lambda m: m.meta.get("val"))
        try:
            return int(_apply(formula, args, kwargs, n.meta["val"]))
        except Exception:  # a formula that does not know this form of the op
            pass
    if op in _MOVES:
        return 0
    read = [m.meta["val"].numel() for m in _arguments(n) if isinstance(m.meta.get("val"), torch.Tensor)]
    return int(max(read, default=0) if op in _REDUCES else max((v.numel() for v in values), default=0))


def _measure(nodes: Nodes, kind: Optional[str]) -> None:
    clock = Clock()
    for k, n in nodes.fx.items():
        us = clock.microseconds(n)
        if us is not None:
            nodes.nodes[k]["us"] = {kind or device_kind(clock.device): round(us, 3)}
    clock.warn()
