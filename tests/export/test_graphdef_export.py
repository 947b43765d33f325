"""`stowage export`: the TensorFlow graph with the plan in it.

    STOWAGE_BIN=build/release/stowage python3 tests/export/test_graphdef_export.py          (STOWAGE_DATA: the folder of graphs/)

The exit status is the verdict; the last line counts what passed, failed and was skipped. TensorFlow is used
where it is present.
"""

import gzip
import importlib.util
import json
import os
import resource
import subprocess
import sys

from exporting import BINARY, Case, main, MODELS, QUOTED, TENSORFLOW


def read_model(path):
    with open(path, "rb") as file:
        content = file.read()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def fields(message):
    """(number, value) of each field of a protobuf message; of strings and messages the bytes, of the rest the number."""
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            value = varint()
        else:
            length = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            value = message[at:at + length]
            at += length
        found.append((tag >> 3, value))
    return found


def is_priority(field):
    return field[0] == 5 and (1, b"_stowage_priority") in fields(field[1])


class TensorFlowGraphs(Case):
    def nodes_of(self, name, content):
        """name -> device; and the file without what the plan adds."""
        devices, rest = {}, []
        if name.endswith(".pbtxt"):
            lines, current = content.decode().split("\n"), None
            for line in lines:
                if line.startswith("  name: "):
                    current = line.split('"')[1]
                    devices[current] = ""
                if line.startswith("  device: "):
                    devices[current] = line.split('"')[1]
                elif not line.startswith('  attr { key: "_stowage_priority"'):
                    rest.append(line)
            return devices, rest
        for number, value in fields(content):
            if number != 1:
                rest.append((number, value))
                continue
            inner = fields(value)
            devices[dict(inner)[1].decode()] = dict(inner).get(4, b"").decode()
            rest.append([field for field in inner if field[0] != 4 and not is_priority(field)])
        return devices, rest

    def test_round_trip(self):
        for name in TENSORFLOW:
            model = os.path.join(MODELS, name)
            before, untouched = self.nodes_of(name, read_model(model))
            outputs = set()
            for machine, method in (("h200x2", "spread"), ("cpu+h200x2", "spread"), ("h200x2+2", "metis")):
                with self.subTest(model=name, machine=machine):
                    content, note = self.export(model, "graphdef", machine=machine, plan=method, name=name.replace(".gz", ""))
                    devices, rest = self.nodes_of(name, content)
                    self.assertEqual(rest, untouched)
                    self.assertEqual(list(devices), list(before))
                    self.assertIn("set_soft_device_placement", note)
                    self.assertEqual("several hosts" in note, "+2" in machine)
                    used = {device for device in devices.values() if device}
                    self.assertGreater(len(used), 1)
                    job = "worker" if "+2" in machine else "localhost"
                    self.assertTrue(all(device.startswith(f"/job:{job}/replica:0/task:") for device in used), used)
                    outputs.add(content)
                    again = json.loads(self.run_stowage("inspect", self.path(name.replace(".gz", "")), "-f", "json").stdout)
                    first = json.loads(self.run_stowage("inspect", model, "-f", "json").stdout)
                    self.assertEqual(again["fingerprint"], first["fingerprint"])
            self.assertGreater(len(outputs), 1, "another plan, another file")

    def test_faults(self):
        graph = self.path("g.json", QUOTED)
        plan = ["-m", "h200x2", "-p", "spread", "--to", "graphdef", "-o", self.path("out")]
        self.fault("export", graph, *plan, says="not a TensorFlow GraphDef")
        with open(os.path.join(MODELS, "tf_mlp.pb"), "rb") as file:
            result = self.run_stowage("export", "-", *plan, stdin=file)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"standard input", result.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_pipe_is_refused(self):
        """A model is read twice; a pipe would hang the second time."""
        os.mkfifo(self.path("pipe.pb"))
        with open(os.path.join(MODELS, "tf_mlp.pb"), "rb") as file:
            content = file.read()
        arguments = [BINARY, "export", self.path("pipe.pb"), "-m", "h200x2", "-p", "spread", "--to", "graphdef", "-o", self.path("out")]
        running = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(self.path("pipe.pb"), "wb") as pipe:
            pipe.write(content)
        output = running.communicate(timeout=60)
        self.assertEqual((running.returncode, output[0]), (2, b""))
        self.assertIn(b"standard input or a pipe", output[1])

    NODE = ('node { name: "n%d" op: "Relu" input: "%s" attr { key: "T" value { type: DT_FLOAT } } '
            'attr { key: "_output_shapes" value { list { shape { dim { size: 4 } } } } } }')
    FIRST = 'node { name: "n0" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { dim { size: 4 } } } } %s}'

    def test_stale_priorities_go(self):
        """What an earlier export left at a node that is no task, and what stands twice."""
        stale = 'attr { key: "_stowage_priority" value { f: 7 } } '
        text = self.FIRST % stale + "\n" + (self.NODE % (1, "n0")).replace("attr {", stale + stale + "attr {", 1)
        content, _ = self.export(self.path("g.pbtxt", text), "graphdef", machine="h200x2", name="out.pbtxt")
        self.assertEqual(content.count(b"_stowage_priority"), 1)
        self.assertNotIn(b"f: 7", content)
        again, _ = self.export(self.path("out.pbtxt"), "graphdef", machine="h200x2", name="again.pbtxt")
        self.assertEqual(again, content)

    def test_all_in_one_line(self):
        """20,000 nodes in one line take no longer than in as many."""
        nodes = [self.FIRST % ""] + [self.NODE % (k, f"n{k - 1}") for k in range(1, 20000)]
        seconds = []
        for between in ("\n", " "):
            began = self.seconds_of_children()
            self.export(self.path("g.pbtxt", between.join(nodes)), "graphdef", machine="h200x1", plan="single", name="out.pbtxt")
            seconds.append(self.seconds_of_children() - began)
        self.assertLess(seconds[1], 5 * seconds[0] + 2)

    @staticmethod
    def seconds_of_children():
        """Of the processor: what others do on the machine does not count."""
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    CHECK = """
import json, sys
import numpy, tensorflow as tf
from google.protobuf import text_format
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
def read(path):
    graph = tf.compat.v1.GraphDef()
    content = open(path, "rb").read()
    if path.endswith("txt"):
        text_format.Parse(content.decode(), graph)
    else:
        graph.ParseFromString(content)
    return graph
before, after = read(sys.argv[1]), read(sys.argv[2])
with tf.Graph().as_default() as graph:
    tf.import_graph_def(read(sys.argv[2]), name="")  # which changes what it is given
    operations = graph.get_operations()
    config = tf.compat.v1.ConfigProto(allow_soft_placement=False, device_count={"CPU": 3})
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session.run([o for o in operations if o.type in ("Assign", "AssignVariableOp") and not o.name.startswith("save")])
        feeds = {o.outputs[0]: numpy.zeros([size or 4 for size in o.outputs[0].shape.as_list()], o.outputs[0].dtype.as_numpy_dtype)
                 for o in operations if o.type == "Placeholder"}
        ends = [o for o in operations if o.outputs and not any(t.consumers() for t in o.outputs) and not o.name.startswith("save")]
        try:
            session.run([o for o in ends if o.type != "Placeholder"], feeds)
        except tf.errors.InvalidArgumentError as error:
            if "CPU implementations do not yet support" not in str(error):  # of dilated convolutions, found long after placement
                raise
for node in after.node:
    node.attr.pop("_stowage_priority", None)
for old, new in zip(before.node, after.node):
    new.device = old.device
print("same" if before == after else "differs")
"""

    def test_tensorflow_runs_it(self):
        """With the placement as it stands: TensorFlow may move nothing."""
        if importlib.util.find_spec("tensorflow") is None:
            self.skipTest("the package tensorflow is not installed")
        machine = self.path("cpus.json", {
            "format": "machine", "version": 1, "name": "cpus", "devices": [{"name": f"c{k}", "kind": "cpu8"} for k in range(3)],
            "links": [{"from": f"c{a}", "to": f"c{b}", "bandwidth_bytes_per_s": 1e10, "latency_us": 1}
                      for a in range(3) for b in range(3) if a != b]})
        for name in TENSORFLOW:
            for method in ("spread", "random"):
                with self.subTest(model=name, method=method):
                    plain = self.path("before-" + name.replace(".gz", ""))
                    with open(plain, "wb") as file:
                        file.write(read_model(os.path.join(MODELS, name)))
                    self.check_in_tensorflow(plain, machine, method)
        tied = self.path("tied.pbtxt", self.TIED)
        names = [row.split(",")[1] for row in self.export(tied, "csv", machine=machine)[0].decode().splitlines()[1:]]
        _, plan = self.plan(tied, machine, "single")
        plan["device"] = [{"gather": 1, "act": 2, "late": 2}.get(name, 0) for name in names]
        note = self.check_in_tensorflow(tied, machine, self.path("plan.json", plan))
        self.assertIn("3 are not where the plan has them", note)

    def check_in_tensorflow(self, model, machine, plan):
        planned = "planned-" + os.path.basename(model)
        _, note = self.export(model, "graphdef", machine=machine, plan=plan, name=planned)
        result = subprocess.run([sys.executable, "-c", self.CHECK, model, self.path(planned)], capture_output=True, timeout=300,
                                text=True)
        self.assertEqual((result.returncode, result.stdout), (0, "same\n"), result.stderr[-2000:])
        return note

    # The plan may read a variable from anywhere; TensorFlow may not; and the plan knows the first of a list of `_class` only.
    TIED = """
node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shared_name" value { s: "v" } }
       attr { key: "shape" value { shape { dim { size: 64 } dim { size: 8 } } } } }
node { name: "start" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT
       tensor_shape { dim { size: 64 } dim { size: 8 } } float_val: 1 } } } }
node { name: "assign" op: "AssignVariableOp" input: "v" input: "start" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "shape" value { shape { dim { size: 4 } } } } }
node { name: "gather" op: "ResourceGather" input: "v" input: "x" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "Tindices" value { type: DT_INT32 } } }
node { name: "act" op: "Relu" input: "gather" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "late" op: "Tanh" input: "act" attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "_class" value { list { s: "loc:@act" s: "loc:@v" } } } }
"""


if __name__ == "__main__":
    sys.exit(main())
