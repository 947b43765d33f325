"""What table 2 of the GO paper is of: its rows with the paper's figures, what is run on each, and the store of finished runs
(docs/formats/bench.md)."""
import collections
import fcntl
import gzip
import json
import sys

# GO, table 2: devices; the paper's model; GO-one, human expert, METIS, HDP in seconds per step (None: out of memory); search speed-up over
# HDP. Its WaveNets are larger.
ROWS = {
    "rnnlm-2": (2, "RNNLM-2", 0.173, 0.192, 0.355, 0.191, 2.95),
    "rnnlm-4": (4, "RNNLM-4", 0.210, 0.239, 0.503, 0.251, 1.76),
    "rnnlm-8": (8, "RNNLM-8", 0.320, 0.332, None, 0.764, 27.8),
    "gnmt-2": (2, "GNMT-2", 0.301, 0.384, 0.344, 0.327, 30.0),
    "gnmt-4": (4, "GNMT-4", 0.350, 0.469, 0.466, 0.432, 58.8),
    "gnmt-8": (8, "GNMT-8", 0.440, 0.562, None, 0.693, 7.35),
    "transformer-xl-2": (2, "Transformer-XL-2", 0.223, 0.268, 0.37, 0.262, 40.0),
    "transformer-xl-4": (4, "Transformer-XL-4", 0.230, 0.27, None, 0.259, 26.7),
    "transformer-xl-8": (8, "Transformer-XL-8", 0.350, 0.46, None, 0.425, 16.7),
    "inception-v3-b32": (2, "Inception b32", 0.229, 0.312, None, 0.301, 13.5),
    "inception-v3-b64": (2, "Inception b64", 0.423, 0.731, None, 0.498, 21.0),
    "amoebanet": (4, "AmoebaNet", 0.394, 0.44, 0.426, 0.418, 58.8),
    "wavenet-2x9": (2, "WaveNet 2x18", 0.317, 0.376, None, 0.354, 6.67),
    "wavenet-4x9": (4, "WaveNet 4x36", 0.659, 0.988, None, 0.721, 20.0),
}
Paper = collections.namedtuple("Paper", "name go_one_s human_s metis_s hdp_s search_speedup")
PAPER = {row: Paper(*figures[1:]) for row, figures in ROWS.items()}
PLOTTED = ["rnnlm-2", "gnmt-4", "inception-v3-b32"]  # where the learning curve of hdp is shown
# What is run: methods (the best of them counts) and more arguments. In the order of the runs: what all others are compared with first.
WHAT = {
    "random": ("random", []),
    "expert": ("expert", []),
    "metis": ("metis", []),
    "constructive": ("single,expert,metis,etf,heft,sct,topo,spread", []),
    "steer": ("steer", []),
    "hdp": ("hdp", []),  # as this project has it: it decides about units
    "go-one": ("go-one", []),
    "go-one-alone": ("go-one", ["--initial-plans", "no"]),
    "anneal": ("anneal", []),
    "hdp-ops": ("hdp", ["--units", "off"]),  # in place of hdp: as published, it decides about ops
}
HDP = {"units": "hdp", "ops": "hdp-ops"}
SEARCHES = [*HDP.values(), "go-one", "go-one-alone", "anneal"]  # take all the time that they get, or nearly
BUILD_S, SEARCH_S, LONG_SEARCH_S = 20.0, 60.0, 300.0  # for each method that builds plans; for a search; for one with 8 devices

Run = collections.namedtuple("Run", "row machine what seed threads budget_s")  # what a run is known by


# ---- runs ----


def devices_of(row):
    return ROWS[row][0]


def run_of(row, what, seed, options):
    budget = (LONG_SEARCH_S if devices_of(row) == 8 else SEARCH_S) if what in SEARCHES else BUILD_S
    if what in HDP.values():
        budget *= options.hdp_limit
    machine = f"h200x{devices_of(row)}" + ("-pcie" if options.link == "pcie" else "")
    return Run(row, machine, what, seed, options.threads, max(1e-6, round(budget * options.budget_scale, 6)))


def wanted_runs(options):
    """Those that build plans first, then seed by seed, so that a deadline leaves whole seeds; of a seed the longest first, so that the last
    ones end at about the same time."""
    rows, whats = list(ROWS), list(WHAT)
    runs = [run_of(row, what, seed, options) for row in options.rows for what in options.what for seed in options.seeds]
    return sorted(runs, key=lambda run: (run.what in SEARCHES, run.seed, -run.budget_s, rows.index(run.row), whats.index(run.what)))


def ends_of_itself(run, search_s):
    """A search looks at the time only while it goes on: one that ends before its budget has ended of itself. The two clocks are less than
    a millisecond apart."""
    return run.what in HDP.values() and search_s is not None and search_s < run.budget_s - 0.001


# ---- a line of the store ----


def check_number(name, value, least=0.0, most=1e12, above=False):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is not a number")
    if not (least <= value <= most) or above and value == least:
        raise ValueError(f"{name}: {value!r:.40} is out of range")


def check_count(name, value, most=10**15):
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is not a whole number")
    check_number(name, value, most=most)


def check_step(name, value):
    check_number(name, value, above=True)


def check_columns(name, rows, checks):
    if not isinstance(rows, list):
        raise ValueError(f"{name} is no list")
    for row in rows:
        if not isinstance(row, list) or len(row) != len(checks):
            raise ValueError(f"{name}: a row has not {len(checks)} columns")
        for value, (check, may_be_null) in zip(row, checks):
            if value is not None or not may_be_null:
                check(name, value)


def run_in(record):
    missing = [name for name in Run._fields if name not in record]
    if missing:
        raise ValueError(f"is no run of this bench: {', '.join(missing)} missing")
    for name in ("row", "machine", "what"):
        if not isinstance(record[name], str):
            raise ValueError(f"{name} is not text")
    check_count("seed", record["seed"], most=2**63 - 1)
    check_count("threads", record["threads"], most=2**31 - 1)
    check_step("budget_s", record["budget_s"])
    return Run(**{name: record[name] for name in Run._fields})._replace(budget_s=round(record["budget_s"], 6))


def completed(record, run):
    """The record with all that a report asks for. Texts go into reports: nothing in them may end a line."""
    full = {"step_s": None, "valid": False, "search_s": None, "evaluations": 0, "jobs": 0, "cores": 0, "found": [], "curve": [], **record}
    for name in ("method", "note", "version", "commit", "date", "processor"):
        full[name] = "".join(character if character.isprintable() else "?" for character in str(full.get(name, "")))
    for name, check in (("step_s", check_step), ("search_s", check_number)):
        if full[name] is not None:
            check(name, full[name])
    for name in ("evaluations", "jobs", "cores"):
        check_count(name, full[name])
    check_columns("found", full["found"], [(check_number, False), (check_step, False)])
    check_columns("curve", full["curve"], [(check_count, False)] * 2 + [(check_number, False)] + [(check_step, True)] * 2)
    if full["valid"] and full["step_s"] is None:
        raise ValueError("a valid plan without a step time")
    full.setdefault("converged", ends_of_itself(run, full["search_s"]))
    for name in ("valid", "converged"):
        if not isinstance(full[name], bool):
            raise ValueError(f"{name} is neither true nor false")
    return full


def read_line(line):
    """(run, record); None for those of another bench, and of rows that are not known here."""
    record = json.loads(line)
    if not isinstance(record, dict) or "bench" not in record:
        raise ValueError("is no run of a bench: the key bench is missing")
    if record["bench"] != "table2":
        return None
    run = run_in(record)
    full = completed(record, run)
    return (run, full) if run.row in ROWS and run.what in WHAT else None


# ---- the store ----


class StoreError(Exception):
    """One line that says what is wrong with the store, and where."""


def is_torn(line):
    """Whoever is killed while writing leaves a last line that begins as one of ours and stops anywhere."""
    beginnings = [b'{"bench": "table2", "row": "', b'{"bench":"table2","row":"']
    if not any(line.startswith(beginning) or beginning.startswith(line) for beginning in beginnings):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def read_store(path):
    """Runs by what they are known by, of equal ones the first; and the bytes of the lines that are whole."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError) as error:
        raise StoreError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    store, at = {}, 0
    for number, line in enumerate(data.split(b"\n"), 1):
        is_last = at + len(line) == len(data)
        if is_last and line and is_torn(line):
            print(f"{path}: the last line is not whole and is passed over", file=sys.stderr)
            break
        try:
            entry = read_line(line) if line else None
        except (ValueError, TypeError) as error:
            raise StoreError(f"{path}: line {number}: {error}") from error
        if entry:
            store.setdefault(*entry)
        at += len(line) + (not is_last)
    return store, at


def open_store(path):
    """For adding runs: makes the file if it is not there, keeps others out as long as the file that is returned is open, and cuts off what
    is broken."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab+")
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StoreError(f"{path}: another bench is at work on this store") from error
    file.seek(0)
    if file.read(2) == b"\x1f\x8b":
        raise StoreError(f"{path}: a packed store can be read (--table), but runs cannot be added")
    store, whole_bytes = read_store(path)
    file.truncate(whole_bytes)
    return store, file
