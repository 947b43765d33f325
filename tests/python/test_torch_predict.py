#!/usr/bin/env python3
"""What plans are expected to take, and devices that are measured: stowage.torch.calibrate and predict.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_torch_predict.py [names of tests]
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import torch_lacks  # noqa: E402

import stowage  # noqa: E402

if not torch_lacks():
    import torch

    import stowage.torch
    from stowage.torch import _calibrate
    from torch_modules import MODULES, loss_of

TWO = ["cpu:0", "cpu:0"]  # two devices on one core, which every machine has
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


@unittest.skipIf(torch_lacks(), torch_lacks())
class Predictions(unittest.TestCase):
    #   device 0   |a a a a|   |b b|
    #   device 1       |c c c c|   |d|        a share of a: 2 of 4, of c: 2 of 4, of b: 0, of d: 0
    TIMELINE = [(0, 0, 0.0, 4.0), (2, 1, 2.0, 6.0), (1, 0, 6.0, 8.0), (3, 1, 8.0, 9.0)]

    def test_shares_of_company_by_hand(self):
        self.assertEqual(_calibrate._shares_in_company(self.TIMELINE, 2), {0: 0.5, 2: 0.5, 1: 0.0, 3: 0.0})
        # a third device that works from 0 to 4: the mean over both others
        found = _calibrate._shares_in_company(sorted([*self.TIMELINE, (4, 2, 0.0, 4.0)], key=lambda t: t[2]), 3)
        self.assertEqual(found, {0: 0.75, 2: 0.5, 1: 0.0, 3: 0.0, 4: 0.75})

    def calibrated(self, company=1.5):
        module, args = MODULES["lstm"]()
        step = stowage.torch._trace.Step(module, args, {}, True, None)
        nodes = stowage.torch._trace.Nodes(step)
        device = {"kind": "part", "memory_bytes": 1 << 40, "launch_us": 1.0, "flops_per_s": {"f32": 1e12}, "bandwidth_bytes_per_s": 1e12, "efficiency": {}}
        link = {"bandwidth_bytes_per_s": 1e15, "latency_us": 0.5, "send_us": 0.2, "receive_us": 0.8}
        machine = {"format": "machine", "version": 1, "name": "two", "devices": [{"name": n, **device} for n in "ab"],
                   "links": [{"from": a, "to": b, **link} for a, b in ("ab", "ba")]}  # fmt: skip
        alone = {k: 5.0 + k % 7 for k in nodes.fx}
        return stowage.torch.Calibration(machine, ["a", "b"], alone, {k: company * us for k, us in alone.items()}, nodes.opgraph("step"))

    def test_one_device_is_alone_and_equal_times_are_equal(self):
        found = self.calibrated()
        single = stowage.Simulator(found.graph, found.machine).run("single")
        self.assertAlmostEqual(found.predict(single).step, 1e-6 * sum(found.alone.values()), delta=1e-9)
        same = self.calibrated(company=1.0)
        plan = stowage.Simulator(same.graph, same.machine).run("etf")
        self.assertAlmostEqual(same.predict(plan).step, plan.evaluate().step, delta=1e-12)

    def test_the_plan_that_is_chosen_is_expected_to_take_least(self):
        found = self.calibrated()
        simulator = stowage.Simulator(found.graph, found.machine)
        plan = found.optimize(0.6)
        least = found.predict(plan).step
        for method in ("single", "expert", "metis", "heft", "steer"):
            self.assertLessEqual(least, found.predict(simulator.run(method)).step * (1 + 1e-12), method)


@unittest.skipIf(torch_lacks(), torch_lacks())
class Measuring(unittest.TestCase):
    def test_cpu_devices_are_calibrated_and_a_plan_for_them_runs(self):
        module, args = MODULES["conv"]()
        before = [p.detach().clone() for p in module.parameters()]
        found = stowage.torch.calibrate(TWO, module, *args)
        self.assertEqual([d["kind"] for d in found.machine["devices"]], ["cpu1", "cpu1"])
        self.assertGreater(found.machine["links"][0]["latency_us"] + found.machine["links"][0]["receive_us"], 0)
        self.assertTrue(all(us > 0 for us in found.alone.values()))
        self.assertTrue(all(found.company[k] >= us for k, us in found.alone.items()))
        self.assertEqual(set(found.alone), {node.id for node in found.graph.ops})
        self.assertEqual(found.graph.fingerprint, stowage.torch.trace(module, *args).fingerprint)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, module.parameters())))
        with stowage.torch.place(module, *args, plan=found.optimize(0.3), devices=TWO) as step:
            torch.testing.assert_close(step(*args), loss_of(module, args).detach(), **TOLERANCE)
            self.assertGreater(step.seconds(2, warm=1), 0)


if __name__ == "__main__":
    sys.exit(run_tests())
