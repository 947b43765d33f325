// What is selected: its facts, what it reads and who reads it, and the lines between them.

// Ops of a task; the first is what it is called after.
function membersOf(model, run, task) {
  if (!run.members) {
    const lists = itemsBy(run.taskOf.length, run.tasks.node.length + 1, node => run.taskOf[node] + 1);
    run.members = lists;
  }
  return run.members[task + 1];
}

// Tasks before and after, and sources (parameters, inputs) that it reads; each once.
function neighboursOf(model, run, task) {
  const before = new Set(), after = new Set(), sources = new Set();
  for (const node of membersOf(model, run, task)) {
    for (const producer of model.readsOf(node)) {
      const other = run.taskOf[producer];
      if (other < 0) {
        if (model.columns.node_kind[producer] > 1) sources.add(producer);
      } else if (other !== task) {
        before.add(other);
      }
    }
    for (const reader of model.readersOf(node)) {
      const other = run.taskOf[reader];
      if (other >= 0 && other !== task) after.add(other);
    }
  }
  const byTime = (a, b) => run.tasks.start[a] - run.tasks.start[b];
  return {before: [...before].sort(byTime), after: [...after].sort(byTime), sources: [...sources]};
}

const moduleName = (model, node) => {
  const k = model.columns.node_module[node];
  return k >= 0 ? model.modules[k].path : "";
};
const opName = (model, node) => model.head.op_names[model.columns.node_op[node]];
const deviceName = (model, d) => model.devices[d].name;

// [what, value] of a task, for tips and for the panel.
function taskFacts(model, run, task) {
  const {tasks} = run, node = tasks.node[task], members = membersOf(model, run, task);
  let flops = 0, bytes = 0;
  for (const member of members) {
    flops += model.columns.node_flops[member];
    bytes += model.columns.node_bytes[member];
  }
  const facts = [["op", members.length > 1 ? `${opName(model, node)}, in a group of ${countText(members.length)} ops` : opName(model, node)],
                 ["device", deviceName(model, tasks.device[task])],
                 ["from", timeText(tasks.start[task], 6)], ["to", timeText(tasks.end[task], 6)],
                 ["takes", timeText(tasks.end[task] - tasks.start[task])]];
  if (tasks.charge && tasks.charge[task] > 0) facts.push(["of it charges", timeText(tasks.charge[task])]);
  if (moduleName(model, node)) facts.push(["module", moduleName(model, node)]);
  if (bytes > 0) facts.push([members.length > 1 ? "ops make" : "makes", byteText(bytes)]);
  if (flops > 0) facts.push(["computes", flopText(flops)]);
  if (run.onPath[task]) facts.push(["critical path", "on it"]);
  return facts;
}

function transferFacts(model, run, k) {
  const {transfers} = run, facts = [["transfer", `${deviceName(model, transfers.from[k])} > ${deviceName(model, transfers.to[k])}`],
    ["from", timeText(transfers.start[k], 6)], ["to", timeText(transfers.end[k], 6)],
    ["takes", timeText(transfers.end[k] - transfers.start[k])], ["bytes", byteText(transfers.bytes[k])]];
  if (transfers.start[k] > transfers.ready[k]) facts.push(["waited", timeText(transfers.start[k] - transfers.ready[k])]);
  return facts;
}

function measuredFacts(model, item) {
  const {events, tracks} = model.measured, node = events.node[item], {plan} = model;
  const facts = [["measured on", [tracks[events.track[item]].process, tracks[events.track[item]].name].filter(Boolean).join(" ")],
                 ["from", timeText(events.start[item], 6)], ["takes", timeText(events.end[item] - events.start[item])]];
  const task = node >= 0 ? plan.taskOf[node] : -1;
  if (task >= 0) {
    const predicted = plan.tasks.end[task] - plan.tasks.start[task];
    facts.push(["predicted", timeText(predicted)]);
    if (predicted > 0) facts.push(["measured / predicted", ((events.end[item] - events.start[item]) / predicted).toFixed(2)]);
  }
  return facts;
}

function boxFacts(model, run, k) {
  const {boxes} = run, node = boxes.node[k];
  const facts = [["what", boxColours[boxes.kind[k]][0]], ["device", deviceName(model, boxes.device[k])], ["size", byteText(boxes.bytes[k])],
                 ["held from", timeText(boxes.from[k], 6)], ["to", timeText(boxes.to[k], 6)],
                 ["for", timeText(boxes.to[k] - boxes.from[k])]];
  if (moduleName(model, node)) facts.push(["module", moduleName(model, node)]);
  return facts;
}

function factList(facts) {
  const list = element("dl", {});
  for (const [what, value] of facts) list.append(element("dt", {}, what), element("dd", {}, value));
  return list;
}

const nodeTitle = (model, node) => model.labels.get(node) ? `${model.names[node]} (${model.labels.get(node)})` : model.names[node];

// The panel beside the timelines.
function showSelected(model, state, choose) {
  const panel = byId("details"), {selected} = state;
  panel.replaceChildren();
  panel.className = "";
  if (!selected) return;
  const {run, task} = selected, node = run.tasks.node[task], {before, after, sources} = neighboursOf(model, run, task);
  panel.append(element("h3", {}, nodeTitle(model, node)), element("p", {className: "faint"}, `node ${node}, in the ${run.title}`),
               factList(taskFacts(model, run, task)));
  const other = model.runs.find(r => r !== run), there = other ? other.taskOf[node] : -1;
  if (there >= 0) {
    panel.append(element("p", {}, `In the ${other.title}: `, link(`${deviceName(model, other.tasks.device[there])}, ${
      timeText(other.tasks.start[there])} to ${timeText(other.tasks.end[there])}`, () => choose(other, there))));
  }
  panel.append(...listOfTasks(model, run, "Reads", before, choose), ...listOfTasks(model, run, "Is read by", after, choose));
  if (sources.length > 0) {
    panel.append(element("h4", {}, "Parameters and inputs"),
                 element("ul", {}, ...sources.slice(0, 12).map(source => element("li", {}, nodeTitle(model, source)))));
  }
  const members = membersOf(model, run, task);
  if (members.length > 1) {
    panel.append(element("h4", {}, "Ops of the group"), element("ul", {}, ...[...members].slice(0, 24).map(member =>
      element("li", {}, `${model.names[member]} (${opName(model, member)})`))));
    if (members.length > 24) panel.append(element("p", {className: "faint"}, `and ${countText(members.length - 24)} more`));
  }
}

function link(text, act) {
  const made = element("button", {type: "button", className: "link"}, text);
  made.addEventListener("click", act);
  return made;
}

function listOfTasks(model, run, title, tasks, choose) {
  const most = 16;
  if (tasks.length === 0) return [];
  const list = element("ul", {}, ...tasks.slice(0, most).map(task => element("li", {},
    link(model.names[run.tasks.node[task]], () => choose(run, task)),
    element("span", {className: "faint"}, ` ${deviceName(model, run.tasks.device[task])}, ${timeText(run.tasks.end[task] - run.tasks.start[task], 3)}`))));
  const parts = [element("h4", {}, `${title} (${countText(tasks.length)})`), list];
  if (tasks.length > most) parts.push(element("p", {className: "faint"}, `and ${countText(tasks.length - most)} more`));
  return parts;
}

// Lines from what it reads, and to who reads it; a frame around it, and around the same op in the other run.
function drawSelected(timeline, c) {
  const {model, state, theme} = timeline, {selected} = state, most = 300;
  if (!selected) return;
  const {run, task} = selected, {before, after} = neighboursOf(model, run, task);
  const center = row => row.y + row.height / 2;
  const connect = (from, to, colour) => {
    const a = run.rowOfDevice[run.tasks.device[from]], b = run.rowOfDevice[run.tasks.device[to]];
    if (!a || !b) return;
    const x0 = timeline.xOf(run.tasks.end[from]), x1 = timeline.xOf(run.tasks.start[to]), bend = Math.max(12, Math.abs(x1 - x0) / 3);
    c.strokeStyle = colour;
    c.beginPath();
    c.moveTo(x0, center(a));
    c.bezierCurveTo(x0 + bend, center(a) + (a === b ? -18 : 0), x1 - bend, center(b) + (a === b ? -18 : 0), x1, center(b));
    c.stroke();
    c.fillStyle = colour;
    c.beginPath();
    c.arc(x1, center(b), 2.5, 0, 2 * Math.PI);
    c.fill();
  };
  c.lineWidth = 1.5;
  before.slice(-most).forEach(other => connect(other, task, theme.text));
  after.slice(0, most).forEach(other => connect(task, other, theme.accent));
  for (const each of model.runs) {
    const same = each === run ? task : each.taskOf[run.tasks.node[task]];
    if (same < 0) continue;
    const row = each.rowOfDevice[each.tasks.device[same]];
    if (!row) continue;
    const x0 = timeline.xOf(each.tasks.start[same]), x1 = timeline.xOf(each.tasks.end[same]);
    c.strokeStyle = theme.accent;
    c.lineWidth = 2;
    c.strokeRect(x0 - 1, row.y - 1, Math.max(3, x1 - x0 + 1), row.height + 2);
  }
  c.lineWidth = 1;
}
