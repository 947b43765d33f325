#!/usr/bin/env python3
"""Plans that run: stowage.torch.place on CPU devices; and the order in which streams are given their work, on streams
that only keep count of what happens before what.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_torch_run.py [names of tests]
"""
import copy
import gc
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import torch_lacks  # noqa: E402

import stowage  # noqa: E402

if not torch_lacks():
    import torch
    from torch import nn

    import stowage.torch
    from clocked import Clocked, clocked_streams
    from stowage.torch.running import _devices, _place, _program, _streams
    from stowage.torch.running._program import Calls
    from torch_modules import MODULES, loss_of
    from torch_steps import TOLERANCE, check_steps, plan_for, reads_a_weight_elsewhere

TWO = ["cpu:0", "cpu:0"]  # two devices on one core: what is computed does not depend on where, and every machine has one
PLANS = ("spread", "random")


if not torch_lacks():

    class WritesOver(nn.Module):
        """What a view shows changes behind it."""

        def forward(self, x):
            y = x * 2
            part = y[:2]
            y.add_(3)
            return (part * 5).sum()


def written_elsewhere(module, x):
    """The plan that has the write in place on the second device."""
    graph = stowage.torch.trace(module, x, train=False)
    plan = stowage.Plan(graph, "h200x2")
    plan.device = [1 if node.op == "add_" else 0 for node in graph.nodes]
    return plan


@unittest.skipIf(torch_lacks(), torch_lacks())
class Run(unittest.TestCase):
    def check(self, name, method, devices=TWO, update=None, **options):
        return check_steps(self, name, method, devices, update, **options)

    def test_losses_gradients_and_buffers_equal_those_of_the_module(self):
        for name in MODULES:
            for method in PLANS:
                with self.subTest(name, method=method):
                    self.check(name, method)

    def test_updates_in_place_equal_plain_sgd(self):
        for name in MODULES:
            with self.subTest(name):
                self.check(name, "etf", devices=["cpu:0"] * 3, update="sgd")

    def test_an_optimizer_of_torch_goes_on_working(self):
        torch.manual_seed(0)
        module, args = MODULES["lstm"]()
        alone = copy.deepcopy(module)
        optimizers = [torch.optim.Adam(m.parameters(), 0.01) for m in (module, alone)]
        with stowage.torch.place(module, *args, plan=plan_for(module, args), devices=TWO) as step:
            for _ in range(3):
                optimizers[1].zero_grad()
                loss_of(alone, args).backward()
                optimizers[0].zero_grad()
                step(*args)
                for optimizer in optimizers:
                    optimizer.step()
            state = step.state_dict()
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(state[name], value, **TOLERANCE)

    def test_the_rate_is_an_argument(self):
        torch.manual_seed(0)
        module, args = MODULES["conv"]()
        before = [p.detach().clone() for p in module.parameters()]
        with stowage.torch.place(module, *args, plan=plan_for(module, args), devices=TWO, update="sgd", rate=0.0) as step:
            step(*args)
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, module.parameters())))
            step.rate = 0.5
            self.assertEqual(step.rate, 0.5)
            step(*args)
            self.assertFalse(all(torch.equal(a, b) for a, b in zip(before, module.parameters())))

    def test_inference_returns_what_the_module_returns(self):
        class Several(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 4)

            def forward(self, x, *, scale):
                return {"a": self.a(x) * scale, "both": (self.b(x), x.sum()), "none": None}

        module, x = Several(), torch.randn(3, 6)
        plan = plan_for(module, (x,), "random", train=False, scale=2.0)
        with stowage.torch.place(module, x, plan=plan, devices=TWO, train=False, scale=2.0) as step:
            x = torch.randn(3, 6)
            expected, found = module(x, scale=2.0), step(x, scale=2.0)
            torch.testing.assert_close(found["a"], expected["a"].detach())
            torch.testing.assert_close(found["both"], tuple(t.detach() for t in expected["both"]))
            self.assertIsNone(found["none"])
            with self.assertRaisesRegex(stowage.Error, "argument 1 is 3.0 and was 2.0"):
                step(x, scale=3.0)

    def test_views_that_nobody_reads_are_returned(self):
        class Shown(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)

            def forward(self, x):
                return self.a(x).unflatten(1, (2, 2)).transpose(1, 2), x.t(), self.a.weight[:2], x

        module, x = Shown(), torch.randn(3, 4)
        with stowage.torch.place(module, x, plan=plan_for(module, (x,), "random", train=False), devices=TWO, train=False) as step:
            x = torch.randn(3, 4)
            torch.testing.assert_close(step(x), tuple(t.detach() for t in module(x)))

    def test_dropout_and_autocast_run(self):
        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 4)

            def forward(self, x):
                with torch.autocast("cpu", torch.bfloat16):
                    return self.b(nn.functional.dropout(self.a(x), 0.5)).float().pow(2).mean()

        module, x = Both(), torch.randn(8, 16)
        with stowage.torch.place(module, x, plan=plan_for(module, (x,), "spread"), devices=TWO) as step:
            losses = {float(step(x)) for _ in range(6)}
        self.assertGreater(len(losses), 1)  # it draws anew
        self.assertTrue(all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters()))

    def test_gradients_share_no_memory(self):
        class Sum(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

            def forward(self, x):
                return ((self.a + self.b) * x).sum()

        module, x = Sum(), torch.full((4,), 10.0)
        with stowage.torch.place(module, x, plan=plan_for(module, (x,), "single"), devices=TWO) as step:
            step(x)
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        norm = torch.stack([p.grad for p in module.parameters()]).norm()
        torch.testing.assert_close(norm, torch.tensor(1.0), rtol=1e-3, atol=0)

    def test_replaced_parameters_are_noticed(self):
        module, args = MODULES["partly"]()
        with stowage.torch.place(module, *args, plan=plan_for(module, args), devices=TWO) as step:
            step(*args)
            module.load_state_dict({k: v + 1 for k, v in module.state_dict().items()})  # in place: fine
            torch.testing.assert_close(step(*args), loss_of(module, args).detach(), **TOLERANCE)
            module.load_state_dict({k: v.clone() for k, v in module.state_dict().items()}, assign=True)
            with self.assertRaisesRegex(stowage.Error, "was replaced after the step was placed"):
                step(*args)

    def test_a_layer_that_is_called_twice_keeps_its_statistics_in_order(self):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(3)

            def forward(self, x):
                return (self.norm(x) * self.norm(x + 5)).sum()

        torch.manual_seed(0)
        module, x = Twice(), torch.randn(8, 3)
        alone = copy.deepcopy(module)
        graph = stowage.torch.trace(module, x)
        plan = stowage.Plan(graph, "h200x2")
        plan.priority = [float(node.id) for node in graph.nodes]  # the second first, if nothing forbids it
        with stowage.torch.place(module, x, plan=plan, devices=TWO) as step:
            step(x)
        alone(x)
        for a, b in zip(alone.buffers(), module.buffers()):
            torch.testing.assert_close(b, a)

    def test_threads_end_with_their_step(self):
        module, args = MODULES["partly"]()
        plan = plan_for(module, args)
        step = stowage.torch.place(module, *args, plan=plan, devices=TWO)
        step(*args)
        workers = list(step.runner._workers)
        self.assertTrue(all(worker.is_alive() for worker in workers))
        del step
        gc.collect()
        for worker in workers:
            worker.join(60)
        self.assertFalse(any(worker.is_alive() for worker in workers))

    def test_every_device_keeps_the_order_of_the_plan(self):
        ran = []

        class Noted(Calls):
            def __call__(self, task):
                function, args, kwargs = super().__call__(task)
                return lambda *a, **k: (ran.append(task.id), function(*a, **k))[1], args, kwargs

        module, args = MODULES["lstm"]()
        graph = stowage.torch.trace(module, *args)
        simulator = stowage.Simulator(graph, "h200x2")
        plan = simulator.run("etf")
        ops = [node.id for node in graph.ops]
        orders = [[k for k in ops if plan.device[k] == d] for d in (0, 1)]  # of the trace, which etf does not keep
        for d, order in enumerate(orders):
            plan.set_order(d, order)
        with mock.patch.object(_place, "Calls", Noted), stowage.torch.place(module, *args, plan=plan, devices=TWO) as step:
            step(*args)
        for order in orders:
            self.assertEqual([k for k in ran if k in set(order)], order)

    def test_a_failing_op_is_told_and_the_next_step_runs(self):
        broken = [True]

        class Failing(Calls):
            def __call__(self, task):
                function, args, kwargs = super().__call__(task)

                def run(*a, **k):
                    if broken[0] and task.id == last:
                        raise ValueError("no such luck")
                    return function(*a, **k)

                return run, args, kwargs

        module, args = MODULES["lstm"]()
        plan = plan_for(module, args, "random")
        for device in (0, 1):
            broken[0] = True
            last = [node.id for node in plan.graph.ops if plan.device[node.id] == device][20]
            with mock.patch.object(_place, "Calls", Failing), stowage.torch.place(module, *args, plan=plan, devices=["cpu:0", "cpu:00"]) as step:
                for _ in range(3):
                    with self.assertRaisesRegex(stowage.Error, f"failed on cpu:{'0' * (device + 1)}: no such luck"):
                        step(*args)
                broken[0] = False
                torch.testing.assert_close(step(*args), loss_of(module, args).detach(), **TOLERANCE)

    def test_what_cannot_run_is_refused_in_one_line(self):
        module, args = MODULES["lstm"]()
        plan = plan_for(module, args)
        other = plan_for(*MODULES["conv"]())
        fused = stowage.optimize(plan.graph, "h200x2", evaluations=20, tasks="fusion").plan
        cases = {
            "another graph": dict(plan=other, devices=TWO),
            "the plan is for 2 devices .h200x2., and 3 are given": dict(plan=plan, devices=["cpu:0"] * 3),
            "fuses ops": dict(plan=fused, devices=TWO if len(fused.machine) == 2 else ["cpu:0"]),
            "'gpu:0' is no device": dict(plan=plan, devices=["gpu:0", "cpu:0"]),
            "names core 4000": dict(plan=plan, devices=["cpu:0", "cpu:4000"]),
            "PyTorch sees": dict(plan=plan, devices=["cuda:63", "cuda:63"]),
            "'cuda:63' is not there": dict(plan=plan, devices=["cuda:63", "cpu:0"]),
            "CPUs and GPUs together run in one process": dict(plan=plan, devices=["cuda:0@0", "cpu:0@1"]),
            "no device is given": dict(plan=plan, devices=[]),
            "names no core: 3 is above 1": dict(plan=plan, devices=["cpu:0", "cpu:3-1"]),
            "a list of names": dict(plan=plan, devices="cpu:0"),
        }
        for said, options in cases.items():
            with self.subTest(said), self.assertRaisesRegex(stowage.Error, said) as caught:
                stowage.torch.place(module, *args, **options)
            self.assertNotIn("\n", str(caught.exception))
        with stowage.torch.place(module, *args, plan=plan, devices=TWO) as step:
            with self.assertRaisesRegex(stowage.Error, r"argument 0 is \(4, 9, 24\).*place it again"):
                step(torch.randn(4, 9, 24))
            with self.assertRaisesRegex(stowage.Error, "other arguments"):
                step(*args, *args)
        with self.assertRaisesRegex(stowage.Error, "closed"):
            step(*args)

    def test_values_that_are_written_over_are_not_read_from_copies(self):
        module, x = WritesOver(), torch.randn(4)
        plan = written_elsewhere(module, x)
        with stowage.torch.place(module, x, plan=plan, devices=TWO, train=False) as step:  # by reference it holds
            x = torch.randn(4)
            torch.testing.assert_close(step(x), module(x))


@unittest.skipIf(torch_lacks(), torch_lacks())
class Streams(Run):
    """The same steps issued to streams: what is read on one and written on another is waited for."""

    def check(self, name, method, devices=TWO, update=None):
        for copies in (False, True):
            with clocked_streams():
                super().check(name, method, ["cuda:0"] * len(devices), update, copies=copies, captured=False)

    def test_losses_gradients_and_buffers_equal_those_of_the_module(self):
        for name in ("lstm", "conv"):
            with self.subTest(name):
                self.check(name, "random")

    def test_updates_in_place_equal_plain_sgd(self):
        for name in ("tied", "conv"):
            with self.subTest(name):
                self.check(name, "spread", update="sgd")

    def test_a_missing_wait_is_noticed(self):
        with mock.patch.object(Clocked, "wait_event", lambda self, event: None):
            with self.assertRaisesRegex(AssertionError, "does not wait"):
                self.check("lstm", "random")

    def test_memory_that_others_have_read_is_used_again_in_time(self):
        returned = []
        take_back = _streams.Streams._take_back

        def counted(runner, owner):
            before = sum(map(len, runner._lent[owner]))
            take_back(runner, owner)
            returned.append(before - sum(map(len, runner._lent[owner])))

        def too_early(runner, owner):
            for lent in runner._lent[owner]:
                lent.clear()

        with mock.patch.object(_streams.Streams, "_take_back", counted):
            self.check("lstm", "random")
        self.assertGreater(sum(returned), 20)
        with mock.patch.object(_streams.Streams, "_take_back", too_early):
            with self.assertRaisesRegex(AssertionError, "may use memory again that stream . still reads"):
                self.check("lstm", "random")

    def test_an_update_that_does_not_wait_for_readers_is_noticed(self):
        add_waits = _program.Program._add_waits

        def forget(program):
            add_waits(program)
            for task in program.tasks:
                task.waits, task.copied = [], []

        torch.manual_seed(0)
        module, x = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), torch.randn(4, 6)
        for copies in (False, True):
            options = dict(devices=["cuda:0"] * 2, update="sgd", copies=copies, captured=False)
            with clocked_streams():
                stowage.torch.place(module, x, plan=reads_a_weight_elsewhere(module, x), **options)
            with clocked_streams(), mock.patch.object(_program.Program, "_add_waits", forget):
                with self.assertRaisesRegex(AssertionError, "sub_.* does not wait"):
                    stowage.torch.place(module, x, plan=reads_a_weight_elsewhere(module, x), **options)

    def test_values_that_are_written_over_are_not_read_from_copies(self):
        module, x = WritesOver(), torch.randn(4)
        plan = written_elsewhere(module, x)
        with clocked_streams(), self.assertRaisesRegex(stowage.Error, "add_ writes in place what .* reads on another device"):
            stowage.torch.place(module, x, plan=plan, devices=["cuda:0"] * 2, train=False, copies=True, captured=False)

    def test_writes_that_copies_would_lose_are_refused(self):
        class Average(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(3))

            def forward(self, x):
                self.mean.mul_(0.9)
                self.mean.add_(x)
                return x * 2

        class Older(nn.Module):
            def forward(self, x):
                y = x * 2
                y[:2].add_(3)
                return y

        for module, second in ((Average(), "add_"), (Older(), "add_")):
            x = torch.ones(3)
            with clocked_streams():
                graph = stowage.torch.trace(module, x, train=False)
                plan = stowage.Plan(graph, "h200x2")
                plan.device = [1 if node.op == second else 0 for node in graph.nodes]
                with self.assertRaisesRegex(stowage.Error, "in place"):
                    stowage.torch.place(module, x, plan=plan, devices=["cuda:0"] * 2, train=False, copies=True, captured=False)

    def test_a_closed_step_does_not_run(self):
        module, args = MODULES["partly"]()
        with clocked_streams():
            step = stowage.torch.place(module, *args, plan=plan_for(module, args), devices=["cuda:0"] * 2, captured=False)
            step.close()
            with self.assertRaisesRegex(stowage.Error, "closed"):
                step(*args)

    # what has nothing to do with streams
    test_an_optimizer_of_torch_goes_on_working = test_the_rate_is_an_argument = test_inference_returns_what_the_module_returns = None
    test_dropout_and_autocast_run = test_every_device_keeps_the_order_of_the_plan = test_what_cannot_run_is_refused_in_one_line = None
    test_a_failing_op_is_told_and_the_next_step_runs = test_views_that_nobody_reads_are_returned = None
    test_gradients_share_no_memory = test_replaced_parameters_are_noticed = test_threads_end_with_their_step = None
    test_a_layer_that_is_called_twice_keeps_its_statistics_in_order = None


@unittest.skipIf(torch_lacks(), torch_lacks())
class Devices(unittest.TestCase):
    def test_names(self):
        parse = _devices.parse
        self.assertEqual((parse("cuda").gpu, parse("cuda:3").gpu, parse("cuda:1/sm:64").sms), (0, 3, 64))
        self.assertEqual(parse("cpu:0-2,5").cores, (0, 1, 2, 5))
        for name in ("cpu", "cpu:", "cpu:a", "cuda:0/sm:0", "cuda:-1", "tpu:0", "cpu:0-"):
            with self.subTest(name), self.assertRaises(stowage.Error):
                parse(name)


if __name__ == "__main__":
    sys.exit(run_tests())
