#!/usr/bin/env python3
"""What plans are expected to take, and devices that are measured: stowage.torch.calibrate and predict.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_torch_predict.py [names of tests]
"""
import dataclasses
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import torch_lacks  # noqa: E402

import stowage  # noqa: E402

if not torch_lacks():
    import torch

    import stowage.torch
    from clocked import clocked_streams
    from stowage.torch.calibrating import _cuda_bench, _cuda_cache, _cuda_times, _host_bench
    from stowage.torch.predicting import _predict
    from stowage.torch.running import _devices, _streams
    from stowage.torch.predicting._traffic import Cache
    from torch_modules import MODULES, loss_of

TWO = ["cpu:0", "cpu:0"]  # two devices on one core, which every machine has
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


@unittest.skipIf(torch_lacks(), torch_lacks())
class Predictions(unittest.TestCase):
    #   device 0   |a a a a|   |b b|
    #   device 1       |c c c c|   |d|        a share of a: 2 of 4, of c: 2 of 4, of b: 0, of d: 0
    TIMELINE = [(0, 0, 0.0, 4.0), (2, 1, 2.0, 6.0), (1, 0, 6.0, 8.0), (3, 1, 8.0, 9.0)]

    def test_shares_of_company_by_hand(self):
        self.assertEqual(_predict.shares_in_company(self.TIMELINE, 2), {0: 0.5, 2: 0.5, 1: 0.0, 3: 0.0})
        # a third device that works from 0 to 4: the mean over both others
        found = _predict.shares_in_company(sorted([*self.TIMELINE, (4, 2, 0.0, 4.0)], key=lambda t: t[2]), 3)
        self.assertEqual(found, {0: 0.75, 2: 0.5, 1: 0.0, 3: 0.0, 4: 0.75})

    def calibrated(self, company=1.5, kinds=("part", "part"), names=("a", "b"), slower=3.0):
        """Two devices; those of another kind than the first are so many times slower."""
        module, args = MODULES["lstm"]()
        step = stowage.torch.tracing._trace.Step(module, args, {}, True, None)
        nodes = stowage.torch.tracing._trace.Nodes(step)
        device = {"memory_bytes": 1 << 40, "launch_us": 1.0, "flops_per_s": {"f32": 1e12}, "bandwidth_bytes_per_s": 1e12, "efficiency": {}}
        link = {"bandwidth_bytes_per_s": 1e15, "latency_us": 0.5, "send_us": 0.2, "receive_us": 0.8}
        machine = {"format": "machine", "version": 1, "name": "two", "devices": [{"name": n, "kind": k, **device} for n, k in zip(names, kinds)],
                   "links": [{"from": a, "to": b, **link} for a, b in (names, names[::-1])]}  # fmt: skip
        alone = {kind: {k: (5.0 + k % 7) * (1.0 if kind == kinds[0] else slower) for k in nodes.fx} for kind in kinds}
        together = {kind: {k: company * us for k, us in times.items()} for kind, times in alone.items()}
        return stowage.torch.Calibration(machine, list(names), alone, together, nodes.opgraph("step"))

    def test_one_device_is_alone_and_equal_times_are_equal(self):
        found = self.calibrated()
        single = stowage.Simulator(found.graph, found.machine).run("single")
        self.assertAlmostEqual(found.predict(single).step, 1e-6 * sum(found.alone["part"].values()), delta=1e-9)
        same = self.calibrated(company=1.0)
        plan = stowage.Simulator(same.graph, same.machine).run("etf")
        self.assertAlmostEqual(same.predict(plan).step, plan.evaluate().step, delta=1e-12)

    def test_a_plan_as_predicted_takes_what_is_predicted(self):
        found = self.calibrated()
        plan = stowage.Simulator(found.graph, found.machine).run("random")
        same = found.as_predicted(plan)
        self.assertEqual(same.evaluate().step, found.predict(plan).step)
        self.assertNotAlmostEqual(same.evaluate().step, plan.evaluate().step, delta=1e-9)
        self.assertEqual((same.device, same.graph.fingerprint), (plan.device, plan.graph.fingerprint))

    def test_ops_have_the_times_of_the_kind_they_are_placed_on(self):
        found = self.calibrated(kinds=("large", "small"))
        plan = stowage.Plan(found.graph, found.machine)
        for device, kind in enumerate(("large", "small")):
            plan.device = [device] * len(plan.graph)
            self.assertAlmostEqual(found.predict(plan).step, 1e-6 * sum(found.alone[kind].values()), delta=1e-9)
        best = found.optimize(0.3)
        self.assertLess(sum(best.device[k] == 1 for k in found.alone["small"]), len(found.alone["small"]) / 2)

    def test_devices_of_any_sort_are_company(self):
        for kinds, names in ((("cpu1", "gpu"), ("cpu:0", "cuda:0")), (("cpu1", "cpu2"), ("cpu:0", "cpu:1-2"))):
            found = self.calibrated(kinds=kinds, names=names, slower=1.0)
            plan = stowage.Simulator(found.graph, found.machine).run("etf")
            self.assertEqual(len(set(plan.device)), 2)
            alone = dataclasses.replace(found, company=found.alone)
            unaffected = alone.predict(_predict.copy_onto(plan, alone._simulator(alone.alone))).step
            self.assertGreater(found.predict(plan).step, unaffected * 1.05)

    def test_the_plan_that_is_chosen_is_expected_to_take_least(self):
        found = self.calibrated()
        simulator = stowage.Simulator(found.graph, found.machine)
        plan = found.optimize(0.6)
        least = found.predict(plan).step
        for method in ("single", "expert", "metis", "heft", "steer"):
            self.assertLessEqual(least, found.predict(simulator.run(method)).step * (1 + 1e-12), method)

    def test_rough_predictions_must_promise_much(self):
        options = {"budget": None, "evaluations": 60, "rounds": 1}
        mixed = self.calibrated(kinds=("cpu1", "gpu"), names=("cpu:0", "cuda:0"), slower=1 / 6, company=1.0)
        one = mixed.predict(stowage.Simulator(mixed.graph, mixed.machine).run("single")).step
        several = mixed.optimize(min_gain=0, **options)
        gain = 1 - mixed.predict(several).step / one
        self.assertEqual(len(set(several.device)), 2)
        self.assertTrue(0.0 < gain < 0.3, gain)
        self.assertEqual(set(mixed.optimize(**options).device), {1})
        self.assertEqual(set(mixed.optimize(min_gain=f"{100 * gain + 0.1:.3f}%", **options).device), {1})
        self.assertEqual(len(set(mixed.optimize(min_gain=gain - 0.001, **options).device)), 2)
        alike = dataclasses.replace(mixed, devices=["cpu:0", "cpu:1"])
        self.assertEqual(len(set(alike.optimize(**options).device)), 2)
        for wrong in ("2 %%", "1", -0.1, "much"):
            with self.assertRaisesRegex(ValueError, "min_gain is .*write a share"):
                mixed.optimize(min_gain=wrong, **options)

    def test_limits_hold_for_all_that_is_chosen_from(self):
        found = self.calibrated(company=1.0)
        options = {"budget": None, "evaluations": 30, "rounds": 1}
        ops = [k for k in found.alone["part"]]
        names = [found.graph.nodes[k].name for k in ops]
        pinned = found.optimize(pin={names[0]: 0, names[-1]: 1}, **options)
        self.assertEqual((pinned.device[ops[0]], pinned.device[ops[-1]]), (0, 1))
        roomy = found.optimize(pin={names[0]: 0, names[-1]: 1}, min_gain="90%", **options)  # there is no plan of one device
        self.assertAlmostEqual(found.predict(roomy).step, found.predict(pinned).step, delta=1e-12)
        apart = found.optimize(max_devices=1, **options)
        self.assertEqual(len(set(apart.device)), 1)

    def test_streams_wait_once_for_a_device(self):
        calibration = self.calibrated(names=("cuda:0/sm:64", "cuda:0/sm:64"), company=1.0)
        traffic = calibration.traffic
        traffic.reads = {0: [], 1: [], 2: [0], 3: [1], 4: [2, 3], 5: [0]}
        traffic.waits = dict.fromkeys(range(6), [])
        # device 0: 0 1 4    device 1: 2 3 5    5 reads what 3 is behind already
        self.assertEqual(traffic.dependencies([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 0, 1]), ({2: [0], 3: [0], 4: [1, 1]}, {0, 1, 2, 3}))
        # 4 asks for the later one first
        traffic.reads[4] = [3, 2]
        self.assertEqual(traffic.dependencies([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 0, 1])[0], {2: [0], 3: [0], 4: [1]})
        # by way of a third: 4 waits for 3, which is behind 1 and 0
        traffic.reads = {0: [], 1: [], 2: [], 3: [1], 4: [3, 0]}
        traffic.waits = dict.fromkeys(range(5), [])
        self.assertEqual(traffic.dependencies([0, 1, 2, 3, 4], [0, 0, 2, 1, 2]), ({3: [0], 4: [1]}, {0, 1, 3}))

    def test_waits_are_charged_where_values_go_by_reference(self):
        shares = self.calibrated(names=("cuda:0/sm:64", "cuda:0/sm:64"), company=1.0)
        shares.machine = {**shares.machine, "devices": [{**d, "name": f"{k}:{d['name']}"} for k, d in enumerate(shares.machine["devices"])]}
        names = [d["name"] for d in shares.machine["devices"]]
        shares.machine["links"] = [{**link, "latency_us": 0.0, "from": a, "to": b} for link, (a, b) in zip(shares.machine["links"], (names, names[::-1]))]
        copied = dataclasses.replace(shares, copies=True)
        plan = stowage.Simulator(shares.graph, shares.machine).run("random")
        self.assertAlmostEqual(copied.predict(plan).step, plan.evaluate().step, delta=1e-12)
        self.assertLess(shares.predict(plan).step, copied.predict(plan).step)
        # what is charged is what the executor does
        module, args = MODULES["lstm"]()
        with clocked_streams(), stowage.torch.place(module, *args, plan=plan, devices=shares.devices, captured=False) as step:
            waits, _ = shares.traffic.dependencies([task.id for task in step.program.tasks], plan.device)
            self.assertEqual(sum(map(len, waits.values())), step.runner.dependencies)
            self.assertLess(step.runner.dependencies, sum(1 for _ in step.program.transfers))

    def test_copies_are_charged_by_their_size(self):
        found = self.calibrated(company=1.0)
        plan = stowage.Simulator(found.graph, found.machine).run("spread")
        crossing = found.traffic.transfers(plan.device)
        self.assertEqual({(plan.device[value], target) for value, target in crossing}, {(0, 1), (1, 0)})
        slow = dataclasses.replace(found, by_size={(0, 1): (1e-3, 2e-3)})
        charges, machine, for_searches = slow._charges([], plan.device)
        there = [(value, k) for (value, target), k in crossing.items() if target == 1]
        paid = sum(found.traffic.bytes[value] * (3e-3 if found.traffic.kind[value] == "op" else 2e-3) for value, _ in there)
        self.assertAlmostEqual(sum(charges.values()), paid)
        self.assertEqual(machine, found.machine)
        mean = sum(found.traffic.bytes[value] for value, _ in there) / len(there)
        links = {link["from"]: link for link in for_searches["links"]}
        self.assertAlmostEqual(links["a"]["send_us"], 0.2 + 1e-3 * mean)
        self.assertEqual(links["b"]["receive_us"], 0.8)
        self.assertGreater(slow.predict(plan).step, found.predict(plan).step)

    def test_what_stays_in_the_cache_by_hand(self):
        calibration = self.calibrated()
        traffic = calibration.traffic
        traffic._touched = {0: {9: 4, 0: 1}, 1: {0: 1, 1: 8}, 2: {9: 4, 2: 1}}
        cache = Cache((7.0, 8.0), (1.0, 0.0), 1.0)
        # 0 reads 9, 1 reads 0, 2 reads 9 again: after 8 bytes of 1 it is gone, but for the step before, which ended with it
        self.assertEqual(traffic.found([0, 1, 2], cache), {0: 4, 1: 1, 2: 0})
        self.assertEqual(traffic.found([0, 2, 1], cache), {0: 0, 2: 4, 1: 1})
        self.assertEqual(traffic.found([0, 2, 1], cache, 2), {0: 0, 2: 4, 1: 0})

    def test_ops_are_quicker_in_an_order_that_finds_more_in_the_cache(self):
        found = self.calibrated(company=1.0)
        plan = stowage.Simulator(found.graph, found.machine).run("single")
        line = _predict.timeline(plan)
        backwards = _predict.in_order(plan, line)  # the trace as it is
        found.caches = {"part": Cache((1e3, 1e5), (1.0, 0.0), 1e-3)}
        self.assertAlmostEqual(found.predict(backwards).step, plan.evaluate().step, delta=1e-9)  # as ops were timed
        other = stowage.Simulator(found.graph, found.machine).run("random")
        without = dataclasses.replace(found, caches={}).predict(other).step
        missed = found.predict(other).step - without
        self.assertNotAlmostEqual(missed, 0.0, delta=1e-7)
        dearer = dataclasses.replace(found, caches={"part": Cache((1e3, 1e5), (1.0, 0.0), 1.1e-3)})
        self.assertGreater((dearer.predict(other).step - without) / missed, 1.0)

    def test_a_curve_falls_from_all_to_nothing(self):
        cache = _cuda_cache.curve([0, 10, 20, 30, 40], [2.0, 2.0, 2.5, 2.45, 3.0])
        self.assertEqual(cache.found, (1.0, 1.0, *cache.found[2:3] * 2, 0.0))
        self.assertAlmostEqual(cache.share(15), (1.0 + cache.found[2]) / 2)
        self.assertEqual((cache.share(-1), cache.share(99)), (1.0, 0.0))
        self.assertIsNone(_cuda_cache.curve([0, 10, 20], [2.0, 2.01, 2.0]))  # nothing gained


@unittest.skipIf(torch_lacks(), torch_lacks())
class Measuring(unittest.TestCase):
    def test_cpu_devices_are_calibrated_and_a_plan_for_them_runs(self):
        module, args = MODULES["conv"]()
        before = [p.detach().clone() for p in module.parameters()]
        found = stowage.torch.calibrate(TWO, module, *args)
        self.assertEqual([d["kind"] for d in found.machine["devices"]], ["cpu1", "cpu1"])
        self.assertGreater(found.machine["links"][0]["latency_us"] + found.machine["links"][0]["receive_us"], 0)
        self.check_times(found, ["cpu1"])
        self.assertEqual(found.graph.fingerprint, stowage.torch.trace(module, *args).fingerprint)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, module.parameters())))
        with stowage.torch.place(module, *args, plan=found.optimize(0.3), devices=TWO) as step:
            torch.testing.assert_close(step(*args), loss_of(module, args).detach(), **TOLERANCE)
            self.assertGreater(step.seconds(2, warm=1), 0)

    def check_times(self, found, kinds):
        self.assertEqual((list(found.alone), list(found.company)), (kinds, kinds))
        for kind in kinds:
            self.assertTrue(all(us > 0 for us in found.alone[kind].values()), kind)
            self.assertTrue(all(found.company[kind][k] >= us for k, us in found.alone[kind].items()), kind)
            self.assertEqual(set(found.alone[kind]), {node.id for node in found.graph.ops}, kind)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "there is one core only")
    def test_devices_of_unequal_size_are_calibrated(self):
        a, b = sorted(os.sched_getaffinity(0))[:2]
        devices = [f"cpu:{a}", f"cpu:{a},{b}"]
        module, args = MODULES["conv"]()
        found = stowage.torch.calibrate(devices, module, *args)
        self.assertEqual([d["kind"] for d in found.machine["devices"]], ["cpu1", "cpu2"])
        self.check_times(found, ["cpu1", "cpu2"])
        with stowage.torch.place(module, *args, plan=found.optimize(0.3), devices=devices) as step:
            torch.testing.assert_close(step(*args), loss_of(module, args).detach(), **TOLERANCE)
        with self.assertRaisesRegex(stowage.Error, "the machine has 2 devices, and 1 are given"):
            stowage.torch.calibrate(devices[:1], machine=found.machine)

    def test_fast_devices_run_as_often_as_the_slowest_needs(self):
        class Counted:
            timed_tasks = [7]

            def __init__(self, seconds, device="cpu:0"):
                self.begun, self.running, self.seconds, self.specs = 0, False, [seconds], [_devices.parse(device)]
                self.began, self.ended = 1.0, 1.5 + seconds

            def begin(self):
                assert not self.running
                self.begun, self.running = self.begun + 1, True

            def end(self):
                assert self.running
                self.running = False

        steps = [Counted(8.0), Counted(2.0), Counted(3.0, "cuda:0")]
        found = _host_bench._at_once(steps, ["slow", "fast", "middle"], [1, 4, 3])
        runs = steps[0].begun
        self.assertGreaterEqual(runs, _host_bench._WARM + _host_bench._LEAST)
        self.assertEqual([(step.begun, step.running) for step in steps], [(runs, False), (4 * runs, False), (3 * runs, False)])
        self.assertEqual(found, {"slow": {7: 8.5e6}, "fast": {7: 2.5e6}, "middle": {7: 3.0e6}})  # with what is between ops; a GPU's is waiting

    def test_the_quickest_quarter_counts(self):
        self.assertEqual(_host_bench.quickest([5.0, 1.0, 9.0, 2.0, 7.0, 8.0, 6.0, 3.0]), [1.0, 2.0])
        self.assertEqual(_host_bench.quickest([(3.0, "c"), (1.0, "a"), (2.0, "b")]), [(1.0, "a")])

    def test_cpus_and_gpus_are_calibrated_together(self):
        measured = {"kind": "gpu", "memory_bytes": 1 << 30, "launch_us": 1.0, "flops_per_s": {"f32": 1e12}, "bandwidth_bytes_per_s": 1e12,
                    "efficiency": {}}  # fmt: skip
        link = {"bandwidth_bytes_per_s": 1e15, "latency_us": 0.0, "send_us": 0.25, "receive_us": 0.75}

        def times(nodes, specs, kinds):
            alone = {k: 1e6 if k == min(nodes.fx) else 1e-3 for k in nodes.fx}  # longer, and shorter, than what it takes to issue an op
            return {kinds[0]: alone}, {kinds[0]: {k: 2 * us for k, us in alone.items()}}

        module, args = MODULES["tied"]()
        devices = ["cuda:0/sm:64", "cpu:0", "cuda:0/sm:64"]
        fake = {"devices": lambda specs: [measured] * len(specs), "links": lambda specs, copies: {(0, 1): (link, (0.0, 0.0)), (1, 0): (link, (0.0, 2.0))}}
        with clocked_streams(), mock.patch.multiple(_cuda_bench, **fake), mock.patch.object(_cuda_times, "times", times):
            found = stowage.torch.calibrate(devices, module, *args)
            self.check_times(found, ["gpu", "cpu1"])
            self.assertEqual([(d["name"], d["kind"]) for d in found.machine["devices"]],
                             [("0:cuda:0/sm:64", "gpu"), ("1:cpu:0", "cpu1"), ("2:cuda:0/sm:64", "gpu")])  # fmt: skip
            links = {(row["from"][0], row["to"][0]): row for row in found.machine["links"]}
            self.assertEqual(len(links), 6)
            self.assertEqual(found.by_size[2, 0], (0.0, 2.0))
            self.assertNotIn((0, 2), found.by_size)
            self.assertEqual((links["0", "2"]["receive_us"], links["2", "0"]["receive_us"]), (0.75, 0.75))
            for pair in (("0", "1"), ("1", "0"), ("1", "2"), ("2", "1")):
                self.assertGreater(min(links[pair][key] for key in ("latency_us", "send_us", "receive_us")), 0, pair)
                self.assertEqual(len(links[pair]["bandwidth_bytes_per_s"]), 5)
            first, *others = found.alone["gpu"].values()
            self.assertEqual(first, 1e6)
            self.assertTrue(all(1e-3 < us < 1e6 for us in others))  # what it takes to issue them
            self.assertEqual(found.graph.fingerprint, stowage.torch.trace(module, *args, portable=True).fingerprint)
            with stowage.torch.place(module, *args, plan=found.optimize(0.3), devices=devices) as step:
                torch.testing.assert_close(step(*args), loss_of(module, args).detach(), **TOLERANCE)

    def test_streams_are_told_apart_by_how_long_their_kernels_take(self):
        kernels = [_cuda_times._Kernel(0, "a", 1.0), _cuda_times._Kernel(1, "b", 1.0)]
        part = lambda total: _cuda_times._Part({}, total, 0.5)  # noqa: E731
        small = _cuda_times._Load("small", None, None, kernels, 1, part(8.0))
        large = _cuda_times._Load("large", None, None, kernels, 2, part(4.0))
        recorded = lambda stream, names, dur: [{"cat": "kernel", "name": n, "ts": k * dur, "dur": dur, "args": {"stream": stream}}  # noqa: E731
                                               for k, n in enumerate(names)]  # fmt: skip
        events = [*recorded(7, "ab", 4.5), *recorded(3, "abab", 2.5), {"cat": "cpu_op", "ts": 0.0}]
        found = {load.kind: own for load, own in _cuda_times._by_load([large, small], events)}
        self.assertEqual({kind: len(own) for kind, own in found.items()}, {"small": 2, "large": 4})
        times = [[], []]
        _cuda_times._match(large, found["large"], times)
        self.assertEqual(times, [[2.5, 2.5], [2.5, 2.5]])
        with self.assertRaisesRegex(_cuda_times._NotRecorded, "1 streams were recorded of 2 devices"):
            _cuda_times._by_load([large, small], recorded(7, "ab", 4.5))

    def test_steps_in_a_row_are_not_waited_for(self):
        """The first of them, for which the GPU has to be given its work first, does not count; and nothing is waited for but the last."""
        ran, waited = [], []

        class Event:
            def __init__(self, enable_timing):
                self.at = None

            def record(self):
                self.at = 100.0 * (len(ran) > 0) + 3.0 * len(ran)  # milliseconds: the first step takes 100 more

            def synchronize(self):
                waited.append(len(ran))

            def elapsed_time(self, other):
                return other.at - self.at

        with mock.patch.object(torch.cuda, "Event", Event):
            found = _streams.times_in_a_row(lambda: ran.append(None), 4)
        self.assertEqual([round(s, 9) for s in found], [0.003] * 4)
        self.assertEqual((len(ran), waited), (5, [5]))

    def test_only_the_last_of_two_recorded_steps_counts(self):
        events = [{"cat": "kernel", "name": f"{stream}{step}", "ts": 10.0 * step + stream, "dur": 1.0, "args": {"stream": stream}}
                  for step in (0, 1) for stream in (0, 1, 1)]  # fmt: skip
        graph = mock.Mock()
        with mock.patch.multiple(_cuda_times, profile=mock.MagicMock(), events_of=lambda recorded: events), mock.patch.object(torch.cuda, "synchronize"):
            found = _cuda_times._recorded(graph)
        self.assertEqual(graph.replay.call_count, 2)
        self.assertEqual(sorted(e["name"] for e in found), ["01", "11", "11"])

    def test_company_is_measured_out_of_lockstep(self):
        """Two kernels on two devices: means over devices and turns, the gap of the device alone, and in sum a step that was not recorded."""
        kernels = [_cuda_times._Kernel(4, "a", 1.0), _cuda_times._Kernel(7, "b", 1.0)]
        loads = [_cuda_times._Load("share", None, stream, kernels, 1, _cuda_times._Part({}, 10.0, 0.5)) for stream in ("s0", "s1")]
        slept, turns = [], []

        def recorded(graph):
            turns.append(None)
            uneven = 1.0 if len(turns) % 2 else 3.0  # what an op meets differs from turn to turn
            events = [{"cat": "kernel", "name": "at::cuda::spin_kernel(long)", "ts": 0.0, "dur": slept[-1], "args": {"stream": 1}}] if slept else []
            for stream in (0, 1):
                events += [{"cat": "kernel", "name": "a", "ts": 5.0, "dur": uneven, "args": {"stream": stream}},
                           {"cat": "kernel", "name": "b", "ts": 9.0, "dur": 8.0, "args": {"stream": stream}}]  # fmt: skip
            return events

        def captured(streams, work):
            slept.clear()
            runs = mock.patch.object(_cuda_times._Load, "run", lambda self: None)
            with runs, mock.patch.object(torch.cuda, "_sleep", lambda cycles: slept.append(cycles / _cuda_times._CYCLES)):
                for do in work:
                    do()

        nodes = mock.Mock(fx={4: None, 7: None})
        with mock.patch.multiple(_cuda_times, captured=captured, _recorded=recorded, replay_us=lambda graph, times: 21.0 + sum(slept)):
            found = _cuda_times._in_company(nodes, loads)["share"]
        self.assertEqual(len(turns), _cuda_times._STEPS)
        mean_a = (3 * 1.0 + 2 * 3.0) / 5  # the median would be 1
        stretched = (21.0 - 2 * 0.5) / (mean_a + 8.0)
        self.assertAlmostEqual(found.each[4], stretched * mean_a + 0.5, places=2)
        self.assertAlmostEqual(found.each[7], stretched * 8.0 + 0.5, places=2)
        self.assertAlmostEqual(sum(found.each.values()), 21.0, places=1)


if __name__ == "__main__":
    sys.exit(run_tests())
