"""stowage calibrate: what reaches the interpreter and what comes back, with one that only keeps record; and the measuring itself, where
torch is installed.

    python3 tests/cli/test_calibrate.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import unittest

import program
from program import LONGEST_S, ROOT, Case
from python_package import torch_lacks

# Answers the question that comes first, then writes down its arguments and does what END says.
# Begun by a shell, since the path of this interpreter may have a blank in it, which a first line cannot have.
FAKE = """#!/bin/sh
''''exec "{python}" "$0" "$@" #'''
import json, os, signal, sys
if sys.argv[1] == "-c":
    if "WAITS" in os.environ:
        print("ready", file=sys.stderr, flush=True)
        signal.sigwait([signal.SIGTERM])
    sys.exit(int(os.environ.get("ANSWER", "0")))
with open(os.environ["RECORD"], "w") as file:
    json.dump([sys.argv[1:], dict(os.environ)], file)
{end}
"""
WAITS = """
numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", file=sys.stderr, flush=True)
print(int(signal.sigwait(numbers)), flush=True)
sys.exit(7)
"""
STUBBORN = """
numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", file=sys.stderr, flush=True)
while True:
    signal.sigwait(numbers)
"""
DEVICES = ["--devices", "cpu:0"]


def with_signals(*ignored):
    """For a child that is to begin with these ignored and no others, however the tests were started."""
    def set_signals():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
    return set_signals


class WithFake(Case):
    def fake(self, end="", name="python"):
        path = self.path(name, FAKE.format(python=sys.executable, end=end))
        os.chmod(path, 0o755)
        return path

    def setUp(self):
        super().setUp()
        self.record = self.path("record")
        self.environment = {"RECORD": self.record, "STOWAGE_PYTHON": ""}

    def recorded(self):
        with open(self.record) as file:
            return json.load(file)

    def began(self, *arguments, ignored=()):
        """A process whose interpreter has said that it is ready."""
        environment = {**os.environ, **self.environment}
        process = subprocess.Popen([program.binary, "calibrate", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                   env=environment, start_new_session=True, preexec_fn=with_signals(*ignored))
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stderr.readline(), b"ready\n")
        return process


class Interpreter(WithFake):
    def test_arguments_arrive_unchanged(self):
        strange = "a b'c\"d;e$(touch never)`f`|g&*?\\h\ni%s"
        model = f"{strange}.py:make it;"
        out = self.done("calibrate", "--python", self.fake(), "--devices", strange, "-o", f"./{strange}", "--model", model, "--graph", "-g;.gz",
                        "--copies", "--format", "json", env=self.environment)
        self.assertEqual(out, "")
        arguments, environment = self.recorded()
        self.assertEqual(arguments, ["-m", "stowage.torch", f"--devices={strange}", f"--output=./{strange}", f"--model={model}",
                                     "--graph=-g;.gz", "--format=json", "--copies"])
        self.assertEqual(environment["PYTHONSAFEPATH"], "1")
        self.assertEqual(sorted(os.listdir(self.folder)), ["python", "record"])

    def test_bytes_that_are_no_text(self):
        """Paths are bytes."""
        name = b"\xff\xfe.json"
        self.done("calibrate", "--python", self.fake(), *DEVICES, "-o", name, env=self.environment)
        self.assertEqual(os.fsencode(self.recorded()[0][3]), b"--output=" + name)

    def test_status_and_output_are_passed_on(self):
        for status in (0, 1, 2, 77):
            path = self.fake(f"print('out'); print('err', file=sys.stderr); sys.exit({status})")
            result = self.run_stowage("calibrate", "--python", path, *DEVICES, "-o", "m.json", env=self.environment)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (status, b"out\n", b"err\n"))

    def test_ended_by_a_signal(self):
        path = self.fake("os.kill(os.getpid(), signal.SIGKILL)")
        result = self.run_stowage("calibrate", "--python", path, *DEVICES, "-o", "m.json", env=self.environment)
        self.assertEqual((result.returncode, result.stderr.count(b"\n")), (1, 1), result)
        self.assertRegex(result.stderr.decode(), r"^stowage: .*python was ended by signal 9 .*memory")

    def test_reader_that_has_seen_enough(self):
        path = self.fake("signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGPIPE)")
        result = self.run_stowage("calibrate", "--python", path, *DEVICES, "-o", "m.json", env=self.environment)
        self.assertEqual((result.returncode, result.stderr), (-signal.SIGPIPE, b""))

    def test_which_interpreter(self):
        """--python, else STOWAGE_PYTHON, else python3 and python on PATH."""
        named, usual = self.fake("print('named')", "named"), self.path("bin")
        os.mkdir(usual)
        arguments = ["calibrate", *DEVICES, "-o", "m.json"]
        here = {**self.environment, "PATH": usual}
        self.fault(*arguments, env=here, says=["neither python3 nor python", "--python"])
        self.fake("print('python')", "bin/python")
        self.assertEqual(self.done(*arguments, env=here), "python\n")
        self.fake("print('python3')", "bin/python3")
        self.assertEqual(self.done(*arguments, env=here), "python3\n")
        self.assertEqual(self.done(*arguments, env={**here, "STOWAGE_PYTHON": named}), "named\n")
        self.assertEqual(self.done(*arguments, "--python", "python3", env={**here, "STOWAGE_PYTHON": named}), "python3\n")

    def test_interpreter_that_cannot_be_run(self):
        plain = self.path("plain", "echo this is no program\n")
        os.chmod(plain, 0o755)  # which a shell would run
        for path, why in (("/no/such/python", "No such file"), (self.folder, "Permission denied"), (plain, "format")):
            self.fault("calibrate", "--python", path, *DEVICES, "-o", "m.json", env=self.environment, says=["--python", path, why])
            self.fault("calibrate", *DEVICES, "-o", "m.json", env={**self.environment, "STOWAGE_PYTHON": path}, says=["STOWAGE_PYTHON", why])
        self.fault("calibrate", "--python", self.fake(), *DEVICES, "-o", "m.json", env={**self.environment, "ANSWER": "5"},
                   says=["does not work as a Python interpreter", "exit status 5", "--python"])

    def test_packages_that_are_lacking(self):
        """Asked of this interpreter, which sees only what the test lays out."""
        def refused(*says):
            return self.fault("calibrate", "--python", sys.executable, *DEVICES, "-o", "m.json", says=[sys.executable, *says],
                              env={"PYTHONPATH": self.folder, "PYTHONNOUSERSITE": "1"})

        os.mkdir(self.path("stowage"))
        refused("has no package stowage", "pip install", "--python")  # a folder of that name is none
        self.path("stowage/__init__.py", "raise ImportError('libstowage.so is\\nnot there')")
        refused("cannot be loaded", "libstowage.so is not there")
        self.path("stowage/__init__.py", "")
        self.path("sitecustomize.py", "import sys\nsys.modules['torch'] = None\n")  # as if it were not installed
        refused("has no PyTorch", "pip install torch", "--python")

    def test_what_is_refused_before_the_interpreter_runs(self):
        path, module = self.fake(), self.path("net.py", "")
        there = self.path("no/such/m.json")
        for arguments, words in (
            (["-o", "m.json"], ["--devices"]),
            ([*DEVICES], ["-o FILE"]),
            ([*DEVICES, "-o", there], [there, "cannot be written", "No such file"]),
            ([*DEVICES, "-o", self.folder], [self.folder, "cannot be written", "directory"]),
            ([*DEVICES, "-o", "m.json", "--model", "net.py:make", "--graph", there], [there, "cannot be written"]),
            ([*DEVICES, "-o", "m.json", "--graph", "g.json"], ["--graph needs --model"]),
            ([*DEVICES, "-o", "m.json", "--model", "net.py:make"], ["--model needs --graph"]),
            ([*DEVICES, "-o", "m.json", "--model", "net.py:make", "--graph", "-"], ["--graph needs a file"]),
            ([*DEVICES, "-o", "m.json", "--model", "net.py", "--graph", "g.json"], ["'net.py'", "FILE.py:FUNCTION"]),
            ([*DEVICES, "-o", "m.json", "--model", "net.py:", "--graph", "g.json"], ["FILE.py:FUNCTION"]),
            ([*DEVICES, "-o", "m.json", "--model", "net.py:make", "--graph", "./m.json"], ["is also that of --output"]),
            ([*DEVICES, "-o", module, "--model", "net.py:make", "--graph", "g.json"], ["--output", "is also that of --model"]),
            ([*DEVICES, "-o", "m.json", "--model", "net.py:make", "--graph", module], ["--graph", "is also that of --model"]),
            ([*DEVICES, "-o", "m.json", "more"], ["unexpected argument 'more'"]),
        ):
            with self.subTest(arguments):
                self.fault("calibrate", "--python", path, *arguments, env=self.environment, says=words)
                self.assertFalse(os.path.exists(self.record))


class Interrupts(WithFake):
    def test_signals_reach_the_interpreter(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                process = self.began("--python", self.fake(WAITS), *DEVICES, "-o", "m.json")
                process.send_signal(number)
                out, err = process.communicate(timeout=LONGEST_S)
                self.assertEqual((process.returncode, out.decode(), err), (130, f"{int(number)}\n", b""))

    def test_while_the_interpreter_is_asked(self):
        self.environment["WAITS"] = "yes"
        process = self.began("--python", self.fake(), *DEVICES, "-o", "m.json")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.communicate(timeout=LONGEST_S), (b"", b""))
        self.assertEqual((process.returncode, os.path.exists(self.record)), (130, False))

    def test_the_second_ends_it_at_once(self):
        """Two of different kinds: of one kind, what comes twice at once comes once."""
        process = self.began("--python", self.fake(STUBBORN), *DEVICES, "-o", "m.json")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=LONGEST_S), (b"", b""))
        self.assertEqual(process.returncode, 130)

    def test_caller_that_ignores_its_children(self):
        result = self.run_stowage("calibrate", "--python", self.fake("sys.exit(3)"), *DEVICES, "-o", "m.json", env=self.environment,
                                  preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual((result.returncode, result.stderr), (3, b""))

    def test_what_the_caller_ignores_stays_ignored(self):
        process = self.began("--python", self.fake(WAITS), *DEVICES, "-o", "m.json", ignored=[signal.SIGHUP])
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LONGEST_S)
        self.assertEqual((process.returncode, out.decode(), err), (130, f"{int(signal.SIGTERM)}\n", b""))


MODEL = """
import torch
from torch import nn
import beside
print("said while it is loaded")

def make():
    return nn.Sequential(nn.Linear(beside.WIDTH, 32), nn.ReLU(), nn.Linear(32, 8)), (torch.randn(4, beside.WIDTH),)

def with_loss():
    return nn.Linear(8, 8), [torch.randn(4, 8)], {"loss": lambda y: y.abs().sum(), "train": True}

def fails():
    raise ValueError("no\\nluck")

def leaves():
    raise SystemExit(0)

def nothing():
    return None

def no_tuple():
    return nn.Linear(8, 8), torch.randn(4, 8)

def own_keyword():
    return nn.Linear(8, 8), (torch.randn(4, 8),), {"machine": 1}

VALUE = 5
"""
QUIET = {"TORCH_LOGS": "-torch.utils.flop_counter"}  # which misses Triton; the program itself says so to PyTorch
LACKS = torch_lacks() or ("the program is built with a sanitizer" if "STOWAGE_SLOW_BUILD" in os.environ else "")


@unittest.skipIf(LACKS, LACKS)
class Measured(Case):
    def setUp(self):
        super().setUp()
        library = os.path.join(os.path.dirname(program.binary), "libstowage.so")
        self.environment = {"STOWAGE_PYTHON": sys.executable, "STOWAGE_LIBRARY": library, "PYTHONDONTWRITEBYTECODE": "1",
                            "PYTHONPATH": os.path.join(ROOT, "python", "src")}
        core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        self.one, self.two = f"cpu:{core}", f"cpu:{core},cpu:{core}"  # every machine has one core
        self.path("net.py", MODEL)
        self.path("beside.py", "WIDTH = 16\n")

    def calibrate(self, *arguments, **more):
        return self.done("calibrate", *arguments, env=self.environment, **more)

    def refused(self, *arguments, says):
        before = sorted(os.listdir(self.folder))
        self.fault("calibrate", *arguments, env=self.environment, says=says)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def all_refused(self, cases):
        """(arguments, words) of calls of python -m stowage.torch, in one interpreter, since it takes seconds to load."""
        code = "import json, sys; from stowage.torch.__main__ import main; print([main(a) for a in json.load(sys.stdin)])"
        before = sorted(os.listdir(self.folder))
        result = subprocess.run([sys.executable, "-c", code], input=json.dumps([arguments for arguments, _ in cases]), cwd=self.folder,
                                env={**os.environ, **self.environment, **QUIET}, capture_output=True, text=True, timeout=LONGEST_S)
        self.assertEqual(result.stdout, f"{[2] * len(cases)}\n", result.stderr)
        for line, (_, words) in zip(result.stderr.splitlines(), cases, strict=True):
            self.assertRegex(line, "^stowage: ")
            for word in words:
                self.assertIn(word, line)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    @unittest.skipUnless("STOWAGE_LONG" in os.environ, "STOWAGE_LONG is not set; make check-all does that")
    def test_machine(self):
        out = self.calibrate("--devices", self.two, "-o", "m.json")
        with open(self.path("m.json")) as file:
            machine = json.load(file)
        self.assertEqual([device["name"] for device in machine["devices"]], [f"0:{self.one}", f"1:{self.one}"])
        self.assertEqual((len(machine["links"]), [device["kind"] for device in machine["devices"]]), (2, ["cpu1", "cpu1"]))
        again = json.loads(self.done("machine", "m.json"))
        self.assertEqual([d["launch_us"] for d in again["devices"]], [d["launch_us"] for d in machine["devices"]])
        for word in ("device", "kind", "memory", "f32", "bandwidth", "launch", "latency", "send", "receive", f"0:{self.one}", "FLOP/s",
                     "every device", "not moved"):
            self.assertIn(word, out)
        self.assertTrue(all(len(line) <= 100 for line in out.splitlines()), out)

    @unittest.skipUnless("STOWAGE_LONG" in os.environ, "STOWAGE_LONG is not set; make check-all does that")
    def test_printed_machine(self):
        written = self.calibrate("--devices", self.one, "-o", "-")
        self.assertEqual(len(json.loads(written)["devices"]), 1)
        self.assertEqual(self.done("machine", "-", input=written.encode()).count("cpu1"), 1)
        printed = self.calibrate("--devices", self.one, "-o", "m.json", "-f", "json")
        with open(self.path("m.json")) as file:
            self.assertEqual(json.loads(printed), json.load(file))

    def test_model(self):
        self.calibrate("--devices", self.two, "-o", "m.json", "--model", "net.py:make", "--graph", "g.json.gz",
                       stderr="said while it is loaded\n")
        with gzip.open(self.path("g.json.gz")) as file:
            nodes = json.load(file)["nodes"]
        timed = [node["us"]["cpu1"] for node in nodes if "us" in node]
        self.assertGreater(len(timed), 8)
        self.assertGreater(min(timed), 0)
        self.done("optimize", "g.json.gz", "--machine", "m.json", "--tasks", "placement,schedule", "--evaluations", "50", "-o", "plan.json")
        report = json.loads(self.done("simulate", "g.json.gz", "-p", "plan.json", "-f", "json"))
        self.assertEqual((report["valid"], report["measured_share"]), (True, 1.0))

    @unittest.skipUnless("STOWAGE_LONG" in os.environ, "STOWAGE_LONG is not set; make check-all does that")
    def test_model_with_keywords(self):
        self.calibrate("--devices", self.one, "-o", "m.json", "--model", self.path("net.py") + ":with_loss", "--graph", "g.json", stderr=None)
        with open(self.path("g.json")) as file:
            self.assertIn("abs", [node["op"] for node in json.load(file)["nodes"]])

    def test_devices_that_are_not_there(self):
        self.refused("--devices", "cpu:99999", "-o", "m.json", says=["99999", "may use"])
        self.all_refused([(["--devices", devices, "-o", "m.json"], words) for devices, words in (
            ("cuda:4096", ["cuda:4096", "not there"]), ("tpu:0", ["'tpu:0' is no device"]), (f"{self.one},cuda:4096", ["'cuda:4096' is not there"]),
            (f"{self.one},", ["empty entry"]))])

    @unittest.skipUnless("STOWAGE_LONG" in os.environ, "STOWAGE_LONG is not set; make check-all does that")
    def test_models_that_are_none(self):
        self.path("net.py", MODEL.replace("print(", "str("))
        self.path("broken.py", "def make(:\n")
        self.refused("--devices", self.one, "-o", "m.json", "--model", "net.py:fails", "--graph", "g.json",
                     says=["--model: net.py, line 14", "ValueError: no luck"])
        lines = {"none.py:make": ["no file 'none.py'"], "net.py:none": ["no function 'none'"], "net.py:VALUE": ["no function 'VALUE'"],
                 "net.py:leaves": ["line 17", "SystemExit"], "net.py:nothing": ["must return (module, args)"],
                 "net.py:no_tuple": ["args as a tuple"], "net.py:own_keyword": ["'machine'"], "broken.py:make": ["broken.py", "SyntaxError"]}
        self.all_refused([(["--devices", self.one, "-o", "m.json", "--model", model, "--graph", "g.json"], words) for model, words in lines.items()])

    @unittest.skipUnless("STOWAGE_LONG" in os.environ, "STOWAGE_LONG is not set; make check-all does that")
    def test_module_alone(self):
        """python -m stowage.torch, which checks by itself what the program checks."""
        good = ["--devices", self.one, "-o", "m.json"]
        there = self.path("no/such/m.json")
        self.all_refused([([], ["--devices"]), ([*good, "--wrong"], ["--wrong"]), ([*good, "--graph", "g.json"], ["need each other"]),
                          (["--devices", self.one, "-o", there], [f"{there}: cannot be written: No such file"]),
                          (["--devices", self.one, "-o", self.folder], ["cannot be written: Is a directory"]),
                          ([*good, "--model", "net.py", "--graph", "g.json"], ["FILE.py:FUNCTION"]),
                          ([*good, "--model", "net.py:make", "--graph", "-"], ["--graph needs a file"]),
                          ([*good, "--model", "net.py:make", "--graph", "m.json"], ["is also that of --output"])])
        with open("/dev/full", "w") as full:
            result = subprocess.run([sys.executable, "-m", "stowage.torch", *good], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True,
                                    env={**os.environ, **self.environment, **QUIET}, timeout=LONGEST_S)
        self.assertEqual((result.returncode, result.stderr), (2, "stowage: standard output: cannot be written: No space left on device\n"))

    def test_interrupted(self):
        """While the model is made: nothing is written, and nothing but the model's own words is said."""
        self.path("slow.py", "import sys, threading\ndef make():\n    print('begun', flush=True)\n    threading.Event().wait()\n")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            arguments = [program.binary, "calibrate", "--devices", self.one, "-o", "m.json", "--model", "slow.py:make", "--graph", "g.json"]
            process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                       env={**os.environ, **self.environment}, start_new_session=True, preexec_fn=with_signals())
            before = sorted(os.listdir(self.folder))
            self.assertEqual(process.stderr.readline(), b"begun\n")
            os.killpg(process.pid, number)  # as a terminal does: both get it, and the interpreter a second time from the program
            self.assertEqual(process.communicate(timeout=LONGEST_S), (b"", b""))
            self.assertEqual((process.returncode, sorted(os.listdir(self.folder))), (130, before))

    @unittest.skipUnless("STOWAGE_LONG" in os.environ, "STOWAGE_LONG is not set; make check-all does that")
    def test_interrupted_while_it_loads(self):
        """Signals that come with the interpreter's first breath wait until they can be handled; the second one is not spoken of."""
        self.path("sitecustomize.py", "import os, signal, sys\nif '-m' in sys.orig_argv:\n"
                                      "    for number in (signal.SIGINT, signal.SIGTERM):\n        os.kill(os.getpid(), number)\n")
        paths = os.pathsep.join([self.folder, self.environment["PYTHONPATH"]])
        self.done("calibrate", "--devices", self.one, "-o", "m.json", env={**self.environment, "PYTHONPATH": paths}, status=130,
                  preexec_fn=with_signals())
        self.assertFalse(os.path.exists(self.path("m.json")))

    def test_tables_of_any_machine(self):
        """At most 100 columns, and no name is cut off."""
        code = """
import sys, json
from stowage.torch.__main__ import split_devices, summary
long = "3:cpu:" + ",".join(map(str, range(0, 120, 2)))
def device(k, name): return {"name": name, "kind": "a-kind-with-a-rather-long-name-of-its-own", "memory_bytes": 1.3e11 + k,
    "flops_per_s": {"f32": 6.66666e13}, "bandwidth_bytes_per_s": 4.44444e12, "launch_us": 12.3456}
devices = [device(k, f"{k}{long}") for k in range(7)]
links = [{"from": a["name"], "to": b["name"], "latency_us": 12.3456 + i, "bandwidth_bytes_per_s": [[1, 1e9], [2, 123.456e9]], "send_us": 123.456,
          "receive_us": 100.25} for i, a in enumerate(devices) for b in devices if a is not b]
text = summary({"devices": devices, "links": links})
print(max(map(len, text.splitlines())), "and 10 more" in text, "123 GB/s" in text, long[:12] in text, "118" in text)
print(summary({"devices": devices[:1], "links": []}).count("from"))
print(json.dumps([split_devices(t) for t in ("cpu:0-3,cpu:4-7", "cpu:0,2,cpu:1,3-5", "cuda:0/sm:64,cuda:0/sm:64", "cuda:0,1")]))
"""
        out = subprocess.run([sys.executable, "-c", code], env={**os.environ, **self.environment}, capture_output=True, text=True, check=True)
        first, second, third = out.stdout.splitlines()
        self.assertLessEqual(int(first.split()[0]), 100)
        self.assertEqual(first.split()[1:], ["True"] * 4)
        self.assertEqual(second, "0")
        self.assertEqual(json.loads(third), [["cpu:0-3", "cpu:4-7"], ["cpu:0,2", "cpu:1,3-5"], ["cuda:0/sm:64", "cuda:0/sm:64"], ["cuda:0,1"]])


if __name__ == "__main__":
    sys.exit(program.main())
