"""Where output goes and how a run is interrupted: pipes, full disks, terminals, signals, progress.

    python3 tests/cli/test_streams.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import pty
import signal
import subprocess
import sys
import unittest

import program
from program import GRAPH, LONGEST_S, SLOW, Case


class Streams(Case):
    def test_closed_pipe(self):
        for ignored in (False, True):
            reading, writing = os.pipe()
            os.close(reading)
            disposition = signal.SIG_IGN if ignored else signal.SIG_DFL
            process = subprocess.Popen([program.binary, "machine", "h200x64"], stdout=writing, stderr=subprocess.PIPE,
                                       restore_signals=False, preexec_fn=lambda: signal.signal(signal.SIGPIPE, disposition))
            os.close(writing)
            self.assertEqual(process.communicate(timeout=LONGEST_S)[1], b"")
            self.assertIn(process.returncode, (0, -signal.SIGPIPE))
        out = subprocess.run(f"'{os.path.abspath(program.binary)}' machine h200x64 | head -1 | wc -l", shell=True, capture_output=True)
        self.assertEqual((out.stdout.strip(), out.stderr), (b"1", b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_full_disk(self):
        for arguments in (["version"], ["help"], ["machine", "h200x64"], ["inspect", GRAPH],
                          ["simulate", GRAPH, "-m", "h200x2", "-p", "single"],
                          ["simulate", GRAPH, "-m", "h200x2", "-p", "single", "-o", "-"],
                          ["simulate", GRAPH, "-m", "h200x2", "-p", "single", "--trace", "-"]):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([program.binary, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(result.returncode, 2, (arguments, result))
            self.assertTrue(result.stderr.startswith("stowage: "), result)
            self.assertIn("No space left", result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result)

    def test_closed_output(self):
        result = subprocess.run(f"'{os.path.abspath(program.binary)}' version >&-", shell=True, capture_output=True)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count(b"\n"), 1)

    def on_terminal(self, *arguments, **environment):
        """Runs on a pseudo-terminal; returns exit status and output with plain line ends."""
        variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
        variables.update({"TERM": "xterm", **environment})
        master, slave = pty.openpty()
        process = subprocess.Popen([program.binary, *arguments], stdin=slave, stdout=slave, stderr=slave, env=variables)
        drawn = program.read_terminal(process, master, slave)
        return process.wait(timeout=LONGEST_S), drawn.decode().replace("\r\n", "\n")

    def test_terminal(self):
        arguments = ["simulate", GRAPH, "-m", "h200x4", "-p", "spread"]
        plain = self.done(*arguments)
        status, coloured = self.on_terminal(*arguments)
        self.assertEqual(status, 0)
        self.assertIn("\033[", coloured)
        for code in ("\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m"):
            coloured = coloured.replace(code, "")
        self.assertEqual(coloured, plain)

    def test_no_colour(self):
        arguments = ["simulate", GRAPH, "-m", "h200x4", "-p", "spread"]
        plain = self.done(*arguments)
        self.assertNotIn("\033", plain)
        self.assertEqual(self.on_terminal(*arguments, NO_COLOR="1"), (0, plain))
        self.assertEqual(self.on_terminal(*arguments, TERM="dumb"), (0, plain))
        self.assertIn("\033[", self.on_terminal(*arguments, NO_COLOR="")[1])
        self.assertEqual(self.on_terminal("inspect", "h200x2", "--format", "json")[1].count("\033"), 0)

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupt(self):
        process = self.started("inspect", "-", searches=False)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=LONGEST_S), (b"", b""))
        self.assertEqual(process.returncode, 130)

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupted_search_keeps_its_plan(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                status, out = self.interrupted_when("  best ", number, "optimize", SLOW, "-m", "h200x4", "--budget", "100h", "-o", "plan.json")
                self.assertEqual(status, 130)
                self.assertIn("interrupted, the best so far", out)
                self.assertEqual(os.listdir(self.folder), ["plan.json"])
                with open(self.path("plan.json")) as file:
                    plan = json.load(file)
                report = json.loads(self.done("simulate", SLOW, "-p", "plan.json", "-f", "json"))
                self.assertEqual((report["step_s"], report["valid"]), (plan["step_s"], True))
                os.unlink(self.path("plan.json"))

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupted_comparison_prints_what_is_done(self):
        status, out = self.interrupted_when("h200x4  (?!single)[a-z]", signal.SIGINT, "compare", SLOW, GRAPH, "-m", "h200x4", "--budget", "100h",
                                            "--methods", "single,optimize,spread", "-f", "json")
        self.assertEqual(status, 130)
        rows = json.loads(out)
        self.assertEqual([[method["method"] for method in row["methods"]] for row in rows], [["single", "optimize"]])

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_second_interrupt_ends_at_once(self):
        process = self.started("optimize", SLOW, "-m", "h200x4", "--budget", "100h")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONGEST_S)
        self.assertIn(process.returncode, (130, -signal.SIGINT))

    def test_progress(self):
        arguments = ["optimize", GRAPH, "-m", "h200x4", "--budget", "700ms"]
        out, drawn = self.progress_of(*arguments)
        lines = drawn.split("\r")
        self.assertRegex(drawn, r"\[[#.]{20}\] +\d+ %  \w+  best [\d.]+ ms  gap [\d.]+ %  \d+ s left")
        self.assertTrue(any("###" in line for line in lines), drawn)
        self.assertEqual((lines[-2].strip(), lines[-1]), ("", ""))  # wiped
        self.assertGreaterEqual(len(lines[-2]), len(lines[-3].rstrip()))
        self.assertNotIn("\n", drawn)
        self.assertNotIn("\033", drawn)
        self.assertLess(len(lines), 20)  # about ten times per second
        self.assertTrue(all(len(line) < 80 for line in lines), lines)
        self.assertIn("step time", out)
        self.assertNotIn("\r", out)
        out, drawn = self.progress_of("compare", GRAPH, "-m", "h200x4", "--methods", "optimize", "--evaluations", "500", columns=40)
        self.assertTrue(all(len(line) < 40 for line in drawn.split("\r")), drawn)
        self.assertIn("[", drawn)

    def test_progress_of_training(self):
        out, drawn = self.progress_of("train", GRAPH, "-m", "h200x2", "--units", "24", "--initial-plans", "no", "--updates", "80", "-o",
                                      self.path("p.stw"), columns=120)
        self.assertRegex(drawn, r"\[[#.]{20}\] +\d+ %  update \d+  greedy [\d.]+ ms  best [\d.]+ ms  gap [\d.]+ %  \d+ evaluations")
        self.assertEqual([line.strip() for line in drawn.split("\r")[-2:]], ["", ""])
        self.assertIn("step time", out)

    def test_no_progress_elsewhere(self):
        arguments = ["optimize", GRAPH, "-m", "h200x4", "--evaluations", "100"]
        self.done(*arguments)  # standard error stays empty
        status, out = self.on_terminal(*arguments, TERM="dumb")
        self.assertEqual((status, out.count("\r")), (0, 0))

    def test_pipe_closed_early(self):
        code = f"'{program.binary}' optimize '{GRAPH}' -m h200x2 --evaluations 100 | head -1"
        out = subprocess.run(code, shell=True, capture_output=True, timeout=LONGEST_S)
        self.assertEqual((out.stdout.count(b"\n"), out.stderr), (1, b""))


if __name__ == "__main__":
    sys.exit(program.main())
