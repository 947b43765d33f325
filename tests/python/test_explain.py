#!/usr/bin/env python3
"""Plan.explain of the Python package against simulations of the same change by hand.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_explain.py [names of tests]
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import GRAPH, TINY, Temporary, has  # noqa: E402

import stowage  # noqa: E402


def picoseconds(evaluation):
    return round(evaluation.step * 1e12)


class Explanations(Temporary):
    @classmethod
    def setUpClass(cls):
        graph = stowage.load(GRAPH)
        cls.plan = stowage.Simulator(graph, "h200x3").run("spread")
        cls.plan.fuse()

    def test_parts_add_up(self):
        x, evaluation = self.plan.explain(), self.plan.evaluate()
        self.assertEqual(x.step_ps, picoseconds(evaluation))
        self.assertAlmostEqual(x.step, evaluation.step)
        self.assertEqual(sum(x.parts.values()), x.step_ps)
        self.assertEqual(sum(part["end_ps"] - part["start_ps"] for part in x.path), x.step_ps)
        self.assertGreater(len(x.ops), 0)
        self.assertGreater(len(x.transfers), 0)
        self.assertEqual([row["device"] for row in x.devices], [device.name for device in self.plan.machine.devices])
        for row, busy in zip(x.devices, evaluation.busy):
            self.assertAlmostEqual(1e-12 * row["busy_ps"], busy)
            self.assertEqual(row["idle_ps"], sum(reason["ps"] for reason in x.idle if reason["device"] == row["device"]))
        self.assertEqual((x.what_ifs, x.moves, x.merges, x.group), ([], [], [], None))

    def test_rows_suit_a_table(self):
        x = self.plan.explain(op=60, what_if="bandwidth=x2", evaluations=3)
        for name in ("path", "ops", "groups", "transfers", "devices", "idle", "what_ifs", "moved", "moves", "pulls"):
            rows = getattr(x, name)
            with self.subTest(rows=name):
                self.assertEqual(len({tuple(row) for row in rows}) if rows else 1, 1)  # the same keys in each
                for row in rows:
                    self.assertTrue(all(value is None or isinstance(value, (bool, int, str)) for value in row.values()))

    @unittest.skipUnless(has("pandas"), "pandas is not installed")
    def test_pandas(self):
        import pandas

        x = self.plan.explain()
        self.assertEqual(int((pandas.DataFrame(x.path)["end_ps"] - pandas.DataFrame(x.path)["start_ps"]).sum()), x.step_ps)

    def test_op(self):
        op = next(node for node in self.plan.graph.ops if node.flops > 0)
        by_name, x = self.plan.explain(op=op.name), self.plan.explain(op=op.id)
        self.assertEqual((by_name.moved, by_name.moves), (x.moved, x.moves))
        self.assertEqual(x.moved[0]["node"], op.id)
        for k, move in enumerate(x.moves):
            other = self.plan.copy()
            moved = {row["node"] for row in x.moved}
            other.device = [k if i in moved else d for i, d in enumerate(self.plan.device)]
            evaluation = other.evaluate()
            self.assertEqual((move["valid"], move["reason"]), (evaluation.valid, evaluation.message or None))
            if evaluation.step is not None:
                self.assertEqual((move["step_ps"], move["peak_bytes"]), (picoseconds(evaluation), max(evaluation.peak)))

    def test_group(self):
        group = list(self.plan.group)
        fused = next(i for i in range(len(group)) if group[i] >= 0 and group.count(group[i]) > 1)
        x = self.plan.explain(group=fused)
        self.assertIn(fused, [row["node"] for row in x.members])
        self.assertGreater(x.group["apart_ps"], x.group["kernel_ps"])
        other = self.plan.copy()
        members = {row["node"] for row in x.members}
        other.group = [i if i in members else g for i, g in enumerate(group)]
        self.assertEqual(x.group["apart_step_ps"], picoseconds(other.evaluate()))

    def test_what_if(self):
        x = self.plan.explain(what_if=["times=x2", "memory=+20%"], evaluations=3, threads=1)
        self.assertEqual([row["change"] for row in x.what_ifs], ["", "times=x2", "memory=+20%"])
        self.assertEqual(x.what_ifs[0]["kept_step_ps"], x.step_ps)
        self.assertGreater(x.what_ifs[1]["kept_step_ps"], x.step_ps)
        for row in x.what_ifs:
            self.assertLessEqual(row["searched_step_ps"], row["kept_step_ps"])

    def test_words(self):
        x = self.plan.explain()
        self.assertIn("Explanation of unet on h200x3", repr(x))
        self.assertIn("compute", repr(x))
        self.assertIn("<table", x._repr_html_())

    def test_faults(self):
        plan = stowage.Plan(stowage.Graph.parse(TINY), "h200x2")
        with self.assertRaisesRegex(stowage.Error, "no op 'sgdd'; near are sgd"):
            plan.explain(op="sgdd")
        with self.assertRaisesRegex(stowage.Error, "what-if"):
            plan.explain(what_if="bandwidth")
        with self.assertRaisesRegex(stowage.Error, "no option"):
            plan.explain(nonsense=1)
        plan.device = [0, 1, 0, 0, 0, 0]  # the update is not with its parameter
        with self.assertRaisesRegex(stowage.Error, "no step to explain") as caught:
            plan.explain()
        self.assertEqual(caught.exception.status, "no plan")


if __name__ == "__main__":
    sys.exit(run_tests())
