"""bench/paper.py: the whole way with a small training, a store that goes on, tables and curves that say what the runs came to.

    python3 tests/bench/test_paper.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)
"""
import gzip
import json
import math
import os
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
import program  # noqa: E402
from program import ROOT, Case  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "bench"))
import paper  # noqa: E402
import paper_tables  # noqa: E402

ROW = "wavenet-2x9@h200x2"


def entry(row, what, seed, step_s, found=()):
    return {"key": [row, what, seed], "step_s": step_s, "evaluations": 17, "search_s": 0.5, "found": list(found), "commit": "c", "date": "d", "cpu": "p"}


class Tables(Case):
    def figures(self, store, seeds=(1, 2)):
        return paper_tables.Figures(store, [ROW], list(paper.WHAT), seeds, lambda row, what, seed: [row, what, seed])

    def test_cells_and_ratios(self):
        figures = self.figures([entry(ROW, "expert", 1, 0.02), entry(ROW, "expert", 2, 0.02), entry(ROW, "GO-one", 1, 0.01), entry(ROW, "GO-one", 2, 0.03),
                                entry(ROW, "METIS", 1, None), entry(ROW, "METIS", 2, 0.01)])
        self.assertEqual(paper_tables.cell(figures.of(ROW, "expert")), "20.00")
        self.assertEqual(paper_tables.cell(figures.of(ROW, "GO-one")), "20.00 (10.00 to 30.00)")
        self.assertEqual(paper_tables.cell(figures.of(ROW, "METIS")), "10.00, 1 of 2 do not fit")
        self.assertEqual(paper_tables.cell(figures.of(ROW, "HDP")), "-")
        self.assertEqual(figures.ratios("GO-one", "expert"), {1: {ROW: 0.5}, 2: {ROW: 1.5}})
        self.assertEqual(figures.ratios("METIS", "expert"), {2: {ROW: 0.5}})
        self.assertEqual(paper_tables.percent(0.75), "-25.0 %")

    def test_curves(self):
        store = [entry(ROW, "expert", 1, 0.02), entry(ROW, "GO-one", 1, 0.01, [[2, 0.04], [9, 0.01]])]
        self.assertEqual(paper_tables.curve_of(self.figures(store, [1]), "GO-one", [ROW], [1, 2, 8, 9]), [(2, 2.0), (8, 2.0), (9, 0.5)])

    def test_a_search_counts_all_that_it_tried(self):
        report = {"step_s": 0.5, "valid": True, "reason": None, "candidates": [{"evaluations": 2}, {"evaluations": 5}],
                  "timings": {"search_s": [0.25, 0.5], "found": [[[0.1, 1, 2.0]], [[0.2, 1, 3.0], [0.3, 4, 0.5]]]}}
        self.assertEqual(paper_tables.outcome_of(report),
                         {"step_s": 0.5, "reason": "", "evaluations": 7, "search_s": 0.75, "found": [[1, 2.0], [6, 0.5]]})

    def test_every_row_has_a_family_that_is_held_out(self):
        for row in paper.ROWS:
            graph, machine = row.split("@")
            self.assertTrue(pathlib.Path(ROOT, "data/graphs", f"{graph}.json.gz").exists())
            self.assertIn(next(family for family in paper.APART if graph.startswith(family)), paper.held_out(graph).split(","))
            self.assertRegex(machine, r"^h200x[24](-pcie)?$")
        self.assertEqual(len(paper.ROWS), 22)


class Runs(Case):
    def bench(self, folder, *more):
        command = [sys.executable, os.path.join(ROOT, "bench/paper.py"), "--bin", os.path.abspath(program.binary), "--rows", ROW, "--seeds", "1",
                   "--evaluations", "17", "--updates", "1", "--problems", "1", "--units", "16", "--plots", folder,
                   "--store", os.path.join(folder, "store.jsonl"), "--policies", os.path.join(folder, "policies"), *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=program.LONGEST_S)

    def test_whole_way_and_again(self):
        folder = self.folder
        what = "one device;expert;optimize;GDP-one;GDP-batch, zero-shot"
        answer = self.bench(folder, "--what", what)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        store = pathlib.Path(folder, "store.jsonl").read_text()
        records = [json.loads(line) for line in store.splitlines()]
        self.assertEqual([record["key"][1] for record in records if record["key"][0] == ROW], what.split(";"))
        self.assertEqual(len([record for record in records if record["key"][0] == "training"]), 1)
        for record in records[:4]:
            self.assertTrue(math.isfinite(record["step_s"]) and 0 < record["evaluations"] <= 17 and record["found"][-1][1] == record["step_s"])
        self.assertIn(f"| {ROW.replace('@', ', ')} |", answer.stdout)
        for name in ("paper-nvlink.svg", "paper-training.svg"):
            self.assertTrue(xml.etree.ElementTree.parse(os.path.join(folder, name)).getroot().tag.endswith("svg"))
        again = self.bench(folder, "--what", what)
        self.assertEqual((again.returncode, again.stdout), (0, answer.stdout))
        self.assertEqual(pathlib.Path(folder, "store.jsonl").read_text(), store)
        packed = pathlib.Path(folder, "store.jsonl.gz")
        packed.write_bytes(gzip.compress(store.encode()))
        self.assertEqual(self.bench(folder, "--store", str(packed), "--what", what, "--skip", "run").stdout, answer.stdout)
        self.assertEqual(self.bench(folder, "--store", str(packed), "--what", what).returncode, 2)


if __name__ == "__main__":
    sys.exit(program.main())
