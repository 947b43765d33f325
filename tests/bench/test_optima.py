"""bench/optima.py: the generated task graphs are what they were, CP-SAT's optima are what the simulator says of their plans, `exact` agrees, no
lower bound is above them, and the table says what the runs came to.

    python3 tests/bench/test_optima.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)
"""
import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
import program  # noqa: E402
from program import ROOT, Case  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "bench"))
import optima_cpsat  # noqa: E402
import optima_graphs  # noqa: E402


class Graphs(Case):
    def made(self, *sets):
        return [optima_graphs.make(name) for chosen in sets for name in optima_graphs.names_of(chosen)]

    def test_are_made_of_their_names_alone(self):
        self.assertEqual(sorted(optima_graphs.SETS.items()),
                         [("acceptance", 450), ("acceptance2", 450), ("acceptance3", 450), ("acceptance4", 450), ("acceptance5", 450),
                          ("acceptance6", 450), ("development", 198), ("trees", 120)])
        for sets, digest in [(("development", "acceptance"), "8ba6b9e02a26f33414959810588bcfc27db35a1aba401cdc8aab787ca481025b"),
                             (("acceptance2", "trees"), "521a99d5d0254e01c31aaeaaa3c6fba21fb943e8f3143eff4a32fac72e299084"),
                             (("acceptance3",), "212a624b3efdd902d2f5374e887c9dc100bdb88ef99ed2ea900038f4f579fa9e"),
                             (("acceptance4",), "9eb845faa2b6e4f178a9ba444b99c8b8ccc55ab740e01e61157efd16ce603f8e"),
                             (("acceptance5",), "d669eb4451889d640b1c66b7355bd6e24826fc26a6790d0ec060531d6b6862f0"),
                             (("acceptance6",), "80a561eaee75acfed16342576179df1d23aa27906da76869d515a8f0be7100f8")]:
            self.assertEqual(hashlib.sha256(json.dumps(self.made(*sets)).encode()).hexdigest(), digest)
        for instance in self.made(*optima_graphs.SETS):
            count = instance["tasks"]
            self.assertTrue(10 <= count <= 40 and len(instance["inputs"]) == len(instance["us"]) == len(instance["bytes"]) == count)
            self.assertTrue(all(read < task for task, reads in enumerate(instance["inputs"]) for read in reads), instance["name"])
        with self.assertRaises(ValueError):
            optima_graphs.make("development-198")


class Optima(Case):
    def known(self, chosen):
        known = optima_cpsat.read_store(optima_cpsat.STORE)
        return [known[name] for name in optima_graphs.names_of(chosen) if name in known]

    def test_plans_take_what_the_store_says(self):
        for record in self.known("development")[::7]:
            instance = optima_graphs.make(record["name"])
            plan = optima_cpsat.plan_of(instance, record["start"], record["device"])
            simulated = optima_cpsat.simulate(os.path.abspath(program.binary), instance, plan)
            order = sorted(range(instance["tasks"]), key=lambda t: record["start"][t])
            again = optima_cpsat.step_of(instance, optima_cpsat.starts_of(instance, order, record["device"]))
            self.assertAlmostEqual(simulated, again, places=6, msg=record["name"])
            self.assertLessEqual(record["bound_us"], simulated + 1e-6, record["name"])
            if optima_cpsat.is_closed(record):
                self.assertAlmostEqual(simulated, record["step_us"], places=6, msg=record["name"])

    def test_no_lower_bound_is_above_them(self):
        """A part of the instances; bench/bounds.py looks at all."""
        tight, records = 0, self.known("acceptance")[::3] + self.known("development")[::6]
        for record in records:
            graph, machine = optima_graphs.write(optima_graphs.make(record["name"]), pathlib.Path(self.folder))
            bound = json.loads(self.done("simulate", graph, "-m", machine, "--plan", "single", "--format", "json"))["lower_bound_s"] * 1e6
            self.assertLessEqual(bound, record["step_us"], record["name"])
            tight += bound >= record["step_us"] * (1.0 - 1e-9)
        self.assertGreater(tight, len(records) // 5)

    def test_exact_agrees_where_it_proves(self):
        proved = 0
        small = [r for r in self.known("development") if optima_graphs.make(r["name"])["tasks"] <= 14]
        for record in small[:12]:
            graph, machine = optima_graphs.write(optima_graphs.make(record["name"]), pathlib.Path(self.folder))
            row = json.loads(self.done("compare", graph, "-m", machine, "--methods", "exact", "--tasks", "placement,schedule", "--evaluations",
                                       "2000", "--format", "json"))[0]["methods"][0]
            if row["note"].startswith("proved optimal"):
                proved += 1
                self.assertLessEqual(record["bound_us"], row["step_s"] * 1e6 + 1e-6)
                self.assertGreaterEqual(record["step_us"], row["step_s"] * 1e6 - 1e-6)
        self.assertGreater(proved, 6)

    def bred_us(self, name, evaluations, seed):
        graph, machine = optima_graphs.write(optima_graphs.make(name), pathlib.Path(self.folder))
        row = json.loads(self.done("compare", graph, "-m", machine, "--methods", "breed", "--tasks", "placement,schedule", "--evaluations",
                                   str(evaluations), "--seed", str(seed), "--threads", "1", "--format", "json"))[0]["methods"][0]
        return row["step_s"] * 1e6

    def test_branches_of_trees_move_as_wholes(self):
        """Task by task, a branch whose transfers are dear never leaves: without this, four of these runs end 1.5 to 3.8 % above."""
        for name, best in [("trees-0", 365), ("trees-5", 327), ("trees-17", 394), ("trees-37", 372)]:
            for seed in 1, 2, 3, 4:
                self.assertLessEqual(self.bred_us(name, 15000, seed), best * 1.01, f"{name}, seed {seed}")

    def test_around_a_hub_tasks_move_one_by_one(self):
        """What surrounds it as one branch: then all of these runs end 0.3 to 0.7 % above."""
        known = optima_cpsat.read_store(optima_cpsat.STORE)
        for name in "development-74", "development-110":
            self.assertTrue(optima_cpsat.is_closed(known[name]))
            for seed in 1, 2, 3:
                self.assertLessEqual(self.bred_us(name, 20000, seed), known[name]["step_us"] * 1.002, f"{name}, seed {seed}")

    def test_devices_exchange_stretches(self):
        """Without these, and without the ends of devices in what is compared, these runs end 1 to 3 us above."""
        for name, best in [("acceptance2-283", 326), ("acceptance2-194", 438)]:
            for seed in 1, 2, 3:
                self.assertLessEqual(self.bred_us(name, 20000, seed), best, f"{name}, seed {seed}")

    def test_stars_are_known(self):
        ends = {"fork": lambda count: (0, None), "join": lambda count: (None, count - 1), "fork-join": lambda count: (0, count - 1)}
        for name in optima_graphs.names_of("development"):
            instance = optima_graphs.make(name)
            self.assertEqual(optima_cpsat.star_of(instance), ends.get(instance["kind"], lambda count: None)(instance["tasks"]), name)

    @unittest.skipUnless(importlib.util.find_spec("ortools"), "the package ortools is not there")
    def test_cp_sat_says_the_same_again(self):
        closed = [r for r in self.known("development") if optima_cpsat.is_closed(r)]
        stars = [r for r in closed if optima_cpsat.star_of(optima_graphs.make(r["name"]))]
        quick = [r for r in closed if r["took_s"] < 0.1]
        for record in stars[::3] + quick[:5]:
            instance = optima_graphs.make(record["name"])
            (start, device), bound, _ = optima_cpsat.solve(instance, 10.0)
            self.assertEqual((optima_cpsat.step_of(instance, start), bound), (record["step_us"], record["bound_us"]), record["name"])

    @unittest.skipUnless(importlib.util.find_spec("ortools"), "the package ortools is not there")
    def test_several_are_solved_side_by_side_and_not_again(self):
        store = pathlib.Path(self.folder, "optima.jsonl.gz")
        names = ["development-0", "development-2", "development-5"]
        command = [sys.executable, os.path.join(ROOT, "bench", "optima_cpsat.py"), "--only", ",".join(names), "--jobs", "2", "--limit", "2",
                   "--store", str(store), "--bin", os.path.abspath(program.binary), "--minutes", "5"]
        first = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(first.returncode, 0, first.stderr)
        known = optima_cpsat.read_store(store)
        self.assertEqual(sorted(known), names)
        kept = {record["name"]: record for record in self.known("development")}
        for name in names:
            self.assertLessEqual(known[name]["bound_us"], kept[name]["step_us"])
            self.assertGreaterEqual(known[name]["step_us"], kept[name]["bound_us"])
        before = store.read_bytes()
        second = subprocess.run(command, capture_output=True, text=True)
        self.assertNotIn("us in", second.stderr)  # closed, or had as much time
        self.assertEqual(before, store.read_bytes())


class Table(Case):
    def bench(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(ROOT, "bench", "optima.py"), *arguments], capture_output=True, text=True,
                              cwd=self.folder)

    def test_says_what_the_runs_came_to(self):
        optima = {f"development-{k}": dict(name=f"development-{k}", step_us=100, bound_us=100 if k < 3 else 90, limit=1, took_s=1, start=[],
                                           device=[]) for k in range(5)}
        optima_cpsat.write_store(pathlib.Path(self.folder, "optima.jsonl.gz"), optima)
        runs = [dict(bench="optima", name=f"development-{k}", label="now", budget="1s", step_us=step, method="breed", optimal=k == 0)
                for k, step in enumerate([100, 100, 102, 99, 101])]
        pathlib.Path(self.folder, "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
        result = self.bench("table", "--store", "runs.jsonl", "--optima", "optima.jsonl.gz", "--format", "markdown", "--misses")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in result.stdout.splitlines() if line.startswith("| all")]
        self.assertEqual(rows, [["all", "3", "2", "66.7 %", "0.667 %", "2.00 %", "1"], ["all", "2", "1", "0", "1", "1.00 %", "12.22 %", "0"]])
        self.assertEqual(result.stdout.count("by CP-SAT\n"), 2)  # those above what is known

    def test_a_step_below_the_optimum_is_an_error(self):
        optima_cpsat.write_store(pathlib.Path(self.folder, "optima.jsonl.gz"), {"development-0": dict(name="development-0", step_us=100, bound_us=100)})
        pathlib.Path(self.folder, "runs.jsonl").write_text(json.dumps(dict(bench="optima", name="development-0", label="now", budget="1s", step_us=99,
                                                              method="breed", optimal=False)) + "\n")
        result = self.bench("table", "--store", "runs.jsonl", "--optima", "optima.jsonl.gz")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("less than CP-SAT's optimum", result.stderr)

    def test_runs_are_kept_and_not_made_again(self):
        done = self.bench("run", "--store", "runs.jsonl", "--bin", os.path.abspath(program.binary), "--budget", "1ms", "--only", "development-5,development-10")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = pathlib.Path(self.folder, "runs.jsonl").read_text().splitlines()
        self.assertEqual({json.loads(line)["name"] for line in lines}, {"development-5", "development-10"})
        self.bench("run", "--store", "runs.jsonl", "--bin", os.path.abspath(program.binary), "--budget", "1ms", "--only", "development-5,development-10")
        self.assertEqual(pathlib.Path(self.folder, "runs.jsonl").read_text().splitlines(), lines)


if __name__ == "__main__":
    sys.exit(program.main())
