"""Graphs: the operators of one step."""
from __future__ import annotations

import gzip
import json
import operator
import os
from collections.abc import Sequence as AbstractSequence
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from . import _text
from ._files import whole_file
from ._library import CNode, Error, Handle, c_text, create, library, make_options, path_bytes, text
from ._machine import Machine

Path = Union[str, "os.PathLike[str]"]
Shape = Union[str, Mapping[str, Union[int, Sequence[int]]]]


@dataclass(frozen=True)
class Node:
    """One node of a graph."""

    id: int
    name: str
    op: str  #: the operator's name in the file
    kind: str  #: "op", "view", "parameter", "buffer", "input" or "constant"
    label: str  #: of parameters, their name in the model; else ""
    dtype: str
    shape: tuple[int, ...]
    bytes: int  #: what its output occupies
    flops: int
    inputs: tuple[int, ...]  #: ids in argument order
    root: int  #: what a view is a view of; else the id itself
    updates: Optional[int]  #: the parameter or buffer that this op writes in place


class Nodes(AbstractSequence):
    """The nodes of a graph by id. Nodes are made when they are asked for."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._count = library.stw_graph_node_count(handle.pointer)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(self._count))]
        number = operator.index(index)
        k = number + self._count if number < 0 else number
        n = CNode()
        if not 0 <= k < self._count or not library.stw_graph_node(self._handle.pointer, k, n):
            raise IndexError(f"node {index}; the graph has {self._count}")
        return Node(
            id=k,
            name=text(n.name),
            op=text(n.op),
            kind=text(n.kind),
            label=text(n.label),
            dtype=text(n.dtype),
            shape=tuple(n.shape[: n.rank]),
            bytes=n.bytes,
            flops=n.flops,
            inputs=tuple(n.input[: n.input_count]),
            root=n.root,
            updates=n.updates if n.updates >= 0 else None,
        )

    def __iter__(self) -> Iterator[Node]:
        return (self[k] for k in range(self._count))

    def __repr__(self) -> str:
        return f"<{self._count} nodes>"


class Graph:
    """The operators of one step. Immutable; threads may share it.

    Made by :func:`load`, :meth:`parse`, ``stowage.torch.trace`` or ``stowage.onnx.load``.
    """

    def __init__(self, handle: Handle, path: Optional[str] = None) -> None:
        self._handle = handle
        self._totals: Optional[dict[str, Any]] = None
        self._data: Optional[bytes] = None  # what it was parsed from
        #: the file it was read from, whatever the current directory is now; None if there is none
        self.path = None if path is None or path == "-" else os.path.abspath(path)

    @staticmethod
    def parse(data: Union[bytes, str, Mapping[str, Any]], label: str = "graph", shape: Optional[Shape] = None,
              file_limit: Union[int, str, None] = None) -> Graph:  # fmt: skip
        """A graph from memory: the bytes of any file that :func:`load` reads, or an opgraph as text or as a dict.

        ``label`` stands for the path in messages; ``shape`` and ``file_limit`` as for :func:`load`.
        """
        if isinstance(data, Mapping):
            data = json.dumps(data)
        if isinstance(data, str):
            data = data.encode()
        options = make_options({"shape": shape_text(shape), "file_limit": file_limit})
        handle = create("stw_graph_parse", "stw_graph_destroy", data, len(data), c_text(label), options.pointer)
        graph = Graph(handle)
        graph._data = data
        return graph

    @property
    def name(self) -> str:
        return text(library.stw_graph_name(self._handle.pointer))

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits; names and times play no part in it."""
        return text(library.stw_graph_fingerprint(self._handle.pointer))

    @property
    def machine(self) -> Optional[Machine]:
        """The machine that the file describes with the graph (dnn-partitioning inputs do), else None."""
        pointer = library.stw_graph_machine(self._handle.pointer)
        return Machine(Handle(pointer, None, self._handle))._counted_in(self._size_scale) if pointer else None

    @property
    def _size_scale(self) -> float:
        """What sizes and memories are divided by to be bytes."""
        return float(library.stw_graph_size_scale(self._handle.pointer))

    @property
    def nodes(self) -> Nodes:
        """All nodes, by id, in topological order."""
        return Nodes(self._handle)

    @property
    def ops(self) -> list[Node]:
        """The nodes that compute: neither views nor sources."""
        return [node for node in self.nodes if node.kind == "op"]

    @property
    def bytes(self) -> int:
        """What all values of a step occupy together; views count nothing."""
        return self._sums()["bytes"]

    @property
    def parameter_bytes(self) -> int:
        """What parameters and buffers occupy."""
        return self._sums()["parameter_bytes"]

    @property
    def flops(self) -> int:
        """The arithmetic of one step."""
        return self._sums()["flops"]

    def save(self, path: Path) -> None:
        """Writes the file of the graph, for the command line: what it was parsed or traced from, or a copy of the file that
        it was loaded from; packed if the path ends in ".gz"."""
        data = self._data
        if data is None and self.path is not None:
            with open(self.path, "rb") as opened:
                data = opened.read()
        if data is None:
            raise Error("the graph was not made from a file")
        if os.fspath(path).endswith(".gz") and data[:2] != b"\x1f\x8b":
            data = gzip.compress(data)
        with whole_file(path) as opened:
            opened.write(data)

    def _sums(self) -> dict[str, Any]:
        if self._totals is None:
            sums: dict[str, Any] = {"bytes": 0, "parameter_bytes": 0, "flops": 0, "ops": []}
            n = CNode()
            for k in range(library.stw_graph_node_count(self._handle.pointer)):
                library.stw_graph_node(self._handle.pointer, k, n)
                sums["flops"] += n.flops
                if n.kind == b"op":
                    sums["ops"].append(k)
                sums["bytes"] += 0 if n.kind == b"view" else n.bytes
                sums["parameter_bytes"] += n.bytes if n.kind in (b"parameter", b"buffer") else 0
            self._totals = sums
        return self._totals

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("nodes", f"{library.stw_graph_node_count(self._handle.pointer):,}"),
            ("ops", f"{library.stw_graph_op_count(self._handle.pointer):,}"),
            ("parameters", _text.show_bytes(self.parameter_bytes / self._size_scale)),
            ("values", _text.show_bytes(self.bytes / self._size_scale)),
            ("arithmetic", _text.show_flops(self.flops)),
        ]

    def __len__(self) -> int:
        return library.stw_graph_node_count(self._handle.pointer)

    def __repr__(self) -> str:
        facts = dict(self._facts())
        return (
            f"<Graph {self.name!r}: {facts['nodes']} nodes, {facts['ops']} ops, {facts['parameters']} of parameters, "
            f"{facts['arithmetic']}>"
        )

    def _repr_html_(self) -> str:
        facts = self._facts()
        return _text.html_table(f"graph {self.name}", [f[0] for f in facts], [[f[1] for f in facts]])


def load(path: Path, shape: Optional[Shape] = None, file_limit: Union[int, str, None] = None) -> Graph:
    """Reads a graph file: opgraph JSON, ONNX, HLO, a TensorFlow graph or a dnn-partitioning input; packed or not.

    ``shape`` gives sizes that a model leaves open: ``{"image": (8, 3, 224, 224)}`` of an input, ``{"batch": 8}`` of a
    dimension by its name, or the text of the command line's ``--shape``. Without it they count as 1.
    ``file_limit`` is how many bytes the file may have when it is unpacked (``"8GiB"``); without it 4 GiB, and for a packed one
    200 times its size or 64 MiB.
    """
    name = os.fspath(path)
    options = make_options({"shape": shape_text(shape), "file_limit": file_limit})
    return Graph(create("stw_graph_open", "stw_graph_destroy", path_bytes(name), options.pointer), name)


def shape_text(shape: Optional[Shape]) -> Optional[str]:
    if shape is None or isinstance(shape, str):
        return shape
    sizes = {name: [value] if isinstance(value, int) else value for name, value in shape.items()}
    return ";".join(f"{name}={','.join(str(int(n)) for n in value)}" for name, value in sizes.items())
