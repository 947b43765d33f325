"""The examples in C and in Python run and say the same; the code in the comment of stowage.h runs; the code of docs/c-api.md compiles.

    STOWAGE_EXAMPLES=build/release/examples STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/docs/test_examples.py

The exit status is the verdict; the last line counts what passed and failed."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
from counting import run_tests  # noqa: E402

LIBRARY = pathlib.Path(os.environ.get("STOWAGE_LIBRARY", ROOT / "build" / "release" / "libstowage.so")).resolve()
PROGRAM = pathlib.Path(os.environ.get("STOWAGE_EXAMPLES", LIBRARY.parent / "examples")).resolve() / "example_optimize"
PYTHON = [sys.executable, str(ROOT / "examples" / "optimize.py")]
GRAPH = str(ROOT / "data" / "graphs" / "rnnlm-2.json.gz")
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]

# What the blocks of docs/c-api.md may use.
AROUND = """#include <stdio.h>
#include <stdlib.h>
#include <stowage.h>
#include <string.h>
static int block(const char *path, stw_graph *graph, stw_machine *machine, stw_costs *costs, stw_simulator *simulator,
                 stw_options *options, stw_result *result, stw_plan *mine, const void *model, size_t model_size) {
    stw_error error;
    {
%s    }
    (void)path, (void)graph, (void)machine, (void)costs, (void)simulator, (void)options, (void)result, (void)mine;
    (void)model, (void)model_size, (void)error;
    return 0;
}
int main(void) { return block(0, 0, 0, 0, 0, 0, 0, 0, 0, 0); }
"""


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def run_example(self, command, *arguments, graph=GRAPH):
        environment = {**os.environ, "STOWAGE_LIBRARY": str(LIBRARY), "PYTHONPATH": str(ROOT / "python" / "src")}
        words = [*command, *(arguments or (graph, "h200x2", "plan.json", "trace.json"))]
        return subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def test_both_find_the_same_plan(self):
        printed, plans = [], []
        for command in ([str(PROGRAM)], PYTHON):
            result = self.run_example(command)
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertRegex(result.stdout, r"^\S+ \(\S+\) on h200:[01], in kernel -?\d+\n")
            self.assertRegex(result.stdout, r"\.\.\. of \d+ ops\nstep \d+\.\d{3} ms, found by [\w-]+; no plan takes less than \d")
            plan = json.loads((self.folder / "plan.json").read_text())
            self.assertEqual(plan["format"], "plan")
            printed.append(result.stdout)
            plans.append((plan["device"], plan["priority"]))
            self.assertIn("traceEvents", json.loads((self.folder / "trace.json").read_text()))
            for made in ("plan.json", "trace.json"):
                (self.folder / made).unlink()
        self.assertEqual(printed[0], printed[1])
        self.assertEqual(plans[0], plans[1])

    def test_errors_are_told(self):
        for command in ([str(PROGRAM)], PYTHON):
            result = self.run_example(command, graph="missing.json")
            self.assertEqual((result.returncode, result.stdout), (1, ""), command)
            self.assertRegex(result.stderr, r"^error: missing\.json: cannot be opened: ")
            self.assertEqual(list(self.folder.iterdir()), [])
            self.assertIn("usage:", self.run_example(command, "one").stderr)


@unittest.skipUnless(shutil.which("cc"), "no C compiler")
class Documents(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def build(self, text, *more):
        source = self.folder / "source.c"
        source.write_text(text)
        words = ["cc", *WARNINGS, "-I", str(ROOT / "include"), str(source), *more]
        result = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_code_at_the_head_of_the_header(self):
        comment = (ROOT / "include" / "stowage.h").read_text().split("*/")[0]
        code = "\n".join(re.findall(r"^ \*     (.*)$", comment, re.M))
        text = f"#include <stdio.h>\n#include <stowage.h>\nint main(void) {{\n{code}\nreturn 0;\n}}\n"
        self.build(text, str(LIBRARY), f"-Wl,-rpath,{LIBRARY.parent}", "-o", "program")
        result = subprocess.run([self.folder / "program"], cwd=ROOT / "data" / "graphs", capture_output=True, text=True, check=False)
        self.assertRegex(result.stdout, r"^\S+ is on device [0-3]; a step takes \d+\.\d{3} ms\n$")
        self.assertEqual(result.returncode, 0)

    def test_code_of_the_page(self):
        blocks = re.findall(r"^```c\n(.*?)^```", (ROOT / "docs" / "c-api.md").read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 5)
        for block in blocks:
            with self.subTest(block):
                self.build(AROUND % block, "-fsyntax-only")


if __name__ == "__main__":
    sys.exit(run_tests())
