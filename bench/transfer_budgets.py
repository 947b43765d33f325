"""The table of searches by budget, in Markdown: how much time a policy is worth."""
from go_one import SUFFIX
from tables import PAPER, table
from transfer_report import print_head
from transfer_rows import Row, over_rows
from transfer_what import BUDGETS_S, family_of, read_stores, wanted_runs

KINDS = ("constants + search", "no policy + search", "policy + search")


def print_budgets(options):
    runs, (store, policies, _) = wanted_runs(options), read_stores(options.store)
    rows = [(graph, k) for graph, k, _ in PAPER if graph in options.rows and family_of(graph) in options.families]
    machines = {kind: [Row(graph, k, kind, store, {}, options) for graph, k in rows] for kind in SUFFIX}
    machines["both"] = [row for each in list(machines.values()) for row in each]
    complete = print_head("Searches by budget, with and without a policy", runs, store, policies, options)
    base = f"constants + search, {BUDGETS_S[-1]:g} s"
    print(f"""The searches of [transfer.md](transfer.md) with other budgets; each policy has not seen the family that it is used on. Geometric
means over the rows (of the mean of the seeds) of step times over those of {base}.
""")
    for name, each in machines.items():
        print(f"## {name}\n")
        body = []
        for seconds in BUDGETS_S:
            values = [over_rows(each, f"{kind}, {seconds:g} s", base)[0] for kind in KINDS]
            pairs = [over_rows(each, f"policy + search, {seconds:g} s", f"{other}, {seconds:g} s")[0] for other in KINDS[:2]]
            body.append([f"{seconds:g} s", *["-" if value is None else f"{value:.4f}" for value in [*values, *pairs]]])
        table(["budget", *KINDS, "policy / constants", "policy / no policy"], body)
    return complete
