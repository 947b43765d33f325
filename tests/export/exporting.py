"""What the tests of exported plans share: the program, graphs, a case with a folder of its own."""

import csv
import glob
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("STOWAGE_DATA", os.path.join(ROOT, "data"))
BINARY = os.path.abspath(os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")))
GRAPHS = sorted(glob.glob(os.path.join(DATA, "graphs", "*.json.gz")))
MODELS = os.path.join(ROOT, "tests", "import", "data")
TENSORFLOW = ["tf_mlp.pb", "tf_conv.pb.gz", "tf_loop.pb", "tf_loop.pbtxt", "tf_traced.pb", "tf_functions.pb"]
COLUMNS = "node,name,op,kind,device,priority,group,start_us,end_us,bytes,flops".split(",")
# Names that every format has its own way to quote.
QUOTED = {"format": "opgraph", "version": 1, "name": 'a "graph" \\', "outputs": [3], "nodes": [
    {"id": 0, "name": "w", "op": "parameter", "label": 'l."w"\\', "inputs": [], "dtype": "f32", "shape": [4], "bytes": 16},
    {"id": 1, "name": "a", "op": "relu", "inputs": [0], "dtype": "f32", "shape": [4], "bytes": 16},
    {"id": 2, "name": "\u00e4\n", "op": "relu", "inputs": [1], "dtype": "f32", "shape": [4], "bytes": 16},
    {"id": 3, "name": "\\N", "op": "relu", "inputs": [2], "dtype": "f32", "shape": [4], "bytes": 16}]}


def warning_of(model):
    """What is said of a file's times, whatever is done with it: a loop of Enter and Merge does not say how often it runs."""
    if "tf_loop" not in model:
        return ""
    return ("stowage: warning: 1 loop does not say how often it runs: the limit in the condition counts, else one turn; give the time with "
            "--costs\n")


def read_graph(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="stowage-export-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
        return path

    def run_stowage(self, *arguments, **more):
        return subprocess.run([BINARY, *arguments], capture_output=True, timeout=600, **more)

    def export(self, graph, form, *more, machine="h200x4", plan="spread", name="out"):
        """The bytes of the file and the note."""
        path = self.path(name)
        grain = ("--grain", "op") if form == "device-map" else ()
        result = self.run_stowage("export", graph, "-m", machine, "-p", plan, "--to", form, "-o", path, *grain, *more)
        worse = "stowage: warning: what was exported is worse than one device\n"
        self.assertIn("simulated step: ", result.stdout.decode())
        self.assertEqual(result.stdout.startswith(b"worse than one device"), result.stderr.decode().endswith(worse), result)
        self.assertEqual((result.returncode, result.stderr.decode().removesuffix(worse)), (0, warning_of(graph)), result)
        with open(path, "rb") as file:
            return file.read(), result.stdout.decode()

    def fault(self, *arguments, says, warns=""):
        result = self.run_stowage(*arguments)
        self.assertTrue(result.stderr.decode().startswith(warns), result)
        line = result.stderr.decode()[len(warns):]
        self.assertEqual((result.returncode, result.stdout), (2, b""), result)
        self.assertTrue(line.startswith("stowage: ") and line.count("\n") == 1 and line.endswith("\n"), line)
        self.assertIn(says, line)

    def plan(self, graph, machine, method):
        """The plan file of a method, and what it holds."""
        path = self.path("plan.json")
        result = self.run_stowage("simulate", graph, "-m", machine, "-p", method, "-o", path)
        self.assertEqual(result.returncode, 0, result)
        with open(path, encoding="utf-8") as file:
            return path, json.load(file)

    def rows(self, content):
        table = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
        self.assertEqual(table[0], COLUMNS)
        return [dict(zip(COLUMNS, row, strict=True)) for row in table[1:]]


def main():
    if not os.access(BINARY, os.X_OK):
        print(f"no program at '{BINARY}'; give its path in STOWAGE_BIN", file=sys.stderr)
        return 2
    return run_tests()
