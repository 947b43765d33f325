#!/usr/bin/env python3
"""What each kernel of planned modules takes on a GPU, by JAX's profiler, beside what the cost model says of it.

    PYTHONPATH=python/src STOWAGE_LIBRARY=build/release/libstowage.so python3 bench/xla_kernels.py measure --store kernels.zip
    PYTHONPATH=python/src STOWAGE_LIBRARY=build/release/libstowage.so python3 bench/xla_kernels.py table --store kernels.zip

`measure` compiles each step of bench/xla_models.py as XLA does by default and as plans want it, profiles what came out, and keeps the
modules (MODEL/VARIANT.hlo.pb), without names of source files, with the microseconds of their instructions (MODEL/VARIANT.json). Nothing
else should run on the GPU. docs/results/xla_kernels.tar.xz is such a store, packed anew; `table` reads both sorts.
`table` needs no GPU: for each module, microseconds measured / predicted in sum by sorts of kernels, the median error of its kernels, and
Kendall's tau of both; by the formula, or with `--kernels learned` by the model that comes with the library, which was learnt from the
kernels of docs/results/xla_kernels.tar.xz: how good it is on what it has not seen `bench/kernel_model.py judge` says. What runs in loops and branches is one sort, `bodies`: it is in the sums, but its kernels are not among those.
"""
import argparse
import json
import os
import statistics
import sys
import tarfile
import time
import zipfile

VARIANTS = ("xla", "ours", "merged")


def measure(options):
    import jax
    import stowage.jax
    from stowage.jax._profile import profile_compiled
    from xla_models import MODELS

    plain = {"xla_gpu_enable_command_buffer": ""} if jax.devices()[0].platform == "gpu" else {}  # else kernels lose their names
    begin = time.perf_counter()
    with zipfile.ZipFile(options.store, "a", zipfile.ZIP_DEFLATED) as store:
        for name in options.models.split(",") if options.models else MODELS:
            if f"{name}/xla.json" in store.namelist():
                continue
            if time.perf_counter() - begin > options.limit:
                print(f"{name}: left for the next run", file=sys.stderr)
                continue
            started = time.perf_counter()
            make, sizes, small = MODELS[name]
            step, state, x = make(**(small if options.small else sizes))
            own = stowage.jax.capture(step, state, x, fuse=False, compiler_options=plain)
            bare = stowage.jax.capture(step, state, x, fuse=True, compiler_options=plain)
            plans = {"ours": stowage.jax.plan(bare, budget="500ms"), "merged": stowage.jax.plan(own, fusion="joined", budget="500ms")}
            compiled, modules = {"xla": own.compiled}, {"xla": own.module}
            for variant, plan in plans.items():
                with stowage.jax.apply(plan) as applied:
                    compiled[variant] = jax.jit(step).lower(state, x).compile(plan.compiler_options)
                modules[variant] = applied.modules[0]
            whole = wall_times(compiled, state, x, options.repeats)
            for variant in VARIANTS:
                text = compiled[variant].as_text()
                times = profile_compiled(compiled[variant], lambda: (state, x), text.split(None, 2)[1].rstrip(","), options.repeats)
                store.writestr(f"{name}/{variant}.hlo.pb", without_sources(modules[variant]))
                store.writestr(f"{name}/{variant}.json", json.dumps({"ms": 1e3 * whole[variant], "us": times, "jax": jax.__version__,
                                                                    "device": jax.devices()[0].device_kind,
                                                                    "temp": compiled[variant].memory_analysis().temp_size_in_bytes}))  # fmt: skip
            store.writestr(f"{name}/bare.hlo.pb", without_sources(bare.module))
            print(f"{name}: {time.perf_counter() - started:.0f} s; " + ", ".join(f"{v} {1e3 * whole[v]:.3f} ms" for v in VARIANTS),
                  file=sys.stderr, flush=True)  # fmt: skip


def wall_times(compiled, state, x, repeats):
    """Medians of runs in turn."""
    import jax

    times = {variant: [] for variant in compiled}
    for k in range(repeats + 3):
        for variant, run in compiled.items():
            begin = time.perf_counter()
            jax.block_until_ready(run(state, x))
            if k >= 3:
                times[variant].append(time.perf_counter() - begin)
    return {variant: statistics.median(each) for variant, each in times.items()}


SORTS = ("loop", "input", "Triton", "library", "copies", "bodies", "other")


def sort_of(i):
    if i.opcode == "fusion":
        return {"kLoop": "loop", "kInput": "input", "kCustom": "Triton"}.get(i.fusion_kind, "other")
    if i.opcode in ("while", "conditional", "call"):
        return "bodies"
    return {"custom-call": "library", "copy": "copies"}.get(i.opcode, "other")


def kernels_of(data, us, machine, by="formula"):
    """(sort, measured, predicted) of each kernel of the entry, in microseconds; of the bodies as one."""
    import stowage
    from stowage.jax._module import read_module

    graph = stowage.Graph.parse(data, "the module")
    simulator = stowage.Simulator(graph, machine, kernels=by)
    instructions = {i.name: i for i in read_module(data).entry.instructions.values()}
    found, inside = [], 0.0
    for n in graph.ops:
        sort, predicted = sort_of(instructions[n.name]), 1e6 * simulator.op_seconds(n.id)
        if sort == "bodies":
            inside += predicted
        else:
            found.append((sort, us.get(n.name, 0.0), predicted))
    return found + [("bodies", sum(t for name, t in us.items() if name not in instructions), inside)]


def kendall(pairs):
    """Tau-b: of all pairs of kernels, by how many more are ordered alike than the other way round; what is tied counts half in both."""
    import numpy as np

    a, b = (np.asarray(column) for column in zip(*pairs))
    alike, differ = 0.0, np.zeros(2)
    for k in range(len(pairs)):  # all pairs at once would not fit into memory where there are many
        of_a, of_b = np.sign(a - a[k]), np.sign(b - b[k])
        alike += float(of_a @ of_b)
        differ += np.count_nonzero(of_a), np.count_nonzero(of_b)
    either = float(np.sqrt(differ.prod()))
    return alike / either if either else 0.0


def without_sources(module):
    """A module that names no source files: without the metadata of instructions and the table of frames."""
    from stowage.jax._wire import bytes_field, fields, of

    def computation(data):
        return b"".join(bytes_field(2, instruction(of(f))) if f.number == 2 else f.raw for f in fields(data))

    def instruction(data):
        return b"".join(f.raw for f in fields(data) if f.number != 7)

    kept = (f for f in fields(module) if f.number != 17)  # stack_frame_index
    return b"".join(bytes_field(3, computation(of(f))) if f.number == 3 else f.raw for f in kept)


def read_store(path):
    """Its files by name: of a zip, or of a tar."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as store:
            return {name: store.read(name) for name in store.namelist()}
    with tarfile.open(path) as store:
        return {member.name: store.extractfile(member).read() for member in store if member.isfile()}


def table(options):
    print(f"| module | {' | '.join(SORTS)} | all | median error | tau |\n|{' --- |' * (len(SORTS) + 4)}")
    errors, taus, ratios = [], [], []
    store = read_store(options.store)
    stored = [name[:-5] for name in sorted(store) if name.endswith(".json")]
    for name in stored:
        model, _, variant = name.partition("/")
        if options.models and model not in options.models.split(","):
            continue
        kernels = kernels_of(store[f"{name}.hlo.pb"], json.loads(store[f"{name}.json"])["us"], options.machine, options.kernels)
        sums = [sum_of(sort, kernels) for sort in SORTS]
        measured = [(m, p) for sort, m, p in kernels if sort != "bodies" and m > 0]
        ratios.append(sum(p for _, _, p in kernels) / sum(m for _, m, _ in kernels))
        each = [abs(p / m - 1) for m, p in measured]
        shown = ["-", "-"]
        if len(measured) > 1:
            errors += each
            taus.append(kendall(measured))
            shown = [f"{100 * statistics.median(each):.0f} %", f"{taus[-1]:.2f}"]
        print(f"| {model}, {variant} | {' | '.join(sums)} | {ratios[-1]:.2f} | {' | '.join(shown)} |")
    if errors:
        print(f"\n{len(errors)} kernels: median error {100 * statistics.median(errors):.0f} %; tau {statistics.median(taus):.2f} in the median of "
              f"{len(taus)} modules; sums of {sum(abs(r - 1) <= 0.1 for r in ratios)} of {len(ratios)} modules within 10 %")  # fmt: skip


def sum_of(sort, kernels):
    those = [(m, p) for s, m, p in kernels if s == sort]
    measured, predicted = sum(m for m, _ in those), sum(p for _, p in those)
    return f"{measured:.0f} / {predicted:.0f}" if measured or predicted else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "table"])
    parser.add_argument("--store", required=True)
    parser.add_argument("--models", help="names, separated by commas (default: all)")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--limit", type=float, default=1e9, metavar="SECONDS", help="after which no further model is begun")
    parser.add_argument("--machine", default="h200x1", help="table: whose costs (default: h200x1)")
    parser.add_argument("--kernels", choices=["formula", "learned"], default="formula", help="table: what predicts (default: formula)")
    options = parser.parse_args()
    return measure(options) if options.what == "measure" else table(options)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
