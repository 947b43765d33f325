"""A row of the tables of transfer, the ratios of its runs, and their means over rows."""
import re
import statistics

from go_one import SUFFIX
from runs import number
from tables import mean, milliseconds, table
from transfer_what import Run


class Row:
    """A graph on a machine: what the store says about it."""

    def __init__(self, graph, k, kind, store, go_one, options):
        self.graph, self.kind, self.machine, self.name = graph, kind, f"h200x{k}{SUFFIX[kind]}", f"{graph}, {k}"
        self.store, self.go_one, self.seeds = store, go_one, options.seeds

    def record(self, what, seed):
        return (self.go_one if what == "go-one" else self.store).get(Run(self.graph, self.machine, what, seed))

    def best(self, what, seed):
        record = self.record(what, seed)
        valid = [result for result in record["results"] if result["valid"]] if record else []
        return min(valid, key=lambda result: result["step_s"]) if valid else None

    def value(self, what, seed):
        best = self.best(what, seed)
        return best["step_s"] if best else None

    def note(self, what, seed, pattern):
        """The groups of the pattern in the run's note, as numbers."""
        best = self.best(what, seed)
        found = re.search(pattern, best["note"] or "") if best else None
        return [float(group) for group in found.groups()] if found else None

    def from_note(self, what, seed):
        """Of go-zero, in s: the plan that it began with."""
        best = self.note(what, seed, r"best is at ([\d.]+) of")  # runs of earlier versions
        gain = self.note(what, seed, r"([-\d.]+) % better than the initial plan")
        left = best[0] if best else 1 - gain[0] / 100 if gain else None
        return self.value(what, seed) / left if left else None

    def seconds(self, what, seed):
        if what == "start":
            return self.from_note("greedy", seed)
        return self.value(what, seed)

    def ratios(self, what, base="y0"):
        """what / base, each seed that has both."""
        pairs = [(self.seconds(what, seed), self.seconds(base, seed)) for seed in self.seeds]
        return [above / below for above, below in pairs if above and below]

    def ratio(self, what, base="y0"):
        values = self.ratios(what, base)
        return sum(values) / len(values) if values else None

    def cell(self, what):
        values = self.ratios(what)
        if not values:
            return "-"
        text = f"{sum(values) / len(values):.3f}"
        if f"{min(values):.3f}" != f"{max(values):.3f}":
            text += f" ({min(values):.3f} to {max(values):.3f})"
        return text if len(values) == len(self.seeds) else f"{text}, {len(values)} of {len(self.seeds)} seeds"

    def y0_cell(self):
        values = [self.best("y0", seed) for seed in self.seeds if self.best("y0", seed)]
        if not values:
            return "-"
        average = sum(value["step_s"] for value in values) / len(values)
        return f"{milliseconds(average)} {values[0]['method']}"


def over_rows(rows, what, base="y0"):
    """Geometric mean, median and how many rows."""
    values = [value for value in (row.ratio(what, base) for row in rows) if value]
    return (mean(values), statistics.median(values), len(values)) if values else (None, None, 0)


def per_seed(rows, what, seeds):
    """The geometric mean over the rows that all seeds have, for each seed."""
    complete = [row for row in rows if len(row.ratios(what)) == len(seeds)]
    return [mean([row.ratios(what)[index] for row in complete]) for index in range(len(seeds))] if complete else []


def ratio_table(rows, columns, names=None):
    body = [[row.name, row.y0_cell(), *[row.cell(what) for what in columns]] for row in rows]
    means = [over_rows(rows, what) for what in columns]
    body.append(["geometric mean", "", *[number(value[0], "**{:.4f}**") for value in means]])
    body.append(["median", "", *[number(value[1], "{:.4f}") for value in means]])
    table(["graph, k", "y0, ms", *[(names or {}).get(what, what) for what in columns]], body)
