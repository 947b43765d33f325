"""The trainings and the runs of the bench of transfer, each a process of the program."""
import csv
import hashlib
import io
import json
import os
import subprocess
import sys

from runs import Runs, about_this_place, append, number, stamp
from tables import FIRST, ROOT, milliseconds
from transfer_what import START_S, family_of, policy_name, read_stores, trainings


# ---- training ----


class Training(Runs):
    def __init__(self, options):
        self.options, self.wanted = options, trainings(options)
        self.folder = options.policies
        self.folder.mkdir(parents=True, exist_ok=True)
        waiting = [name for name in self.wanted if not (self.folder / f"{name}.json").exists()]
        waiting.sort(key=self.likely_seconds, reverse=True)
        super().__init__(waiting, options.jobs, options.threads, options.limit)
        self.place = about_this_place(options.commit)

    def name_of(self, run):
        return run

    def likely_seconds(self, run):
        if self.wanted[run][2] is None:
            return 20.0
        return 1.1 * self.options.seconds + 30.0  # validation is not all in the budget

    def part(self, name, ending):
        return self.folder / f"part-{name}.{ending}"

    def command_of(self, run, folder):
        held_out, seed, arguments = self.wanted[run]
        if arguments is None:  # a file of the network as it is made
            arguments = ["--updates", "1", "--problems", "1", "--learning-rate", "0"]
        elif self.options.updates:
            begun = ["--resume"] if self.part(run, "stw").exists() else []
            arguments = [*arguments, "--updates", str(self.options.updates), *self.options.arguments, *begun]
        else:
            arguments = [*arguments, "--budget", f"{self.options.seconds:g}s", *self.options.arguments]
        return [self.options.bin, "train", "--corpus", "all", "--hold-out", ",".join(held_out), "--seed", str(seed), "--threads",
                str(self.options.threads), "--format", "json", "--output", str(self.part(run, "stw")), "--curve",
                str(self.part(run, "csv")), *arguments]

    def take(self, run, text, took):
        held_out, seed, _ = self.wanted[run]
        answer = json.loads(text)
        end = [answer["seconds"], answer["updates"], *[answer.get(f"unseen_{what}") for what in ("greedy", "best", "constants")]]
        unwanted = {"--resume", "--output", "--curve", str(self.part(run, "stw")), str(self.part(run, "csv"))}  # paths say nothing elsewhere
        about = {"held_out": held_out, "seed": seed, "arguments": [word for word in self.command_of(run, "")[1:] if word not in unwanted],
                 "took_s": round(took, 1), "end": end, **stamp(self.jobs, self.place)}
        for ending in ("stw", "csv"):
            os.replace(self.part(run, ending), self.folder / f"{run}.{ending}")
        (self.folder / f"{run}.json").write_text(json.dumps(about, indent=1) + "\n")
        return f"{answer['updates']} updates, unseen: a round of moves {number(answer.get('unseen_moves'), '{:.4f}')}"


# ---- runs ----


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def results_of(text):
    """The lower bound and an entry per method."""
    results, bound = [], None
    for row in csv.DictReader(io.StringIO(text)):
        bound = float(row["lower_bound_s"])
        results.append({"method": row["method"], "step_s": float(row["step_s"]) if row["step_s"] else None, "valid": row["valid"] == "true",
                        "evaluations": int(row["evaluations"]), "search_s": float(row["search_s"]), "note": row["note"]})
    return bound, results


def results_of_train(text):
    answer, fields = json.loads(text), ("method", "step_s", "valid", "evaluations", "search_s", "note")
    return answer["lower_bound_s"], [{field: answer.get(field) for field in fields}]


def curve_of(path):
    """(seconds, update, greedy, best, constants, moves) of each validation."""
    fields = ("seconds", "update", *[f"validation_{what}" for what in ("greedy", "best", "constants", "moves")])
    with open(path, newline="") as file:
        return [[float(row[field]) for field in fields] for row in csv.DictReader(file) if row["validation_greedy"]]


class Bench(Runs):
    """The longest first."""

    def __init__(self, options, runs):
        self.options = options
        self.store, policies, _ = read_stores(options.store)
        self.digests = {path.stem: digest(path) for path in options.policies.glob("*.stw") if not path.stem.startswith("part-")}
        self.keep_policies(policies)
        missing = [run for run in runs if not self.is_there(run)]
        waiting = [run for run in missing if self.has_policy(run)]
        waiting.sort(key=lambda run: (-self.likely_seconds(run), run.what == "anneal", run.seed))
        super().__init__(waiting, options.jobs, 1, options.limit)
        self.failed = len(missing) - len(waiting)
        self.place = about_this_place(options.commit)

    def what(self, run):
        return self.options.known[run.what]

    def policy(self, run):
        return self.digests.get(policy_name(run, self.what(run)))

    def is_there(self, run):
        return run in self.store and self.store[run]["policy"] == self.policy(run)

    def keep_policies(self, known):
        """What they were trained with, and their curves, go to the store too: the table needs nothing else."""
        for name, value in self.digests.items():
            about = self.options.policies / f"{name}.json"
            if about.exists() and (name not in known or known[name]["policy"] != value):
                append(self.options.store[0], {"policy_name": name, "policy": value, "curve": curve_of(about.with_suffix(".csv")),
                                               **json.loads(about.read_text())})

    def has_policy(self, run):
        name = policy_name(run, self.what(run))
        if name is None:
            return True
        about = self.options.policies / f"{name}.json"
        if name not in self.digests or not about.exists():
            print(f"{self.name_of(run)}: there is no policy {name}", file=sys.stderr)
            return False
        if family_of(run.graph) not in json.loads(about.read_text())["held_out"]:
            sys.exit(f"{name}: was trained on {family_of(run.graph)}")
        return True

    def name_of(self, run):
        return f"{run.graph} {run.machine} {run.what} seed {run.seed}"

    def likely_seconds(self, run):
        what, tuned = self.what(run), self.store.get(run._replace(what="go-tune"))
        if run.what == "anneal" and tuned:
            return tuned["results"][0]["search_s"] + 2.0
        if what.effort == 0.0:  # a search, which takes as long as it may
            return what.seconds + 2.0
        return 1.0 + what.effort * START_S.get(run.graph, 2.0)

    def is_ready(self, run):
        return super().is_ready(run) and (run.what != "anneal" or self.is_there(run._replace(what="go-tune")))

    def command_of(self, run, folder):
        what = self.what(run)
        common = [str(ROOT / "data/graphs" / f"{run.graph}.json.gz"), "--machine", FIRST + run.machine, "--tasks", "placement,schedule", "--seed",
                  str(run.seed), "--threads", "1"]
        if run.what == "constants":
            return [self.options.bin, "train", *common, "--format", "json", *what.arguments, "--output", os.path.join(folder, "policy.stw")]
        seconds = self.store[run._replace(what="go-tune")]["results"][0]["search_s"] if what.seconds is None else what.seconds
        command = [self.options.bin, "compare", *common, "--format", "csv", "--budget", f"{seconds:.3f}s", *what.arguments]
        if what.policy == "none":
            return [*command, "--policy", "none"]
        return command if what.policy is None else [*command, "--policy", str(self.options.policies / f"{policy_name(run, what)}.stw")]

    def take(self, run, text, took):
        bound, results = results_of_train(text) if run.what == "constants" else results_of(text)
        record = dict(run._asdict(), results=results, bound_s=bound, policy=self.policy(run), took_s=round(took, 3),
                      **stamp(self.jobs, self.place))
        self.store[run] = record
        append(self.options.store[0], record)
        return f"{milliseconds(min((result['step_s'] for result in results if result['valid']), default=None))} ms"


def knows(program, option):
    return option in subprocess.run([program, "compare", "--help"], capture_output=True, text=True).stdout
