#!/usr/bin/env python3
"""Graphs, machines and plans of the Python package against the library's own answers.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_plans.py [names of tests]
"""
import copy
import gzip
import json
import os
import sys
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import GRAPH, PARTED, ROOT, TINY, Temporary, has  # noqa: E402

import stowage  # noqa: E402


class Graphs(Temporary):
    def test_nodes_are_those_of_the_file(self):
        graph = stowage.Graph.parse(TINY)
        self.assertEqual((graph.name, len(graph), len(graph.nodes), len(graph.ops)), ("tiny", 6, 6, 3))
        self.assertEqual([n.kind for n in graph.nodes], ["input", "parameter", "view", "op", "op", "op"])
        for node, written in zip(graph.nodes, TINY["nodes"]):
            self.assertEqual((node.id, node.name, node.op), (written["id"], written["name"], written["op"]))
            self.assertEqual((list(node.inputs), list(node.shape), node.dtype), (written["inputs"], written["shape"], "f32"))
            self.assertEqual((node.label, node.updates), (written.get("label", ""), written.get("updates")))
            self.assertEqual(node.flops, written.get("flops", 0))
        self.assertEqual([n.root for n in graph.nodes], [0, 1, 1, 3, 4, 5])
        self.assertEqual(graph.nodes[-1], graph.nodes[5])
        self.assertEqual(graph.nodes[1:3], [graph.nodes[1], graph.nodes[2]])
        for index in (6, -7, 2**32, 2**32 + 3, -(2**32), 2**64):
            with self.assertRaises(IndexError):
                graph.nodes[index]
        for index in (1.5, "1"):
            with self.assertRaises(TypeError):
                graph.nodes[index]

    def test_sums(self):
        graph = stowage.Graph.parse(TINY)
        self.assertEqual(graph.parameter_bytes, 64 * 256 * 4)
        self.assertEqual(graph.bytes, 4 * (128 * 256 + 64 * 256 + 128 * 64 + 1 + 64 * 256))
        self.assertEqual(graph.flops, 4194304 + 8192)
        self.assertEqual(len(graph.fingerprint), 32)
        self.assertIsNone(graph.machine)

    def test_repr(self):
        graph = stowage.Graph.parse(TINY)
        self.assertEqual(repr(graph), "<Graph 'tiny': 6 nodes, 3 ops, 65.5 kB of parameters, 4.2 MFLOP>")
        self.assertIn("<td>65.5 kB</td>", graph._repr_html_())
        self.assertIn("&lt;b&gt;", stowage.Graph.parse({**TINY, "name": "<b>"})._repr_html_())

    def test_save_and_load(self):
        graph = stowage.Graph.parse(TINY)
        for name in ("g.json", "g.json.gz"):
            graph.save(self.folder / name)
            again = stowage.load(self.folder / name)
            self.assertEqual((again.fingerprint, again.path), (graph.fingerprint, str(self.folder / name)))
        self.assertEqual(json.loads(gzip.decompress((self.folder / "g.json.gz").read_bytes())), TINY)
        again.save(self.folder / "copy.json.gz")
        self.assertEqual(stowage.load(self.folder / "copy.json.gz").fingerprint, graph.fingerprint)

    def test_errors_carry_the_library_s_words(self):
        with self.assertRaises(stowage.Error) as caught:
            stowage.load("/nowhere/graph.json")
        self.assertIn("/nowhere/graph.json", str(caught.exception))
        with self.assertRaises(stowage.Error) as caught:
            stowage.Graph.parse({**TINY, "version": 9}, "mine")
        self.assertIn("mine", str(caught.exception))
        self.assertEqual(caught.exception.status, "input")

    def test_files_appear_whole_or_not_at_all(self):
        from stowage._files import whole_file

        path, link = self.folder / "g.json", self.folder / "link.json"
        with self.assertRaises(KeyError):
            with whole_file(path) as opened:
                opened.write(b"half")
                raise KeyError
        self.assertEqual(os.listdir(self.folder), [])
        link.symlink_to("g.json")
        graph = stowage.Graph.parse(TINY)
        graph.save(link)  # where it leads to
        self.assertTrue(link.is_symlink())
        path.chmod(0o600)
        before = path.read_bytes()
        with self.assertRaises(KeyError):
            with whole_file(path) as opened:
                opened.write(b"half")
                raise KeyError
        self.assertEqual(path.read_bytes(), before)
        stowage.load(path).save(path)
        self.assertEqual((path.read_bytes(), path.stat().st_mode & 0o777), (before, 0o600))
        self.assertEqual(sorted(os.listdir(self.folder)), ["g.json", "link.json"])
        with self.assertRaises(OSError):
            graph.save(self.folder / "no" / "g.json")
        graph.save("/dev/null")

    def test_limit_of_a_file(self):
        path = self.folder / "wide.json.gz"
        path.write_bytes(gzip.compress(json.dumps(TINY).encode() + b" " * 70_000_000, 1))
        for read in (lambda **more: stowage.load(path, **more), lambda **more: stowage.Graph.parse(path.read_bytes(), **more)):
            with self.assertRaises(stowage.Error) as caught:
                read()
            self.assertIn("to more than 67108864 bytes", str(caught.exception))
            self.assertEqual(read(file_limit="71MB").name, "tiny")
            self.assertEqual(read(file_limit=71_000_000).name, "tiny")

    def test_shape_text(self):
        from stowage._graph import shape_text

        self.assertEqual(shape_text({"image": (8, 3, 224), "batch": 8}), "image=8,3,224;batch=8")
        self.assertEqual(shape_text("x=1"), "x=1")
        with self.assertRaises(stowage.Error):
            stowage.load(GRAPH, shape={"nothing": (1, 2)})


class Machines(Temporary):
    def test_builtin(self):
        machine = stowage.Machine("cpu+h200x2")
        self.assertEqual([d.name for d in machine.devices], ["cpu", "h200:0", "h200:1"])
        self.assertEqual((len(machine), machine.name), (3, "cpu+h200x2"))
        self.assertIn("h200xN", stowage.machines())
        self.assertIn("3 devices (cpu, h200:0, h200:1)", repr(machine))
        self.assertIn("<td>h200:1</td>", machine._repr_html_())

    def test_memory_leaves_the_other_machine_alone(self):
        machine = stowage.Machine("h200x2")
        small = machine.with_memory("2GB")
        self.assertEqual(small.memory, [2 * 10**9] * 2)
        self.assertGreater(min(machine.memory), 10**11)
        self.assertEqual(stowage.Machine("h200x2", memory="1GiB").memory, [2**30] * 2)
        self.assertEqual(small.with_memory(5e8).memory, [5 * 10**8] * 2)
        for bad in ("2 apples", "GB", ""):
            with self.assertRaises(ValueError):
                machine.with_memory(bad)

    def test_memory_of_machines_that_came_with_something(self):
        graph = stowage.Graph.parse(PARTED)
        small = graph.machine.with_memory(500)
        self.assertEqual((small.name, [d.name for d in small.devices]), (graph.machine.name, [d.name for d in graph.machine.devices]))
        self.assertEqual(small.memory, [500] * len(graph.machine))
        self.assertEqual(stowage.optimize(graph, evaluations=20, memory=50).plan, None)
        plan = stowage.Simulator(graph).run("single")
        plan.save(self.folder / "plan.json")
        own = stowage.Plan.load(self.folder / "plan.json", graph)
        self.assertEqual(own.machine.with_memory("1kB").memory, [1000] * len(own.machine))
        self.assertEqual(stowage.simulate(graph, None, own, memory=10**9).step, plan.evaluate().step)
        tiny, device = stowage.Graph.parse(TINY), [0, 1, 1, 1, 0, 1]
        for name in ("h200x2-pcie", "h200x2-host", "cpu+h200x2"):  # nothing else changes: links, host, times
            before = stowage.Machine(name)
            steps = [stowage.Plan(tiny, machine, device=device).evaluate().step for machine in (before, before.with_memory("1GB"))]
            self.assertEqual(steps[0], steps[1])
            self.assertIsNotNone(steps[0])

    def test_keys_that_nobody_knows_are_warned_of_where_the_machine_is_opened(self):
        links = [{"from": a, "to": b, "bandwidth_bytes_per_s": 1e9, "latency_us": 1, "send_uss": 3} for a, b in ("ab", "ba")]
        described = {"format": "machine", "version": 1, "links": links,
                     "devices": [{"name": name, "kind": "h200"} for name in "ab"]}  # fmt: skip
        file = self.folder / "machine.json"
        file.write_text(json.dumps(described))
        for source in (described, file):
            with self.assertWarnsRegex(UserWarning, "has the key 'send_uss', which is not known"):
                machine = stowage.Machine(source)
            self.assertIn("send_uss", machine.warning)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # it has been said
                small = machine.with_memory("2GB")
                simulator = stowage.Simulator(stowage.load(GRAPH), small, memory="1GB")
                stowage.simulate(simulator.graph, machine, "single")
            self.assertIn("send_uss", small.warning)
            self.assertEqual(sum("send_uss" in line for line in simulator.warnings), 1)
            with self.assertWarnsRegex(UserWarning, "send_uss"):
                self.assertIn("send_uss", stowage.Machine(source, memory="2GB").warning)
        self.assertEqual(stowage.Machine("h200x2").warning, "")

    def test_the_current_directory_plays_no_part_later(self):
        described = {"format": "machine", "version": 1, "name": "mine", "devices": [{"name": "a", "kind": "h200"}]}
        (self.folder / "m.json").write_text(json.dumps(described))
        stowage.Graph.parse(TINY).save(self.folder / "g.json")
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            machine, graph = stowage.Machine("m.json"), stowage.load("g.json")
        finally:
            os.chdir(before)
        self.assertEqual(machine.with_memory("1GB").memory, [10**9])
        graph.save(self.folder / "copy.json")
        self.assertEqual(graph.path, str(Path(self.folder, "g.json").resolve()))

    def test_sizes_out_of_range(self):
        machine = stowage.Machine("h200x1")
        for bad in (-1, 2**63, 2**64 + 10**9, 1e30, "99999999999TB", float("nan")):
            with self.assertRaises((ValueError, OverflowError)):
                machine.with_memory(bad)

    def test_file_and_dict(self):
        described = {"format": "machine", "version": 1, "name": "mine", "devices": [{"name": "a", "kind": "h200"}]}
        (self.folder / "m.json").write_text(json.dumps(described))
        for source in (described, self.folder / "m.json", str(self.folder / "m.json")):
            self.assertEqual([d.name for d in stowage.Machine(source).devices], ["a"])
        with self.assertRaises(stowage.Error):
            stowage.Machine("h200x0")


class Plans(Temporary):
    def setUp(self):
        super().setUp()
        self.graph = stowage.Graph.parse(TINY)

    def test_values(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 1, 1, 1, 0, 1], priority=[0.5] * 6)
        self.assertEqual((plan.device, plan.priority), ((0, 1, 1, 1, 0, 1), (0.5,) * 6))
        with self.assertRaises(TypeError):
            plan.device[0] = 1  # would be lost
        self.assertEqual([plan.group[k] for k in (3, 4, 5)], [3, 4, 5])
        plan.group = [-1, -1, -1, 3, 3, 5]
        self.assertEqual(plan.group[4], 3)
        self.assertEqual(repr(plan), "<Plan of tiny on h200x2; h200:0: 1 ops, h200:1: 2 ops>")
        self.assertIn("<td>66.7 %</td>", plan._repr_html_())
        for bad in ([0] * 5, [0.5] * 6, ["x"] * 6, [None] * 6):
            with self.assertRaises(ValueError):
                plan.device = bad
        for bad in (2**31, -(2**31) - 1, 2**32, 2**64):
            with self.assertRaises(OverflowError):
                plan.device = [bad] * 6
            with self.assertRaises(OverflowError):
                plan.set_order(0, [3, bad, 4])
            with self.assertRaises(OverflowError):
                plan.set_order(bad, [3, 5, 4])
        self.assertEqual(plan.device, (0, 1, 1, 1, 0, 1))
        plan.device = [1.0] * 6
        self.assertEqual(plan.device, (1,) * 6)

    @unittest.skipUnless(has("numpy"), "numpy is not installed")
    def test_numpy(self):
        import numpy

        plan = stowage.Plan(self.graph, "h200x2", device=numpy.array([0, 1, 1, 1, 0, 1]))
        arrays = plan.to_numpy()
        self.assertEqual(tuple(arrays["device"].tolist()), plan.device)
        with self.assertRaises(ValueError):
            plan.device = numpy.full(6, 0.5)
        plan.device = numpy.ones(6, numpy.float32)
        self.assertEqual(plan.device, (1,) * 6)
        self.assertEqual(arrays["priority"].dtype, numpy.float64)

    def test_evaluation(self):
        one = stowage.Plan(self.graph, "h200x2").evaluate()
        self.assertTrue(one.valid)
        self.assertAlmostEqual(one.step, 9e-6, 12)
        self.assertEqual((one.transfers, one.busy[1], one.reason, one.message), (0, 0.0, None, ""))
        self.assertAlmostEqual(one.measured_share, 1.0)
        self.assertLessEqual(one.lower_bound, one.step)
        two = stowage.simulate(self.graph, "h200x2", stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 1, 0]))
        self.assertEqual((two.transfers, two.transfer_bytes), (1, 128 * 64 * 4))
        self.assertIn("h200:1", repr(two))
        self.assertIn("<th>utilisation</th>", two._repr_html_())

    def test_invalid_plans_are_results(self):
        split = stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 0, 1]).evaluate()
        self.assertEqual((split.valid, split.reason, split.step, split.peak), (False, "colocation", None, ()))
        self.assertIn("invalid (colocation", repr(split))
        tight = stowage.simulate(self.graph, "h200x1", stowage.Plan(self.graph, "h200x1"), memory=1000)
        self.assertEqual((tight.valid, tight.reason), (False, "memory"))
        with self.assertRaises(stowage.Error):
            stowage.Plan(self.graph, "h200x2", device=[7] * 6).evaluate()

    def test_save_and_load(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 1, 0], priority=[0.1, 1 / 3, 0, 2, 3, 4])
        plan.set_order(0, [5, 3]), plan.set_order(0, None)
        plan.save(self.folder / "plan.json")
        again = stowage.Plan.load(self.folder / "plan.json", self.graph)
        self.assertEqual((again.device[4], again.priority[1], again.machine.name), (1, 1 / 3, "h200x2"))
        self.assertEqual(again.evaluate(), plan.evaluate())
        self.assertEqual(stowage.simulate(self.graph, None, self.folder / "plan.json"), plan.evaluate())
        other = stowage.Plan.load(self.folder / "plan.json", self.graph, "h200x3")
        self.assertNotEqual(other.warning, "")
        with self.assertRaises(stowage.Error):
            stowage.Plan.load(self.folder / "plan.json", stowage.load(GRAPH))

    def test_order(self):
        plan = stowage.Plan(self.graph, "h200x1")
        plan.set_order(0, [3, 5, 4])
        self.assertTrue(plan.evaluate().valid)
        self.assertTrue(plan.copy().evaluate().valid)
        self.assertEqual((plan.order(0), plan.copy().order(0), plan.order(1)), ((3, 5, 4), (3, 5, 4), None))
        plan.set_order(0, [5, 3, 4])
        self.assertEqual(plan.evaluate().reason, "order")

    def test_copies_are_plans_of_their_own(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 1, 0])
        for made in (plan.copy(), copy.copy(plan)):
            made.device = [0] * 6
            self.assertEqual((plan.device[4], made.device[4]), (1, 0))

    def test_another_machine(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 0, 0, 0, 1, 0])
        fast, slow = plan.evaluate(), stowage.simulate(self.graph, "h200x2-pcie", plan)
        self.assertGreater(slow.step, fast.step)

    def test_export(self):
        plan = stowage.Plan(self.graph, "h200x2")
        plan.export("trace", self.folder / "t.json")
        self.assertIn("traceEvents", json.loads((self.folder / "t.json").read_text()))
        self.assertIn("trace", stowage.formats())
        with self.assertRaises(stowage.Error):
            plan.export("nothing", self.folder / "x")
        with self.assertRaises(stowage.Error):
            plan.export("onnx", self.folder / "x.onnx")  # no model

    def test_carried(self):
        """A plan goes into an HLO module and comes back with it."""
        module, planned = self.folder / "m.hlo.txt", self.folder / "planned.hlo.txt"
        module.write_text("HloModule m\n\nENTRY main {\n  x = f32[64]{0} parameter(0)\n  a = f32[64]{0} tanh(x)\n"
                          "  b = f32[64]{0} sine(x)\n  ROOT c = f32[64]{0} add(a, b)\n}\n")  # fmt: skip
        plan = stowage.Plan(stowage.load(module), "h200x2", device=[0, 0, 1, 0], priority=[0, 0.1, 2, 0])
        plan.export("hlo", planned)
        again = stowage.Plan.carried(stowage.load(planned), "h200x2")
        self.assertEqual(sorted(zip(again.device, again.priority))[1:], [(0, 0.0), (0, 0.1), (1, 2.0)])
        self.assertEqual(stowage.simulate(again.graph, "h200x2", again).step, stowage.simulate(plan.graph, "h200x2", plan).step)
        with self.assertRaisesRegex(stowage.Error, "carries no plan"):
            stowage.Plan.carried(self.graph, "h200x2")

    def test_device_map(self):
        plan = stowage.Plan(self.graph, "h200x2", device=[0, 1, 1, 1, 1, 1])
        found = plan.to_device_map()
        self.assertIsInstance(found, dict)
        self.assertTrue(found)
        with self.assertRaisesRegex(stowage.Error, "nowhere"):
            plan.to_device_map(strip="nowhere")


if __name__ == "__main__":
    sys.exit(run_tests())
