"""What the tests of stowage.jax share. Importing it puts the package on the path and sets JAX_PLATFORMS."""
import importlib.util
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"
sys.path.insert(0, str(PACKAGE / "src"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "STOWAGE_LIBRARY" in os.environ:
    os.environ["STOWAGE_LIBRARY"] = os.path.abspath(os.environ["STOWAGE_LIBRARY"])


def jax_lacks():
    """Why stowage.jax cannot be tested here, or ""."""
    if "LD_PRELOAD" in os.environ:
        return "jax is not run under a sanitizer"
    if importlib.util.find_spec("jax") is None:
        return "jax is not installed"
    import jax

    version = [int(n) for n in re.findall(r"\d+", jax.__version__)[:3]]
    return f"jax {jax.__version__} is older than 0.10.2" if version < [0, 10, 2] else ""


LACKS = jax_lacks()
if not LACKS:
    import jax
    import numpy as np

    import stowage.jax


def compiled_with(plan, step, p, x, donate=()):
    with stowage.jax.apply(plan) as applied:
        compiled = jax.jit(step, donate_argnums=donate).lower(p, x).compile(plan.compiler_options)
    return compiled, applied


def our_fusions(compiled):
    """Names of the fusions that a plan put into what XLA compiled. (Paths of sources stand there too: the word alone says nothing.)"""
    return set(re.findall(r"\b(stowage_fusion\.\d+) = ", compiled.as_text()))


def copied(tree):
    return jax.tree.map(lambda a: a + 0.0, tree)


@unittest.skipIf(LACKS, LACKS)
class Jax(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_close(self, expected, got, tolerance=1e-4):
        self.assertEqual(jax.tree.structure(expected), jax.tree.structure(got))
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got)):
            a, b = np.asarray(a), np.asarray(b)
            self.assertLessEqual(float(np.max(np.abs(a - b))), tolerance * max(1e-3, float(np.max(np.abs(a)))))
