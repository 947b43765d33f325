"""The library from Python, on one page: open a graph and a machine, search for a plan within a budget, read it, write it.

    python3 optimize.py rnnlm-2.json.gz h200x2 plan.json trace.json

examples/optimize.c does the same."""
import sys

import stowage


def main(graph_path, machine_name, plan_path, trace_path):
    graph = stowage.load(graph_path)
    machine = stowage.Machine(machine_name)  # or the path of a machine file

    # A budget of evaluations (simulated plans) gives the same plan every time; with budget="10s" in its place, the search takes what it
    # finds in that time. Options are those of `stowage help optimize`.
    result = stowage.optimize(graph, machine, evaluations=200, seed=1)
    plan = result.plan
    if plan is None:  # nothing fits: the search went well all the same
        print("no valid plan:", result.lacking)
        return

    # Lists of a plan have one entry per node of the graph; views and inputs do not run.
    for node in graph.ops[:5]:
        print(f"{node.name} ({node.op}) on {machine.devices[plan.device[node.id]].name}, in kernel {plan.group[node.id]}")
    print(f"... of {len(graph.ops)} ops")
    print(f"step {1e3 * result.step:.3f} ms, found by {result.best.method}; no plan takes less than {1e3 * result.bounds.fusion:.3f} ms")

    plan.save(plan_path)  # for `stowage simulate` and stowage.Plan.load
    plan.export("trace", trace_path)  # a timeline of the step, for chrome://tracing or Perfetto


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(f"usage: {sys.argv[0]} GRAPH MACHINE PLAN_FILE TRACE_FILE")
    try:
        main(*sys.argv[1:])
    except stowage.Error as error:  # what is wrong, where, and what helps
        sys.exit(f"error: {error}")
