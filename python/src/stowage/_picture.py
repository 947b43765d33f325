"""Pictures for notebooks: the step of a plan as a small timeline, a row per device."""
from __future__ import annotations

import csv
import html
import io
from typing import TYPE_CHECKING

from . import _text
from ._library import Error

if TYPE_CHECKING:
    from ._plan import Plan

# Those of reports (src/report/page/raster.js), which people who see fewer colours can tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7fd1", "#a89a00")
LEFT, WIDTH, ROW, GAP, AXIS = 84, 560, 14, 4, 18  # pixels

Spans = dict[str, list[tuple[float, float]]]


def spans_of(plan: Plan) -> Spans:
    """device -> [(start, end)] of its tasks in microseconds, by time."""
    spans: Spans = {device.name: [] for device in plan.machine.devices}
    seen = set()
    for row in csv.DictReader(io.StringIO(plan.export_bytes("csv").decode("utf-8"))):
        if row["start_us"] and row["group"] not in seen:
            seen.add(row["group"])
            spans[row["device"].removeprefix("'")].append((float(row["start_us"]), float(row["end_us"])))
    return {name: sorted(rows) for name, rows in spans.items()}


def columns_of(rows: list[tuple[float, float]], step: float) -> list[tuple[int, int, float]]:
    """[(first, last, share)]: columns of pixels that are equally covered, however many spans there are."""
    covered = [0.0] * WIDTH
    for start, end in rows:
        first, last = WIDTH * start / step, WIDTH * end / step
        for x in range(int(first), min(WIDTH, int(last) + 1)):
            covered[x] += max(0.0, min(last, x + 1) - max(first, x))
    shares = [min(1.0, round(4 * share) / 4 or (0.25 if share > 0 else 0.0)) for share in covered]
    runs: list[tuple[int, int, float]] = []
    for x, share in enumerate(shares):
        if runs and runs[-1][2] == share and runs[-1][1] == x:
            runs[-1] = (runs[-1][0], x + 1, share)
        else:
            runs.append((x, x + 1, share))
    return [run for run in runs if run[2] > 0]


def timeline(plan: Plan) -> str:
    """The picture as SVG; "" where the plan has no step."""
    try:
        spans = spans_of(plan)
    except Error:  # an invalid plan
        return ""
    step = max((end for rows in spans.values() for _, end in rows), default=0.0)
    if step <= 0.0:
        return ""
    height = len(spans) * (ROW + GAP) + AXIS
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 60}" height="{height}" '
             f'font-family="system-ui, sans-serif" font-size="11" role="img">']  # fmt: skip
    for number, (name, rows) in enumerate(spans.items()):
        y, colour = number * (ROW + GAP), COLOURS[number % len(COLOURS)]
        shown = name if len(name) <= 13 else name[:6] + "\u2026" + name[-6:]
        busy = sum(end - start for start, end in rows) / step
        parts.append(f'<text x="0" y="{y + 11}" fill="currentColor">{html.escape(_text.plain(shown))}</text>'
                     f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW}" fill="#888888" fill-opacity="0.13"/>')  # fmt: skip
        for first, last, share in columns_of(rows, step):
            parts.append(f'<rect x="{LEFT + first}" y="{y}" width="{last - first}" height="{ROW}" fill="{colour}" fill-opacity="{share:g}"/>')
        parts.append(f'<text x="{LEFT + WIDTH + 6}" y="{y + 11}" fill="currentColor">{100 * busy:.1f} %</text>')
    parts.append(f'<text x="{LEFT}" y="{height - 4}" fill="currentColor">0</text>'
                 f'<text x="{LEFT + WIDTH}" y="{height - 4}" text-anchor="end" fill="currentColor">{_text.show_seconds(1e-6 * step)}</text></svg>')  # fmt: skip
    return "".join(parts)
