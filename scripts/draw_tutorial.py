#!/usr/bin/env python3
"""Draws the pictures of docs/tutorial.md from real runs: memory over a step with and without a limit, and a learning curve.

    scripts/draw_tutorial.py        writes docs/pictures/tutorial-memory.svg and tutorial-learning.svg

The runs are the commands of the tutorial, so what is drawn is what its reader gets."""

import csv
import json
import os
import subprocess
import sys
import tempfile

from drawing import COLOURS, LEFT, RIGHT, ROOM, WIDTH, axis, legend, title, write

os.environ["XDG_CONFIG_HOME"] = os.devnull  # the program is run without defaults of whoever runs this
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage"))
PICTURES = os.path.join(ROOT, "docs", "pictures")
HEIGHT = 150  # pixels, of one panel


def run(*arguments):
    subprocess.run([PROGRAM, *arguments], check=True, stdout=subprocess.DEVNULL)


def path_of(points, scale_x, scale_y, bottom, low, steps):
    """The points as a path; steps: each value holds until the next."""
    text, last = "", None
    for x, y in points:
        px, py = LEFT + x * scale_x, bottom - (y - low) * scale_y
        text += f"M{px:.1f} {py:.1f}" if last is None else (f"H{px:.1f}V{py:.1f}" if steps else f"L{px:.1f} {py:.1f}")
        last = py
    return text


def panel(out, top, name, lines, width, ticks, unit, limit=None, steps=True):
    """One chart: lines are (name, [(x, y)]), from the first tick to the last; returns the y below it."""
    scale_x, scale_y, bottom = ROOM / width, HEIGHT / (ticks[-1] - ticks[0]), top + 24 + HEIGHT
    title(out, top, name)
    for tick in ticks:
        y = bottom - (tick - ticks[0]) * scale_y
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" class="grid"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g} {unit}</text>')
    if limit is not None:
        y = bottom - (limit - ticks[0]) * scale_y
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" class="limit" stroke-dasharray="6 4"/>')
    for k, (_, points) in enumerate(lines):
        out.append(f'<path d="{path_of(points, scale_x, scale_y, bottom, ticks[0], steps)}" fill="none" stroke="{COLOURS[k]}" stroke-width="1.3"/>')
    return bottom


def memory_of(path):
    """[(device, [(ms, GB)])], thinned to what a pixel shows: of each pixel the largest value."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    end = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") / 1000
    lanes = {}
    for e in events:
        if e["ph"] == "C":
            points = lanes.setdefault(e["name"].removeprefix("memory of "), {})
            pixel = int(e["ts"] / 1000 / end * 900)
            points[pixel] = max(points.get(pixel, 0), next(iter(e["args"].values())) / 1e9)
    return [(name, [(pixel * end / 900, value) for pixel, value in sorted(points.items())]) for name, points in sorted(lanes.items())], end


def draw_memory(folder):
    graph, search = os.path.join(ROOT, "data", "graphs", "gnmt-4.json.gz"), ["-m", "h200x4", "--evaluations", "200", "--policy", "none"]
    free, tight = os.path.join(folder, "step.json"), os.path.join(folder, "tight.json")
    run("optimize", graph, *search, "--trace", free)
    run("optimize", graph, *search, "--memory", "2GB", "--trace", tight)
    plans = [("without a limit", memory_of(free), None), ("--memory 2GB", memory_of(tight), 2)]
    longest = max(end for _, (_, end), _ in plans)
    out, y = [], 10
    for name, (lanes, end), limit in plans:
        y = panel(out, y, f"{name}: {end:.1f} ms", lanes, longest, (0, 1, 2, 3, 4), "GB", limit) + 14
    axis(out, y + 4, ROOM / longest, range(0, int(longest) + 1, 5), " ms")
    legend(out, y + 16, zip(COLOURS, (name for name, _ in plans[0][1][0])))
    write(os.path.join(PICTURES, "tutorial-memory.svg"), out, y + 40)


def draw_learning(folder):
    curve = os.path.join(folder, "curve.csv")
    run("train", os.path.join(ROOT, "data", "graphs", "rnnlm-2.json.gz"), "-m", "h200x2", "--updates", "120", "--initial-plans", "no",
        "-o", os.path.join(folder, "policy.stw"), "--curve", curve)
    with open(curve, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = {"greedy": "the policy's own plan, without noise", "mean": "mean of its samples", "best": "best plan so far"}
    lines = [(text, [(int(row["update"]) + 1, 1e3 * float(row[key])) for row in rows if row[key]]) for key, text in names.items()]
    out = []
    y = panel(out, 10, "rnnlm-2 on two devices, from nothing: step time by update", lines, len(rows), (8, 9, 10, 11, 12, 13), "ms", steps=False)
    axis(out, y + 18, ROOM / len(rows), (1, *range(20, len(rows) + 1, 20)), "")
    legend(out, y + 30, zip(COLOURS, names.values()))
    write(os.path.join(PICTURES, "tutorial-learning.svg"), out, y + 54)


def main():
    with tempfile.TemporaryDirectory() as folder:
        draw_memory(folder)
        draw_learning(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
