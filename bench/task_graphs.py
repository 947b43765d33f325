#!/usr/bin/env python3
"""Task graphs of up to some thousand ops for learning, as opgraph files with times for h200 in them: what no family of `stowage generate` is like.

    bench/task_graphs.py FOLDER [SET|NAME,...]     writes NAME.json for each

Sets: train (meshes that the scorer is trained on beside the families: scripts/make_proposals.sh), develop (others, to build with), accept (cholesky and
fft) and trials (lu and wave), by which nothing is built or chosen: docs/results/learning.md.

A mesh is a random graph: nodes in layers, of one op or of a chain of three, then ops that carry gradients back, and one that updates. Where links
are slow, most of its step is transfers.
"""
import json
import pathlib
import random
import sys


class Graph:
    def __init__(self):
        self.nodes = []

    def add(self, reads, us, size):
        self.nodes.append({"id": len(self.nodes), "name": f"t{len(self.nodes)}", "op": "mm", "inputs": reads, "dtype": "u8", "shape": [size],
                           "bytes": size, "us": {"h200": us}})
        return len(self.nodes) - 1


def mesh(layers, width, least_us, most_us, size, far, seed):
    """far: the share of inputs that come from any layer, not from the last."""
    draw, g = random.Random(seed), Graph()
    forward, before, last = [], [], []
    for _ in range(layers):
        layer = []
        for _ in range(width):
            count = draw.randint(1, 3) if before else 0
            reads = sorted({draw.choice(before) if draw.random() < far else draw.choice(last) for _ in range(count)})
            us = draw.uniform(least_us, most_us)
            layer.append(g.add(reads, us, int(size * draw.uniform(0.3, 2))))
            forward.append((layer[-1], reads, us))
        last = layer
        before = before + layer
    gradients = {}
    for node, reads, us in reversed(forward):
        parts = gradients.get(node, [])
        while len(parts) > 1:
            parts = parts[2:] + [g.add(parts[:2], 0.3 * us, g.nodes[node]["bytes"])]
        for read in reads:
            gradients.setdefault(read, []).append(g.add([*parts, node], us, g.nodes[read]["bytes"]))
        g.add([*parts, *reads], us, 4 * size)
    return g


def chains(layers, width, us, size, far, seed):
    """As mesh, with three ops a node, which are short beside what is sent."""
    draw, g = random.Random(seed), Graph()
    forward, before, last = [], [], []
    for _ in range(layers):
        layer = []
        for _ in range(width):
            count = draw.randint(1, 3) if before else 0
            reads = sorted({draw.choice(before) if draw.random() < far else draw.choice(last) for _ in range(count)})
            bytes_made, op_us = size << draw.randint(0, 2), us * draw.choice([1, 1, 2, 4])
            first = g.add(reads, us, bytes_made)
            middle = g.add([first], op_us, bytes_made)
            layer.append(g.add([middle], us, bytes_made))
            forward.append((first, middle, layer[-1], reads, op_us, bytes_made))
        last = layer
        before = before + layer
    gradients = {}
    for first, middle, node, reads, op_us, bytes_made in reversed(forward):
        parts = gradients.get(node, [])
        while len(parts) > 1:
            parts = parts[2:] + [g.add(parts[:2], us, bytes_made)]
        back = g.add([*parts, middle], us, bytes_made)
        back = g.add([back, first], op_us, bytes_made)
        g.add([back, first], op_us, 4 * bytes_made)
        for read in reads:
            gradients.setdefault(read, []).append(g.add([back], us, g.nodes[read]["bytes"]))
    return g


def drawn(number):
    """The training mesh of this number: of one kind and the other by turns."""
    draw = random.Random(f"stowage mesh {number}")
    between = lambda low, high: low * (high / low) ** draw.random()
    layers, width, far = round(between(6, 40)), round(between(4, 24)), draw.uniform(0.05, 0.4)
    if number % 2 == 0:
        least = between(0.5, 5)
        return mesh(layers, width, least, least * between(2, 6), round(between(20000, 1000000)), far, number)
    return chains(layers, width, between(0.5, 5), round(between(16384, 524288)), far, number)


def cholesky(tiles, us, size):
    """The right-looking factorisation of a matrix of so many tiles a side; us: of a product of two."""
    g, at = Graph(), {}
    reads = lambda *keys: [at[key] for key in keys if key in at]
    for k in range(tiles):
        at[k, k] = g.add(reads((k, k)), us / 3, size)
        for i in range(k + 1, tiles):
            at[i, k] = g.add(reads((i, k), (k, k)), us, size)
        for i in range(k + 1, tiles):
            for j in range(k + 1, i + 1):
                at[i, j] = g.add(sorted(set(reads((i, j), (i, k), (j, k)))), us, size)
    return g


def fft(levels, us, size):
    g = Graph()
    last = [g.add([], us, size) for _ in range(1 << levels)]
    for level in range(levels):
        last = [g.add(sorted([last[i], last[i ^ 1 << level]]), us, size) for i in range(1 << levels)]
    return g


def lu(tiles, us, size):
    """Of a matrix that is not symmetric: a row and a column of tiles are solved in each step."""
    g, at = Graph(), {}
    reads = lambda *keys: [at[key] for key in keys if key in at]
    for k in range(tiles):
        at[k, k] = g.add(reads((k, k)), 2 * us / 3, size)
        for i in range(k + 1, tiles):
            at[i, k] = g.add(reads((i, k), (k, k)), us, size)
            at[k, i] = g.add(reads((k, i), (k, k)), us, size)
        for i in range(k + 1, tiles):
            for j in range(k + 1, tiles):
                at[i, j] = g.add(reads((i, j), (i, k), (k, j)), 2 * us, size)
    return g


def wave(side, sweeps, us, size):
    """Sweeps over a square of tiles from a corner; a tile needs those above and to the left, and itself from the sweep before."""
    draw, g, at = random.Random(side), Graph(), {}
    for sweep in range(sweeps):
        for i in range(side):
            for j in range(side):
                keys = [(sweep, i - 1, j), (sweep, i, j - 1), (sweep - 1, i, j)]
                at[sweep, i, j] = g.add([at[key] for key in keys if key in at], us * draw.uniform(0.5, 2), size)
    return g


SETS = {"train": {f"mesh-{n}": (lambda n=n: drawn(n)) for n in range(24)},
        "develop": {"mesh-a": lambda: mesh(20, 16, 3, 15, 300000, 0.25, 101), "mesh-c": lambda: mesh(40, 8, 4, 20, 500000, 0.25, 103),
                    "mesh-e": lambda: mesh(20, 20, 1, 4, 300000, 0.25, 105), "mesh-f": lambda: mesh(30, 16, 2, 8, 800000, 0.2, 106),
                    "chains-b": lambda: chains(20, 24, 2, 262144, 0.25, 202), "chains-c": lambda: chains(20, 24, 1, 32768, 0.25, 203),
                    "chains-d": lambda: chains(30, 16, 3, 524288, 0.25, 204)},
        "accept": {"cholesky": lambda: cholesky(18, 12, 262144), "fft": lambda: fft(8, 6, 131072)},
        "trials": {"lu": lambda: lu(13, 10, 262144), "wave": lambda: wave(16, 5, 8, 196608)}}
GRAPHS = {name: make for graphs in SETS.values() for name, make in graphs.items()}


def main():
    folder, wanted = pathlib.Path(sys.argv[1]), sys.argv[2].split(",") if len(sys.argv) > 2 else list(SETS)
    for name in [name for word in wanted for name in SETS.get(word, [word])]:
        file = {"format": "opgraph", "version": 1, "name": name, "family": name.split("-")[0], "nodes": GRAPHS[name]().nodes}
        (folder / f"{name}.json").write_text(json.dumps(file))


if __name__ == "__main__":
    main()
