#!/usr/bin/env python3
"""Searches from Python: what they find, threads, Ctrl-C, and what users are told.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_searches.py [names of tests]
"""
import copy
import json
import os
import signal
import subprocess
import sys
import threading
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import GRAPH, PACKAGE, PARTED, ROOT, TINY, Temporary, groups, has, merged  # noqa: E402

import stowage  # noqa: E402


class Searches(Temporary):
    def test_optimize_repeats_and_agrees_with_the_simulator(self):
        options = {"evaluations": 300, "seed": 3, "threads": 1}
        first, second = (stowage.optimize(GRAPH, "h200x2", **options) for _ in range(2))
        self.assertEqual(first.plan.device, second.plan.device)
        self.assertEqual(first.step, second.step)
        self.assertAlmostEqual(first.evaluation.step, first.step, 12)
        self.assertGreaterEqual(first.step, first.bounds.plan * (1 - 1e-9))
        self.assertLessEqual(first.step, min(c.step for c in first.candidates if c.valid))
        self.assertIs(first.default, first.candidates[0])
        self.assertAlmostEqual(first.speedup, first.default.step / first.step)
        self.assertFalse(first.interrupted)
        self.assertEqual(first.best.found[-1].value, first.best.value)
        self.assertIn(f"* {first.best.method}", repr(first))
        self.assertIn(f"<b>* {first.best.method}</b>", first._repr_html_().replace("<b>* anneal (default)", ""))

    def test_plans_of_results_are_read_only(self):
        result = stowage.optimize(GRAPH, "h200x2", evaluations=50)
        with self.assertRaises(stowage.Error):
            result.plan.device = result.plan.device
        copy = result.plan.copy()
        copy.priority = copy.priority
        self.assertEqual(copy.evaluate().step, result.step)
        result.save(self.folder / "plan.json")
        self.assertEqual(len(json.loads((self.folder / "plan.json").read_text())["candidates"]), len(result.candidates))

    def test_nothing_fits(self):
        result = stowage.optimize(GRAPH, "h200x2", evaluations=50, memory="1MB")
        self.assertEqual((result.plan, result.step, result.best, result.speedup), (None, None, None, None))
        self.assertIn("no valid plan", " ".join(repr(result).split()))
        self.assertNotEqual(result.lacking, "")
        with self.assertRaises(ValueError):
            result.save(self.folder / "plan.json")

    def test_compare(self):
        result = stowage.compare(GRAPH, "h200x2", ["single", "heft"], evaluations=50)
        self.assertEqual([c.method for c in result.candidates], ["single", "heft"])
        with self.assertRaises(stowage.Error):
            stowage.compare(GRAPH, "h200x2", "nothing", evaluations=50)

    def test_tasks(self):
        self.assertGreater(merged(stowage.optimize(GRAPH, "h200x2", evaluations=60).plan), 10)  # all tasks unless they are given
        self.assertEqual(merged(stowage.optimize(GRAPH, "h200x2", evaluations=60, tasks="placement,schedule").plan), 0)
        self.assertEqual(merged(stowage.optimize(GRAPH, "h200x2", evaluations=60, tasks=["placement", "schedule"]).plan), 0)
        only = stowage.optimize(GRAPH, "h200x2", evaluations=60, tasks="fusion").plan
        self.assertEqual(set(only.device), {0})
        self.assertGreater(merged(only), 10)
        for rule in ("none", "default", "reverse-post-order"):
            plan = stowage.optimize(GRAPH, "h200x2", evaluations=60, fusion=rule).plan.copy()
            before = groups(plan)
            plan.fuse(rule)
            self.assertEqual(groups(plan), before, rule)
        for options in ({"tasks": "cooking"}, {"fusion": "greedy"}):
            with self.assertRaisesRegex(stowage.Error, "".join(options.values())):
                stowage.optimize(GRAPH, "h200x2", evaluations=60, **options)

    def test_start(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        given = stowage.optimize(simulator, evaluations=80, tasks="placement,schedule").plan
        changed = given.copy()
        changed.priority = [float(k % 7) for k in range(len(simulator.graph))]
        file = self.folder / "given.json"
        changed.save(file)
        for start in ({"start": changed}, {"start": file}, {"from_": str(file)}, {"from_": changed}):
            result = stowage.optimize(simulator, evaluations=80, tasks="fusion", **start)
            self.assertEqual((result.plan.device, result.plan.priority), (changed.device, changed.priority))
            self.assertGreater(merged(result.plan), 10)
            self.assertEqual((result.candidates[0].method, result.candidates[0].step), ("given", changed.evaluate().step))
            self.assertIs(result.default, result.candidates[0])
            self.assertIn("given (default)", repr(result))
            self.assertLessEqual(result.step, changed.evaluate().step)
        ordered = stowage.optimize(simulator, evaluations=80, tasks="schedule", start=result.plan)  # the plan of a result, too
        self.assertEqual((ordered.plan.device, groups(ordered.plan)), (changed.device, groups(result.plan)))
        compared = stowage.compare(simulator, methods="single,heft", evaluations=80, tasks="fusion", start=changed)
        self.assertEqual([c.method for c in compared.candidates], ["single", "heft"])
        self.assertEqual(compared.plan.device, changed.device)
        with self.assertRaisesRegex(ValueError, "start and from_"):
            stowage.optimize(simulator, evaluations=80, start=changed, from_=file)
        with self.assertRaisesRegex(stowage.Error, "none.json"):
            stowage.optimize(simulator, evaluations=80, start="none.json")
        with self.assertRaisesRegex(stowage.Error, "plan"):
            stowage.optimize(ROOT / "data" / "graphs" / "resnet50.json.gz", "h200x2", evaluations=80, start=changed)

    def test_a_method_by_itself_fuses_nothing_unless_told(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        for method in ("heft", "anneal"):
            self.assertEqual(merged(simulator.run(method, evaluations=40)), 0, method)
            self.assertGreater(merged(simulator.run(method, evaluations=40, tasks="placement,schedule,fusion")), 10, method)

    def test_bad_options(self):
        for options in ({"nothing": 1}, {"budget": "soon"}, {"seed": -1}, {"threads": "x"}):
            with self.assertRaises(stowage.Error):
                stowage.optimize(GRAPH, "h200x2", **options)
        with self.assertRaises(stowage.Error):
            stowage.optimize(GRAPH)  # no machine

    def test_a_method_by_itself(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        plan = simulator.run("spread")
        self.assertEqual(simulator.simulate(plan), stowage.simulate(GRAPH, "h200x2", "spread"))
        self.assertIn("spread", stowage.methods())
        op = simulator.graph.ops[0]
        self.assertGreater(simulator.op_seconds(op.id), 0)
        for node, device in ((10**6, 0), (2**32, 0), (op.id, 2), (op.id, 2**32), (-1, 0)):
            with self.assertRaises(IndexError):
                simulator.op_seconds(node, device)

    def test_a_search_by_itself(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        plan = simulator.run("anneal", evaluations=100, seed=2)
        self.assertEqual(plan.evaluate().step, simulator.run("anneal", evaluations=100, seed=2).evaluate().step)
        longer = simulator.run("anneal", evaluations=1000, seed=2)
        self.assertLess(longer.evaluate().step, simulator.run("anneal", evaluations=1, seed=2).evaluate().step)
        plan.priority = plan.priority  # may be changed
        tight = stowage.Simulator(GRAPH, "h200x2", memory="1MB")
        self.assertEqual(tight.simulate(tight.run("anneal", evaluations=20)).reason, "memory")
        with self.assertRaises(stowage.Error):
            simulator.run("exact", evaluations=20)  # too large

    def test_ctrl_c_ends_a_method(self):
        code = f"""
import stowage
try:
    stowage.Simulator({str(GRAPH)!r}, "h200x2").run("anneal", budget="100h")
except KeyboardInterrupt:
    print("interrupted")
"""
        self.assertEqual(self.interrupt(code), ("interrupted\n", ""))

    def test_costs(self):
        (self.folder / "c.csv").write_text("name,kind,us\nmm,h200,100\n")
        plan = stowage.Plan(stowage.Graph.parse(TINY), "h200x1")
        evaluation = stowage.simulate(plan.graph, "h200x1", plan, costs=self.folder / "c.csv")
        self.assertGreater(evaluation.step, 100e-6)

    def test_kernels(self):
        """The learned model counts for modules of XLA, and for nothing else."""
        text = ("HloModule m\nENTRY main {\n  x = f32[4096,1024]{1,0} parameter(0)\n  a = f32[4096,1024]{1,0} tanh(x)\n"
                "  ROOT b = f32[4096,1024]{1,0} negate(a)\n}\n")  # fmt: skip
        for graph, differs in ((stowage.Graph.parse(text), True), (stowage.Graph.parse(TINY), False)):
            steps = [stowage.optimize(graph, "h200x1", evaluations=5, **by).step for by in ({}, {"kernels": "formula"}, {"kernels": "learned"})]
            self.assertEqual(steps[0], steps[1])
            self.assertEqual(steps[0] != steps[2], differs)
            plan = stowage.optimize(graph, "h200x1", evaluations=5, kernels="learned").plan
            self.assertAlmostEqual(stowage.simulate(graph, "h200x1", plan, kernels="learned").step / steps[2], 1, 9)
        with self.assertRaisesRegex(ValueError, "costs already"):
            stowage.optimize(stowage.Simulator(graph, "h200x1"), evaluations=5, kernels="learned")
        with self.assertRaisesRegex(stowage.Error, "kernels"):
            stowage.Simulator(graph, "h200x1", kernels="guessed")

    def test_remarks_on_costs_are_warned_of(self):
        file = self.folder / "c.csv"
        file.write_text("name,kind,us\nmm,h200,100\nnothing,h200,5\n")
        graph = stowage.Graph.parse(TINY)
        simulator = stowage.Simulator(graph, "h200x1", costs=file)
        self.assertIn("1 of 2 rows of the costs name no op", simulator.warnings[0])
        for call in (
            lambda: stowage.simulate(graph, "h200x1", "single", costs=file),
            lambda: stowage.simulate(graph, "h200x1", stowage.Plan(graph, "h200x1"), costs=file),
            lambda: stowage.optimize(graph, "h200x1", evaluations=5, costs=file),
            lambda: stowage.compare(graph, "h200x1", "single", evaluations=5, costs=file),
            lambda: [stowage.optimize(simulator, evaluations=5) for _ in range(3)],  # once
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
            self.assertEqual([(str(w.message), w.filename) for w in caught], [(simulator.warnings[0], __file__)])

    def test_progress(self):
        seen = []
        stowage.optimize(GRAPH, "h200x2", budget=0.5, progress=seen.append)
        self.assertTrue(seen)
        self.assertEqual(seen[-1].budget, 0.5)
        self.assertIsNotNone(seen[-1].best)
        self.assertGreater(seen[-1].lower_bound, 0)

    def test_what_progress_raises_is_raised(self):
        def progress(_):
            raise LookupError("mine")

        with self.assertRaisesRegex(LookupError, "mine"):
            stowage.optimize(GRAPH, "h200x2", budget="100h", progress=progress)

    def test_interrupt_from_progress_keeps_the_plan(self):
        def progress(p):
            if p.best is not None:
                raise KeyboardInterrupt

        result = stowage.optimize(GRAPH, "h200x2", budget="100h", progress=progress)
        self.assertTrue(result.interrupted)
        self.assertIsNotNone(result.plan)
        self.assertIn("interrupted", repr(result))

    def test_ctrl_c_keeps_the_plan(self):
        code = f"""
import signal, stowage
r = stowage.optimize({str(GRAPH)!r}, "h200x2", budget="100h")
print(r.interrupted, r.plan is not None, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
        self.assertEqual(self.interrupt(code), ("True True True\n", ""))

    # Says "ready" when the library reports a plan for the first time: from there on the search has something to keep.
    SAYS_READY = """
from stowage import _search
called, said = _search._Watch._called, []
def say(self, context, progress):
    if progress.contents.has_plan and not said:
        said.append(print("ready", flush=True))
    called(self, context, progress)
_search._Watch._called = say
"""

    def interrupt(self, code):
        """Sends SIGINT to a program that has found a plan; what it wrote from there on."""
        process = subprocess.Popen([sys.executable, "-c", self.SAYS_READY + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "PYTHONPATH": str(PACKAGE / "src")})  # fmt: skip
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=1000)

    def test_ctrl_c_without_a_plan_is_raised(self):
        def progress(_):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            stowage.optimize(GRAPH, "h200x2", budget="100h", memory="1MB", progress=progress)

    def test_threads_share_a_simulator(self):
        simulator = stowage.Simulator(GRAPH, "h200x2")
        plans = [simulator.run(m) for m in ("single", "spread", "topo", "etf")]
        expected = [simulator.simulate(p) for p in plans]
        wrong = []

        def work():
            for _ in range(10):
                if [simulator.simulate(p) for p in plans] != expected:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_search_in_another_thread(self):
        found = []
        thread = threading.Thread(target=lambda: found.append(stowage.optimize(GRAPH, "h200x2", evaluations=50)))
        thread.start()
        thread.join()
        self.assertIsNotNone(found[0].plan)


class Telling(Temporary):
    """What there is to know of a result: warnings, what it rests on; and text that is none."""

    def test_a_text_with_a_nul_is_refused(self):
        graph, machine = stowage.Graph.parse(TINY), stowage.Machine("h200x2")
        simulator = stowage.Simulator(graph, machine)
        plan = simulator.run("single")
        real = self.folder / "plan.json"
        plan.save(real)
        cut = f"{real}\0.txt"  # C would read and write plan.json
        for wrong in (lambda: stowage.load(cut), lambda: stowage.Machine(cut), lambda: stowage.Plan.load(cut, graph), lambda: plan.save(cut),
                      lambda: plan.export("csv", cut), lambda: stowage.Simulator(graph, machine, costs=cut),
                      lambda: simulator.run("single\0x"), lambda: simulator.run("heft", rule="fifo\0"),
                      lambda: stowage.optimize(graph, machine, evaluations=5, start=cut), lambda: plan.fuse("none\0x"),
                      lambda: stowage.simulate(graph, machine, cut), lambda: stowage.compare(graph, machine, ["single\0"], evaluations=1)):
            with self.assertRaisesRegex(ValueError, "embedded null"):
                wrong()

    def test_warnings_are_told_once(self):
        unknown = json.loads(json.dumps(TINY))
        unknown["nodes"][4].update(op="made_up")
        del unknown["nodes"][4]["us"]
        graph = stowage.Graph.parse(unknown)
        says = "1 of 3 ops are unknown operators ('made_up') and count by the bytes that they move, without arithmetic"
        simulator = stowage.Simulator(graph, "h200x2")
        self.assertEqual(len(simulator.warnings), 1)
        self.assertIn(says, simulator.warnings[0])
        self.assertEqual(stowage.Simulator(stowage.Graph.parse(TINY), "h200x2").warnings, ())  # every op is measured
        for run in (lambda: stowage.simulate(graph, "h200x2", "single"), lambda: stowage.optimize(graph, "h200x2", evaluations=5)):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                run()
            self.assertEqual([str(w.message) for w in told], list(simulator.warnings))
            self.assertEqual(told[0].filename, __file__)

    def test_noise_goes_by_what_is_known(self):
        result = stowage.optimize(GRAPH, "h200x2", evaluations=40, tasks="placement,schedule")
        self.assertEqual(result.draws, 32)
        self.assertAlmostEqual(result.noise["measured"], 0.05)
        self.assertNotIn("fused", result.noise)
        if result.best is not result.candidates[0]:
            self.assertIn(f"ahead of the default in {result.ahead} of 32 draws with times off by 5 % where measured", " ".join(repr(result).split()))
            self.assertLessEqual(max(map(len, repr(result).splitlines())), 100)

    def test_sizes_of_dnn_partitioning_inputs_are_bytes_for_people(self):
        graph = stowage.Graph.parse(PARTED)
        evaluation = stowage.Simulator(graph).simulate(stowage.Simulator(graph).run("single"))
        self.assertIn("100 B", repr(graph))
        self.assertRegex(repr(evaluation), r"accelerator:0 .* 100 B +1 kB")
        for machine in (None, "h200x2"):
            small = stowage.Simulator(graph, machine, memory="50B")
            self.assertEqual(small.simulate(small.run("single")).reason, "memory")
            large = stowage.Simulator(graph, machine, memory="1kB")
            self.assertTrue(large.simulate(large.run("single")).valid)
        named = stowage.Simulator(graph, "h200x2")
        self.assertTrue(named.simulate(named.run("single")).valid)
        self.assertGreater(named.machine.memory[0], 1 << 50)  # in the graph's unit

    def test_names_do_not_steer_terminals(self):
        graph = stowage.Graph.parse({**TINY, "name": "\x1b[31mred\u202e"})
        for shown in (stowage.Simulator(graph, "h200x2"), stowage.Simulator(graph, "h200x2").run("single"), graph,
                      stowage.optimize(graph, "h200x2", evaluations=5)):
            self.assertTrue(repr(shown).replace("\n", "").isprintable(), repr(shown))


if __name__ == "__main__":
    sys.exit(run_tests())
