#!/usr/bin/env python3
"""ONNX models cut by plans and run by ONNX Runtime, a session per part, against the whole model.

    STOWAGE_LIBRARY=build/release/libstowage.so build/venv/bin/python3 tests/python/test_onnx_split.py [names of tests]
"""
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import SANITIZED, Temporary, has  # noqa: E402

import stowage  # noqa: E402
import stowage.onnx  # noqa: E402

try:
    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    pass

LACKING = ", ".join(f"no {name}" for name in ("numpy", "onnx", "onnxruntime") if not has(name))
if SANITIZED:
    LACKING = "ONNX Runtime is not run under a sanitizer"
F = 1  # float32

CORE = {"kind": "cpu1", "memory_bytes": 4e9, "launch_us": 1, "flops_per_s": {"f32": 3e10}, "bandwidth_bytes_per_s": 1e10,
        "efficiency": {"matmul": 0.5, "elementwise": 0.5}}
MACHINE = {
    "format": "machine", "version": 1, "name": "two cores", "devices": [{"name": f"core{k}", **CORE} for k in (0, 1)],
    "links": [{"from": f"core{k}", "to": f"core{1 - k}", "bandwidth_bytes_per_s": 1e10, "latency_us": 50} for k in (0, 1)],
}  # fmt: skip


def constant(name, value):
    return numpy_helper.from_array(numpy.asarray(value), name)


def model_of(nodes, inputs, outputs, weights, opset=17):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs],
                              [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs], weights)  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def towers(width=32, depth=3):
    """Two chains from one input, which meet, a constant that both read, and two outputs."""
    generator = numpy.random.default_rng(3)
    nodes = [helper.make_node("Constant", [], ["half"], name="half", value=constant("half", numpy.float32(0.5)))]
    weights = []
    for tower in "ab":
        at = "x"
        for k in range(depth):
            weights.append(constant(f"{tower}{k}w", generator.standard_normal((width, width), dtype=numpy.float32) / 8))
            nodes.append(helper.make_node("MatMul", [at, f"{tower}{k}w"], [f"{tower}{k}m"], name=f"{tower}{k}mm"))
            nodes.append(helper.make_node("Mul", [f"{tower}{k}m", "half"], [f"{tower}{k}s"], name=f"{tower}{k}scale"))
            nodes.append(helper.make_node("Tanh", [f"{tower}{k}s"], [f"{tower}{k}"], name=f"{tower}{k}tanh"))
            at = f"{tower}{k}"
    last = depth - 1
    nodes.append(helper.make_node("Add", [f"a{last}", f"b{last}"], ["sum"], name="join"))
    nodes.append(helper.make_node("ReduceSum", ["sum"], ["y"], name="reduce", keepdims=0))
    return model_of(nodes, [("x", [4, width])], [("y", F, []), ("a0", F, [4, width])], weights)


def fan(width=32):
    """Both halves of an input and three tensors more that one op each makes; all are read in twos, one of them twice."""
    nodes = [helper.make_node("Split", ["x"], ["left", "right"], name="split", axis=0, num_outputs=2)]
    nodes += [helper.make_node(op, ["x"], [op.lower()], name=op) for op in ("Relu", "Tanh", "Sigmoid")]
    nodes += [helper.make_node("Add", pair, [f"s{k}"], name=f"to{k}") for k, pair in enumerate((["left", "right"], ["relu", "tanh"], ["sigmoid", "relu"]))]
    nodes += [helper.make_node("Concat", ["s0", "s1", "s2"], ["y"], name="to", axis=0)]
    return model_of(nodes, [("x", [8, width])], [("y", F, [20, width])], [], opset=18)


def branching(width=8):
    """An If whose bodies read tensors of the graph around it, shapes that are computed, and a node with two outputs."""
    def body(name, op):
        return helper.make_graph([helper.make_node(op, ["left", "w"], [name], name=name + "_op")], name, [],
                                 [helper.make_tensor_value_info(name, F, None)])  # fmt: skip

    nodes = [
        helper.make_node("Split", ["x"], ["left", "right"], name="split", axis=1, num_outputs=2),
        helper.make_node("ReduceSum", ["x"], ["total"], name="total", keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"], name="greater"),
        helper.make_node("If", ["positive"], ["chosen"], name="choose", then_branch=body("t", "Add"), else_branch=body("e", "Sub")),
        helper.make_node("Shape", ["right"], ["shape"], name="shape"),
        helper.make_node("Expand", ["w", "shape"], ["wide"], name="expand"),
        helper.make_node("Mul", ["chosen", "wide"], ["y"], name="last"),
    ]
    weights = [constant("w", numpy.full((1, width), 1.5, numpy.float32)), constant("zero", numpy.float32(0))]
    return model_of(nodes, [("x", [4, 2 * width])], [("y", F, [4, width])], weights, opset=18)


def whole(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in model.graph.output], session.run(None, feeds)))


def feeds_of(model, seed=1):
    generator = numpy.random.default_rng(seed)
    sizes = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input}
    return {name: generator.standard_normal(size, dtype=numpy.float32) for name, size in sizes.items()}


def cores():
    return sorted(os.sched_getaffinity(0))


@unittest.skipIf(LACKING, LACKING)
class Splitting(Temporary):
    def plan(self, model, choose):
        graph = stowage.onnx.load(model)
        return stowage.Plan(graph, MACHINE, device=[choose(node) for node in graph.nodes])

    def assert_same(self, got, expected):
        self.assertEqual(list(got), list(expected))
        for name, value in expected.items():
            self.assertEqual(got[name].tobytes(), value.tobytes(), name)
            self.assertEqual(got[name].shape, value.shape)

    def run_split(self, split, feeds):
        pair = (cores() * 2)[:2]
        with stowage.onnx.Runner(split, [f"cpu:{core}" for core in pair]) as run:
            return run(feeds)

    def test_two_towers_are_three_parts(self):
        model = towers()
        plan = self.plan(model, lambda node: int(node.name.startswith("b")))
        split = stowage.onnx.split(model, plan)
        self.assertEqual([(part.device, part.level) for part in split.parts], [(0, 0), (1, 0), (0, 1)])
        self.assertEqual(split.bytes_between, {"b2": 4 * 32 * 4})
        self.assertEqual(split.parts[1].inputs, ["x"])
        self.assertIn("b2", split.parts[2].inputs)
        for part in split.parts:
            onnx.checker.check_model(part.model)
            self.assertEqual(sum(node.name == "half" for node in part.model.graph.node), int(part.level == 0))
        weights = [tensor.name for part in split.parts for tensor in part.model.graph.initializer]
        self.assertEqual(sorted(weights), sorted(f"{t}{k}w" for t in "ab" for k in range(3)))  # each once, with its reader
        feeds = feeds_of(model)
        self.assert_same(self.run_split(split, feeds), whole(model, feeds))

    def test_random_plans(self):
        for model, count in ((towers(8, 2), 25), (branching(), 25)):
            feeds = feeds_of(model)
            expected = whole(model, feeds)
            for seed in range(count):
                with self.subTest(model=model.graph.node[1].name, seed=seed):
                    chance = random.Random(seed)
                    split = stowage.onnx.split(model, self.plan(model, lambda node: chance.randrange(2)))
                    self.assert_same(self.run_split(split, feeds), expected)

    def test_everything_on_one_device_is_one_part(self):
        model = towers()
        split = stowage.onnx.split(model, self.plan(model, lambda node: 1))
        self.assertEqual([part.device for part in split.parts], [1])
        self.assertEqual(split.bytes_between, {})
        feeds = feeds_of(model)
        self.assert_same(self.run_split(split, feeds), whole(model, feeds))

    def test_a_plan_of_a_search_from_a_file(self):
        model, path = towers(64, 4), self.folder / "m.onnx"
        feeds = feeds_of(model)
        expected = whole(model, feeds)
        onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
        graph = stowage.onnx.load(path)
        plan = stowage.optimize(graph, MACHINE, evaluations=200, tasks="placement,schedule").plan
        split = stowage.onnx.split(path, plan)
        self.assert_same(self.run_split(split, feeds), expected)
        saved = split.save(self.folder / "parts")
        self.assertEqual(len(saved), len(split.parts))
        for file in saved:
            onnx.checker.check_model(onnx.load(file))

    def test_prediction(self):
        model = towers()
        plan = self.plan(model, lambda node: int(node.name.startswith("b")))
        split = stowage.onnx.split(model, plan)
        a, b, join = (part.seconds for part in split.parts)
        self.assertAlmostEqual(a + b + join, sum(plan.simulator.op_seconds(op.id) for op in plan.graph.ops), delta=1e-12)
        self.assertAlmostEqual(split.predict(hand_over=1.0), b + 1.0 + join, delta=1e-9)
        self.assertAlmostEqual(split.predict(bytes_per_s=512.0), b + 1.0 + join, delta=1e-9)
        self.assertGreaterEqual(split.predict(5e-5, 1e10) + 1e-10, plan.evaluate().step)

    def test_what_a_part_takes_in_follows_each_other(self):
        """It waits for five tensors at once, and then takes them in, two of 512 bytes and three of 1024; none twice."""
        model = fan()
        split = stowage.onnx.split(model, self.plan(model, lambda node: int(node.name.startswith("to"))))
        self.assertEqual(sorted(split.bytes_between.values()), [512, 512, 1024, 1024, 1024])
        first, last = (part.seconds for part in split.parts)
        self.assertAlmostEqual(split.predict(hand_over=1.0), first + 1.0 + last, delta=1e-9)
        self.assertAlmostEqual(split.predict(hand_over=1.0, bytes_per_s=512.0), first + 1.0 + 8.0 + last, delta=1e-9)

    def test_the_price_of_an_export_is_the_prediction(self):
        """Two programs that were written apart: the exporter's parts of the graph, and those of the model that is cut."""
        generator = random.Random(11)
        for model in (towers(), towers(16, 6), fan(), fan(4096)):
            for _ in range(8):
                plan = self.plan(model, lambda node: generator.randrange(2))
                split = stowage.onnx.split(model, plan)
                price = plan.price("onnx", model.SerializeToString())
                self.assertAlmostEqual(price.exported / split.predict(50e-6, 1e10), 1.0, delta=1e-6)

    def test_sessions_stay_on_their_core(self):
        model = towers()
        split = stowage.onnx.split(model, self.plan(model, lambda node: int(node.name.startswith("b"))))
        pair, before = (cores() * 2)[:2], os.sched_getaffinity(0)
        with stowage.onnx.Runner(split, [f"cpu:{core}" for core in pair]) as run:
            run(feeds_of(model))
            self.assertEqual([os.sched_getaffinity(thread.native_id) for thread in run._threads], [{core} for core in pair])
            self.assertTrue(all(s.get_session_options().intra_op_num_threads == 1 for s in run._sessions))
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_a_fault_in_a_part_is_raised_and_the_next_step_runs(self):
        model = towers()
        split = stowage.onnx.split(model, self.plan(model, lambda node: int(node.name.startswith("b"))))
        feeds = feeds_of(model)
        with stowage.onnx.Runner(split, ["cpu", "cpu"]) as run:
            with self.assertRaises(Exception) as raised:
                run({"x": numpy.zeros((4, 7), numpy.float32)})
            self.assertIn("x", str(raised.exception))
            self.assert_same(run(feeds), whole(model, feeds))
            with self.assertRaisesRegex(stowage.Error, "the input 'x' is not given"):
                run({})
        with self.assertRaisesRegex(stowage.Error, "closed"):
            run(feeds)

    def test_a_step_fails_though_another_thread_keeps_a_promise_meanwhile(self):
        from stowage._onnx_run import _Step

        step = _Step(["a", "b"])
        step.tensor["a"].set_result(1)
        step.tensor["a"].done = lambda: False  # as it was when it was asked
        step.fail(ValueError("no"))
        self.assertEqual(step.tensor["a"].result(0), 1)
        self.assertRaises(ValueError, step.tensor["b"].result, 0)

    def test_parts_have_all_of_the_model_but_its_graph(self):
        model = towers()
        model.doc_string, model.graph.doc_string, model.producer_name = "of the model", "of the graph", "somebody"
        helper.set_model_props(model, {"key": "value"})
        for part in stowage.onnx.split(model, self.plan(model, lambda node: int(node.name.startswith("b")))).parts:
            onnx.checker.check_model(part.model)
            self.assertEqual((part.model.doc_string, part.model.graph.doc_string), (model.doc_string, model.graph.doc_string))
            self.assertEqual((part.model.graph.name, part.model.producer_name), ("g", model.producer_name))
            self.assertEqual(part.model.opset_import[0].version, model.opset_import[0].version)
            self.assertIn("key", {entry.key for entry in part.model.metadata_props})
            self.assertLess(len(part.model.graph.node), len(model.graph.node))

    def test_refusals(self):
        model = towers()
        split = stowage.onnx.split(model, self.plan(model, lambda node: 0))
        with self.assertRaisesRegex(stowage.Error, "1 devices are named; the plan's machine has 2"):
            stowage.onnx.Runner(split, ["cpu"])
        with self.assertRaisesRegex(stowage.Error, "'gpu' is no device"):
            stowage.onnx.Runner(split, ["cpu", "gpu"])
        with self.assertRaisesRegex(stowage.Error, "core 4095 is not there"):
            stowage.onnx.Runner(split, ["cpu", "cpu:4095"])
        other = towers(8)
        with self.assertRaises(stowage.Error):
            stowage.onnx.split(other, split.plan)


if __name__ == "__main__":
    sys.exit(run_tests())
