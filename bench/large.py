"""Writes N steps of a graph in a row, as one graph of our own format: each step waits for the loss of the one before.

    python3 bench/large.py data/graphs/gnmt-4.json.gz 103 row-103.json
"""

import gzip
import json
import sys

SOURCES = ("parameter", "buffer", "input", "constant")


def shift(node, base, begins, before):
    """The node of a later step; what nothing precedes waits for the step before."""
    node = dict(node, id=base + node["id"], inputs=[base + k for k in node["inputs"]])
    for key in ("updates", "colocate"):
        if key in node:
            node[key] += base
    control = [base + k for k in node.get("control", [])] + ([before] if begins and before >= 0 else [])
    return dict(node, control=control) if control else node


def write_row(source, steps, path):
    with gzip.open(source, "rt") as file:
        graph = json.load(file)
    nodes, count = graph["nodes"], len(graph["nodes"])
    root = list(range(count))
    for node in nodes:
        if node.get("view"):
            root[node["id"]] = root[node["inputs"][0]]
    is_op = [node["op"] not in SOURCES and not node.get("view") for node in nodes]
    begins = [is_op[n["id"]] and not any(is_op[root[k]] for k in n["inputs"]) for n in nodes]
    outputs = [step * count + k for step in range(steps) for k in graph.get("outputs", [])]
    with open(path, "w") as file:
        file.write('{"format":"opgraph","version":1,"name":"row-%d","outputs":%s,"nodes":[' % (steps, json.dumps(outputs)))
        for step in range(steps):
            base, before = step * count, (step - 1) * count + graph["loss"] if step else -1
            lines = [json.dumps(shift(n, base, begins[n["id"]], before), separators=(",", ":")) for n in nodes]
            file.write((",\n" if step else "") + ",\n".join(lines))
        file.write("]}\n")


if __name__ == "__main__":
    write_row(sys.argv[1], int(sys.argv[2]), sys.argv[3])
