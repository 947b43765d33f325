"""`stowage explain`: its parts add up, what-ifs are what `simulate` says of files that were changed by hand, faults are one line.

    python3 tests/cli/test_explain.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import copy
import gzip
import json
import signal
import sys

import program
from program import GRAPH as OTHER
from program import SLOW as GRAPH
from program import SMALL, Case

QUICK = ["--evaluations", "20", "--threads", "1"]


class Explained(Case):
    """A plan of a real graph on three devices with fusion and charges, in a file."""

    machine = "h200x3"

    def setUp(self):
        super().setUp()
        self.plan = self.path("plan.json")
        self.done("optimize", GRAPH, "-m", self.machine, *QUICK, "-o", self.plan, "--seed", "3")

    def explained(self, *arguments):
        return json.loads(self.done("explain", GRAPH, "--plan", self.plan, "--format", "json", *QUICK, *arguments))

    def simulated(self, *arguments, graph=GRAPH, status=0):
        """Step in picoseconds and largest peak, by `simulate`."""
        found = json.loads(self.done("simulate", graph, "--format", "json", *arguments, status=status, stderr=None))
        return round(found["step_s"] * 1e12), max(found["peak_bytes"])

    def machine_file(self, change):
        """The machine as a file, changed by hand."""
        machine = json.loads(self.done("machine", self.machine))
        change(machine)
        return self.path("machine.json", machine)


class Step(Explained):
    def test_parts_add_up(self):
        x = self.explained("--what-if", "none")
        step, _ = self.simulated("--plan", self.plan)
        self.assertEqual(x["step_ps"], step)
        self.assertEqual(sum(x["parts"].values()), step)
        self.assertEqual(sum(part["end_ps"] - part["start_ps"] for part in x["path"]), step)
        self.assertGreater(x["parts"]["compute"], 0)
        self.assertEqual([part["start_ps"] for part in x["path"]], [0, *[part["end_ps"] for part in x["path"][:-1]]])
        for device in x["devices"]:
            reasons = sum(row["ps"] for row in x["idle"] if row["device"] == device["device"])
            self.assertEqual(reasons, device["idle_ps"])
            self.assertEqual(device["busy_ps"] + device["idle_ps"], step)
        listed = x["ops"] + x["groups"] + x["transfers"]
        self.assertEqual(sum(row["path_ps"] + row["delay_ps"] for row in listed), step)
        self.assertEqual(x["what_ifs"], [])

    def test_text_fits_a_terminal(self):
        for arguments in ([], ["--op", "300"], ["--group", "300"]):
            text = self.done("explain", GRAPH, "--plan", self.plan, *QUICK, *arguments)
            self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)
        self.assertRegex(text, "merged with|no merge")
        text = self.done("explain", GRAPH, "--plan", self.plan, *QUICK)
        for word in ("critical path", "compute", "idles, waiting for", "what if", "bandwidth=x2", "devices=-1", "times=+10%"):
            self.assertIn(word, text)
        self.assertNotIn("what if", self.done("explain", GRAPH, "--plan", self.plan, "--what-if", "none"))

    def test_repeats(self):
        arguments = ["explain", GRAPH, "--plan", self.plan, *QUICK, "--format", "json"]
        self.assertEqual(self.done(*arguments), self.done(*arguments[:-3], "2", "--format", "json"))  # on any number of threads


class WhatIf(Explained):
    def row(self, change):
        rows = self.explained("--what-if", change)["what_ifs"]
        self.assertEqual([row["change"] for row in rows], ["", change])
        self.assertEqual((rows[0]["kept_step_ps"], rows[0]["kept_peak_bytes"]), self.simulated("--plan", self.plan))
        if rows[1]["kept_valid"]:
            self.assertLessEqual(rows[1]["searched_step_ps"], rows[1]["kept_step_ps"])
        return rows[1]

    def check(self, change, *simulate, graph=GRAPH):
        row = self.row(change)
        self.assertTrue(row["searched_valid"])
        self.assertEqual((row["kept_step_ps"], row["kept_peak_bytes"]), self.simulated(*simulate, graph=graph))
        return row

    def test_bandwidth(self):
        def double(machine):
            for link in machine["links"]:
                link["bandwidth_bytes_per_s"] *= 2

        row = self.check("bandwidth=x2", "--plan", self.plan, "-m", self.machine_file(double))
        self.assertLess(row["kept_step_ps"], self.simulated("--plan", self.plan)[0])

    def test_memory(self):
        def more(machine):
            for device in machine["devices"]:
                device["memory_bytes"] = round(device["memory_bytes"] * 1.2)

        self.check("memory=+20%", "--plan", self.plan, "-m", self.machine_file(more))

    def test_one_more_device(self):
        def add(machine):
            last = machine["devices"][-1]["name"]
            new = last[:-1] + str(int(last[-1]) + 1)
            machine["devices"].append({**machine["devices"][-1], "name": new})
            between = [link for link in machine["links"] if link["from"] == last][0]
            machine["links"] += [{**link, "from": new} for link in machine["links"] if link["from"] == last]
            machine["links"] += [{**link, "to": new} for link in machine["links"] if link["to"] == last]
            machine["links"] += [{**between, "from": last, "to": new}, {**between, "from": new, "to": last}]

        file = self.machine_file(add)
        self.check("devices=+1", "--plan", self.plan, "-m", file)
        self.assertEqual(json.loads(self.done("machine", file))["devices"][-1]["name"], "h200:3")

    def test_one_device_less(self):
        x = self.explained("--what-if", "none")
        gone = x["devices"][-1]["device"]
        heir = min(x["devices"][:-1], key=lambda device: device["busy_ps"])["device"]

        def take(machine):
            machine["devices"] = machine["devices"][:-1]
            machine["links"] = [link for link in machine["links"] if gone not in (link["from"], link["to"])]

        with open(self.plan) as file:
            plan = json.load(file)
        names = [device["name"] for device in plan["machine"]["devices"]]
        plan["device"] = [names.index(heir) if d == names.index(gone) else d for d in plan["device"]]
        plan["machine"] = json.loads(self.done("machine", self.machine_file(take)))
        row = self.check("devices=-1", "--plan", self.path("fewer.json", plan))
        self.assertEqual(row["words"], f"without {gone}, whose ops go to {heir}")

    def test_times(self):
        with gzip.open(GRAPH) as file:
            graph = json.load(file)
        for entry in graph["nodes"]:
            entry["us"] = {kind: 1.1 * us for kind, us in entry.get("us", {}).items()}
        ops = [entry for entry in graph["nodes"] if not entry.get("view") and entry["op"] not in ("parameter", "buffer", "input", "constant")]
        self.assertTrue(all("h200" in entry["us"] for entry in ops))
        slower = self.path("slower.json", graph)
        row = self.check("times=+10%", "--plan", self.plan, graph=slower)
        self.assertGreater(row["kept_step_ps"], self.simulated("--plan", self.plan)[0])

    def test_too_little_memory(self):
        row = self.row("memory=-99%")
        self.assertFalse(row["kept_valid"])
        self.assertIn("memory", row["kept_reason"])

    def test_interrupted(self):
        """The first Ctrl-C ends the search and leaves out what has not begun."""
        arguments = ["explain", GRAPH, "--plan", self.plan, "--budget", "600s", "--format", "json"]
        status, out = self.interrupted_when("best", signal.SIGINT, *arguments)
        self.assertEqual(status, 130)
        found = json.loads(out)
        self.assertTrue(found["interrupted"])
        self.assertLess(len(found["what_ifs"]), 6)
        self.assertEqual(sum(found["parts"].values()), found["step_ps"])

    def test_several(self):
        rows = self.explained("--what-if", "bandwidth=x2", "--what-if", "devices=+2,times=-5%")["what_ifs"]
        self.assertEqual([row["change"] for row in rows], ["", "bandwidth=x2", "devices=+2", "times=-5%"])


class Questions(Explained):
    def test_op(self):
        with open(self.plan) as file:
            plan = json.load(file)
        x = self.explained("--op", "300")
        self.assertEqual(x["what_ifs"], [])
        self.assertEqual(len(x["moves"]), 3)
        for index, move in enumerate(x["moves"]):
            other = copy.deepcopy(plan)
            for row in x["moved"]:
                other["device"][row["node"]] = index
            step, peak = self.simulated("--plan", self.path("moved.json", other))
            self.assertEqual((move["step_ps"], move["peak_bytes"]), (step, peak))

    def test_group(self):
        with open(self.plan) as file:
            plan = json.load(file)
        groups = [group for group in plan["group"] if group >= 0]
        largest = max(set(groups), key=groups.count)
        self.assertGreater(groups.count(largest), 1)
        op = plan["group"].index(largest)
        x = self.explained("--group", str(op))
        self.assertIn(op, [row["node"] for row in x["members"]])
        for row in x["members"]:
            plan["group"][row["node"]] = row["node"]
        self.assertEqual(x["group"]["apart_step_ps"], self.simulated("--plan", self.path("apart.json", plan))[0])
        self.assertGreater(x["group"]["apart_ps"], x["group"]["kernel_ps"])


class Faults(Case):
    def setUp(self):
        super().setUp()
        self.graph = self.path("small.json", SMALL)
        self.plan = self.path("plan.json")
        self.done("simulate", self.graph, "-m", "h200x2", "--plan", "single", "-o", self.plan, stderr=None)

    def test_words(self):
        self.fault("explain", self.graph, says=["explain needs --plan"])
        self.fault("explain", self.graph, "--plan", "non.json", says=["neither a file nor a method"])
        self.fault("explain", self.graph, "--plan", "single", says=["a machine is needed"])
        self.fault("explain", OTHER, "--plan", self.plan, says=["another graph"])

    def fault_behind_warnings(self, *arguments, says):
        result = self.run_stowage("explain", self.graph, "--plan", self.plan, *arguments)
        lines = [line for line in result.stderr.decode().splitlines() if "warning" not in line]
        self.assertEqual((result.returncode, result.stdout, len(lines)), (2, b"", 1), result)
        for word in says:
            self.assertIn(word, lines[0])

    def test_questions(self):
        self.fault_behind_warnings("--op", "n22", says=["--op", "'n22'", "near are n2 (2)"])
        self.fault_behind_warnings("--op", "99", says=["--op", "'99'", "0 to 4"])
        self.fault_behind_warnings("--group", "n0", says=["--group", "'n0'", "a parameter or buffer"])
        for value in ("bandwidth", "bandwidth=", "bandwidth=x-1", "bandwidth=xnan", "devices=2", "devices=+", "memory=20%", "speed=x2", ",",
                      "all,", "devices=+99999999999999999999"):
            self.fault_behind_warnings("--what-if", value, says=["--what-if", "devices=+1"])

    def test_invalid_plan(self):
        """There is no step to explain; but where memory lacks, there is."""
        with open(self.plan) as file:
            plan = json.load(file)
        plan["device"][4] = 1  # an update away from its parameter
        result = self.run_stowage("explain", self.graph, "--plan", self.path("apart.json", plan))
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertIn(b"no step to explain: colocation", result.stderr)
        text = self.done("explain", self.graph, "--plan", self.plan, "--memory", "100", "--what-if", "none", stderr=None)
        self.assertIn("critical path", text)


if __name__ == "__main__":
    sys.exit(program.main())
