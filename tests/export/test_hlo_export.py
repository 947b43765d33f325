"""Plans in HLO modules: every module of the collections comes back as the same graph and carries its plan; groups become fusions;
and JAX, where it is installed, runs what comes out.

    STOWAGE_BIN=build/release/stowage python3 tests/export/test_hlo_export.py

STOWAGE_HLO names folders of modules, separated by colons. With STOWAGE_SLOW_BUILD in the environment, as builds with sanitizers have it,
only small modules are taken. JAX is looked for in the Python that runs this and in build/venv (scripts/venv.sh). The exit status is the
verdict; the last line counts what passed and failed.
"""

import functools
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ["STOWAGE_BIN"] = os.path.abspath(os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")
FOLDERS = os.environ.get("STOWAGE_HLO", ":".join(os.path.join(SHARED, *parts) for parts in (("external", "hlo"), ("hlo",)))).split(":")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hlo_plans import Module, entry_of, rows_of, step_of, stowage  # noqa: E402

MODULES = sorted(path for folder in FOLDERS for ending in ("*.hlo.gz", "*.hlo.txt.gz", "*.hlo.txt", "*.hlo.pb")
                 for path in glob.glob(os.path.join(folder, ending)))
SMALL = 30_000  # bytes, packed
TWO = "0.1/h200x2"  # no charges: who pays to receive goes by ids, which follow the order in the file (docs/formats/hlo.md)
if "STOWAGE_SLOW_BUILD" in os.environ:
    MODULES = [path for path in MODULES if os.path.getsize(path) < SMALL]
KEPT = ("op", "kind", "bytes", "flops")
NO_JAX = "no JAX with hooks for HLO, neither in this Python nor in build/venv (scripts/venv.sh)"
WRITERS = ("dynamic-update-slice", "scatter", "while")  # wait for readers of what they overwrite: docs/formats/hlo.md


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return file.read()


def nodes_of(rows):
    """{name: what the graph says of it}"""
    return {row["name"]: tuple(row[key] for key in KEPT) for row in rows}


def graph_of(path):
    graph = json.loads(stowage("inspect", path, "--format", "json"))
    return {key: graph[key] for key in ("nodes", "ops", "views", "edges", "control_edges", "updates", "outputs", "flops")}


@functools.lru_cache(None)
def python_with_jax():
    """A Python that has JAX with the hook, or None."""
    probe = "import jax.extend.xla as x; x.register_hlo_module_transformation"
    for python in (sys.executable, os.path.join(ROOT, "build", "venv", "bin", "python3")):
        if os.path.exists(python) and subprocess.run([python, "-c", probe], capture_output=True).returncode == 0:
            return python
    return None


def aliased_outputs(text):
    """Indices of outputs that are written over parameters."""
    head = text[:text.index("\n")]
    found = re.search(r"input_output_alias=\{ (.*?) \}(,|$)", head)
    return [int(index or 0) for index in re.findall(r"\{(\d*)[^{}]*\}: \(", found.group(1))] if found else []


class RoundTrip(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def export(self, model, plan, to="hlo", machine=TWO):
        out = self.path(f"{plan}.{to}")
        stowage("export", model, "--machine", machine, "--memory", "4TB", "--plan", plan, "--to", to, "-o", out)
        return out

    @unittest.skipUnless(MODULES, f"no modules in {':'.join(FOLDERS)}")
    def test_collections(self):
        tasks = waiting = packed = 0
        for model in MODULES:
            with self.subTest(os.path.basename(model)):
                first, second = self.export(model, "single"), self.export(model, "spread")
                self.assertNotEqual(read(first), read(second), "another plan, the same file")
                rows = rows_of(model, TWO, "spread", self.folder.name)
                self.assertEqual(nodes_of(rows), nodes_of(rows_of(second, "h200x1", "single", self.folder.name)))
                self.assertEqual(graph_of(model), graph_of(second))
                self.assertAlmostEqual(step_of(second, TWO, "carried") / step_of(model, TWO, "spread"), 1.0, delta=1e-9)
                text = read(second).decode()
                self.assertIn("stowage_device=\"h200:1\"", text)
                self.assertIn("is_scheduled=true", text[:text.index("\n")])
                self.assertEqual(text.count("\n"), read(model).decode().count("\n"), "lines are lost")
                self.check_devices(rows, entry_of(text))
                late = self.check_order(rows, entry_of(text), text)
                tasks, waiting, packed = tasks + sum(row["start_us"] != "" for row in rows), waiting + late[0], packed + late[1]
        print(f"order: of {tasks} tasks {waiting} stand later than planned for what is overwritten, {packed} behind a tuple or barrier")

    def check_devices(self, rows, entry):
        """Each task is annotated with its device, and so is each parameter that is one array."""
        named = {}
        for row in rows:
            named.setdefault(row["name"], []).append(row)
        for name, (opcode, _, rest, _) in entry.items():
            [row] = named.get(name, []) if len(named.get(name, [])) == 1 else [None]
            if row is None or row["kind"] not in ("op", "parameter", "buffer"):
                continue
            written = re.search(r'stowage_device="(.*?)"', rest)
            self.assertEqual(written and written.group(1), row["device"], f"{name} ({opcode})")
            for index in re.findall(r"sharding=\{maximal device=(\d+)\}", rest):
                self.assertEqual(f"h200:{index}", row["device"], name)
        ops = {row["name"] for row in rows if row["kind"] == "op"}
        self.assertEqual(ops - set(entry), set(), "tasks that are not in the entry")

    def check_order(self, rows, entry, text):
        """Tasks stand in the order in which they begin. Counts those that stand later: for what is overwritten, and behind a tuple."""
        start = {row["name"]: float(row["start_us"]) for row in rows if row["start_us"]}
        overwriting = self.overwriting_outputs(start, entry, text)
        latest, waiting, packed, ready = 0.0, set(), set(), {}
        for name, (opcode, operands, _, _) in entry.items():
            ready[name] = max([0.0] + [max(ready[operand], start.get(operand, 0.0)) for operand in operands])  # of all it names
            if name in start and start[name] >= latest:
                latest = start[name]
            elif not waiting.isdisjoint(operands) or (name in start and (opcode in WRITERS or name in overwriting)):
                waiting.add(name)
            elif not packed.isdisjoint(operands) or (name in start and start[name] < ready[name]):
                packed.add(name)  # it reads a part of a tuple or barrier that packs later values too
            else:
                self.assertNotIn(name, start, f"{opcode} stands too late")
        return [sum(name in start for name in late) for late in (waiting, packed)]

    def overwriting_outputs(self, start, entry, text):
        """What makes outputs that are written over parameters, perhaps behind views."""
        root = entry[re.findall(r"\n\s*ROOT %?([\w.\-]+) = ", text[text.index("\nENTRY"):])[0]]
        found = {root[1][k] for k in aliased_outputs(text) if k < len(root[1])} if root[0] == "tuple" else set()
        for name in reversed(list(entry)):
            if name in found and name not in start:
                found.update(entry[name][1])
        return found

    @unittest.skipUnless(MODULES, f"no modules in {':'.join(FOLDERS)}")
    def test_one_device_leaves_nothing(self):
        for model in MODULES:
            with self.subTest(os.path.basename(model)):
                once = read(self.export(model, "single", machine="h200x1")).decode()
                self.assertNotIn("stowage", once)
                head, *lines = once.splitlines()
                old_head, *old_lines = read(model).decode().splitlines()

                def bare(text):
                    return sorted(line.strip() for line in text)
                self.assertEqual(bare(lines), bare(old_lines))
                self.assertEqual(head.replace(", is_scheduled=true", ""), old_head.replace(", is_scheduled=true", ""))

    def fusible(self):
        return [path for path in MODULES if ".nofusion." in path]

    @unittest.skipUnless(MODULES, f"no modules in {':'.join(FOLDERS)}")
    def test_groups(self):
        """Each element-wise op into its only consumer, on modules of a GPU with one fusion per op."""
        outs = []
        for model in self.fusible():
            for recompute in (False, True):
                with self.subTest(os.path.basename(model), recompute=recompute):
                    text = read(model).decode()
                    module = Module(model, self.folder.name, text)
                    group = module.groups(recompute)
                    out = self.path(f"fused{len(outs)}.hlo.txt")
                    with open(out, "wb") as file:
                        file.write(module.export("h200x1", [0.0] * len(group), group))
                    fused = read(out).decode()
                    sizes = {}
                    for number in (g for g, node in zip(group, module.nodes) if node["kind"] == "op"):
                        sizes[number] = sizes.get(number, 0) + 1
                    made = len(re.findall(r"%stowage_fusion\.\d+ = ", fused))
                    self.assertGreaterEqual(made, sum(size > 1 for number, size in sizes.items() if number >= 0))
                    self.assertGreater(made, 0)
                    ops = json.loads(stowage("inspect", out, "--format", "json"))["ops"]
                    self.assertEqual(ops, len(sizes) - (-1 in sizes))
                    outs.append(out)
        self.assertGreater(len(outs), 0)
        self.assert_taken_by_xla(*outs)

    def test_groups_that_close_a_cycle(self):
        """`was` is read before `u` writes over it, and only `both` reads it: as one kernel they would wait for `u`, which waits for them."""
        text = ("HloModule waits\n\nENTRY main {\n"
                "  x = f32[64,64]{1,0} parameter(0)\n"
                "  row = f32[1,64]{1,0} parameter(1)\n"
                "  k = s32[] parameter(2)\n"
                "  cache = f32[64,64]{1,0} add(x, x)\n"
                "  was = f32[64,64]{1,0} negate(cache)\n"
                "  u = f32[64,64]{1,0} dynamic-update-slice(cache, row, k, k)\n"
                "  both = f32[64,64]{1,0} multiply(was, u)\n"
                "  up = f32[64,64]{1,0} tanh(both)\n"
                "  ROOT end = f32[64,64]{1,0} add(up, x)\n"
                "}\n")
        model = self.path("waits.hlo.txt")
        with open(model, "w") as file:
            file.write(text)
        module = Module(model, self.folder.name, text)
        ids = {node["name"]: int(node["node"]) for node in module.nodes}
        wanted, group = module.wanted_groups(False), module.groups(False)
        self.assertEqual(wanted[ids["was"]], wanted[ids["end"]], "the rule no longer makes the group that this is about")
        [(op, reason)] = module.refused
        self.assertEqual(op, ids["was"])
        self.assertRegex(reason, "cycle")
        self.assertEqual({name: group[ids[name]] for name in ("was", "both", "up")},
                         {"was": ids["was"], "both": ids["end"], "up": ids["end"]})
        out = self.path("waits.out")
        with open(out, "wb") as file:
            file.write(module.export("h200x1", [0.0] * len(group), group))
        self.assertEqual(json.loads(stowage("inspect", out, "--format", "json"))["ops"], 4)
        self.assert_taken_by_xla(out)

    def assert_taken_by_xla(self, *paths):
        python = python_with_jax()
        if python is None:
            self.skipTest(NO_JAX)
        check = ("import sys\nfrom jax._src.lib import hlo\nfor path in sys.argv[1:]:\n"
                 "    hlo.hlo_module_from_text(open(path).read()).schedule().verify()\n")
        done = subprocess.run([python, "-c", check, *paths], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    @unittest.skipUnless(MODULES, f"no modules in {':'.join(FOLDERS)}")
    def test_xla_reads_it(self):
        if python_with_jax() is None:
            self.skipTest(NO_JAX)
        paths = []
        for model in MODULES:
            paths.append(self.path(os.path.basename(model) + ".out"))
            os.rename(self.export(model, "spread"), paths[-1])
        self.assert_taken_by_xla(*paths)

    def test_not_hlo(self):
        graph = self.path("graph.json")
        with open(graph, "w") as file:
            json.dump({"format": "opgraph", "version": 1, "name": "g", "family": "t", "outputs": [],
                       "nodes": [{"id": 0, "name": "x", "op": "input", "inputs": [], "dtype": "f32", "shape": [4]},
                                 {"id": 1, "name": "y", "op": "relu", "inputs": [0], "dtype": "f32", "shape": [4]}]}, file)
        done = subprocess.run([os.environ["STOWAGE_BIN"], "export", graph, "--machine", "h200x1", "--plan", "single", "--to", "hlo",
                               "-o", self.path("out")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("not an HLO module", done.stderr)
        self.assertFalse(os.path.exists(self.path("out")))


class InXla(unittest.TestCase):
    """Functions with gradients, compiled with our order and our groups."""

    @classmethod
    def setUpClass(cls):
        python = python_with_jax()
        if python is None:
            raise unittest.SkipTest(NO_JAX)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hlo_in_xla.py")
        done = subprocess.run([python, script], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr[-3000:])
        cls.rows = json.loads(done.stdout)["rows"]

    def test_runs(self):
        self.assertGreaterEqual(len({row["function"] for row in self.rows}), 2)
        for row in self.rows:
            with self.subTest(**{key: row[key] for key in ("function", "change", "donated")}):
                self.assertIsNone(row["error"])
                reorders = row["change"] in ("order", "reverse", "two devices")
                self.assertLessEqual(row["difference"], 0.0 if reorders else 1e-3)
                self.assertEqual(row["fusions"], row["compiled"], "a fusion that the compiled module lacks")
                if row["change"] in ("groups", "recomputed", "text"):
                    self.assertGreater(row["fusions"], 0)
        self.assertTrue(any(row["fusions"] for row in self.rows if row["change"] == "siblings"))


if __name__ == "__main__":
    sys.exit(run_tests())
