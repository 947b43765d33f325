#!/usr/bin/env python3
"""What each kernel of planned modules takes on a GPU, by JAX's profiler, beside what the cost model says of it.

    PYTHONPATH=python/src STOWAGE_LIBRARY=build/release/libstowage.so python3 bench/xla_kernels.py measure --store kernels.zip
    PYTHONPATH=python/src STOWAGE_LIBRARY=build/release/libstowage.so python3 bench/xla_kernels.py table --store kernels.zip

`measure` compiles each step of bench/xla_models.py as XLA does by default and as plans want it, profiles what came out, and keeps the
modules (MODEL/VARIANT.hlo.pb) with the microseconds of their instructions (MODEL/VARIANT.json). Nothing else should run on the GPU.
`table` needs no GPU: for each module, the sums of what was measured and of what is predicted, by sorts of kernels.
"""
import argparse
import json
import os
import statistics
import sys
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
                times = profile_compiled(compiled[variant], (state, x), text.split(None, 2)[1].rstrip(","), options.repeats)
                store.writestr(f"{name}/{variant}.hlo.pb", modules[variant])
                store.writestr(f"{name}/{variant}.json", json.dumps({"ms": 1e3 * whole[variant], "us": times, "jax": jax.__version__,
                                                                    "device": jax.devices()[0].device_kind,
                                                                    "temp": compiled[variant].memory_analysis().temp_size_in_bytes}))  # fmt: skip
            store.writestr(f"{name}/bare.hlo.pb", bare.module)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "table"])
    parser.add_argument("--store", required=True)
    parser.add_argument("--models", help="names, separated by commas (default: all)")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--limit", type=float, default=1e9, metavar="SECONDS", help="after which no further model is begun")
    options = parser.parse_args()
    return measure(options) if options.what == "measure" else None


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
