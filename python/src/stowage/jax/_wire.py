"""The wire format of protobuf, as far as modules of XLA need it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Iterator, Union

Value = Union[int, bytes]


@dataclass(frozen=True)
class Field:
    number: int
    value: Value
    raw: bytes  #: as it stands, tag and all


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in order. IndexError where it is cut off, or no message. Numbers of fixed size are not handed out."""
    at, end = 0, len(data)
    while at < end:
        begun = at
        tag, at = _varint(data, at)
        kind = tag & 7
        value: Value
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            value, at = b"", at + (8 if kind == 1 else 4)
        else:
            raise IndexError("no protobuf")
        if at > end:
            raise IndexError("a message is cut off")
        yield Field(tag >> 3, value, data[begun:at])


def of(field: Field) -> bytes:
    """The bytes of a field that holds a message or text."""
    return field.value if isinstance(field.value, bytes) else b""


def packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def int_field(number: int, value: int) -> bytes:
    return _as_varint(number << 3) + _as_varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return _as_varint(number << 3 | 2) + _as_varint(len(value)) + value


def ints_field(number: int, values: Iterable[int]) -> bytes:
    return bytes_field(number, b"".join(_as_varint(value) for value in values))


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
