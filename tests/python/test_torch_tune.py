#!/usr/bin/env python3
"""Plans that are chosen by running them, on a made-up machine and on cores: stowage.torch.tune and what it believes.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_torch_tune.py [names of tests]
"""
import copy
import dataclasses
import math
import os
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import torch_lacks  # noqa: E402

import stowage  # noqa: E402

if not torch_lacks():
    import torch

    import stowage.torch
    from stowage.torch.tuning import _belief, _outline, _tune
    from stowage.torch.predicting._predict import copy_onto
    from torch_modules import MODULES, loss_of
    from tuning_world import World

TWO = ["cpu:0", "cpu:0"]  # two devices on one core, which every machine has
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
LIMITS = {"budget": None, "evaluations": 40, "policy": "none"}
METHODS = ("single", "heft", "metis", "etf", "topo", "random", "spread", "expert")


def world(devices=2, module="lstm", **errors):
    made, args = MODULES[module]()
    nodes = stowage.torch.tracing._trace.Nodes(stowage.torch.tracing._trace.Step(made, args, {}, True, None))
    return World(nodes.opgraph("step"), list(nodes.fx), devices, **{"speed": 1e-3, **errors})  # so that small ops are not all launch


def outlines(calibration):
    factors = _outline.Factors(calibration)
    simulator = stowage.Simulator(calibration.graph, calibration.machine)
    return factors, [_outline.Outline(factors, simulator.run(name), name) for name in METHODS]


@unittest.skipIf(torch_lacks(), torch_lacks())
class Outlines(unittest.TestCase):
    def test_a_step_is_as_long_as_predicted(self):
        for devices, module in ((2, "lstm"), (3, "conv"), (2, "tied")):
            calibration = world(devices, module).calibration
            factors, found = outlines(calibration)
            for outline in found:
                expected = calibration.predict(outline.plan).step
                self.assertAlmostEqual(math.exp(outline.log_seconds([0.0] * len(factors.names))[0]) / expected, 1.0, delta=1e-4)

    def test_plans_are_told_apart_by_kinds_of_devices(self):
        calibration = world().calibration
        plans = []
        for kinds in (["part", "part"], ["part", "other"]):
            machine = {**calibration.machine, "devices": [{**d, "kind": k} for d, k in zip(calibration.machine["devices"], kinds)]}
            times = [{kind: us["part"] for kind in kinds} for us in (calibration.alone, calibration.company)]
            here = dataclasses.replace(calibration, machine=machine, alone=times[0], company=times[1])
            factors = _outline.Factors(here)
            plan = stowage.Simulator(here.graph, here.machine).run("heft")
            mirrored = stowage.Plan(here.graph, here.machine, device=[1 - d for d in plan.device], priority=plan.priority)
            plans.append([_outline.Outline(factors, p, "plan") for p in (plan, mirrored)])
        self.assertTrue(plans[0][0].equals(plans[0][1]))
        self.assertAlmostEqual(plans[0][0].likeness(plans[0][1]), 1.0)
        self.assertFalse(plans[1][0].equals(plans[1][1]))
        self.assertEqual(plans[1][0].likeness(plans[1][1]), 0.0)

    def test_under_other_factors_it_is_as_long_as_simulated(self):
        factors, found = outlines(world(3).calibration)
        logs = [0.3 * (-1) ** k / (1 + k % 4) for k in range(len(factors.names))]
        logs[factors.caches] = 0.0  # of which the simulator knows nothing
        for outline in found:
            simulator = outline.simulator(logs)
            step = simulator.simulate(copy_onto(outline.plan, simulator)).step
            self.assertAlmostEqual(math.exp(outline.log_seconds(logs)[0]) / step, 1.0, delta=1e-4)

    def test_slopes_are_those_of_the_step(self):
        factors, found = outlines(world().calibration)
        logs = [0.02 * (k % 3) for k in range(len(factors.names))]
        for outline in found:
            slopes = outline.log_seconds(logs)[1]
            for k, slope in enumerate(slopes):
                near = [outline.log_seconds([v + d * (i == k) for i, v in enumerate(logs)])[0] for d in (-1e-6, 1e-6)]
                self.assertAlmostEqual((near[1] - near[0]) / 2e-6, slope, delta=1e-4)

    def test_plans_are_alike_where_ops_run_behind_the_same_op(self):
        factors, found = outlines(world().calibration)
        single, heft = found[0], found[1]
        self.assertAlmostEqual(single.likeness(single), 1.0)
        self.assertLess(single.likeness(heft), 1.0)
        swapped = stowage.Plan(heft.plan.graph, heft.plan.machine, device=[1 - d for d in heft.home])
        for d in range(2):
            swapped.set_order(d, heft.plan.order(1 - d))
        self.assertAlmostEqual(heft.likeness(_outline.Outline(factors, swapped, "swapped")), 1.0)


@unittest.skipIf(torch_lacks(), torch_lacks())
class Beliefs(unittest.TestCase):
    def test_factors_follow_what_is_measured(self):
        factors, found = outlines(world().calibration)
        truth = [0.0] * len(factors.names)
        truth[1], truth[factors.company] = 0.12, -0.4
        for link in factors.link_of.values():
            truth[link] = 0.6
        taught, asked = found[:-2], found[-2:]
        nothing = [0.0] * len(truth)
        process = _belief.Process(factors, [(outline, math.exp(outline.log_seconds(truth)[0])) for outline in taught])
        for outline in asked:
            before = abs(outline.log_seconds(nothing)[0] - outline.log_seconds(truth)[0])
            self.assertLess(abs(process.expected(outline)[0] - outline.log_seconds(truth)[0]), 0.5 * before)
        self.assertLess(process.belief().factors["company"], 0.9)
        self.assertGreater(process.belief().factors["a to b"], 1.1)

    def test_a_run_makes_surer_of_plans_like_it(self):
        factors, found = outlines(world().calibration)
        process = _belief.Process(factors, [(found[1], 1e-3)])
        self.assertLess(process.expected(found[1])[1], process.expected(found[4])[1])
        self.assertAlmostEqual(process.expected(found[1])[0], math.log(1e-3), delta=0.05)

    def test_gains_that_may_be_expected(self):
        self.assertAlmostEqual(_belief.expected_gain(0.0, 1e-9, 0.1), 0.1)
        self.assertAlmostEqual(_belief.expected_gain(0.2, 1e-9, 0.1), 0.0)
        self.assertAlmostEqual(_belief.expected_gain(0.1, 0.05, 0.1), 0.05 / math.sqrt(2 * math.pi))


@unittest.skipIf(torch_lacks(), torch_lacks())
class Tuning(unittest.TestCase):
    def tuning(self, place, runs, measure=None, said=None, seed=1):
        return _tune._Tuning(place.calibration, measure or place.measure, runs, LIMITS, (said if said is not None else []).append, seed)

    def test_what_is_found_is_faster_than_what_was_predicted_to_be(self):
        """In the mean of three worlds: which plans are tried hangs on the last bits of sums, and those differ between processors."""
        gains = []
        for seed in (2, 4, 6):
            place, said = world(seed=seed, kinds=0.6, noise=0.002), []
            result = self.tuning(place, 16, said=said).result(report=(1, 5, 10, 16))
            self.assertEqual((len(result.runs), len(said)), (16, 16))
            self.assertEqual([run.name for run in result.runs[:2]], ["search", "single"])
            self.assertEqual(result.runs[-1].name, "single")
            first, best = place.seconds(result.runs[0].plan), place.seconds(result.plan)
            self.assertLess(best, 1.004 * first)
            self.assertLess(result.seconds, result.single)
            self.assertEqual([sorted(result.report)], [[1, 5, 10, 16]])
            self.assertAlmostEqual(result.after(1) / first, 1.0, delta=0.02)
            self.assertAlmostEqual(result.after(16) / best, 1.0, delta=0.02)
            gains.append(math.log(best / first))
        self.assertLess(math.exp(sum(gains) / len(gains)), 0.995)
        with self.assertRaisesRegex(stowage.Error, "after 7 runs was not measured again"):
            result.after(7)

    def test_equal_seeds_find_equal_plans(self):
        both = [self.tuning(world(), 9).result() for _ in range(2)]
        self.assertEqual(*[[(run.name, run.measured, run.plan.device) for run in result.runs] for result in both])
        other = self.tuning(world(), 9, seed=2).result()
        self.assertNotEqual([run.measured for run in other.runs], [run.measured for run in both[0].runs])

    def test_one_lucky_run_does_not_decide(self):
        seen = {}

        def measure(plan):  # the first plan is lucky once
            key = tuple(plan.order(d) for d in range(2))
            seen[key] = seen.get(key, 0) + 1
            one = len(set(plan.device)) == 1
            return 5.0 if one else 4.0 if len(seen) == 1 and seen[key] == 1 else 6.0

        result = self.tuning(world(), 12, measure).result()
        self.assertEqual((result.seconds, result.single), (5.0, 5.0))

    def test_never_slower_than_one_device(self):
        result = self.tuning(world(), 2, lambda plan: 1.0 if len(set(plan.device)) == 1 else 2.0).result()
        self.assertEqual((result.seconds, result.single, len(result.runs)), (1.0, 1.0, 2))

    def test_a_plan_that_cannot_run_is_left_out(self):
        lines = []

        def measure(plan):
            if len(set(plan.device)) > 1:
                raise stowage.Error("it does not fit")
            return 1.0

        self.assertEqual(self.tuning(world(), 9, measure, lines).result().seconds, 1.0)
        self.assertTrue(any("it does not fit" in line for line in lines))

    def test_plans_are_timed_by_turns_with_the_first(self):
        """On a machine that takes a tenth longer from the fourth plan on, and has room for two plans, and of the last only for one."""
        made, opened = [], []

        class Step:
            def __init__(self, seconds):
                if seconds == 9.0 and opened:
                    raise stowage.Error("the step does not fit into the memory of cuda:0")
                self.plain, self.runner = seconds, self
                made.append(self)
                opened.append(self)

            def times(self, count):
                return [1e9] + [self.plain * (1.1 if len(made) >= 4 else 1.0)] * (count - 1)  # the first finds what others left in the caches

            def seconds(self, count):
                return self.times(count)[-1]

            def __enter__(self):
                return self

            def __exit__(self, *error):
                self.close()

            def close(self):
                opened.remove(self)

        with _tune._Stopwatch(Step, by_turns=True) as measure:
            self.assertEqual(measure(2.0), 2.0)
            for seconds in (3.0, 1.0, 3.0, 1.0, 2.0):  # a tenth longer from the second 3.0 on
                self.assertAlmostEqual(measure(seconds), seconds)
            self.assertEqual([step.plain for step in opened], [2.0])
            self.assertAlmostEqual(measure(9.0), 9.9)  # nothing is beside it any more
            self.assertEqual(opened, [])
        with _tune._Stopwatch(Step, by_turns=False) as measure:
            self.assertAlmostEqual(measure(2.0), 2.2)
        self.assertEqual(opened, [])

    def test_on_cores_the_module_stays_as_it_was(self):
        module, args = MODULES["conv"]()
        before = copy.deepcopy(module.state_dict())
        with self.assertRaisesRegex(stowage.Error, "runs is 1"):
            stowage.torch.tune(module, *args, devices=TWO, runs=1)
        result = stowage.torch.tune(module, *args, devices=TWO, runs=4, evaluations=20)
        for name, value in module.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertEqual(len(result.runs), 4)
        self.assertLessEqual(result.seconds, result.single)
        with stowage.torch.place(module, *args, plan=result.plan, devices=TWO) as step:
            torch.testing.assert_close(step(*args), loss_of(module, args).detach(), **TOLERANCE)


if __name__ == "__main__":
    sys.exit(run_tests())
