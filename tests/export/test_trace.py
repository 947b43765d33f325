"""The trace of a simulated step: is it in the Trace Event format, and does it say what the report says?

    STOWAGE_BIN=build/release/stowage python3 tests/export/test_trace.py          (STOWAGE_DATA: the folder of graphs/)

The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("STOWAGE_DATA", os.path.join(ROOT, "data"))
BINARY = os.path.abspath(os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")))
GRAPH = os.path.join(DATA, "graphs", "rnnlm-2.json.gz")

# The fields of each phase, beside ph and pid.
FIELDS = {"X": {"name", "cat", "tid", "ts", "dur", "args"}, "M": {"name", "tid", "args"}, "C": {"name", "tid", "ts", "args"},
          "s": {"name", "cat", "id", "tid", "ts"}, "f": {"name", "cat", "id", "tid", "ts", "bp"}}
METADATA = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index", "thread_sort_index": "sort_index"}


def node(index, op, inputs, **more):
    return {"id": index, "name": f"n{index}", "op": op, "inputs": inputs, "dtype": "f32", "shape": [256], "bytes": 1024, **more}


def graph_of(nodes, **more):
    return {"format": "opgraph", "version": 1, "name": "small", "family": "test", "outputs": [], "nodes": nodes, **more}


def chain(times_us):
    """Ops that can only run one after the other, with these times."""
    ops = [node(i + 1, "relu", [i], us={"h200": time}) for i, time in enumerate(times_us)]
    return graph_of([node(0, "input", []), *ops])


def nanoseconds(ps):
    """As viewers are told: rounded, and never 0, which some take for no time."""
    return max(1, (ps + 500) // 1000)


class Trace:
    """The events of a file, by kind. Times are decimals, exactly as written."""

    def __init__(self, text):
        self.file = json.loads(text, parse_float=Decimal)
        self.events = self.file["traceEvents"]
        self.meta = {kind: {(e["pid"], e["tid"]): e["args"][field] for e in self.events if e["ph"] == "M" and e["name"] == kind}
                     for kind, field in METADATA.items()}
        self.pid = {name: pid for (pid, _), name in self.meta["process_name"].items()}
        self.slices, self.counters, self.arrows, self.charges = {}, {}, {}, []
        for event in self.events:
            if event["ph"] == "X" and event["cat"] == "charge":  # within the slice of its task
                self.charges.append(event)
            elif event["ph"] == "X":
                self.slices.setdefault((event["pid"], event["tid"]), []).append(event)
            elif event["ph"] == "C":
                self.counters.setdefault(event["name"], []).append(event)
            elif event["ph"] in "sf":
                self.arrows.setdefault(event["id"], []).append(event)
        for track in self.slices.values():
            track.sort(key=lambda e: (e["args"]["start_ps"], e["args"]["end_ps"]))

    def tracks(self, process):
        """(name, slices) of each track of a process."""
        return [(name, self.slices.get(key, [])) for key, name in self.meta["thread_name"].items() if key[0] == self.pid[process]]

    def around(self, event):
        """The slices of the event's track that it lies in; at an edge only those without length."""
        found = []
        for e in self.slices.get((event["pid"], event["tid"]), []):
            start, end = nanoseconds(e["args"]["start_ps"]), nanoseconds(e["args"]["end_ps"])
            if start <= event["ts"] * 1000 < end or start == end == event["ts"] * 1000:
                found.append(e)
        return found


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="stowage-trace-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False)
        return path

    def run_stowage(self, *arguments):
        return subprocess.run([BINARY, *arguments], capture_output=True, timeout=300)

    def plan(self, graph, machine, **changes):
        """A plan file: everything on the first device, but for the changes."""
        path = os.path.join(self.folder, "plan.json")
        self.assertEqual(self.run_stowage("simulate", graph, "-m", machine, "-p", "single", "-o", path).returncode, 0)
        with open(path, encoding="utf-8") as file:
            return self.write("plan.json", {**json.load(file), **changes})

    def simulate(self, *arguments, status=0):
        """Simulates with a trace, holds the trace against the report in every way, and returns both."""
        path = os.path.join(self.folder, "trace.json")
        result = self.run_stowage("simulate", *arguments, "--trace", path, "--format", "json")
        self.assertEqual((result.returncode, result.stderr), (status, b""))
        with open(path, encoding="utf-8") as file:
            trace = Trace(file.read())
        report = json.loads(result.stdout, parse_float=Decimal)
        self.check_format(trace)
        self.check_tracks(trace)
        self.check_slices(trace)
        self.check_devices(trace, report)
        self.check_memory(trace, report)
        self.check_links(trace, report)
        self.check_arrows(trace)
        self.check_charges(trace)
        return trace, report

    def check_format(self, trace):
        self.assertEqual(set(trace.file), {"displayTimeUnit", "otherData", "traceEvents"})
        self.assertEqual(trace.file["displayTimeUnit"], "ns")
        for event in trace.events:
            self.assertEqual(set(event), FIELDS[event["ph"]] | {"ph", "pid"})
            self.assertTrue(all(isinstance(event[key], str) for key in ("name", "cat", "bp") if key in event), event)
            self.assertTrue(all(isinstance(event[key], int) for key in ("pid", "tid", "id") if key in event), event)
            self.assertTrue(all(isinstance(event[key], Decimal) for key in ("ts", "dur") if key in event), event)
            self.assertTrue(event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, event)
            if event["ph"] == "M":
                self.assertEqual(list(event["args"]), [METADATA[event["name"]]])
            elif event["ph"] == "C":
                self.assertTrue(event["args"] and all(isinstance(value, int) for value in event["args"].values()), event)
            elif event["ph"] == "f":
                self.assertEqual(event["bp"], "e")  # else it binds to the next slice

    def check_tracks(self, trace):
        self.assertEqual(sorted(trace.pid), ["devices", "links"])
        self.assertEqual(trace.meta["thread_name"].keys(), trace.meta["thread_sort_index"].keys())
        self.assertEqual(trace.meta["process_name"].keys(), trace.meta["process_sort_index"].keys())
        tids = [tid for _, tid in trace.meta["thread_name"]]
        self.assertEqual(len(tids), len(set(tids)), "Perfetto tells threads apart by tid alone")
        self.assertNotIn(0, tids)
        for pid, tid in trace.meta["thread_name"]:
            self.assertFalse(tid in trace.pid.values() and tid != pid, "a thread whose tid is the pid of another process")
        self.assertLessEqual(trace.slices.keys(), trace.meta["thread_name"].keys())

    def check_slices(self, trace):
        """No two slices of a track overlap: in picoseconds, and in the arithmetic of each viewer."""
        for track in trace.slices.values():
            for event, following in zip(track, [*track[1:], None]):
                start, end = event["args"]["start_ps"], event["args"]["end_ps"]
                self.assertLessEqual(start, end)
                self.assertEqual(event["ts"] * 1000, nanoseconds(start), event)
                self.assertEqual(round(event["dur"] * 1000), nanoseconds(end) - nanoseconds(start), event)
                self.assertLess(abs(event["dur"] * 1000 - round(event["dur"] * 1000)), Decimal("0.1"), event)
                if following is None:
                    continue
                self.assertLessEqual(end, following["args"]["start_ps"], (event, following))
                ts, dur, then = float(event["ts"]), float(event["dur"]), float(following["ts"])
                self.assertLessEqual(ts + dur, then, (event, following))
                self.assertLessEqual(round(ts * 1000) + round(dur * 1000), round(then * 1000), (event, following))

    def check_time(self, ps, seconds):
        """The report's seconds are a double: exact to the picosecond up to hours, and then to its last place."""
        self.assertLess(abs(ps - Decimal(seconds) * 10**12), max(Decimal("0.5"), Decimal(ps) / 2**51))

    def check_devices(self, trace, report):
        tracks = trace.tracks("devices")
        self.assertEqual([name for name, _ in tracks], [device["name"] for device in report["devices"]])
        ends = [0]
        for (_, slices), device in zip(tracks, report["devices"]):
            busy = sum(e["args"]["end_ps"] - e["args"]["start_ps"] for e in slices)
            self.check_time(busy, device["busy_s"])
            ends += [e["args"]["end_ps"] for e in slices]
        ends_of_links = [e["args"]["end_ps"] for _, slices in trace.tracks("links") for e in slices]
        self.check_time(max(ends), report["step_s"])
        self.assertLessEqual(max(ends_of_links, default=0), max(ends))

    def check_memory(self, trace, report):
        names = ["memory of " + device["name"] for device in report["devices"]]
        self.assertLessEqual(trace.counters.keys(), set(names))
        for name, device in zip(names, report["devices"]):
            samples = trace.counters.get(name, [])
            values = [sample["args"]["bytes"] for sample in samples]
            self.assertEqual(max(values, default=0), device["peak_bytes"])
            self.assertGreaterEqual(min(values, default=0), 0)
            times = [sample["ts"] for sample in samples]
            self.assertEqual(times, sorted(times))
            self.assertTrue(all(sample["pid"] == trace.pid["devices"] for sample in samples))

    def check_links(self, trace, report):
        devices = [device["name"] for device in report["devices"]]
        link_of = {f"{a} to {b}{more}": (a, b) for a in devices for b in devices for more in ("", " (more)")}
        carried = {}
        for name, slices in trace.tracks("links"):
            self.assertTrue(slices, "a link that carries nothing has no track")
            for event in slices:
                self.assertGreaterEqual(event["args"]["start_ps"], event["args"]["ready_ps"])
                count, total = carried.get(link_of[name], (0, 0))
                carried[link_of[name]] = (count + 1, total + event["args"]["bytes"])
        self.assertEqual(carried, {(link["from"], link["to"]): (link["transfers"], link["bytes"]) for link in report["links"]})

    def check_arrows(self, trace):
        """Each arrow leads from one slice to another: producer to transfer, or transfer to reader."""
        link_pid, out, into = trace.pid["links"], [], []
        for ends in trace.arrows.values():
            self.assertEqual([end["ph"] for end in ends], ["s", "f"])
            start, end = ends
            self.assertEqual((start["cat"], start["name"]), (end["cat"], end["name"]))
            self.assertLessEqual(start["ts"], end["ts"])
            for found in (trace.around(start), trace.around(end)):
                self.assertTrue(found, ends)
            self.assertEqual([start["pid"], end["pid"]].count(link_pid), 1)
            source, target = trace.around(start)[-1], trace.around(end)[-1]
            self.assertLessEqual(source["args"]["end_ps"], target["args"]["start_ps"], ends)
            if start["pid"] == link_pid:
                out.append(id(source))
            else:
                into.append(id(target))
                self.assertLessEqual(source["args"]["id"], target["args"]["id"])  # equal unless the producer is in a fused group
        transfers = [id(e) for _, slices in trace.tracks("links") for e in slices]
        if all(e["args"]["end_ps"] - e["args"]["start_ps"] >= 2000 for track in trace.slices.values() for e in track):
            self.assertEqual(sorted(out), sorted(transfers))  # every transfer has a reader, and a producer unless it is a parameter
            self.assertLessEqual(set(into), set(transfers))
            self.assertEqual(len(into), len(set(into)))


    def check_charges(self, trace):
        """Each is the end of its task's slice, on the same track, and begins no earlier in any viewer."""
        tasks = {e["args"]["id"]: e for _, slices in trace.tracks("devices") for e in slices}
        self.assertEqual(len(trace.charges), len({e["args"]["of"] for e in trace.charges}))
        for event in trace.charges:
            task = tasks[event["args"]["of"]]
            self.assertEqual((event["pid"], event["tid"]), (task["pid"], task["tid"]))
            self.assertEqual(event["args"]["end_ps"], task["args"]["end_ps"])
            self.assertGreaterEqual(event["args"]["start_ps"], task["args"]["start_ps"])
            self.assertGreaterEqual(event["ts"], task["ts"])
            self.assertLessEqual(float(event["ts"]) + float(event["dur"]), float(task["ts"]) + float(task["dur"]))


class Machines(Case):
    def machine(self, name, **changes):
        content = json.loads(self.run_stowage("machine", name).stdout)
        content.update(changes)
        return self.write("machine.json", content)

    def test_queue(self):
        trace, report = self.simulate(GRAPH, "-m", "h200x4", "-p", "spread")
        self.assertEqual(trace.file["otherData"], {"graph": "rnnlm-2", "machine": "h200x4"})
        self.assertGreater(len(report["links"]), 3)
        self.assertFalse([name for name, _ in trace.tracks("links") if name.endswith("(more)")])
        labels = {e["args"].get("label") for _, slices in trace.tracks("links") for e in slices}
        self.assertIn("emb.weight", labels)
        self.assertIn(None, labels)

    def test_no_contention(self):
        """Transfers of one link overlap; each lane of the link is still free of overlaps, as for all tracks."""
        trace, _ = self.simulate(GRAPH, "-m", self.machine("h200x4", contention="none"), "-p", "spread")
        self.assertTrue([name for name, _ in trace.tracks("links") if name.endswith("(more)")])
        for _, slices in trace.tracks("links"):
            self.assertTrue(all(e["args"]["start_ps"] == e["args"]["ready_ps"] for e in slices))

    def test_others(self):
        for machine in ("cpu+h200x2", "h200x3-host", "h200x2+2", "h200x16"):
            with self.subTest(machine=machine):
                self.simulate(os.path.join(DATA, "graphs", "unet.json.gz"), "-m", machine, "-p", "spread")

    def test_charges(self):
        """0.2 us to send and 2.8 us to receive, as often as something is sent; parameters have nobody who sends them."""
        trace, report = self.simulate(GRAPH, "-m", "h200x4", "-p", "spread")
        charged = sum(e["args"]["end_ps"] - e["args"]["start_ps"] for e in trace.charges)
        sent = [e for _, slices in trace.tracks("links") for e in slices]
        by_ops = [e for e in sent if "label" not in e["args"]]
        self.assertGreater(len(by_ops), 0)
        self.assertEqual(charged, 2800000 * len(sent) + 200000 * len(by_ops))
        self.assertEqual(self.simulate(GRAPH, "-m", "0.1/h200x4", "-p", "spread")[0].charges, [])

    def test_one_device(self):
        for arguments in (("-m", "h200x1", "-p", "spread"), ("-m", "h200x3", "-p", "single")):
            trace, report = self.simulate(GRAPH, *arguments)
            self.assertEqual((report["links"], trace.tracks("links"), trace.arrows), ([], [], {}))
            self.assertEqual([name for name, slices in trace.tracks("devices") if slices], ["h200:0"])
            (samples,) = trace.counters.values()
            times = [sample["ts"] for sample in samples]  # measured in whole nanoseconds, so each is an instant of its own
            self.assertEqual(len(times), len(set(times)), "one value for each instant")

    def test_out_of_memory(self):
        """The timeline of a plan that does not fit is there to show why."""
        trace, report = self.simulate(GRAPH, "-m", "h200x4", "-p", "spread", "--memory", "500MB", status=1)
        self.assertFalse(report["valid"])
        self.assertGreater(max(e["args"]["bytes"] for samples in trace.counters.values() for e in samples), 5 * 10**8)


class Graphs(Case):
    def test_empty(self):
        trace, report = self.simulate(self.write("g.json", graph_of([])), "-m", "h200x2", "-p", "spread")
        self.assertEqual(report["step_s"], 0)
        self.assertEqual({event["ph"] for event in trace.events}, {"M"})

    def test_names(self):
        """Quotes, backslashes, control characters, any script, and names too long for a line of text."""
        names = ['a "quoted" \\ name', "tab\tline\nbell\x07\x01\x1f\x7f", "Ünïcödé 算子 \U0001f642 \u2028", "", "</script>\\u0041",
                 "长" * 200]
        devices = ['gpu "0"', "gpu\t\n1\\", "长" * 60 + "0", "长" * 60 + "1"]
        nodes = [node(0, "input", [], name="x")]
        nodes += [node(i + 1, "made_up " + name, [i], name=name, us={"h200": 5.0}) for i, name in enumerate(names)]
        machine = json.loads(self.run_stowage("machine", "h200x4").stdout)
        renamed = dict(zip([device["name"] for device in machine["devices"]], devices))
        machine["name"] = names[1]
        for device in machine["devices"]:
            device["name"] = renamed[device["name"]]
        for link in machine["links"]:
            link["from"], link["to"] = renamed[link["from"]], renamed[link["to"]]
        graph = self.write("g.json", graph_of(nodes, name=names[0]))
        plan = self.plan(graph, self.write("m.json", machine), device=[0, 0, 1, 2, 3, 0, 2])
        trace, report = self.simulate(graph, "-p", plan)
        slices = [e for _, track in trace.tracks("devices") for e in track]
        self.assertEqual(sorted((e["args"]["id"], e["name"], e["args"]["op"]) for e in slices),
                         [(i + 1, name, "made_up " + name) for i, name in enumerate(names)])
        self.assertEqual(trace.file["otherData"], {"graph": names[0], "machine": names[1]})
        self.assertEqual([name for name, _ in trace.tracks("devices")], devices)
        self.assertEqual(len(report["links"]), 5)

    def test_times(self):
        """Parts of a nanosecond, and steps of hours, where a double no longer holds each of them."""
        for times in ([0.0001] * 50, [0.0004999, 0.0005, 0.0015001, 0.3333333] * 20, [0.0] * 5 + [1e-6, 0.0],
                      [1.1503333 * (1 + i % 7) for i in range(300)], [3.3e7 + i / 7 for i in range(300)]):
            with self.subTest(times=times[:4]):
                graph = self.write("g.json", chain(times))
                trace, _ = self.simulate(graph, "-m", "h200x1", "-p", "single")
                self.assertEqual(sum(len(track) for track in trace.slices.values()), len(times))
                self.simulate(graph, "-m", "h200x3", "-p", "spread")

    def test_held_for_no_time(self):
        """What is held for 0 ps does not count: here the large output of an op that takes no time, read by another such."""
        graph = chain([5.0, 0.0, 0.0, 5.0])
        graph["nodes"][2]["bytes"] = 10**6
        _, report = self.simulate(self.write("g.json", graph), "-m", "h200x1", "-p", "single")
        self.assertEqual(report["devices"][0]["peak_bytes"], 2048)

    def test_first_reader(self):
        """The arrow of a transfer leads to the first of several readers."""
        ops = [node(1, "relu", [0]), node(2, "relu", [1]), node(3, "relu", [1])]
        graph = self.write("g.json", graph_of([node(0, "input", []), *ops]))
        trace, _ = self.simulate(graph, "-p", self.plan(graph, "h200x2", device=[0, 0, 1, 1], priority=[0, 0, 1, 2]))
        slices = [trace.around(end)[0] for ends in trace.arrows.values() for end in ends]
        self.assertEqual([(e["cat"], e["args"]["id"]) for e in slices],
                         [("elementwise", 1), ("transfer", 1), ("transfer", 1), ("elementwise", 3)])

    def test_groups(self):
        """A fused group is one slice with the work of all its members."""
        ops = [node(i, "relu", [i - 1], flops=100 * i) for i in range(1, 5)]
        graph = self.write("g.json", graph_of([node(0, "input", []), *ops]))
        trace, _ = self.simulate(graph, "-p", self.plan(graph, "h200x2", group=[-1, 1, 1, 1, 4]))
        (_, slices), _ = trace.tracks("devices")
        self.assertEqual([(e["args"]["id"], e["args"].get("fused_ops"), e["args"]["flops"], e["args"]["bytes"]) for e in slices],
                         [(1, 3, 600, 1024), (4, None, 400, 1024)])


class Faults(Case):
    def test_unwritable(self):
        os.mkdir(os.path.join(self.folder, "taken"))
        for path in (os.path.join(self.folder, "no", "trace.json"), os.path.join(self.folder, "taken")):
            result = self.run_stowage("simulate", GRAPH, "-m", "h200x2", "-p", "spread", "--trace", path)
            self.assertEqual((result.returncode, result.stdout), (2, b""))
            line = result.stderr.decode()
            self.assertTrue(line.startswith("stowage: ") and line.endswith("\n") and line.count("\n") == 1 and path in line, line)
        self.assertEqual(os.listdir(self.folder), ["taken"])


def main():
    if not os.access(BINARY, os.X_OK):
        print(f"no program at '{BINARY}'; give its path in STOWAGE_BIN", file=sys.stderr)
        return 2
    return run_tests()


if __name__ == "__main__":
    sys.exit(main())
