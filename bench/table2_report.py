"""Table 2 for people, in text or Markdown, and for programs."""
import datetime
import json
import math
import textwrap

from table2_figures import REFERENCES, SUBJECTS
from table2_what import PLOTTED

CAUTION = ("The paper's figures are of another experiment: its TensorFlow models, measured on P100 GPUs; ours are training steps of models "
           "of the same kinds in PyTorch operators, with op times measured on an H200 and steps on several devices simulated, so only "
           "ratios within one experiment can be set side by side.")
PLOT_LINES, PLOT_COLUMNS = 12, 60


def command_of(options):
    """The call that makes the same table; files are left out."""
    words = ["bench/table2.py", *["--quick"] * options.quick]
    for name, value in options.said.items():
        if value is not None:
            shown = ",".join(map(str, value)) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)
            words += [f"--{name.replace('_', '-')}", shown]
    return " ".join(words)


def places_of(records):
    """Groups of runs that were made alike."""
    names, places = ("date", "version", "commit", "processor", "cores", "jobs"), {}
    for record in records:
        place = tuple(record[name] for name in names)
        places[place] = places.get(place, 0) + 1
    return [dict(zip(names, place), runs=count) for place, count in places.items()]


# ---- for programs ----


def report_json(figures):
    options = figures.options
    head = {"format": "bench", "version": 1, "bench": "table2", "command": command_of(options), "date": str(datetime.date.today()),
            "link": options.link, "seeds": options.seeds, "threads": options.threads, "budget_scale": options.budget_scale,
            "hdp_limit": options.hdp_limit, "hdp": figures.hdp, "runs": len(figures.runs), "present": len(figures.present),
            "made": places_of(figures.present)}
    means = dict(figures.means, paper=dict(figures.means["paper"], caution=CAUTION))
    return json.dumps(dict(head, rows=figures.rows, means=means, goals=figures.goals)) + "\n"


# ---- cells ----


class Bold(str):
    """A cell that is printed in bold where there is bold."""


def number(value):
    return "-" if value is None else f"{value:.4g}"


def milliseconds(seconds):
    return number(seconds and 1e3 * seconds)


def percent(share):
    return "-" if share is None else f"{100.0 * share:.1f} %"


def speedup(race):
    """<: an upper bound."""
    return number(race["speedup"]) if race["reached"] == race["pairs"] else f"< {race['speedup']:.4g}"


def versus(pair):
    return [percent(pair["reduction"]), number(pair["speedup"])]


def bold(cells):
    return [Bold(cell) if cell not in ("", "-") else cell for cell in cells]


def with_unit(seconds, digits):
    """In the unit that leaves one to three digits before the point."""
    value, unit, nearly = 1e9 * seconds, 0, 1.0 - 0.5 * 10.0**-digits  # 999.9 rounds up into the next unit
    while unit < 3 and value >= 1000.0 * nearly:
        value, unit = value / 1000.0, unit + 1
    before = digits if value == 0.0 else math.floor(math.log10(value / nearly)) + 1
    decimals = 0 if before >= digits else digits - 1 if before < 1 else digits - before
    return f"{value:.{decimals}f} {('ns', 'us', 'ms', 's')[unit]}"


# ---- a curve in characters ----


def plot(curve):
    """The best plan so far, and on top of it the mean of the valid samples; a column stands for the last of its updates."""
    values = [value for row in curve for value in row[3:] if value is not None]
    if not values:
        return ""
    low, high = min(values), max(values)
    cells = [[" "] * PLOT_COLUMNS for _ in range(PLOT_LINES)]
    for column in range(PLOT_COLUMNS):
        _, _, _, mean, best = curve[((column + 1) * len(curve) + PLOT_COLUMNS - 1) // PLOT_COLUMNS - 1]
        for value, sign in ((best, "-"), (mean, "*")):
            if value is not None:
                share = (high - value) / (high - low) if high > low else 1.0
                cells[math.floor(share * (PLOT_LINES - 1) + 0.5)][column] = sign
    lines = [f"\n  {'':12}  * mean of the valid samples   - best plan so far"]
    for index, line in enumerate(cells):
        down = index / (PLOT_LINES - 1)
        label = with_unit(high * (1.0 - down) + low * down, 5) if index in (0, PLOT_LINES // 2, PLOT_LINES - 1) else ""
        lines.append(f"  {label:>12} |{''.join(line).rstrip()}")
    first, last = f"{curve[0][0] + 1:,}", f"{curve[-1][0] + 1:,}"
    lines += [f"  {'':12} +{'-' * PLOT_COLUMNS}", f"  {'update':>12}  {first:<{PLOT_COLUMNS - len(last)}}{last}"]
    return "\n".join(lines) + "\n"


# ---- a page ----


class Page:
    def __init__(self, markdown):
        self.markdown, self.parts = markdown, []

    def say(self, text):
        self.parts.append(text)

    def heading(self, text):
        self.say(f"\n{'## ' if self.markdown else ''}{text}\n\n")

    def paragraph(self, text):
        """A line break is as good as a blank in Markdown."""
        self.say(textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False) + "\n\n")

    def table(self, titles, rows, left=(0,)):
        """`left`: the columns that are aligned to the left."""
        if self.markdown:
            self.markdown_table(titles, rows, left)
            return
        widths = [max(map(len, column)) for column in zip(titles, *rows)]
        for row in [titles, *rows]:
            cells = [cell.ljust(width) if index in left else cell.rjust(width) for index, (cell, width) in enumerate(zip(row, widths))]
            self.say("  " + "  ".join(cells).rstrip() + "\n")

    def markdown_table(self, titles, rows, left):
        def shown(cell):
            text = "".join("\\" + character if character in "|\\*<`" else character for character in cell)
            return f" **{text}** |" if isinstance(cell, Bold) else f" {text} |"

        rule = "".join(" --- |" if index in left else " ---: |" for index in range(len(titles)))
        self.say("".join(f"|{line}\n" for line in ("".join(map(shown, titles)), rule, *["".join(map(shown, row)) for row in rows])))


# ---- the parts of the report ----


def say_head(page, figures):
    options, tick = figures.options, "`" if page.markdown else ""
    page.say(f"{'# ' if page.markdown else ''}GO's table 2 on {'h200xN-pcie' if options.link == 'pcie' else 'h200xN'}\n\n")
    page.say(f"{tick}{command_of(options)}{tick}\nPrinted on {datetime.date.today()}. {len(figures.present)} of {len(figures.runs)} runs "
             f"are present; what is missing shows as -. Seeds {', '.join(map(str, options.seeds))}; {options.threads} "
             f"thread{'' if options.threads == 1 else 's'} each.\n")
    if options.budget_scale != 1.0:
        page.say(f"All budgets of time are multiplied by {options.budget_scale:g}.\n")
    page.say("\n")
    for place in places_of(figures.present):
        page.say(f"- {place['runs']} runs: {place['date']}, {place['processor'] or 'unknown processor'}, {place['cores']} cores, "
                 f"{place['jobs']} at a time, stowage {place['version']}, commit {place['commit'] or 'not stated'}\n")


def step_cell(figures, cell, names_method):
    if cell["valid"] == 0:
        return "-" if cell["runs"] == 0 else "no plan"
    text = milliseconds(cell["step_s"])
    if cell["high_s"] > cell["low_s"] * (1.0 + 1e-4):
        text += f" ({milliseconds(cell['low_s'])} to {milliseconds(cell['high_s'])})"
    if names_method:
        text += f" {cell['method']}"
    seeds = len(figures.options.seeds)
    return text if cell["valid"] == seeds else f"{text}, {cell['valid']} of {seeds}"


def say_steps(page, figures):
    page.heading("Step time, ms")
    page.paragraph("Mean over the seeds, with the smallest and the largest where they differ. constructive: the best of single, expert, "
                   "metis, etf, heft, sct, topo and spread, and which (of the first seed). go-one alone: without plans of other methods "
                   "(--initial-plans no).")
    whats = ["expert", "metis", figures.hdp, "constructive", "steer", "anneal", "go-one", "go-one-alone"]
    page.table(["row", "expert", "METIS", "HDP", "constructive", "steer", "anneal", "go-one", "go-one alone"],
               [[line["row"], *[step_cell(figures, line["what"][what], what == "constructive") for what in whats]]
                for line in figures.rows])


def say_versus(page, figures):
    def cells(pairs):
        return [cell for subject in SUBJECTS for reference in REFERENCES for cell in versus(pairs[subject][reference])]

    page.heading("Against expert and HDP")
    page.paragraph("Of the means over the seeds that both have: reduction = 1 - t / t_ref, speed-up = t_ref / t. The last line is the "
                   "geometric mean of the rows that have both (reduction: 1 - mean of t / t_ref).")
    page.table(["row", "go-one to expert", "speed-up", "to HDP", "speed-up", "alone to expert", "speed-up", "to HDP", "speed-up"],
               [*[[line["row"], *cells(line["versus"])] for line in figures.rows],
                [Bold("geometric mean"), *bold(cells(figures.means["versus"]))]])


def say_never(page, figures, subject):
    race = figures.means["search"][subject]
    name = subject.replace("-alone", " alone")
    page.say(f"\n{name} has a plan as good as HDP's last in {race['reached']} of {race['pairs']} pairs of runs.")
    never = [(line["row"], line["search"][subject]) for line in figures.rows if line["search"][subject]["never"]]
    if never:
        rows = [f"{row} (seed {' '.join(map(str, one['never']))}{'' if one['reached'] else '; never'})" for row, one in never]
        page.say(f" {race['pairs'] - race['reached']} are in the means with an upper bound: {', '.join(rows)}.")
    page.say("\n")


def say_races(page, figures):
    page.heading("Search time")
    page.paragraph("When HDP found its last plan, when the others first had one at least as good, and the geometric mean over the seeds of "
                   "the ratio (search speed-up); then how long each search took. A search that never had one counts with HDP's time over "
                   "all of its own, which is more than its speed-up (<). The last line is the geometric mean of the rows.")
    page.paragraph("go-one's first plans are those of 60 constants for its list scheduler (and, unless alone, of other methods), made "
                   "before anything is learnt: to be as good as HDP in the first tenths of a second is the decoder's merit, not "
                   "that of learning.")
    rows = []
    for line in figures.rows:
        races = [line["search"][subject] for subject in SUBJECTS]
        searches = [line["what"][what]["search_s"] for what in (figures.hdp, "anneal", *SUBJECTS)]
        raced = [cell for race in races for cell in (number(race["reach_s"]), speedup(race))]
        rows.append([line["row"], number(line["hdp_last_s"]), *raced, *map(number, searches)])
    means = bold([speedup(figures.means["search"][subject]) for subject in SUBJECTS])
    rows.append([Bold("geometric mean"), "", "", means[0], "", means[1], "", "", "", ""])
    page.table(["row", "HDP's last plan, s", "go-one, s", "speed-up", "alone, s", "speed-up", "search: HDP, s", "anneal", "go-one",
                "alone"], rows)
    for subject in SUBJECTS:
        say_never(page, figures, subject)


def ratio_cells(paper, pairs, races):
    """Reductions to the expert's and to HDP's step time, and search speed-ups: the paper's, go-one's, go-one's alone."""
    cells = []
    for reference, theirs in zip(REFERENCES, ("reduction_to_human", "reduction_to_hdp")):
        cells += [percent(paper[theirs]), *[percent(pairs[subject][reference]["reduction"]) for subject in SUBJECTS]]
    return [*cells, number(paper["search_speedup"]), *[speedup(races[subject]) for subject in SUBJECTS]]


def say_paper(page, figures):
    page.heading("Beside the paper")
    page.paragraph(CAUTION)
    page.paragraph("Step times, the paper's in seconds (- for METIS: out of memory), ours in milliseconds; its WaveNets are larger than "
                   "ours.")
    ours = [*SUBJECTS, "expert", "metis", figures.hdp]
    page.table(["row", "paper's model", "GO-one, s", "human, s", "METIS, s", "HDP, s", "go-one, ms", "alone, ms", "expert, ms", "METIS, ms",
                "HDP, ms"],
               [[line["row"], line["paper"]["name"],
                 *[number(line["paper"][name]) for name in ("go_one_s", "human_s", "metis_s", "hdp_s")],
                 *[milliseconds(line["what"][what]["step_s"]) for what in ours]] for line in figures.rows], left=(0, 1))
    page.say("\n")
    page.paragraph("Reductions 1 - t / t_ref, the paper's computed from its seconds with the same definition, and search speed-ups.")
    means = figures.means
    page.table(["row", "to human: paper", "go-one", "alone", "to HDP: paper", "go-one", "alone", "search speed-up: paper", "go-one",
                "alone"],
               [*[[line["row"], *ratio_cells(line["paper"], line["versus"], line["search"])] for line in figures.rows],
                [Bold("geometric mean"), *bold(ratio_cells(means["paper"], means["versus"], means["search"]))]])


def say_hdp(page, figures):
    page.heading("HDP")
    page.paragraph("This HDP decides about units (as the method 'hdp' does unless told otherwise), which makes it stronger than the "
                   "published one: --hdp ops." if figures.hdp == "hdp" else
                   "This HDP decides about ops, as published (hdp with --units off); about units it is stronger: --hdp units.")
    page.paragraph("Means over the seeds, HDP / random of those that both have. HDP ends of itself when its plan has not become better for "
                   "long, or is cut at its limit of time; the last column counts the runs that ended of themselves.")
    rows = []
    for line in figures.rows:
        hdp, below = line["what"][figures.hdp], line["hdp_to_random"]["speedup"]
        ends = [f"{math.floor(hdp['evaluations'] + 0.5):,}", f"{hdp['converged']} of {hdp['runs']}"] if hdp["runs"] else ["-", "-"]
        rows.append([line["row"], milliseconds(line["what"]["random"]["step_s"]), milliseconds(hdp["step_s"]),
                     number(below and 1.0 / below), number(hdp["search_s"]), *ends])
    page.table(["row", "random, ms", "HDP, ms", "HDP / random", "search, s", "evaluations", "ended of itself"], rows)
    for line in figures.rows:
        first = figures.first_valid(line["row"], figures.hdp)
        if line["row"] in PLOTTED and first and first["curve"]:
            fence = "```" if page.markdown else ""
            page.say(f"\n{first['row']} on {first['machine']}, seed {first['seed']}:\n" + ("\n" + fence if fence else ""))
            page.say(plot(first["curve"]) + (fence + "\n" if fence else ""))


GOALS = {"go_one_alone_below_hdp": "go-one alone is below HDP: reduction (geometric mean)",
         "search_speedup": "go-one alone has a plan as good as HDP's sooner: search speed-up (geometric mean)",
         "hdp_below_random": "HDP is clearly below random, at most 0.95 of it, on every row; rows"}


def say_reservations(page, figures):
    """What a verdict rests on."""
    race = figures.means["search"]["go-one-alone"]
    runs, ended = [sum(line["what"][figures.hdp][name] for line in figures.rows) for name in ("runs", "converged")]
    if race["reached"] < race["pairs"]:
        page.say(f"\nThe search speed-up is an upper bound: in {race['pairs'] - race['reached']} of the {race['pairs']} pairs of runs "
                 "go-one alone never has a plan as good as HDP's.\n")
    if ended < runs:
        page.say(f"\n{runs - ended} of the {runs} HDP runs were cut at their limit of time; with more they might have come to better "
                 "plans, so what is said of HDP holds for this limit.\n")
    elif runs > 0:
        page.say(f"\nNone of the {runs} HDP runs was cut at its limit of time.\n")


def say_goals(page, figures):
    page.heading("Goals")
    page.paragraph("A row is whole when every seed of both sides is in the store. A goal is open until all rows are; the last one is lost "
                   "as soon as one row is.")
    verdicts = {None: Bold("open"), True: Bold("met"), False: Bold("NOT met")}
    page.table(["goal", "at least", "is", "whole rows", ""],
               [[GOALS[key], number(goal["least"]), number(goal["value"]), f"{goal['rows']} of {len(figures.rows)}", verdicts[goal["met"]]]
                for key, goal in figures.goals.items()], left=(0, 4))
    missing = len(figures.runs) - len(figures.present)
    if missing:
        page.say(f"\nRuns are missing: {missing} of {len(figures.runs)}.\n")
    say_reservations(page, figures)


def report(figures, markdown):
    page = Page(markdown)
    for part in (say_head, say_steps, say_versus, say_races, say_paper, say_hdp, say_goals):
        part(page, figures)
    return "".join(page.parts)
