#!/usr/bin/env python3
"""Plans over CPUs and GPUs together: on streams and threads that keep count of what happens before what and, where there is a GPU, on it.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_torch_mixed.py [names of tests]
"""
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import has, torch_lacks  # noqa: E402

import stowage  # noqa: E402

if not torch_lacks():
    import torch
    from torch import nn

    import stowage.torch
    from clocked import Clocked, Event, clocked_streams
    from stowage.torch.running import _devices, _lanes, _place, _program
    from stowage.torch.running._program import Calls
    from torch_modules import MODULES, loss_of
    from torch_steps import TOLERANCE, check_steps, plan_for, reads_a_weight_elsewhere

THREE = ["cpu:0", "cuda:0/sm:64", "cuda:0/sm:64"]
FOUR = ["cuda:0", "cpu:0", "cpu:0", "cuda:1"]


def gpu_lacks():
    """Why nothing can be run on a GPU here, or ""."""
    return torch_lacks() or ("" if torch.cuda.is_available() else "there is no GPU")


@unittest.skipIf(torch_lacks(), torch_lacks())
class Mixed(unittest.TestCase):
    """Steps on stand-ins: what one reads and another has written is waited for."""

    def check(self, name, method, devices=THREE, update=None, **options):
        with clocked_streams():
            return check_steps(self, name, method, devices, update, portable=True, **options)

    def test_losses_gradients_and_buffers_equal_those_of_the_module(self):
        for name, devices in (("lstm", THREE), ("tied", FOUR), ("conv", ["cuda:0", "cpu:0"]), ("partly", FOUR)):
            for copies in (False, True):
                with self.subTest(name, copies=copies):
                    self.check(name, "random", devices, copies=copies, steps=2)

    def test_updates_in_place_equal_plain_sgd(self):
        for name, devices in (("conv", THREE), ("partly", FOUR)):
            with self.subTest(name):
                self.check(name, "spread", devices, update="sgd", steps=2)

    def test_a_stream_that_does_not_wait_is_noticed(self):
        with mock.patch.object(Clocked, "wait_event", lambda self, event: None):
            with self.assertRaisesRegex(stowage.Error, "stream .* does not wait for stream"):
                self.check("partly", "random", steps=1)

    def test_a_thread_that_does_not_wait_for_its_copy_is_noticed(self):
        with mock.patch.object(Event, "synchronize", lambda self: None):
            with self.assertRaisesRegex(stowage.Error, "thread .* does not wait for stream"):
                self.check("lstm", "random", steps=1)

    def test_a_step_that_does_not_wait_for_its_caller_is_noticed(self):
        with mock.patch.object(_lanes.Lanes, "begin", lambda self: None):
            with self.assertRaisesRegex(stowage.Error, "stream .* does not wait for stream 0"):
                self.check("partly", "single", ["cuda:0", "cpu:0"], steps=1)

    def test_memory_that_is_used_again_too_early_is_noticed(self):
        with mock.patch.object(_lanes.Lanes, "keep", lambda self, value: value):
            with self.assertRaisesRegex((stowage.Error, AssertionError), "may use memory again"):
                self.check("lstm", "random", steps=2)

    def test_an_update_waits_for_those_who_read_the_parameter_elsewhere(self):
        add_waits = _program.Program._add_waits

        def forget(program):
            add_waits(program)
            for task in program.tasks:
                task.waits = []

        module, x = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), torch.randn(4, 6)
        plan = reads_a_weight_elsewhere(module, x)
        for devices in (["cpu:0", "cuda:0"], ["cuda:0", "cpu:0"]):
            for forgotten in (False, True):
                with self.subTest(devices, forgotten=forgotten), clocked_streams():
                    program = mock.patch.object(_program.Program, "_add_waits", forget if forgotten else add_waits)
                    with program, stowage.torch.place(module, x, plan=plan, devices=devices, update="sgd") as step:
                        if forgotten:
                            with self.assertRaisesRegex(stowage.Error, "does not wait"):
                                step(x)
                        else:
                            step(x)

    def test_a_failing_op_is_told_and_the_next_step_runs(self):
        broken = [None]

        class Failing(Calls):
            def __call__(self, task):
                function, args, kwargs = super().__call__(task)

                def run(*a, **k):
                    if broken[0] is not None and task.id == broken[0][0]:
                        raise broken[0][1]
                    return function(*a, **k)

                return run, args, kwargs

        module, args = MODULES["lstm"]()
        plan = plan_for(module, args, "random", 3, portable=True)
        with clocked_streams(), mock.patch.object(_place, "Calls", Failing):
            with stowage.torch.place(module, *args, plan=plan, devices=THREE) as step:
                for device, name in enumerate(THREE):
                    cases = {f"the step failed on {name}: no such luck": ValueError("no such luck"),
                             f"does not fit into the memory of {name}: 4 GiB asked$": torch.cuda.OutOfMemoryError("4 GiB asked\nand more")}
                    for said, error in cases.items():
                        broken[0] = ([node.id for node in plan.graph.ops if plan.device[node.id] == device][20], error)
                        with self.assertRaisesRegex(stowage.Error, said) as caught:
                            step(*args)
                        self.assertNotIn("\n", str(caught.exception))
                broken[0] = None
                torch.testing.assert_close(step(*args), loss_of(module, args).detach(), **TOLERANCE)

    def test_a_closed_step_does_not_run(self):
        module, args = MODULES["partly"]()
        with clocked_streams():
            step = stowage.torch.place(module, *args, plan=plan_for(module, args, portable=True), devices=["cpu:0", "cuda:0"])
            self.assertGreater(step.seconds(2, warm=1), 0)
            step.close()
            with self.assertRaisesRegex(stowage.Error, "closed"):
                step(*args)


@unittest.skipIf(torch_lacks(), torch_lacks())
class Traces(unittest.TestCase):
    def test_a_portable_step_has_no_op_of_one_sort_of_device_alone(self):
        module, args = MODULES["tied"]()
        plain, portable = (stowage.torch.trace(module, *args, portable=p) for p in (False, True))
        self.assertTrue(any("for_cpu" in node.op for node in plain.nodes))
        self.assertFalse(any("attention" in node.op or "for_cpu" in node.op for node in portable.nodes))
        self.assertTrue(torch.backends.cuda.flash_sdp_enabled())  # as before

    def test_a_module_on_several_devices_is_traced_as_a_portable_one(self):
        module, args = MODULES["conv"]()
        expected = stowage.torch.trace(module, *args, portable=True)
        module[0].to("meta")
        self.assertEqual(stowage.torch.trace(module, *args).fingerprint, expected.fingerprint)

    def test_ops_of_a_portable_step_are_not_timed(self):
        module, args = MODULES["conv"]()
        with self.assertRaisesRegex(stowage.Error, "belongs to no device.*calibrate"):
            stowage.torch.trace(module, *args, portable=True, measure=True)

    def test_a_plan_for_another_trace_is_refused_with_the_remedy(self):
        module, args = MODULES["tied"]()
        with clocked_streams(), self.assertRaisesRegex(stowage.Error, "another graph .* portable=True"):
            stowage.torch.place(module, *args, plan=plan_for(module, args), devices=["cpu:0", "cuda:0"])


@unittest.skipIf(gpu_lacks(), gpu_lacks())
class OnGpu(unittest.TestCase):
    """The same on a real GPU. What is compared with is the module on the CPU, so that sums are taken in another order: 1e-3, 1e-4."""

    TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}

    def setUp(self):
        self.addCleanup(setattr, torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)
        torch.backends.cudnn.allow_tf32 = False

    def check_all(self, devices, names=None, portable=True, **options):
        for name in names or MODULES:
            for method in ("single", "heft", "random"):
                for update in (None, "sgd"):
                    with self.subTest(name, method=method, update=update, **options):
                        check_steps(self, name, method, devices, update, self.TOLERANCE, portable=portable, **options)

    def test_one_core_and_one_gpu(self):
        self.check_all(["cpu:0", "cuda:0"])
        self.check_all(["cuda:0", "cpu:0"])

    @unittest.skipUnless(has("cuda"), "cuda-bindings is not installed")
    def test_one_core_and_two_shares(self):
        for copies in (False, True):
            self.check_all(["cpu:0", "cuda:0/sm:64", "cuda:0/sm:64"], copies=copies)

    @unittest.skipUnless(has("cuda"), "cuda-bindings is not installed")
    def test_shares_of_unequal_size(self):
        self.check_all(["cuda:0/sm:32", "cuda:0/sm:64"], ("lstm", "conv", "partly"), portable=False)  # one traces attention of CPUs

    @unittest.skipUnless(has("cuda"), "cuda-bindings is not installed")
    def test_devices_of_several_sizes_and_sorts_are_calibrated(self):
        for devices in (["cpu:0", "cuda:0"], ["cuda:0/sm:32", "cuda:0/sm:64"], ["cpu:0", "cuda:0/sm:32", "cuda:0/sm:64"]):
            with self.subTest(devices):
                torch.manual_seed(0)
                module, args = MODULES["lstm"]()
                first = _devices.parse(devices[0]).torch
                module, args = module.to(first), tuple(a.to(first) for a in args)
                found = stowage.torch.calibrate(devices, module, *args)
                self.assertEqual(len(found.alone), len(devices))
                for kind, alone in found.alone.items():
                    self.assertEqual(set(alone), {node.id for node in found.graph.ops}, kind)
                    self.assertTrue(all(found.company[kind][k] >= us >= 0 for k, us in alone.items()) and sum(alone.values()) > 0, kind)
                plan = found.optimize(1.0)
                with stowage.torch.place(module, *args, plan=plan, devices=devices) as step:
                    loss = step(*args)
                    measured, expected = step.seconds(), found.predict(plan).step
                torch.testing.assert_close(loss.cpu(), loss_of(module.cpu(), [a.cpu() for a in args]).detach(), **self.TOLERANCE)
                company = {kind: round(sum(found.company[kind].values()) / sum(alone.values()), 3) for kind, alone in found.alone.items()}
                print(f"{devices}: measured {1e6 * measured:.0f} us, predicted {1e6 * expected:.0f} us; company {company}; links", flush=True)
                for link in found.machine["links"]:
                    print("  ", link, flush=True)

    def test_tuning_leaves_the_module_on_its_device(self):
        module, args = MODULES["conv"]()
        stowage.torch.tune(module, *args, devices=["cpu:0", "cuda:0"], runs=3, evaluations=20)
        self.assertEqual({tensor.device.type for tensor in [*module.parameters(), *module.buffers()]}, {"cpu"})

    def test_what_does_not_fit_is_told_in_one_line(self):
        module, x = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.randn(4, 8)
        plan = plan_for(module, (x,), "random", portable=True)

        class Large(Calls):
            def __call__(self, task):
                function, args, kwargs = super().__call__(task)
                large = lambda *a, **k: torch.empty(1 << 60, dtype=torch.uint8, device=self._devices[task.device])  # noqa: E731
                return (large if task.device == 1 else function), args, kwargs

        with mock.patch.object(_place, "Calls", Large), stowage.torch.place(module, x, plan=plan, devices=["cpu:0", "cuda:0"]) as step:
            with self.assertRaisesRegex(stowage.Error, "does not fit into the memory of cuda:0|failed on cuda:0") as caught:
                step(x)
            self.assertNotIn("\n", str(caught.exception))


if __name__ == "__main__":
    sys.exit(run_tests())
