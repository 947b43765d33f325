"""stowage train: on one problem, and pre-training on many.

    python3 tests/cli/test_train.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import csv
import gzip
import io
import json
import os
import signal
import sys
import unittest

import program
from program import GRAPH, HEAD_KEYS, ROOT, SLOW, Case, unwrapped, without_times

TRAINING_KEYS = [*(key for key in HEAD_KEYS[:-1] if key not in ("noise", "optimal", "limits")), "preset", "updates", "evaluations", "search_s",
                 "interrupted", "note", "policy", "curve", "best"]
CURVE_KEYS = ["update", "evaluations", "round", "seconds", "greedy", "mean", "best", "valid", "entropy", "sigma", "rate",
              "gradient_norm", "clipped", "loss", "spread"]


class Train(Case):
    QUICK = ["-m", "h200x2", "--units", "24", "--initial-plans", "no"]

    def curve(self, path):
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    def bytes_of(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_text(self):
        text = self.done("train", GRAPH, *self.QUICK, "--updates", "3", "-o", "p.stw", "--curve", "c.csv", "--best", "b.json")
        for word in ("unet on h200x2", "objective time", "preset       default", "updates      3", "course", "without an initial plan",
                     "step time", "lower bound", "p.stw", "c.csv", "b.json", "* plan of the policy", "- best plan so far"):
            self.assertIn(word, text)
        self.assertFalse([line for line in text.splitlines() if line != line.rstrip() or len(line) > 100])
        plot = [line for line in text.splitlines() if " |" in line]
        self.assertEqual(len(plot), 12)
        self.assertEqual([bool(line.split("|")[0].strip()) for line in plot], [k in (0, 6, 11) for k in range(12)])
        self.assertTrue(all(any(len(line) > c + 16 and line[c + 16] != " " for line in plot) for c in range(60)), text)
        self.assertEqual(sorted(os.listdir(self.folder)), ["b.json", "c.csv", "p.stw"])

    def test_json_and_files_agree(self):
        report = json.loads(self.done("train", GRAPH, *self.QUICK, "--updates", "3", "-o", "p.stw", "--curve", "c.csv", "--best",
                                      "b.json", "--seed", "5", "-f", "json"))
        self.assertEqual(list(report), TRAINING_KEYS)
        self.assertEqual((report["format"], report["method"], report["valid"], report["seed"]), ("training", "go-one", True, 5))
        self.assertEqual((report["preset"], report["updates"], report["interrupted"]), ("default", 3, False))
        self.assertEqual((report["policy"], report["curve"], report["best"]), ("p.stw", "c.csv", "b.json"))
        rows = self.curve(self.path("c.csv"))
        self.assertEqual(list(rows[0]), CURVE_KEYS)
        self.assertEqual([row["update"] for row in rows], ["0", "1", "2"])
        self.assertEqual(float(rows[-1]["best"]), report["value"])
        self.assertEqual(min(float(row["best"]) for row in rows), report["value"])
        plan = json.loads(self.done("simulate", GRAPH, "-p", "b.json", "-f", "json"))
        self.assertEqual((plan["step_s"], plan["peak_bytes"], plan["valid"]), (report["step_s"], report["peak_bytes"], True))
        self.assertGreaterEqual(report["step_s"], report["lower_bound_s"])

    def test_inspect(self):
        self.done("train", GRAPH, *self.QUICK, "--updates", "3", "-o", "p.stw")
        text = self.done("inspect", "p.stw")
        for word in ("policy of", "parameters", "placement: steer, schedule: nudge", "3 updates", "feature_version", "best step time",
                     "parameter/head.steer.weight", "f32", "of Adam's moments"):
            self.assertIn(word, text)
        report = json.loads(self.done("inspect", "p.stw", "-f", "json"))
        self.assertEqual(list(report), ["format", "version", "bytes", "parameters", "placement_head", "schedule_head", "dimensions",
                                        "training", "pretraining", "tensors"])
        self.assertEqual((report["format"], report["version"], report["bytes"]), ("policy", 1, os.path.getsize(self.path("p.stw"))))
        self.assertEqual(report["parameters"], sum(t["rows"] * t["columns"] for t in report["tensors"]
                                                   if t["name"].startswith("parameter/")))
        self.assertEqual((report["training"]["updates"], report["dimensions"]["heads"]), (3, 4))
        self.assertEqual(report["training"]["fingerprint"], json.loads(self.done("inspect", GRAPH, "-f", "json"))["fingerprint"])
        packed = self.path("p.stw.gz", gzip.compress(self.bytes_of(self.path("p.stw"))))
        self.assertEqual(dict(json.loads(self.done("inspect", packed, "-f", "json"))), report)
        content = self.bytes_of(self.path("p.stw"))
        for damaged in (content[:-1], content[:len(content) // 2], content[:8], content[:20] + b"x" + content[21:], content + b"x"):
            self.fault("inspect", self.path("d.stw", damaged), says=["d.stw"])

    def test_inspect_the_shipped_policy(self):
        shipped = os.path.join(ROOT, "data", "policy", "default.stw")
        self.assertRegex(unwrapped(self.done("inspect", shipped)),
                         r"on many graphs: [\d,]+ of [\d,]+ updates of \d+ problems, [\d,]+ evaluations")
        report = json.loads(self.done("inspect", shipped, "-f", "json"))
        self.assertEqual((report["training"], report["dimensions"]["identities"]), (None, 0))
        self.assertEqual(list(report["pretraining"]), ["updates", "all_updates", "problems", "evaluations", "seed", "schedules"])
        self.assertLessEqual(1, report["pretraining"]["updates"])

    def test_standard_output(self):
        out = self.done("train", GRAPH, *self.QUICK, "--updates", "2", "-o", "p.stw", "--curve", "-")
        self.assertEqual([row["update"] for row in csv.DictReader(io.StringIO(out))], ["0", "1"])
        plan = json.loads(self.done("train", GRAPH, *self.QUICK, "--updates", "2", "-o", "p.stw", "--best", "-"))
        self.assertEqual((plan["format"], plan["method"]), ("plan", "go-one"))

    def test_budget(self):
        self.done("train", GRAPH, *self.QUICK, "--budget", "1s", "-o", "p.stw", "--curve", "c.csv")
        self.assertGreater(len(self.curve(self.path("c.csv"))), 0)
        self.fault("train", GRAPH, *self.QUICK, "-o", "p.stw", "--resume", says=["--resume needs --updates"])

    def test_wrong_usage(self):
        quick = [GRAPH, *self.QUICK, "--updates", "2"]
        for arguments, words in (([], ["-o FILE"]), (["-o", "-"], ["standard output"]), (["-o", "nowhere/p.stw"], ["nowhere/p.stw"]),
                                 (["-o", "p.stw", "--curve", "nowhere/c.csv"], ["nowhere/c.csv"]),
                                 (["-o", "p.stw", "--curve", "-", "--best", "-"], ["--curve", "--best"]),
                                 (["-o", "p.stw", "--preset", "big"], ["--preset", "big", "default|paper"]),
                                 (["-o", "p.stw", "--learning-rate", "x"], ["--learning-rate", "'x'"]),
                                 (["-o", "p.stw", "--learning-rate", "-1"], ["--learning-rate", "'-1'"]),
                                 (["-o", "p.stw", "--reward", "cubic"], ["--reward", "log|sqrt"]),
                                 (["-o", "p.stw", "--updates", "0"], ["--updates"]),
                                 (["-o", "p.stw", "--evaluations", "9"], ["'--evaluations'"]),
                                 (["-o", "p.stw", "--resume=yes"], ["--resume takes no value"]),
                                 (["-o", "p.stw", "--resume"], ["p.stw"])):
            with self.subTest(arguments=arguments):
                self.fault("train", *quick, *arguments, says=words)
        self.fault("train", "-m", "h200x2", "-o", "p.stw", says=["train needs a graph", "--corpus"])
        self.fault("train", GRAPH, "-m", "h200x2", "-o", "p.stw", "--tasks", "schedule", "--rule", "fifo", "--updates", "2",
                   says=["nothing to decide"])
        self.assertEqual(os.listdir(self.folder), [])

    def test_resume_with_something_else(self):
        options = ["--updates", "2", "-o", "p.stw", "--resume"]
        self.done("train", GRAPH, *self.QUICK, *options[:-1])
        content = self.bytes_of(self.path("p.stw"))
        self.fault("train", SLOW, *self.QUICK, *options, says=["p.stw", "another graph"])
        self.fault("train", GRAPH, *self.QUICK, *options, "--seed", "2", says=["p.stw", "cannot be resumed: the seed was 1, is 2"])
        self.fault("train", GRAPH, *self.QUICK, *options, "--updates", "4", says=["p.stw", "the number of updates was 2, is 4"])
        self.fault("train", GRAPH, *self.QUICK, *options, "-m", "h200x4", says=["p.stw", "cannot be resumed", "another machine"])
        self.fault("train", GRAPH, *self.QUICK, *options, "--curve", self.path("c.csv", "a,b\n1,2\n"), says=["c.csv"])
        self.assertEqual(self.bytes_of(self.path("p.stw")), content)
        self.path("p.stw", content[:-9] + b"x" + content[-8:])
        self.fault("train", GRAPH, *self.QUICK, *options, says=["p.stw", "checksum"])
        self.path("p.stw", b"{}")
        self.fault("train", GRAPH, *self.QUICK, *options, says=["p.stw", "not a policy file"])

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupt_and_resume(self):
        updates = "100000"  # more than there is time for
        arguments = ["train", GRAPH, *self.QUICK, "--updates", updates, "--threads", "1", "--format", "json"]
        status, out = self.interrupted_when("update [1-9]", signal.SIGINT, *arguments, "-o", "p.stw", "--curve", "c.csv", "--best", "b.json")
        self.assertEqual(status, 130)
        done = json.loads(out)["updates"]
        self.assertTrue(0 < done < int(updates), done)
        self.assertTrue(json.loads(out)["interrupted"])
        rows = self.curve(self.path("c.csv"))
        self.assertEqual(len(rows), done)
        self.assertEqual(sorted(os.listdir(self.folder)), ["b.json", "c.csv", "p.stw"])
        with open(self.path("c.csv"), "a") as file:  # a row of an update that the policy does not have
            file.write(",".join([str(done + 5), *["1"] * 14]) + "\n")
        later = f"update ({'|'.join(str(done + k) for k in range(1, 100))})  "
        status, out = self.interrupted_when(later, signal.SIGTERM, *arguments, "-o", "p.stw", "--curve", "c.csv", "--resume")
        self.assertEqual(status, 130)
        more = self.curve(self.path("c.csv"))
        self.assertEqual([int(row["update"]) for row in more], list(range(json.loads(out)["updates"])))
        self.assertEqual(more[:done], rows)
        self.assertGreater(len(more), done)


class TrainProposals(Case):
    """`train --corpus --learn proposals`, and searches that go by what comes out."""

    def content(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_proposals(self):
        """--learn proposals: the file that comes out is what anneal goes by; threads change nothing; what it is not for is refused."""
        learn = ["train", "--corpus", "wavenet", "--learn", "proposals", "--problems", "3", "-o"]
        text = self.done(*learn, "s.stw", "--updates", "2", "--threads", "1")
        self.assertRegex(text, r"^update 1: [\d,]+ moves of 3 problems, [\d.]+ % helped; loss [\d.]+; \d+ s\n"
                               r"update 2: .*; the scorer before ranks them with AUC [\d.]+ \(worst [\d.]+\); \d+ s\n$")
        rows = [json.loads(line) for line in self.done(*learn, "t.stw", "--updates", "2", "--threads", "2", "-f", "json").splitlines()]
        self.assertEqual([row["update"] for row in rows], [0, 1])
        self.assertEqual(("auc" in rows[0], "auc" in rows[1]), (False, True))
        self.assertEqual(self.content("s.stw"), self.content("t.stw"))
        self.assertIn("scorer of moves", self.done("inspect", "s.stw"))
        self.assertEqual(json.loads(self.done("inspect", "s.stw", "-f", "json"))["format"], "scorer")
        with open(self.path("s.stw"), "rb") as file:
            self.assertIn("scorer of moves", self.done("inspect", "-", stdin=file))
        self.done(*learn, "u.stw", "--updates", "1", "--learning-rate", "0")
        search = ["compare", GRAPH, "-m", "h200x2", "--methods", "anneal", "--evaluations", "300", "-f", "json"]
        steps = [json.loads(self.done(*search, *more))[0]["methods"][0]["found"][-1][1:] for more in
                 (["--proposals", "s.stw"], ["--proposals", "s.stw", "--threads", "3"], ["--proposals", "u.stw"], ["--policy", "none"],
                  ["--proposals", "none"], [])]
        self.assertEqual(steps[0], steps[1])
        self.assertEqual(steps[3], steps[4])
        dry = self.done("optimize", GRAPH, "-m", "h200x2", "--proposals", "s.stw", "--dry-run")
        self.assertIn("s.stw (scorer)", dry)
        self.fault("optimize", GRAPH, "-m", "h200x2", "--proposals", "s.stw", "-o", "s.stw", says=["s.stw", "overwrite"])
        self.assertEqual(len({tuple(step) for step in (steps[0], steps[2], steps[3], steps[5])}), 4)
        for more, words in ((["--updates", "0"], ["--updates"]), ([], ["--learn proposals needs --updates"]),
                            (["--updates", "1", "--resume"], ["--resume does not go with --learn proposals"]),
                            (["--updates", "1", "--curve", "c.csv"], ["--curve"]), (["--updates", "1", "g.json"], ["--corpus all,g.json"])):
            with self.subTest(more=more):
                self.fault(*learn, "v.stw", *more, says=words)
        self.fault("train", "--corpus", "wavenet", "--learn", "moves", "-o", "v.stw", says=["policy|proposals"])
        self.fault("train", GRAPH, *Train.QUICK, "--learn", "proposals", "-o", "v.stw", says=["--learn goes with --corpus"])
        self.assertFalse(os.path.exists(self.path("v.stw")))

    def test_proposals_that_do_not_serve(self):
        """They are refused before anything is searched, in `optimize --dry-run` too."""
        self.done("train", GRAPH, *Train.QUICK, "--updates", "1", "-o", "one.stw")
        shipped = self.content(os.path.join(ROOT, "data", "policy", "proposals.stw"))
        self.path("damaged.stw", shipped[:-9] + b"x" + shipped[-8:])
        for command in (["optimize", GRAPH], ["compare", GRAPH, "--methods", "anneal"], ["optimize", GRAPH, "--dry-run"]):
            for file, words in (("one.stw", ["one.stw", "does not state move_features_version"]), ("damaged.stw", ["damaged.stw", "checksum"]),
                                ("nowhere.stw", ["nowhere.stw"])):
                with self.subTest(command=command, file=file):
                    self.fault(*command, "-m", "h200x2", "--evaluations", "20", "--proposals", file, says=words)


class TrainMany(Case):
    """`train --corpus`. The graphs are small files: what shows how good the policy is (16 problems) takes seconds else."""
    NETWORK = "width=16,heads=2,inner=32,sage_layers=1,attention_layers=1,operator_width=4,pair_width=8"
    CURVE_KEYS = ["update", "evaluations", "seconds", "difficulty", "greedy", "best", "mean", "spread", "rate", "sigma",
                  "gradient_norm", "clipped", "validation_greedy", "validation_best", "validation_constants",
                  "validation_moves"]
    KEYS = ["policy", "updates", "processes", "seconds", "updates_per_s", "bytes_sent", "unseen_greedy", "unseen_best",
            "unseen_constants", "unseen_moves"]

    def setUp(self):
        super().setUp()
        self.done("generate", "layered", "--layers", "1", "--steps", "3", "-o", "layered.json")
        self.done("generate", "rnnlm", "--layers", "1", "--steps", "2", "-o", "rnnlm.json")
        self.made = sorted(os.listdir(self.folder))

    def command(self, *more, updates=2, corpus="layered.json,rnnlm.json"):
        return ["train", "--corpus", corpus, "--updates", str(updates), "--problems", "2", "--network", self.NETWORK, *more]

    def content(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def curve(self, name):
        with open(self.path(name), newline="") as file:
            return list(csv.DictReader(file))

    def test_text(self):
        text = self.done(*self.command("-o", "p.stw"))
        self.assertRegex(text, r"^p\.stw: 2 updates of 2 problems in [\d.]+ s \([\d.]+ a second, 1 process\)\n"
                               r"on 16 problems that it has not seen, over the best plan of other methods: one plan [\d.]+, the best of "
                               r"\d+ [\d.]+, ten with moves [\d.]+; without a policy, the best of 60 constants [\d.]+\n$")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted([*self.made, "p.stw"]))

    def test_json_and_files_agree(self):
        report = json.loads(self.done(*self.command("-o", "p.stw", "--curve", "c.csv", "--seed", "5", "-f", "json", updates=3)))
        self.assertEqual(list(report), self.KEYS)
        self.assertEqual((report["policy"], report["updates"], report["processes"], report["bytes_sent"]), ("p.stw", 3, 1, 0))
        self.assertTrue(0 < report["unseen_best"] <= 1 and report["unseen_best"] <= report["unseen_greedy"], report)
        self.assertTrue(0 < report["unseen_constants"] <= 1, report)
        rows = self.curve("c.csv")
        self.assertEqual(list(rows[0]), self.CURVE_KEYS)
        self.assertEqual([row["update"] for row in rows], ["0", "1", "2"])
        self.assertEqual([row["validation_greedy"] != "" for row in rows], [True, False, False])
        for row in rows:
            self.assertTrue(0 < float(row["best"]) <= float(row["greedy"]) and float(row["best"]) <= 1.0, row)
            self.assertTrue(0 <= float(row["difficulty"]) <= 1 and float(row["rate"]) > 0 and float(row["gradient_norm"]) > 0, row)
        head = json.loads(self.done("inspect", "p.stw", "-f", "json"))
        self.assertEqual((head["training"], head["dimensions"]["identities"], head["dimensions"]["width"]), (None, 0, 16))
        trained = head["pretraining"]
        self.assertEqual((trained["updates"], trained["all_updates"], trained["problems"], trained["seed"]), (3, 3, 2, 5))
        self.assertEqual(trained["evaluations"], int(rows[-1]["evaluations"]))
        out = self.done(*self.command("-o", "q.stw", "--curve", "-", "--seed", "5", "--threads", "2", updates=3))
        self.assertEqual([row["greedy"] for row in csv.DictReader(io.StringIO(out))], [row["greedy"] for row in rows])
        self.assertEqual(self.content("q.stw"), self.content("p.stw"))

    def test_wrong_usage(self):
        output = ["-o", "p.stw"]
        for more, words in (([], ["-o FILE"]), (["-o", "-"], ["standard output"]), (["-o", "nowhere/p.stw"], ["nowhere/p.stw"]),
                            (["-o", "layered.json/p.stw"], ["layered.json/p.stw"]),
                            ([*output, "--curve", "nowhere/c.csv"], ["nowhere/c.csv"]),
                            ([*output, "--problems", "0"], ["--problems", "'0'"]),
                            ([*output, "--problems", "x"], ["--problems", "'x'"]),
                            ([*output, "--network", "depth=3"], ["--network", "'depth'", "width"]),
                            ([*output, "--network", "width"], ["--network", "'width'", "KEY=N"]),
                            ([*output, "--network", "width=x"], ["--network", "'x'", "width"]),
                            ([*output, "--network", "width=0"], ["width"]),
                            ([*output, "--network", "heads=3"], ["heads"]),
                            ([*output, "--sum", "quick"], ["--sum", "ordered|fast"]),
                            ([*output, "--hold-out", "no-family"], ["no-family", "rnnlm"]),
                            ([*output, "--hold-out", "layered,rnnlm"], ["held out"]),
                            ([*output, "--machine", "h200x2"], ["--machine", "without --corpus"]),
                            ([*output, "--best", "b.json"], ["--best", "without --corpus"]),
                            ([*output, "--tasks", "placement"], ["--tasks", "--preset paper"]),
                            ([*output, "--units", "off"], ["--units", "--preset paper"]),
                            ([*output, "--preset", "paper", "--warm-start", "yes"], ["--warm-start", "without --corpus"]),
                            ([*output, "--preset", "gdp", "--network", "drafts=2"], ["bare network"]),
                            ([*output, "--resume"], ["p.stw"]),
                            ([*output, "g.json"], ["--corpus all,g.json"])):
            with self.subTest(more=more):
                self.fault(*self.command(*more), says=words)
        self.fault(*self.command(*output, corpus="no-family"), says=["no-family", "rnnlm"])
        self.fault(*self.command(*output, corpus="nowhere.json"), says=["nowhere.json"])
        self.fault(*self.command(*output, corpus=self.path("broken.json", "{")), says=["broken.json"])
        self.fault("train", "--corpus", "layered.json", "-o", "p.stw", "--resume", says=["--resume needs --updates"])
        os.unlink(self.path("broken.json"))
        self.assertEqual(sorted(os.listdir(self.folder)), self.made)

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_folder_that_is_not_writable(self):
        os.mkdir(self.path("closed"), 0o500)
        self.fault(*self.command("-o", "closed/p.stw"), says=["closed/p.stw"])

    def test_budget(self):
        report = json.loads(self.done("train", "--corpus", "layered.json", "--problems", "2", "--network", self.NETWORK, "-o", "p.stw",
                                      "--budget", "100ms", "-f", "json"))
        self.assertTrue(report["updates"] > 0 and report["updates"] % 24 == 0, report)
        self.fault(*self.command("-o", "p.stw", "--resume", updates=report["updates"]),
                   says=["p.stw", "a run with --budget cannot be resumed"])

    def test_resume_with_something_else(self):
        self.done(*self.command("-o", "p.stw"))
        content = self.content("p.stw")
        again = ["-o", "p.stw", "--resume"]
        self.fault(*self.command(*again, "--seed", "2"), says=["p.stw", "cannot be resumed: the seed was 1, is 2"])
        self.fault(*self.command(*again, updates=4), says=["p.stw", "the number of updates was 2, is 4"])
        self.fault(*self.command(*again, "--problems", "3"), says=["p.stw", "the number of problems in an update was 2, is 3"])
        self.fault(*self.command(*again, "--network", "width=32"), says=["p.stw", "width"])
        self.fault(*self.command(*again, "--curve", self.path("c.csv", "a,b\n1,2\n")), says=["c.csv", "no learning curve"])
        self.assertEqual((self.content("p.stw"), self.content("c.csv")), (content, b"a,b\n1,2\n"))
        self.done(*self.command(*again))  # nothing is left to do
        self.assertEqual(self.content("p.stw"), content)
        self.path("p.stw", content[:-9] + b"x" + content[-8:])
        self.fault(*self.command(*again), says=["p.stw", "checksum"])
        self.done("train", GRAPH, *Train.QUICK, "--updates", "1", "-o", "one.stw")
        self.path("p.stw", self.content("one.stw"))
        self.fault(*self.command(*again), says=["p.stw", "no state of a pre-training"])

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupt_and_resume(self):
        updates = 160000  # more than there is time for
        command = self.command("-o", "p.stw", "--threads", "1", "-f", "json", "--curve", "c.csv", updates=updates)
        done = 0
        for number, more in ((signal.SIGINT, []), (signal.SIGTERM, ["--resume"])):
            in_the_next_generation = "|".join(f"{update:,}" for update in range(done + 25, done + 500))
            status, out = self.interrupted_when(f"update ({in_the_next_generation})  ", number, *command, *more)
            self.assertEqual(status, 130)
            now = json.loads(out)["updates"]
            self.assertTrue(done < now < updates and now % 24 == 0, (done, now))  # what is under way is given up
            done = now
            self.assertEqual(json.loads(self.done("inspect", "p.stw", "-f", "json"))["pretraining"]["updates"], done)
            self.assertEqual([int(row["update"]) for row in self.curve("c.csv")], list(range(done)))
            with open(self.path("c.csv"), "a") as file:  # rows that the policy does not have, as a training that was killed leaves them
                file.write(f"{done},1\n{done + 1},1\n{done + 2}")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted([*self.made, "c.csv", "p.stw"]))

    def test_the_policy_in_use(self):
        """What was trained serves go-zero and go-tune, here and in optimize; what cannot serve is refused in a line."""
        self.done(*self.command("-o", "p.stw"))
        compare = ["compare", "layered.json", "-m", "h200x2", "--updates", "2", "--seed", "3", "--evaluations", "2000", "-f", "json"]

        def rows(*more):
            methods = json.loads(self.done(*compare, *more))[0]["methods"]
            return {method["method"]: method for method in methods}

        mine = rows("--methods", "go-zero,go-tune", "--policy", "p.stw")
        self.assertEqual([row["valid"] for row in mine.values()], [True, True])
        self.assertLessEqual(mine["go-tune"]["step_s"], mine["go-zero"]["step_s"])
        self.assertEqual(without_times(mine), without_times(rows("--methods", "go-zero,go-tune", "--policy", "p.stw", "--threads", "2")))
        few = rows("--methods", "go-zero", "--policy", "p.stw", "--decodes", "1")["go-zero"]
        self.assertLess(few["evaluations"], mine["go-zero"]["evaluations"])
        dealt = rows("--methods", "go-zero", "--policy", "p.stw", "--shuffle-features")["go-zero"]
        self.assertTrue(dealt["valid"])
        self.assertEqual(without_times(dealt), without_times(
            rows("--methods", "go-zero", "--policy", "p.stw", "--shuffle-features")["go-zero"]))

    def test_go_and_gdp(self):
        """As published: what is trained on many graphs makes a plan without an update, and learns on."""
        every = ["--tasks", "placement,schedule,fusion"]
        for preset, more in (("paper", every), ("gdp", ["--units", "off"]), ("paper", ["--device-names", "no", "--tasks", "placement"])):
            with self.subTest(preset=preset, more=more):
                text = self.done(*self.command("-o", "p.stw", "--preset", preset, "--hold-out", "rnnlm", *more))
                self.assertRegex(text, r"^p\.stw: 2 updates of 2 problems in .*\non 16 problems that it has not seen, over the best plan of "
                                       r"other methods: one plan [\d.]+, the best of it and 16 [\d.]+\n$")
                head = json.loads(self.done("inspect", "p.stw", "-f", "json"))["dimensions"]
                self.assertEqual((head["placement"], head.get("bare", 0), head.get("drafts", 0), head.get("device_names", 0)),
                                 (1, preset == "gdp", 0 if preset == "gdp" else 3, 0 if "no" in more else 16))
                compare = ["compare", "rnnlm.json", "-m", "h200x2", "--policy", "p.stw", "--methods", "go-zero,go-tune", "--updates", "2",
                           *every, "--evaluations", "200", "-f", "json"]
                methods = {row["method"]: row for row in json.loads(self.done(*compare, "--threads", "1"))[0]["methods"]}
                self.assertEqual([row["valid"] for row in methods.values()], [True, True])
                self.assertIn("2 updates", methods["go-tune"]["note"])
                self.assertEqual(without_times(methods), without_times(
                    {row["method"]: row for row in json.loads(self.done(*compare, "--threads", "2"))[0]["methods"]}))
                one = json.loads(self.done(*compare, "--decodes", "1"))[0]["methods"][0]
                self.assertEqual((one["method"], one["note"]), ("go-zero", "the policy made 1 plan"))
                self.assertTrue(one["valid"] and one["evaluations"] < methods["go-zero"]["evaluations"])

    def test_the_policy_in_optimize(self):
        self.done(*self.command("-o", "p.stw"))
        optimize = ["optimize", "layered.json", "-m", "h200x2", "--evaluations", "2000", "-f", "json"]
        for policy, more, expected in (("p.stw", [], ["go-zero"]), ("p.stw", ["--updates", "2"], ["go-zero", "go-tune"]), ("none", [], [])):
            head = json.loads(self.done(*optimize, "--policy", policy, *more))
            used = [candidate["method"] for candidate in head["candidates"] if candidate["method"] in ("go-zero", "go-tune")]
            self.assertEqual((used, head["valid"]), (expected, True))

    def test_a_policy_that_does_not_serve(self):
        self.done(*self.command("-o", "p.stw"))
        content = self.content("p.stw")
        self.done("train", GRAPH, *Train.QUICK, "--updates", "1", "-o", "one.stw")
        self.path("damaged.stw", content[:-9] + b"x" + content[-8:])
        self.path("short.stw", content[:1000])
        self.path("other.stw", b"{}")
        for method in ("go-zero", "go-tune"):
            for policy, words in (("one.stw", ["one.stw", "one graph", "--corpus"]), ("damaged.stw", ["damaged.stw", "checksum"]),
                                  ("short.stw", ["short.stw"]), ("other.stw", ["other.stw", "not a policy file"]),
                                  ("nowhere.stw", ["nowhere.stw"]), ("none", ["--policy none"])):
                with self.subTest(method=method, policy=policy):
                    self.fault("compare", "layered.json", "-m", "h200x2", "--methods", method, "--policy", policy, says=words)


if __name__ == "__main__":
    sys.exit(program.main())
