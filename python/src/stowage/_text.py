"""Numbers and tables for people, in the words of the command line."""
from __future__ import annotations

import html
import math
import re
import textwrap
from typing import Sequence, Union

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("kMGT", 1):
    _UNITS[f"{_letter}B"] = 1000**_power
    _UNITS[f"{_letter.upper()}iB"] = 1024**_power


def parse_bytes(value: Union[int, float, str]) -> int:
    """Bytes from a number or from text such as "4GB" or "512MiB"."""
    size = _bytes_of_text(value) if isinstance(value, str) else int(value)
    if not 0 <= size < 2**63:
        raise ValueError(f"{value} is not a size that a device can have")
    return size


def _bytes_of_text(value: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", value)
    if match is None or match.group(2) not in _UNITS:
        raise ValueError(f"'{value}' is not a size; write 4GB or 512MiB")
    return int(float(match.group(1)) * _UNITS[match.group(2)])


def parse_seconds(value: Union[int, float, str]) -> float:
    """Seconds from a number or from text such as "500ms" or "2min"."""
    if not isinstance(value, str):
        return float(value)
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|h)\s*", value)
    if match is None:
        raise ValueError(f"'{value}' is not a time; write 500ms, 10s or 2min")
    return float(match.group(1)) * {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}[match.group(2)]


def parse_share(name: str, value: Union[int, float, str]) -> float:
    """A part of a whole, below 1, from a number or from text such as "2%"."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*", str(value))
    share = float(match.group(1)) / (100.0 if match.group(2) else 1.0) if match is not None else math.nan
    if not 0.0 <= share < 1.0:
        raise ValueError(f"{name} is {value!r}; write a share below 1, as 0.02 or '2%'")
    return share


def _scaled(value: float, units: Sequence[str]) -> str:
    for unit in units:
        if abs(value) < 999.5 or unit == units[-1]:
            break
        value /= 1000
    return f"{value:.3g} {unit}"


def show_bytes(value: float) -> str:
    return _scaled(value, ("B", "kB", "MB", "GB", "TB"))


def show_flops(value: float) -> str:
    return _scaled(value, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"))


def show_seconds(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1 or unit == "us":
            return f"{value * factor:.5g} {unit}"
    return f"{value} s"


def plain(text: str) -> str:
    """Names come from files: what would steer a terminal or turn the text round is escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Columns side by side; those in `left` begin at the left."""
    table = [[plain(cell) for cell in row] for row in (head, *rows)]
    width = [max(len(row[k]) for row in table) for k in range(len(head))]
    lines = []
    for row in table:
        cells = [cell.ljust(width[k]) if k in left else cell.rjust(width[k]) for k, cell in enumerate(row)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


WIDTH = 100  # of text for people, as on the command line


def text_notes(notes: Sequence[tuple[str, str]]) -> str:
    """Names with what is said of each, beside them; empty notes are left out."""
    said = [(plain(name), plain(note)) for name, note in notes if note]
    room = max((len(name) for name, _ in said), default=0)
    lines = []
    for name, note in said:
        first = f"    {name.ljust(room)}  "
        lines.append(textwrap.fill(note, WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_long_words=False))
    return "\n".join(lines)


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], bold: int = -1) -> str:
    """The same for notebooks; row `bold` stands out."""
    def line(cells: Sequence[str], tag: str, strong: bool = False) -> str:
        inner = (f"<b>{html.escape(c)}</b>" if strong else html.escape(c) for c in cells)
        return "<tr>" + "".join(f"<{tag}>{c}</{tag}>" for c in inner) + "</tr>"

    body = "".join(line(row, "td", k == bold) for k, row in enumerate(rows))
    return f"<div><p>{html.escape(title)}</p><table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table></div>"
