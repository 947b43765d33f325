"""What the program tells beside its numbers: warnings, units, bounds, and names that come from files.

    python3 tests/cli/test_tell.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys

import program
from program import GRAPH, SMALL, Case, node, unwrapped

QUICK = ["--evaluations", "30", "--threads", "1"]

# Two accelerators of a gigabyte and a host; sizes in bytes, costs of edges in milliseconds.
PARTED = {"maxSizePerFPGA": 1e9, "maxFPGAs": 2, "maxCPUs": 1,
          "nodes": [{"id": k, "name": f"n{k}", "cpuLatency": 40, "fpgaLatency": 4, "size": 3e8, "supportedOnFpga": 1} for k in range(3)],
          "edges": [{"sourceId": k, "destId": k + 1, "cost": 0.5} for k in range(2)]}

SHARDED = """HloModule step, num_partitions=4

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}

ENTRY main {
  a = f32[512,256]{1,0} parameter(0)
  b = f32[512,256]{1,0} multiply(a, a)
  c = f32[512,256]{1,0} all-reduce(b), replica_groups={{0,1,2,3}}, to_apply=add
  ROOT d = f32[512,256]{1,0} tanh(c)
}
"""


class Warnings(Case):
    COMMANDS = {"simulate": ["-p", "single"], "optimize": QUICK, "compare": [*QUICK, "--methods", "single,spread"]}

    def told(self, graph, machine="h200x2", **commands):
        """The lines on standard error of each command, which are all the same, and those in its JSON."""
        seen = []
        for command, more in {**self.COMMANDS, **commands}.items():
            machines = [] if machine is None else ["-m", machine]
            run = self.run_stowage(command, graph, *machines, *more)
            self.assertEqual(run.returncode, 0, run)
            lines = run.stderr.decode().splitlines()
            for line in lines:
                self.assertTrue(line.startswith("stowage: warning: "), line)
            answer = json.loads(self.done(command, graph, *machines, *more, "-f", "json", stderr=None))
            answer = answer[0] if command == "compare" else answer
            self.assertEqual(answer["warnings"], [line.removeprefix("stowage: warning: ") for line in lines])
            seen.append(answer["warnings"])
        self.assertEqual(seen, [seen[0]] * len(seen))
        return seen[0]

    def test_nothing_where_nothing_is_amiss(self):
        self.assertEqual(self.told(GRAPH), [])
        self.assertEqual(self.told(self.path("parted.json", PARTED), None), [])  # of no known operator, but every time is given

    def test_unknown_operators(self):
        graph = self.path("small.json", SMALL)
        self.assertEqual(self.told(graph), [])  # its time is measured on this kind
        one = {**SMALL, "nodes": [{key: value for key, value in n.items() if key != "us"} for n in SMALL["nodes"]]}
        self.assertEqual(self.told(self.path("one.json", one)),
                         ["1 of 3 ops are unknown operators ('made_up_operator') and count by the bytes that they move, without arithmetic; give "
                          "their times with --costs"])
        costs = self.path("costs.csv", "name,kind,us\nn3,h200,3\n")
        self.assertEqual(self.done("simulate", graph, "-m", "h200x2", "-p", "single", "--costs", costs).count("step time"), 1)
        many = {**one, "nodes": one["nodes"] + [node(5 + k, f"unheard_of_{k % 5}", [3]) for k in range(9)]}
        (line,) = self.told(self.path("many.json", many))
        self.assertIn("10 of 12 ops are unknown operators ('made_up_operator', 'unheard_of_0', 'unheard_of_1', ...)", line)

    def test_a_custom_call_is_an_unknown_operator(self):
        text = SHARDED.replace(", num_partitions=4", "").replace(
            'all-reduce(b), replica_groups={{0,1,2,3}}, to_apply=add', 'custom-call(b), custom_call_target="mine"')
        (line,) = self.told(self.path("call.txt", text))
        self.assertIn("1 of 3 ops are unknown operators ('mine')", line)

    def test_programs_that_are_partitioned(self):
        says = "it is planned as what it is, one device's share"
        (line,) = self.told(self.path("sharded.txt", SHARDED))
        self.assertIn("the program is already partitioned (num_partitions=4, 1 collective): " + says, line)
        (line,) = self.told(self.path("share.txt", SHARDED.replace(", num_partitions=4", "")))
        self.assertIn("the program is already partitioned (1 collective): " + says, line)
        (line,) = self.told(self.path("whole.txt", SHARDED.replace("all-reduce(b), replica_groups={{0,1,2,3}}, to_apply=add", "negate(b)")))
        self.assertEqual(line, "the module says num_partitions=4 and has no collectives: it is planned as the one program that it states")

    def test_open_sizes(self):
        attributes = "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'T' value { type: DT_FLOAT } }"
        shape = "attr { key: 'shape' value { shape { dim { size: -1 } dim { size: 256 } } } }"
        graph = self.path("g.pbtxt", f"node {{ name: 'image' op: 'Placeholder' {attributes} {shape} }}\n"
                                     f"node {{ name: 'r' op: 'Relu' input: 'image' {attributes} }}\n")
        self.assertEqual(self.told(graph), ["open sizes count as 1 (of 1 input); give sizes with --shape 'image=N,...'"])
        sized = {command: [*more, "--shape", "image=8,256"] for command, more in self.COMMANDS.items()}
        self.assertEqual(self.told(graph, **sized), [])


class Numbers(Case):
    def test_sizes_of_dnn_partitioning_inputs(self):
        graph = self.path("parted.json", PARTED)
        texts = [self.done("inspect", graph), self.done("simulate", graph, "-p", "single")]
        texts += [self.done("optimize", graph, *QUICK, "--objective", objective) for objective in ("time", "memory", "throughput")]
        texts += [self.done("compare", graph, *QUICK, "--methods", "single,spread", "--objective", "memory", *more)
                  for more in ([], ["-f", "markdown"])]
        for text in texts:
            self.assertNotRegex(text, r"\d [TPE]B")
            self.assertTrue("900 MB" in text or "300 MB" in text, text)
        report = self.done("simulate", graph, "-p", "single")
        self.assertRegex(report, r"accelerator:0 .* 900 MB +1\.00 GB +90\.0 %")
        self.assertRegex(report, r"cpu:0 .* 0 B +no limit +-")
        self.assertRegex(self.done("simulate", graph, "-p", "spread"), r"accelerator:\d +(accelerator|cpu):\d +\d+ +- +[\d.]+ [mu]s")
        report = self.done("simulate", graph, "-p", "single", "--memory", "800MB", status=1)  # of the file's bytes
        self.assertRegex(unwrapped(report), r"accelerator:0 lacks 1000\d{5} bytes: it holds 9000\d{5} at .* and has 800000000")
        self.assertRegex(self.done("simulate", graph, "-m", "h200x2", "-p", "single"), r"valid +yes")  # 900 MB on 151 GB
        report = self.done("simulate", graph, "-m", "h200x2", "-p", "single", "--memory", "800MB", status=1)
        self.assertRegex(unwrapped(report), r"h200:0 lacks 1000\d{5} bytes: it holds 9000\d{5} at .* and has 800000000")

    def test_the_bound_and_the_speed_up_are_those_of_the_objective(self):
        head = json.loads(self.done("optimize", GRAPH, "-m", "h200x4", "--objective", "throughput", "--evaluations", "100", "-f", "json"))
        best = min((c for c in head["candidates"] if c["valid"]), key=lambda c: c["value"])
        self.assertEqual(head["value"], best["value"])
        self.assertGreater(head["lower_bound_load_s"], 0)
        for candidate in head["candidates"]:
            if candidate["valid"]:
                self.assertGreaterEqual(candidate["value"], head["lower_bound_load_s"] * (1 - 1e-9))
        text = self.done("optimize", GRAPH, "-m", "h200x4", "--objective", "throughput", "--evaluations", "100")
        speed_up = float(re.search(r"\n  speed-up +([\d.]+) \(", text).group(1))
        row = re.search(r"\n  \* (.*)", text).group(1)
        self.assertIn(f" {speed_up:.2f} ", row)
        above = float(re.search(r"\n  lower bound +.*; the load is ([\d.]+) % above it", text).group(1))
        self.assertAlmostEqual(above, 100 * (head["value"] / head["lower_bound_load_s"] - 1), 0)
        self.assertIn("\n  bound of the step ", text)
        text = self.done("compare", GRAPH, "-m", "h200x4", "--objective", "throughput", *QUICK, "--methods", "single,spread")
        self.assertIn("lower bound of the largest load: ", text)
        self.assertIn("load / bound", text)

    def test_no_bound_is_no_line(self):
        """In this module everything may be fused away."""
        graph = self.path("h.txt", SHARDED.replace("all-reduce(b), replica_groups={{0,1,2,3}}, to_apply=add", "negate(b)")
                          .replace(", num_partitions=4", ""))
        head = json.loads(self.done("simulate", graph, "-m", "h200x2", "-p", "single", "-f", "json"))
        self.assertEqual(head["lower_bound_fusion_s"], 0)
        plan = self.path("plan.json")
        for text in (self.done("simulate", graph, "-m", "h200x2", "-p", "single", "-o", plan), self.done("inspect", plan),
                     self.done("optimize", graph, "-m", "h200x2", *QUICK)):
            self.assertNotRegex(text, r"with any fusion +\d")
        text = self.done("compare", graph, graph, "-m", "h200x2", *QUICK, "--methods", "single,spread", "-f", "markdown")
        self.assertNotIn("**-**", text)
        self.assertNotRegex(text, r"\| 0 s \|")

    def test_rows_have_names_of_their_own(self):
        for more in ([], ["--tasks", "schedule", "--rule", "fifo"], ["--memory", "1kB"]):
            run = self.run_stowage("optimize", GRAPH, "-m", "h200x2", *QUICK, *more, "-f", "json")
            names = [c["method"] for c in json.loads(run.stdout)["candidates"]]
            self.assertEqual(len(names), len(set(names)), names)
        self.assertIn("single-unfused", self.done("optimize", GRAPH, "-m", "h200x2", *QUICK))

    def test_a_command_speaks_of_its_own_options(self):
        for command, more in (("optimize", []), ("compare", []), ("train", ["-o", "p.stw"])):
            line = self.fault(command, GRAPH, *more, says=["a machine is needed", "unless the graph brings one"])
            self.assertNotIn("--plan", line)
        self.fault("simulate", GRAPH, "-p", "single", says=["unless --plan is a file or the graph brings one"])


class Names(Case):
    """Names that would steer a terminal, break a line or begin a formula."""

    HOSTILE = "=\x1b]0;x\x07\u009b31m\n\u202eevil,\"|"
    SPECIAL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

    def files(self):
        graph = json.loads(json.dumps(SMALL))
        graph.update(name=self.HOSTILE, family=self.HOSTILE)
        for n in graph["nodes"]:
            n["name"] = self.HOSTILE + n["name"]
            if "label" in n:
                n["label"] = self.HOSTILE
        graph["nodes"][3]["op"] = self.HOSTILE
        graph["nodes"][2]["us"] = {self.HOSTILE: 3.0}
        machine = json.loads(self.done("machine", "h200x2"))
        machine["name"] = self.HOSTILE
        for device in machine["devices"]:
            device["name"] = self.HOSTILE + device["name"]
            device["kind"] = self.HOSTILE
        for link in machine["links"]:
            link.update({"from": self.HOSTILE + link["from"], "to": self.HOSTILE + link["to"], "bus": self.HOSTILE})
        return self.path("graph.json", graph), self.path("machine.json", machine)

    def commands(self):
        graph, machine = self.files()
        plan = self.path("plan.json")
        on = [graph, "-m", machine]
        yield ["optimize", *on, *QUICK, "-o", plan]
        for more in ([], ["-f", "json"]):
            yield ["inspect", graph, *more]
            yield ["inspect", machine, *more]
            yield ["inspect", plan, *more]
            yield ["simulate", *on, "-p", "spread", *more]
            yield ["simulate", *on, "-p", "spread", "--memory", "1B", *more]
        for form in ("text", "json", "csv", "markdown"):
            yield ["optimize", *on, *QUICK, "-f", form]
            yield ["compare", *on, *QUICK, "--methods", "single,spread", "-f", form]
        yield ["compare", graph, graph, "-m", machine, *QUICK, "--methods", "single,spread"]
        yield ["train", *on, "--updates", "1", "-o", self.path("policy.stw")]
        for form in ("csv", "dot", "trace", "device-map"):
            yield ["export", *on, "-p", "spread", "--to", form, "-o", "-"]
        yield ["machine", machine]
        for wrong in ([self.HOSTILE], ["optimize", self.HOSTILE], ["simulate", *on, "-p", self.HOSTILE], ["inspect", graph, "-m", self.HOSTILE],
                      ["optimize", *on, "--objective", self.HOSTILE], ["simulate", graph, "-p", "single", "-m", self.HOSTILE],
                      ["generate", self.HOSTILE], ["help", self.HOSTILE]):
            yield wrong

    def test_nothing_steers_a_terminal(self):
        for command in self.commands():
            run = self.run_stowage(*command)
            self.assertIn(run.returncode, (0, 1, 2), run)
            for text in (run.stdout.decode(), run.stderr.decode()):
                self.assertIsNone(self.SPECIAL.search(text), (command, text))

    def test_a_model_in_text_is_not_written_to_a_terminal(self):
        module = self.path("m.txt", SHARDED)
        master, slave = pty.openpty()
        run = subprocess.run([program.binary, "export", module, "-m", "h200x1", "-p", "single", "--to", "hlo-text", "-o", "-"], stdin=subprocess.DEVNULL,
                             stdout=slave, stderr=subprocess.PIPE, timeout=60)
        os.close(slave)
        os.close(master)
        self.assertEqual(run.returncode, 2)
        self.assertIn(b"is not written to a terminal", run.stderr)

    def test_cells_begin_no_formula(self):
        graph, machine = self.files()
        begins = "'=\\x1b]0;x\\x07\\u009b31m\\n\\u202eevil"
        for command in (["optimize", graph, "-m", machine, *QUICK], ["compare", graph, "-m", machine, *QUICK, "--methods", "single,spread"]):
            for row in csv.DictReader(io.StringIO(self.done(*command, "-f", "csv", stderr=None))):
                self.assertTrue(row["graph"].startswith(begins) and row["machine"].startswith(begins), row)
                self.assertGreater(float(row["step_s"]), 0)
        text = self.done("compare", graph, "-m", machine, *QUICK, "--methods", "single,spread", "-f", "markdown", stderr=None)
        self.assertIn("\n| '=\\\\x1b]0;x", text)
        rows = list(csv.DictReader(io.StringIO(self.done("export", graph, "-m", machine, "-p", "spread", "--to", "csv", "-o", "-", stderr=None))))
        self.assertEqual(len(rows), len(SMALL["nodes"]))
        for row in rows:
            self.assertTrue(row["name"].startswith(begins))
        self.assertTrue(rows[3]["op"].startswith(begins) and rows[3]["device"].startswith(begins), rows[3])
        for sign in "+-@":
            named = self.path("named.json", {**SMALL, "name": f"{sign}1"})
            (first, *_) = csv.DictReader(io.StringIO(self.done("compare", named, "-m", "h200x2", *QUICK, "--methods", "single", "-f", "csv")))
            self.assertEqual(first["graph"], f"'{sign}1")

    def test_numbers_stay_numbers(self):
        """A recomputed op has the group -1, and a priority may be negative."""
        plan = {"format": "plan", "version": 1, "device": [0] * 5, "group": [-1, -1, -1, 3, 3], "priority": [-1.0] * 5}
        graph = self.path("graph.json", {**SMALL, "nodes": [dict(n, op="add" if n["id"] == 3 else n["op"]) for n in SMALL["nodes"]]})
        run = self.run_stowage("export", graph, "-m", "h200x1", "-p", self.path("plan.json", plan), "--to", "csv", "-o", "-")
        rows = list(csv.DictReader(io.StringIO(run.stdout.decode())))
        self.assertEqual(run.returncode, 0, run)
        self.assertEqual((rows[2]["group"], rows[3]["priority"]), ("-1", "-1"))


if __name__ == "__main__":
    sys.exit(program.main())
