"""What the bench of transfer runs and trains, which runs are wanted, and what its stores hold."""
import collections
import json
import sys

from go_one import SUFFIX, Y0
from runs import lines_of
from tables import PAPER

FAMILIES = ["rnnlm", "gnmt", "transformer-xl", "inception", "amoebanet", "wavenet"]
START_S = {"gnmt-8": 15.0, "transformer-xl-8": 7.0, "rnnlm-8": 6.0, "gnmt-4": 4.5, "gnmt-2": 2.5}  # to make y0, as seen; others: 2
OVER_8000_OPS = ["rnnlm-8", "gnmt-4", "gnmt-8", "transformer-xl-8"]  # not in the ablations
ENDS_BY_ITSELF = 200  # s; a tenth of it is the limit for the initial plans, which is more than they take
SEARCH_S = 2

# What is run: the policy (HELD_OUT: without the graph's family; or a name), the budget in seconds, the arguments, and how many times the
# time of y0 it takes, about.
HELD_OUT = "held out"
What = collections.namedtuple("What", "policy seconds arguments effort")
ZERO, SHUFFLE = ["--methods", "go-zero"], "--shuffle-features"
TRANSFER = {
    "y0": What(None, 20, ["--methods", ",".join(Y0)], 1.2),
    "constants": What(None, 0, ["--updates", "1", "--learning-rate", "0"], 1.2),
    "greedy": What(HELD_OUT, ENDS_BY_ITSELF, [*ZERO, "--decodes", "1"], 1.2),
    "untrained greedy": What("untrained", ENDS_BY_ITSELF, [*ZERO, "--decodes", "1"], 1.2),
    "go-zero": What(HELD_OUT, ENDS_BY_ITSELF, [*ZERO, "--decodes", "60"], 1.5),
    "untrained": What("untrained", ENDS_BY_ITSELF, [*ZERO, "--decodes", "60"], 1.5),
    "shuffled": What(HELD_OUT, ENDS_BY_ITSELF, [*ZERO, "--decodes", "60", SHUFFLE], 1.5),
    "go-tune": What(HELD_OUT, ENDS_BY_ITSELF, ["--methods", "go-tune", "--updates", "50"], 5.0),
    "anneal": What(None, None, ["--methods", "anneal"], 5.0),  # as long as go-tune took
    "constants + search": What(None, SEARCH_S, ["--methods", "anneal"], 0.0),
    "no policy + search": What("none", SEARCH_S, ["--methods", "optimize"], 0.0),
    "untrained + search": What("untrained", SEARCH_S, ["--methods", "optimize"], 0.0),
    "policy + search": What(HELD_OUT, SEARCH_S, ["--methods", "optimize"], 0.0),
}
BUDGETS_S = (0.5, 1, 2, 4)
BUDGETS = {f"{what}, {seconds:g} s": TRANSFER[what]._replace(seconds=seconds)
           for what in ("constants + search", "no policy + search", "policy + search") for seconds in BUDGETS_S}
NETWORKS = {"full": "", "no-attention": "attention_layers=0", "no-modulation": "modulation=0", "no-graphsage": "sage_layers=0",
            "no-segments": "segment=512"}
ABLATION = {
    "y0": TRANSFER["y0"], "constants": TRANSFER["constants"],
    **{f"greedy, {name}": TRANSFER["greedy"]._replace(policy=name) for name in [*NETWORKS, "untrained"]},
    **{f"go-zero, {name}": TRANSFER["go-zero"]._replace(policy=name) for name in [*NETWORKS, "untrained"]},
    **{f"go-zero, {count} decodes": What("full", ENDS_BY_ITSELF, [*ZERO, "--decodes", str(count)], 1.4) for count in (20, 40)},
    **{f"go-zero, {count} units": What("full", ENDS_BY_ITSELF, [*ZERO, "--units", str(count)], 1.6) for count in (32, 128, 512)},
    "go-tune, full": TRANSFER["go-tune"]._replace(policy="full"),
    "go-tune, untrained": TRANSFER["go-tune"]._replace(policy="untrained"),
    "go-one, 50 updates": What(None, ENDS_BY_ITSELF, ["--methods", "go-one", "--updates", "50"], 4.0),
}

Run = collections.namedtuple("Run", "graph machine what seed")


def family_of(graph):
    return next(family for family in FAMILIES if graph.startswith(family))


def policy_name(run, what):
    """Of the file that the run goes by, without .stw; None: it goes by none."""
    if run.what == "anneal":
        what = TRANSFER["go-tune"]  # its time
    if what.policy in (None, "none"):
        return None
    return f"{family_of(run.graph) if what.policy == HELD_OUT else what.policy}-{run.seed}"


def trainings(options):
    """name -> (families left out, other arguments)"""
    if options.ablate:
        every = {name: (FAMILIES, ["--network", network] if network else []) for name, network in NETWORKS.items()}
    else:
        every = {family: ([family], []) for family in options.families}
    every["untrained"] = (FAMILIES, None)
    return {f"{name}-{seed}": (held_out, seed, arguments) for name, (held_out, arguments) in every.items() for seed in options.seeds}


def wanted_runs(options):
    runs = []
    for kind in SUFFIX:
        for graph, k, _ in PAPER:
            if graph not in options.rows or family_of(graph) not in options.families or options.ablate and graph in OVER_8000_OPS:
                continue
            runs += [Run(graph, f"h200x{k}{SUFFIX[kind]}", what, seed) for what in options.what for seed in options.seeds]
    return runs


def read_stores(paths):
    """Runs by what they are known by, and policies by name; the last line counts, and the first store before others."""
    store, policies, remarks = {}, {}, []
    for path in reversed(paths):
        for line in lines_of(path):
            try:
                record = json.loads(line)
                if "remark" in record:  # about the runs of this store, for its readers
                    remarks.append(record["remark"])
                elif "policy_name" in record:
                    policies[record["policy_name"]] = record
                else:
                    store[Run(*[record[field] for field in Run._fields])] = record
            except (ValueError, KeyError):  # it was killed while it wrote
                print(f"{path.name}: passed over a broken line", file=sys.stderr)
    return store, policies, remarks
