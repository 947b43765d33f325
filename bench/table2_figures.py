"""From the runs in the store to the figures of table 2: what `--format json` prints, and what the report shows (docs/formats/bench.md).
Times in seconds; None: there is none."""
import math

from table2_what import HDP, PAPER, PLOTTED, ROWS, WHAT, devices_of, run_of, wanted_runs

SUBJECTS = ("go-one", "go-one-alone")
REFERENCES = ("expert", "hdp")
CLEARLY = 0.95  # of random, at most
LEAST_S = 1e-6  # so that ratios of times exist


def mean(values):
    """The geometric mean of those that are there."""
    logs = [math.log(value) for value in values if value]
    return math.exp(sum(logs) / len(logs)) if logs else None


def average(values):
    return sum(values) / len(values) if values else None


def reduction(speedup):
    return None if speedup is None else 1.0 - 1.0 / speedup


def time_to(record, step_s):
    """When a run first had a plan of this step time or better."""
    return next((max(seconds, LEAST_S) for seconds, step in record["found"] if step <= step_s), None)


def whole_search(record):
    """All of its search; where that is not told, what it might have taken."""
    return max(record["budget_s"] if record["search_s"] is None else record["search_s"], LEAST_S)


class Figures:
    """Rows, means and goals. `hdp` is the one of the two that the table is against."""

    def __init__(self, options, store):
        self.options, self.store, self.hdp = options, store, HDP[options.hdp]
        self.runs = wanted_runs(options)
        self.present = [store[run] for run in self.runs if run in store]
        self.rows = [self.row_of(row) for row in options.rows]
        self.means = {"versus": {subject: {reference: self.mean_versus(subject, reference) for reference in REFERENCES}
                                 for subject in SUBJECTS},
                      "search": {subject: self.mean_race(subject) for subject in SUBJECTS}, "paper": paper_means(options.rows)}
        self.goals = {"go_one_alone_below_hdp": self.judge_step(), "search_speedup": self.judge_search(),
                      "hdp_below_random": self.judge_hdp()}

    # ---- runs ----

    def records(self, row, what):
        """(seed, record) of the seeds that the store has."""
        if what not in self.options.what:
            return []
        runs = [run_of(row, what, seed, self.options) for seed in self.options.seeds]
        return [(run.seed, self.store[run]) for run in runs if run in self.store]

    def first_valid(self, row, what):
        return next((record for _, record in self.records(row, what) if record["valid"]), None)

    def pairs(self, row, what, reference):
        """(seed, record, record of the reference) of the seeds that both have and where the reference has a valid plan."""
        others = dict(self.records(row, reference))
        return [(seed, one, others[seed]) for seed, one in self.records(row, what) if seed in others and others[seed]["valid"]]

    # ---- a row ----

    def cell(self, row, what):
        """Means over the seeds."""
        records = [record for _, record in self.records(row, what)]
        steps = [record["step_s"] for record in records if record["valid"]]
        first = self.first_valid(row, what)
        seconds = [record["search_s"] for record in records]
        cell = {"runs": len(records), "valid": len(steps), "step_s": average(steps), "low_s": min(steps, default=None),
                "high_s": max(steps, default=None), "search_s": None if None in seconds else average(seconds),
                "evaluations": average([record["evaluations"] for record in records])}
        if what == self.hdp:
            cell["converged"] = sum(record["converged"] for record in records)
        return dict(cell, method=first and first["method"])

    def versus(self, row, what, reference):
        """Seed by seed, so that a seed that one of them lacks cannot shift the other's mean."""
        pairs = self.pairs(row, what, reference)
        both = [(one["step_s"], other["step_s"]) for _, one, other in pairs if one["valid"]]
        one_s, other_s = map(sum, zip(*both)) if both else (None, None)
        return {"reduction": 1.0 - one_s / other_s if both else None, "speedup": other_s / one_s if both else None, "seeds": len(both),
                "lost": len(pairs) - len(both)}

    def race(self, row, what):
        """How much sooner it had a plan as good as hdp's last one, by seed."""
        speedups, reached, never = [], [], []
        for seed, one, hdp in self.pairs(row, what, self.hdp):
            hdp_s, reach_s = time_to(hdp, hdp["step_s"]), time_to(one, hdp["step_s"])
            if hdp_s is None:
                continue
            speedups.append(hdp_s / (whole_search(one) if reach_s is None else reach_s))  # without: it would have taken longer still
            if reach_s is None:
                never.append(seed)
            else:
                reached.append(reach_s)
        return {"speedup": mean(speedups), "pairs": len(speedups), "reached": len(reached), "reach_s": average(reached), "never": never}

    def last_plan_of_hdp(self, row):
        times = [time_to(record, record["step_s"]) for _, record in self.records(row, self.hdp) if record["valid"]]
        return average([seconds for seconds in times if seconds is not None])

    def row_of(self, row):
        paper, names = PAPER[row], {"hdp": self.hdp}
        line = {"row": row, "devices": devices_of(row), "what": {what: self.cell(row, what) for what in WHAT
                                                                if what not in HDP.values() or what == self.hdp},
                "versus": {subject: {reference: self.versus(row, subject, names.get(reference, reference)) for reference in REFERENCES}
                           for subject in SUBJECTS},
                "search": {subject: self.race(row, subject) for subject in SUBJECTS}, "hdp_last_s": self.last_plan_of_hdp(row),
                "hdp_to_random": self.versus(row, self.hdp, "random"),
                "paper": dict(paper._asdict(), reduction_to_human=1.0 - paper.go_one_s / paper.human_s,
                              reduction_to_hdp=1.0 - paper.go_one_s / paper.hdp_s)}
        first = self.first_valid(row, self.hdp)
        if row in PLOTTED and first:
            line["curve"] = first["curve"]
        return line

    # ---- means ----

    def mean_versus(self, subject, reference):
        speedups = [line["versus"][subject][reference]["speedup"] for line in self.rows]
        return {"reduction": reduction(mean(speedups)), "speedup": mean(speedups), "rows": len(list(filter(None, speedups)))}

    def mean_race(self, subject):
        races = [line["search"][subject] for line in self.rows]
        return {"speedup": mean([race["speedup"] for race in races]), "pairs": sum(race["pairs"] for race in races),
                "reached": sum(race["reached"] for race in races), "rows": sum(race["speedup"] is not None for race in races)}

    # ---- goals ----

    def whole_rows(self, *whats):
        """Where every seed of both sides is in the store."""
        return sum(all(line["what"][what]["runs"] == len(self.options.seeds) for what in whats) for line in self.rows)

    def goal(self, least, value, rows, rows_in_mean):
        """A mean counts when every seed of every row is there and each row is in it."""
        is_open = not self.rows or rows < len(self.rows) or rows_in_mean < len(self.rows)
        return {"least": least, "value": value, "rows": rows, "met": None if is_open else value >= least}

    def judge_step(self):
        """A row where only HDP has a valid plan is in no mean, and decides it."""
        mean_of_rows = self.means["versus"]["go-one-alone"]["hdp"]
        goal = self.goal(0.2, mean_of_rows["reduction"], self.whole_rows("go-one-alone", self.hdp), mean_of_rows["rows"])
        if goal["rows"] == len(self.rows) and any(line["versus"]["go-one-alone"]["hdp"]["lost"] for line in self.rows):
            goal["met"] = False
        return goal

    def judge_search(self):
        """Every plan of HDP's must have been raced against."""
        race = self.means["search"]["go-one-alone"]
        goal = self.goal(15.0, race["speedup"], self.whole_rows("go-one-alone", self.hdp), race["rows"])
        if any(line["search"]["go-one-alone"]["pairs"] < line["what"][self.hdp]["valid"] for line in self.rows):
            goal["met"] = None
        return goal

    def is_clearly_below_random(self, line):
        """None: nothing is told. Where random has no valid plan at all, having one is enough."""
        hdp, random, ratio = line["what"][self.hdp], line["what"]["random"], line["hdp_to_random"]
        is_alone = random["runs"] > 0 and random["valid"] == 0 and hdp["valid"] > 0
        has_none = hdp["runs"] > 0 and hdp["valid"] == 0
        if not has_none and not is_alone and ratio["seeds"] + ratio["lost"] == 0:
            return None
        if hdp["valid"] == 0 or ratio["lost"] > 0:
            return False
        return random["valid"] == 0 or 1.0 - ratio["reduction"] <= CLEARLY

    def judge_hdp(self):
        """One row where hdp is not clearly better than chance, or has no valid plan, decides it, whatever is missing."""
        told = [below for below in map(self.is_clearly_below_random, self.rows) if below is not None]
        goal = self.goal(len(self.rows), sum(told) if told else None, self.whole_rows(self.hdp, "random"), len(told))
        if not all(told):
            goal["met"] = False
        return goal


# ---- the paper ----


def paper_means(rows):
    chosen = [PAPER[row] for row in ROWS if row in rows]
    return {"reduction_to_human": reduction(mean(paper.human_s / paper.go_one_s for paper in chosen)),
            "reduction_to_hdp": reduction(mean(paper.hdp_s / paper.go_one_s for paper in chosen)),
            "search_speedup": mean(paper.search_speedup for paper in chosen)}
