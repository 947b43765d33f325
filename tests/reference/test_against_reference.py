"""Holds a simulator against the reference: random cases and two real graphs, every number compared exactly.

    test_against_reference.py --replay BINARY     the program under test
    test_against_reference.py --self              the reference against itself, through the same pipe

The program reads one case per line from its standard input,
    {"case":k,"graph":{..},"machine":{..},"plan":{..},"duration_ps":[..]}
and writes one line per case to its standard output, in the same order,
    {"case":k,"valid":..,"reason":..,"step_ps":..,"ops":..,"transfers":..,"peak_bytes":..,
     "busy_ps":..,"charged_ps":..}
where everything after `reason` is left out if the reason is neither null nor "memory". See refsim.py for the fields.
"""

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict

import cases
import refsim

FIELDS = ("valid", "reason", "step_ps", "ops", "transfers", "peak_bytes", "busy_ps", "charged_ps")
REASONS = ("colocation", "groups", "links", "order", "overflow", "memory")
REAL_GRAPHS = ("rnnlm-2", "wavenet-2x9")
CASE_KEYS = ("graph", "machine", "plan", "duration_ps")


# ---------------------------------------------------------------------------------------------------------------------
# What a random case exercises
# ---------------------------------------------------------------------------------------------------------------------


def has_queued_transfer(case, evaluation):
    return any(t.start > t.ready for t in (evaluation.transfers or {}).values())


def has_peak_of_copies(case, evaluation):
    """Some device's peak would be lower if incoming copies took no memory; it then falls while one is held."""
    if evaluation.holdings is None:
        return False
    devices = len(case["machine"]["devices"])
    own = refsim.peaks(devices, [held for held in evaluation.holdings if not held.is_copy])
    return any(without < peak for without, peak in zip(own, evaluation.result["peak_bytes"]))


def has_shared_bus(case, evaluation):
    pairs = defaultdict(set)
    for t in (evaluation.transfers or {}).values():
        if t.channel is not None and t.channel[0] == "bus":
            pairs[t.channel].add((t.source, t.destination))
    return any(len(users) >= 2 for users in pairs.values())


def has_unlike_devices(case, evaluation):
    """The same operator took unlike times on devices of unlike kinds."""
    seen = defaultdict(set)
    for task in evaluation.tasks.by_id.values() if evaluation.tasks else ():
        kind = case["machine"]["devices"][task.device]["kind"]
        seen[case["graph"]["nodes"][task.id]["op"]].add((kind, task.end - task.start))
    return any(a[0] != b[0] and a[1] != b[1] for times in seen.values() for a in times for b in times)


def has_strict_order(case, evaluation):
    return any(order and len(order) >= 2 for order in case["plan"].get("order") or [])


def has_groups_and_recomputation(case, evaluation):
    """Two ops written by one kernel somewhere and, somewhere, an op that is not written at all."""
    group = case["plan"].get("group")
    if group is None:
        return False
    ops = [n["id"] for n in case["graph"]["nodes"] if refsim.is_op_node(n)]
    sizes = Counter(group[i] for i in ops)
    return sizes[-1] > 0 and any(size >= 2 for number, size in sizes.items() if number != -1)


def has_charges(case, evaluation):
    return any(evaluation.result.get("charged_ps", []))


PROPERTIES = {
    "queued transfers": has_queued_transfer,
    "peaks set by copies": has_peak_of_copies,
    "shared buses": has_shared_bus,
    "unlike devices": has_unlike_devices,
    "strict orders": has_strict_order,
    "groups and recomputation": has_groups_and_recomputation,
    "charges": has_charges,
}


# ---------------------------------------------------------------------------------------------------------------------
# Real graphs
# ---------------------------------------------------------------------------------------------------------------------


def real_cases(folder):
    for name in REAL_GRAPHS:
        with gzip.open(os.path.join(folder, name + ".json.gz"), "rt") as file:
            graph = json.load(file)
        known = refsim.Graph(graph)
        for devices in (2, 4):
            rng = random.Random(f"{name} {devices}")
            for style in ("contiguous", "random", "ordered", "fused", "fused and ordered"):
                yield f"{name}, {devices} devices, {style}", real_case(rng, graph, known, devices, style)


def real_case(rng, graph, known, devices, style):
    machine = real_machine(rng, devices)
    plan = {"format": "plan", "version": 1, "device": real_placement(rng, known, devices, style != "random"),
            "priority": [rng.randint(0, 7) for _ in known.nodes]}
    case = {"graph": graph, "machine": machine, "plan": plan, "duration_ps": real_durations(known)}
    if "fused" in style:
        fuse_chains(rng, known, case)
    if "ordered" in style:
        cases.set_order(rng, case)
    return case


def real_machine(rng, devices):
    """Links as fast as real ones; on four devices two buses, so that transfers meet."""
    machine = cases.random_machine(rng, devices)
    machine["contention"] = "queue"
    for device in machine["devices"]:
        device["fuses_epilogue"] = ["matmul", "convolution"]
        device["memory_bytes"] = rng.choice((10 ** 12, 3 * 10 ** 9))
    for link in machine["links"]:
        link["bandwidth_bytes_per_s"] = rng.choice((450e9, 25e9, 12.3e9))
        link["latency_us"] = rng.choice((3, 10.5))
        link.pop("bus", None)
        if devices > 2:
            link["bus"] = rng.choice(("even", "odd"))
    return machine


def real_placement(rng, known, devices, contiguous):
    """Parameters go with their update, so that colocation holds; views with their root."""
    size = len(known.nodes)
    device = [i * devices // size if contiguous else rng.randrange(devices) for i in range(size)]
    for op, parameter in known.updates.items():
        device[parameter] = device[op]
    return [device[known.root[i]] for i in range(size)]


def real_durations(known):
    measured = ((node.get("us") or {}).get("h200") for node in known.nodes)
    return [refsim.llround((1.0 if us is None else float(us)) * 1e6) for us in measured]


def fuse_chains(rng, known, case):
    """Joins ops to their only reader along chains, then recomputes a few cheap ones. A group takes the sum of its ops."""
    plan = case["plan"]
    plan["group"] = [i if known.is_op(i) else -1 for i in range(len(known.nodes))]
    pairs = [(op, reader) for op in known.ops for reader in known.readers[op] if len(known.readers[op]) == 1]
    merge_legal(known, case, [pair for pair in pairs if may_join(known, *pair) and rng.random() < 0.7])
    several = [op for op in known.ops if 2 <= len(known.readers[op]) <= 3 and op not in known.outputs]
    for op in rng.sample(several, min(20, len(several))):
        cases.try_groups(known, case, cases.recomputing(plan["group"], op))
    single = case["duration_ps"]
    case["duration_ps"] = [0] * len(single)
    for task in refsim.Tasks(known, plan).by_id.values():
        case["duration_ps"][task.id] = sum(single[op] for op in task.members)


def may_join(known, op, reader):
    return refsim.op_class(known, op) != "opaque" and refsim.op_class(known, reader) in refsim.FUSABLE


def merge_legal(known, case, pairs):
    """Merges as many of the pairs as it can: all at once if that is legal, else half by half."""
    group = case["plan"]["group"]
    for first, then in pairs:
        group = cases.merging(group, first, then) or group
    if pairs and not cases.try_groups(known, case, group) and len(pairs) > 1:
        half = len(pairs) // 2
        merge_legal(known, case, pairs[:half])
        merge_legal(known, case, pairs[half:])


# ---------------------------------------------------------------------------------------------------------------------
# The program under test
# ---------------------------------------------------------------------------------------------------------------------


def serve():
    """The reference as a program under test."""
    for line in sys.stdin:
        case = json.loads(line)
        result = refsim.simulate(*(case[key] for key in CASE_KEYS))
        print(json.dumps({"case": case["case"], **result}))


def replay(command, file):
    """Answers by line. Both ends are files, so that neither side can block the other."""
    with tempfile.TemporaryFile("w+") as answers:
        file.seek(0)
        try:
            status = subprocess.run(command, stdin=file, stdout=answers, check=False).returncode
        except OSError as error:
            print(f"cannot run {command[0]}: {error.strerror}")
            return []
        answers.seek(0)
        lines = answers.read().splitlines()
    if status != 0:
        print(f"{command[0]} ended with status {status} after {len(lines)} answers")
    return lines


def parse_answer(lines, number):
    """The answer to a case, or words that say what is wrong with it."""
    if number >= len(lines):
        return "no answer"
    try:
        answer = json.loads(lines[number])
    except ValueError:
        return "not JSON: " + lines[number][:200]
    if not isinstance(answer, dict) or answer.get("case") != number:
        return "not an answer to this case: " + lines[number][:200]
    return answer


# ---------------------------------------------------------------------------------------------------------------------
# Comparison
# ---------------------------------------------------------------------------------------------------------------------


def differences(expected, answer):
    if isinstance(answer, str):
        return [answer]
    found = []
    for field in FIELDS:
        want, got = expected.get(field), answer.get(field)
        if want == got and isinstance(want, bool) == isinstance(got, bool):
            continue
        if isinstance(want, list) and isinstance(got, list):
            found.append(f"{field}: {list_difference(want, got)}")
        else:
            found.append(f"{field}: expected {want}, got {str(got)[:200]}")
    return found


def list_difference(want, got):
    if len(want) != len(got):
        extra = [item for item in got if item not in want][:3]
        lacking = [item for item in want if item not in got][:3]
        return f"expected {len(want)} entries, got {len(got)}; lacking {lacking}, unexpected {extra}"
    position = next(i for i in range(len(want)) if want[i] != got[i])
    count = sum(1 for i in range(len(want)) if want[i] != got[i])
    return f"{count} differ, first at position {position}: expected {want[position]}, got {got[position]}"


def report(title, case, expected, answer):
    print(f"FAILED {title}")
    for line in differences(expected, answer):
        print("    " + line)
    with tempfile.NamedTemporaryFile("w", prefix="stowage-case-", suffix=".json", delete=False) as file:
        json.dump({**case, "expected": expected}, file)
        file.write("\n")
    print(f"    the case: {file.name}")


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.reasons = Counter()
        self.having = Counter()

    def check(self, ok):
        if ok:
            self.passed += 1
        else:
            self.failed += 1

    def note(self, case, evaluation):
        """Only a case with a timeline exercises anything; one that is invalid for another reason than memory has none."""
        reason = evaluation.result["reason"]
        self.reasons[reason] += 1
        if reason in (None, "memory"):
            for name, has in PROPERTIES.items():
                self.having[name] += has(case, evaluation)


def all_cases(options):
    for number in range(options.cases):
        yield f"random case {options.seed}/{number}", cases.make_case(options.seed, number), True
    if options.graphs:
        for title, case in real_cases(options.graphs):
            yield title, case, False


def prepare(options, file, emitted, tally):
    """Writes the cases for the program and returns (title, expected) of each."""
    expected = []
    for number, (title, case, is_random) in enumerate(all_cases(options)):
        evaluation = refsim.evaluate(*(case[key] for key in CASE_KEYS))
        if is_random:
            tally.note(case, evaluation)
        line = {"case": number, **case}
        file.write(json.dumps(line) + "\n")
        if emitted:
            emitted.write(json.dumps({**line, "expected": evaluation.result}) + "\n")
        expected.append((title, evaluation.result))
    file.flush()
    return expected


def compare(options, expected, lines, file, tally):
    file.seek(0)
    for number, ((title, result), line) in enumerate(zip(expected, file)):
        answer = parse_answer(lines, number)
        ok = not differences(result, answer)
        tally.check(ok)
        if not ok and tally.failed <= options.max_failures:
            report(title, json.loads(line), result, answer)
    if len(lines) > len(expected):
        print(f"{len(lines) - len(expected)} lines more than cases")
        tally.check(False)


def check_properties(options, tally):
    """A third of all random cases has a timeline with each property, else the cases do not test what they claim to."""
    print(f"{options.cases} random cases, {tally.reasons[None]} valid; invalid: "
          + ", ".join(f"{reason} {tally.reasons[reason]}" for reason in REASONS))
    for name in PROPERTIES:
        count = tally.having[name]
        enough = 3 * count >= options.cases
        tally.check(enough)
        share = 100 * count / max(1, options.cases)
        print(f"    {name}: {count} ({share:.0f} %)" + ("" if enough else ", less than a third"))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replay", metavar="BINARY", help="the program under test")
    parser.add_argument("--self", action="store_true", help="test the reference against itself")
    parser.add_argument("--serve", action="store_true", help="answer cases on standard input with the reference")
    parser.add_argument("--cases", type=int, default=2400, help="random cases (2400)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--graphs", default="data/graphs", help="folder of the real graphs; empty: none")
    parser.add_argument("--max-failures", type=int, default=5, help="differences that are printed (5)")
    parser.add_argument("--emit", metavar="FILE", help="also write cases and expected results as JSON lines")
    options = parser.parse_args()
    if not (options.replay or options.self or options.serve or options.emit):
        parser.error("nothing to do: give --replay, --self or --emit")
    return options


def main():
    options = parse_options()
    if options.serve:
        serve()
        return 0
    tally = Tally()
    emitted = open(options.emit, "w") if options.emit else None
    with tempfile.TemporaryFile("w+") as file:
        expected = prepare(options, file, emitted, tally)
        if emitted:
            emitted.close()
        if options.replay or options.self:
            command = [options.replay] if options.replay else [sys.executable, os.path.abspath(__file__), "--serve"]
            compare(options, expected, replay(command, file), file, tally)
    check_properties(options, tally)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
