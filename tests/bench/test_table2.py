"""bench/table2.py: runs, the store, the figures of the table, and that the committed table is what the script prints.

    python3 tests/bench/test_table2.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)
"""

import fcntl
import gzip
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import program  # noqa: E402
from program import ROOT, Case, node  # noqa: E402

SCRIPT = os.path.join(ROOT, "bench", "table2.py")
RESULTS = os.path.join(ROOT, "docs", "results")
DATA = os.path.join(ROOT, "data", "graphs")
WHAT = ["random", "expert", "metis", "constructive", "steer", "hdp", "go-one", "go-one-alone", "anneal"]
FIELDS = {"bench", "row", "devices", "machine", "what", "seed", "threads", "budget_s", "jobs", "step_s", "valid", "method", "search_s",
          "evaluations", "note", "found", "version", "commit", "date", "processor", "cores"}


def chains(width, length):
    """Some chains side by side, which meet at the end: enough to decide, little to compute."""
    nodes = [node(0, "input", [])]
    for _ in range(width):
        for step in range(length):
            nodes.append(node(len(nodes), "mul", [len(nodes) - 1 if step else 0], flops=256, us={"h200": 50.0}))
    ends = [length * (chain + 1) for chain in range(width)]
    nodes.append(node(len(nodes), "add", ends, flops=256, us={"h200": 5.0}))
    return {"format": "opgraph", "version": 1, "name": "chains", "outputs": [len(nodes) - 1], "nodes": nodes}


def record(row, what, seed, step_ms, found=(), **more):
    search = what in ("hdp", "go-one", "go-one-alone", "anneal")
    seconds = (600 if what == "hdp" else 60) if search else 20
    return {"bench": "table2", "row": row, "devices": int(row[-1]), "machine": f"h200x{row[-1]}", "what": what, "seed": seed,
            "threads": 1, "jobs": 1, "budget_s": seconds, "step_s": step_ms and step_ms / 1e3, "valid": step_ms is not None,
            "method": what, "search_s": seconds / 2, "evaluations": 1000, "note": "",
            "found": [[at, ms / 1e3] for at, ms in found], "version": "0.1.0", "commit": "abc", "date": "2026-11-15",
            "processor": "some", "cores": 4, **more}


class Bench(Case):
    def bench(self, *arguments, store="store.jsonl"):
        return subprocess.run([sys.executable, SCRIPT, "--bin", program.binary, "--store", store, *arguments], capture_output=True,
                              text=True, cwd=self.folder, timeout=program.LONGEST_S)

    def refused(self, *arguments, says=(), **more):
        """Exit status 2, no table, and a last line with these words."""
        result = self.bench(*arguments, **more)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result)
        self.assertTrue(result.stderr.endswith("\n"))
        for word in says:
            self.assertIn(word, result.stderr.splitlines()[-1])
        return result

    def store(self, *records, name="store.jsonl"):
        return self.path(name, "".join(json.dumps(one) + "\n" for one in records))

    def records(self, name="store.jsonl"):
        with open(self.path(name)) as file:
            return [json.loads(line) for line in file]

    def content(self, name="store.jsonl"):
        with open(self.path(name), "rb") as file:
            return file.read()

    def data(self):
        """A folder where all graphs of the table are small."""
        folder = self.path("data")
        os.makedirs(folder, exist_ok=True)
        for row in ("rnnlm-2", "rnnlm-4", "gnmt-4"):
            with open(os.path.join(folder, row + ".json.gz"), "wb") as file:
                file.write(gzip.compress(json.dumps(chains(4, 10)).encode()))
        return folder

    def table(self, *arguments, **more):
        result = self.bench("--table", "--format", "json", *arguments, **more)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)


class Committed(Bench):
    def test_tables_are_those_of_the_store(self):
        """Byte for byte, but for the day of printing."""
        for name, which in (("table2.md", "units"), ("table2-hdp-ops.md", "ops")):
            # bench/table2.py --table --hdp units|ops --hdp-limit 1.6 --format markdown --store docs/results/table2.jsonl.gz
            arguments = ["--table", "--hdp", which, "--hdp-limit", "1.6", "--format", "markdown"]
            printed = self.bench(*arguments, store=os.path.join(RESULTS, "table2.jsonl.gz"))
            self.assertEqual((printed.returncode, printed.stderr), (0, ""))
            with open(os.path.join(RESULTS, name)) as file:
                committed = file.read()
            today, = re.findall(r"(?m)^Printed on (\S+)\. 378 of 378 runs are present", printed.stdout)
            day, = re.findall(r"(?m)^Printed on (\S+)\. ", committed)
            self.assertEqual(printed.stdout.replace(f"Printed on {today}.", f"Printed on {day}."), committed)


class Usage(Bench):
    def test_bad_values(self):
        for arguments, says in ((["--rows", "rnnlm-3"], ["--rows", "rnnlm-3", "known: rnnlm-2, rnnlm-4"]),
                                (["--what", "hpd"], ["--what", "hpd"]), (["--hdp", "both"], ["--hdp"]),
                                (["--seeds", "1,x"], ["--seeds", "'x'"]), (["--seeds", "-1"], ["--seeds"]),
                                (["--seeds", "1,1"], ["'1' stands twice"]),
                                (["--budget-scale", "0"], ["--budget-scale"]), (["--hdp-limit", "many"], ["--hdp-limit"]),
                                (["--jobs", "0"], ["--jobs"]), (["--threads", "0"], ["--threads"]), (["--link", "wire"], ["--link"]),
                                (["--budget-scale", "10000", "--hdp-limit", "10000"], ["--budget-scale times --hdp-limit is 1e+08"]),
                                (["--deadline", "soon"], ["--deadline"])):
            self.refused(*arguments, says=says)
        self.assertEqual(os.listdir(self.folder), [])

    def test_files_are_checked_first(self):
        self.refused("--data", "nowhere", says=["nowhere/rnnlm-2.json.gz", "--data"])
        self.refused("--bin", "nothing", says=["there is no program nothing"])
        self.refused("--table", "-o", "no/such/table.md", says=["no/such"])
        self.refused("--table", says=["store.jsonl: No such file"])
        self.assertEqual(os.listdir(self.folder), [])

    def test_output_is_not_the_store(self):
        path = self.store(record("rnnlm-2", "expert", 1, 10))
        os.symlink(path, self.path("link"))
        os.link(path, self.path("twin"))
        before = self.content()
        for output in ("store.jsonl", "./store.jsonl", path, "link", "twin"):
            for more in (["--table"], ["--data", DATA]):
                self.refused(*more, "-o", output, says=["is the store"])
        self.assertEqual(self.content(), before)
        self.refused("-o", "./later", store="later", says=["is the store"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_full_output(self):
        self.store()
        self.refused("--table", "-o", "/dev/full", says=["/dev/full: cannot be written: No space left on device"])


class Store(Bench):
    GOOD = record("rnnlm-2", "expert", 1, 10)

    def test_bad_lines_are_refused(self):
        """With one line that says where and what; the file stays as it is."""
        self.path("text", "a line\nand another\n")
        self.store(self.GOOD, {"bench": "table2", "row": "rnnlm-2"}, self.GOOD, name="keys")
        self.store(record("rnnlm-2", "hdp", 1, 10, found=[(1, 10)], curve=[[1, 2, 3]]), self.GOOD, name="curve")
        self.store(record("rnnlm-2", "hdp", 1, 10, threads=-1), self.GOOD, name="range")
        self.store(dict(self.GOOD, row=["rnnlm-2"]), name="list")
        self.path("end", "my notes\nand more of them")
        self.path("no end", "my notes")
        self.path("json", '{"some": "object"}')
        self.path("half", '{"some": "obj')
        self.path("near", '{"bench": "table2", "rowing":')
        self.path("bad but whole", json.dumps(dict(self.GOOD, budget_s=-1)))
        for name, says in (("text", ["text: line 1: "]), ("end", ["end: line 1: "]), ("no end", ["no end: line 1: "]),
                           ("json", ["json: line 1: ", "bench is missing"]), ("half", ["half: line 1: "]), ("near", ["near: line 1: "]),
                           ("bad but whole", ["line 1: ", "range"]), ("keys", ["keys: line 2: ", "machine, what", "missing"]),
                           ("curve", ["line 1: ", "curve"]), ("range", ["line 1: threads: -1 is out of range"]),
                           ("list", ["line 1: row is not text"])):
            before = self.content(name)
            for more in (["--table"], ["--data", DATA]):
                result = self.refused(*more, store=name, says=says)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertEqual(self.content(name), before)

    def test_numbers_out_of_range(self):
        def hdp(found=(1, 0.01), curve=(0, 4, 0.5, 0.02, 0.01), **more):
            return {**record("rnnlm-2", "hdp", 1, 10, curve=[list(curve)]), "found": [list(found)], **more}
        self.store(hdp())
        self.assertEqual(self.table("--rows", "rnnlm-2", "--seeds", "1")["rows"][0]["what"]["hdp"]["runs"], 1)
        for bad in (hdp(found=(None, 0.01)), hdp(found=(-1, 0.01)), hdp(found=(1, 0)), hdp(found=(1, float("nan"))),
                    hdp(curve=(10**400, 4, 0.5, 0.02, 0.01)), hdp(curve=(0, -4, 0.5, 0.02, 0.01)), hdp(curve=(0, 4, None, 0.02, 0.01)),
                    hdp(curve=(0, 4, 0.5, 0.02, 9e307)), hdp(curve=(0, 4, 0.5, 0, 0.01)), hdp(evaluations=9 * 10**18), hdp(evaluations=-1),
                    hdp(budget_s=None), hdp(search_s=1e300), hdp(step_s=-0.01), hdp(step_s=None), hdp(valid=1), hdp(seed=True)):
            self.store(bad)
            self.refused("--table", says=["store.jsonl: line 1"])

    def test_broken_last_line(self):
        path = self.store(self.GOOD)
        with open(path, "a") as file:
            file.write(json.dumps(record("rnnlm-2", "expert", 2, 10))[:-40])
        before = self.content()
        result = self.bench("--table", "--rows", "rnnlm-2", "--format", "json")
        self.assertEqual((result.returncode, json.loads(result.stdout)["present"]), (0, 1))
        self.assertIn("the last line is not whole", result.stderr)
        self.assertEqual(self.content(), before)
        result = self.bench("--rows", "rnnlm-2", "--what", "random", "--seeds", "1", "--data", self.data())
        self.assertEqual(result.returncode, 0)
        self.assertEqual([one["what"] for one in self.records()], ["expert", "random"])

    def test_line_torn_anywhere(self):
        """The beginning that is looked for is that of the lines that are written."""
        arguments = ["--rows", "rnnlm-2", "--what", "random", "--seeds", "1", "--data", self.data()]
        self.assertEqual(self.bench(*arguments).returncode, 0)
        line = self.content()
        for length in (1, 12, 27, 29, 60, len(line) - 2):
            self.path("store.jsonl", line[:length])
            self.assertEqual(self.bench(*arguments).returncode, 0, line[:length])
            self.assertEqual([one["what"] for one in self.records()], ["random"])

    def test_last_line_without_an_end(self):
        self.path("store.jsonl", json.dumps(self.GOOD))
        self.assertEqual(self.bench("--rows", "rnnlm-2", "--what", "random", "--seeds", "1", "--data", self.data()).returncode, 0)
        self.assertEqual([one["what"] for one in self.records()], ["expert", "random"])

    def test_others_are_kept_but_not_counted(self):
        others = [dict(self.GOOD, bench="table9"), {"bench": "table9"}, {"seed": "x", "found": 7, "bench": "table9", "row": [1]},
                  dict(self.GOOD, row="resnet"), dict(self.GOOD, what="magic"), dict(self.GOOD, threads=2),
                  dict(self.GOOD, budget_s=5), dict(self.GOOD, machine="h200x2-pcie")]
        self.store(*others)
        self.assertEqual(self.table()["present"], 0)
        self.assertEqual(self.table("--link", "pcie")["present"], 1)
        self.assertEqual(self.table("--threads", "2")["present"], 1)
        self.assertEqual(self.table("--budget-scale", "0.25")["present"], 1)

    def test_packed_store_is_read_only(self):
        self.path("packed", gzip.compress((json.dumps(self.GOOD) + "\n").encode()))
        self.assertEqual(self.table(store="packed")["present"], 1)
        before = self.content("packed")
        self.refused("--data", DATA, store="packed", says=["packed store"])
        self.assertEqual(self.content("packed"), before)

    def test_one_writer(self):
        with open(self.store(self.GOOD)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.refused("--data", DATA, says=["store.jsonl", "another bench is at work"])
            self.assertEqual(self.table()["present"], 1)


class Table(Bench):
    def example(self):
        two, four = "rnnlm-2", "rnnlm-4"
        both = [record(row, what, seed, step) for seed in (1, 2)
                for row, what, step in ((two, "expert", 10), (two, "random", 20), (four, "expert", 20), (four, "metis", None))]
        return self.store(
            *both, record(two, "constructive", 1, 9, method="heft"),
            record(two, "hdp", 1, 8, [(10, 9), (100, 8)], curve=[[0, 4, 0.5, 0.02, 0.01], [9, 40, 5.0, None, 0.008]]),
            record(two, "hdp", 2, 12, [(90, 12)]),
            record(four, "hdp", 1, 16, [(40, 16)]), record(four, "hdp", 2, 16, [(40, 16)]),
            record(two, "go-one", 1, 4, [(1, 9), (2, 7), (5, 4)]), record(two, "go-one", 2, 6, [(3, 12), (9, 6)]),
            record(four, "go-one", 1, 16, [(10, 16)]), record(four, "go-one", 2, 16, [(40, 16)]),
            record(two, "go-one-alone", 1, 8, [(20, 8)]), record(two, "go-one-alone", 2, 8, [(30, 8)]),
            record(four, "go-one-alone", 1, 18, [(1, 18)]), record(four, "go-one-alone", 2, 18, [(1, 18)]),
            record(two, "expert", 1, 1))  # of equal runs the first counts

    ARGUMENTS = ["--seeds", "1,2", "--rows", "rnnlm-2,rnnlm-4"]

    def near(self, value, expected):
        self.assertTrue(math.isclose(value, expected, rel_tol=1e-12), (value, expected))

    def test_figures(self):
        self.example()
        table = self.table(*self.ARGUMENTS)
        self.assertEqual((table["runs"], table["present"]), (2 * 2 * 9, 21))
        self.assertEqual([place["runs"] for place in table["made"]], [21])
        two, four = table["rows"]
        hdp = two["what"]["hdp"]
        self.assertEqual((hdp["runs"], hdp["valid"]), (2, 2))
        for key, value in (("step_s", 0.010), ("low_s", 0.008), ("high_s", 0.012), ("search_s", 300)):
            self.near(hdp[key], value)
        self.assertEqual((hdp["converged"], "converged" in two["what"]["go-one"]), (2, False))
        self.assertEqual(four["what"]["metis"]["runs"], 2)
        self.assertEqual((four["what"]["metis"]["valid"], four["what"]["metis"]["step_s"]), (0, None))
        self.assertEqual((four["what"]["random"]["runs"], four["hdp_to_random"]["speedup"]), (0, None))
        self.near(two["hdp_to_random"]["speedup"], 2)
        self.assertEqual(two["what"]["constructive"]["method"], "heft")
        self.assertEqual(two["curve"], [[0, 4, 0.5, 0.02, 0.01], [9, 40, 5.0, None, 0.008]])
        for row, subject, reference, speedup in ((two, "go-one", "expert", 2), (two, "go-one", "hdp", 2), (four, "go-one", "expert", 1.25),
                                                 (four, "go-one", "hdp", 1), (two, "go-one-alone", "hdp", 1.25),
                                                 (four, "go-one-alone", "hdp", 16 / 18)):
            versus = row["versus"][subject][reference]
            self.near(versus["speedup"], speedup)
            self.assertAlmostEqual(versus["reduction"], 1 - 1 / speedup, 12)
            self.assertEqual(versus["seeds"], 2)
        mean = table["means"]["versus"]["go-one"]["expert"]
        self.near(mean["speedup"], math.sqrt(2 * 1.25))
        self.near(mean["reduction"], 1 - 1 / math.sqrt(2 * 1.25))
        self.assertEqual(mean["rows"], 2)

    def test_search_speedup(self):
        self.example()
        table = self.table(*self.ARGUMENTS)
        two, four = table["rows"]
        self.near(two["hdp_last_s"], 95)
        self.near(two["search"]["go-one"]["speedup"], math.sqrt(100 / 2 * 90 / 3))
        self.near(two["search"]["go-one"]["reach_s"], 2.5)
        self.near(four["search"]["go-one"]["speedup"], 2)
        self.near(table["means"]["search"]["go-one"]["speedup"], math.sqrt(math.sqrt(1500) * 2))
        self.assertEqual(four["search"]["go-one-alone"], {"speedup": 40 / 30, "pairs": 2, "reached": 0, "reach_s": None, "never": [1, 2]})
        alone = table["means"]["search"]["go-one-alone"]
        self.near(alone["speedup"], math.sqrt(math.sqrt(15) * 40 / 30))
        self.assertEqual([alone[key] for key in ("pairs", "reached", "rows")], [4, 2, 2])

    def test_seeds_are_paired(self):
        self.store(record("rnnlm-2", "hdp", 1, 10), record("rnnlm-2", "hdp", 2, 40), record("rnnlm-2", "hdp", 3, None),
                   record("rnnlm-2", "random", 1, 20), record("rnnlm-2", "random", 3, 1),
                   record("rnnlm-2", "go-one-alone", 1, 5), record("rnnlm-2", "go-one-alone", 3, 1), record("rnnlm-2", "go-one", 2, None))
        row, = self.table("--rows", "rnnlm-2")["rows"]
        versus = row["versus"]["go-one-alone"]["hdp"]
        self.assertEqual((versus["speedup"], versus["seeds"]), (2, 1))
        self.near(row["hdp_to_random"]["speedup"], 2)
        self.assertEqual(row["versus"]["go-one"]["hdp"], {"reduction": None, "speedup": None, "seeds": 0, "lost": 1})

    def test_the_other_hdp(self):
        """--hdp ops sets the table against the runs of the published HDP and leaves those of the other alone."""
        self.store(record("rnnlm-2", "hdp", 1, 10), record("rnnlm-2", "hdp-ops", 1, 20, budget_s=600, found=[(50, 20)]),
                   record("rnnlm-2", "random", 1, 25), record("rnnlm-2", "go-one-alone", 1, 5, found=[(2, 5)]))
        for which, key, step_s in (("units", "hdp", 0.01), ("ops", "hdp-ops", 0.02)):
            table = self.table("--rows", "rnnlm-2", "--seeds", "1", "--hdp", which)
            row, = table["rows"]
            self.assertEqual((table["hdp"], row["what"][key]["step_s"], table["present"]), (key, step_s, 3))
            self.assertEqual([name for name in row["what"] if name.startswith("hdp")], [key])
            self.near(row["versus"]["go-one-alone"]["hdp"]["speedup"], step_s / 0.005)
            self.near(row["hdp_to_random"]["speedup"], 0.025 / step_s)
        self.near(row["search"]["go-one-alone"]["speedup"], 25)

    def verdicts(self, *records, rows="rnnlm-2", seeds="1"):
        self.store(*records)
        return [goal["met"] for goal in self.table("--seeds", seeds, "--rows", rows)["goals"].values()]

    def test_goals(self):
        self.example()
        goals = self.table(*self.ARGUMENTS)["goals"]
        self.assertEqual({key: goal["met"] for key, goal in goals.items()},
                         {"go_one_alone_below_hdp": False, "search_speedup": False, "hdp_below_random": None})
        self.near(goals["go_one_alone_below_hdp"]["value"], 1 - 1 / math.sqrt(1.25 * 16 / 18))
        self.assertEqual(self.verdicts(record("rnnlm-2", "random", 1, 9), record("rnnlm-2", "hdp", 1, 9, [(30, 9)]),
                                       record("rnnlm-2", "go-one-alone", 1, 7, [(2, 9), (9, 7)])), [True, True, False])
        self.assertEqual([goal["met"] for goal in self.table()["goals"].values()], [None, None, False])

    def test_goals_need_every_seed(self):
        def runs(seed):
            return [record("rnnlm-2", "random", seed, 20), record("rnnlm-2", "hdp", seed, 9, [(30, 9)]),
                    record("rnnlm-2", "go-one-alone", seed, 5, [(1, 5)])]
        both = [*runs(1), *runs(2)]
        self.assertEqual(self.verdicts(*both, seeds="1,2"), [True, True, True])
        for missing, expected in ((3, [True, True, None]), (4, [None, None, None]), (5, [None, None, True])):
            self.assertEqual(self.verdicts(*both[:missing], *both[missing + 1:], seeds="1,2"), expected)
        self.assertEqual(self.verdicts(*both, seeds="1,2,3"), [None, None, None])
        self.assertEqual(self.verdicts(*both, seeds="1,2", rows="rnnlm-2,rnnlm-4"), [None, None, None])

    def test_goals_count_what_is_never_reached(self):
        """A search that never comes to HDP's plan lowers the mean instead of leaving it."""
        quick = [record("rnnlm-2", "hdp", 1, 9, [(30, 9)]), record("rnnlm-2", "go-one-alone", 1, 5, [(1, 5)])]
        never = [record("rnnlm-4", "hdp", 1, 9, [(30, 9)]), record("rnnlm-4", "go-one-alone", 1, 10, [(1, 10)], search_s=60)]
        self.assertEqual(self.verdicts(*quick)[1], True)
        self.assertEqual(self.verdicts(*quick, *never, rows="rnnlm-2,rnnlm-4")[1], False)
        table = self.table("--seeds", "1", "--rows", "rnnlm-2,rnnlm-4")
        self.near(table["goals"]["search_speedup"]["value"], math.sqrt(30 * 30 / 60))
        text = self.bench("--table", "--seeds", "1", "--rows", "rnnlm-2,rnnlm-4").stdout
        self.assertIn("The search speed-up is an upper bound: in 1 of the 2 pairs of runs go-one alone never", text)
        self.assertIn(" < 0.5 ", text)

    def test_goals_without_valid_plans(self):
        hdp, alone = record("rnnlm-2", "hdp", 1, 9, [(30, 9)]), record("rnnlm-2", "go-one-alone", 1, 5, [(1, 5)])
        random = record("rnnlm-2", "random", 1, 20)
        none = {what: record("rnnlm-2", what, 1, None) for what in ("hdp", "go-one-alone", "random")}
        self.assertEqual(self.verdicts(hdp, none["go-one-alone"], random), [False, False, True])
        self.assertEqual(self.verdicts(none["hdp"], alone, random), [None, None, False])
        self.assertEqual(self.verdicts(none["hdp"], alone), [None, None, False])
        self.assertEqual(self.verdicts(hdp, alone, none["random"]), [True, True, True])
        for step, met in ((9.4, True), (9.6, False)):
            self.assertEqual(self.verdicts(record("rnnlm-2", "random", 1, 10), record("rnnlm-2", "hdp", 1, step))[2], met)

    def test_hdp_ends(self):
        def hdp(seed, **more):
            return record("rnnlm-2", "hdp", seed, 9, [(30, 9)], **more)
        arguments = ["--rows", "rnnlm-2"]
        self.store(hdp(1, search_s=599.9), hdp(2, search_s=600.01), hdp(3, search_s=600.01, converged=True))
        self.assertEqual(self.table(*arguments)["rows"][0]["what"]["hdp"]["converged"], 2)
        text = self.bench("--table", *arguments).stdout
        self.assertIn(" 2 of 3\n", text)
        self.assertIn("1 of the 3 HDP runs were cut at their limit of time", text)
        self.store(hdp(1), hdp(2), hdp(3))
        self.assertIn("None of the 3 HDP runs was cut", self.bench("--table", *arguments).stdout)

    def test_paper(self):
        self.store()
        table = self.table()
        self.assertEqual((table["present"], len(table["rows"])), (0, 14))
        paper = table["means"]["paper"]
        self.assertEqual([round(100 * paper[key], 1) for key in ("reduction_to_human", "reduction_to_hdp")], [20.5, 19.7])
        self.assertEqual(round(paper["search_speedup"], 1), 16.0)

    def test_text(self):
        self.example()
        text = self.bench("--table", *self.ARGUMENTS).stdout
        for line in ("21 of 36 runs are present", "- 21 runs: 2026-11-15, some, 4 cores, 1 at a time, stowage 0.1.0, commit abc",
                     "go-one alone has a plan as good as HDP's last in 2 of 4 pairs of runs. 2 are in the means with an upper "
                     "bound: rnnlm-4 (seed 1 2; never).", "go-one's first plans are those of 60 constants for its list scheduler",
                     "Runs are missing: 15 of 36.", "P100", "rnnlm-2 on h200x2, seed 1:", "at most 0.95 of it"):
            self.assertIn(line, text)
        rows = [line.split("  ") for line in text.splitlines() if line.startswith("  rnnlm-2 ")]
        self.assertEqual([cell.strip() for cell in rows[0] if cell.strip()],
                         ["rnnlm-2", "10", "-", "10 (8 to 12)", "9 heft, 1 of 2", "-", "-", "5 (4 to 6)", "8"])
        for word in ("no plan", "NOT met", " open\n"):
            self.assertIn(word, text)

    def test_markdown_into_a_file(self):
        self.example()
        self.assertEqual(self.bench("--table", *self.ARGUMENTS, "-f", "markdown", "-o", "table.md").stdout, "")
        text = self.content("table.md").decode()
        head = "# GO's table 2 on h200xN\n\n`bench/table2.py --link nvlink --rows rnnlm-2,rnnlm-4 --seeds 1,2 "
        self.assertEqual(text[:len(head)], head)
        tables = [block for block in text.split("\n\n") if block.startswith("|")]
        self.assertEqual(len(tables), 7)
        for table in tables:
            self.assertEqual(len({line.count("|") for line in table.splitlines()}), 1, table)


class Runs(Bench):
    CHEAP = ["--rows", "rnnlm-2,gnmt-4", "--what", "random,expert,anneal", "--seeds", "1,2", "--budget-scale", "0.002"]

    def keys(self, name="store.jsonl"):
        return sorted((one["row"], one["machine"], one["what"], one["seed"], one["budget_s"]) for one in self.records(name))

    def test_quick(self):
        """Everything once on a real graph, with hardly any time; then nothing is left to do."""
        arguments = ["--quick", "--rows", "rnnlm-2", "--budget-scale", "0.03", "--commit", "1234abc", "-f", "json"]
        result = self.bench(*arguments)
        self.assertEqual(result.returncode, 0, result)
        table = json.loads(result.stdout)
        self.assertEqual((table["runs"], table["present"]), (9, 9))
        self.assertEqual({one["commit"] for one in table["made"]}, {"1234abc"})
        self.assertEqual(sorted(one["what"] for one in self.records()), sorted(WHAT))
        for one in self.records():
            self.assertEqual(set(one) - {"curve", "converged"}, FIELDS)
            self.assertEqual([key in one for key in ("curve", "converged")], [one["what"] == "hdp"] * 2)
            self.assertFalse(one.get("converged", False), one)  # hdp needs hundreds of updates to end of itself
            self.assertTrue(one["valid"], one)
            self.assertEqual(one["found"][-1][1], one["step_s"])
            self.assertEqual(one["budget_s"], {"hdp": 3.6, "go-one": 1.8, "go-one-alone": 1.8, "anneal": 1.8}.get(one["what"], 0.6))
        hdp = next(one for one in self.records() if one["what"] == "hdp")
        self.assertTrue(len(hdp["curve"]) <= 200 and all(len(row) == 5 for row in hdp["curve"]))
        self.assertEqual(hdp["curve"] == [], "before the first update" in hdp["note"], hdp["note"])  # a sanitizer is slow
        before = self.content()
        again = self.bench(*arguments)
        self.assertEqual((again.returncode, again.stdout), (0, result.stdout))
        self.assertEqual(self.content(), before)

    def test_runs_are_those_of_compare(self):
        """The same plan as the program finds when it is called by hand; of several methods the best counts."""
        self.assertEqual(self.bench("--rows", "rnnlm-2", "--seeds", "3", "--what", "random,constructive").returncode, 0)
        for one in self.records():
            methods = {"random": "random", "constructive": "single,expert,metis,etf,heft,sct,topo,spread"}[one["what"]]
            answer = json.loads(self.done("compare", os.path.join(DATA, "rnnlm-2.json.gz"), "-m", "0.1/h200x2", "--tasks", "placement,schedule",
                                          "--seed", "3", "--threads", "1", "--budget", "20s", "--methods", methods, "-f", "json"))
            best = min(answer[0]["methods"], key=lambda method: method["step_s"])
            self.assertEqual((one["step_s"], one["method"], one["note"]), (best["step_s"], best["method"], best["note"]))
            self.assertEqual(one["evaluations"], sum(method["evaluations"] for method in answer[0]["methods"]))
            steps = [step for _, step in one["found"]]
            self.assertEqual((steps, steps[-1]), (sorted(steps, reverse=True), best["step_s"]))

    def test_hdp_about_ops(self):
        arguments = ["--rows", "rnnlm-2", "--what", "hdp", "--seeds", "1", "--budget-scale", "0.005", "--data", self.data()]
        for which in ("units", "ops", "ops"):
            self.assertEqual(self.bench(*arguments, "--hdp", which).returncode, 0)
        self.assertEqual([one["what"] for one in self.records()], ["hdp", "hdp-ops"])
        for one in self.records():
            self.assertEqual((one["method"], one["valid"], "curve" in one), ("hdp", True, True))

    def test_resume_makes_no_run_twice(self):
        data = self.data()
        self.assertEqual(self.bench(*self.CHEAP, "--what", "random", "--data", data).returncode, 0)
        first = self.records()
        self.assertEqual(len(first), 4)
        self.assertEqual(self.bench(*self.CHEAP, "--data", data).returncode, 0)
        self.assertEqual(self.records()[:4], first)
        self.assertEqual((len(set(self.keys())), len(self.keys())), (12, 12))

    def test_jobs_make_the_same_runs(self):
        data = self.data()
        for jobs in ("1", "2", "20"):
            self.assertEqual(self.bench(*self.CHEAP, "--data", data, "--jobs", jobs, store=jobs).returncode, 0)
        self.assertEqual(self.keys("1"), self.keys("2"))
        self.assertEqual(self.keys("1"), self.keys("20"))
        same = [[(one["row"], one["seed"], one["step_s"]) for one in self.records(jobs) if one["what"] == "expert"] for jobs in ("1", "2")]
        self.assertEqual(sorted(same[0]), sorted(same[1]))

    def test_run_that_fails(self):
        data = self.data()
        with open(os.path.join(data, "rnnlm-2.json.gz"), "wb") as file:
            file.write(b"{")
        result = self.bench(*self.CHEAP, "--data", data, "-f", "json")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(json.loads(result.stdout)["present"], 6)
        failures = [line for line in result.stderr.splitlines() if ": exit 2 stowage: " in line]
        self.assertEqual(len(failures), 6)
        self.assertIn("rnnlm-2 on h200x2, random, seed 1: ", failures[0])
        self.assertIn("line 1", failures[0])

    def test_no_valid_plan_is_a_result(self):
        data = self.data()
        graph = chains(2, 2)
        graph["nodes"].insert(1, dict(node(1, "parameter", []), shape=[1 << 40], bytes=1 << 42))
        for index, one in enumerate(graph["nodes"]):
            one.update(id=index, inputs=[source + (source > 0) for source in one["inputs"]] if index > 1 else [])
        graph["outputs"] = [len(graph["nodes"]) - 1]
        graph["nodes"][-1]["inputs"].append(1)
        with open(os.path.join(data, "rnnlm-2.json.gz"), "wb") as file:
            file.write(gzip.compress(json.dumps(graph).encode()))
        result = self.bench("--rows", "rnnlm-2", "--what", "expert", "--seeds", "1", "--data", data)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("no valid plan", result.stderr)
        one, = self.records()
        self.assertEqual((one["valid"], one["step_s"], one["found"]), (False, None, []))
        self.assertIn("memory", one["note"])

    def test_deadline(self):
        result = self.bench("--rows", "rnnlm-2", "--deadline", "30", "--what", "random,go-one,hdp", "--seeds", "1", "--data", self.data())
        self.assertEqual(result.returncode, 0)
        self.assertEqual([one["what"] for one in self.records()], ["random"])
        self.assertIn("1 runs made, 0 failed, 2 still wait", result.stderr)

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupt_keeps_what_was_made(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            name = f"store{int(number)}"
            process = subprocess.Popen([sys.executable, SCRIPT, "--bin", program.binary, "--store", name, "--rows", "rnnlm-2", "--seeds",
                                        "1,2", "--what", "random,anneal", "--jobs", "2", "-f", "json"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, cwd=self.folder)
            children = []
            while process.poll() is None:
                time.sleep(0.02)
                with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
                    children = file.read().split()
                if os.path.exists(self.path(name)) and len(self.records(name)) == 2 and len(children) == 2:
                    break
            self.assertEqual(len(children), 2)
            process.send_signal(number)
            out, err = process.communicate(timeout=program.LONGEST_S)
            self.assertEqual(process.returncode, 130, err)
            self.assertEqual([one["what"] for one in self.records(name)], ["random", "random"])
            self.assertEqual(json.loads(out)["present"], 2)
            for child in children:
                self.assertFalse(os.path.exists(f"/proc/{child}"))


if __name__ == "__main__":
    sys.exit(program.main())
