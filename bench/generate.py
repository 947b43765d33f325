#!/usr/bin/env python3
"""Generated graphs beside the traced ones of their families, as Markdown.

    bench/generate.py [NAME...]       traced graphs: all that a family can be set to unless some are named

Options: --stowage PROGRAM, --machine NAME (one device; h200x1), --json FILE (all numbers).
Each pair is `stowage generate FAMILY OPTIONS` and the file of data/graphs. From the files: ops (neither views nor sources), views as a
share of nodes that are not sources, bytes of parameters, FLOPs, depth (ops on the longest path of data), readers per op (mean and
largest; views stand for what they are views of), and how the ops are shared by class (`stowage inspect`): the distance is half the sum
of the differences of shares. From `stowage simulate --plan single`: the step time. Times of generated graphs are modelled; those of
traced graphs are given as measured and, with the times taken out of the file, as modelled, so that structure and cost model are not
mixed up. Parallelism is the work divided by the critical path, both modelled: what any number of devices could gain at most.
Exits 1 if ops or FLOPs of a pair differ by more than 20 %.
"""
import argparse
import datetime
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

from tables import ROOT

TOLERANCE = 0.20
SOURCES = ("parameter", "buffer", "input", "constant")
PAIRS = {  # traced: family and options
    "rnnlm-2": "rnnlm", "rnnlm-4": "rnnlm --layers 4", "rnnlm-8": "rnnlm --layers 8 --steps 35",
    "gnmt-2": "gnmt", "gnmt-4": "gnmt --layers 4", "gnmt-8": "gnmt --layers 8 --steps 60",
    "transformer-xl-2": "transformer-xl", "transformer-xl-4": "transformer-xl --layers 4",
    "transformer-xl-8": "transformer-xl --layers 8 --steps 16",
    "bert-base": "bert", "gpt2": "gpt", "inception-v3-b32": "inception", "inception-v3-b64": "inception --batch 64",
    "amoebanet": "amoebanet", "resnet50": "resnet", "unet": "unet", "wavenet-2x9": "wavenet", "wavenet-4x9": "wavenet --layers 36",
}


def run(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(done.args)}: {done.stderr}")
    return done.stdout


def roots_of(nodes):
    root = []
    for index, node in enumerate(nodes):
        root.append(root[node["inputs"][0]] if node.get("view") else index)
    return root


def structure(nodes):
    """What the file itself says."""
    root = roots_of(nodes)
    is_op = [node["op"] not in SOURCES and not node.get("view") for node in nodes]
    depth, readers = [0] * len(nodes), [set() for _ in nodes]
    for index, node in enumerate(nodes):
        if not is_op[index]:
            continue
        reads = {root[source] for source in node["inputs"]}
        depth[index] = 1 + max((depth[source] for source in reads), default=0)
        for source in reads:
            readers[source].add(index)
    fan_out = [len(readers[index]) for index in range(len(nodes)) if is_op[index]]
    ops = sum(is_op)
    views = sum(bool(node.get("view")) for node in nodes)
    return {"ops": ops, "views": views / (ops + views), "depth": max(depth), "fan_out": sum(fan_out) / ops, "largest_fan_out": max(fan_out),
            "parameter_bytes": sum(node["bytes"] for node in nodes if node["op"] == "parameter"),
            "flops": sum(node.get("flops", 0) for node in nodes)}


def step(options, path):
    return json.loads(run(options.stowage, "simulate", str(path), "--machine", options.machine, "--plan", "single", "--format", "json"))["step_s"]


def measure(options, path, folder):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path) as file:
        graph = json.load(file)
    row = structure(graph["nodes"])
    shown = json.loads(run(options.stowage, "inspect", str(path), "--format", "json"))
    row["classes"] = {entry["class"]: entry["ops"] / row["ops"] for entry in shown["classes"]}
    row["step_s"] = step(options, path)
    for node in graph["nodes"]:
        node.pop("us", None)
    bare = folder / "bare.json"
    bare.write_text(json.dumps(graph))
    row["modelled_step_s"] = step(options, bare)
    # The lower bound on many devices is the critical path, unless that many are still too few.
    many = json.loads(run(options.stowage, "simulate", str(bare), "--machine", "h200x64", "--plan", "single", "--format", "json"))
    row["parallelism"] = row["modelled_step_s"] / many["lower_bound_s"]
    return row


def compare(options, name, folder):
    path = folder / "generated.json"
    run(options.stowage, "generate", *PAIRS[name].split(), "-o", str(path))
    made, traced = measure(options, path, folder), measure(options, ROOT / "data" / "graphs" / f"{name}.json.gz", folder)
    classes = set(made["classes"]) | set(traced["classes"])
    distance = sum(abs(made["classes"].get(name, 0) - traced["classes"].get(name, 0)) for name in classes) / 2
    return {"traced_graph": name, "command": f"stowage generate {PAIRS[name]}", "generated": made, "traced": traced,
            "class_distance": distance}


def two(row, key, form):
    return f"{form(row['generated'][key])} / {form(row['traced'][key])}"


def print_table(rows):
    print("| traced graph | ops | FLOPs, G | parameters, MB | classes differ | views | depth | readers, mean | readers, most "
          "| parallelism | step, ms: generated / traced, modelled / traced, measured |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        made, traced = row["generated"], row["traced"]
        cells = [row["traced_graph"], two(row, "ops", "{:,}".format), two(row, "flops", lambda value: f"{value / 1e9:,.0f}"),
                 two(row, "parameter_bytes", lambda value: f"{value / 1e6:,.1f}"), f"{100 * row['class_distance']:.1f} %",
                 two(row, "views", lambda value: f"{100 * value:.1f} %"), two(row, "depth", "{:,}".format),
                 two(row, "fan_out", "{:.2f}".format), two(row, "largest_fan_out", "{:,}".format),
                 two(row, "parallelism", "{:.2f}".format),
                 f"{1e3 * made['step_s']:.1f} / {1e3 * traced['modelled_step_s']:.1f} / {1e3 * traced['step_s']:.1f}"]
        print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--stowage", default=str(ROOT / "build" / "release" / "stowage"))
    parser.add_argument("--machine", default="h200x1")
    parser.add_argument("--json")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PAIRS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(PAIRS)}")
    with tempfile.TemporaryDirectory(prefix="stowage-generate-") as folder:
        rows = [compare(options, name, pathlib.Path(folder)) for name in options.names or PAIRS]
    print(f"Generated / traced. {datetime.date.today()}, {run(options.stowage, 'version').strip()}, step on {options.machine}.\n")
    print_table(rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    off = [row["traced_graph"] for row in rows
           if any(abs(row["generated"][key] / row["traced"][key] - 1) > TOLERANCE for key in ("ops", "flops"))]
    if off:
        print(f"\nops or FLOPs more than {100 * TOLERANCE:.0f} % off: {', '.join(off)}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
