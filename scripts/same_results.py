#!/usr/bin/env python3
"""Whether two builds give the same results, bit for bit: what a change that only moves code must show.

    same_results.py PROGRAM --record FILE     makes the runs and writes down what came out
    same_results.py PROGRAM --against FILE    makes them again and lists every one that differs; exits 1 if one does

The runs cover every method, objective and set of tasks (by --evaluations, so that the clock has no say), the fingerprints of graphs in
every format, what is trained, and what is written for other programs. Of a plan everything counts that is decided or computed: its lists,
its value, bounds and peaks, and what each candidate came to; words do not count, since they may be improved."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import tempfile

os.environ["XDG_CONFIG_HOME"] = os.devnull  # the program is run without defaults of whoever runs this
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
METHODS = ["single", "spread", "topo", "random", "etf", "expert", "metis", "heft", "sct", "balance", "lean", "steer", "go-zero", "go-tune",
           "go-one", "hdp", "placeto", "anneal", "exact"]
TASKS = ["placement", "schedule", "fusion", "placement,schedule", "placement,fusion", "schedule,fusion", "all"]
PLAN_FIELDS = ["graph", "tasks", "method", "seed", "objective", "value", "step_s", "valid", "lower_bound_s", "lower_bound_fusion_s",
               "lower_bound_load_s", "lower_bound_bytes", "optimal", "measured_share", "peak_bytes", "noise", "device", "priority", "group",
               "order"]
CANDIDATE_FIELDS = ["method", "step_s", "value", "valid", "peak_bytes", "evaluations", "seed"]


TOWERS = "towers.json"  # stands in the folder of every run


def towers():
    """Two towers of products that are added up: small enough for `exact`, large enough to share out."""
    def node(index, op, inputs, flops=0):
        return {"id": index, "name": f"n{index}", "op": op, "inputs": inputs, "dtype": "f32", "shape": [256], "bytes": 1024, "flops": flops}

    nodes = [node(0, "input", [])]
    ends = []
    for tower in range(2):
        last = 0
        for layer in range(4):
            nodes.append(node(len(nodes), "parameter", []))
            nodes.append(node(len(nodes), "mul", [last, len(nodes) - 1], 5_000_000_000 + 1_000_000_000 * (tower + 2 * layer)))
            last = len(nodes) - 1
        ends.append(last)
    nodes.append(node(len(nodes), "add", ends, 256))
    return {"format": "opgraph", "version": 1, "name": "towers", "loss": len(nodes) - 1, "outputs": [len(nodes) - 1], "nodes": nodes}


def graph(name):
    return os.path.join(ROOT, "data", "graphs", name + ".json.gz")


def first(name):
    """A machine of version 0.1, as a file: older programs have no names for them."""
    return os.path.join(ROOT, "data", "machines", "0.1", name + ".json")


def shared(*parts):
    return os.path.join(os.path.dirname(ROOT), "shared", *parts)


def plan_runs():
    """name -> arguments that write a plan to plan.json"""
    runs = {}
    for method in METHODS:
        effort = ["--updates", "2", "--groups", "16"] if method == "hdp" else ["--updates", "3"] if method.startswith("go-") else []
        effort += ["--objective", "throughput"] if method == "balance" else []
        which = TOWERS if method == "exact" else graph("rnnlm-2" if method in ("hdp", "placeto", "go-one") else "inception-v3-b32")
        runs[f"method {method}"] = ["compare", which, "-m", first("h200x2"), "--methods", method, "--evaluations", "60", *effort,
                                    "--best", "plan.json"]
    for tasks in TASKS:
        runs[f"tasks {tasks}"] = ["optimize", graph("rnnlm-2"), "-m", first("h200x4"), "--tasks", tasks, "--evaluations", "120", "-o", "plan.json"]
    for objective in ("memory", "throughput"):
        for tasks in ("placement", "placement,schedule", "all"):
            runs[f"objective {objective}, {tasks}"] = ["optimize", graph("transformer-xl-2"), "-m", first("h200x2"), "--objective", objective,
                                                       "--tasks", tasks, "--evaluations", "80", "-o", "plan.json"]
    others = {
        "tight memory": [graph("gnmt-8"), "-m", first("h200x8"), "--memory", "6GB", "--evaluations", "20"],
        "unlike devices": [graph("wavenet-2x9"), "-m", first("cpu+h200x2"), "--evaluations", "60"],
        "eight devices": [graph("gnmt-2"), "-m", first("h200x8"), "--evaluations", "60"],
        "units off": [graph("rnnlm-2"), "-m", first("h200x2"), "--units", "off", "--evaluations", "40"],
        "paper preset": [graph("rnnlm-2"), "-m", first("h200x2"), "--preset", "paper", "--policy", "train", "--evaluations", "60"],
        "a policy trained here": [graph("rnnlm-2"), "-m", first("h200x2"), "--policy", "train", "--evaluations", "60"],
        "a fixed rule": [graph("unet"), "-m", first("h200x2"), "--rule", "critical-path", "--fusion", "default", "--evaluations", "40"],
        "another seed": [graph("vit-b16"), "-m", first("h200x4"), "--seed", "7", "--evaluations", "60"],
        "one device": [graph("resnet50"), "-m", first("h200x1"), "--evaluations", "60"],
    }
    for name, arguments in others.items():
        runs[name] = ["optimize", *arguments, "-o", "plan.json"]
    return runs


def file_runs():
    """name -> (arguments, the files that they write), whose bytes count"""
    spread = [graph("rnnlm-2"), "-m", first("h200x2"), "-p", "spread"]
    runs = {"export csv": (["export", *spread, "--to", "csv", "-o", "out"], ["out"])}
    runs["export dot"] = (["export", TOWERS, "-m", first("h200x2"), "-p", "spread", "--to", "dot", "-o", "out"], ["out"])
    runs["trace"] = (["simulate", *spread, "--trace", "out"], ["out"])
    runs["train"] = (["train", graph("rnnlm-2"), "-m", first("h200x2"), "--updates", "3", "-o", "out"], ["out"])
    runs["train a corpus"] = (["train", "--corpus", "all", "--updates", "2", "-o", "out"], ["out"])
    for family in ("rnnlm", "gnmt", "transformer-xl"):
        runs[f"generate {family}"] = (["generate", family, "-o", "out.json"], ["out.json"])
    models = [("hlo-text", shared("hlo", "transformer.nofusion.hlo.txt.gz")), ("hlo", shared("hlo", "convnet.before.hlo.txt.gz"))]
    models += [("onnx", path) for path in others(".onnx")[:3]]
    for form, path in models:
        if os.path.exists(path):
            arguments = ["export", path, "-m", first("h200x2"), "-p", "spread", "--to", form, "-o", "out"]
            runs[f"export {os.path.basename(path)} as {form}"] = (arguments, ["out"])
    return runs


def others(ending=""):
    """Other people's models, where they are present; the large ones take too long."""
    found = []
    for folder in ("hlo", "external"):
        for path, _, names in sorted(os.walk(shared(folder))):
            found += [os.path.join(path, name) for name in sorted(names) if name.endswith(ending)]
    return [path for path in found if os.path.getsize(path) < 3_000_000 and not path.endswith((".md", ".csv", "LICENSE.txt", ".kernels.json.gz"))]


def graphs():
    """Every graph whose fingerprint must stay."""
    folder = os.path.join(ROOT, "data", "graphs")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json.gz")] + others()


def execute(program, arguments, folder):
    with open(os.path.join(folder, TOWERS), "w", encoding="utf-8") as file:
        json.dump(towers(), file)
    return subprocess.run([program, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def digest(content):
    return hashlib.sha256(content).hexdigest()[:16]


def plan_result(program, arguments):
    with tempfile.TemporaryDirectory() as folder:
        run = execute(program, arguments, folder)
        path = os.path.join(folder, "plan.json")
        if not os.path.exists(path):
            return {"status": run.returncode}
        with open(path, encoding="utf-8") as file:
            plan = json.load(file, parse_float=str)  # as written: every digit counts
        result = {field: plan.get(field) for field in PLAN_FIELDS}
        result["candidates"] = [{field: candidate.get(field) for field in CANDIDATE_FIELDS} for candidate in plan.get("candidates") or []]
        result = {field: value if len(str(value)) < 60 else digest(json.dumps(value).encode()) for field, value in result.items()}
        return {"status": run.returncode, **result}


def file_result(program, arguments, names):
    with tempfile.TemporaryDirectory() as folder:
        run = execute(program, arguments, folder)
        result = {"status": run.returncode}
        for name in names:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    result[name] = digest(file.read())
        return result


def graph_result(program, path):
    run = subprocess.run([program, "inspect", path, "-f", "json"], capture_output=True, check=False)
    told = json.loads(run.stdout) if run.returncode == 0 else {}
    return {"status": run.returncode, "fingerprint": told.get("fingerprint") or told.get("graph", {}).get("fingerprint")}


def results(program):
    tasks = {name: (plan_result, program, arguments) for name, arguments in plan_runs().items()}
    tasks |= {name: (file_result, program, *what) for name, what in file_runs().items()}
    tasks |= {"graph " + os.path.relpath(path, os.path.dirname(ROOT)).split(os.sep, 1)[1]: (graph_result, program, path) for path in graphs()}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {name: pool.submit(*task) for name, task in tasks.items()}
        return {name: future.result() for name, future in futures.items()}


def differences(before, after):
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            yield f"{name}: only {'now' if was is None else 'before'}"
            continue
        for field in sorted(was.keys() | now.keys()):
            if was.get(field) != now.get(field):
                yield f"{name}: {field} was {was.get(field)}, is {now.get(field)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--record")
    group.add_argument("--against")
    options = parser.parse_args()
    now = results(os.path.abspath(options.program))
    if options.record:
        with open(options.record, "w", encoding="utf-8") as file:
            json.dump(now, file, indent=1)
        print(f"{len(now)} results recorded, {len(plan_runs())} of them plans")
        return 0
    with open(options.against, encoding="utf-8") as file:
        before = json.load(file)
    lines = list(differences(before, now))
    print("\n".join(lines))
    print(f"{len(now)} results, {len(plan_runs())} of them plans: {len({line.split(':')[0] for line in lines})} differ")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
