"""Whether XLA's CPU backend makes code of a module, and of the same module with a plan in it. Run by test_hlo_plans.py in an environment
that has jax; prints a line of JSON for each planned module. XLA ends the process where it meets what it does not expect, so each original
has a process of its own for each way.

    build/venv/bin/python3 tests/export/hlo_accepts.py ORIGINAL PLANNED...

There are two ways into the backend. Behind all passes, a module takes the place of another one with the same parameters and results right
before code is made (`code`): for modules that XLA has lowered for a CPU. Else it goes through all passes (`passes`), which takes modules as
they come from a front end; jax hands these over without the layouts within fusions, which are put back behind the passes. The planned
modules go the way that the original can go.
"""

import json
import os
import subprocess
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
import jax  # noqa: E402
import jax.extend.xla as xla  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax._src.interpreters.mlir import make_ir_context  # noqa: E402
from jax._src.lib import hlo, xla_client  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402


class Behind:
    """Within, XLA goes on with what `change` makes of a module when its passes are over."""

    stage = xla.PipelineStage.PRE_SCHEDULER

    def __init__(self, change):
        self.change = change

    def __enter__(self):
        xla.register_hlo_module_transformation(self.change, name="stowage", stage=self.stage, platforms="cpu")

    def __exit__(self, *_):
        xla.clear_hlo_module_transformation(name="stowage", stage=self.stage, platforms="cpu")


def code(module, number):
    """Puts the module in the place of a function with its parameters and results."""
    data = module.as_serialized_hlo_module_proto()
    shape = hlo.XlaComputation(data).program_shape()
    result = shape.result_shape()
    results = result.tuple_shapes() if result.is_tuple() else [result]

    def stowage_probe(*_):
        made = tuple(jnp.full(part.dimensions(), number, part.numpy_dtype()) for part in results)
        return made if result.is_tuple() else made[0]
    given = [jax.ShapeDtypeStruct(part.dimensions(), part.numpy_dtype()) for part in shape.parameter_shapes()]
    replaced = []

    def change(found):
        if b"stowage_probe" not in found[:300]:
            return None
        replaced.append(found)
        return data
    with Behind(change):
        jax.jit(stowage_probe, keep_unused=True).lower(*given).compile()
    assert replaced, "XLA did not ask for the module"


def passes(module, _):
    """The whole way, from what a front end would hand over."""
    lowered = xla_client._xla.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    client = jax.devices("cpu")[0].client
    with make_ir_context():
        parsed = ir.Module.parse(lowered)

    def with_layouts(found):
        text = hlo.HloModule.from_serialized_hlo_module_proto(found).to_string()
        return hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    with Behind(with_layouts):
        client.compile_and_load(parsed, xla_client.DeviceList(tuple(client.devices()[:1])), xla_client.CompileOptions())


def read(path):
    with open(path, encoding="utf-8") as file:
        return hlo.hlo_module_from_text(file.read())


def error_of(way, path, number):
    try:
        way(read(path), number)
    except Exception as error:  # whatever XLA says is the finding
        return f"{type(error).__name__}: {error}".split("\n")[0][:300]
    return None


def go(way, original, planned):
    """One way, for the original and, if it can go it, for the planned modules."""
    jax.config.update("jax_enable_compilation_cache", False)
    jax.config.update("jax_enable_x64", True)
    refused = error_of(way, original, 0)
    print(json.dumps({"unchanged": refused, "way": way.__name__}), flush=True)
    for number, path in enumerate(planned if refused is None else []):
        print(json.dumps({"planned": path, "error": error_of(way, path, number + 1)}), flush=True)


def main():
    """XLA may end a process at the original already: then this is not its way."""
    if sys.argv[1] in ("code", "passes"):
        return go(globals()[sys.argv[1]], sys.argv[2], sys.argv[3:])
    for way in ("code", "passes"):
        done = subprocess.run([sys.executable, os.path.abspath(__file__), way, *sys.argv[1:]], capture_output=True, text=True)
        last = [line for line in done.stderr.splitlines() if line.startswith("F")][-1:]
        lines = done.stdout.splitlines() or [json.dumps({"unchanged": f"XLA ended: {last}"[:300], "way": way})]
        if json.loads(lines[0])["unchanged"] is None:
            break
    print("\n".join(lines))
    sys.stderr.write(done.stderr[-3000:])
    return None if json.loads(lines[0])["unchanged"] is not None else sys.exit(done.returncode != 0)


if __name__ == "__main__":
    main()
