#!/usr/bin/env python3
"""When the ops of placed steps ran: on threads, and on streams whose kernels a stand-in for PyTorch's profiler tells; on a GPU, where there
is one.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_torch_trace.py [names of tests]
"""
import json
import os
import sys
import tempfile
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import has, torch_lacks  # noqa: E402

import stowage  # noqa: E402

if not torch_lacks():
    import torch

    import stowage.torch
    from clocked import clocked_streams
    from recorded import recorded_gpu
    from torch_modules import MODULES
    from torch_steps import plan_for

TWO = ["cpu:0", "cpu:0"]  # two devices on one core: every machine has one
SHARES = ["cuda:0/sm:64", "cuda:0/sm:64"]


def gpu_lacks():
    """Why nothing can be run on shares of a GPU here, or ""."""
    return torch_lacks() or ("there is no GPU" if not torch.cuda.is_available() else "" if has("cuda") else "cuda-bindings is not installed")


class Case(unittest.TestCase):
    def traced(self, step, runs=3):
        """The names of tracks, and the events."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "measured.json")
            step.trace(path, runs=runs)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        return {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}, [e for e in events if e["ph"] == "X"]

    def check_places(self, plan, tracks, ops):
        """Ops are below their devices, by their names."""
        devices = plan.machine.devices
        self.assertEqual(list(tracks.values())[: len(devices)], [device.name for device in devices])
        for e in ops:
            self.assertEqual(tracks[e["tid"]], devices[plan.device[e["args"]["id"]]].name, e)
            self.assertEqual(plan.graph.nodes[e["args"]["id"]].name, e["name"])

    def check_one_after_the_other(self, tracks, ops):
        for tid in tracks:
            own = sorted((e for e in ops if e["tid"] == tid), key=lambda e: e["ts"])
            for before, after in zip(own, own[1:]):
                self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.002)  # within the rounding to nanoseconds


@unittest.skipIf(torch_lacks(), torch_lacks())
class OnThreads(Case):
    def test_a_trace_of_a_step_has_every_op_on_its_device(self):
        module, args = MODULES["tied"]()
        plan = plan_for(module, args, "spread")
        with stowage.torch.place(module, *args, plan=plan, devices=TWO) as step:
            tracks, ops = self.traced(step)
            self.assertEqual(len(tracks), 2)
            self.assertEqual(sorted(e["name"] for e in ops), sorted(op.name for op in plan.graph.ops))
            self.check_places(plan, tracks, ops)
            self.check_one_after_the_other(tracks, ops)
            with self.assertRaisesRegex(ValueError, "runs is 0"):
                self.traced(step, 0)
            step(*args)  # it goes on


@unittest.skipIf(torch_lacks(), torch_lacks())
class OnStreams(Case):
    """On stand-ins, whose kernels bear names that many ops share."""

    def place(self, gpu_of, name="lstm", method="random", devices=SHARES, **options):
        """A placed step within stand-ins, and a trace of it; ``gpu_of`` may make the profiler worse than it is."""
        module, args = MODULES[name]()
        plan = plan_for(module, args, method, len(devices))
        with clocked_streams() as world, recorded_gpu(world) as gpu:
            with stowage.torch.place(module, *args, plan=plan, devices=devices, **options) as step:
                gpu_of(gpu)
                values = dict(step.runner.values)
                tracks, events = self.traced(step, 4)
                self.assertTrue(all(step.runner.values[n] is value for n, value in values.items()))  # those that a replay writes
        return gpu, plan, tracks, events

    def check_against(self, truth, plan, tracks, events, without=()):
        """The events are what truly ran in one replay, without some."""
        zero = min(begin for begin, _, _ in truth.values())
        found = {(e["name"], tracks[e["tid"]]): (e["ts"], e["ts"] + e["dur"], e["args"]["kernels"]) for e in events}
        expected = {}
        for (node, device, is_copy), ran in truth.items():
            track = plan.machine.devices[device].name
            expected[(f"copy of {node}", f"copies to {track}") if is_copy else (node, track)] = ran[0] - zero, ran[1] - zero, ran[2]
        self.assertEqual(set(found), set(expected) - set(without))
        self.assertEqual(len(found), len(events))
        for key, (begin, end, count) in found.items():
            self.assertEqual(count, expected[key][2], key)
            self.assertAlmostEqual(begin, expected[key][0], places=2, msg=key)
            self.assertAlmostEqual(end, expected[key][1], places=2, msg=key)

    def test_each_op_is_where_its_kernels_ran_in_the_quickest_replay(self):
        def third(gpu):
            gpu.slow = lambda replay: 0.5 if replay == 3 else 0.1 if replay == 0 else 1.0  # the first does not count

        for name, method in (("lstm", "random"), ("conv", "spread"), ("tied", "etf")):
            with self.subTest(name):
                gpu, plan, tracks, events = self.place(third, name, method, update="sgd")
                self.assertEqual(len(gpu.truth), 5)
                self.check_against(gpu.truth[3], plan, tracks, events)
                self.check_places(plan, tracks, events)
                self.check_one_after_the_other(tracks, events)
                self.assertGreater(max(e["args"]["kernels"] for e in events), 1)
                self.assertGreater(len(events), 0.8 * len(plan.graph.ops))  # the others launch nothing

    def test_one_device(self):
        gpu, plan, tracks, events = self.place(lambda gpu: None, devices=["cuda:0"])
        self.check_against(gpu.truth[1], plan, tracks, events)

    def test_copies_have_tracks_of_their_own(self):
        gpu, plan, tracks, events = self.place(lambda gpu: None, copies=True)
        self.check_against(gpu.truth[1], plan, tracks, events)
        self.assertEqual(len(tracks), 4)
        self.assertGreater(sum(e["cat"] == "copy" for e in events), 10)

    def test_streams_and_contexts_may_have_other_numbers_in_a_graph(self):
        swapped = lambda context, stream: (90 - context, 50 - stream)  # noqa: E731
        alike = lambda context, stream: (1, 50 - stream)  # noqa: E731
        for renumbered in (swapped, alike):
            with self.subTest(renumbered):
                gpu, plan, tracks, events = self.place(lambda gpu: setattr(gpu, "seen_as", renumbered))
                self.check_against(gpu.truth[1], plan, tracks, events)

    def test_replays_in_which_kernels_were_lost_do_not_count(self):
        def losing(gpu):
            gpu.lose = lambda replay, place: replay != 4 and place % 50 == 7
            gpu.slow = lambda replay: 1.0 + replay

        gpu, plan, tracks, events = self.place(losing)
        self.check_against(gpu.truth[4], plan, tracks, events)

    def test_ops_whose_kernels_are_never_recorded_are_left_out_with_a_warning(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            gpu, plan, tracks, events = self.place(lambda gpu: setattr(gpu, "lose", lambda replay, place: place == 30))
        self.assertEqual([str(w.message) for w in said if "recorded" in str(w.message)],
                         [f"of 1 of {len(gpu.truth[1])} ops and copies not all kernels were recorded; they are left out of the trace"])  # fmt: skip
        self.assertEqual(len(events), len(gpu.truth[1]) - 1)

    def test_a_profiler_that_records_nothing_is_told(self):
        with self.assertRaisesRegex(stowage.Error, "recorded 0 kernels and copies of 5 steps of [1-9].*another profiler"):
            self.place(lambda gpu: setattr(gpu, "lose", lambda replay, place: True))

    def test_what_is_not_one_graph_is_refused(self):
        module, args = MODULES["tied"]()
        for devices, portable in ((["cuda:0"] * 2, False), (["cpu:0", "cuda:0"], True)):
            plan = plan_for(module, args, "spread", portable=portable)
            with self.subTest(devices), clocked_streams():
                with stowage.torch.place(module, *args, plan=plan, devices=devices, captured=False) as step:
                    with self.assertRaisesRegex(stowage.Error, "on CPU devices or on GPU devices that run as one CUDA graph"):
                        step.trace("nowhere.json")


@unittest.skipIf(gpu_lacks(), gpu_lacks())
class OnGpu(Case):
    def test_every_op_behind_what_it_reads(self):
        """On shares of a GPU, with copies and without; and on the whole."""
        for name, devices, copies in (("lstm", SHARES, False), ("tied", SHARES, False), ("lstm", SHARES, True), ("lstm", ["cuda:0"], False)):
            with self.subTest(name, devices=devices, copies=copies):
                module, args = MODULES[name]()
                module, args = module.to("cuda"), tuple(a.to("cuda") for a in args)
                plan = plan_for(module, args, "random", len(devices))
                with stowage.torch.place(module, *args, plan=plan, devices=devices, copies=copies) as step:
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always")
                        tracks, events = self.traced(step, 10)
                    self.assertEqual([str(w.message) for w in said if "were recorded" in str(w.message)], [])
                    ops = [e for e in events if e["cat"] != "copy"]
                    self.check_places(plan, tracks, ops)
                    self.check_one_after_the_other(tracks, events)
                    when = {e["args"]["id"]: e for e in ops}
                    idle = sorted({n.op for n in plan.graph.ops if n.id not in when})
                    print(f"{name} on {devices}, copies {copies}: {len(ops)} of {len(plan.graph.ops)} ops, {len(events) - len(ops)} copies; "
                          f"nothing is launched by some {', '.join(idle)}", flush=True)  # fmt: skip
                    self.assertGreater(len(ops), 0.5 * len(plan.graph.ops))
                    waits = [(a.name, when[a.id]["ts"] - when[t.producer]["ts"] - when[t.producer]["dur"])
                             for task in step.program.tasks for t in task.receives for a in [plan.graph.nodes[task.id]]
                             if task.id in when and t.producer in when]  # fmt: skip
                    early = [(op, us) for op, us in waits if us < -0.002]
                    # a copy's kernel and an op's may have one name; then whose is whose goes by their order, which may be wrong now and then
                    self.assertLessEqual(len(early), 0.02 * len(waits) if copies else 0, early)


if __name__ == "__main__":
    sys.exit(run_tests())
