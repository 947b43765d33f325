"""Signals: a search or a training that is asked to end does so soon and leaves what it has. Waits are for what the program shows, on a
pseudo-terminal or in /proc; the limits of time are for a program that hangs."""

import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import program  # noqa: E402
from program import SLOW  # noqa: E402

NEVER = 100_000_000  # evaluations or updates: more than there is time for
VISITS = 24  # updates in a generation


class Signals(program.Case):
    def shown(self, *arguments, until, signal_number, ignored=()):
        """Runs with standard error on a terminal, sends the signal once it shows what `until` accepts; (status, output)."""
        drawn, sent = [], []

        def look(process, chunk):
            drawn.append(chunk.decode(errors="replace"))
            if not until("".join(drawn)):
                return look
            process.send_signal(signal_number)
            sent.append(signal_number)
            return None

        status, out, text = self.with_errors_on_terminal(look, arguments, columns=200, cwd=self.folder, ignored=ignored)
        self.assertTrue(sent, f"it never showed what was waited for: {text[-500:]}")
        return status, out

    def test_every_signal_keeps_the_plan(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                status, out = self.shown("optimize", SLOW, "-m", "h200x4", "--evaluations", str(NEVER), "-o", "plan.json",
                                         until=lambda text: "best " in text or "us" in text, signal_number=number)
                self.assertEqual(status, 130, out)
                self.assertIn("interrupted, the best so far", out)
                self.assertEqual(os.listdir(self.folder), ["plan.json"])
                with open(self.path("plan.json")) as file:
                    self.assertTrue(json.load(file)["valid"])
                os.unlink(self.path("plan.json"))

    def test_who_ignores_hanging_up_means_it(self):
        """As nohup does: the search goes on to its end."""
        status, out = self.shown("optimize", SLOW, "-m", "h200x4", "--evaluations", "400", until=lambda text: text != "",
                                 signal_number=signal.SIGHUP, ignored=[signal.SIGHUP])
        self.assertEqual(status, 0, out)

    def test_training_for_many_graphs(self):
        """In the midst of a generation: what is under way is given up, the file is that of the generation before, and it goes on."""
        self.done("generate", "layered", "--layers", "1", "--steps", "3", "-o", "layered.json")
        network = "width=16,heads=2,inner=32,sage_layers=1,attention_layers=1,operator_width=4,pair_width=8"
        command = ["train", "--corpus", "layered.json", "--updates", str(NEVER), "--problems", "2", "--network", network, "--threads", "1",
                   "-o", "p.stw", "--curve", "c.csv", "-f", "json"]

        def is_within(first):
            """An update of a generation after the first `first` updates is shown, and not its last one."""
            def until(text):
                numbers = [int(number.replace(",", "")) for number in re.findall(r"update ([\d,]+) ", text)]
                return bool(numbers) and numbers[-1] > first and numbers[-1] % VISITS not in (0, VISITS - 1)
            return until

        done = 0
        for number, more in ((signal.SIGINT, []), (signal.SIGHUP, ["--resume"])):
            status, out = self.shown(*command, *more, until=is_within(done + VISITS), signal_number=number)
            self.assertEqual(status, 130, out)
            updates = json.loads(out)["updates"]
            self.assertGreater(updates, done)
            self.assertEqual(updates % VISITS, 0)
            done = updates
            self.assertEqual(json.loads(self.done("inspect", "p.stw", "-f", "json"))["pretraining"]["updates"], done)
            with open(self.path("c.csv")) as file:
                self.assertEqual([int(line.split(",")[0]) for line in file.readlines()[1:]], list(range(done)))
        self.assertEqual(sorted(os.listdir(self.folder)), ["c.csv", "layered.json", "p.stw"])

    def test_training_that_has_only_begun(self):
        """The file is its beginning, to go on from; an older one stays."""
        self.done("generate", "layered", "--layers", "1", "--steps", "3", "-o", "layered.json")
        command = ["train", "--corpus", "layered.json", "--updates", "48", "--problems", "16", "-o", "p.stw", "-f", "json"]
        process = self.started(*command)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130, (out, err))
        if out == b"":  # before there was a network
            self.assertIn(err, (b"", b"stowage: interrupted\n"))  # nothing: while libraries are still loaded
            self.assertEqual(os.listdir(self.folder), ["layered.json"])
        else:
            self.assertEqual((json.loads(out)["updates"] % VISITS, err), (0, b""))
            self.assertEqual(json.loads(self.done("inspect", "p.stw", "-f", "json"))["pretraining"]["updates"], json.loads(out)["updates"])
        self.path("p.stw", "older")
        process = self.started(*command)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=300), 130)
        process.communicate()
        with open(self.path("p.stw"), "rb") as file:
            content = file.read()
        self.assertTrue(content == b"older" or content.startswith(b"STWPOLCY"), content[:20])


if __name__ == "__main__":
    sys.exit(program.main())
