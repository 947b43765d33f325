"""The tables of transfer, in Markdown: the rows, the goals, what a reader should know, learning curves."""
import collections
import datetime
import json
import os
import shlex
import sys

from go_one import SUFFIX, Y0
from runs import lines_of, number, print_places
from tables import PAPER, table
from transfer_rows import Row, over_rows, per_seed, ratio_table
from transfer_what import SEARCH_S, SHUFFLE, TRANSFER, Run, family_of, policy_name, read_stores, wanted_runs

COLUMNS = ["start", "constants", "greedy", "untrained greedy", "go-zero", "untrained", "shuffled", "go-tune", "go-one", "anneal",
           "constants + search", "no policy + search", "untrained + search", "policy + search"]
NAMES = {"greedy": "one decode", "untrained greedy": "one decode, untrained"}


class Goals:
    """A list of lines, and whether all are met."""

    def __init__(self, machines):
        self.machines, self.all_met = machines, True

    def verdict(self, met):
        self.all_met &= met
        return f"**{'met' if met else 'NOT met'}**"

    def at_most(self, text, what, base, limit):
        for kind, rows in self.machines.items():
            value, _, count = over_rows(rows, what, base)
            if value is None:
                self.all_met = False
                print(f"- {kind}, {text}: no runs yet")
                continue
            worst = max((row for row in rows if row.ratio(what, base)), key=lambda row: row.ratio(what, base))
            within = sum(1 for row in rows if row.ratio(what, base) and row.ratio(what, base) <= limit)
            rest = "" if count == len(rows) else f", on {count} of {len(rows)} rows only"
            print(f"- {kind}, {text} (at most {limit:g}): {value:.4f}, worst row {worst.graph} at {worst.ratio(what, base):.3f}; "
                  f"{within} of {count} rows within{rest}: {self.verdict(value <= limit and count == len(rows))}")

    def keeps_to_decodes(self, most):
        """What is compared with 60 constants must not have more than 60."""
        rows = [row for kind, each in self.machines.items() if kind != "both" for row in each]
        found = [row.note(what, seed, r"(\d+) (?:decodes|plans)") for row in rows for what in ("go-zero", "untrained", "shuffled") for seed in row.seeds]
        counts = [values[0] for values in found if values]
        if counts:
            print(f"- decodes of each run of go-zero, by its note (at most {most}): {min(counts):.0f} to {max(counts):.0f}: "
                  f"{self.verdict(max(counts) <= most)}")

    def shuffled(self, seeds):
        for kind, rows in self.machines.items():
            plain, shuffled = [per_seed(rows, what, seeds) for what in ("go-zero", "shuffled")]
            if len(plain) < 2 or len(shuffled) < 2:
                self.all_met = False
                print(f"- {kind}, shuffled features: no runs of two seeds yet")
                continue
            gap = sum(shuffled) / len(shuffled) - sum(plain) / len(plain)
            spread = max(max(values) - min(values) for values in (plain, shuffled))
            worse = sum(1 for row in rows if row.ratio("shuffled", "go-zero") and row.ratio("shuffled", "go-zero") > 1.0)
            print(f"- {kind}, shuffled features are worse by more than seeds differ: worse by {gap:+.4f} of y0 (geometric mean over the "
                  f"rows), seeds differ by {spread:.4f}; {worse} of {len(rows)} rows are worse: {self.verdict(gap > spread)}")


def print_goals(machines, seeds):
    print("## Goals\n\nGeometric means over the rows of the mean of the seeds.\n")
    goals = Goals(machines)
    goals.at_most("one decode, or the start where that is better, over y0", "greedy", "y0", 0.98)
    goals.at_most("60 decodes of go-zero over constants", "go-zero", "constants", 0.98)
    goals.keeps_to_decodes(60)
    goals.at_most("policy + search over constants + search", "policy + search", "constants + search", 0.98)
    goals.at_most("policy + search over no policy + search (`--policy none`)", "policy + search", "no policy + search", 0.98)
    goals.at_most("go-tune over go-one", "go-tune", "go-one", 1.0)
    goals.shuffled(seeds)
    print("\nNo goals:\n")
    for text, what, base in (("the start over y0: a gain that is not the policy's", "start", "y0"),
                             ("one decode over the start", "greedy", "start"),
                             ("one decode over that of an untrained network", "greedy", "untrained greedy"),
                             ("60 decodes of go-zero over the start", "go-zero", "start"),
                             ("60 decodes of go-zero over those of an untrained network", "go-zero", "untrained"),
                             ("policy + search over untrained + search", "policy + search", "untrained + search"),
                             ("go-tune over anneal of the same time", "go-tune", "anneal")):
        for kind, rows in machines.items():
            print(f"- {kind}, {text}: {number(over_rows(rows, what, base)[0], '{:.4f}')}")
    print()
    return goals.all_met


def print_pairs(machines):
    print("## Row by row\n\nMean of the seeds.\n")
    pairs = [("go-zero", "constants"), ("go-zero", "untrained"), ("shuffled", "go-zero"),
             ("policy + search", "constants + search"),
             ("policy + search", "untrained + search"), ("go-tune", "go-one"), ("go-tune", "anneal")]
    body = [[f"{row.graph}, {row.machine}", *[number(row.ratio(*pair), "{:.3f}") for pair in pairs]]
            for rows in machines.values() for row in rows]
    table(["graph, machine", *[f"{above} / {below}" for above, below in pairs]], body)


def spread_cell(row, what):
    found = [row.note(what, seed, "knobs vary by " + ", ".join([r"([\d.e+-]+)"] * 4)) for seed in row.seeds]
    found = [values for values in found if values]
    return ", ".join(f"{sum(column) / len(column):.2f}" for column in zip(*found)) if found else "-"


def print_knobs(machines):
    """Of runs of earlier versions, whose notes said it."""
    rows = [[f"{row.graph}, {row.machine}", *[spread_cell(row, what) for what in ("go-zero", "untrained", "shuffled")]]
            for each in machines.values() for row in each]
    if all(cell == "-" for row in rows for cell in row[1:]):
        return
    print("## How much the knobs vary\n\nStandard deviation over the units of the four knobs; mean of the seeds. A policy that has learnt "
          "from moves alone uses the fourth: how promising it is that a unit moves. A network as it is made varies too, by 0.3.\n")
    table(["graph, machine", "go-zero", "untrained", "shuffled"], rows)


def print_curves(policies):
    print("## Learning curves of the pre-trainings\n\nOn 16 problems that are not trained on: value over the best plan of other methods, "
          "geometric mean; constants: without a policy. By the share of the training.\n")
    body = []
    for name, record in sorted(policies.items()):
        if name.startswith("untrained"):
            continue
        curve = record["curve"]
        if len(curve) < 2:
            continue
        last, cells = curve[-1][1], []
        for tenth in range(11):
            seen = [point for point in curve if point[1] <= tenth * last / 10] or curve[:1]
            cells.append(number(seen[-1][5] if len(seen[-1]) > 5 else None, "{:.4f}"))
        body.append([name, f"{last:.0f} in {curve[-1][0]:.0f} s", *cells, f"{curve[-1][4]:.3f}"])
    table(["policy", "updates", *[f"{10 * tenth} %" for tenth in range(11)], "constants"], body)
    print("A cell is what one round of moves comes to: eight proposals, the nine that look most promising, and all that helped at once.\n")


def print_remarks(machines, store, policies, skipped):
    """What a reader of the tables should know that they do not show."""
    remarks = list(skipped)
    rows = [row for each in machines.values() for row in each]
    for row in rows:
        ours, theirs = row.record("y0", row.seeds[0]), row.record("go-one", row.seeds[0])
        if ours and theirs and abs(ours["bound_s"] / theirs["bound_s"] - 1.0) > 1e-9:
            remarks.append(f"{row.graph} on {row.machine}: the lower bound is not that of the run of go-one; its costs are others.")
    over = sorted({row.graph for row in rows for what in COLUMNS if what.endswith("+ search") for seed in row.seeds
                   if row.best(what, seed) and row.best(what, seed)["search_s"] > 1.25 * SEARCH_S})
    if over:
        remarks.append(f"searches of {SEARCH_S} s that took more than {1.25 * SEARCH_S:g} s: on {', '.join(over)}.")
    stale = sum(1 for run, record in store.items() if run.what in TRANSFER and policy_name(run, TRANSFER[run.what]) in policies
                and record["policy"] != policies[policy_name(run, TRANSFER[run.what])]["policy"])
    if stale:
        remarks.append(f"{stale} runs were made with other policies than the last ones of the same name.")
    if remarks:
        print("## Remarks\n")
        for remark in remarks:
            print(f"- {remark}")
        print()


def length_of(policy):
    """The arguments of its training that others have too."""
    own = ("--corpus", "--hold-out", "--seed", "--network", "--format")
    pairs = iter(policy["arguments"][1:])
    return " ".join(f"{option} {value}" for option, value in zip(pairs, pairs) if option not in own)


def print_head(title, runs, store, policies, options):
    present = [store[run] for run in runs if run in store]
    arguments = " ".join(shlex.quote(os.path.basename(word)) for word in sys.argv[1:])
    print(f"# {title}\n\nPrinted by `bench/transfer.py {arguments}` on "
          f"{datetime.date.today()}. {len(present)} of {len(runs)} runs are present"
          f"{'' if len(present) == len(runs) else '; what is missing shows as -'}. "
          f"Seeds {', '.join(map(str, options.seeds))}, of policy and run; `--threads 1`; times for several devices are simulated.\n")
    print_places(present)
    trained = [record for name, record in policies.items() if not name.startswith("untrained")]
    for (arguments, date, cpu, jobs, commit), count in sorted(collections.Counter(
            (length_of(record), record["date"], record["cpu"], record["jobs"], record["commit"]) for record in trained).items()):
        print(f"- {count} policies: trained with `{arguments}`, {jobs} at once, {date}, {cpu}, commit {commit}")
    print()
    return len(present) == len(runs)


def print_transfer(options):
    runs, (store, policies, said) = wanted_runs(options), read_stores(options.store)
    go_one = {}
    for line in lines_of(options.go_one):
        record = json.loads(line)
        go_one[Run(*[record[field] for field in Run._fields])] = record
    rows = [(graph, k) for graph, k, _ in PAPER if graph in options.rows and family_of(graph) in options.families]
    machines = {kind: [Row(graph, k, kind, store, go_one, options) for graph, k in rows] for kind in SUFFIX}
    complete = print_head("Transfer", runs, store, policies, options)
    print(f"""A policy for each of the six families is pre-trained on all others (`train --corpus all --hold-out FAMILY`) and then makes
plans for the graphs of the one it has not seen. Cells are step times over that of y0 with the same seed: the mean of the seeds, with the smallest
and the largest where they differ.

- y0: the best of {', '.join(Y0)} by themselves (`compare --budget 20s`), and which (of the first seed).
- constants: the best of y0 and 60 decodes of the steered list scheduler with the same knobs for all units (`train --updates 1
  --learning-rate 0`, which tries them first and then 16 samples and a greedy plan, so it errs to the better side).
- start: the plan that go-zero begins with, by its note (three digits). It is made by the same methods as y0, but one after the other, so
  that some go on from the plans before them; constants, go-zero and go-tune all begin with it.
- one decode: `go-zero --decodes 1`: the move that the policy finds most promising, or the start, with better priorities if they
  are to be had, if that does not help. one decode, untrained: the same with a network as it is made.
- Whatever is kept as a better plan gets better priorities by up to three runs backwards, six evaluations that are no decodes: in
  constants, go-zero, go-tune and go-one alike. go-zero and go-tune do that to their start first; y0 has none of it, nor has a start
  that no constant improves on. Where priorities are what a start lacks (transformer-xl with slow links), most of a first gain is
  theirs. What is over untrained is free of that.
- go-zero: `--decodes 60`. untrained: the same with a network as it is made. shuffled: the same with `{SHUFFLE}`: each unit has
  the features of another.
- go-tune: 50 updates. anneal: for as long as go-tune took, that of the same row and seed.
- go-one: 60 s (300 s for rnnlm-8, gnmt-8, transformer-xl-8), from [go-one](go-one.md): not run again.
- {SEARCH_S} s with 1 thread: constants + search is `--methods anneal`, which has the constructive methods, steer and its constants among
  them, make plans for 40 % of the time and then searches. The others are `--methods optimize`, which shares these 40 % out among the
  methods in another way. no policy + search is `--policy none`; untrained + search and policy + search are `--policy POLICY`:
  constructive methods, go-zero, go-tune, and the search has the rest.
""")
    for kind, each in machines.items():
        print(f"## {kind}\n")
        ratio_table(each, COLUMNS, NAMES)
    skipped = [f"there are no runs with shuffled features: the program that made the runs may not know {SHUFFLE}."] if not any(
        run.what == "shuffled" for run in store) else []
    met = print_goals({**machines, "both": [row for each in machines.values() for row in each]}, options.seeds)
    print_remarks(machines, store, policies, [*said, *skipped])
    print_pairs(machines)
    print_knobs(machines)
    print_curves(policies)
    return complete and met
