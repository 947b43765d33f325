#!/usr/bin/env python3
"""Models from other packages, stowage.torch and ONNX, and the examples of the README, which use them.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_models.py [names of tests]
"""
import contextlib
import io
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import PACKAGE, ROOT, Temporary, has, python, torch_lacks  # noqa: E402

import stowage  # noqa: E402


@unittest.skipIf(torch_lacks(), torch_lacks())
class Torch(Temporary):
    def trace(self, module, *args, **options):
        import stowage.torch

        return stowage.torch.trace(module, *args, **options)

    def setUp(self):
        super().setUp()
        import torch

        self.torch, self.nn = torch, torch.nn

    def test_a_training_step(self):
        module = self.nn.Sequential(self.nn.Linear(16, 32), self.nn.ReLU(), self.nn.Linear(32, 4))
        graph = self.trace(module, self.torch.randn(8, 16))
        labels = [n.label for n in graph.nodes if n.kind == "parameter"]
        self.assertEqual(labels, ["0.weight", "0.bias", "2.weight", "2.bias"])
        self.assertEqual(graph.parameter_bytes, sum(p.numel() * 4 for p in module.parameters()))
        updated = sorted(n.updates for n in graph.nodes if n.updates is not None)
        self.assertEqual(updated, [0, 1, 2, 3])
        matmul = sum(n.flops for n in graph.nodes if n.op in ("mm", "addmm"))
        # forward, gradient of each weight, gradient of the hidden layer
        self.assertEqual(matmul, 2 * 8 * (2 * 16 * 32 + 3 * 32 * 4))
        self.assertTrue(stowage.simulate(graph, "h200x1", "single").valid)
        self.assertTrue(stowage.optimize(graph, "h200x2", evaluations=50).plan.evaluate().valid)

    def test_flops_agree_with_torch(self):
        from torch.utils.flop_counter import FlopCounterMode

        module = self.nn.Sequential(self.nn.Conv2d(3, 8, 3), self.nn.ReLU(), self.nn.Flatten(), self.nn.Linear(8 * 36, 5))
        x = self.torch.randn(2, 3, 8, 8)
        with FlopCounterMode(display=False) as counter:
            module(x).pow(2).mean().backward()
        graph = self.trace(module, x)
        heavy = sum(n.flops for n in graph.nodes if n.op in ("mm", "addmm", "convolution", "convolution_backward"))
        self.assertEqual(heavy, counter.get_total_flops())

    def test_inference(self):
        graph = self.trace(self.nn.Linear(4, 3), self.torch.randn(2, 4), train=False, name="mine")
        self.assertEqual((graph.name, [n.op for n in graph.ops]), ("mine", ["addmm"]))

    def test_views_and_several_results(self):
        nn, torch = self.nn, self.torch

        class Split(nn.Module):
            def forward(self, x):
                a, b = x.relu().split(2, dim=1)
                values, indices = (a @ b.transpose(1, 2)).max(dim=1)
                return values, indices

        graph = self.trace(Split(), torch.randn(2, 4, 3), train=False)
        views = {n.op for n in graph.nodes if n.kind == "view"}
        self.assertLessEqual({"split", "getitem", "transpose"}, views)
        largest = next(n for n in graph.ops if n.op == "max")
        self.assertEqual(largest.bytes, 2 * 2 * 4 + 2 * 2 * 8)

    def test_writes_in_place_keep_their_order(self):
        nn, torch = self.nn, self.torch

        class Writes(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("state", torch.zeros(4))

            def forward(self, x):
                y = x.clone()
                before = y * 2
                y[0] = 1.0
                after = y + 3
                self.state += after
                return before + after

        graph = self.trace(Writes(), torch.randn(4), train=False)
        graph.save(self.folder / "g.json")
        nodes = json.loads((self.folder / "g.json").read_text())["nodes"]
        by_op = {n["op"]: n for n in nodes}
        write = by_op["fill_"] if "fill_" in by_op else by_op["copy_"]
        before = next(n for n in nodes if n["op"] == "mul")
        after = next(n for n in nodes if n["op"] == "add")
        self.assertIn(before["id"], write["control"])
        self.assertIn(write["id"], after["control"])
        state = next(n for n in nodes if n["op"] == "buffer")
        self.assertEqual(by_op["add_"]["updates"], state["id"])
        self.assertTrue(stowage.simulate(graph, "h200x1", "single").valid)

    def test_batch_norm_and_recurrence_and_attention(self):
        nn, torch = self.nn, self.torch
        conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        attention = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        for module, x in ((conv, torch.randn(2, 3, 6, 6)), (attention, torch.randn(2, 5, 16)), (nn.LSTM(4, 6, 2), torch.randn(5, 3, 4))):
            graph = self.trace(module, x)
            self.assertTrue(stowage.simulate(graph, "h200x2", "spread").valid, module)
        self.assertGreaterEqual(sum(n.op in ("mm", "addmm") for n in graph.ops), 10)  # the LSTM as its steps

    def test_loss(self):
        nn, torch = self.nn, self.torch
        target = torch.tensor([1, 0])
        graph = self.trace(nn.Linear(4, 3), torch.randn(2, 4), loss=lambda out: nn.functional.cross_entropy(out, target))
        self.assertIn("nll_loss_forward", [n.op for n in graph.ops])
        with self.assertRaisesRegex(stowage.Error, "one element"):
            self.trace(nn.Linear(4, 3), torch.randn(2, 4), loss=lambda out: out)

    def test_parameters_without_a_gradient(self):
        nn, torch = self.nn, self.torch

        class Partly(nn.Module):
            def __init__(self):
                super().__init__()
                self.unused, self.frozen, self.used = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
                self.tied = self.used
                self.frozen.requires_grad_(False)

            def forward(self, x, *, scale, more):
                return self.used(self.frozen(x)) * scale + more[0]

        graph = self.trace(Partly(), torch.randn(2, 3), scale=2, more=[torch.randn(3)])
        updated = {graph.nodes[n.updates].label for n in graph.nodes if n.updates is not None}
        self.assertEqual(updated, {"used.weight", "used.bias"})
        self.assertEqual(sum(n.kind == "parameter" for n in graph.nodes), 6)
        self.assertEqual(sum(n.kind == "input" for n in graph.nodes), 2)
        stacked = self.trace(nn.ModuleList([nn.Identity()])[0], torch.randn(2), train=False)
        self.assertEqual(len(stacked.ops), 0)

    def test_faults(self):
        nn, torch = self.nn, self.torch

        class Branches(nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else -x

        with self.assertRaisesRegex(stowage.Error, "Branches cannot be traced"):
            self.trace(Branches(), torch.randn(3), train=False)
        with self.assertRaisesRegex(stowage.Error, "train=False"):
            self.trace(nn.ReLU(), torch.randn(3))
        with self.assertRaises(TypeError):
            self.trace(len, torch.randn(3))
        with self.assertRaises(ValueError):
            self.trace(nn.Linear(2, 2), torch.randn(1, 2), costs=self.folder / "c.csv")

    def test_measured(self):
        nn, torch = self.nn, self.torch
        module, x = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 16)), torch.randint(0, 50, (4, 3))
        before = [p.detach().clone() for p in module.parameters()]
        graph = self.trace(module, x, measure=True, kind="h200", costs=self.folder / "c.csv")
        evaluation = stowage.simulate(graph, "h200x1", "single")
        self.assertGreater(evaluation.measured_share, 0.99)
        rows = (self.folder / "c.csv").read_text().splitlines()
        self.assertEqual(rows[0], "name,kind,us")
        plain = self.trace(module, x)
        self.assertEqual(stowage.simulate(plain, "h200x1", "single").measured_share, 0)
        with_file = stowage.simulate(plain, "h200x1", "single", costs=self.folder / "c.csv")
        self.assertAlmostEqual(with_file.step, evaluation.step, 9)
        for old, new in zip(before, module.parameters()):
            self.assertTrue(torch.equal(old, new))  # nothing of the module was touched

    def test_nothing_is_computed(self):
        with self.torch.device("meta"):
            module = self.nn.Linear(50000, 50000)
        graph = self.trace(module, self.torch.empty(8, 50000, device="meta"))
        self.assertEqual(graph.parameter_bytes, 4 * (50000 * 50000 + 50000))


class Onnx(Temporary):
    def model(self):
        """An ONNX model with open batch, made without the package: relu(x @ w)."""

        def field(number, wire, data):
            return bytes([number << 3 | wire]) + data

        def text(number, value):
            value = value if isinstance(value, bytes) else value.encode()
            return field(number, 2, bytes([len(value)]) + value)

        def value_info(name, *sizes):
            shape = b"".join(text(1, field(1, 0, bytes([s])) if isinstance(s, int) else text(2, s)) for s in sizes)
            return text(1, name) + text(2, text(1, field(1, 0, b"\x01") + text(2, shape)))

        weight = field(1, 0, b"\x04") + field(1, 0, b"\x03") + field(2, 0, b"\x01") + text(8, "w") + text(9, b"\0" * 48)
        nodes = text(1, text(1, "x") + text(1, "w") + text(2, "h") + text(3, "first") + text(4, "MatMul"))
        nodes += text(1, text(1, "h") + text(2, "y") + text(3, "second") + text(4, "Relu"))
        graph = nodes + text(2, "g") + text(5, weight) + text(11, value_info("x", "batch", 4)) + text(12, value_info("y", "batch", 3))
        return field(1, 0, b"\x08") + field(7, 2, bytes([len(graph) & 127 | 128, len(graph) >> 7]) + graph) + text(8, field(2, 0, b"\x11"))

    def test_load(self):
        import stowage.onnx

        (self.folder / "m.onnx").write_bytes(self.model())
        for source in (self.model(), self.folder / "m.onnx"):
            graph = stowage.onnx.load(source, shape={"batch": 7})
            self.assertEqual([n.op for n in graph.ops], ["MatMul", "Relu"])
            self.assertEqual(graph.ops[-1].shape, (7, 3))
        with self.assertRaises(TypeError):
            stowage.onnx.load(7)

    @unittest.skipUnless(has("onnx"), "onnx is not installed")
    def test_annotate(self):
        import onnx

        import stowage.onnx

        model = onnx.load_from_string(self.model())
        graph = stowage.onnx.load(model, shape={"batch": 7})
        plan = stowage.optimize(graph, "h200x2", evaluations=10).plan
        try:
            annotated = stowage.onnx.annotate(model, plan, self.folder / "out.onnx")
        except stowage.Error as error:
            if "not written yet" in str(error):
                self.skipTest(str(error))
            raise
        self.assertEqual(sorted(n.name for n in annotated.graph.node), ["first", "second"])
        self.assertTrue(all(n.metadata_props for n in annotated.graph.node))
        self.assertTrue((self.folder / "out.onnx").is_file())


class Readme(Temporary):
    """The examples of python/README.md and README.md, one after another in one session."""

    def run_examples(self, packages, file=PACKAGE / "README.md", at_least=7):
        blocks = re.findall(r"^```python\n(.*?)^```", file.read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), at_least)
        (self.folder / "data").symlink_to(ROOT / "data")
        (self.folder / "model.onnx").write_bytes(Onnx().model())
        before, session = os.getcwd(), {}
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                for block in blocks:
                    if re.search(r"^import jax$", block, re.M):
                        continue  # test_jax.py runs it
                    if packages or not re.search(r"^import (torch|onnx)$", block, re.M):
                        exec(compile(block, str(file), "exec"), session)
        finally:
            os.chdir(before)
        return printed.getvalue()

    def test_examples_without_other_packages(self):
        printed = self.run_examples(False)
        self.assertIn("times as fast as the default", printed)
        self.assertIn("bytes are missing", printed)

    def test_the_example_of_the_checkout(self):
        self.assertIn("times as fast as the default", self.run_examples(False, ROOT / "README.md", 1))

    @unittest.skipIf(torch_lacks() or not has("onnx"), torch_lacks() or "onnx is not installed")
    def test_all_examples(self):
        try:
            self.assertIn("<Graph 'TransformerEncoderLayer'", self.run_examples(True))
        except stowage.Error as error:
            if "not written yet" in str(error):
                self.skipTest(str(error))
            raise


if __name__ == "__main__":
    sys.exit(run_tests())
