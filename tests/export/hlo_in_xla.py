"""Plans that XLA runs: compiles functions with gradients on JAX's CPU backend, where at the last stage before code is made the
module is exported, planned and put back; compares the results with XLA's own. Run by test_hlo_export.py in an environment that
has jax; prints a line of JSON.

    STOWAGE_BIN=build/release/stowage build/venv/bin/python3 tests/export/hlo_in_xla.py [FUNCTION|CHANGE...]

The environment is made by scripts/venv.sh. With STOWAGE_SLOW_BUILD in the environment only the two smallest functions are taken.
"""

import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.extend.xla as xla  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from hlo_plans import Module, entry_of  # noqa: E402
from jax._src.lib import hlo  # noqa: E402
from jax_functions import functions, train_step  # noqa: E402

NO_FUSION = "fusion,cpu_multi_output_fusion"
SMALL = ("mlp", "cached")  # these go through all changes
NOT_DONATED = ("order", "groups")  # the rest only with parameters that are overwritten, where more can go wrong
OTHERS = ("order", "recomputed", "siblings")  # changes of the other functions


def lower(step, p, x, donate):
    return jax.jit(step, donate_argnums=(0,) if donate else ()).lower(p, x)


def options_of(number):
    """No fusion, and code that is made fast. JAX keeps what it has compiled, so each run has a pass of its own that is not there."""
    return {"xla_disable_hlo_passes": f"{NO_FUSION},none-{number}", "xla_backend_optimization_level": 0}


def run(lowered, p, x, change, number):
    """The results, and the module that was handed to code generation."""
    seen = []

    def hook(data):
        if b"train_step" not in data[:200] and b"jit_step" not in data[:200]:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "module.pb")
            with open(path, "wb") as file:
                file.write(data)
            new = change(Module(path, folder, hlo.HloModule.from_serialized_hlo_module_proto(data).to_string()))
        seen.append(new if new is not None else data)
        return new
    stage = xla.PipelineStage.POST_SCHEDULER
    xla.register_hlo_module_transformation(hook, name="stowage", stage=stage, platforms="cpu")
    try:
        compiled = lowered.compile(options_of(number))
        return jax.tree.map(np.asarray, compiled(jax.tree.map(jnp.array, p), x)), seen[-1], compiled.as_text()
    finally:
        xla.clear_hlo_module_transformation(name="stowage", stage=stage, platforms="cpu")


def changes():
    """name -> what is done to a module"""
    def order(sign):
        return lambda m: m.export("h200x1", [sign * float(k * 7919 % 101) for k in range(len(m.nodes))], list(range(len(m.nodes))))

    def fuse(recompute):
        return lambda m: m.export("h200x1", [0.0] * len(m.nodes), m.groups(recompute))
    yield "order", order(1.0)
    yield "reverse", order(-1.0)
    yield "groups", fuse(False)
    yield "recomputed", fuse(True)
    yield "siblings", lambda m: m.export("h200x1", [0.0] * len(m.nodes), m.siblings())
    yield "two devices", lambda m: m.export("h200x2", [0.0] * len(m.nodes), list(range(len(m.nodes))))
    yield "text", lambda m: hlo.hlo_module_from_text(
        m.export("h200x1", [0.0] * len(m.nodes), m.groups(False), "hlo-text").decode()).as_serialized_hlo_module_proto()


def compare(a, b):
    worst = 0.0
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
        worst = max(worst, float(np.max(np.abs(left - right) / (1e-3 + np.abs(left)))) if left.size else 0.0)
    return worst


def is_wanted(function, change, donate):
    if function in SMALL:
        return donate or change in NOT_DONATED
    return donate and change in OTHERS


def main():
    jax.config.update("jax_enable_compilation_cache", False)
    rows, number = [], 0
    only = sys.argv[1:]
    for loss, p, x in functions():
        name = loss.__name__
        if "STOWAGE_SLOW_BUILD" in os.environ and name not in SMALL:
            continue
        lowered = {donate: lower(train_step(loss), p, x, donate) for donate in (False, True)}
        expected, _, _ = run(lowered[False], p, x, lambda m: None, number)
        for donate in (False, True):
            for change, apply in changes():
                if only and change not in only and name not in only:
                    continue
                if not is_wanted(name, change, donate):
                    continue
                number += 1
                row = {"function": name, "change": change, "donated": donate}
                try:
                    got, after, compiled = run(lowered[donate], p, x, apply, number)
                    text = hlo.HloModule.from_serialized_hlo_module_proto(after).to_string()
                    row.update(difference=compare(expected, got), fusions=len(re.findall(r"stowage_fusion\.\d+ = ", text)),
                               compiled=len(re.findall(r"stowage_fusion\.\d+ = ", compiled)), ops=len(entry_of(text)), error=None)
                except Exception as error:  # whatever XLA or stowage say is the finding
                    row.update(error=f"{type(error).__name__}: {error}"[-400:])
                rows.append(row)
                print(json.dumps(row), file=sys.stderr)
    print(json.dumps({"jax": jax.__version__, "rows": rows}))


if __name__ == "__main__":
    main()
