#!/usr/bin/env python3
"""Plans of whole modules: paths of modules in traces, maps that simulate to the time of their plan, and accelerate, which runs one.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_grain.py [names of tests]
"""
import csv
import importlib.util
import itertools
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import GRAPH, ROOT, Temporary, torch_lacks  # noqa: E402

import stowage  # noqa: E402

if not torch_lacks():
    import torch

    import stowage.torch
    from stowage.torch.tracing._trace import Nodes, Step

    sys.path.insert(0, str(ROOT / "bench"))
    from grain_models import t5_like


class Maps(Temporary):
    def test_a_map_simulates_to_the_time_of_its_plan(self):
        models = [GRAPH, ROOT / "data" / "graphs" / "gpt2.json.gz"]
        for model, machine in itertools.product(models, ("h200x2", "h200x4-pcie")):
            result = stowage.optimize(model, machine, evaluations=100, grain="module", min_gain=0.0, threads=1)
            price = result.plan.price("device-map")
            self.assertAlmostEqual(price.exported / result.step, 1.0, delta=1e-9)
            self.assertLessEqual(price.exported, price.one_device * (1 + 1e-9))
            file = self.folder / "map.json"
            file.write_text(json.dumps(result.plan.to_device_map()))
            again = stowage.Plan.load(file, result.plan.graph, machine)
            self.assertAlmostEqual(stowage.simulate(again.graph, machine, again).step / result.step, 1.0, delta=1e-9)

    def test_stages_are_a_pipeline(self):
        for name, method in (("llama-8x2048", "expert"), ("llama-8x2048", "metis"), ("unet", "spread")):
            simulator = stowage.Simulator(ROOT / "data" / "graphs" / f"{name}.json.gz", "h200x4")
            plan = simulator.run(method, grain="stage", tasks="placement")
            self.assertGreater(len(set(plan.device)), 1)
            self.assertIn("the plan is such a pipeline", plan.export("split-points", self.folder / "split.json"))

    def test_a_tied_head_is_in_the_last_stage(self):
        for name, blocks, norm in (("gpt2", "m.transformer.h", "m.transformer.ln_f"), ("bert-base", "m.bert.encoder.layer", "m.cls*")):
            simulator = stowage.Simulator(ROOT / "data" / "graphs" / f"{name}.json.gz", "h200x4")
            pin = {f"{blocks}.0": 0, f"{blocks}.4": 1, f"{blocks}.8": 2, norm: 3}
            plan = simulator.run("expert", grain="stage", tasks="placement", pin=pin)
            note = plan.export("split-points", self.folder / "split.json")
            self.assertIn("the plan is such a pipeline", note)
            self.assertRegex(note, "several stages need '[a-z._]*(wte|word_embeddings).weight': pipeline")
            stages = json.loads((self.folder / "split.json").read_text())["stages"]
            self.assertEqual([stage["device"] for stage in stages], [0, 1, 2, 3])
            self.assertEqual({plan.device[op.id] for op in plan.graph.ops if op.name in ("mm", "addmm_73")}, {3})  # the head
            self.assertAlmostEqual(plan.price("split-points").exported / plan.evaluate().step, 1.0, delta=1e-9)

    def test_a_plan_of_ops_becomes_one_of_modules(self):
        result = stowage.optimize(GRAPH, "h200x2", evaluations=200)
        plan = result.plan.at_grain("module", evaluations=60)
        price = plan.price("device-map")
        self.assertAlmostEqual(price.exported / plan.evaluate().step, 1.0, delta=1e-9)
        self.assertLessEqual(price.exported, price.one_device * (1 + 1e-9))
        self.assertEqual(plan.at_grain("module").device, plan.device)  # it is at the grain

    def test_pins_and_patterns(self):
        plan = stowage.optimize(GRAPH, "h200x2", evaluations=60, pin={"convolution": 1}).plan
        node = next(n for n in plan.graph.nodes if n.name == "convolution")
        self.assertEqual(plan.device[node.id], 1)
        with self.assertRaisesRegex(stowage.Error, "the nearest are .*'convolution'"):
            stowage.optimize(GRAPH, "h200x2", evaluations=10, pin={"convolutoin": 1})

    def test_a_map_of_nothing_is_refused(self):
        file = self.folder / "map.json"
        file.write_text('{"nowhere": 0}')
        with self.assertRaisesRegex(stowage.Error, "such as 'nowhere'"):
            stowage.Plan.load(file, stowage.load(GRAPH), "h200x2")
        file.write_text('{"": 7}')
        with self.assertRaisesRegex(stowage.Error, "device 7, which the machine does not have"):
            stowage.Plan.load(file, stowage.load(GRAPH), "h200x2")


@unittest.skipIf(torch_lacks(), torch_lacks())
class Traces(Temporary):
    def test_ops_have_the_path_of_their_module(self):
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(8, 4)))
        nodes = Nodes(Step(model, (torch.randn(2, 8),), {}, True, None)).opgraph("m")["nodes"]
        paths = {n["name"]: n.get("module", "") for n in nodes if n["op"] not in ("parameter", "input") and not n.get("view")}
        self.assertEqual((paths["addmm"], paths["relu"], paths["addmm_1"]), ("0", "1", "2.0"))
        self.assertEqual(paths["threshold_backward"], "1")
        self.assertEqual([path for name, path in paths.items() if name.startswith("mm")], ["2.0", "2.0", "0"])
        self.assertEqual({path for name, path in paths.items() if name.startswith("sub")}, {""})  # updates are no module's

    def test_hooks_are_gone_afterwards(self):
        model = torch.nn.Linear(4, 4)
        Step(model, (torch.randn(2, 4),), {}, True, None)
        self.assertFalse(model._forward_hooks or model._forward_pre_hooks)

    def test_a_tied_head_in_a_pipeline(self):
        """torch.distributed.pipelining has the head where the plan has it, with a copy of the weight."""
        from torch.distributed.pipelining import SplitPoint, pipeline

        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.wte, self.norm = torch.nn.Embedding(64, 16), torch.nn.LayerNorm(16)
                self.h = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))
                self.lm_head = torch.nn.Linear(16, 64, bias=False)
                self.lm_head.weight = self.wte.weight

            def forward(self, words, labels):
                x = self.wte(words)
                for layer in self.h:
                    x = layer(x).relu()
                return torch.nn.functional.cross_entropy(self.lm_head(self.norm(x)).flatten(0, 1), labels.flatten())

        model, words = Tied(), torch.randint(64, (2, 8))
        step = stowage.torch.trace(model, words, words)
        found = stowage.optimize(step, "h200x2", evaluations=20, grain="stage", pin={"h.0": 0, "h.2": 1}).plan
        self.assertIn("the plan is such a pipeline", found.export("split-points", self.folder / "split.json"))
        split = json.loads((self.folder / "split.json").read_text())
        self.assertEqual(len(split["split_points"]), 1)
        pipe = pipeline(model, (words, words), split_spec={name: SplitPoint.BEGINNING for name in split["split_points"]})
        self.assertEqual(pipe.num_stages, 2)
        self.assertEqual(pipe.replicated_params, [{"submod_pp_0": "wte.weight", "submod_pp_1": "lm_head.weight"}])

    def test_accelerate_runs_a_map_on_two_devices(self):
        """Two devices of one CPU: what a module reads is moved where the map has the module, and results are the same."""
        if importlib.util.find_spec("accelerate") is None:
            self.skipTest("the package accelerate is not installed")
        from accelerate import dispatch_model
        from accelerate.utils.modeling import check_device_map

        torch.manual_seed(0)
        model, inputs = t5_like(batch=2, words=16, layers=2, width=32, heads=2, vocabulary=64)
        step = stowage.torch.trace(model, *inputs)
        plan = stowage.optimize(step, "h200x2", evaluations=60, grain="module", pin={"decoder.block.1": 1, "shared": 0}).plan
        found = plan.to_device_map()
        self.assertEqual(set(found.values()), {0, 1})
        price = plan.price("device-map")
        self.assertAlmostEqual(price.exported / plan.evaluate().step, 1.0, delta=1e-9)
        check_device_map(model, found)
        before = model(*inputs)
        # accelerate places an entry and then each module within it, for which "cpu:1" is never there: entries are plain layers here
        layers = [name for name, inner in model.named_modules() if not list(inner.children())]
        longest = {layer: max((name for name in found if layer == name or layer.startswith(name + ".")), key=len) for layer in layers}
        placed = dispatch_model(model, {layer: f"cpu:{found[name]}" for layer, name in longest.items()})
        self.assertTrue(torch.equal(placed(*inputs), before))
        self.assertEqual(set(placed.hf_device_map.values()), {"cpu:0", "cpu:1"})


class Targets(Temporary):
    """What model files are worth that do not say all that the plan says, against plans that are made here."""

    def worth(self, name, form):
        """A plan that scatters ops over two devices, and the price of its export."""
        graph = stowage.load(ROOT / "tests" / "import" / "data" / name)
        plan = stowage.Simulator(graph, "h200x2").run("spread", tasks="placement,schedule")
        self.assertEqual(len({plan.device[op.id] for op in graph.ops}), 2)
        return plan, plan.price(form)

    def test_xla_runs_one_device(self):
        plan, price = self.worth("hlo_train.txt", "hlo")
        plan.export("csv", self.folder / "table.csv")
        with open(self.folder / "table.csv", encoding="utf-8", newline="") as file:
            start = [float(row["start_us"] or 0) for row in csv.DictReader(file)]
        alone = stowage.Plan(plan.graph, "h200x2", device=[0] * len(plan.graph), priority=[-at for at in start])
        self.assertAlmostEqual(price.exported / alone.evaluate().step, 1.0, delta=1e-9)
        self.assertAlmostEqual(price.plan / plan.evaluate().step, 1.0, delta=1e-9)
        one = stowage.Plan(plan.graph, "h200x2", device=[1] * len(plan.graph))
        self.assertAlmostEqual(one.price("hlo").exported / one.evaluate().step, 1.0, delta=1e-9)  # nothing is lost

    def test_tensorflow_takes_no_order_and_no_groups(self):
        plan, price = self.worth("tf_mlp.pb", "graphdef")
        fused = plan.copy()
        fused.fuse("default")
        self.assertEqual(fused.price("graphdef").exported, price.exported)
        place = list(plan.device)
        program = stowage.Plan(plan.graph, "h200x2", device=place, priority=[-float(k) for k in range(len(plan.graph))])
        self.assertAlmostEqual(price.exported / program.evaluate().step, 1.0, delta=1e-9)


if __name__ == "__main__":
    sys.exit(run_tests())
