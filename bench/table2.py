#!/usr/bin/env python3
"""Table 2 of the GO paper with our graphs and simulator: makes the runs that the store lacks, then prints the table from the store.

    bench/table2.py --jobs 8 --store table2.jsonl                       all runs, eight at once
    bench/table2.py --quick --rows rnnlm-2,gnmt-4                       a try of minutes
    bench/table2.py --table --hdp-limit 1.6 --format markdown --store docs/results/table2.jsonl.gz

14 rows, each a graph with 2, 4 or 8 devices, and on each expert, metis, the best of the methods that build plans, steer, anneal, hdp (the
learned placement that GO is compared with), go-one, go-one alone (without plans of other methods) and random, with three seeds. Every run
is one call of `stowage compare`.

Every finished run is a line of the store (docs/formats/bench.md), written at once. A second call makes only what is missing; a run is known
by row, machine, what, seed, threads and budget. --table makes none and prints what is there.

A search has 60 s, 300 s on the rows with 8 devices; hdp ends of itself, after at most ten times that (--hdp-limit); each method that builds
plans has 20 s. With --jobs a core for each thread of each run keeps the times honest. HDP decides about units here, as the method 'hdp'
does; --hdp ops sets the table against the published one, which decides about ops.

The table has means over the seeds, reductions 1 - t / t_ref and speed-ups t_ref / t with their geometric means, the time that go-one needs
for a plan as good as HDP's, the figures of the paper, and whether the goals are met. The exit status tells whether the runs could be made,
not whether the goals are met: 0, or 1 if a run failed, or 2 for bad usage or a bad store. Ctrl-C ends the runs that are not done, keeps the
others and prints the table; the exit status is then 130.
"""
import argparse
import os
import pathlib
import signal
import sys

from runs import words
from table2_figures import Figures
from table2_report import report, report_json
from table2_runs import Bench
from table2_what import HDP, ROWS, WHAT, StoreError, open_store, read_store, wanted_runs
from tables import ROOT

QUICK_SCALE, HDP_LIMIT, QUICK_HDP_LIMIT = 1.0 / 12.0, 10.0, 2.0
WHATS = [what for what in WHAT if what != "hdp-ops"]
SAID = ("link", "rows", "what", "seeds", "threads", "budget_scale", "hdp", "hdp_limit")  # what decides which table it is


# ---- the command line ----


def at_least_one(text):
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 to 1024")
    return int(text)


def factor(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-4 <= value <= 1e4:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0.0001 to 10000")
    return value


def seeds(text):
    chosen = text.split(",")
    for word in chosen:
        if not word.isdecimal() or int(word) >= 2**63:
            raise argparse.ArgumentTypeError(f"'{word}' is not a whole number from 0 on")
        if chosen.count(word) > 1:
            raise argparse.ArgumentTypeError(f"'{word}' stands twice")
    return list(map(int, chosen))


def parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="make no runs: print what the store has")
    parser.add_argument("--store", type=pathlib.Path, default=pathlib.Path("table2.jsonl"), help="the finished runs; made if need be")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="write the table here instead of to standard output")
    parser.add_argument("-f", "--format", choices=["text", "markdown", "json"], default="text", help="how the table is written")
    parser.add_argument("--bin", default=str(ROOT / "build/release/stowage"), help="the program")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data/graphs", help="the folder of the graphs")
    parser.add_argument("--quick", action="store_true", help="one seed and a twelfth of the time")
    parser.add_argument("--rows", type=words(list(ROWS)), metavar="A,B,...", help="only these rows, by the names of their graphs")
    parser.add_argument("--what", type=words(WHATS), metavar="A,B,...", help="only these of " + ", ".join(WHATS))
    parser.add_argument("--seeds", type=seeds, metavar="N,N,...", help="1,2,3 unless this says otherwise (--quick: 1)")
    parser.add_argument("--link", choices=["nvlink", "pcie"], default="nvlink", help="the machines h200xN or h200xN-pcie of version 0.1")
    parser.add_argument("--budget-scale", type=factor, metavar="X", help="multiply all budgets of time (--quick: 1/12)")
    parser.add_argument("--hdp", choices=list(HDP), default="units", help="deciding about units, as 'hdp' does, or about ops, as published")
    parser.add_argument("--hdp-limit", type=factor, metavar="X", help="hdp may take so many times the time of a search; 10 (--quick: 2)")
    parser.add_argument("--deadline", type=float, metavar="SECONDS", help="begin no run that might not end within this time from now")
    parser.add_argument("--jobs", type=at_least_one, default=1, help="runs at once, each on cores of its own where there are enough")
    parser.add_argument("--threads", type=at_least_one, default=1, help="of each run")
    parser.add_argument("--commit", help="what to call the program's commit where there is no git")
    return parser


def read_options():
    options = parser().parse_args()
    options.said = {name: getattr(options, name) for name in SAID}
    options.rows = [row for row in ROWS if row in (options.rows or ROWS)]
    options.what = [HDP[options.hdp] if what == "hdp" else what for what in WHATS if what in (options.what or WHATS)]
    options.seeds = options.seeds or ([1] if options.quick else [1, 2, 3])
    options.budget_scale = options.budget_scale or (QUICK_SCALE if options.quick else 1.0)
    options.hdp_limit = options.hdp_limit or (QUICK_HDP_LIMIT if options.quick else HDP_LIMIT)
    return options


def fault(line):
    print(f"table2.py: {line}", file=sys.stderr)
    return 2


def is_same(one, other):
    """Whether two paths are one file, there or not."""
    return os.path.realpath(one) == os.path.realpath(other) or one.exists() and other.exists() and one.samefile(other)


def complaint_of(options):
    """What is wrong before anything is run: whoever starts hours of runs wants to know first."""
    product = options.budget_scale * options.hdp_limit
    if not 1e-6 <= product <= 1e6:
        return f"--budget-scale times --hdp-limit is {product:g}: not from 0.000001 to 1000000"
    if options.output and is_same(options.output, options.store):
        return f"--output: '{options.output}' is the store; the table would overwrite it"
    if options.output and not options.output.parent.is_dir():
        return f"--output: there is no folder '{options.output.parent}'"
    if options.table:
        return None
    if not os.access(options.bin, os.X_OK):
        return f"there is no program {options.bin}: build it, or name it with --bin"
    missing = [row for row in options.rows if not os.access(options.data / f"{row}.json.gz", os.R_OK)]
    return f"there is no {options.data / missing[0]}.json.gz; --data names the folder of the graphs" if missing else None


# ---- the work ----


def make_runs(options):
    """The store, and the exit status."""
    store, file = open_store(options.store)
    with file:
        bench = Bench(options, store, wanted_runs(options))

        def interrupt(*_):
            bench.stopped = True

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)
        try:
            bench.make_all()
        except KeyboardInterrupt:
            print("interrupted; what is finished is in the store", file=sys.stderr)
            return store, 130
    return store, 1 if bench.failed else 0


def main():
    options = read_options()
    complaint = complaint_of(options)
    if complaint:
        return fault(complaint)
    try:
        store, status = (read_store(options.store)[0], 0) if options.table else make_runs(options)
        figures = Figures(options, store)
        text = report_json(figures) if options.format == "json" else report(figures, options.format == "markdown")
        if options.output:
            options.output.write_text(text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
    except StoreError as error:
        return fault(error)
    except OSError as error:
        return fault(f"{options.output or 'standard output'}: cannot be written: {error.strerror}")
    return status


if __name__ == "__main__":
    sys.exit(main())
