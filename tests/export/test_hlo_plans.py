"""Every valid plan of an HLO module can be exported: plans of searches, of rules and of chance, for all modules of the collections. What
comes out is read back, is verified by XLA, and its CPU backend makes code of it wherever it does so of the module without a plan.

    STOWAGE_BIN=build/release/stowage python3 tests/export/test_hlo_plans.py

Folders, builds and JAX are as in test_hlo_export.py. Modules that XLA takes long for are handed to its backend only where STOWAGE_LONG is
in the environment (scripts/check_all.sh). The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_hlo_export import FOLDERS, MODULES, NO_JAX, ROOT, python_with_jax, read  # noqa: E402
from hlo_plans import BINARY, entry_of, rows_of  # noqa: E402
from counting import run_tests  # noqa: E402

MACHINE = ("--machine", "h200x1", "--memory", "4TB")
SEARCHES = (("--evaluations", "40"), ("--evaluations", "40", "--seed", "7", "--fusion", "reverse-post-order"))
LARGE = 30_000  # bytes, packed: XLA may take half a minute for one
SEEDS = int(os.environ.get("STOWAGE_SEEDS", "6"))  # of groups by chance, for each module
SLOW_IN_XLA = ("convnet.before", "transformer.before", "resnet50", "dlrm")  # seconds


def stowage(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True)


class Plans(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def export(self, model, plan, name):
        """The module with a valid plan in it, which reads back with as many ops as the plan has tasks."""
        out = self.path(name)
        done = stowage("export", model, *MACHINE, "--plan", plan, "--to", "hlo", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = rows_of(model, "h200x1", plan, self.folder.name)
        tasks = {row["group"] for row in rows if row["kind"] == "op"} - {"-1"}
        back = stowage("inspect", out, "--format", "json")
        self.assertEqual(back.returncode, 0, back.stderr)
        self.assertEqual(json.loads(back.stdout)["ops"], len(tasks))
        return out

    def search(self, model, options, name):
        plan = self.path(name + ".json")
        done = stowage("optimize", model, *MACHINE, *options, "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.export(model, plan, name)

    def write_plan(self, group, name):
        plan, count = self.path(name + ".json"), len(group)
        with open(plan, "w") as file:
            json.dump({"format": "plan", "version": 1, "device": [0] * count, "priority": [0.0] * count, "group": group}, file)
        return plan

    def judge(self, model, plan):
        done = stowage("simulate", model, *MACHINE, "--plan", plan, "--format", "json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)


@unittest.skipUnless(MODULES, f"no modules in {':'.join(FOLDERS)}")
class Collections(Plans):
    def test_searches(self):
        """Plans of searches and rules: all export, XLA verifies them, and makes code of those whose originals it takes."""
        made = {}
        for model in MODULES:
            is_short = os.path.getsize(model) > LARGE and "STOWAGE_LONG" not in os.environ
            for number, options in enumerate(SEARCHES[:1] if is_short else SEARCHES):
                with self.subTest(os.path.basename(model), options=" ".join(options)):
                    name = f"{os.path.basename(model)}.{number}"
                    made.setdefault(model, []).append(self.search(model, options, name))
        self.assertEqual(len(made), len(MODULES))
        self.verify([path for paths in made.values() for path in paths])
        self.compile(made)

    def verify(self, paths):
        python = python_with_jax()
        if python is None:
            self.skipTest(NO_JAX)
        check = ("import sys\nfrom jax._src.lib import hlo\nfor path in sys.argv[1:]:\n"
                 "    hlo.hlo_module_from_text(open(path).read()).schedule().verify()\n")
        done = subprocess.run([python, "-c", check, *paths], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def compile(self, made):
        refused = {}
        for model, paths in made.items():
            base = os.path.basename(model)
            is_slow = os.path.getsize(model) > LARGE or base.startswith(SLOW_IN_XLA)
            if is_slow and "STOWAGE_LONG" not in os.environ:
                continue
            with self.subTest(base, by="XLA"):
                original = self.path(base + ".txt")
                with open(original, "wb") as file:
                    file.write(read(model))
                script = os.path.join(ROOT, "tests", "export", "hlo_accepts.py")
                done = subprocess.run([python_with_jax(), script, original, *paths], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                first, *rest = [json.loads(line) for line in done.stdout.splitlines()]
                if first["unchanged"] is not None:
                    refused[base] = first["unchanged"]
                    continue
                self.assertEqual([row["error"] for row in rest], [None] * len(paths), first["way"])
        for base, error in refused.items():
            print(f"XLA's CPU backend does not take {base} as it is: {error[:150]}")

    def test_chance(self):
        """Groups by chance, most of which are no good: what the simulator calls valid can be exported, and nothing else can."""
        valid, invalid = [], 0
        for model in MODULES:
            if os.path.getsize(model) > LARGE:
                continue
            rows, entry = rows_of(model, "h200x1", "single", self.folder.name), entry_of(read(model).decode())
            for seed in range(SEEDS):
                with self.subTest(os.path.basename(model), seed=seed):
                    plan = self.write_plan(chance(rows, entry, seed), "chance")
                    verdict = self.judge(model, plan)
                    if verdict["valid"]:
                        valid.append(self.export(model, plan, f"chance.{len(valid)}"))
                        continue
                    done = stowage("export", model, *MACHINE, "--plan", plan, "--to", "hlo", "-o", self.path("none"))
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(verdict["reason"], done.stderr)
                    invalid += 1
        print(f"by chance: {len(valid)} valid plans, {invalid} others")
        self.assertGreater(len(valid), 0)
        self.assertGreater(invalid, 0)
        self.verify(valid)


def read_by(rows, entry):
    """{op: ops that it reads, by way of views and tuples}"""
    ids = {row["name"]: int(row["node"]) for row in rows if row["kind"] == "op"}
    behind, reads = {}, {}
    for name, (_, operands, _, _) in entry.items():
        found = set().union(*[behind.get(operand, ()) for operand in operands])
        behind[name] = {ids[name]} if name in ids else found
        if name in ids:
            reads[ids[name]] = sorted(found)
    return reads


def chance(rows, entry, seed):
    """A few ops go into a kernel with what they read, with what reads the same, or are recomputed."""
    draw, reads, group = random.Random(seed), read_by(rows, entry), list(range(len(rows)))
    ops = [op for op in reads if reads[op]]
    for _ in range(draw.choice((1, 2, 4, 8))):
        op = draw.choice(ops)
        other, how = draw.choice(reads[op]), draw.random()
        if how < 0.6:
            group[other] = group[op]
        elif how < 0.8:
            group[draw.choice([k for k in ops if other in reads[k]])] = group[op]
        else:
            group[other] = -1
    return group


if __name__ == "__main__":
    sys.exit(run_tests())
