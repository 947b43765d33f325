#!/usr/bin/env python3
"""Plan.report of the Python package, and the picture of a plan in a notebook.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_report.py [names of tests]
"""
import os
import sys
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import GRAPH, TINY, Temporary  # noqa: E402
from report_data import EVIL, read, unpacked  # noqa: E402

import stowage  # noqa: E402


class Reports(Temporary):
    def test_a_plan(self):
        plan = stowage.Simulator(stowage.load(GRAPH), "h200x3").run("spread")
        page = self.folder / "r.html"
        plan.report(page)
        head, columns = unpacked(read(page))
        self.assertEqual(head["runs"][-1]["step_ps"], round(1e12 * plan.evaluate().step))
        device = plan.device
        for node, on in zip(columns["1.task_node"], columns["1.task_device"]):
            self.assertEqual(on, device[node])
        self.assertEqual(head["candidates"], [])

    def test_of_a_search_with_its_candidates(self):
        result = stowage.optimize(stowage.load(GRAPH), "h200x2", evaluations=10, policy="none")
        page = self.folder / "r.html"
        result.plan.report(page)
        head, _ = unpacked(read(page))
        self.assertEqual([c["method"] for c in head["candidates"]], [c.method for c in result.candidates])

    def test_faults(self):
        plan = stowage.Plan(stowage.Graph.parse(TINY), "h200x2")
        with self.assertRaises(stowage.Error):
            plan.report(self.folder / "no-folder/r.html")
        with self.assertRaisesRegex(stowage.Error, "none.json"):
            plan.report(self.folder / "r.html", measured=self.folder / "none.json")


class Pictures(Temporary):
    def test_rows_are_as_busy_as_the_simulator_says(self):
        plan = stowage.Simulator(stowage.load(GRAPH), "h200x3").run("spread")
        picture, evaluation = ElementTree.fromstring(plan._repr_svg_()), plan.evaluate()
        texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
        for name, busy in zip(evaluation.devices, evaluation.busy):
            self.assertEqual(texts[texts.index(name) + 1], f"{100 * busy / evaluation.step:.1f} %")
        self.assertLess(len(plan._repr_svg_()), 200_000)
        self.assertIn("<svg", plan._repr_html_())

    def test_names_are_text(self):
        machine = stowage.Machine("h200x2")._described()
        machine["devices"][0]["name"] = EVIL
        for link in machine["links"]:
            link.update({end: EVIL for end in ("from", "to") if link[end] == "h200:0"})
        plan = stowage.Plan(stowage.Graph.parse({**TINY, "name": EVIL}), stowage.Machine(machine))
        for text in (plan._repr_svg_(), plan._repr_html_()):
            self.assertNotIn("<img", text)
            self.assertNotIn("</script", text)
        ElementTree.fromstring(plan._repr_svg_())

    def test_an_invalid_plan_has_none(self):
        plan = stowage.Plan(stowage.Graph.parse(TINY), "h200x2", group=[-1] * 6)
        self.assertFalse(plan.evaluate().valid)
        self.assertIsNone(plan._repr_svg_())
        self.assertNotIn("<svg", plan._repr_html_())


if __name__ == "__main__":
    sys.exit(run_tests())
