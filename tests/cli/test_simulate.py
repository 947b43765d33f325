"""stowage simulate: what it reports, plans and traces that it writes and reads, costs.

    python3 tests/cli/test_simulate.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import sys

import program
from program import GRAPH, ROOT, SMALL, Case

SIMULATE_KEYS = ["graph", "machine", "step_s", "valid", "reason", "peak_bytes", "lower_bound_s", "lower_bound_fusion_s",
                 "lower_bound_load_s", "lower_bound_bytes", "measured_share", "warnings", "devices", "links"]


class Simulate(Case):
    def report(self, *arguments, status=0, **more):
        return json.loads(self.done("simulate", *arguments, "--format", "json", status=status, **more))

    def test_json_fields(self):
        report = self.report(GRAPH, "-m", "h200x4", "-p", "spread")
        self.assertEqual(list(report), SIMULATE_KEYS)
        self.assertEqual((report["graph"], report["machine"]), ("unet", "h200x4"))
        self.assertEqual((report["valid"], report["reason"]), (True, None))
        self.assertEqual(len(report["devices"]), 4)
        for device in report["devices"]:
            self.assertEqual(list(device), ["name", "busy_s", "charged_s", "idle_s", "peak_bytes"])
            self.assertAlmostEqual(device["busy_s"] + device["idle_s"], report["step_s"], places=9)
            self.assertGreater(device["busy_s"], 0)
        self.assertEqual(report["peak_bytes"], [device["peak_bytes"] for device in report["devices"]])
        self.assertGreater(len(report["links"]), 0)
        for link in report["links"]:
            self.assertEqual(list(link), ["from", "to", "transfers", "bytes", "busy_s"])
            self.assertGreater(link["transfers"], 0)
        self.assertLessEqual(report["lower_bound_s"], report["step_s"])
        self.assertLessEqual(report["lower_bound_fusion_s"], report["step_s"])
        self.assertTrue(0 < report["measured_share"] <= 1)

    def test_charges(self):
        """Fields and columns of charges are there where a link charges something."""
        report = self.report(GRAPH, "-m", "h200x2", "-p", "spread")
        self.assertGreater(sum(device["charged_s"] for device in report["devices"]), 0)
        self.assertIn("charged", self.done("simulate", GRAPH, "-m", "h200x2", "-p", "spread"))
        first = self.report(GRAPH, "-m", "0.1/h200x2", "-p", "spread")
        self.assertEqual(list(first["devices"][0]), ["name", "busy_s", "idle_s", "peak_bytes"])
        self.assertLess(first["step_s"], report["step_s"])
        self.assertNotIn("charged", self.done("simulate", GRAPH, "-m", "0.1/h200x2", "-p", "spread"))

    def test_unknown_keys_of_a_link(self):
        """A key that nobody knows is warned of wherever the machine is shown or used."""
        machine = json.loads(self.done("machine", "h200x2"))
        machine["links"][0]["send_uss"] = 3
        path = os.path.join(self.folder, "machine.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(machine, file)
        for command in (["machine", path], ["inspect", path], ["simulate", GRAPH, "-m", path, "-p", "single"]):
            with self.subTest(command=command[0]):
                result = self.run_stowage(*command)
                self.assertEqual(result.returncode, 0)
                self.assertIn("has the key 'send_uss', which is not known", result.stderr.decode().replace("\n", " "))

    def test_single_sends_nothing(self):
        report = self.report(GRAPH, "-m", "h200x2", "-p", "single")
        self.assertEqual(report["links"], [])
        self.assertAlmostEqual(max(device["busy_s"] for device in report["devices"]), report["step_s"], places=12)
        self.assertIn("nothing is sent", self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single"))

    def test_small_by_hand(self):
        report = self.report(self.path("g.json", SMALL), "-m", "h200x1", "-p", "single")
        self.assertAlmostEqual(report["step_s"], 9e-6, places=15)
        self.assertEqual(report["measured_share"], 1)

    def test_text(self):
        text = self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread")
        for word in ("unet on h200x4", "spread", "step time", "lower bound", "with any fusion", "% above it", "measured", "valid",
                     "yes", "utilisation", "peak memory", "transfers", "#"):
            self.assertIn(word, text)
        self.assertNotIn("\033", text)
        self.assertFalse([line for line in text.splitlines() if line != line.rstrip()])

    def test_many_links_are_cut(self):
        graph = os.path.join(ROOT, "data", "graphs", "gnmt-2.json.gz")
        links = self.report(graph, "-m", "h200x16", "-p", "spread")["links"]
        self.assertGreater(len(links), 16)
        self.assertIn(f"and {len(links) - 16} more", self.done("simulate", graph, "-m", "h200x16", "-p", "spread"))

    def test_too_little_memory(self):
        arguments = [GRAPH, "-m", "h200x2", "-p", "spread", "--memory", "1MB"]
        text = self.done("simulate", *arguments, status=1)
        self.assertIn("no; memory", text)
        self.assertIn("step time", text)
        report = self.report(*arguments, status=1)
        self.assertFalse(report["valid"])
        self.assertIsInstance(report["reason"], str)
        self.assertGreater(report["step_s"], 0)
        self.assertTrue(self.report(*arguments[:-1], "100GB")["valid"])

    def test_invalid_without_a_step(self):
        graph = self.path("g.json", SMALL)
        plan = self.path("p.json", {"format": "plan", "version": 1, "device": [1, 0, 0, 0, 0]})  # the update leaves its parameter
        report = self.report(graph, "-m", "h200x2", "-p", plan, status=1, stderr=None)
        self.assertEqual(list(report), SIMULATE_KEYS)
        self.assertEqual((report["valid"], report["step_s"], report["peak_bytes"]), (False, None, []))
        self.assertTrue(report["reason"])
        trace = self.path("t.json")
        result = self.run_stowage("simulate", graph, "-m", "h200x2", "-p", plan, "--trace", trace)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"no; colocation", result.stdout)
        self.assertIn(b"no trace", result.stderr)
        self.assertFalse(os.path.exists(trace))

    def test_plan_file(self):
        plan = self.path("plan.json")
        expected = self.report(GRAPH, "-m", "h200x4", "-p", "spread", "-o", plan)
        self.assertEqual(self.report(GRAPH, "-p", plan), expected)
        self.assertEqual(self.report(GRAPH, "-p", plan, "-m", "h200x4"), expected)
        with open(plan, "rb") as file:
            self.assertEqual(self.report(GRAPH, "-p", "-", input=file.read()), expected)
        self.assertFalse(self.report(GRAPH, "-p", plan, "--memory", "1MB", status=1)["valid"])
        other = os.path.join(ROOT, "data", "graphs", "resnet50.json.gz")
        self.fault("simulate", other, "-p", plan, says=["plan.json"])

    def test_remarks_are_warnings(self):
        plan = self.path("hand.json", {"format": "plan", "version": 1, "device": [0] * 5})
        graph = self.path("g.json", SMALL)
        result = self.run_stowage("simulate", graph, "-m", "h200x2", "-p", plan)
        self.assertEqual(result.returncode, 0, result)
        self.assertTrue(result.stderr.startswith(b"stowage: warning: "), result)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.fault("simulate", graph, "-p", plan, says=["machine"])

    def test_costs(self):
        graph = self.path("g.json", SMALL)
        costs = self.path("c.csv", "name,kind,us\nn2,h200,12\n")
        self.assertAlmostEqual(self.report(graph, "-m", "h200x1", "-p", "single", "--costs", costs)["step_s"], 19e-6, places=15)
        costs = self.path("c.csv", "name,kind,us\nn2,h200,12\nnobody,h200,12\n")
        result = self.run_stowage("simulate", graph, "-m", "h200x1", "-p", "single", "--costs", costs)
        self.assertEqual(result.returncode, 0)
        self.assertTrue(result.stderr.startswith(b"stowage: warning: "), result)

    def test_trace(self):
        trace = self.path("t.json")
        self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "--trace", trace)
        with open(trace) as file:
            text = file.read()
        self.assertGreater(len(json.loads(text)["traceEvents"]), 300)
        self.assertEqual(self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "--trace", "-"), text)
        plan = self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "-o", "-")
        self.assertEqual(json.loads(plan)["format"], "plan")
        self.fault("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "-o", "-", "--trace", "-", says=["standard output"])
        self.assertEqual(os.listdir(self.folder), ["t.json"])


if __name__ == "__main__":
    sys.exit(program.main())
