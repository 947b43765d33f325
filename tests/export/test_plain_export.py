"""`stowage export`: tables, drawings and traces of plans; and the examples of docs/formats/export.md.

    STOWAGE_BIN=build/release/stowage python3 tests/export/test_plain_export.py          (STOWAGE_DATA: the folder of graphs/)

The exit status is the verdict; the last line counts what passed, failed and was skipped. Graphviz is used where it is present.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

from exporting import Case, DATA, GRAPHS, main, QUOTED, read_graph, ROOT

MOST_DRAWN = 2000


class Tables(Case):
    def test_every_graph(self):
        for path in GRAPHS:
            with self.subTest(graph=os.path.basename(path)):
                nodes = read_graph(path)["nodes"]
                rows = self.rows(self.export(path, "csv")[0])
                self.assertEqual([row["name"] for row in rows], [node["name"] for node in nodes])
                self.assertEqual([row["node"] for row in rows], [str(k) for k in range(len(nodes))])
                for row, node in zip(rows, nodes):
                    timed = row["kind"] == "op"
                    self.assertEqual(timed, row["start_us"] != "", row)
                    self.assertEqual(row["op"], node["op"])
                    if timed:
                        self.assertLessEqual(float(row["start_us"]), float(row["end_us"]))

    def test_agrees_with_the_plan_and_the_report(self):
        graph = os.path.join(DATA, "graphs", "unet.json.gz")
        path, plan = self.plan(graph, "h200x4", "metis")
        rows = self.rows(self.export(graph, "csv", plan=path)[0])
        names = [device["name"] for device in plan["machine"]["devices"]]
        for row, device, priority, group in zip(rows, plan["device"], plan["priority"], plan["group"], strict=True):
            self.assertEqual(row["device"], "" if row["kind"] in ("input", "constant") else row["device"] and names[device], row)
            if row["kind"] == "op":
                self.assertEqual((float(row["priority"]), int(row["group"])), (priority, group))
        self.assertAlmostEqual(max(float(row["end_us"]) for row in rows if row["end_us"]) / 1e6, plan["step_s"], delta=1e-12)

    def test_too_little_memory_is_said(self):
        graph = os.path.join(DATA, "graphs", "rnnlm-2.json.gz")
        _, note = self.export(graph, "csv", "--memory", "1MB", machine="h200x2")
        self.assertIn("the plan does not fit: ", note)

    def test_what_is_worse_than_one_device(self):
        """The first line says so, and --strict; of what is valid nowhere, --strict alone: one device would be no better."""
        graph, out = os.path.join(DATA, "graphs", "rnnlm-2.json.gz"), self.path("out.csv")
        for more, worse, poor in ([], True, True), (["--memory", "1MB"], False, True), (["-p", "heft"], False, False):
            arguments = ["export", graph, "-m", "h200x2", "-p", "random", "--to", "csv", "-o", out, *more]
            if "-p" in more:
                del arguments[4:6]
            for strict in ([], ["--strict"]):
                result = self.run_stowage(*arguments, *strict)
                self.assertEqual(result.returncode, 3 if poor and strict else 0, result)
                self.assertEqual(result.stdout.startswith(b"worse than one device"), worse, result)
                self.assertEqual(b"is worse than one device" in result.stderr, worse, result)

    def test_quotes(self):
        name = 'a,"b"\r\nc'
        graph = self.path("g.json", {"format": "opgraph", "version": 1, "name": "g", "outputs": [0], "nodes": [
            {"id": 0, "name": name, "op": "input", "inputs": [], "dtype": "f32", "shape": [1], "bytes": 4}]})
        self.assertEqual(self.rows(self.export(graph, "csv")[0])[0]["name"], 'a,"b"\\r\\nc')  # one line per node


class Drawings(Case):
    def draw(self, content, form):
        if shutil.which("dot") is None:
            self.skipTest("Graphviz is not installed: there is no program 'dot'")
        return subprocess.run(["dot", "-T" + form], input=content, capture_output=True, check=True, timeout=600).stdout.decode()

    def test_graphviz_takes_it(self):
        graph = self.path("g.json", QUOTED)
        _, plan = self.plan(graph, "h200x2", "single")
        plan.update(device=[0, 0, 1, 1], group=[-1, 1, 2, 2])
        content, note = self.export(graph, "dot", machine="h200x2", plan=self.path("plan.json", plan))
        self.assertIn("dot -Tsvg", note)
        drawing = self.draw(content, "svg")
        for words in ('l.&quot;w&quot;\\', "\u00e4\\n", "\\N", "group 2", "h200:1", "stroke-dasharray"):
            self.assertIn(words, drawing)
        drawn = json.loads(self.draw(content, "dot_json"))
        self.assertEqual(sum(edge.get("style") == "dashed" for edge in drawn["edges"]), 1)

    def test_every_small_graph(self):
        for path in GRAPHS:
            nodes = read_graph(path)["nodes"]
            with self.subTest(graph=os.path.basename(path)):
                if len(nodes) > MOST_DRAWN:
                    self.fault("export", path, "-m", "h200x2", "-p", "spread", "--to", "dot", says="use --to trace or --to csv")
                    continue
                content, _ = self.export(path, "dot", plan="metis")
                lines = content.decode().splitlines()
                self.assertEqual(sum(" [label=" in line and line.lstrip().startswith("n") for line in lines), len(nodes))
                self.assertEqual(sum(" -> " in line for line in lines),
                                 sum(len(node["inputs"]) + len(node.get("control", [])) for node in nodes))
                if shutil.which("nop") is not None:  # Graphviz's parser; laying out so many nodes takes minutes
                    subprocess.run(["nop", "-p"], input=content, capture_output=True, check=True, timeout=600)


class Traces(Case):
    def test_as_simulate_writes_it(self):
        graph = os.path.join(DATA, "graphs", "unet.json.gz")
        content, _ = self.export(graph, "trace")
        path = self.path("t.json")
        self.assertEqual(self.run_stowage("simulate", graph, "-m", "h200x4", "-p", "spread", "--trace", path).returncode, 0)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), content)


class Document(Case):
    """What docs/formats/export.md shows is what its commands print."""

    def examples(self):
        """(command, lines of the block that follows it, or None)"""
        with open(os.path.join(ROOT, "docs", "formats", "export.md"), encoding="utf-8") as file:
            text = file.read()
        pattern = r"^    stowage (export \S+\.gz .*)\n(?:\n```(?:json|csv)\n((?:.*\n)*?)```)?(?:\n```text\n((?:.*\n)*?)```)?"
        return re.findall(pattern, text, re.MULTILINE)

    def test_examples(self):
        examples = self.examples()
        self.assertEqual(sum(bool(shown) for _, shown, _ in examples), 3)
        for command, shown, note in examples:
            with self.subTest(command=command):
                arguments = shlex.split(command)
                arguments[1] = os.path.join(DATA, "graphs", arguments[1])
                out = self.path(arguments[-1])
                result = self.run_stowage(*arguments[:-1], out)
                self.assertEqual(result.returncode, 0)
                self.assertIn(result.stderr, (b"", b"stowage: warning: what was exported is worse than one device\n"))
                with open(out, encoding="utf-8") as file:
                    content = file.read()
                if shown and not out.endswith(".csv"):
                    self.assertEqual(content, shown)
                rows = iter(content.splitlines())  # of a table some are shown
                for line in shown.splitlines():
                    self.assertIn(line, rows)
                if note:
                    self.assertEqual(result.stdout.decode().splitlines()[:-1], note.splitlines())


if __name__ == "__main__":
    sys.exit(main())
