"""stowage compare: tables of methods in all formats.

    python3 tests/cli/test_compare.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import csv
import io
import json
import os
import sys

import program
from program import CSV_KEYS, GRAPH, ROOT, SMALL, TIMED_KEYS, Case, markdown_rows, without_times

COMPARE_KEYS = ["graph", "machine", "objective", "lower_bound_s", "lower_bound_fusion_s", "lower_bound_load_s",
                "lower_bound_bytes", "measured_share", "warnings", "methods"]


class Compare(Case):
    GRAPHS = [GRAPH, os.path.join(ROOT, "data", "graphs", "rnnlm-2.json.gz")]
    QUICK = ["--evaluations", "40", "--methods", "single,spread,optimize"]

    def rows(self, *arguments, **more):
        return json.loads(self.done("compare", *arguments, "--format", "json", **more))

    def test_json_fields(self):
        rows = self.rows(*self.GRAPHS, "-m", "h200x2,h200x4", *self.QUICK)
        self.assertEqual([(row["graph"], row["machine"]) for row in rows],
                         [("unet", "h200x2"), ("unet", "h200x4"), ("rnnlm-2", "h200x2"), ("rnnlm-2", "h200x4")])
        for row in rows:
            self.assertEqual(list(row), COMPARE_KEYS)
            self.assertEqual((row["objective"], [m["method"] for m in row["methods"]]), ("time", ["single", "spread", "optimize"]))
            for method in row["methods"]:
                self.assertEqual(list(method), TIMED_KEYS)
                self.assertGreaterEqual(method["step_s"], row["lower_bound_s"])
                self.assertLessEqual(method["evaluations"], 41)
                self.assertEqual(len(method["peak_bytes"]), int(row["machine"][-1]))
            self.assertLessEqual(row["methods"][2]["step_s"], row["methods"][1]["step_s"])

    def test_formats_agree(self):
        arguments = [*self.GRAPHS, "-m", "h200x2", *self.QUICK]
        rows = self.rows(*arguments)
        lines = list(csv.DictReader(io.StringIO(self.done("compare", *arguments, "-f", "csv"))))
        self.assertEqual(list(lines[0]), CSV_KEYS)
        methods = [(row, method) for row in rows for method in row["methods"]]
        self.assertEqual(len(lines), len(methods))
        for line, (row, method) in zip(lines, methods):
            self.assertEqual((line["graph"], line["machine"], line["method"]), (row["graph"], row["machine"], method["method"]))
            self.assertEqual((float(line["step_s"]), float(line["lower_bound_s"])), (method["step_s"], row["lower_bound_s"]))
        text, markdown = self.done("compare", *arguments), self.done("compare", *arguments, "-f", "markdown")
        table = markdown_rows(markdown)
        self.assertEqual(table[0], ["graph", "machine", "lower bound", "single", "spread", "optimize"])
        for cells, row in zip(table[1:], rows):
            line = [line for line in text.splitlines() if line.split()[:1] == [row["graph"]]][0]
            for cell, method in zip(cells[3:], row["methods"]):
                self.assertIn(cell, line)
                value, unit = cell.split()
                self.assertAlmostEqual(float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[unit] / method["step_s"], 1, places=3)
        for k, name in enumerate(("single", "spread", "optimize")):
            product = 1.0
            for row in rows:
                product *= row["methods"][k]["step_s"] / row["lower_bound_s"]
            self.assertAlmostEqual(float(table[-1][3 + k]), product ** (1 / len(rows)), places=3, msg=name)
        self.assertIn("geometric mean over the rows of t / lower bound", text)
        self.assertIn("geometric mean over the rows of t / lower bound", markdown)

    def test_the_best_is_marked(self):
        arguments = [*self.GRAPHS, "-m", "h200x4", *self.QUICK]
        for line, row in zip(self.done("compare", *arguments).splitlines()[1:], self.rows(*arguments)):
            least = min(method["step_s"] for method in row["methods"])
            marks = [word.startswith("*") for word in line.split()[4::2]]
            self.assertEqual(marks, [method["step_s"] == least for method in row["methods"]], line)
        self.assertIn("**", self.done("compare", *arguments, "-f", "markdown"))

    def test_one_graph_has_the_whole_table(self):
        text = self.done("compare", GRAPH, "-m", "h200x2", *self.QUICK)
        for word in ("unet on h200x2", "t / bound", "peak memory", "search time", "evaluations", "\n  * ",
                     "budget of each: 40 evaluations"):
            self.assertIn(word, text)

    def test_all_methods_unless_named(self):
        rows = self.rows(self.path("g.json", SMALL), "-m", "h200x2", "--evaluations", "4")
        names = [method["method"] for method in rows[0]["methods"]]
        self.assertEqual((names[:2], names[-1]), (["single", "spread"], "optimize"))
        self.assertNotIn("random", names)

    def test_other_objectives(self):
        for objective, ratio in (("memory", "peak / lower bound"), ("throughput", "load / best of the row")):
            arguments = [*self.GRAPHS, "-m", "h200x2", "--objective", objective, *self.QUICK]
            self.assertIn(ratio, self.done("compare", *arguments))
            for row in self.rows(*arguments):
                self.assertEqual(row["objective"], objective)
                if objective == "memory":
                    self.assertEqual([m["value"] for m in row["methods"]], [max(m["peak_bytes"]) for m in row["methods"]])

    def test_repeats(self):
        arguments = [*self.GRAPHS, "-m", "h200x4", "--methods", "spread,random,optimize", "--evaluations", "100", "--seed", "3"]
        first = without_times(self.rows(*arguments, "--threads", "1"))
        for threads in ("2", "8"):
            self.assertEqual(without_times(self.rows(*arguments, "--threads", threads)), first)

    def test_when_plans_were_found(self):
        row, = self.rows(self.GRAPHS[1], "-m", "h200x2", "--methods", "anneal", "--evaluations", "200")
        method, = row["methods"]
        for index, (before, after) in enumerate(zip(method["found"], method["found"][1:])):
            self.assertTrue(before[0] <= after[0] and before[1] <= after[1] and before[2] > after[2], index)
        self.assertEqual(method["found"][-1][2], method["value"])
        self.assertLessEqual(method["found"][-1][0], method["search_s"])

    def test_curve(self):
        arguments = [self.GRAPHS[1], "-m", "h200x2", "--tasks", "placement,schedule", "--updates", "3", "--evaluations", "200"]
        for method in ("hdp", "go-one"):
            row, = self.rows(*arguments, "--methods", method, "--groups", "16", "--curve", "curve.csv")
            with open(self.path("curve.csv"), newline="") as file:
                curve = list(csv.DictReader(file))
            self.assertEqual([line["update"] for line in curve], ["0", "1", "2"])
            self.assertGreaterEqual(float(curve[-1]["best"]), row["methods"][0]["step_s"])
        one = ["one graph, one machine and one method"]
        self.fault("compare", *arguments, "--methods", "hdp,go-one", "--curve", "more.csv", says=one)
        self.fault("compare", *arguments, "-m", "h200x2,h200x4", "--methods", "hdp", "--curve", "more.csv", says=one)
        self.fault("compare", *arguments, "--methods", "hdp", "--curve", "-", says=["--curve needs a file"])
        self.fault("compare", *arguments, "--methods", "hdp", "--best", "-", says=["--best needs a file"])
        self.assertEqual(os.listdir(self.folder), ["curve.csv"])

    def test_no_valid_plan(self):
        arguments = [*self.GRAPHS, "-m", "h200x2", "--memory", "1MB", "--methods", "single,spread", "--evaluations", "10"]
        result = self.run_stowage("compare", *arguments)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"- (m)", result.stdout)
        self.assertIn(b"m: memory", result.stdout)
        lines = result.stderr.decode().splitlines()
        self.assertEqual([line.split(":")[1].strip() for line in lines], ["unet on h200x2", "rnnlm-2 on h200x2"])
        for row in self.rows(*arguments, status=1, stderr=None):
            self.assertIsNone(row["measured_share"])
            self.assertTrue(all(not m["valid"] and m["reason"].startswith("memory") for m in row["methods"]))

    def test_no_plan_at_all(self):
        """A method that makes none is no nearest plan, and the bound stands alone in its line."""
        result = self.run_stowage("compare", GRAPH, "-m", "h200x2", "--methods", "exact", "--evaluations", "10")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout.decode(), r"(?m)^  lower bound of the step time: [0-9.]+ \w+$")
        self.assertRegex(result.stderr.decode(), r"within the budget; no method made a plan \(exact: exact is for graphs of at most \d+ ops; "
                                                 r"this one has \d+\)\n$")

    def test_wrong_usage_is_told_before_anything_runs(self):
        slow = ["--budget", "1h"]
        for arguments, words in (([GRAPH, "-m", "h200x2", "--methods", "single,spred"], ["'spred'", "did you mean spread?"]),
                                 ([GRAPH, "-m", "h200x2", "--methods", "optimise"], ["'optimise'", "did you mean optimize?"]),
                                 ([GRAPH, "-m", "h200x2", "--methods", "zzz"], ["'zzz'", "single, spread"]),
                                 ([GRAPH, "-m", "h200x2", "--methods", "single,,spread"], ["empty"]),
                                 ([GRAPH, "-m", "h200x2", "--methods", "single,single"], ["'single' stands twice"]),
                                 ([GRAPH, "-m", "h200x2,h300x2"], ["h300x2"]),
                                 ([GRAPH], ["machine"]),
                                 ([GRAPH, "none.json", "-m", "h200x2"], ["none.json"]),
                                 ([GRAPH, "-m", "h200x2", "--units", "some"], ["--units"]),
                                 ([GRAPH, "-", "-m", "h200x2,h200x4"], ["standard input", "once"])):
            with self.subTest(arguments=arguments):
                self.fault("compare", *arguments, *slow, says=words)
        self.fault("compare", "-m", "h200x2", says=["GRAPH"])
        self.fault("compare", GRAPH, "-m", "h200x2", "--budget", "soon", says=["--budget", "soon"])


if __name__ == "__main__":
    sys.exit(program.main())
