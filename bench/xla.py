#!/usr/bin/env python3
"""Steps on real XLA (xla_models.py): as XLA compiles them, without fusions, as stowage.jax plans them and as it tunes them; and a
step split over two devices, measured and predicted.

    PYTHONPATH=python/src STOWAGE_LIBRARY=build/release/libstowage.so python3 bench/xla.py [--small] [--models lstm,mlp] [--store F]
    PYTHONPATH=python/src STOWAGE_LIBRARY=build/release/libstowage.so python3 bench/xla.py placement [--small] [--store F]

The row `XLA` is XLA with its default options; `ours` is made from the module without fusions alone, by a model of costs; `planned` is XLA's
own with regions of two such plans where the model expects them to be faster; `tuned` is made by measuring, and is XLA's own where that is faster. `difference` is to a further compile
of the default, which is not timed, without ops whose results change from run to run (on a GPU): of the loss, relative to it; of each
parameter's change, relative to the largest change of that parameter; the largest of these. So the row `XLA` shows what such ops
do. Results go to --store, a line of JSON for each model, and a model that
stands there is not run again; the table in Markdown is printed at the end. The steps split over two devices are always run, and have a store
of their own.
"""
import argparse
import datetime
import json
import os
import re
import statistics
import sys
import time
from functools import partial

if "placement" in sys.argv:  # two devices, also where there is no GPU
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp

import stowage
import stowage.jax
from xla_models import MODELS, Draw

# ---- one model ----

FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "partition-id", "replica-id", "opt-barrier"}


LINE = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (?:\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)$")


def count_kernels(text):
    """Instructions of the entry that run: everything but names and parts; of a call (a CUDA graph) what it calls."""
    bodies, name = {}, None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line)
        if head and not line.startswith(" "):
            name = "ENTRY" if head[1] else head[2]
            bodies[name] = []
        elif name is not None and (match := LINE.match(line)):
            bodies[name].append(match.groups())

    def count(body):
        total = 0
        for opcode, rest in bodies.get(body, []):
            called = re.search(r"to_apply=%?([\w.\-]+)", rest) if opcode == "call" else None
            total += count(called[1]) if called else opcode not in FREE
        return total

    return count("ENTRY")


def difference(state, expected, got):
    """The largest of: the difference of the first result, relative to its largest; for each array of the state, the largest
    difference of its change, relative to its largest change."""
    pairs = [(jnp.zeros_like(a), a, b) for a, b in zip(jax.tree.leaves(expected[0]), jax.tree.leaves(got[0]))]
    pairs += zip(jax.tree.leaves(state), jax.tree.leaves(expected[1]), jax.tree.leaves(got[1]))
    return max(float(relative(*each)) for each in pairs)  # not a number, where one is


@jax.jit
def relative(before, a, b):
    before, a, b = (v.astype(jnp.float32) for v in (before, a, b))
    return jnp.max(jnp.abs(a - b)) / jnp.maximum(jnp.max(jnp.abs(a - before)), 1e-30)


def compile_planned(plan, step, state, x):
    with stowage.jax.apply(plan):
        return jax.jit(step).lower(state, x).compile(plan.compiler_options)


def medians(runs, repeats):
    """Median seconds of each, run in turn, so that all see the same load of the machine."""
    times = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(3):
            jax.block_until_ready(run())
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            jax.block_until_ready(run())
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in times.items()}


def deterministic(step, state, x):
    """What XLA's default computes, by a compile of its own whose results are the same in every run."""
    options = {} if jax.devices()[0].platform == "cpu" else {"xla_gpu_exclude_nondeterministic_ops": True}
    lowered = jax.jit(step).lower(state, x)
    try:
        compiled = lowered.compile(options)
    except Exception as error:
        if "nondeterministic" not in str(error):  # a version that has no such option, or an op that has no other way
            raise
        compiled = lowered.compile()
    return compiled(state, x)


def measure(name, sizes, options):
    step, state, x = MODELS[name][0](**sizes)
    expected = deterministic(step, state, x)
    begin = time.perf_counter()
    own = stowage.jax.capture(step, state, x, fuse=False)
    own_s = time.perf_counter() - begin
    bare = stowage.jax.capture(step, state, x, fuse=True)
    plans = {"ours": stowage.jax.plan(bare, budget=options.budget)}
    variants = {"XLA": own.compiled, "no fusion": bare.compiled, "ours": compile_planned(plans["ours"], step, state, x)}
    begin = time.perf_counter()
    plans["planned"] = stowage.jax.plan(step, state, x, fuse="best", budget=options.budget)
    variants["planned"] = compile_planned(plans["planned"], step, state, x)
    compile_s = own_s + time.perf_counter() - begin  # with XLA's own compile, which everybody has
    tuned = stowage.jax.tune(step, state, x, seconds=options.seconds, cache=options.cache or False)
    plans["tuned"], variants["tuned"] = tuned.plan, tuned.compiled
    differences = {row: difference(state, expected, compiled(state, x)) for row, compiled in variants.items()}
    times = medians({row: partial(compiled, state, x) for row, compiled in variants.items()}, options.repeats)
    rows = []
    for row, compiled in variants.items():
        plan = plans.get(row)
        rows.append({
            "row": row, "ms": 1e3 * times[row], "temp_bytes": compiled.memory_analysis().temp_size_in_bytes,
            "kernels": count_kernels(compiled.as_text()), "difference": differences[row],
            "predicted_ms": 1e3 * plan.step if plan else None, "predicted_peak_bytes": plan.peak if plan else None,
            "order": plan.order if plan else None, "expected_ms": {k: 1e3 * v for k, v in plan.expected.items()} if plan else {},
        })  # fmt: skip
    return {**where(), "model": name, "sizes": sizes, "repeats": options.repeats, "compile_s": compile_s, "xla_s": own_s, "rows": rows,
            "tuned": {"keeps_xla": tuned.plan.keeps_xla, "regions": tuned.regions, "seconds": tuned.seconds, "ratio": tuned.ratio,
                      "comparison": str(tuned.comparison), "kernels_us": tuned.kernels_us, "steps": tuned.steps}}  # fmt: skip


def where():
    device = jax.devices()[0]
    return {"date": datetime.date.today().isoformat(), "jax": jax.__version__, "stowage": stowage.__version__, "options": "default",
            "device": f"{device.device_kind}, {os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind}  # fmt: skip


def show(records):
    versions = "{date}, jax {jax}, stowage {stowage}, {device}, median of {repeats} runs in turn"
    print("\n".join(sorted({versions.format(**r) for r in records})))
    print("\n| step | | ms | of XLA's | temporary memory, MiB | kernels | predicted, ms | difference | remark |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for r in records:
        sizes = ", ".join(f"{k} {v}" for k, v in r["sizes"].items())
        tuned = r["tuned"]
        kept = "XLA's is kept" if tuned["keeps_xla"] else f"{tuned['regions']} regions"
        for row in r["rows"]:
            first = f"{r['model']} ({sizes})" if row is r["rows"][0] else ""
            predicted = f"{row['predicted_ms']:.3f}" if row["predicted_ms"] else "-"
            remark = {"XLA": f"{r['xla_s']:.0f} s to compile", "planned": f"{r['compile_s'] - r['xla_s']:.0f} s to compile and plan",
                      "tuned": f"{kept}; {tuned['seconds']:.0f} s; {tuned['comparison']}"}.get(row["row"], "")  # fmt: skip
            print(f"| {first} | {row['row']} | {row['ms']:.3f} | {row['ms'] / r['rows'][0]['ms']:.3f} | {row['temp_bytes'] / 2**20:.1f} | "
                  f"{row['kernels']} | {predicted} | {row['difference']:.1e} | {remark} |")  # fmt: skip
    for row in ("planned", "tuned"):
        ratios = {r["model"]: next(x["ms"] for x in r["rows"] if x["row"] == row) / r["rows"][0]["ms"] for r in records}
        if row == "tuned":
            ratios = {r["model"]: 1.0 if r["tuned"]["keeps_xla"] else ratios[r["model"]] for r in records}
        if ratios:
            worst = max(ratios, key=ratios.get)
            print(f"\n{row}: {statistics.geometric_mean(ratios.values()):.3f} of XLA's in the geometric mean of {len(ratios)}, "
                  f"{statistics.geometric_mean([v for k, v in ratios.items() if k != 'norms'] or [1.0]):.3f} without norms, "
                  f"worst {worst} {ratios[worst]:.3f}")  # fmt: skip


def is_equal(record, tolerance):
    return all(row["difference"] <= tolerance for row in record["rows"])


def run_models(options):
    known = {}
    if os.path.exists(options.store):
        with open(options.store, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                known[key_of(record)] = record
    shown, failed, started = [], False, time.perf_counter()
    for name in options.models.split(","):
        sizes = dict(MODELS[name][2 if options.small else 1])
        sizes.update((k, int(v)) for k, v in (pair.split("=") for pair in options.size) if k in sizes)
        key = key_of({**where(), "model": name, "sizes": sizes})
        if (key not in known or options.again) and time.perf_counter() - started > options.limit:
            print(f"{name}: left for the next run", file=sys.stderr)
            continue
        if key not in known or options.again:
            begin = time.perf_counter()
            try:
                known[key] = measure(name, sizes, options)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error)[:2000]}", file=sys.stderr, flush=True)
                failed = True
                continue
            append(options.store, known[key])
            print(f"{name}: {time.perf_counter() - begin:.1f} s, {known[key]['compile_s']:.1f} s of it to compile and plan",
                  file=sys.stderr, flush=True)  # fmt: skip
        shown.append(known[key])
        if not is_equal(known[key], options.tolerance):
            print(f"{name}: results differ by more than {options.tolerance:g}", file=sys.stderr)
            failed = True
    show(shown)
    return 1 if failed else 0


def append(store, record):
    with open(store, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def key_of(record):
    return record["model"], json.dumps(record["sizes"], sort_keys=True), record["jax"], record["device"], record.get("options")


# ---- a step split over two devices ----


PAIRS = ((0, 1), (1, 0))


SMALL = 16  # floats of a copy whose time is the latency
FASTEST = 2e12  # bytes per second that no link reaches: above it nothing was copied


def copy_seconds(source, target, count, repeats):
    """Median time of a copy. Each is of a new array: jax remembers what it has copied to the host."""
    fill, times = jax.jit(lambda k: jnp.full(count, k, jnp.float32)), []
    for k in range(repeats + 2):
        value = jax.block_until_ready(fill(jax.device_put(float(k), source)))
        begin = time.perf_counter()
        jax.block_until_ready(jax.device_put(value, target))
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


def measure_links(devices, repeats, large):
    """Latency in us and bytes per second each way; None for the second where the times make no sense."""
    found = {}
    for a, b in PAIRS:
        times = [copy_seconds(devices[a], devices[b], count, repeats) for count in (SMALL, large)]
        found[a, b] = 1e6 * times[0], bandwidth_of(4 * large, *times)
    return found


def bandwidth_of(size, small, large):
    bandwidth = size / (large - small) if large > small else FASTEST
    return bandwidth if bandwidth < FASTEST else None


class Part:
    """A jitted function on a device, what it reads, and what it took by itself."""

    def __init__(self, name, device, fn, reads):
        self.name, self.device, self.fn, self.reads = name, device, jax.jit(fn), reads


def chain_parts(depth, width, batch):
    """A training step of a deep MLP, its halves on two devices."""
    half = depth // 2

    def forward(p, x):
        for w in p:
            x = jnp.tanh(x @ w)
        return x

    def loss(p, x):
        return jnp.mean((forward(p, x) - 0.5) ** 2)

    def top(p, x):
        value, (gradient, to_below) = jax.value_and_grad(loss, (0, 1))(p, x)
        return value, [a - b for a, b in zip(p, gradient)], to_below

    def bottom(p, x, from_above):
        _, back = jax.vjp(forward, p, x)
        gradient, _ = back(from_above)
        return [a - b for a, b in zip(p, gradient)]

    draw = Draw()
    p = [[draw(width, width, inputs=width) for _ in range(half)] for _ in range(2)]
    parts = [Part("forward", 0, forward, ["p0", "x"]), Part("top", 1, top, ["p1", "forward"]),
             Part("backward", 0, bottom, ["p0", "x", "top.2"])]  # fmt: skip
    return {"p0": (0, p[0]), "p1": (1, p[1]), "x": (0, draw(batch, width))}, parts


def tower_parts(depth, width, batch):
    """Two towers side by side, each on its device, joined on the first."""

    def tower(p, x):
        for w in p:
            x = jnp.tanh(x @ w)
        return x

    draw = Draw()
    p = [[draw(width, width, inputs=width) for _ in range(depth // 2)] for _ in range(2)]
    parts = [Part("second", 1, tower, ["p1", "x1"]), Part("first", 0, tower, ["p0", "x0"]),
             Part("join", 0, lambda a, b: jnp.sum(a * b, axis=-1), ["first", "second"])]  # fmt: skip
    return {"p0": (0, p[0]), "p1": (1, p[1]), "x0": (0, draw(batch, width)), "x1": (1, draw(batch, width))}, parts


def on(value, device):
    return jax.tree.map(lambda v: jax.device_put(v, device), value)


def run_parts(given, parts, devices):
    """One step: each part is started as soon as what it reads is on its way."""
    made = dict(given)
    for part in parts:
        result = part.fn(*(made[name] if name in given else on(made[name], devices[part.device]) for name in part.reads))
        made[part.name] = result
        if isinstance(result, tuple):
            made.update((f"{part.name}.{k}", value) for k, value in enumerate(result))
    return {name: value for name, value in made.items() if name not in given}


def predict(parts, seconds, made, links):
    """The simulator's step from the times of the parts and of the links; None where a link has no bandwidth."""
    if any(bandwidth is None for _, bandwidth in links.values()):
        return None
    kinds = [f"device{k}" for k in range(2)]
    filler = {"memory_bytes": 10**12, "launch_us": 0, "flops_per_s": {"f32": 1e12}, "bandwidth_bytes_per_s": 1e12,
              "efficiency": {"elementwise": 1.0}}  # fmt: skip
    machine = {"format": "machine", "version": 1, "name": "two", "devices": [{"name": kind, "kind": kind, **filler} for kind in kinds],
               "links": [{"from": kinds[a], "to": kinds[b], "latency_us": links[a, b][0], "bandwidth_bytes_per_s": links[a, b][1]}
                         for a, b in ((0, 1), (1, 0))]}  # fmt: skip
    nodes, ids = [], {}
    for part in parts:
        read = [ids[name.split(".")[0]] for name in part.reads if name.split(".")[0] in ids]
        sent = [made[name] for later in parts for name in later.reads if name.split(".")[0] == part.name]  # what others read
        ids[part.name] = len(nodes)
        nodes.append({"id": len(nodes), "name": part.name, "op": "part", "inputs": read, "dtype": "u8",
                      "shape": [sum(int(v.nbytes) for v in jax.tree.leaves(sent))],
                      "us": {kind: 1e6 * seconds[part.name] for kind in kinds}})  # fmt: skip
    graph = stowage.Graph.parse({"format": "opgraph", "version": 1, "name": "parts", "nodes": nodes})
    return stowage.Plan(graph, machine, device=[part.device for part in parts]).evaluate().step


def run_placement(options):
    first = jax.devices()[0]
    devices = [first, jax.devices()[1] if first.platform == "cpu" else jax.devices("cpu")[0]]
    print(f"{where()['date']}, jax {jax.__version__}, stowage {stowage.__version__}; devices: "
          + ", ".join(f"{d.device_kind} ({d.platform}:{d.id})" for d in devices) + f"; median of {options.repeats} runs in turn")  # fmt: skip
    if devices[0].platform == devices[1].platform == "cpu":
        print("Both devices are this host: what should run in parallel shares its cores.")
    print("\n| step | parts, ms | links | predicted, ms | measured, ms | measured / predicted |\n| --- | --- | --- | --- | --- | --- |")
    links = measure_links(devices, options.repeats, options.copy << 18)
    rates = {pair: "-" if rate is None else f"{rate / 1e9:.1f} GB/s" for pair, (_, rate) in links.items()}
    wires = ", ".join(f"{a} to {b}: {us:.0f} us, {rates[a, b]}" for (a, b), (us, _) in links.items())
    for name, build in (("chain: MLP training step in two halves", chain_parts), ("towers: two in parallel, joined", tower_parts)):
        sizes = {"depth": 8, "width": 128, "batch": 64} if options.small else {"depth": 8, "width": 1024, "batch": 256}
        given, parts = build(**sizes)
        given = {key: on(value, devices[d]) for key, (d, value) in given.items()}
        made = run_parts(given, parts, devices)
        runs = {"": partial(run_parts, given, parts, devices)}
        for part in parts:
            arguments = (given[key] if key in given else on(made[key], devices[part.device]) for key in part.reads)
            runs[part.name] = partial(part.fn, *arguments)
        seconds = medians(runs, options.repeats)
        measured = seconds.pop("")
        predicted = predict(parts, seconds, made, links)
        each = ", ".join(f"{part.name} on {part.device}: {1e3 * seconds[part.name]:.3f}" for part in parts)
        append(options.store, {
            **where(), "devices": [d.device_kind for d in devices], "step": name, "sizes": sizes, "repeats": options.repeats,
            "copy_mib": options.copy,
            "parts": [{"name": part.name, "device": part.device, "ms": 1e3 * seconds[part.name]} for part in parts],
            "links": [{"from": a, "to": b, "latency_us": us, "bytes_per_s": rate} for (a, b), (us, rate) in links.items()],
            "predicted_ms": None if predicted is None else 1e3 * predicted, "measured_ms": 1e3 * measured,
        })  # fmt: skip
        sizes = ", ".join(f"{k} {v}" for k, v in sizes.items())
        shown = ("-", "-") if predicted is None else (f"{1e3 * predicted:.3f}", f"{measured / predicted:.2f}")
        print(f"| {name} ({sizes}) | {each} | {wires} | {shown[0]} | {1e3 * measured:.3f} | {shown[1]} |", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["models", "placement"], default="models")
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas (default: all)")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N", help="another size, such as layers=8; repeatable")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--budget", default="1s", help="of each search for an order")
    parser.add_argument("--seconds", type=float, default=60, help="of each tuning")
    parser.add_argument("--cache", help="a file that keeps times of kernels from one run to the next (default: none)")
    parser.add_argument("--tolerance", type=float, default=2e-2, help="difference to what XLA's default computes above which the exit status is 1")
    parser.add_argument("--limit", type=float, default=1e9, metavar="SECONDS",
                        help="after which no further model is begun; run again to go on")  # fmt: skip
    parser.add_argument("--copy", type=int, metavar="MIB", help="placement: size of the copies that tell a bandwidth (256; small: 16)")
    parser.add_argument("--store", help="default xla.jsonl; of placement xla_placement.jsonl")
    parser.add_argument("--again", action="store_true", help="also what stands in the store")
    options = parser.parse_args()
    options.copy = options.copy or (16 if options.small else 256)
    options.store = options.store or ("xla_placement.jsonl" if options.what == "placement" else "xla.jsonl")
    return run_placement(options) if options.what == "placement" else run_models(options)


if __name__ == "__main__":
    sys.exit(main())
