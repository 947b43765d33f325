"""The table of the ablations, in Markdown: networks without a part, other rounds and units."""
from go_one import SUFFIX
from tables import PAPER, table
from transfer_report import print_curves, print_head
from transfer_rows import Row, over_rows, per_seed
from transfer_what import NETWORKS, read_stores, wanted_runs


def print_ablation(options):
    runs, (store, policies, _) = wanted_runs(options), read_stores(options.store)
    rows = [(graph, k) for graph, k, _ in PAPER if any(run.graph == graph for run in runs)]
    machines = {kind: [Row(graph, k, kind, store, {}, options) for graph, k in rows] for kind in SUFFIX}
    policies = {name: record for name, record in policies.items() if name.rsplit("-", 1)[0] in NETWORKS}
    complete = print_head("Ablations of the pre-trained policy", runs, store, policies, options)
    networks = "; ".join(f"{name}: `--network {network}`" for name, network in NETWORKS.items() if network)
    print(f"""Policies that were trained with all six families left out, on the rows of up to 8,000 ops. Over y0: geometric mean of the
rows, mean of the seeds, and in brackets the geometric means of the single seeds. Networks: {networks}.
go-zero has 60 decodes unless it says otherwise; fewer are fewer rounds, each relative to the best plan so far. go-one with
50 updates is go-tune without the pre-training: the same number of updates from a network as it is made, with its own settings; go-tune, untrained has those of go-tune.
""")
    both = {**machines, "both": [row for each in machines.values() for row in each]}
    body = []
    for what in options.what:
        if what == "y0":
            continue
        cells = []
        for each in both.values():
            value, _, count = over_rows(each, what)
            seeds = ", ".join(f"{seed:.4f}" for seed in per_seed(each, what, options.seeds))
            rest = "" if count == len(each) else f", {count} rows"
            cells.append("-" if value is None else f"{value:.4f} ({seeds or 'seeds are missing'}){rest}")
        body.append([what, *cells])
    table(["what", *both], body)
    print_curves(policies)
    return complete
