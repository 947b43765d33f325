"""Tables for people fit 100 columns, whatever names and numbers are in them, and lose nothing by it.

    python3 tests/cli/test_tables.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import re
import sys

import program
from program import GRAPH, SLOW, SMALL, Case

WIDTH = 100
LONG = "a-rather-long-name-of-the-kind-that-clusters-give-their-devices-in-rack-17"
QUICK = ["--evaluations", "30"]


class Tables(Case):
    def setUp(self):
        super().setUp()
        machine = json.loads(self.done("machine", "h200x8"))
        rename = {device["name"]: f"{LONG}-{k}" for k, device in enumerate(machine["devices"])}
        machine["name"] = LONG
        for device in machine["devices"]:
            device["name"] = rename[device["name"]]
        for link in machine["links"]:
            link["from"], link["to"] = rename[link["from"]], rename[link["to"]]
        machine["links"][0]["latency_us"] = 7  # so that links are listed one by one
        self.machine = self.path("machine.json", machine)
        graph = json.loads(json.dumps(SMALL))
        graph["name"], graph["nodes"][3]["op"] = LONG, "an_operator_" * 10
        self.graph = self.path("graph.json", graph)

    def table(self, *arguments, status=0):
        text = self.run_stowage(*arguments)
        self.assertEqual(text.returncode, status, text.stderr)
        text = text.stdout.decode()
        for line in text.splitlines():
            self.assertLessEqual(len(line), WIDTH, line)
            self.assertEqual(line, line.rstrip())
        return text

    def test_optimize(self):
        for objective in ("time", "memory", "throughput"):
            self.table("optimize", self.graph, "-m", self.machine, "--objective", objective, *QUICK)
            self.table("optimize", SLOW, "-m", "h200x8", "--objective", objective, *QUICK)
        self.table("optimize", SLOW, "-m", "h200x8", "--budget", "100ms")
        self.table("optimize", SLOW, "-m", self.machine, "--memory", "10MB", *QUICK, status=1)

    def test_compare(self):
        self.table("compare", SLOW, "-m", self.machine, *QUICK)
        self.table("compare", SLOW, "-m", "h200x8", "--memory", "1MB", *QUICK, status=1)
        text = self.table("compare", self.graph, GRAPH, SLOW, "-m", f"{self.machine},h200x8,cpu+h200x2", *QUICK)
        heads = [line.split() for line in text.splitlines() if line.startswith("  graph ")]
        methods = [word for head in heads for word in head[2:] if word not in ("lower", "bound")]
        self.assertGreater(len(heads), 1)
        self.assertEqual(len(methods), len(set(methods)))
        self.assertGreaterEqual(len(methods), 10)
        self.assertEqual(text.count("mean ratio"), len(heads) + 1)  # and where it is explained

    def test_simulate(self):
        text = self.table("simulate", SLOW, "-m", self.machine, "-p", "spread")
        self.table("simulate", SLOW, "-m", self.machine, "-p", "single", "--memory", "1MB", status=1)
        joined = "".join(re.split(r"\s+", text))
        for part in (LONG[:24], "rack-17-7"):  # the whole name is there, over several lines
            self.assertIn(part, joined)

    def test_inspect(self):
        plan, policy = self.path("plan.json"), self.path("policy.stw")
        self.run_stowage("optimize", self.graph, "-m", self.machine, *QUICK, "-o", plan)
        self.table("train", SLOW, "-m", "h200x8", "--updates", "1", "-o", policy)
        for what in (self.graph, GRAPH, self.machine, "h200x8", "cpu+h200x2", plan, policy):
            with self.subTest(os.path.basename(what)):
                self.table("inspect", what)
        self.table("inspect", SLOW, "-m", "h200x8", "--features")

    def test_lists(self):
        for command in ("machine", "generate", "help", "version"):
            self.table(command)
        for command in ("optimize", "compare", "train", "simulate", "export", "inspect", "generate", "machine", "calibrate"):
            self.table("help", command)


if __name__ == "__main__":
    sys.exit(program.main())
