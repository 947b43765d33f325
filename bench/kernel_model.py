#!/usr/bin/env python3
"""The learned model of kernels (src/cost/kernel_model.h): made, and judged on models that it has not seen.

    python3 bench/kernel_model.py make --store docs/results/xla_kernels.tar.xz -o data/kernels/h200.stw
    python3 bench/kernel_model.py judge --store docs/results/xla_kernels.tar.xz
    PYTHONPATH=python/src STOWAGE_LIBRARY=build/release/libstowage.so python3 bench/kernel_model.py regions --store docs/results/xla_kernels.tar.xz

Needs numpy and lightgbm beside Python, and build/release/bench/kernel_rows, which says what kernels look like. The store is one of
`bench/xla_kernels.py measure`.

A kernel right behind a call of a library (cuBLAS, cuDNN) seems to start before the call has ended and to wait for it: the profiler shows
up to 19 times what it takes elsewhere. Such rows are not learnt from, and `judge` leaves them out but for the rows that say so. What is
learnt: log(measured / formula), one row per content (the median of its measurements, weighted by the root of their number).

`judge` leaves out one step of bench/xla_models.py after the other, with all its modules and all kernels elsewhere that are equal in
content to one of it, and prints for the formula and the model: the median error of a kernel, Kendall's tau, how many sums of modules are
within 10 %, apart for the half of the steps on which the settings were chosen (every second by name) and the other half; the noise
floor: a kernel predicted by the median of others of equal content; and which of the three variants of a step has the smallest sum.
`regions` (needs jax, no GPU) splices the stored modules of each step as stowage.jax.plan(fuse="best") does, by the formula, by the model that
has not seen the step and, for the most that could be had, by what was measured; and prints what was measured of the kernels that came of it.
"""
import argparse
import collections
import csv
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

import lightgbm
import numpy as np
from xla_kernels import VARIANTS, kendall, read_store

# Chosen on the first, third, fifth ... step by name, each of these left out in turn.
SETTINGS = {"objective": "regression_l1", "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 5, "num_threads": 1, "seed": 0,
            "deterministic": True, "force_row_wise": True, "verbose": -1}  # fmt: skip
TREES = 300
VERSION = 1  # STW_KERNEL_FEATURES_VERSION


class Kernels:
    """Rows of all modules of a store: features X, formula and measured microseconds, content, step, module."""

    def __init__(self, store, program, machine):
        files = read_store(store)
        names = [name[:-5] for name in sorted(files) if name.endswith(".json")]
        with tempfile.TemporaryDirectory() as folder:
            paths = {}
            for name in names:
                paths[os.path.join(folder, name.replace("/", ",").replace(",", "%") + ".pb")] = name
            for path, name in paths.items():
                with open(path, "wb") as opened:
                    opened.write(files[f"{name}.hlo.pb"])
            text = subprocess.run([program, "--machine", machine, *paths], check=True, stdout=subprocess.PIPE, text=True).stdout
        head, *rows = csv.reader(text.splitlines())
        measured = {name: json.loads(files[f"{name}.json"])["us"] for name in names}
        self.columns = head[4:]
        self.module = np.array([paths[row[0]] for row in rows])
        self.step = np.array([name.split("/")[0] for name in self.module])
        self.content = np.array([row[2] for row in rows])
        self.formula = np.array([float(row[3]) for row in rows])
        self.x = np.array([[float(cell) for cell in row[4:]] for row in rows], np.float32)
        self.us = np.array([measured[paths[row[0]]].get(row[1], 0.0) for row in rows])
        self.name = [row[1] for row in rows]
        self.files = files
        library = {(paths[row[0]], row[1]) for row, x in zip(rows, self.x) if x[self.columns.index("library")] > 0}
        behind = set()  # the times stand in the order in which the kernels ran
        for name, times in measured.items():
            order = list(times)
            behind |= {(name, after) for before, after in zip(order, order[1:]) if (name, before) in library}
        self.own = np.array([us > 0 and (paths[row[0]], row[1]) not in behind for row, us in zip(rows, self.us)])

    def steps(self):
        return sorted(set(self.step))


def by_content(kernels, rows):
    groups = collections.defaultdict(list)
    for k in rows:
        groups[kernels.content[k]].append(k)
    return groups


def fit(kernels, rows):
    groups = list(by_content(kernels, rows).values())
    first = [group[0] for group in groups]
    target = [np.median(np.log(kernels.us[group] / kernels.formula[group])) for group in groups]
    weight = [len(group) ** 0.5 for group in groups]
    return lightgbm.train(SETTINGS, lightgbm.Dataset(kernels.x[first], target, weight=weight), TREES)


def leave_one_out(kernels):
    """Microseconds of each kernel by a model that has seen neither its step nor its content."""
    predicted = kernels.formula.copy()
    for step in kernels.steps():
        out = kernels.step == step
        seen = set(kernels.content[out])
        rows = [k for k in np.flatnonzero(kernels.own & ~out) if kernels.content[k] not in seen]
        predicted[out] *= np.exp(fit(kernels, rows).predict(kernels.x[out]))
    return predicted


# ---- judging ----


def row_of(kernels, predicted, rows):
    error = np.abs(predicted / np.where(kernels.us > 0, kernels.us, 1) - 1)[rows]
    taus, ratios = [], []
    for module in sorted(set(kernels.module[rows])):
        those = rows & (kernels.module == module)
        taus.append(kendall(list(zip(kernels.us[those], predicted[those]))))
        ratios.append(predicted[those].sum() / kernels.us[those].sum())
    pooled = kendall(list(zip(kernels.us[rows], predicted[rows])))
    by_time = np.abs(predicted - kernels.us)[rows].sum() / kernels.us[rows].sum()
    return (f"{100 * np.median(error):.1f} % | {100 * np.quantile(error, 0.9):.0f} % | {100 * by_time:.0f} % | {statistics.median(taus):.2f} | {pooled:.2f} | "
            f"{sum(abs(r - 1) <= 0.1 for r in ratios)} of {len(ratios)}")  # fmt: skip


def judge(kernels):
    learned = leave_one_out(kernels)
    known = kernels.us > 0
    chosen = np.isin(kernels.step, kernels.steps()[0::2])
    print("| kernels | by | median error | 90 % | by time | tau, median module | tau, pooled | sums within 10 % |\n|" + " --- |" * 8)
    for name, rows in (("all with a time of their own", kernels.own), ("of those, the steps that settings were chosen on", kernels.own & chosen),
                       ("of those, the other steps", kernels.own & ~chosen), ("all, those behind library calls too", known)):  # fmt: skip
        for by, predicted in (("formula", kernels.formula), ("learned", learned)):
            print(f"| {name} ({rows.sum()}) | {by} | {row_of(kernels, predicted, rows)} |")
    print("\n| step | kernels | formula: median error | sums | learned: median error | sums |\n|" + " --- |" * 6)
    for step in kernels.steps():
        rows, cells = kernels.own & (kernels.step == step), []
        for predicted in (kernels.formula, learned):
            error = np.abs(predicted[rows] / kernels.us[rows] - 1)
            cells += [f"{100 * np.median(error):.0f} %", f"{predicted[rows].sum() / kernels.us[rows].sum():.2f}"]
        print(f"| {step} | {rows.sum()} | {' | '.join(cells)} |")
    judge_sorts(kernels, learned)
    judge_noise(kernels)
    judge_behind(kernels)
    judge_choice(kernels, learned)


SORTS = {"calls of libraries": "library", "products by Triton": "product", "goes on with rows": "holds_rows", "reduces columns": "columns",
         "reduces rows": "rows", "transposes": "transposed", "concatenates": "concatenated"}  # fmt: skip


def judge_sorts(kernels, learned):
    left = kernels.own.copy()
    print("\n| sort | kernels | contents | formula: median error | sums | learned: median error | sums |\n|" + " --- |" * 7)
    for sort, column in {**SORTS, "others": None}.items():
        rows = left & (kernels.x[:, kernels.columns.index(column)] > 0) if column else left.copy()
        left &= ~rows
        cells = []
        for predicted in (kernels.formula, learned):
            error = np.abs(predicted[rows] / kernels.us[rows] - 1)
            cells += [f"{100 * np.median(error):.0f} %", f"{predicted[rows].sum() / kernels.us[rows].sum():.2f}"]
        print(f"| {sort} | {rows.sum()} | {len(set(kernels.content[rows]))} | {' | '.join(cells)} |")


def judge_noise(kernels):
    """A kernel by the median of the others of its content: of other modules, of other steps."""
    found = {"another module": [], "another step": []}
    for group in by_content(kernels, np.flatnonzero(kernels.own)).values():
        for k in group:
            for where, of in (("another module", kernels.module), ("another step", kernels.step)):
                others = [j for j in group if of[j] != of[k]]
                if others:
                    found[where].append(abs(np.median(kernels.us[others]) / kernels.us[k] - 1))
    for where, errors in found.items():
        print(f"\nNoise: a kernel by the same one in {where}: median error {100 * np.median(errors):.1f} %, 90 % of them below "
              f"{100 * np.quantile(errors, 0.9):.0f} % ({len(errors)} kernels)")  # fmt: skip


def judge_behind(kernels):
    """What kernels right behind library calls take, over the same elsewhere."""
    elsewhere = {content: np.median(kernels.us[group]) for content, group in by_content(kernels, np.flatnonzero(kernels.own)).items()}
    groups = by_content(kernels, np.flatnonzero((kernels.us > 0) & ~kernels.own))
    ratios = [np.median(kernels.us[group]) / elsewhere[content] for content, group in groups.items() if content in elsewhere]
    quartiles = ", ".join(f"{q:.2f}" for q in np.quantile(ratios, [0.25, 0.5, 0.75, 0.9, 1]))
    print(f"\nBehind library calls: {sum(map(len, groups.values()))} of {len(kernels.us)} kernels ({len(set(kernels.content))} contents); of the {len(ratios)} contents "
          f"that stand elsewhere too, time there over time elsewhere, quartiles, 90 % and most: {quartiles}")  # fmt: skip


def judge_choice(kernels, learned):
    """Which variant has the smallest sum of times, kernels behind library calls counting as elsewhere where they are known."""
    us = elsewhere(kernels)
    print("\n| step | measured: " + ", ".join(VARIANTS) + " (us) | formula chooses | over the best | over XLA's | learned chooses | over the best | over XLA's |\n|"
          + " --- |" * 8)  # fmt: skip
    over, beside, pairs = ({"formula": [], "learned": []} for _ in range(3))
    for step in kernels.steps():
        sums = {name: [values[kernels.module == f"{step}/{v}"].sum() for v in VARIANTS]
                for name, values in (("measured", us), ("formula", kernels.formula), ("learned", learned))}  # fmt: skip
        cells = []
        for by in over:
            choice = int(np.argmin(sums[by]))
            over[by].append(sums["measured"][choice] / min(sums["measured"]))
            beside[by].append(sums["measured"][choice] / sums["measured"][VARIANTS.index("xla")])
            cells += [VARIANTS[choice], f"{over[by][-1]:.3f}", f"{beside[by][-1]:.3f}"]
            for a, b in ((0, 1), (0, 2), (1, 2)):
                if abs(np.log(sums["measured"][a] / sums["measured"][b])) > 0.02:
                    pairs[by].append((sums[by][a] < sums[by][b]) == (sums["measured"][a] < sums["measured"][b]))
        print(f"| {step} | {', '.join(f'{s:.0f}' for s in sums['measured'])} | {' | '.join(cells)} |")
    for by in over:
        print(f"\n{by}: {np.exp(np.mean(np.log(beside[by]))):.4f} of XLA's in the geometric mean, at most {max(beside[by]):.3f}; "
              f"{np.exp(np.mean(np.log(over[by]))):.4f} times the best variant, {sum(o == 1 for o in over[by])} of {len(over[by])} "
              f"right; of pairs that differ by more than 2 % {sum(pairs[by])} of {len(pairs[by])} in the right order")  # fmt: skip


def elsewhere(kernels):
    """Microseconds of each kernel; behind a library call those of the same content elsewhere, where it stands."""
    own = {content: np.median(kernels.us[group]) for content, group in by_content(kernels, np.flatnonzero(kernels.own)).items()}
    return np.array([t if mine else own.get(content, t) for t, mine, content in zip(kernels.us, kernels.own, kernels.content)])


class Told:
    """For stowage.jax._best: what kernels take, by what they do, of the modules of one step and of those spliced from them."""

    def __init__(self, kernels, us, step):
        from stowage.jax._module import read_module
        from stowage.jax._times import contents_of

        self.read, self.contents, self.us = read_module, contents_of, collections.defaultdict(list)
        of = {f"{step}/{v}": contents_of(read_module(kernels.files[f"{step}/{v}.hlo.pb"])) for v in VARIANTS}
        for module, name, t in zip(kernels.module, kernels.name, us):
            if module in of and name in of[module]:
                self.us[of[module][name]].append(t)

    def times(self, module):
        module = self.read(module)
        contents = self.contents(module)
        return {i.name: statistics.median(self.us[contents[i.name]]) for i in module.entry.instructions.values() if self.us.get(contents.get(i.name))}

    def seconds(self, module):
        return 1e-6 * sum(self.times(module).values())


def judge_regions(kernels, learned):
    """What stowage.jax.plan(fuse="best") would make of the stored modules, the model not having seen the step."""
    from stowage.jax._best import best_regions

    us = elsewhere(kernels)
    print("\n| step | XLA's kernels (us) | by | regions | expected | measured |\n|" + " --- |" * 6)
    ratios = collections.defaultdict(list)
    for step in kernels.steps():
        own, *others = (kernels.files[f"{step}/{v}.hlo.pb"] for v in VARIANTS)
        truth = Told(kernels, us, step)
        for by, predicted in (("formula", kernels.formula), ("learned", learned), ("measured", us)):
            found = best_regions(own, dict(zip(VARIANTS[1:], others)), Told(kernels, predicted, step), lambda module: True)
            ratio = truth.seconds(found.module or own) / truth.seconds(own)
            ratios[by].append(ratio)
            print(f"| {step} | {1e6 * truth.seconds(own):.0f} | {by} | {found.regions} | {found.seconds['chosen'] / found.seconds['XLA']:.3f} | {ratio:.3f} |",
                  flush=True)  # fmt: skip
    for by, each in ratios.items():
        without = [r for r, step in zip(each, kernels.steps()) if step != "norms"]
        print(f"\n{by}: {statistics.geometric_mean(each):.4f} of XLA's kernels in the geometric mean, {statistics.geometric_mean(without):.4f} without norms, "
              f"at most {max(each):.3f}")  # fmt: skip


# ---- the file ----


def flatten(tree, nodes):
    """Nodes in order, each before its children, the left one right behind: (column, number, above)."""
    at = len(nodes)
    if "leaf_value" in tree:
        nodes.append((-1, tree["leaf_value"], 0))
        return
    threshold = np.float32(tree["threshold"])
    if float(threshold) > tree["threshold"]:  # features are of 32 bits: x <= t and x <= the next number below t are the same
        threshold = np.nextafter(threshold, np.float32(-np.inf))
    nodes.append(None)
    flatten(tree["left_child"], nodes)
    nodes[at] = (tree["split_feature"], float(threshold), len(nodes))
    flatten(tree["right_child"], nodes)


def tensor_file(dimensions, tensors):
    """docs/formats/policy.md."""

    def name(text):
        return struct.pack("<H", len(text)) + text.encode()

    types = {np.dtype(np.float32): 0, np.dtype(np.int32): 2}
    head = b"STWPOLCY" + struct.pack("<II", 1, len(dimensions)) + b"".join(name(k) + struct.pack("<q", v) for k, v in dimensions.items())
    size = len(head) + 4 + sum(2 + len(k) + 28 for k in tensors)
    table, data, at = struct.pack("<I", len(tensors)), b"", (size + 15) // 16 * 16
    data = b"\0" * (at - size)
    for key, values in tensors.items():
        table += name(key) + struct.pack("<Iqqq", types[values.dtype], 1, len(values), size + len(data))
        data += values.tobytes()
        data += b"\0" * (-(size + len(data)) % 16)
    whole = head + table + data
    return whole + struct.pack("<Q", checksum(whole))


def checksum(data):
    value = 0xCBF29CE484222325  # as stw_str_hash
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value ^ value >> 32


def make(kernels, path):
    rows = np.flatnonzero(kernels.own)
    model = fit(kernels, rows)
    nodes, roots = [], []
    for tree in model.dump_model()["tree_info"]:
        roots.append(len(nodes))
        flatten(tree["tree_structure"], nodes)
    column, number, above = zip(*nodes)
    dimensions = {"kernel_features_version": VERSION, "kernel_features": len(kernels.columns), "trees": len(roots), "nodes": len(nodes)}
    tensors = {"least": kernels.x[rows].min(0), "most": kernels.x[rows].max(0), "root": np.array(roots, np.int32),
               "column": np.array(column, np.int32), "number": np.array(number, np.float32), "above": np.array(above, np.int32)}  # fmt: skip
    with open(path, "wb") as opened:
        opened.write(tensor_file(dimensions, tensors))
    print(f"{path}: {len(roots)} trees, {len(nodes)} nodes, from {len(rows)} kernels of {len(set(kernels.content[rows]))} contents")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "judge", "regions"])
    parser.add_argument("--store", required=True)
    parser.add_argument("-o", "--output", default="data/kernels/h200.stw")
    parser.add_argument("--rows", default="build/release/bench/kernel_rows", help="the program that says what kernels look like")
    parser.add_argument("--machine", default="h200x1")
    options = parser.parse_args()
    kernels = Kernels(options.store, options.rows, options.machine)
    if options.what == "regions":
        return judge_regions(kernels, leave_one_out(kernels))
    return judge(kernels) if options.what == "judge" else make(kernels, options.output)


if __name__ == "__main__":
    sys.exit(main())
