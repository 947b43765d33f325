#!/usr/bin/env python3
"""Draws simulated steps below each other, on one scale of time: a lane per device, coloured by what it computes.

    draw_timelines.py -o OUT.svg "TITLE=trace.json" ...

A trace is what `stowage optimize --trace` or `simulate --trace` writes. docs/pictures/timelines.svg is made by

    scripts/draw_timelines.py --gnmt -o docs/pictures/timelines.svg

which runs the two plans of README's picture first (by --evaluations, so that they repeat exactly, and so does the file)."""

import argparse
import html
import json
import os
import subprocess
import sys
import tempfile

from drawing import COLOURS, LEFT, ROOM, axis, legend, title, write

os.environ["XDG_CONFIG_HOME"] = os.devnull  # the program is run without defaults of whoever runs this
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage"))
LANE, GAP = 20, 5  # pixels
OTHER = 3
COLOUR_OF = {"matmul": 0, "convolution": 0, "attention": 0, "elementwise": 1, "reduce": 2, "normalization": 2}
NAMES = ["matrix products", "element-wise", "reductions", "data movement and others"]


def lanes_of(path):
    """device -> [(start, end, class)] in microseconds, and the end of the step"""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    devices = next(e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name" and e["args"]["name"] == "devices")
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == devices}
    lanes = {name: [] for _, name in sorted(names.items())}
    for e in events:
        if e["ph"] == "X" and e["pid"] == devices:
            lanes[names[e["tid"]]].append((e["ts"], e["ts"] + e["dur"], e["cat"]))
    return {name: sorted(spans) for name, spans in lanes.items()}, max((end for spans in lanes.values() for _, end, _ in spans), default=0.0)


def pixels(spans, scale, width):
    """Runs of pixels of one colour: in each pixel the class that takes most of it, if anything takes a third of it."""
    taken = [{} for _ in range(width + 1)]
    for start, end, what in spans:
        colour = COLOURS[COLOUR_OF.get(what, OTHER)]
        x = start * scale
        while x < end * scale:
            upto = min(int(x) + 1, end * scale)
            taken[int(x)][colour] = taken[int(x)].get(colour, 0.0) + upto - x
            x = upto
    runs, last = [], None
    for x, of in enumerate(taken):
        colour = max(of, key=of.get) if sum(of.values()) > 1 / 3 else None
        if colour is not None and colour == last:
            runs[-1][1] = x + 1
        elif colour is not None:
            runs.append([x, x + 1, colour])
        last = colour
    return runs


def draw(plans, path):
    longest = max(end for _, (_, end) in plans)
    scale = ROOM / longest
    out, y = [], 10
    for name, (lanes, end) in plans:
        title(out, y, f"{name}: {end / 1000:.1f} ms")
        y += 24
        for name, spans in lanes.items():
            out.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{html.escape(name)}</text>')
            out.append(f'<rect x="{LEFT}" y="{y}" width="{end * scale:.1f}" height="{LANE}" class="lane"/>')
            for first, last, colour in pixels(spans, scale, ROOM):
                out.append(f'<rect x="{LEFT + first}" y="{y}" width="{last - first}" height="{LANE}" fill="{colour}"/>')
            y += LANE + GAP
        y += 14
    axis(out, y + 6, 1000 * scale, range(0, int(longest / 1000) + 1, 5), " ms")
    legend(out, y + 22, zip(COLOURS, NAMES))
    write(path, out, y + 46)


def gnmt_plans(folder):
    """A training step of GNMT on four devices: the default, and what optimize finds."""
    graph = os.path.join(ROOT, "data", "graphs", "gnmt-4.json.gz")
    runs = {"one device, fused by the usual rule (the default)": ["--tasks", "fusion", "--evaluations", "1"],
            "stowage optimize on four devices": ["--evaluations", "400", "--seed", "1"]}
    for k, (name, more) in enumerate(runs.items()):
        trace = os.path.join(folder, f"{k}.json")
        subprocess.run([PROGRAM, "optimize", graph, "-m", "h200x4", *more, "--trace", trace], check=True, stdout=subprocess.DEVNULL)
        yield name, lanes_of(trace)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="*", help="TITLE=FILE")
    parser.add_argument("--gnmt", action="store_true", help="README's picture")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plans = [(name, lanes_of(path)) for name, _, path in (text.partition("=") for text in options.trace)]
        plans += gnmt_plans(folder) if options.gnmt else []
    if not plans:
        parser.error("no trace; name one as TITLE=FILE")
    draw(plans, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
