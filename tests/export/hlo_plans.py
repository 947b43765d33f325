"""Plans for HLO modules, written by plain rules, for the tests of the exporter. Standard library only."""

import csv
import json
import os
import re
import subprocess

BINARY = os.environ["STOWAGE_BIN"]
LINE = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\) (?=[a-z])|\S+ )([a-z][\w\-]*)\((.*)$")


def rows_of(path, machine, plan, folder):
    """The nodes and what a plan says of them, by `--to csv`."""
    table = os.path.join(folder, "nodes.csv")
    stowage("export", path, "--machine", machine, "--memory", "4TB", "--plan", plan, "--to", "csv", "-o", table)
    with open(table, newline="") as file:
        return list(csv.DictReader(file))


def stowage(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"stowage {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def operands_of(rest):
    """Names of operands, in `rest` of a line behind the opening bracket: with percent signs or without them, behind a shape or alone."""
    depth, begin, parts = 0, 0, []
    for match in re.finditer(r"[()\[\]{},]", rest):
        if match.group() in "([{":
            depth += 1
        elif match.group() in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and match.group() == ","):
            parts.append(re.sub(r"/\*.*?\*/", "", rest[begin:match.start()]))
            begin = match.end()
        if depth < 0:
            break
    return [part.split()[-1].lstrip("%") for part in parts if part.split()]


def entry_of(text):
    """{name: (opcode, operands, rest of the line, shape)} of the entry, in order."""
    body = text[text.index("\nENTRY"):]
    found = {}
    for line in body.splitlines()[1:]:
        match = LINE.match(line)
        if match:
            is_source = match.group(3) in ("parameter", "constant")
            operands = [] if is_source else operands_of(match.group(4))
            found[match.group(1)] = (match.group(3), operands, match.group(4), match.group(2))
    return found


class Module:
    """A module in a file, its text and its nodes."""

    def __init__(self, path, folder, text):
        self.folder, self.path = folder, path
        self.nodes = rows_of(path, "h200x2", "single", folder)
        self.entry = entry_of(text)

    def is_light(self, name):
        opcode, _, rest, _ = self.entry[name]
        if opcode == "fusion":
            return "kind=kLoop" in rest and re.search(r"calls=%?wrapped_(?!reduce|scatter|dynamic_update)", rest) is not None
        return opcode in ("add", "multiply", "subtract", "divide", "broadcast", "tanh", "negate", "maximum", "select", "compare")

    def groups(self, recompute):
        """Each element-wise op into its only consumer; or, if all its readers can take it, recomputed in each of them."""
        ids = {node["name"]: int(node["node"]) for node in self.nodes if node["kind"] == "op"}
        readers = {}
        for name, (_, operands, _, _) in self.entry.items():
            for operand in set(operands):
                readers.setdefault(operand, []).append(name)
        fits = {name: name in ids and (self.is_light(name) or self.is_reduce(name)) for name in self.entry}
        group, size = {}, {}
        for name in reversed(list(self.entry)):
            if name not in ids:
                continue
            group[name] = ids[name]
            mine = readers.get(name, [])
            if not self.is_light(name) or not mine or not all(fits.get(reader) for reader in mine):
                continue
            homes = {group[reader] for reader in mine}
            if len(homes) == 1 and size.get(min(homes), 1) < 20:
                group[name] = homes.pop()
                size[group[name]] = size.get(group[name], 1) + 1
            elif recompute and "broadcast" in name and -1 not in homes:
                group[name] = -1
        listed = list(range(len(self.nodes)))
        for name, number in group.items():
            listed[ids[name]] = number
        return listed

    def siblings(self):
        """Pairs of element-wise ops that read the same and yield the same shape: fusions with two results."""
        listed, waiting = list(range(len(self.nodes))), {}
        for node in self.nodes:
            name = node["name"]
            if node["kind"] != "op" or not self.is_light(name):
                continue
            key = (tuple(sorted(self.entry[name][1])), self.entry[name][3])
            if key in waiting:
                listed[int(node["node"])] = waiting.pop(key)
            else:
                waiting[key] = int(node["node"])
        return listed

    def is_reduce(self, name):
        return re.search(r"calls=%?wrapped_reduce", self.entry[name][2]) is not None or self.entry[name][0] == "reduce"

    def export(self, machine, priority, group, to="hlo"):
        plan, out = os.path.join(self.folder, "plan.json"), os.path.join(self.folder, "out.pb")
        count = len(self.nodes)
        if machine.endswith("x1"):
            with open(plan, "w") as file:
                json.dump({"format": "plan", "version": 1, "device": [0] * count, "priority": priority, "group": group}, file)
        else:
            plan = "random"  # a valid placement: an update stands with its parameter
        stowage("export", self.path, "--machine", machine, "--memory", "4TB", "--plan", plan, "--to", to, "-o", out)
        with open(out, "rb") as file:
            return file.read()
