// What the plan comes to, in a few numbers and sentences. All of them are of the simulated run and of its explanation (docs/explain.md).

function speedUp(model) {
  return model.default ? model.default.step_ps / model.plan.step_ps : NaN;
}

function showCards(model) {
  const {plan, head} = model, sum = name => plan.devices.reduce((total, device) => total + device[name], 0);
  const used = plan.deviceLane.filter(lane => lane.count > 0).length;
  const peak = Math.max(...plan.devices.map(device => device.peak_bytes));
  const cards = [["step", timeText(plan.step_ps), model.default ? `default ${timeText(model.default.step_ps)}` : ""]];
  if (model.default) cards.push(["speed-up", speedUp(model).toFixed(2), "over the default"]);
  cards.push(["utilisation", percent(plan.step_ps > 0 ? sum("busy_ps") / plan.step_ps / model.devices.length : 0),
              `${used} of ${plural(model.devices.length, "device")} used`]);
  cards.push(["largest peak", byteText(peak), deviceName(model, plan.devices.findIndex(device => device.peak_bytes === peak))]);
  cards.push(["transfers", countText(plan.transfers.node.length), byteText(plan.transfers.bytes.reduce((a, b) => a + b, 0))]);
  if (head.lower_bound_s > 0) {
    cards.push(["lower bound", timeText(1e12 * head.lower_bound_s), `the step is ${percent(plan.step_ps / (1e12 * head.lower_bound_s) - 1)} above`]);
  }
  byId("cards").replaceChildren(...cards.map(([name, value, more]) =>
    element("div", {className: "card"}, element("span", {className: "name"}, name), element("span", {className: "value"}, value),
            element("span", {className: "more"}, more))));
}

const partWords = {compute: "ops and groups run", charge: "devices send and receive (charges)", transfer: "values are on their way",
                   device: "something is ready and waits for its device", channel: "a value waits for its channel",
                   order: "something waits for its turn in a strict order"};

function listWords(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}

function stepSentence(model) {
  const {plan} = model, rate = speedUp(model), start = `A step takes ${timeText(plan.step_ps, 5)}`;
  if (!model.default) return `${start}.${model.head.note ? ` ${model.head.note}` : ""}`;
  const words = rate >= 1.0005 ? `${rate.toFixed(2)} times as fast as` : rate > 0.9995 ? "the same as" : `${(1 / rate).toFixed(2)} times as slow as`;
  return `${start}, ${words} the default (${timeText(model.default.step_ps, 5)}).`;
}

function pathSentence({plan}) {
  const parts = Object.entries(plan.parts).filter(([, ps]) => ps > 0).sort((a, b) => b[1] - a[1]);
  if (plan.step_ps === 0 || parts.length === 0) return "";
  return `Along the critical path, ${listWords(parts.map(([kind, ps]) => `${percent(ps / plan.step_ps)} of the time ${partWords[kind] || kind}`))}.`;
}

function idleReason(model, row) {
  const other = row.from === row.device ? row.to : row.from;
  if (row.kind === "done") return "has nothing left to do";
  if (row.kind === "ops") return `waits for ops of ${deviceName(model, other)}`;
  const way = row.from === row.device ? "to" : "from";
  return row.kind === "channel" ? `waits for the channel ${way} ${deviceName(model, other)}` : `waits for transfers ${way} ${deviceName(model, other)}`;
}

function devicesSentence(model) {
  const {plan} = model, shares = plan.devices.map(device => device.busy_ps / Math.max(1, plan.step_ps));
  const least = Math.min(...shares), most = Math.max(...shares), idlest = shares.indexOf(least);
  const range = model.devices.length === 1 ? `The device is at work ${percent(most)} of the step.`
    : `Devices are at work between ${percent(least)} and ${percent(most)} of the step.`;
  const reasons = plan.idle.filter(row => row.device === idlest).sort((a, b) => b.ps - a.ps);
  if (reasons.length === 0 || least > 0.999) return range;
  return `${range} ${deviceName(model, idlest)} idles longest, ${timeText(plan.devices[idlest].idle_ps, 3)}: mostly it ${idleReason(model, reasons[0])} (${timeText(reasons[0].ps, 3)}).`;
}

function costSentence(model) {
  const {plan} = model, most = 3, all = plan.costs.slice().sort((a, b) => b.path_ps + b.delay_ps - a.path_ps - a.delay_ps).slice(0, most);
  if (all.length === 0) return "";
  const words = all.map(cost => `${["", "the group of ", "the transfer of "][cost.sort]}${fitText(model.names[cost.node], 60)} (${
    timeText(cost.path_ps + cost.delay_ps, 3)}${cost.delay_ps > cost.path_ps ? " in the way of others" : ""})`);
  return `What the path's time goes to first: ${listWords(words)}.`;
}

function linkSentence(model) {
  const {plan} = model;
  if (plan.links.length === 0) return "Nothing is sent between devices.";
  const busiest = plan.links.reduce((a, b) => b.lane.busy > a.lane.busy ? b : a);
  const bytes = plan.transfers.bytes.reduce((a, b) => a + b, 0);
  return `${plural(plan.transfers.node.length, "transfer")} of ${byteText(bytes)} together; the busiest link is ${deviceName(model, busiest.from)} > ${
    deviceName(model, busiest.to)}, at work ${percent(busiest.lane.busy / Math.max(1, plan.step_ps))} of the step.`;
}

function memorySentence(model) {
  const {plan} = model;
  if (!plan.valid) return `The plan is not valid: ${plan.reason}.`;
  const limited = model.devices.map((device, d) => ({d, share: device.memory_bytes ? plan.devices[d].peak_bytes / device.memory_bytes : 0}));
  const fullest = limited.reduce((a, b) => b.share > a.share ? b : a);
  if (fullest.share === 0) return "";
  return `Memory is fullest on ${deviceName(model, fullest.d)}: ${byteText(plan.devices[fullest.d].peak_bytes)}, ${percent(fullest.share)} of what it has.`;
}

// Ops of the trace that the graph knows, against what was predicted of their tasks.
function measuredSentence(model) {
  const {measured, plan} = model;
  if (!measured) return "";
  const {events} = measured;
  let known = 0, took = 0, predicted = 0;
  for (let k = 0; k < events.node.length; k++) {
    const task = events.node[k] >= 0 ? plan.taskOf[events.node[k]] : -1;
    if (task < 0) continue;
    known++;
    took += events.end[k] - events.start[k];
    predicted += plan.tasks.end[task] - plan.tasks.start[task];
  }
  const start = `${measured.path}: ${countText(known)} of ${plural(events.node.length, "measured event")} are ops of the plan`;
  const ratio = predicted > 0 ? `; they take ${(took / predicted).toFixed(3)} times what was predicted of them` : "";
  const without = measured.leftOut > 0 ? ` Left out: ${plural(measured.leftOut, "event")} without a start or a duration, or with a negative one.` : "";
  return `${start}${ratio}.${without}`;
}

function showSummary(model) {
  const {head} = model;
  document.title = `${plain(head.graph.name)} on ${plain(head.machine.name)} - Stowage report`;
  byId("title").textContent = plain(head.graph.name);
  byId("subtitle").textContent = `on ${plain(head.machine.name)}, ${plural(model.devices.length, "device")}; ${plural(head.graph.ops, "op")}${
    model.plan.method ? `; plan by ${plain(model.plan.method)}` : ""}`;
  showCards(model);
  const sentences = [stepSentence(model), pathSentence(model), devicesSentence(model), costSentence(model), linkSentence(model),
                     memorySentence(model), measuredSentence(model)];
  if (model.default && head.note) sentences.push(head.note);
  byId("sentences").replaceChildren(...sentences.filter(Boolean).map(text => element("li", {}, text)));
  byId("warnings").replaceChildren(...head.warnings.map(text => element("li", {}, text)));
  byId("footer").textContent = `Written by Stowage ${plain(head.stowage)}. Graph ${head.graph.fingerprint}. Times are simulated unless they are called measured.`;
}
