"""Plans that XLA runs: fusions and order for a jitted JAX function.

    plan = stowage.jax.plan(step, params, batch)
    with stowage.jax.apply(plan):
        compiled = jax.jit(step).lower(params, batch).compile(plan.compiler_options)

or, by measuring, never slower than XLA's own:

    tuned = stowage.jax.tune(step, params, batch)
    tuned(params, batch)

XLA hands its module over when all its own passes but the last are done; the plan's groups and order are put into it, and XLA makes
code from that. Works on CPUs and on NVIDIA GPUs, with jax 0.10.2 or newer.
"""
try:
    import jax as _jax  # noqa: F401
except ImportError as _error:
    raise ImportError(f"stowage.jax needs jax 0.10.2 or newer (pip install 'jax>=0.10.2'): {_error}") from None

from ._apply import Applied, apply
from ._capture import Capture, capture
from ._compare import Comparison
from ._plan import JaxPlan, load, plan
from ._profile import profile
from ._tune import Tuned, tune

__all__ = ["Applied", "Capture", "Comparison", "JaxPlan", "Tuned", "apply", "capture", "load", "plan", "profile", "tune"]
