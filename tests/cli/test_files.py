"""Files in and out, for every command: limits, pipes and devices; paths that are checked before the work; times that no clock holds.

    python3 tests/cli/test_files.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import gzip
import json
import os
import resource
import stat
import subprocess
import sys
import unittest

import program
from program import GRAPH, SMALL, Case, node


def graph_of(*nodes):
    return {"format": "opgraph", "version": 1, "name": "g", "outputs": [len(nodes) - 1], "nodes": list(nodes)}


class Reading(Case):
    """Whatever a path leads to, a command ends, and takes no more memory than its limits say."""

    def packed_graph(self):
        """A graph file of 80 MB that packs into less than a two-hundredth of that."""
        text = json.dumps(SMALL).encode() + b" " * 80_000_000
        return self.path("wide.json.gz", gzip.compress(text, 1)), len(text)

    def test_what_unpacks_to_too_much(self):
        path, size = self.packed_graph()
        self.assertLess(os.path.getsize(path) * 200, size)
        plan = self.path("plan.json")
        for arguments in (["inspect", path], ["simulate", path, "-m", "h200x2", "-p", "single"],
                          ["optimize", path, "-m", "h200x2", "--evaluations", "5"], ["compare", path, "-m", "h200x2", "--evaluations", "5"],
                          ["export", path, "-m", "h200x2", "-p", "single", "--to", "csv"],
                          ["train", path, "-m", "h200x2", "--updates", "1", "-o", plan],
                          ["train", "--corpus", path, "--updates", "1", "-o", plan],
                          ["simulate", self.path("g.json", SMALL), "-m", "h200x2", "-p", "single", "--costs", path]):
            with self.subTest(command=arguments):
                self.fault(*arguments, says=["wide.json.gz: unpacks from ", "to more than ", "--file-limit"])
        self.assertIn("graph small", self.done("inspect", path, "--file-limit", "100MB"))
        self.done("simulate", path, "-m", "h200x2", "-p", "single", "--file-limit", "100MB")

    def test_limits_that_no_option_raises(self):
        machine = self.path("m.json.gz", gzip.compress(self.done("machine", "h200x2").encode() + b" " * 80_000_000, 1))
        line = self.fault("simulate", self.path("g.json", SMALL), "-m", machine, "-p", "single", says=["unpacks from", "unpack it beforehand"])
        self.assertNotIn("--file-limit", line or "")

    @unittest.skipIf("STOWAGE_SLOW_BUILD" in os.environ, "a sanitizer takes terabytes of address space")
    def test_a_small_address_space(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (900 << 20, 900 << 20))

        self.done("simulate", self.path("g.json", SMALL), "-m", "h200x2", "-p", "single", preexec_fn=limit)
        self.done("inspect", program.SLOW, preexec_fn=limit)

    def test_size_of_a_plain_file(self):
        path = self.path("g.json", SMALL)
        size = os.path.getsize(path)
        self.done("inspect", path, "--file-limit", str(size))
        for arguments in (["inspect", path], ["simulate", path, "-m", "h200x2", "-p", "single"]):
            self.fault(*arguments, "--file-limit", str(size - 1), says=["g.json: is larger than", "--file-limit"])
        self.fault("inspect", path, "--file-limit", "0", says=["--file-limit"])

    def test_a_sparse_file_without_end(self):
        path = self.path("sparse.json", "{")
        os.truncate(path, 1 << 42)
        self.fault("inspect", path, says=["sparse.json: is larger than 4294967296 bytes"])

    def test_devices(self):
        self.fault("inspect", "/dev/zero", says=["/dev/zero: is a device"])
        self.fault("optimize", "/dev/zero", "-m", "h200x2", says=["/dev/zero: is a device"])
        self.fault("simulate", GRAPH, "-m", "/dev/zero", "-p", "single", says=["/dev/zero: is a device"])
        with open("/dev/zero", "rb") as zeros:
            self.fault("inspect", "-", stdin=zeros, says=["standard input: is a device"])

    def test_pipes(self):
        text = json.dumps(SMALL).encode()
        self.assertIn("graph small", self.done("inspect", "/dev/stdin", input=text))
        self.assertIn("graph small", self.done("inspect", "-", input=text))
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        self.fault("inspect", pipe, says=["pipe: is a pipe that nobody writes to"])
        with subprocess.Popen(["sh", "-c", 'printf %s "$1" > "$2"', "sh", text.decode(), pipe]):
            self.assertIn("graph small", self.done("inspect", pipe))
        with subprocess.Popen(["sh", "-c", 'while printf %s "$1"; do :; done 2>&- > "$2"', "sh", " " * 4096, pipe]):
            self.fault("inspect", pipe, "--file-limit", "1MB", says=["pipe: is larger than 1000000 bytes"])
        reading, writing = os.pipe()  # as a shell does for <(...)
        os.write(writing, text)
        os.close(writing)
        self.assertIn("graph small", self.done("inspect", f"/dev/fd/{reading}", pass_fds=[reading]))
        os.close(reading)


class Writing(Case):
    """Paths are looked at before anything is searched for: no budget is lost, and no file."""

    LONG = ["-m", "h200x2", "--budget", "1h"]  # ends at once, since it never begins

    def same(self, *arguments, says):
        before = {name: os.lstat(os.path.join(self.folder, name)).st_ino for name in os.listdir(self.folder)}
        self.fault(*arguments, says=says)
        after = {name: os.lstat(os.path.join(self.folder, name)).st_ino for name in os.listdir(self.folder)}
        self.assertEqual(after, before)

    def test_paths_that_cannot_be_written(self):
        graph = self.path("g.json", SMALL)
        there = self.path("no/such/x.json")
        for target, why in ((there, "No such file or directory"), (self.folder, "Is a directory"), ("/proc/x", "")):
            for command, option in (("optimize", "-o"), ("optimize", "--trace"), ("compare", "--best"), ("compare", "--curve")):
                with self.subTest(command=command, option=option, target=target):
                    self.same(command, graph, *self.LONG, option, target, says=[target, "cannot be written", why])
            for option in ("-o", "--curve", "--best"):
                others = [] if option == "-o" else ["-o", self.path("policy")]
                self.same("train", graph, *self.LONG, *others, option, target, says=[target, "cannot be written", why])
            self.same("generate", "gnmt", "-o", target, says=[target, "cannot be written", why])
            self.same("export", graph, "-m", "h200x2", "-p", "single", "--to", "csv", "-o", target, says=[target, "cannot be written"])
            self.same("train", "--corpus", "layered", "-o", target, says=[target, "cannot be written", why])

    def test_output_that_is_the_input(self):
        graph = self.path("g.json", SMALL)
        os.symlink("g.json", self.path("symbolic.json"))
        os.link(graph, self.path("hard.json"))
        costs = self.path("costs.csv", "n2,h200,5\n")
        machine = self.path("m.json", self.done("machine", "h200x2"))
        for name in ("g.json", "symbolic.json", "hard.json", "./g.json"):
            for option in ("-o", "--trace"):
                self.same("optimize", "g.json", *self.LONG, option, name, says=[name, "is also the input", "overwrite"])
            self.same("compare", "g.json", *self.LONG, "--best", name, says=["is also the input"])
            self.same("train", "g.json", *self.LONG, "-o", name, says=["is also the input"])
            self.same("export", "g.json", "-m", "h200x2", "-p", "single", "--to", "csv", "-o", name, says=["is also the input"])
        with open(graph, "rb") as opened:
            self.fault("optimize", "-", *self.LONG, "-o", graph, stdin=opened, says=["is also the input"])
        self.same("optimize", graph, "-m", machine, "-o", machine, says=["m.json", "is also that of --machine"])
        self.same("compare", graph, "-m", f"h200x4,{machine}", "--best", machine, says=["is also that of --machine"])
        self.same("optimize", graph, *self.LONG, "--costs", costs, "--trace", costs, says=["is also that of --costs"])
        self.same("train", "--corpus", f"layered,{graph}", "-o", graph, says=["is also a file of --corpus"])
        self.same("train", "--corpus", f"layered,{self.folder}", "-o", graph, says=["is also a file of --corpus"])
        self.same("machine", machine, "-o", machine, says=["is also the input"])

    def test_two_outputs_that_are_one_file(self):
        graph = self.path("g.json", SMALL)
        os.symlink("plan.json", self.path("later.json"))  # leads to nothing yet
        self.same("optimize", graph, *self.LONG, "-o", "plan.json", "--trace", "./plan.json", says=["is also that of --output"])
        self.same("optimize", graph, *self.LONG, "-o", "later.json", "--trace", "plan.json", says=["is also that of --output"])
        self.same("train", graph, *self.LONG, "-o", "policy", "--curve", "policy", says=["is also that of --output"])
        self.same("train", graph, *self.LONG, "-o", "policy", "--curve", "x", "--best", "x", says=["is also that of --curve"])
        self.done("optimize", graph, "-m", "h200x2", "--evaluations", "5", "-o", "/dev/null", "--trace", "/dev/null")

    def test_a_plan_may_be_replaced_by_what_was_made_from_it(self):
        graph, plan = self.path("g.json", SMALL), self.path("plan.json")
        few = ["-m", "h200x2", "--evaluations", "20"]
        self.done("optimize", graph, *few, "-o", plan)
        self.done("optimize", graph, *few, "--from", plan, "-o", plan)
        self.done("simulate", graph, "-p", plan, "-o", plan)
        self.same("optimize", graph, *self.LONG, "--from", plan, "--trace", plan, says=["is also that of --from"])
        self.same("export", graph, "-p", plan, "--to", "csv", "-o", plan, says=["is also that of --plan"])

    def test_links(self):
        graph = self.path("g.json", SMALL)
        few = ["-m", "h200x2", "--evaluations", "5"]
        os.symlink("target.json", self.path("link.json"))
        for _ in range(2):  # where the link leads to nothing, and where it leads to a file
            self.done("optimize", graph, *few, "-o", "link.json")
            self.assertTrue(os.path.islink(self.path("link.json")))
            with open(self.path("target.json")) as file:
                self.assertEqual(json.load(file)["format"], "plan")
        os.symlink("no/such/folder/x.json", self.path("nowhere.json"))
        self.same("optimize", graph, *self.LONG, "-o", "nowhere.json", says=["no/such/folder/x.json", "No such file or directory"])
        self.assertEqual(sorted(os.listdir(self.folder)), ["g.json", "link.json", "nowhere.json", "target.json"])

    def test_links_to_pipes(self):
        """What /dev/stdout leads to has no path where it is a pipe."""
        graph = self.path("g.json", SMALL)
        told = self.done("simulate", graph, "-m", "h200x2", "-p", "spread", "-o", "/dev/stdout", "--trace", self.path("t.json"))
        self.assertIn('"format":"plan"', told)
        result = self.run_stowage("simulate", graph, "-m", "h200x2", "-p", "spread", "--trace", "/dev/stderr")
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(result.stderr[:1], b"{", result)

    def test_permissions(self):
        plan = self.path("plan.json", "old")
        os.chmod(plan, 0o600)
        self.done("optimize", self.path("g.json", SMALL), "-m", "h200x2", "--evaluations", "5", "-o", plan)
        self.assertEqual(stat.S_IMODE(os.stat(plan).st_mode), 0o600)


class LongTimes(Case):
    """Times that the simulator's clock cannot hold are refused where they are read."""

    def refused(self, graph, *arguments, says):
        for command in (["optimize", "--evaluations", "300"], ["simulate", "-p", "single"], ["compare", "--evaluations", "5"]):
            self.fault(command[0], graph, *command[1:], *arguments, says=says)

    def test_of_a_graph(self):
        one = self.path("one.json", graph_of(node(0, "input", []), node(1, "mm", [0, 0], flops=256, us={"h200": 1e16})))
        self.refused(one, "-m", "h200x2", says=["one.json: node 1 'n1'", "a time of 1e+16 us", "at most 2e+12"])
        many = self.path("many.json", graph_of(node(0, "input", []), *(node(i, "mm", [0, i - 1], us={"h200": 1e12}) for i in (1, 2, 3))))
        self.refused(many, "-m", "h200x2", says=["the ops of graph 'g' take 3e+12 us in all"])

    def test_of_costs(self):
        graph, costs = self.path("g.json", SMALL), self.path("costs.csv", "name,kind,us\nn2,h200,1e100\n")
        self.refused(graph, "-m", "h200x2", "--costs", costs, says=["costs.csv: line 2: 'n2': a time of 1e+100 us"])
        event = {"cat": "Node", "name": "n2_kernel_time", "dur": 3e12, "args": {"provider": "CUDAExecutionProvider"}}
        self.refused(graph, "-m", "h200x2", "--costs", self.path("profile.json", [event]), says=["profile.json: 'n2': a time of 3e+12 us"])

    def test_of_a_machine(self):
        machine = json.loads(self.done("machine", "h200x2"))
        for device in machine["devices"]:
            device["kind"], device["flops_per_s"] = "slow", {"f32": 1e-9}
        graph = self.path("g.json", graph_of(node(0, "input", []), node(1, "mm", [0, 0], flops=10**6)))
        self.refused(graph, "-m", self.path("slow.json", machine), says=["op 1 'n1' would take", "us on 'h200:0'", "flops_per_s"])


if __name__ == "__main__":
    sys.exit(program.main())
