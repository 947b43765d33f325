"""Plans for HLO modules, written by plain rules, for the tests of the exporter. Standard library only."""

import csv
import json
import os
import re
import subprocess

os.environ["XDG_CONFIG_HOME"] = os.devnull  # the program is run without defaults of whoever runs this
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


def step_of(path, machine, plan):
    return json.loads(stowage("simulate", path, "--machine", machine, "--memory", "4TB", "--plan", plan, "--format", "json"))["step_s"]


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
        """Each element-wise op into its only consumer; or, if all its readers can take it, recomputed in each of them. Without the
        groups that are not legal."""
        return self.legal(self.wanted_groups(recompute))

    def wanted_groups(self, recompute):
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

    def verdict(self, group):
        """What the program says of a plan with these groups: (is valid, why not)."""
        plan = self.write_plan([0.0] * len(group), group)
        done = subprocess.run([BINARY, "simulate", self.path, "--machine", "h200x1", "--memory", "4TB", "--plan", plan, "--format", "json"],
                              capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"stowage simulate: {done.stderr}")
        verdict = json.loads(done.stdout)
        return verdict["valid"], verdict.get("reason")

    def legal(self, wanted):
        """The groups without the ops that make the program refuse them, for a wait on a buffer may close a cycle that reading does not
        show. These ops stand in `refused`: (op, why)."""
        units, kept, self.refused = {}, list(range(len(wanted))), []
        for op, group in enumerate(wanted):
            if group != op:
                units.setdefault(op if group == -1 else group, []).append(op)
        self.add_legal(wanted, list(units.values()), kept)
        return kept

    def add_legal(self, wanted, units, kept):
        """All units at once if they are legal beside what is kept; else the halves of them, one after the other. A unit that is not legal
        by itself loses what is furthest from its end."""
        trial = list(kept)
        for op in (op for unit in units for op in unit):
            trial[op] = wanted[op]
        valid, reason = self.verdict(trial)
        if valid:
            kept[:] = trial
        elif len(units) == 1 and len(units[0]) > 1:
            for op in reversed(units[0]):
                self.add_legal(wanted, [[op]], kept)
        elif len(units) == 1:
            if not reason.startswith("groups"):
                raise RuntimeError(f"a plan on one device is refused for more than its groups: {reason}")
            self.refused.append((units[0][0], reason))
        else:
            half = len(units) // 2
            self.add_legal(wanted, units[:half], kept)
            self.add_legal(wanted, units[half:], kept)

    def siblings(self):
        """Pairs of element-wise ops that read the same and yield the same shape: fusions with two results. Those that are legal."""
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
        return self.legal(listed)

    def is_reduce(self, name):
        return re.search(r"calls=%?wrapped_reduce", self.entry[name][2]) is not None or self.entry[name][0] == "reduce"

    def write_plan(self, priority, group):
        """Everything on one device."""
        plan = os.path.join(self.folder, "plan.json")
        with open(plan, "w") as file:
            json.dump({"format": "plan", "version": 1, "device": [0] * len(self.nodes), "priority": priority, "group": group}, file)
        return plan

    def export(self, machine, priority, group, to="hlo"):
        out = os.path.join(self.folder, "out.pb")
        # With several devices a placement that is valid: an update stands with its parameter.
        is_one = machine.endswith("x1")
        plan = self.write_plan(priority, group) if is_one else "random"
        stowage("export", self.path, "--machine", machine, "--memory", "4TB", "--plan", plan, "--to", to, "-o", out)
        if not is_one:
            before, after = step_of(self.path, machine, plan), step_of(out, machine, "carried")
            if abs(after / before - 1.0) > 1e-9:
                raise RuntimeError(f"the step took {before} s, and takes {after} s with the plan that was exported")
        with open(out, "rb") as file:
            return file.read()
