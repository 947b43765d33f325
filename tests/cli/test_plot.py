"""--plot of compare and optimize: pictures that are XML, whose numbers are those of the tables, and in which names stay data.

    python3 tests/cli/test_plot.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import sys
import xml.etree.ElementTree as ElementTree

import program
from program import SLOW as GRAPH
from program import SMALL, Case

QUICK = ["--evaluations", "60", "--threads", "1", "--policy", "none"]
METHODS = ["single", "spread", "heft", "optimize"]
EVIL = "</text><script>alert(1)</script>\x1b\ufffe&\"'"
NS = "{http://www.w3.org/2000/svg}"


class Picture:
    """Texts, bars and lines of a picture, in their order."""

    def __init__(self, path):
        self.root = ElementTree.parse(path).getroot()
        self.tags = {element.tag.removeprefix(NS) for element in self.root.iter()}
        self.texts = [(e.get("class"), float(e.get("x")), float(e.get("y")), "".join(e.itertext())) for e in self.root.iter(NS + "text")]
        self.said = [text for _, _, _, text in self.texts]
        self.bars = [(e.get("class"), *(float(e.get(k)) for k in ("x", "y", "width", "height"))) for e in self.root.iter(NS + "rect")
                     if e.get("class") != "page"]
        self.lines = [(e.get("class"), e.get("d")) for e in self.root.iter(NS + "path")]

    def beside(self, name):
        """What stands behind each text that is this name, on its line."""
        out = []
        for k, (_, _, y, text) in enumerate(self.texts):
            if text == name:
                out.append(next(other for _, _, at, other in self.texts[k + 1 :] if at == y))
        return out


class Methods(Case):
    def compared(self, *arguments, graphs=(GRAPH,), **more):
        path = self.path("c.svg")
        said = self.done("compare", *graphs, *QUICK, "--methods", ",".join(METHODS), "--plot", path, *arguments, **more)
        return said, Picture(path)

    def test_numbers_of_one_table(self):
        said, picture = self.compared("-m", "h200x2")
        rows = {line.replace("*", " ").split()[0]: " ".join(line.replace("*", " ").split()[1:3]) for line in said.splitlines()
                if line.replace("*", " ").split()[:1] and line.replace("*", " ").split()[0] in METHODS and "valid" in line}
        self.assertEqual(list(rows), METHODS)
        for method, value in rows.items():
            self.assertEqual(picture.beside("single (default)" if method == "single" else method), [value])
        bound = said.split("lower bound of the step time: ")[1].split(";")[0]
        self.assertIn("lower bound " + bound, picture.said)

    def test_bars_and_the_bound_have_one_scale(self):
        said, picture = self.compared("-m", "h200x2,h200x4", "--format", "json")
        rows = json.loads(said)
        values = [method["value"] for row in rows for method in row["methods"]]
        widths = [bar[3] for bar in picture.bars]
        self.assertEqual(len(widths), len(values))
        for width, value in zip(widths, values):
            self.assertAlmostEqual(width / max(widths), value / max(values), delta=0.1 / max(widths))
        best = [m["method"] for row in rows for m in row["methods"] if m["value"] == min(other["value"] for other in row["methods"])]
        named = [text for c, _, _, text in picture.texts if c == "end bold"]
        self.assertEqual(set(best), {name.removesuffix(" (default)") for name in named})
        self.assertEqual(sum(bar[0] == "default" for bar in picture.bars), 2)
        lines = [float(d[1:].split()[0]) for c, d in picture.lines if c == "bound"]
        left = sorted({bar[1] for bar in picture.bars})
        for row, x, line in zip(rows, left, lines):
            self.assertAlmostEqual((line - x) / max(widths), row["lower_bound_s"] / max(values), delta=0.2 / max(widths))

    def test_several_graphs_and_machines(self):
        small = self.path("small.json", SMALL)
        said, picture = self.compared("-m", "h200x1,h200x2,h200x3,h200x4", graphs=(GRAPH, small))
        titles = [f"{graph} on h200x{n}" for graph in ("rnnlm-2", "small") for n in (1, 2, 3, 4)]
        places = [(y, x) for title in titles for _, x, y, text in picture.texts if text == title]
        self.assertEqual(places, sorted(places))  # line by line
        self.assertEqual(len({x for _, x in places}), 2)  # four machines: two and two
        self.assertEqual(len(picture.beside("heft")), 8)
        cells = [line.split() for line in said.splitlines() if line.strip().startswith("rnnlm-2 ")]
        for line, value in zip(cells, picture.beside("optimize")):
            self.assertIn(" ".join(line[-2:]).lstrip("*"), value)
        width, height = (float(self.svg_size(picture, k)) for k in ("width", "height"))
        for _, x, y, text in picture.texts:
            self.assertTrue(0 < x < width and 0 < y < height, text)

    def svg_size(self, picture, key):
        return picture.root.get(key)

    def test_what_has_no_plan_says_why(self):
        _, picture = self.compared("-m", "h200x2", "--memory", "3GB", graphs=(program.GRAPH,), status=1, stderr=None)
        self.assertEqual(picture.beside("single (default)"), ["no plan: memory"])

    def test_names_are_data(self):
        graph, machine = json.loads(json.dumps(SMALL)), json.loads(self.done("machine", "h200x2", "--format", "json"))
        graph["name"] = machine["name"] = EVIL
        machine = self.path("m.json", machine)
        for command, more in (("compare", ["--methods", "single,heft"]), ("optimize", [])):
            path = self.path(command + ".svg")
            self.done(command, self.path("g.json", graph), "-m", machine, *QUICK, *more, "--plot", path, stderr=None)
            picture = Picture(path)
            self.assertLessEqual(picture.tags, {"svg", "title", "style", "rect", "text", "path"})
            shown = EVIL.replace("\x1b", "\\x1b").replace("\ufffe", "\\ufffe")
            self.assertTrue(any(shown in text for text in picture.said), picture.said)

    def test_long_names_are_cut(self):
        graph = dict(json.loads(json.dumps(SMALL)), name="x" * 300)
        path = self.path("c.svg")
        self.done("compare", self.path("g.json", graph), "-m", "h200x2,h200x3", *QUICK, "--methods", "single", "--plot", path, stderr=None)
        shown = [e for e in Picture(path).root.iter(NS + "text") if e.find(NS + "title") is not None]
        self.assertEqual(len(shown), 2)
        for text in shown:
            self.assertLess(len(text.find(NS + "title").tail), 70)
            self.assertTrue(text.find(NS + "title").tail.endswith("\u2026"))


class Search(Case):
    def searched(self, *arguments, graph=GRAPH, quick=QUICK, **more):
        path = self.path("o.svg")
        head = json.loads(self.done("optimize", graph, *quick, "--plot", path, *arguments, "--format", "json", **more))
        return head, Picture(path)

    def test_who_found_what(self):
        head, picture = self.searched("-m", "h200x4", "--evaluations", "300")
        found, best, expected = head["timings"]["found"], float("inf"), []
        self.assertEqual(len(found), len(head["candidates"]))
        for points, candidate in zip(found, head["candidates"]):
            if candidate["valid"]:
                self.assertEqual(points[-1][2], candidate["value"])
            values = [value for _, _, value in points]
            self.assertEqual(values, sorted(set(values), reverse=True))
            if values and min(values) < best:
                best = min(values)
                expected.append((candidate["method"], best))
        self.assertGreater(len(expected), 2)
        said = self.done("optimize", GRAPH, "-m", "h200x4", *QUICK, "--evaluations", "300")
        legend = [text for _, _, _, text in picture.texts if text.split()[0] in {method for method, _ in expected}]
        self.assertEqual([text.split()[0] for text in legend], [method for method, _ in expected])
        for text, (_, value) in zip(legend, expected):
            self.assertAlmostEqual(float(text.split()[1]) * {"ms": 1e-3, "us": 1e-6}[text.split()[2]] / value, 1, places=4)
            self.assertIn(" ".join(text.split()[1:]), said)
        self.assertEqual([text for c, _, _, text in picture.texts if c == "bold"][1:], legend[-1:])
        bound = next(text for text in picture.said if text.startswith("no plan is below "))
        self.assertIn("  with any fusion  " + bound.removeprefix("no plan is below "), said)
        grouped = next(text for text in picture.said if text.startswith("none with the groups of the best is below "))
        self.assertIn("  lower bound        " + grouped.removeprefix("none with the groups of the best is below "), said)
        default = next(text for text in picture.said if text.startswith("default "))
        self.assertIn("default            " + default.removeprefix("default "), said)
        self.assertEqual(sum("curve" in c for c, _ in picture.lines), len(expected))

    def test_it_repeats(self):
        texts = []
        for threads in ("1", "2"):
            self.searched("-m", "h200x2", "--threads", threads)
            with open(self.path("o.svg"), encoding="utf-8") as file:
                texts.append(file.read())
        self.assertEqual(*texts)

    def test_over_time(self):
        _, picture = self.searched("-m", "h200x2", quick=["--budget", "0.3s", "--clock", "cpu", "--threads", "1", "--policy", "none"])
        self.assertTrue(any("time of the methods" in text for text in picture.said))

    def test_memory_and_odd_problems(self):
        _, picture = self.searched("-m", "h200x2", "--objective", "memory")
        self.assertTrue(any(text.startswith("no plan is below ") and text.endswith("B") for text in picture.said))
        nothing = {"format": "opgraph", "version": 1, "name": "nothing", "family": "test", "nodes": [], "outputs": []}
        constant = dict(nothing, nodes=[{"id": 0, "name": "x", "op": "input", "inputs": [], "dtype": "f32", "shape": [4], "bytes": 16}], outputs=[0])
        for objective in ("time", "memory", "throughput"):
            self.searched("-m", "h200x2", "--objective", objective, graph=self.path("s.json", SMALL), stderr=None)
            self.searched("-m", "h200x2", "--objective", objective, graph=self.path("c.json", constant), stderr=None)

    def test_no_plan_no_picture(self):
        path = self.path("o.svg")
        self.done("optimize", GRAPH, "-m", "h200x2", *QUICK, "--memory", "1MB", "--plot", path, status=1, stderr=None)
        self.assertFalse(os.path.exists(path))


class Faults(Case):
    def test_before_the_search(self):
        """An hour's search would not end in time."""
        here = [GRAPH, "-m", "h200x2", "--budget", "3600s"]
        for command in ("optimize", "compare"):
            self.fault(command, *here, "--plot", os.path.join(self.folder, "no", "o.svg"), says=["o.svg"])
            self.fault(command, *here, "--plot", "-", says=["--plot needs a file"])
            self.fault(command, *here, "--plot", GRAPH, says=["the input"])
        self.fault("optimize", *here, "-o", self.path("a"), "--plot", self.path("a"), says=["that of --output"])
        said = self.done("optimize", *here, "--plot", self.path("p.svg"), "--dry-run", stderr=None)
        self.assertIn("p.svg", said)
        self.assertFalse(os.path.exists(self.path("p.svg")))


if __name__ == "__main__":
    sys.exit(program.main())
