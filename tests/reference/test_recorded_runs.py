"""Plans for several devices that ran on a real GPU cut into groups of SMs (../shared/lab/green-runs.json.gz), predicted.

    test_recorded_runs.py --replay BINARY

Two things are checked. The program's predictions equal, to the picosecond, those of an independent sketch that stands beside the
recorded runs. And with the charges of a transfer they come as close to what was measured as docs/results/charges.md says; without
them they do not. Where the recorded runs are absent, the test is skipped.
"""

import argparse
import gzip
import itertools
import json
import os
import statistics
import sys
import tempfile

import test_against_reference as agreement

LAB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "lab")

# Op times, then latency, send and receive in microseconds; then what came out: the median and the 90th percentile of
# |measured / predicted - 1| over plans for several devices, and the median and the least of Kendall's tau of the six rows.
TABLE = (
    ("alone", 2, 0, 0, 0.368, 0.85, 0.53, 0.43),
    ("in company", 2, 0, 0, 0.139, 0.47, 0.69, 0.60),
    ("in company", 6, 0, 0, 0.132, 0.43, 0.84, 0.49),
    ("in company", 2, 1, 3, 0.088, 0.21, 0.94, 0.87),
    ("in company", 4, 2, 2, 0.088, 0.205, 0.94, 0.93),
    ("in company", 0.8, 0.2, 2.8, 0.101, 0.233, 0.94, 0.81),
    ("in company", 3, 0.2, 2.8, 0.096, 0.232, 0.91, 0.81),
)
EXACT = ((2, 1, 3), (4, 2, 2))  # latency, send, receive: compared with the sketch


def op_times(graph, in_company):
    """Microseconds of each node; 0 where it is no op. An op in company takes at least what it takes alone."""
    times = []
    for node in graph["nodes"]:
        alone = (node.get("us") or {}).get("part")
        times.append(0.0 if alone is None else max(alone, node.get("company", alone)) if in_company else alone)
    return times


def charged(machine, latency, send, receive):
    links = [dict(link, latency_us=latency, send_us=send, receive_us=receive) for link in machine["links"]]
    return dict(machine, contention="queue", links=links)


def make_case(recorded, run, constants):
    mode, latency, send, receive = constants
    entry = recorded["graphs"][f"{run['case']}-{run['k']}"]
    several = sum(1 for order in run["order"] if order) > 1
    times = op_times(entry["graph"], mode != "alone" and several)
    nodes = [{"bytes": 0, **node} for node in entry["graph"]["nodes"]]
    return {"graph": dict(entry["graph"], nodes=nodes), "machine": charged(entry["machine"], latency, send, receive),
            "plan": {"format": "plan", "version": 1, "device": run["device"], "order": run["order"]},
            "duration_ps": [round(us * 1e6) for us in times], "us": times}


def predict(command, cases):
    """Step times in picoseconds, by the program."""
    with tempfile.TemporaryFile("w+") as file:
        for number, case in enumerate(cases):
            file.write(json.dumps({"case": number, **{key: case[key] for key in agreement.CASE_KEYS}}) + "\n")
        file.flush()
        lines = agreement.replay(command, file)
    answers = [agreement.parse_answer(lines, number) for number in range(len(cases))]
    return [None if isinstance(answer, str) else answer.get("step_ps") for answer in answers]


def sketch(case):
    import slow_simulator
    nodes = [dict(node, us={"part": us}) if us or "us" in node else node for node, us in zip(case["graph"]["nodes"], case["us"])]
    graph = slow_simulator.Graph(dict(case["graph"], nodes=nodes))
    index = {device["name"]: d for d, device in enumerate(case["machine"]["devices"])}
    links = {(index[link["from"]], index[link["to"]]): link for link in case["machine"]["links"]}
    device = case["plan"]["device"]
    plan = {"device": device, "priority": [0] * len(device), "order": case["plan"]["order"]}
    span = slow_simulator.run(graph, case["machine"], plan, slow_simulator.find_transfers(graph, device), links)
    return span and max(span[op][1] for op in graph.ops)


def tau(pairs):
    """Kendall's tau of (predicted, measured); pairs that measured within 2 % of each other say nothing."""
    agree = differ = 0
    for (p, m), (q, n) in itertools.combinations(pairs, 2):
        if abs(m - n) / max(m, n) >= 0.02:
            agree += (p - q) * (m - n) > 0
            differ += (p - q) * (m - n) < 0
    return (agree - differ) / max(1, agree + differ)


def score(runs, steps):
    rows, errors = {}, []
    for run, step in zip(runs, steps):
        predicted = step / 1e6
        rows.setdefault((run["case"], run["k"]), []).append((predicted, run["measured"]))
        if run["plan"] != "single":
            errors.append(abs(run["measured"] / predicted - 1))
    taus = [tau(pairs) for pairs in rows.values()]
    return statistics.median(errors), sorted(errors)[int(0.9 * len(errors))], statistics.median(taus), min(taus)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replay", required=True, metavar="BINARY", help="the program under test")
    options = parser.parse_args()
    path = os.path.join(LAB, "green-runs.json.gz")
    if not os.path.exists(path):
        print(f"no recorded runs: {os.path.normpath(path)} is absent\n0 passed, 0 failed, 1 skipped")
        return 0
    sys.path.insert(0, LAB)
    sys.dont_write_bytecode = True
    with gzip.open(path, "rt") as file:
        recorded = json.load(file)
    runs, passed, failed = recorded["runs"], 0, 0
    print(f"{'op times':12} latency send receive   median error  90 %   tau, median  least")
    for mode, latency, send, receive, *expected in TABLE:
        cases = [make_case(recorded, run, (mode, latency, send, receive)) for run in runs]
        steps = predict([options.replay], cases)
        if (latency, send, receive) in EXACT:
            for run, case, step in zip(runs, cases, steps):
                other = sketch(case)
                passed += step == other
                failed += step != other
                if step != other:
                    print(f"{run['case']} on {run['k']}, {run['plan']}: {step} ps; the sketch has {other}")
        got = score(runs, steps) if None not in steps else (float("nan"),) * 4
        close = all(abs(a - b) <= 0.006 for a, b in zip(got, expected))
        passed += close
        failed += not close
        print(f"{mode:12} {latency:7} {send:4} {receive:7} {100 * got[0]:13.1f} % {100 * got[1]:4.0f} %{got[2]:12.2f} {got[3]:6.2f}"
              + ("" if close else f"   expected {expected}"))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
