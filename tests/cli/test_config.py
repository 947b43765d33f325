"""The user's defaults (config file), --quiet and --dry-run.

    python3 tests/cli/test_config.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import shutil
import subprocess
import sys
import unittest

import program
from program import GRAPH, ROOT, SMALL, Case


class Config(Case):
    def setUp(self):
        super().setUp()
        self.graph = self.path("small.json", SMALL)
        self.home = self.path("home")
        self.xdg = self.path("xdg")
        for folder in (os.path.join(self.home, ".config"), self.xdg):
            os.makedirs(os.path.join(folder, "stowage"))
            os.chmod(os.path.join(folder, "stowage"), 0o755)  # whatever the umask
        self.env = {"HOME": self.home, "XDG_CONFIG_HOME": self.xdg}

    def config(self, text, folder=None, mode=0o644):
        path = os.path.join(folder or self.xdg, "stowage", "config")
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def report(self, *arguments, env=None):
        return json.loads(self.done("optimize", self.graph, "--format", "json", *arguments, env=env or self.env, stderr=None))

    def dry(self, *arguments, env=None):
        return json.loads(self.done("optimize", self.graph, "--dry-run", "--format", "json", *arguments, env=env or self.env, stderr=None))

    def test_file_before_built_in_and_options_before_file(self):
        self.fault("optimize", self.graph, "--evaluations", "5", says=["a machine is needed"], env=self.env)
        self.config("# mine\n\n  machine = h200x2  \nbudget=3s\nthreads = 1\n")
        self.assertEqual(self.report("--evaluations", "5")["machine"]["name"], "h200x2")
        self.assertEqual(self.report("--evaluations", "5", "-m", "h200x4")["machine"]["name"], "h200x4")
        self.assertEqual(self.dry()["budget_s"], 3)
        self.assertEqual(self.dry("--budget", "7s")["budget_s"], 7)
        self.assertEqual(self.dry("-m", "h200x4", env={"HOME": self.folder, "XDG_CONFIG_HOME": ""})["budget_s"], 10)

    def test_a_budget_of_evaluations_still_repeats(self):
        self.config("machine = h200x2\nbudget = 3s\n")
        self.assertEqual(self.dry("--evaluations", "50")["budget_s"], 0)
        self.assertEqual(self.dry("--evaluations", "50", "--budget", "2s")["budget_s"], 2)

    def test_what_graph_and_plan_bring_goes_before_the_machine(self):
        plan = self.path("plan.json")
        self.done("simulate", self.graph, "-m", "h200x4", "-p", "spread", "-o", plan, stderr=None)
        self.config("machine = h200x2\n")
        shown = json.loads(self.done("simulate", self.graph, "-p", plan, "--format", "json", env=self.env, stderr=None))
        self.assertEqual(shown["machine"], "h200x4")
        shown = json.loads(self.done("simulate", self.graph, "-p", "spread", "--format", "json", env=self.env, stderr=None))
        self.assertEqual(shown["machine"], "h200x2")
        rows = json.loads(self.done("compare", self.graph, "--methods", "single", "--evaluations", "2", "--format", "json", env=self.env,
                                    stderr=None))
        self.assertEqual([row["machine"] for row in rows], ["h200x2"])

    def test_where_it_is_read_from(self):
        self.config("machine = h200x2\n", os.path.join(self.home, ".config"))
        self.config("machine = h200x4\n")
        self.assertEqual(self.report("--evaluations", "2")["machine"]["name"], "h200x4")
        without = {"HOME": self.home, "XDG_CONFIG_HOME": ""}
        self.assertEqual(self.report("--evaluations", "2", env=without)["machine"]["name"], "h200x2")
        relative = {"HOME": self.home, "XDG_CONFIG_HOME": "xdg"}  # as the XDG specification has it: of no meaning
        self.assertEqual(self.report("--evaluations", "2", env=relative)["machine"]["name"], "h200x2")

    def test_not_from_the_working_directory(self):
        elsewhere = {"HOME": self.path("nobody"), "XDG_CONFIG_HOME": ""}
        for name in ("config", ".stowage", "stowage.conf"):
            self.path(name, "machine = h200x2\n")
        os.makedirs(self.path(os.path.join(".config", "stowage")))
        self.path(os.path.join(".config", "stowage", "config"), "machine = h200x2\n")
        for env in (elsewhere, {"HOME": ".", "XDG_CONFIG_HOME": ""}, {"HOME": "", "XDG_CONFIG_HOME": "."}):
            self.fault("optimize", self.graph, "--evaluations", "2", says=["a machine is needed"], env=env)

    def test_faults_name_file_and_line(self):
        for text, line, words in (
            ("machine h200x2\n", 1, "key = value"),
            ("\n# x\nmashine = h200x2\n", 3, "did you mean machine?"),
            ("colour = red\n", 1, "known: machine, budget, threads"),
            ("budget = soon\n", 1, "budget: 'soon' is not a time"),
            ("threads = -1\n", 1, "threads: '-1' is not a whole number"),
            ("threads =\n", 1, "threads"),
            ("machine =\n", 1, "machine: the value is empty"),
            ("budget = 1s\nbudget = 2s\n", 2, "stands in line 1 already"),
            ("machine = mine.json\n", 1, "neither built in"),
            ("machine = h200x99999\n", 1, "h200x"),
        ):
            with self.subTest(text):
                path = self.config(text)
                self.path("mine.json", "{}")
                self.fault("optimize", self.graph, "-m", "h200x2", "--evaluations", "2", says=[f"{path}:{line}: ", words], env=self.env)
                self.fault("inspect", self.graph, says=[f"{path}:{line}: "], env=self.env)  # which takes none of them
        self.assertEqual(self.config("machine = \x1b[31m\n"), path)
        self.assertNotIn("\x1b", self.fault("optimize", self.graph, env=self.env))

    def test_help_works_whatever_is_there(self):
        self.config("nonsense\n")
        for arguments in (("help",), ("version",), ("optimize", "--help")):
            self.done(*arguments, env=self.env)

    def test_what_others_can_write_to_is_refused(self):
        for mode in (0o664, 0o646, 0o666):
            path = self.config("machine = h200x2\n", mode=mode)
            self.fault("optimize", self.graph, says=[path, f"others can write to it (mode {mode:o})", "chmod go-w"], env=self.env)

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_another_users_file_is_refused(self):
        path = self.config("machine = h200x2\n")
        os.chown(path, 12345, 12345)
        self.fault("optimize", self.graph, says=[path, "belongs to another user (12345)"], env=self.env)

    def test_a_folder_that_others_can_write_to_is_refused(self):
        folder = os.path.dirname(self.config("machine = h200x2\n"))
        for mode in (0o775, 0o757):
            os.chmod(folder, mode)
            self.fault("optimize", self.graph, says=[f"{folder}: others can write to it (mode {mode:o})"], env=self.env)

    @unittest.skipUnless(os.geteuid() == 0, "only root gives folders away")
    def test_another_users_folder_is_refused(self):
        folder = os.path.dirname(self.config("machine = h200x2\n"))
        os.chown(folder, 12345, 12345)
        self.fault("optimize", self.graph, says=[f"{folder}: belongs to another user (12345)"], env=self.env)

    def test_where_nobody_can_look_there_is_none(self):
        self.config("nonsense\n")
        os.chmod(self.folder, 0o755)
        someone = {"user": 12345} if os.geteuid() == 0 else {}  # root enters all folders
        try:
            self.run_stowage("version", **someone)
        except PermissionError:
            self.skipTest("the program cannot be reached by another user than root")
        os.chmod(self.xdg, 0)
        self.addCleanup(os.chmod, self.xdg, 0o755)
        self.done("inspect", self.graph, env=self.env, stderr=None, **someone)
        self.done("inspect", self.graph, env={"HOME": "/" + "x" * 300, "XDG_CONFIG_HOME": ""}, stderr=None)
        self.done("inspect", self.graph, env={"HOME": "/x" * 4000, "XDG_CONFIG_HOME": ""}, stderr=None)
        os.chmod(self.xdg, 0o755)
        path = self.config("nonsense\n", mode=0)  # seen, not readable
        self.fault("inspect", self.graph, says=[path, "cannot be read" if someone else ""], env=self.env, **someone)

    def test_machine_holds_for_reports_and_exports(self):
        self.config("machine = h200x2\n")
        page = self.path("r.html")
        self.done("report", self.graph, "-p", "spread", "-o", page, env=self.env, stderr=None)
        self.assertTrue(os.path.getsize(page))
        self.done("export", self.graph, "-p", "spread", "--to", "csv", env=self.env, stderr=None)

    def test_threads_hold_for_exports(self):
        arguments = ("export", self.graph, "-m", "h200x2", "-p", "heft", "--to", "csv")
        for threads in (1, 5):
            self.config(f"threads = {threads}\n")
            self.assertEqual(self.threads_of(*arguments), self.threads_of(*arguments, "--threads", str(threads)))
        self.assertGreater(self.threads_of(*arguments), self.threads_of(*arguments, "--threads", "1"))

    def threads_of(self, *arguments):
        """How many threads a run starts, by its calls of clone."""
        strace = shutil.which("strace")
        if strace is None:
            self.skipTest("strace is not installed")
        environment = dict(os.environ, **self.env)
        told = self.path("calls")
        command = [strace, "-f", "-qq", "-e", "trace=clone,clone3", "-o", told, program.binary, *arguments]
        if subprocess.run(command, capture_output=True, env=environment, cwd=self.folder).returncode != 0:
            self.skipTest("strace cannot trace here")
        with open(told) as file:
            return sum("clone" in line and "resumed" not in line for line in file)

    def test_a_machine_that_is_not_there_is_the_configs(self):
        self.config("machine = /nope.json\n")
        for arguments in (("optimize", self.graph), ("compare", self.graph), ("simulate", self.graph, "-p", "spread")):
            self.fault(*arguments, says=["config file", "'/nope.json' is neither a file nor a built-in machine"], env=self.env)
        line = self.fault("optimize", self.graph, "-m", "/other.json", says=["/other.json"], env=self.env)
        self.assertNotIn("config", line)

    def test_a_byte_order_mark_is_passed_over(self):
        self.config("\ufeffmachine = h200x2\n")
        self.assertEqual(self.report("--evaluations", "2")["machine"]["name"], "h200x2")

    def test_odd_files(self):
        path = self.config("x" * 70000)
        self.fault("optimize", self.graph, says=[path, "larger than"], env=self.env)
        self.config("machine = h200x2\0\n")
        self.fault("optimize", self.graph, says=["not a text"], env=self.env)
        os.remove(path)
        os.mkdir(path)
        self.fault("optimize", self.graph, says=["plain file"], env=self.env)
        os.rmdir(path)
        os.mkfifo(path)
        self.fault("optimize", self.graph, says=["plain file"], env=self.env)

    def test_these_tests_see_no_config_of_whoever_runs_them(self):
        self.assertFalse(os.path.isdir(os.environ["XDG_CONFIG_HOME"]))


class Quiet(Case):
    def test_no_progress_on_a_terminal(self):
        arguments = ["optimize", GRAPH, "-m", "h200x2", "--evaluations", "100", "--policy", "none"]
        out, drawn = self.progress_of(*arguments)
        self.assertIn("%", drawn)
        quiet_out, quiet = self.progress_of(*arguments, "--quiet")
        self.assertEqual((quiet_out, quiet), (out, ""))

    def test_remarks_of_an_export(self):
        arguments = ["export", GRAPH, "-m", "h200x2", "-p", "spread", "--to", "device-map"]
        loud = self.run_stowage(*arguments)
        quiet = self.run_stowage(*arguments, "-q")
        warnings = [line for line in loud.stderr.splitlines() if line.startswith(b"stowage: warning: ")]
        self.assertNotEqual(loud.stderr.splitlines(), warnings)
        self.assertEqual((quiet.stderr.splitlines(), quiet.stdout, quiet.returncode), (warnings, loud.stdout, 0))

    def test_warnings_and_errors_stay(self):
        costs = self.path("costs.csv", "name,kind,us\nn2,h200,1\nnobody,h200,1\n")
        arguments = ["simulate", self.path("small.json", SMALL), "-m", "h200x2", "-p", "single", "--costs", costs]
        loud = self.run_stowage(*arguments)
        self.assertIn(b"warning", loud.stderr)
        self.assertEqual(self.run_stowage(*arguments, "--quiet").stderr, loud.stderr)
        self.fault("simulate", "none.json", "-m", "h200x2", "-p", "single", "--quiet", says=["none.json"])


class DryRun(Case):
    def outline(self, *arguments):
        return json.loads(self.done("optimize", *arguments, "--dry-run", "--format", "json"))

    def test_methods_for_large_graphs_run_once_and_first(self):
        large = os.path.join(ROOT, "data", "graphs", "gnmt-8.json.gz")
        names = [step["method"] for step in self.outline(large, "-m", "h200x4", "--budget", "60s")["methods"]]
        self.assertEqual(names.count("express"), 1)
        self.assertLess(names.index("express"), names.index("spread"))
        self.assertEqual(names.count("coarse"), 1)
        self.assertNotIn("coarse", [s["method"] for s in self.outline(large, "-m", "h200x4", "--budget", "60s", "--grain", "layer")["methods"]])

    def test_what_runs_was_foretold(self):
        for more in ([], ["--policy", "none"], ["--tasks", "placement,schedule"], ["--tasks", "schedule"], ["--objective", "memory"],
                     ["--objective", "throughput", "--tasks", "placement"], ["--memory", "4GB"]):
            with self.subTest(more):
                arguments = [GRAPH, "-m", "h200x4", "--evaluations", "250", *more]
                foretold = [step["method"] for step in self.outline(*arguments)["methods"]]
                ran = [c["method"] for c in json.loads(self.run_stowage("optimize", *arguments, "--format", "json").stdout)["candidates"]]
                again = {name.rsplit("-", 1)[0] for name in ran if name.rsplit("-", 1)[-1].isdigit()}  # "lean-2"
                self.assertLessEqual({name for name in ran if name.rsplit("-", 1)[0] not in again}, set(foretold))
                self.assertGreaterEqual(len(ran), 3)

    def test_limits_that_cannot_be_kept_are_refused(self):
        for command in ("optimize", "compare"):
            self.fault(command, GRAPH, "-m", "h200x4", "--dry-run", "--pin", "nope=1", says=["--pin", "'nope'"])

    def test_shares(self):
        shown = self.outline(GRAPH, "-m", "h200x4", "--budget", "20s")
        for step in shown["methods"]:
            self.assertLessEqual(step["share_at_most"], step["share_until"])
            self.assertLessEqual(step["share_until"], 1)
        self.assertEqual((shown["budget_s"], shown["evaluations"]), (20, 0))
        text = self.done("optimize", GRAPH, "-m", "h200x4", "--budget", "20s", "-n")
        self.assertRegex(text, r"etf +14 % \(2\.8 s\) +40 %  always")
        self.assertRegex(self.done("optimize", GRAPH, "-m", "h200x4", "--evaluations", "200", "-n"), r"etf +14 % \(28 evaluations\)")

    def test_nothing_is_written_and_mistakes_are_found(self):
        plan = self.path("plan.json")
        text = self.done("optimize", GRAPH, "-m", "h200x4", "-n", "-o", plan, "--trace", "t.json")
        self.assertIn(f"would write  {plan} (plan)", text)
        self.assertEqual(os.listdir(self.folder), [])
        self.fault("optimize", "none.json", "-m", "h200x4", "-n", says=["none.json"])
        self.fault("optimize", GRAPH, "-m", "h200y4", "-n", says=["h200y4"])
        self.fault("compare", GRAPH, "none.json", "-m", "h200x4", "-n", says=["none.json"])

    def test_reports_are_listed(self):
        page = self.path("page.html")
        for command, *more in (["optimize"], ["compare", "--methods", "heft"]):
            arguments = [command, GRAPH, "-m", "h200x4", "-n", "--report", page, *more]
            self.assertIn(f"would write  {page} (report)", self.done(*arguments))
            self.assertEqual(json.loads(self.done(*arguments, "--format", "json"))["would_write"], [page])
        self.assertEqual(os.listdir(self.folder), [])

    def test_initial_plan_and_policy_are_opened(self):
        other = self.path("small.json", SMALL)
        plan = self.path("plan.json")
        self.done("simulate", other, "-m", "h200x4", "-p", "spread", "-o", plan, stderr=None)
        for more in (["--from", "nope.json"], ["--from", plan], ["--policy", "nope.bin"], ["--policy", plan]):
            for command in (["optimize", GRAPH], ["compare", GRAPH, "--methods", "heft"]):
                with self.subTest(command=command, more=more):
                    arguments = [*command, "-m", "h200x4", "--evaluations", "2", *more]
                    self.assertEqual(self.fault(*arguments, "-n"), self.fault(*arguments))
        self.assertIn("small.json", self.done("optimize", other, "-m", "h200x4", "--from", plan, "-n", stderr=None))

    def test_compare(self):
        text = self.done("compare", GRAPH, "-m", "h200x2,h200x4", "--methods", "heft,optimize", "--budget", "3s", "-n")
        self.assertIn("dry run of 4 searches", text)
        self.assertIn("h200x2,h200x4 (machine)", text)
        self.assertRegex(text, r"heft +100 % \(3\.0 s\)")


if __name__ == "__main__":
    sys.exit(program.main())
