"""stowage optimize: plans and reports, and fusion among the tasks.

    python3 tests/cli/test_optimize.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import csv
import io
import json
import os
import sys

import program
from program import CANDIDATE_KEYS, CSV_KEYS, GRAPH, HEAD_KEYS, ROOT, SLOW, SMALL, Case, markdown_rows, node, unwrapped


class Optimize(Case):
    QUICK = ["-m", "h200x2", "--evaluations", "60"]

    def head(self, *arguments, **more):
        return json.loads(self.done("optimize", *arguments, "--format", "json", **more))

    def plan_at(self, path):
        with open(path) as file:
            return json.load(file)

    def test_json_is_the_head_of_the_plan(self):
        path = self.path("plan.json")
        head = self.head(GRAPH, *self.QUICK, "-o", path)
        self.assertEqual(list(head), [*HEAD_KEYS, "timings"])
        timings = head.pop("timings")
        self.assertEqual(list(timings), ["search_s", "found"])
        self.assertEqual(len(timings["found"]), len(head["candidates"]))
        self.assertEqual(len(timings["search_s"]), len(head["candidates"]))
        self.assertTrue(all(seconds >= 0 for seconds in timings["search_s"]))
        plan = self.plan_at(path)
        self.assertEqual(list(plan)[:len(HEAD_KEYS) + 3], [*HEAD_KEYS, "device", "priority", "group"])
        self.assertEqual({key: plan[key] for key in HEAD_KEYS}, head)
        self.assertEqual((head["graph"]["name"], head["machine"]["name"], head["valid"]), ("unet", "h200x2", True))
        self.assertEqual((head["tasks"], head["objective"], head["seed"]), (["placement", "schedule", "fusion"], "time", 1))
        self.assertEqual(head["value"], head["step_s"])
        self.assertEqual(len(head["peak_bytes"]), 2)
        for candidate in head["candidates"]:
            self.assertEqual(list(candidate), CANDIDATE_KEYS)
        winner = [c for c in head["candidates"] if c["method"] == head["method"] and c["step_s"] == head["step_s"]]
        self.assertTrue(winner, head["candidates"])

    def test_never_worse_than_any_candidate(self):
        for objective in ("time", "memory", "throughput"):
            with self.subTest(objective=objective):
                head = self.head(GRAPH, *self.QUICK, "--objective", objective)
                self.assertEqual(head["objective"], objective)
                self.assertEqual(head["candidates"][0]["method"], "single")
                self.assertTrue(head["candidates"][0]["valid"])
                self.assertEqual(head["value"], min(c["value"] for c in head["candidates"] if c["valid"]))
                if objective == "memory":
                    self.assertEqual(head["value"], max(head["peak_bytes"]))
                self.assertGreaterEqual(head["step_s"], head["lower_bound_s"])

    def test_the_default_is_what_simulate_says(self):
        head = self.head(GRAPH, *self.QUICK, "--tasks", "placement,schedule")
        plain = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "-f", "json"))
        self.assertEqual(head["candidates"][0]["step_s"], plain["step_s"])
        self.assertEqual(head["lower_bound_s"], plain["lower_bound_s"])
        head = self.head(GRAPH, *self.QUICK)  # with groups by the rule, then without any
        rule = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--tasks", "placement,schedule,fusion", "--fusion",
                                    "default", "--rule", "topological", "-f", "json"))
        self.assertEqual([c["method"] for c in head["candidates"][:2]], ["single", "single-unfused"])
        self.assertEqual(head["candidates"][0]["step_s"], rule["step_s"])
        self.assertEqual(head["candidates"][1]["step_s"], plain["step_s"])
        self.assertLess(rule["step_s"], plain["step_s"])
        self.assertEqual(head["lower_bound_fusion_s"], plain["lower_bound_fusion_s"])

    def test_plan_is_read_back(self):
        path, trace = self.path("plan.json"), self.path("t.json")
        head = self.head(GRAPH, *self.QUICK, "-o", path, "--trace", trace)
        report = json.loads(self.done("simulate", GRAPH, "-p", path, "-f", "json"))
        for key in ("step_s", "valid", "peak_bytes", "lower_bound_s", "lower_bound_fusion_s", "measured_share"):
            self.assertEqual(report[key], head[key], key)
        self.assertEqual(json.loads(self.done("inspect", path, "-f", "json"))["step_s"], head["step_s"])
        self.assertGreater(len(self.plan_at(trace)["traceEvents"]), 300)
        self.assertEqual(sorted(os.listdir(self.folder)), ["plan.json", "t.json"])

    def test_formats_agree(self):
        head = self.head(GRAPH, *self.QUICK)
        rows = list(csv.DictReader(io.StringIO(self.done("optimize", GRAPH, *self.QUICK, "-f", "csv"))))
        self.assertEqual(list(rows[0]), CSV_KEYS)
        self.assertEqual(len(rows), len(head["candidates"]))
        for row, candidate in zip(rows, head["candidates"]):
            self.assertEqual((row["graph"], row["machine"], row["method"]), ("unet", "h200x2", candidate["method"]))
            for key in ("step_s", "value", "evaluations", "seed"):
                self.assertEqual(float(row[key]), candidate[key])
            self.assertEqual((row["valid"], row["reason"]), (json.dumps(candidate["valid"]), candidate["reason"] or ""))
            self.assertEqual(int(row["worst_peak_bytes"]), max(candidate["peak_bytes"]))
        table = markdown_rows(self.done("optimize", GRAPH, *self.QUICK, "-f", "markdown"))
        text = self.done("optimize", GRAPH, *self.QUICK)
        self.assertEqual([row[0] for row in table[1:]],
                         [c["method"] + (" (default)" if k == 0 else "") for k, c in enumerate(head["candidates"])])
        for row in table[1:]:  # method, step time, speed-up
            self.assertIn(row[1], text)
        self.assertIn(f"by {head['method']}", text)
        self.assertIn(f"{1e3 * head['step_s']:.3f} ms by {head['method']}", text)

    def test_text(self):
        text = self.done("optimize", GRAPH, *self.QUICK, "-o", "plan.json", "--trace", "t.json")
        for word in ("unet on h200x2", "objective time", "budget 60 evaluations", "single (default)", "speed-up = t_ref / t",
                     "reduction = 1 - t / t_ref", "lower bound", "% above it", "measured", "plan.json", "t.json", "\n  * "):
            self.assertIn(word, text)
        self.assertNotIn("does not repeat", text)
        self.assertNotIn("\033", text)
        self.assertFalse([line for line in text.splitlines() if line != line.rstrip()])
        text = self.done("optimize", self.path("g.json", SMALL), "-m", "h200x2", "--budget", "200ms")
        self.assertRegex(text, r"A budget of time does not repeat exactly. This much work does: --evaluations \d+ --seed 1")

    def test_tells_whether_the_policy_helped(self):
        head = self.head(SLOW, "-m", "h200x2", "--evaluations", "1500")
        text = self.done("optimize", SLOW, "-m", "h200x2", "--evaluations", "1500")
        names = [c["method"] for c in head["candidates"]]
        self.assertNotIn("go-one", names)
        self.assertNotIn("go-tune", names)  # the policy has learnt from moves alone: anneal does what it would
        policy = names.index("go-zero")
        before = min((c for c in head["candidates"][:policy] if c["valid"]), key=lambda c: c["value"])
        if head["candidates"][policy]["value"] < before["value"]:
            self.assertRegex(text, r"\n  policy +go-zero improved the best plan by [\d.]+ % \([\d.]+ ms -> [\d.]+ ms\)\n")
        else:
            self.assertRegex(text, rf"\n  policy +go-zero did not improve on {before['method']} \([\d.]+ ms\)\n")

    def test_without_the_pre_trained_policy_one_is_trained(self):
        for policy, trained in (("train", True), ("none", False)):
            head = self.head(SLOW, "-m", "h200x2", "--evaluations", "1500", "--policy", policy)
            names = [c["method"] for c in head["candidates"]]
            self.assertEqual("go-one" in names, trained)
            self.assertFalse({"go-zero", "go-tune"} & set(names))

    def test_noise_is_told_when_there_is_something_to_compare(self):
        graph = os.path.join(ROOT, "data", "graphs", "gnmt-2.json.gz")
        text = self.done("optimize", graph, "-m", "h200x2", "--evaluations", "30")
        self.assertRegex(unwrapped(text), r"ahead of the default in \d+ of 32 draws with times off by 5 % where measured, 20 % where fused")
        noise = self.head(graph, "-m", "h200x2", "--evaluations", "30")["noise"]
        self.assertEqual([noise["draws"], noise["measured_error"], noise["carried_error"]], [32, 0.05, None])
        self.assertIn(f"in {noise['ahead']} of 32 draws", text)
        self.assertAlmostEqual(noise["fused_error"], 0.2, 2)
        self.assertIsNone(self.head(self.path("small.json", SMALL), "-m", "h200x1", "--evaluations", "30")["noise"])  # the default is the best

    def test_repeats_on_any_number_of_threads(self):
        plans, texts = [], []
        path = self.path("plan.json")
        for threads in ("1", "2", "8", "1"):
            texts.append(self.done("optimize", GRAPH, "-m", "h200x4", "--evaluations", "200", "--seed", "7", "--threads", threads, "-o", path))
            with open(path, "rb") as file:
                plans.append(file.read())  # to the byte
        self.assertEqual(json.loads(plans[0])["seed"], 7)
        self.assertEqual(plans, plans[:1] * 4)
        self.assertEqual(texts, texts[:1] * 4)
        heads = [self.head(GRAPH, *self.QUICK) for _ in range(2)]
        for head in heads:
            head.pop("timings")
        self.assertEqual(heads[0], heads[1])

    def test_one_op_does_not_take_the_whole_budget(self):
        """Without --evaluations there are ten seconds; the first plan meets the bound, and that is the end."""
        graph = self.path("one.json", {"format": "opgraph", "version": 1, "name": "one", "outputs": [1],
                                       "nodes": [node(0, "input", []), node(1, "relu", [0])]})
        for objective in ("time", "memory", "throughput"):
            head = self.head(graph, "-m", "h200x2", "--objective", objective)
            self.assertTrue(head["optimal"])
            self.assertLessEqual(sum(candidate["evaluations"] for candidate in head["candidates"]), 4)
        self.assertRegex(self.done("optimize", graph, "-m", "h200x2"), r"\n  proved +optimal: no plan is better\n")
        limited = ("optimize", graph, "-m", "h200x2", "--max-devices", "1")
        self.assertRegex(self.done(*limited), r"\n  proved +optimal: no plan within the limits is better\n")
        head = self.head(graph, *limited[2:])
        self.assertEqual((head["optimal"], head["limits"]), (True, "--max-devices 1"))

    def test_times_are_told_where_the_budget_is_of_time(self):
        for clock in ("wall", "cpu"):
            self.assertIn("search time", self.done("optimize", GRAPH, "-m", "h200x2", "--budget", "1ms", "--clock", clock))

    def test_a_policy_that_is_not_there(self):
        graph, other = self.path("g.json", SMALL), self.path("other.json", SMALL)
        for command in (("optimize",), ("compare", "--methods", "single")):
            for name, word in (("no-such.stw", "no-such.stw"), (other, "not a policy file")):
                result = self.run_stowage(command[0], graph, "-m", "h200x2", *command[1:], "--policy", name, "--evaluations", "1",
                                          "-o" if command[0] == "optimize" else "--best", "plan.json")
                self.assertEqual((result.returncode, result.stdout), (2, b""))
                self.assertIn(word, result.stderr.decode())
                self.assertEqual(result.stderr.count(b"\n"), 1)
                self.assertFalse(os.path.exists(os.path.join(self.folder, "plan.json")))

    def test_too_little_memory(self):
        arguments = ["optimize", GRAPH, *self.QUICK, "--memory", "1MB", "-o", "plan.json"]
        result = self.run_stowage(*arguments)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout.decode(), r"single \(default\).* memory [\s\S]* single +h200:\d lacks \d+ bytes")
        self.assertRegex(result.stderr.decode(), r"^stowage: there is no valid plan: .*\d+ bytes.*\n$")
        self.assertEqual(os.listdir(self.folder), [])
        head = self.head(*arguments[1:], status=1, stderr=None)
        self.assertEqual(list(head), [*HEAD_KEYS, "timings"])
        self.assertEqual((head["valid"], head["method"], head["step_s"], head["value"], head["peak_bytes"], head["measured_share"]),
                         (False, None, None, None, [], None))
        self.assertTrue(all(not c["valid"] and c["reason"] for c in head["candidates"]))
        self.assertIn("plan for unet", self.done("inspect", self.path("head.json", head)))

    def test_a_plan_that_fits_comes_first(self):
        """One device does not hold the graph. However few evaluations there are, a plan is made that fits."""
        graph = os.path.join(ROOT, "data", "graphs", "gnmt-8.json.gz")
        for evaluations in ("1", "20"):
            head = self.head(graph, "-m", "h200x8", "--memory", "6GB", "--evaluations", evaluations)
            self.assertTrue(head["valid"])
            self.assertFalse(head["candidates"][0]["valid"])
            self.assertLessEqual(max(head["peak_bytes"]), 6e9)

    def test_none_found_is_not_none_there(self):
        graph = os.path.join(ROOT, "data", "graphs", "transformer-xl-4.json.gz")
        result = self.run_stowage("optimize", graph, "-m", "h200x4", "--memory", "1GB", "--evaluations", "5")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"^stowage: there is no valid plan: whatever the plan, some device holds \d+ bytes")
        result = self.run_stowage("optimize", graph, "-m", "h200x4", "--memory", "1.2GB", "--evaluations", "5")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"^stowage: no valid plan was found within the budget; the nearest plan \(\w+\): .*\n$")

    def test_what_fits_with_groups_only(self):
        """There is no time for groups before a plan, and no plan without them fits: they are made all the same."""
        def op(index, name, inputs, size):
            return {"id": index, "name": f"n{index}", "op": name, "inputs": inputs, "dtype": "f32", "shape": [size // 4], "bytes": size,
                    "us": {"h200": 2.0}}  # fmt: skip
        nodes = [op(1, "relu", [0], 64), op(2, "expand", [1], 10**8), op(3, "relu", [2], 10**8), op(4, "sum", [3], 64)]
        nodes += [op(k, "relu", [k - 1 if k % 50 else 4], 64) for k in range(5, 8005)]
        first = {"id": 0, "name": "x", "op": "input", "inputs": [], "dtype": "f32", "shape": [16], "bytes": 64}
        graph = self.path("groups.json", {"format": "opgraph", "version": 1, "name": "groups", "outputs": [4, 8004], "nodes": [first, *nodes]})
        head = self.head(graph, "-m", "0.1/h200x2", "--memory", "150MB", "--budget", "15ms")
        self.assertTrue(head["valid"])
        self.assertLess(max(head["peak_bytes"]), 10**8)
        self.assertFalse(next(c for c in head["candidates"] if c["method"] == "single-unfused")["valid"])

    def test_memory_that_suffices_for_several_devices_only(self):
        result = self.run_stowage("optimize", GRAPH, "-m", "h200x4", "--evaluations", "200", "--memory", "7GB", "-o", "plan.json")
        text = result.stdout.decode()
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("not valid; memory", text)
        self.assertNotIn("reduction", text)
        self.assertTrue(json.loads(self.done("simulate", GRAPH, "-p", "plan.json", "-f", "json"))["valid"])

    def test_wrong_usage(self):
        for arguments, words in ((["-m", "h300x2"], ["h300x2", "built in are"]), ([], ["machine"]),
                                 (["-m", "h200x2", "--budget", "10parsecs"], ["--budget", "10parsecs", "500ms"]),
                                 (["-m", "h200x2", "--budget", "0s"], ["--budget", "0s"]),
                                 (["-m", "h200x2", "--clock", "sundial"], ["--clock", "sundial", "wall|cpu"]),
                                 (["-m", "h200x2", "--evaluations", "0"], ["--evaluations", "0"]),
                                 (["-m", "h200x2", "--units", "few"], ["--units", "few", "off"]),
                                 (["-m", "h200x2", "--tasks", "placement,cooking"], ["--tasks", "cooking"]),
                                 (["-m", "h200x2", "--objective", "fun"], ["--objective", "fun", "time|memory|throughput"]),
                                 (["-m", "h200x2", "--rule", "fi"], ["--rule", "fifo"]),
                                 (["-m", "h200x2", "--format", "yaml"], ["text|json|csv|markdown"]),
                                 (["-m", "h200x2", "-o", "-", "--trace", "-"], ["standard output"]),
                                 (["-m", "h200x2", "-b", "100ms", "-o", "no/such/folder/p.json"], ["no/such/folder"])):
            with self.subTest(arguments=arguments):
                self.fault("optimize", GRAPH, *arguments, says=words)
        self.fault("optimize", "-", "-m", "-", input=b"", says=["standard input", "once"])
        self.fault("optimize", "none.json", "-m", "h200x2", says=["none.json"])

    def test_standard_output_and_input(self):
        with open(GRAPH, "rb") as file:
            packed = file.read()
        plan = json.loads(self.done("optimize", "-", *self.QUICK, "-o", "-", input=packed))
        self.assertEqual((plan["format"], len(plan["device"])), ("plan", len(plan["group"])))
        self.assertIn("traceEvents", json.loads(self.done("optimize", GRAPH, *self.QUICK, "--trace", "-")))
        self.assertEqual(self.done("optimize", GRAPH, *self.QUICK, "--memory", "1MB", "-o", "-", status=1, stderr=None), "")

    def test_graph_without_ops(self):
        path = self.path("g.json", {"format": "opgraph", "version": 1, "name": "idle", "outputs": [0], "nodes": SMALL["nodes"][:2]})
        for arguments in (["optimize", path, "-m", "h200x2", "-b", "100ms"],
                          ["compare", path, path, "-m", "h200x2,h200x1", "-b", "100ms", "--methods", "single,spread"]):
            for form in ("text", "json", "csv", "markdown"):
                text = self.done(*arguments, "-f", form)
                self.assertNotRegex(text, r"\b-?(nan|inf)\b")


class Fusion(Case):
    """Fusion among the tasks: --tasks, --fusion and --from."""

    QUICK = ["-m", "h200x2", "--evaluations", "80", "--threads", "2"]
    RULES = ["none", "default", "reverse-post-order"]
    LISTS = {"placement": "device", "schedule": "priority", "fusion": "group"}

    def optimize(self, name, *arguments, graph=GRAPH, machine=None):
        path = self.path(name)
        self.done("optimize", graph, *(self.QUICK if machine is None else ["-m", machine, *self.QUICK[2:]]), *arguments, "-o", path)
        with open(path) as file:
            return path, json.load(file)

    def groups(self, plan):
        """How many ops are not in a group of their own."""
        alone = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "-o", "-"))["group"]
        return sum(a != b for a, b in zip(plan["group"], alone))

    def test_tasks_are_told_once(self):
        for tasks in (["placement"], ["schedule"], ["fusion"], ["placement", "schedule"], ["placement", "schedule", "fusion"]):
            _, plan = self.optimize("p.json", "--tasks", ",".join(reversed(tasks)))
            self.assertEqual(plan["tasks"], tasks)
            if "fusion" not in tasks:
                self.assertEqual(self.groups(plan), 0)
        self.assertGreater(self.groups(plan), 10)
        self.assertEqual(json.loads(self.done("optimize", GRAPH, *self.QUICK, "-f", "json"))["tasks"], tasks)

    def test_never_worse_than_without_and_than_the_rules(self):
        _, plan = self.optimize("p.json")
        for rule in self.RULES[:2]:
            report = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--tasks", "placement,schedule,fusion",
                                          "--fusion", rule, "--rule", "topological", "-f", "json"))
            self.assertLessEqual(plan["step_s"], report["step_s"])

    def test_a_rule(self):
        known = []
        for rule in self.RULES:
            _, plan = self.optimize("p.json", "--fusion", rule, "--tasks", "fusion")
            known.append(self.groups(plan))
            simulated = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--tasks", "fusion", "--fusion", rule,
                                             "-o", "-"))
            self.assertEqual((plan["device"], plan["group"]), (simulated["device"], simulated["group"]))
        self.assertEqual(known[0], 0)
        self.assertTrue(0 < known[1] <= known[2], known)
        for command in ("optimize", "compare", "simulate", "train"):
            self.fault(command, GRAPH, "-m", "h200x2", "--fusion", "greedy", says=["--fusion", "greedy", "reverse-post-order"])

    def test_from_keeps_what_is_no_task(self):
        path, given = self.optimize("given.json")
        for tasks in ("placement", "schedule", "fusion", "placement,schedule", "placement,fusion", "schedule,fusion"):
            with self.subTest(tasks=tasks):
                _, plan = self.optimize("p.json", "--tasks", tasks, "--from", path)
                for task, name in self.LISTS.items():
                    if task not in tasks:
                        self.assertEqual(plan[name], given[name], name)
                self.assertEqual((plan["candidates"][0]["method"], plan["candidates"][0]["step_s"]), ("given", given["step_s"]))
                self.assertLessEqual(plan["step_s"], given["step_s"])
        text = self.done("optimize", GRAPH, *self.QUICK, "--from", path)
        self.assertRegex(text, r"\n  default +[\d.]+ ms \(the plan that was given\)\n")

    def test_from_in_compare(self):
        path, given = self.optimize("given.json")
        best = self.path("best.json")
        row = json.loads(self.done("compare", GRAPH, *self.QUICK, "--tasks", "fusion", "--from", path, "--methods", "single,anneal,heft",
                                   "--best", best, "-f", "json"))[0]
        with open(best) as file:
            plan = json.load(file)
        self.assertEqual((plan["device"], plan["priority"], plan["tasks"]), (given["device"], given["priority"], ["fusion"]))
        self.assertEqual(plan["step_s"], min(method["step_s"] for method in row["methods"]))
        self.assertLessEqual(plan["step_s"], given["step_s"])
        self.assertEqual(json.loads(self.done("simulate", GRAPH, "-p", best, "-f", "json"))["step_s"], plan["step_s"])

    def test_from_faults(self):
        path, _ = self.optimize("given.json")
        spread = os.path.join(self.folder, "spread.json")
        self.done("simulate", GRAPH, "-m", "h200x2", "-p", "spread", "-o", spread)
        other = os.path.join(ROOT, "data", "graphs", "resnet50.json.gz")
        for command in (["optimize"], ["compare", "--methods", "single"]):
            call = [command[0], GRAPH, "--evaluations", "5", *command[1:]]
            self.fault(*call, "-m", "h200x2", "--from", "none.json", says=["none.json"])
            self.fault(*call, "-m", "h200x2", "--from", self.folder, says=["directory"])
            self.fault(*call, "-m", "h200x2", "--from", GRAPH, says=["unet"])
            self.fault(*call, "-m", "h200x2", "--from", self.path("m.json", self.done("machine", "h200x2")), says=["m.json"])
            self.fault(*call, "-m", "h200x2", "--from", self.path("cut.json", "{\"format\":\"plan\""), says=["cut.json"])
            self.fault(*call, "-m", "h200x1", "--from", spread, says=["spread.json"])  # its second device is not there
            self.fault(command[0], other, "--evaluations", "5", *command[1:], "-m", "h200x2", "--from", path, says=["given.json"])
        self.fault("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--from", path, says=["'--from'"])

    def test_best_is_for_one_table(self):
        self.fault("compare", GRAPH, GRAPH, "-m", "h200x2", "--methods", "single", "--best", "b.json", says=["--best"])
        self.fault("compare", GRAPH, "-m", "h200x2,h200x4", "--methods", "single", "--best", "b.json", says=["--best"])

    def test_best_that_cannot_be_written_costs_no_table(self):
        result = self.run_stowage("compare", GRAPH, "-m", "h200x2", "--methods", "single", "--best", "/dev/full")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn(b"single", result.stdout)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"/dev/full", result.stderr)

    def test_unlike_devices(self):
        path, plan = self.optimize("p.json", machine="cpu+h200x2")
        self.assertGreater(self.groups(plan), 10)
        self.assertEqual(json.loads(self.done("simulate", GRAPH, "-p", path, "-f", "json"))["step_s"], plan["step_s"])
        single = json.loads(self.done("simulate", GRAPH, "-m", "cpu+h200x2", "-p", "single", "-f", "json"))
        self.assertLess(plan["step_s"], single["step_s"])

    def test_repeats_on_any_number_of_threads(self):
        plans = []
        for threads in ("1", "2"):
            path = self.path(f"{threads}.json")
            self.done("compare", GRAPH, "-m", "h200x2", "--methods", "anneal", "--evaluations", "300", "--threads", threads, "--best", path)
            with open(path) as file:
                plans.append(json.load(file))
        self.assertEqual(plans[0], plans[1])
        self.assertGreater(self.groups(plans[0]), 10)

    def test_exact_says_when_there_is_too_much_to_try(self):
        chain = [node(k, "relu", [k - 1] if k > 0 else [], us={"h200": 5.0}) for k in range(15)]
        graph = self.path("chain.json", {"format": "opgraph", "version": 1, "name": "chain", "outputs": [14], "nodes": chain})
        row = json.loads(self.done("compare", graph, "-m", "h200x2", "--methods", "exact", "--evaluations", "100", "-f", "json", status=1,
                                   stderr=None))[0]
        self.assertIn("at most 12 ops", row["methods"][0]["reason"])


if __name__ == "__main__":
    sys.exit(program.main())
