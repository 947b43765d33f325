"""--shape and --costs with profiles, as a user meets them.

    python3 tests/cli/test_shape.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "tests", "import", "data")
binary = os.environ.get("STOWAGE_BIN", "")

# A model in the words of TensorFlow: image (open batch) -> mm1 -> relu -> mm2 -> sm, with one weight for each product.
FLOAT = "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'T' value { type: DT_FLOAT } }"


def weight(name, rows, columns):
    return (f"node {{ name: '{name}' op: 'VariableV2' {FLOAT} attr {{ key: 'shape' value {{ shape {{ dim {{ size: {rows} }} "
            f"dim {{ size: {columns} }} }} }} }} }}\n")


GRAPHDEF = (f"node {{ name: 'image' op: 'Placeholder' {FLOAT} attr {{ key: 'shape' value {{ shape {{ dim {{ size: -1 }} "
            "dim { size: 256 } } } } }\n"
            + weight("w1", 256, 512) + weight("w2", 512, 64)
            + f"node {{ name: 'mm1' op: 'MatMul' input: 'image' input: 'w1' {FLOAT} }}\n"
            + f"node {{ name: 'relu' op: 'Relu' input: 'mm1' {FLOAT} }}\n"
            + f"node {{ name: 'mm2' op: 'MatMul' input: 'relu' input: 'w2' {FLOAT} }}\n"
            + f"node {{ name: 'sm' op: 'Softmax' input: 'mm2' {FLOAT} }}\n")


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A field of a protobuf: numbers as varints, everything else as bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_value(name, shape):
    dims = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def onnx_numbers(name, *values):
    return field(5, field(1, len(values)) + field(2, 7) + b"".join(field(7, v & (1 << 64) - 1) for v in values) + field(8, name))


def onnx_shifted(shape):
    """All but the last row of x, as language models compare with their labels: empty where the length counts as 1."""
    graph = (onnx_numbers("start", 0) + onnx_numbers("end", -1)
             + field(1, b"".join(field(1, name) for name in ("x", "start", "end")) + field(2, "s") + field(3, "shift") + field(4, "Slice"))
             + field(1, field(1, "s") + field(2, "y") + field(3, "act") + field(4, "Relu"))
             + field(2, "shifted") + field(11, onnx_value("x", shape)) + field(12, onnx_value("y", ["out", 8])))
    return field(1, 8) + field(2, "test") + field(7, graph) + field(8, field(2, 17))


def onnx_model():
    """ids (batch, length, 256) and mask (batch, length, 256): their sum times a weight."""
    weights = field(1, 256) + field(1, 512) + field(2, 1) + field(8, "w")
    graph = (field(1, field(1, "ids") + field(1, "mask") + field(2, "s") + field(3, "sum") + field(4, "Add"))
             + field(1, field(1, "s") + field(1, "w") + field(2, "y") + field(3, "product") + field(4, "MatMul"))
             + field(2, "small") + field(5, weights)
             + field(11, onnx_value("ids", ["batch", "length", 256])) + field(11, onnx_value("mask", ["batch", "length", 256]))
             + field(12, onnx_value("y", ["batch", "length", 512])))
    return field(1, 8) + field(2, "test") + field(7, graph) + field(8, field(2, 17))


class Shape(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="stowage-shape-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = os.path.join(self.folder, "m.onnx")
        with open(self.model, "wb") as file:
            file.write(onnx_model())
        self.graph = os.path.join(self.folder, "g.pbtxt")
        with open(self.graph, "w") as file:
            file.write(GRAPHDEF)

    def run_stowage(self, *arguments, status=0):
        done = subprocess.run([binary, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout, done.stderr

    def inspect(self, *arguments):
        return json.loads(self.run_stowage("inspect", *arguments, "--format", "json")[0])

    def refused(self, *arguments):
        error = self.run_stowage(*arguments, status=2)[1]
        self.assertEqual(error.count("\n"), 1)
        return error

    def test_sizes_scale_the_work(self):
        one = self.inspect(self.model)
        self.assertEqual(one["flops"], 2 * 256 * 512 + 256)
        for shapes in (["--shape", "batch=8;length=4"], ["--shape", "batch=8", "--shape=length=4"], ["--shape", "ids=8,4,256"]):
            self.assertEqual(self.inspect(self.model, *shapes)["flops"], 32 * one["flops"], shapes)
        self.assertEqual(self.inspect(self.model, "--shape", "batch=1;length=1")["fingerprint"], one["fingerprint"])
        self.assertEqual(self.inspect(self.graph, "--shape", "image=16,256")["flops"], 16 * self.inspect(self.graph)["flops"])

    def test_inspect_tells_what_is_open(self):
        self.assertEqual(self.inspect(self.model)["open_inputs"], [{"name": name, "shape": ["batch", "length", 256]} for name in ("ids", "mask")])
        self.assertEqual(self.inspect(self.model)["open_dimensions"], ["batch", "length"])
        text = self.run_stowage("inspect", self.model)[0]
        self.assertIn("set them: --shape 'ids=1,1,256'\n  or by dimension: --shape 'batch=1;length=1'", text)
        self.assertRegex(text, r"mask +batch,length,256")
        half = self.inspect(self.model, "--shape", "batch=2")
        self.assertEqual((len(half["open_inputs"]), half["open_dimensions"]), (2, ["length"]))
        self.assertEqual(self.inspect(self.model, "--shape", "ids=2,3,256")["open_inputs"], [])
        self.assertNotIn("set them", self.run_stowage("inspect", self.model, "--shape", "ids=2,3,256")[0])
        self.assertEqual(self.inspect(self.graph)["open_inputs"], [{"name": "image", "shape": [None, 256]}])

    def test_empty_tensors_are_told(self):
        with open(self.model, "wb") as file:
            file.write(onnx_shifted(["length", 8]))
        says = "2 of 2 ops work on empty tensors, since open sizes count as 1 (of 1 input); give sizes with --shape 'length=N'"
        few = ["--evaluations", "20", "--threads", "1"]
        self.assertEqual(self.inspect(self.model)["ops_empty"], 2)
        self.assertIn(says, " ".join(self.run_stowage("inspect", self.model)[0].split()))
        for command in (["simulate", "--plan", "single"], ["optimize", *few], ["compare", "--methods", "single,spread", *few]):
            error = self.run_stowage(command[0], self.model, "-m", "h200x2", *command[1:])[1]
            self.assertEqual(error, f"stowage: warning: {says}\n")
        self.assertEqual(self.inspect(self.model, "--shape", "length=4")["ops_empty"], 0)
        self.assertNotIn("empty", self.run_stowage("inspect", self.model, "--shape", "length=4")[0])
        self.assertEqual(self.run_stowage("simulate", self.model, "-m", "h200x2", "--plan", "single", "--shape", "length=4")[1], "")
        with open(self.model, "wb") as file:  # a size of 1 that the file states is nobody's oversight
            file.write(onnx_shifted([1, 8]))
        self.assertEqual(self.inspect(self.model)["ops_empty"], 2)
        self.assertNotIn("empty", self.run_stowage("inspect", self.model)[0])

    def test_every_command_takes_it(self):
        few = ["--evaluations", "20", "--threads", "1"]
        plan = os.path.join(self.folder, "plan.json")
        shape = ["--shape", "batch=8;length=128"]
        self.run_stowage("optimize", self.model, "-m", "h200x2", *few, *shape, "-o", plan)
        with open(plan) as file:
            self.assertEqual(json.load(file)["graph"]["fingerprint"], self.inspect(self.model, *shape)["fingerprint"])
        steps = [json.loads(self.run_stowage("simulate", self.model, "-m", "h200x2", "--plan", "single", "--format", "json", *more)[0])["step_s"]
                 for more in ([], shape)]
        self.assertGreater(steps[1], steps[0])
        self.run_stowage("simulate", self.model, "--plan", plan, *shape)
        self.run_stowage("compare", self.model, "-m", "h200x2", "--methods", "single", *few, *shape)
        self.run_stowage("train", self.model, "-m", "h200x2", "--updates", "1", *shape, "-o", os.path.join(self.folder, "policy.stw"))
        self.run_stowage("inspect", self.model, "--features", "-m", "h200x2", *shape)

    def test_refusals(self):
        self.assertIn("there is no input 'nosuch'; open inputs: ids (batch,length,256), mask (batch,length,256); open dimensions: batch, length",
                      self.refused("inspect", self.model, "--shape", "nosuch=1,2"))
        self.assertIn("has 3 dimensions", self.refused("inspect", self.model, "--shape", "ids=1"))
        self.assertIn("'x' is not a size", self.refused("optimize", self.model, "-m", "h200x2", "--shape", "ids=x"))
        self.assertIn("is not NAME=", self.refused("inspect", self.model, "--shape", "batch"))
        self.assertIn("'batch' stands twice", self.refused("inspect", self.model, "--shape", "batch=1", "--shape", "batch=2"))
        self.assertIn("every shape is fixed", self.refused("inspect", os.path.join(DATA, "hlo_conv.txt"), "--shape", "x=1"))
        self.assertIn("every shape is fixed", self.refused("inspect", os.path.join(ROOT, "data", "graphs", "unet.json.gz"), "--shape", "x=1"))
        self.assertIn("is a machine", self.refused("inspect", "h200x2", "--shape", "x=1"))


class Costs(Shape):
    def simulate(self, machine, costs, *more):
        output, error = self.run_stowage("simulate", self.graph, "-m", machine, "--plan", "single", "--costs", costs, "--format", "json", *more)
        return json.loads(output), error

    def test_profile_of_onnx_runtime(self):
        profile = os.path.join(DATA, "ort_profile.json")
        with open(profile) as file:
            events = [event for event in json.load(file) if event["name"].endswith("_kernel_time")]
        median = {}
        for event in events:
            median.setdefault(event["name"], []).append(event["dur"])
        expected = sum(sorted(times)[(len(times) - 1) // 2] for times in median.values())
        self.assertEqual(len(median), 4)
        machine = json.loads(self.run_stowage("machine", "cpu+h200x1")[0])
        machine["devices"] = [device for device in machine["devices"] if device["kind"] == "cpu8"]
        machine["links"] = []
        own = os.path.join(self.folder, "cpu.json")
        with open(own, "w") as file:
            json.dump(machine, file)
        sizes = ["--shape", "image=1,256"]
        result, error = self.simulate(own, profile, *sizes)
        self.assertEqual(error, "")
        self.assertAlmostEqual(result["step_s"], expected * 1e-6, 12)
        self.assertEqual(result["measured_share"], 1)
        error = self.simulate("cpu+h200x1", profile, *sizes)[1]
        self.assertEqual(error, "stowage: warning: no time is of kind h200: its times are those of cpu8 times the ratio of the models\n")
        result, error = self.simulate("h200x1", profile)
        self.assertIn("of 4 measured times 4 of CPUs are passed over: the machine has none of these", error)
        self.assertEqual(result["measured_share"], 0)

    def test_the_same_packed_and_from_standard_input(self):
        profile = os.path.join(DATA, "ort_profile.json")
        with open(profile, "rb") as file:
            done = subprocess.run([binary, "simulate", self.graph, "-m", "h200x1", "--plan", "single", "--costs", "-"], stdin=file,
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("4 of CPUs are passed over", done.stderr)

    def test_statistics_of_tensorflow(self):
        for name in ("tf_run_metadata.pb", "tf_step_stats.pb", "tf_cost_graph.pb"):
            self.graph = os.path.join(DATA, "tf_traced.pb")
            error = self.simulate("cpu+h200x1", os.path.join(DATA, name))[1]
            self.assertIn("times of the costs name no op of the graph: views, constants", error)
        self.assertIn("this is a graph (GraphDef), which has no times",
                      self.refused("simulate", self.graph, "-m", "h200x1", "--plan", "single", "--costs", self.graph))


def main():
    global binary
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    binary = os.path.abspath(arguments[0]) if arguments else binary
    if not binary:
        sys.exit(__doc__)
    loader = unittest.TestLoader()
    suite = unittest.TestSuite([loader.loadTestsFromTestCase(Shape)])
    suite.addTests(Costs(name) for name in loader.getTestCaseNames(Costs) if name not in loader.getTestCaseNames(Shape))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
