"""Loops as a user meets them: what they cost, and what is said where nobody knows how often they run.

    python3 tests/cli/test_loops.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import sys

import program

STATE = "(s32[], f32[64,64]{1,0})"
OPEN = "1 loop does not say how often it runs: the limit in the condition counts, else one turn; give the time with --costs"


def module(limit):
    """A tanh in a loop whose counter is compared with `limit`, an instruction of the condition."""
    return f"""HloModule loop
step {{
  s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[64,64]{{1,0}} get-tuple-element(s), index=1
  y = f32[64,64]{{1,0}} tanh(x)
  ROOT r = {STATE} tuple(next, y)
}}
goes {{
  s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] {limit}
  ROOT r = pred[] compare(i, limit), direction=LT
}}
ENTRY main {{
  x = f32[64,64]{{1,0}} parameter(0)
  start = s32[] constant(0)
  state = {STATE} tuple(start, x)
  loop = {STATE} while(state), condition=goes, body=step
  ROOT r = f32[64,64]{{1,0}} get-tuple-element(loop), index=1
}}
"""


def attribute(key, value):
    return f"attr {{ key: '{key}' value {{ {value} }} }}"


def constant(value):
    tensor = f"tensor {{ dtype: DT_INT32 tensor_shape {{ }} int_val: {value} }}"
    return f"op: 'Const' {attribute('dtype', 'type: DT_INT32')} {attribute('value', tensor)}"


def tensorflow(limit):
    """The same as a graph of TensorFlow; `limit` is where the limit comes from, a node without its name."""
    state = "input_arg { name: 'i' type: DT_INT32 } input_arg { name: 'x' type: DT_FLOAT } input_arg { name: 'n' type: DT_INT32 }"
    shape = "shape { dim { size: 64 } dim { size: 64 } }"
    return f"""node {{ name: 'x' op: 'Placeholder' {attribute("dtype", "type: DT_FLOAT")} {attribute("shape", shape)} }}
node {{ name: 'start' {constant(0)} }}
node {{ name: 'limit' {limit} }}
node {{ name: 'loop' op: 'StatelessWhile' input: 'start' input: 'x' input: 'limit'
  {attribute("cond", "func { name: 'goes' }")} {attribute("body", "func { name: 'step' }")} }}
library {{
function {{ signature {{ name: 'step' {state} output_arg {{ name: 'i2' type: DT_INT32 }} output_arg {{ name: 'y' type: DT_FLOAT }}
    output_arg {{ name: 'n2' type: DT_INT32 }} }}
  node_def {{ name: 'one' {constant(1)} }}
  node_def {{ name: 'next' op: 'AddV2' input: 'i' input: 'one:output:0' }}
  node_def {{ name: 'tanh' op: 'Tanh' input: 'x' }}
  ret {{ key: 'i2' value: 'next:z:0' }} ret {{ key: 'y' value: 'tanh:y:0' }} ret {{ key: 'n2' value: 'n' }} }}
function {{ signature {{ name: 'goes' {state} output_arg {{ name: 'go' type: DT_BOOL }} }}
  node_def {{ name: 'less' op: 'Less' input: 'i' input: 'n' }}
  ret {{ key: 'go' value: 'less:z:0' }} }}
}}
"""


class Loops(program.Case):
    def write_tensorflow(self, name, limit):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(tensorflow(limit))
        return path

    def write_module(self, name, limit):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(module(limit))
        return path

    def step_of(self, path, stderr):
        return json.loads(self.done("simulate", path, "--machine", "h200x1", "--plan", "single", "--format", "json",
                                    stderr=stderr))["step_s"]

    def test_turns(self):
        """A hundred turns take a hundred times what one takes."""
        hundred = self.step_of(self.write_module("hundred.hlo", "constant(100)"), "")
        one = self.step_of(self.write_module("one.hlo", "constant(1)"), "")
        self.assertAlmostEqual(hundred / one, 100.0, places=4)

    def test_unknown(self):
        """Every command that prints times says it once; so does inspect, in its report."""
        path = self.write_module("open.hlo", "add(i, i)")
        said = f"stowage: warning: {OPEN}\n"
        self.step_of(path, said)
        for command in ("optimize", "compare"):
            more = ["--methods", "single"] if command == "compare" else []
            result = self.run_stowage(command, path, "--machine", "h200x2", "--evaluations", "5", *more)
            self.assertEqual(result.stderr.decode().count(OPEN), 1, result)
        self.assertEqual(" ".join(self.done("inspect", path).split()).count(OPEN), 1)
        self.assertEqual(json.loads(self.done("inspect", path, "--format", "json"))["loops_without_count"], 1)

    def test_tensorflow(self):
        """The same loop costs the same, whoever wrote it; one that nobody can count is told of, and can be measured."""
        for turns in (1, 100):
            theirs = self.step_of(self.write_module("module.hlo", f"constant({turns})"), "")
            self.assertAlmostEqual(self.step_of(self.write_tensorflow("graph.pbtxt", constant(turns)), "") / theirs, 1.0, places=4)
        path = self.write_tensorflow("open.pbtxt", f"op: 'Placeholder' {attribute('dtype', 'type: DT_INT32')} "
                                     f"{attribute('shape', 'shape { }')}")
        self.step_of(path, f"stowage: warning: {OPEN}\n")
        self.assertEqual(" ".join(self.done("inspect", path).split()).count(OPEN), 1)
        costs = os.path.join(self.folder, "costs.csv")
        with open(costs, "w") as file:
            file.write("loop,h200,50\n")
        self.done("simulate", path, "--machine", "h200x1", "--plan", "single", "--costs", costs)

    def test_learned_kernels(self):
        """On an H200 what was learnt counts outside of loops, on other devices the option changes nothing."""
        path = self.write_module("counted.hlo", "constant(7)")
        with open(path) as file:
            text = file.read().replace("state = ", "y = f32[64,64]{1,0} tanh(x)\n  state = ").replace("tuple(start, x)", "tuple(start, y)")
        with open(path, "w") as file:
            file.write(text)

        def step(machine, *more):
            return json.loads(self.done("simulate", path, "--machine", machine, "--plan", "single", "--format", "json", *more))["step_s"]

        self.assertEqual(step("h200x1"), step("h200x1", "--kernels", "formula"))
        self.assertNotEqual(step("h200x1"), step("h200x1", "--kernels", "learned"))
        self.assertEqual(step("a100x1"), step("a100x1", "--kernels", "learned"))

    def test_tensorflow_faults(self):
        """One line, and the status of bad input."""
        text = tensorflow(constant(3))
        for change, says in ((("func { name: 'step' }", "func { name: 'gone' }"), "which is not in the file's library"),
                             (("op: 'Tanh' input: 'x'", "op: 'step' input: 'i' input: 'x' input: 'n'"), "which runs itself"),
                             (("input: 'limit'", ""), "2 values, but it takes 3")):
            path = os.path.join(self.folder, "fault.pbtxt")
            with open(path, "w") as file:
                file.write(text.replace(*change))
            result = self.run_stowage("inspect", path)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(says, result.stderr.decode())
            self.assertEqual(result.stderr.count(b"\n"), 1, result)

    def test_measured(self):
        """A time that is given needs no number of turns."""
        path = self.write_module("open.hlo", "add(i, i)")
        costs = os.path.join(self.folder, "costs.csv")
        with open(costs, "w") as file:
            file.write("loop,h200,50\n")
        step = json.loads(self.done("simulate", path, "--machine", "h200x1", "--plan", "single", "--costs", costs, "--format",
                                    "json"))["step_s"]
        self.assertAlmostEqual(step, 50e-6)


if __name__ == "__main__":
    sys.exit(program.main())
