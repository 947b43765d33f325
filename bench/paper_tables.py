"""What the store of bench/paper.py comes to: tables in Markdown and curves as SVG."""
import collections
import csv
import gzip
import json
import math

from table2_what import PAPER

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#666666", "#e69f00"]
CURVES = ["GO-one", "GO untrained", "GO at random", "GO-batch, fine-tuned", "GDP-one", "anneal"]
TABLES = [("Other methods", ["one device", "expert", "METIS", "HDP", "Placeto", "anneal, blind", "anneal", "go-one", "optimize"]),
          ("GO and GDP on one graph, and what learning adds", ["expert", "GDP at random", "GDP untrained", "GDP-one", "GO at random", "GO untrained", "GO-one"]),
          ("One network for many graphs, the row's family held out", ["GDP-one", "GDP-batch drawn, zero-shot", "GDP-batch, zero-shot", "GDP-batch, fine-tuned",
           "GO-one", "GO-batch drawn, zero-shot", "GO-batch, zero-shot", "GO-batch, fine-tuned"])]
PAIRS = [("GDP-one", "GDP untrained"), ("GDP untrained", "GDP at random"), ("GO-one", "GO untrained"), ("GO untrained", "GO at random"),
         ("GDP-batch, zero-shot", "GDP-batch drawn, zero-shot"), ("GO-batch, zero-shot", "GO-batch drawn, zero-shot"),
         ("GDP-batch, zero-shot", "one device"), ("GO-batch, zero-shot", "one device"), ("GDP-batch, fine-tuned", "GDP-one"),
         ("GO-batch, fine-tuned", "GO-one"), ("GO-batch, fine-tuned", "expert"), ("GO-one", "GDP-one"), ("GO-one", "expert"), ("GO-one", "HDP"),
         ("GO-one", "METIS"), ("GO-one", "Placeto"), ("GO-one", "go-one"), ("GO-one", "anneal"), ("GO-one", "optimize")]


def read_store(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in (gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()).splitlines()]


def training_curve(path):
    """[greedy, mean of the samples] of each update, over the initial plans of its problems."""
    with open(path, newline="") as file:
        return [[round(float(row[name]), 5) if row[name] else None for name in ("greedy", "mean")] for row in csv.DictReader(file)]


def outcome_of(report):
    """What the store keeps of a report of `compare` with one method, or of `optimize`: there all that it tried counts, one after the other."""
    if isinstance(report, list):
        entry = report[0]["methods"][0]
        tried, seconds, found = [entry], [entry["search_s"]], [entry["found"]]
    else:
        entry = report
        tried, seconds, found = entry["candidates"], entry["timings"]["search_s"], entry["timings"]["found"]
    steps, before, best = [], 0, math.inf
    for one, of in zip(tried, found):
        for _, tries, step in of:
            if step < best:
                best = step
                steps.append([before + tries, step])
        before += one["evaluations"]
    return {"step_s": entry["step_s"] if entry["valid"] else None, "reason": entry.get("reason") or "", "evaluations": before,
            "search_s": round(sum(seconds), 4), "found": steps}


def cell(found):
    """Milliseconds: mean over the seeds, and their range where they differ."""
    valid = [one["step_s"] for one in found if one["step_s"] is not None]
    if not found:
        return "-"
    if not valid:
        return "does not fit"
    text, least, most = (f"{1000 * value:.2f}" for value in (sum(valid) / len(valid), min(valid), max(valid)))
    if least != most:
        text += f" ({least} to {most})"
    return text + (f", {len(found) - len(valid)} of {len(found)} do not fit" if len(valid) < len(found) else "")


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class Figures:
    """The runs of some rows, columns and seeds. key_of(row, what, seed): how the store knows a run."""

    def __init__(self, store, rows, whats, seeds, key_of):
        known = {tuple(one["key"]): one for one in store}
        self.rows, self.whats, self.seeds = rows, whats, seeds
        self.runs = {(row, what, seed): known[tuple(key_of(row, what, seed))] for row in rows for what in whats for seed in seeds
                     if tuple(key_of(row, what, seed)) in known}

    def of(self, row, what):
        return [self.runs[row, what, seed] for seed in self.seeds if (row, what, seed) in self.runs]

    def ratios(self, what, other):
        """By seed: of each row where both are valid, the step time of `what` over that of `other`."""
        out = collections.defaultdict(dict)
        for row in self.rows:
            for seed in self.seeds:
                one, two = self.runs.get((row, what, seed)), self.runs.get((row, other, seed))
                if one and two and one["step_s"] and two["step_s"]:
                    out[seed][row] = one["step_s"] / two["step_s"]
        return out


# ---- tables ----


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f} %"


def print_provenance(figures):
    commits, dates, kinds = (sorted({one[word] for one in figures.runs.values()}) for word in ("commit", "date", "cpu"))
    print(f"{len(figures.runs)} runs; commit {', '.join(commits)}; {', '.join(dates)}; {', '.join(kinds)}. \"-\": not measured.\n")


def print_steps(figures):
    for heading, whats in TABLES:
        print(f"### {heading}\n\n| | " + " | ".join(whats) + " |\n| --- |" + " --- |" * len(whats))
        for row in figures.rows:
            print(f"| {row.replace('@', ', ')} | " + " | ".join(cell(figures.of(row, what)) for what in whats) + " |")
        print()


def print_effort(figures):
    """Of all rows and seeds."""
    print("### Evaluations and processor time\n\n| | evaluations | seconds, mean | seconds, most |\n| --- | --- | --- | --- |")
    for what in figures.whats:
        runs = [one for (_, name, _), one in figures.runs.items() if name == what]
        if runs:
            counts, seconds = [one["evaluations"] for one in runs], [one["search_s"] for one in runs]
            print(f"| {what} | {min(counts)} to {max(counts)} | {sum(seconds) / len(seconds):.2f} | {max(seconds):.1f} |")
    print()


def print_pairs(figures):
    print("### One over the other\n\nStep time, geometric means over rows and seeds.\n\n| | h200xN | h200xN-pcie | all rows | all rows, seed by seed | "
          "rows in which it is ahead | rows |\n| --- |" + " --- |" * 6)
    for what, other in PAIRS:
        by_seed = figures.ratios(what, other)
        if not by_seed:
            continue
        pcie = {links: [value for of in by_seed.values() for row, value in of.items() if row.endswith("-pcie") == links] for links in (False, True)}
        rows = sorted({row for of in by_seed.values() for row in of})
        ahead = sum(geometric([of[row] for of in by_seed.values() if row in of]) < 0.9999 for row in rows)
        means = [percent(geometric(values)) if values else "-" for values in (pcie[False], pcie[True], pcie[False] + pcie[True])]
        print(f"| {what} over {other} | {' | '.join(means)} | {', '.join(percent(geometric(list(of.values()))) for _, of in sorted(by_seed.items()))} | "
              f"{ahead} | {len(rows)} |")
    print()


def reduction(steps, other):
    """1 - t / t of the other, of means over seeds; empty where one has no plan that fits."""
    mine, theirs = ([one["step_s"] for one in runs if one["step_s"]] for runs in (steps, other))
    return f"{100 * (1 - (sum(mine) / len(mine)) / (sum(theirs) / len(theirs))):.1f}" if mine and theirs else "-"


def print_beside_paper(figures):
    """Reductions of the step time, in percent; the paper's computed from its seconds."""
    against = {"expert": "human_s", "HDP": "hdp_s", "METIS": "metis_s"}
    print("### Beside the paper\n\nWhat GO-one as published and ours save of the step time of others, 1 - t / t of the other, in percent; negative: it "
          "takes longer. The paper's from its seconds: its TensorFlow models on P100 GPUs, placement alone; OOM: METIS had no plan that fits.\n")
    print("| | " + " | ".join(f"to {name}: paper | GO-one | go-one" for name in against) + " |\n| --- |" + " --- |" * (3 * len(against)))
    for row in figures.rows:
        paper = PAPER[row.split("@")[0]]
        cells = []
        for name, theirs in against.items():
            theirs = getattr(paper, theirs)
            cells += [f"{100 * (1 - paper.go_one_s / theirs):.1f}" if theirs else "OOM",
                      reduction(figures.of(row, "GO-one"), figures.of(row, name)), reduction(figures.of(row, "go-one"), figures.of(row, name))]
        print(f"| {row.replace('@', ', ')} | " + " | ".join(cells) + " |")
    print()


def print_tables(figures):
    print_provenance(figures)
    print_steps(figures)
    print_pairs(figures)
    print_beside_paper(figures)
    print_effort(figures)


# ---- curves ----


def best_after(run, evaluations):
    """The best step within so many evaluations; None: none was valid."""
    steps = [step for tries, step in run["found"] if tries <= evaluations]
    return min(steps) if steps else None


def curve_of(figures, what, rows, counts):
    """Geometric mean over rows and seeds of the best step so far over that of the expert; a point where all runs have a plan."""
    out = []
    for count in counts:
        ratios = []
        for row in rows:
            for seed in figures.seeds:
                run, expert = figures.runs.get((row, what, seed)), figures.runs.get((row, "expert", seed))
                best = best_after(run, count) if run and expert and expert["step_s"] else None
                ratios.append(best / expert["step_s"] if best else None)
        present = [ratio for ratio in ratios if ratio is not None]
        if present and len(present) == sum((row, what, seed) in figures.runs for row in rows for seed in figures.seeds):
            out.append((count, geometric(present)))
    return out


def svg_of(title, what, lines, labels, logarithmic=True):
    """lines: [(x, y)] by name, x above 0; labels: numbers below."""
    top, bottom = max(v for line in lines.values() for _, v in line), min(v for line in lines.values() for _, v in line)
    scale = math.log if logarithmic else float
    left, right = (scale(end(at for line in lines.values() for at, _ in line)) for end in (min, max))
    left = min(left, scale(labels[0]))
    x = lambda at: 60 + 520 * (scale(at) - left) / max(1e-9, right - left)
    y = lambda value: 300 - 260 * (value - bottom) / max(1e-9, top - bottom)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="620" height="370" font-family="sans-serif" font-size="12" fill="#444"><title>{title}</title>',
             f'<text x="60" y="20">{title}: {what}</text>']
    parts += [f'<text x="{x(at):.1f}" y="320" text-anchor="middle">{at}</text>' for at in labels]
    for k in range(5):
        value = bottom + (top - bottom) * k / 4
        parts.append(f'<path d="M60 {y(value):.1f}H580" stroke="#ddd"/><text x="52" y="{y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for k, (name, line) in enumerate(lines.items()):
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[k % len(COLOURS)]}" stroke-width="2"/>'
                     f'<text x="{60 + 175 * (k % 3)}" y="{342 + 16 * (k // 3)}" fill="{COLOURS[k % len(COLOURS)]}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def plot(figures, folder):
    most = max(one["evaluations"] for one in figures.runs.values())
    counts = sorted({max(1, round(most ** (k / 15))) for k in range(16)})
    for links in ("", "-pcie"):
        rows = [row for row in figures.rows if row.endswith("-pcie") == bool(links)]
        lines = {what: curve_of(figures, what, rows, counts) for what in CURVES}
        lines = {what: line for what, line in lines.items() if line}
        if lines:
            svg = svg_of(f"0.1/h200xN{links}", "best step over the expert's, by evaluations", lines, counts[::-3][::-1])
            (folder / f"paper{links or '-nvlink'}.svg").write_text(svg)


def plot_trainings(store, amount, folder):
    """The mean over all trainings of a preset, update by update."""
    lines = {}
    for preset, name in (("paper", "GO-batch"), ("gdp", "GDP-batch")):
        curves = [one["curve"] for one in store if one["key"][0] == "training" and one["key"][1].startswith(preset + amount)]
        for column, what in enumerate(("without noise", "mean of samples")) if curves else []:
            found = [[curve[k][column] for curve in curves if curve[k][column] is not None] for k in range(len(curves[0]))]
            lines[f"{name}, {what}"] = [(k + 1, geometric(values)) for k, values in enumerate(found) if values]
    if lines:
        last = max(at for line in lines.values() for at, _ in line)
        labels = sorted({1, max(1, last // 3), max(1, 2 * last // 3), last})
        svg = svg_of("Training on many graphs", "step over that of the problems' initial plans, by update", lines, labels, False)
        (folder / "paper-training.svg").write_text(svg)
