"""`stowage report` and --report: what the page's data hold is what `simulate` says, names of files stay data, faults are one line.

    python3 tests/cli/test_report.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import base64
import gzip
import hashlib
import json
import os
import re
import sys

import program
from program import GRAPH as OTHER
from program import SLOW as GRAPH
from program import SMALL, Case
from report_data import EVIL, read, unpacked

QUICK = ["--evaluations", "20", "--threads", "1", "--policy", "none"]


def sha256(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Data(Case):
    """What a page says of a plan with fusion, charges and three devices."""

    def setUp(self):
        super().setUp()
        self.plan, self.page, self.trace = self.path("plan.json"), self.path("r.html"), self.path("trace.json")
        out = self.done("optimize", GRAPH, "-m", "h200x3", *QUICK, "-o", self.plan, "--seed", "3", "--report", self.page, "--trace", self.trace)
        self.assertRegex(out, r"\n  report +\S*r\.html\n")
        self.head, self.columns = unpacked(read(self.page))
        self.simulated = json.loads(self.done("simulate", GRAPH, "-p", self.plan, "--format", "json"))

    def test_tasks_and_transfers_are_those_of_the_trace(self):
        with open(self.trace, encoding="utf-8") as file:
            events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X" and e["cat"] != "charge"]
        tracks = {e["tid"] - 1: None for e in events if e["pid"] == 1}
        self.assertEqual(len(tracks), 3)
        tasks = sorted((e["args"]["id"], e["tid"] - 1, e["args"]["start_ps"], e["args"]["end_ps"]) for e in events if e["pid"] == 1)
        columns = [self.columns[f"1.task_{name}"] for name in ("node", "device", "start", "end")]
        self.assertEqual(sorted(zip(*columns)), tasks)
        sent = sorted((e["args"]["id"], e["args"]["bytes"], e["args"]["start_ps"], e["args"]["end_ps"]) for e in events if e["pid"] == 100)
        columns = [self.columns[f"1.transfer_{name}"] for name in ("node", "bytes", "start", "end")]
        self.assertEqual(sorted(zip(*columns)), sent)

    def test_runs_are_what_simulate_says(self):
        default, plan = self.head["runs"]
        self.assertEqual((default["title"], plan["title"]), ("default", "plan"))
        self.assertEqual(plan["step_ps"], round(1e12 * self.simulated["step_s"]))
        self.assertEqual([d["peak_bytes"] for d in plan["devices"]], self.simulated["peak_bytes"])
        for device, says in zip(plan["devices"], self.simulated["devices"]):
            self.assertEqual(device["busy_ps"], round(1e12 * says["busy_s"]))
            self.assertEqual(device["charged_ps"], round(1e12 * says["charged_s"]))
        self.assertEqual(default["step_ps"], round(1e12 * next(c["step_s"] for c in self.head["candidates"] if c["method"] == "single")))
        self.assertEqual([d["name"] for d in self.head["machine"]["devices"]], ["h200:0", "h200:1", "h200:2"])
        for run in self.head["runs"]:
            self.assertEqual(sum(run["parts"].values()), run["step_ps"])

    def test_boxes_add_up_to_the_peaks(self):
        names = ("device", "from", "to", "bytes", "base")
        for index, run in enumerate(self.head["runs"]):
            boxes = list(zip(*(self.columns[f"{index}.box_{name}"] for name in names)))
            for device, says in enumerate(run["devices"]):
                own = [box for box in boxes if box[0] == device]
                changes = sorted([(to, -size) for _, _, to, size, _ in own] + [(start, size) for _, start, _, size, _ in own])
                held = peak = 0
                for _, size in changes:
                    held += size
                    peak = max(peak, held)
                self.assertEqual(peak, says["peak_bytes"])
                self.assertEqual(held, 0)

    def test_the_path_is_that_of_explain(self):
        explained = json.loads(self.done("explain", GRAPH, "-p", self.plan, "--format", "json", "--what-if", "none"))
        names = ("node", "from", "to", "start", "end")
        columns = [self.columns[f"1.path_{name}"] for name in names]
        devices = [d["name"] for d in self.head["machine"]["devices"]]
        path = [(p["node"], devices.index(p["from"]) if isinstance(p["from"], str) else p["from"],
                 devices.index(p["to"]) if isinstance(p["to"], str) else p["to"], p["start_ps"], p["end_ps"]) for p in explained["path"]]
        self.assertEqual(list(zip(*columns)), path)

    def test_every_op_can_be_searched(self):
        with gzip.open(GRAPH, "rt", encoding="utf-8") as file:
            nodes = json.load(file)["nodes"]
        self.assertEqual(self.head["names"], [n["name"] for n in nodes])
        written = [n["id"] for n in nodes if self.columns["1.task_of"][n["id"]] >= 0]
        self.assertEqual({self.columns["1.task_of"][n] for n in written}, set(range(len(self.columns["1.task_node"]))))
        self.assertEqual(dict(self.head["labels"]), {n["id"]: n["label"] for n in nodes if n.get("label")})

    def test_candidates_come_with_the_plan_or_with_the_search(self):
        with open(self.plan, encoding="utf-8") as file:
            candidates = json.load(file)["candidates"]
        self.assertEqual([c["method"] for c in self.head["candidates"]], [c["method"] for c in candidates])
        self.assertTrue(any(c["found"] for c in self.head["candidates"]))
        again = self.path("again.html")
        said = self.done("report", GRAPH, "--plan", self.plan, "-o", again)
        self.assertEqual(said, f"report written to {again}; open it in a browser\n")
        head, columns = unpacked(read(again))
        self.assertEqual(head["candidates"], candidates)
        for name, numbers in self.columns.items():
            self.assertEqual(columns[name], numbers, name)

    def test_a_measured_trace_beside(self):
        """Its own trace, as if it had been measured: each event is an op of the graph, on a track with a device's name."""
        page = self.path("m.html")
        self.done("report", GRAPH, "-p", self.plan, "-o", page, "--measured", self.trace)
        head, columns = unpacked(read(page))
        tracks = head["measured"]["tracks"]
        seen = 0
        for track, node, name, start, end in zip(*(columns[f"measured_{c}"] for c in ("track", "node", "name", "start", "end"))):
            if name >= 0:
                self.assertEqual(head["measured"]["names"][name], "charges")
            if tracks[track]["device"] < 0 or node < 0:
                continue
            task = columns["1.task_of"][node]
            self.assertEqual(tracks[track]["device"], columns["1.task_device"][task])
            self.assertAlmostEqual(end - start, columns["1.task_end"][task] - columns["1.task_start"][task], delta=2e3)
            seen += 1
        self.assertEqual(seen, len(columns["1.task_node"]))


class Real(Case):
    """Traces of real runs, cut down to what is read of them (tests/report/real): two steps of three linear layers under PyTorch 2.11's
    profiler, the same step placed on two CPU devices (the executor's own trace; the profiler's, of all threads), and JAX 0.10's of a
    jitted function."""

    def real(self, name):
        return os.path.join(program.ROOT, "tests", "report", "real", name)

    def laid_over(self, graph, trace, plan="single"):
        """The head and, of each measured event, (its track's name, the name of its node or None, its own name or None, start, end)."""
        page = self.path("r.html")
        self.done("report", self.real(graph), "-m", "h200x2", "-p", plan, "-o", page, "--measured", trace, stderr=None)
        head, columns = unpacked(read(page))
        track, node, name, start, end = (columns[f"measured_{c}"] for c in ("track", "node", "name", "start", "end"))
        return head, [(head["measured"]["tracks"][t]["name"], head["names"][n] if n >= 0 else None,
                       head["measured"]["names"][k] if k >= 0 else None, a, b) for t, n, k, a, b in zip(track, node, name, start, end)]

    def test_the_executor_names_ops_and_devices(self):
        head, events = self.laid_over("torch-graph.json", self.real("executor.json"), "spread")
        self.assertEqual([t["device"] for t in head["measured"]["tracks"]], [0, 1])
        self.assertEqual(len(events), head["graph"]["ops"])
        self.assertEqual(len({node for _, node, _, _, _ in events} - {None}), head["graph"]["ops"])
        self.assertEqual(min(start for *_, start, _ in events), 0)

    def test_pytorch_s_operators_are_the_nodes_in_their_order(self):
        _, events = self.laid_over("torch-graph.json", self.real("torch-profile.json"))
        found = [node for _, node, _, _, _ in events if node]
        first = ["addmm", "relu", "addmm_1", "relu_1", "addmm_2", "pow_1", "mean", "ones_like", "div", "pow_2"]
        self.assertEqual(found[: len(first)], first)
        self.assertEqual(found[: len(found) // 2], found[len(found) // 2 :])  # two steps
        self.assertEqual([node for node in found if node.startswith("mm")], 2 * ["mm", "mm_1", "mm_2", "mm_3", "mm_4"])
        self.assertNotIn("detach", found)  # a view, of whose name PyTorch has an event
        others = [name for _, _, name, _, _ in events if name]
        self.assertIn("aten::linear", others)  # that is an addmm inside
        self.assertIn("aten::mul", others)  # the graph's update has more of them than SGD
        start = {node: start for _, node, _, start, _ in reversed(events) if node}
        self.assertEqual(start["addmm"], 0)

    def test_operators_in_another_order_are_not_guessed_at(self):
        """On several threads; beside kernels of a GPU; where one comes before its time."""
        _, events = self.laid_over("torch-graph.json", self.real("torch-profile-threads.json"))
        self.assertEqual([node for _, node, _, _, _ in events if node], [])
        with open(self.real("torch-profile.json"), encoding="utf-8") as file:
            trace = json.load(file)
        relu = [e for e in trace["traceEvents"] if e["name"] == "aten::relu"]
        relu[1]["ts"], relu[0]["ts"] = max(e["ts"] for e in trace["traceEvents"] if "ts" in e) + 1e6, relu[1]["ts"]
        _, events = self.laid_over("torch-graph.json", self.path("late.json", trace))
        self.assertEqual([node for _, node, _, _, _ in events if node], [])
        with open(self.real("torch-profile.json"), encoding="utf-8") as file:
            trace = json.load(file)
        trace["traceEvents"].append({"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 0, "dur": 1})
        _, events = self.laid_over("torch-graph.json", self.path("gpu.json", trace))
        self.assertEqual([node for _, node, _, _, _ in events if node], [])

    def test_jax_says_which_instruction_it_is(self):
        head, events = self.laid_over("jax-module.hlo", self.real("jax-profile.json"))
        self.assertEqual([node for _, node, _, _, _ in events if node], ["ynn_fusion", "multiply_add_fusion", "dot", "multiply_subtract_fusion"])
        tracks = {track for track, node, _, _, _ in events if node}
        self.assertEqual(len(tracks), 1)
        self.assertTrue(tracks.pop().startswith("tf_XLA"))
        self.assertEqual(head["measured"]["left_out"], 0)
        python = [start for _, _, name, start, _ in events if name and name.startswith("$")]
        self.assertLess(min(python), 0)  # what the host did before the step


class Measured(Case):
    def test_ids_are_texts_and_what_is_left_out_is_counted(self):
        trace = [{"ph": "X", "name": "n2", "pid": "host \u00e9", "tid": "h200:0", "ts": "5", "dur": 1},
                 {"ph": "X", "name": "n3", "pid": "host \u00e9", "tid": 7, "ts": 6, "dur": 0},
                 {"ph": "X", "name": "n2", "pid": 1, "tid": 7, "ts": 7, "dur": -1},
                 {"ph": "X", "name": "n2", "pid": 1, "tid": 7, "ts": "soon", "dur": 1},
                 {"ph": "X", "name": "n2", "pid": 1, "tid": 7, "ts": 7}, {"ph": "B", "name": "n2", "pid": 1, "tid": 7, "ts": 7}]
        here = ["report", self.path("s.json", SMALL), "-m", "h200x2", "-p", "single", "-o", self.path("r.html"), "--measured"]
        self.done(*here, self.path("t.json", trace), stderr=None)
        head, columns = unpacked(read(self.path("r.html")))
        self.assertEqual(head["measured"]["left_out"], 3)
        self.assertEqual([(t["process"], t["name"], t["device"]) for t in head["measured"]["tracks"]],
                         [("host \u00e9", "h200:0", 0), ("host \u00e9", "7", -1)])
        self.assertEqual(list(zip(columns["measured_start"], columns["measured_end"])), [(0, 1e6), (1e6, 1e6)])
        self.fault(*here, self.path("none.json", trace[2:]), says=["none.json", "none of 3 complete events"])


    def test_without_ops_time_begins_where_a_gpu_does(self):
        """A replay of a CUDA graph as PyTorch's profiler has it: the host first, then kernels, copies and fills on streams."""
        host = [{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 31, "tid": 31, "ts": 4177320066000.5, "dur": 90.25,
                 "args": {"cbid": 311, "correlation": 40}}]  # fmt: skip
        here = ["report", self.path("s.json", SMALL), "-m", "h200x2", "-p", "single", "-o", self.path("r.html"), "--measured"]

        def starts(events):
            self.done(*here, self.path("t.json", {"schemaVersion": 1, "traceEvents": events}), stderr=None)
            head, columns = unpacked(read(self.path("r.html")))
            return {head["measured"]["names"][name] if name >= 0 else head["names"][node]: start for name, node, start in
                    zip(columns["measured_name"], columns["measured_node"], columns["measured_start"])}  # fmt: skip

        def on_gpu(category, name, stream, ts):
            return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": 2.5,
                    "args": {"device": 0, "context": 1, "stream": stream, "correlation": 40}}  # fmt: skip

        second = on_gpu("kernel", "sgemm", 11, 4177320067604.75)
        for category in ("kernel", "gpu_memcpy", "gpu_memset"):
            first = on_gpu(category, "first", 7, 4177320067600.5)
            self.assertEqual(starts([*host, second, first]), {"first": 0, "sgemm": 4.25e6, "cudaGraphLaunch": -1.6e9})
        op = {"ph": "X", "name": "n2", "pid": 31, "tid": 31, "ts": 4177320066010.5, "dur": 1}
        self.assertEqual(starts([*host, second, op]), {"n2": 0, "sgemm": 1594.25e6, "cudaGraphLaunch": -10e6})  # ops go first
        self.assertEqual(starts(host), {"cudaGraphLaunch": 0})


class Page(Case):
    def test_the_policy_names_the_one_script_and_the_one_style(self):
        page = self.path("r.html")
        self.done("report", OTHER, "-m", "h200x2", "--plan", "spread", "-o", page)
        text = read(page)
        policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)[1]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        self.assertEqual(rules["default-src"], "'none'")
        scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
        styles = re.findall(r"<style>(.*?)</style>", text, re.S)
        self.assertEqual((len(scripts), len(styles), text.count("<script")), (1, 1, 2))
        self.assertEqual(rules["script-src"], f"'sha256-{sha256(scripts[0])}'")
        self.assertEqual(rules["style-src"], f"'sha256-{sha256(styles[0])}'")
        self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?://")  # that one is a name, and fetched by nobody
        self.assertNotRegex(scripts[0], r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function")

    def test_names_stay_data(self):
        """Of ops, labels, the graph, the machine, a device, a measured event and its track: in the packed part alone."""
        graph = json.loads(json.dumps(SMALL))
        graph["name"] = "graph" + EVIL
        for entry in graph["nodes"]:
            entry["name"] += EVIL
        graph["nodes"][0]["label"] = "module" + EVIL + ".weight"
        machine = json.loads(self.done("machine", "h200x2"))
        machine["name"] = "machine" + EVIL
        for device in machine["devices"]:
            device["name"] += EVIL
        for link in machine["links"]:
            link["from"] += EVIL
            link["to"] += EVIL
        trace = [{"ph": "X", "name": "event" + EVIL, "pid": EVIL, "tid": EVIL, "ts": 0, "dur": 1},
                 {"ph": "M", "name": "process_name", "pid": EVIL, "args": {"name": "process" + EVIL}}]
        plain, page = self.path("plain.html"), self.path("r.html")
        self.done("report", self.path("s.json", SMALL), "-m", "h200x2", "-p", "single", "-o", plain, stderr=None)
        self.done("report", self.path("g.json", graph), "-m", self.path("m.json", machine), "-p", "single", "-o", page, "--measured",
                  self.path("t.json", trace), stderr=None)
        text = read(page)
        data = r'(<script id="data"[^>]*>)[^<]*'
        self.assertEqual(re.sub(data, r"\1", text), re.sub(data, r"\1", read(plain)))
        head, _ = unpacked(text)
        self.assertEqual(head["names"][2], "n2" + EVIL)
        self.assertEqual(head["graph"]["name"], "graph" + EVIL)
        self.assertEqual(head["measured"]["names"], ["event" + EVIL])

    def test_a_name_of_many_levels_is_written_once(self):
        graph = json.loads(json.dumps(SMALL))
        del graph["nodes"][0]["label"]
        name = graph["nodes"][3]["name"] = "ab/" * 3000 + "x"
        graph["nodes"][2]["name"] = "ab/cd/y"
        page = self.path("r.html")
        self.done("report", self.path("g.json", graph), "-m", "h200x2", "-p", "single", "-o", page, stderr=None)
        head, columns = unpacked(read(page))
        self.assertLess(len(json.dumps(head)), len(name) + 20_000)
        paths = []
        for more, parent in head["modules"]:
            paths.append(more if parent < 0 else paths[parent] + more)
        self.assertEqual(sorted(paths), sorted(["ab", "ab/cd"] + ["/".join(["ab"] * k) for k in range(2, 65)]))
        self.assertEqual(paths[columns["node_module"][2]], "ab/cd")
        self.assertEqual(paths[columns["node_module"][3]], "/".join(["ab"] * 64))

    def test_standard_output(self):
        out = self.done("report", self.path("s.json", SMALL), "-m", "h200x2", "-p", "single", "-o", "-", stderr=None)
        self.assertTrue(out.startswith("<!doctype html>\n") and out.endswith("</html>\n"))

    def test_compare_and_simulate_write_one(self):
        graph, page = self.path("s.json", SMALL), self.path("r.html")
        self.done("compare", graph, "-m", "h200x2", "--methods", "single,spread", *QUICK, "--report", page, stderr=None)
        head, _ = unpacked(read(page))
        self.assertEqual([c["method"] for c in head["candidates"]], ["single", "spread"])
        os.remove(page)
        self.done("simulate", graph, "-m", "h200x2", "-p", "spread", "--report", page, stderr=None)
        self.assertEqual(unpacked(read(page))[0]["runs"][-1]["method"], "spread")

    def test_a_plan_that_only_lacks_memory_is_shown(self):
        page = self.path("r.html")
        self.done("report", self.path("s.json", SMALL), "-m", "h200x2", "-p", "single", "--memory", "100", "-o", page, stderr=None)
        head, _ = unpacked(read(page))
        self.assertFalse(head["runs"][-1]["valid"])
        self.assertIn("memory", head["runs"][-1]["reason"])

    def test_the_same_twice(self):
        pages = [self.path(name) for name in ("a.html", "b.html")]
        for page in pages:
            self.done("report", OTHER, "-m", "h200x4", "-p", "heft", "-o", page)
        self.assertEqual(read(pages[0]), read(pages[1]))


class Faults(Case):
    def test_one_line(self):
        graph = self.path("s.json", SMALL)
        here = ["report", graph, "-m", "h200x2", "-p", "single", "-o", self.path("r.html")]
        self.fault("report", graph, "-m", "h200x2", says=["--plan"])
        self.fault(*here, "--measured", self.path("none.json"), says=["none.json"])
        self.fault(*here, "--measured", self.path("bad.json", "{"), says=["bad.json", "line 1"])
        self.fault(*here, "--measured", self.path("empty.json", "[]"), says=["empty.json", "complete events"])
        self.fault(*here, "--measured", self.path("other.json", '{"a": 1}'), says=["other.json", "complete events"])
        far = [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1e300, "dur": 1}]
        self.fault(*here, "--measured", self.path("far.json", far), says=["far.json", "1e+300 us"])
        self.fault(*here[:-1], graph, says=["overwrite"])
        self.fault("simulate", graph, "-m", "h200x2", "-p", "single", "--report", "-", says=["--report needs a file"])
        self.fault("simulate", graph, "-m", "h200x2", "-p", "single", "--measured", "x.json", says=["--report FILE.html"])
        self.fault("compare", graph, "-m", "h200x2,h200x4", "--report", "x.html", says=["one graph and one machine"])
        self.assertFalse(os.path.exists(self.path("r.html")))


if __name__ == "__main__":
    sys.exit(program.main())
