// The data: a text of base64 behind which are gzip, a head of JSON and columns of numbers (src/report/payload.c). Times are
// picoseconds, sizes bytes; nodes, tasks and devices are numbers.

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k++) bytes[k] = raw.charCodeAt(k);
  return bytes;
}

async function unpack(text) {
  const packed = new Blob([bytesOfBase64(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(packed).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  const begin = 8 + Math.ceil(length / 8) * 8;
  const types = {u8: Uint8Array, i32: Int32Array, f64: Float64Array};
  const columns = {};
  for (const [name, type, offset, count] of head.columns) columns[name] = new types[type](bytes, begin + offset, count);
  return {head, columns};
}

// Spans that are drawn in one row, by their start: `item` says which task, transfer or event each is. `reach` is the latest end up
// to each, so that what reaches into a window is found by halving although spans may overlap.
function makeLane(items, start, end) {
  items.sort((a, b) => start[a] - start[b] || end[b] - end[a] || a - b);
  const lane = {item: items, start: new Float64Array(items.length), end: new Float64Array(items.length),
                reach: new Float64Array(items.length), count: items.length, busy: 0};
  let reach = -Infinity;
  for (let k = 0; k < items.length; k++) {
    const from = lane.start[k] = start[items[k]], to = lane.end[k] = end[items[k]];
    if (to > reach) lane.busy += to - Math.max(from, reach);
    lane.reach[k] = reach = Math.max(reach, to);
  }
  return lane;
}

// The first position whose value is above `limit`, in ascending values.
function firstAbove(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}

function itemsBy(count, groups, keyOf) {
  const size = new Int32Array(groups), lists = [];
  for (let k = 0; k < count; k++) size[keyOf(k)]++;
  for (let g = 0; g < groups; g++) lists.push(new Int32Array(size[g]));
  size.fill(0);
  for (let k = 0; k < count; k++) lists[keyOf(k)][size[keyOf(k)]++] = k;
  return lists;
}

// What a device holds from each moment on.
function makeHeld(boxes, first, last) {
  const order = new Int32Array(2 * (last - first));
  for (let k = 0; k < order.length; k++) order[k] = k; // even: a box comes; odd: it goes
  const timeOf = k => (k & 1 ? boxes.to : boxes.from)[first + (k >> 1)];
  order.sort((a, b) => timeOf(a) - timeOf(b) || (b & 1) - (a & 1));
  const time = new Float64Array(order.length), held = new Float64Array(order.length);
  let now = 0;
  for (let k = 0; k < order.length; k++) {
    now += (order[k] & 1 ? -1 : 1) * boxes.bytes[first + (order[k] >> 1)];
    time[k] = timeOf(order[k]);
    held[k] = now;
  }
  return {time, held};
}

function makeMemory(boxes, devices) {
  const memory = [];
  for (let d = 0, first = 0; d < devices; d++) {
    let last = first, top = 0;
    while (last < boxes.device.length && boxes.device[last] === d) {
      top = Math.max(top, boxes.base[last] + boxes.bytes[last]);
      last++;
    }
    memory.push({first, last, top, ...makeHeld(boxes, first, last)});
    first = last;
  }
  return memory;
}

function makeRun(head, columns, index, devices) {
  const pick = (prefix, ...names) => Object.fromEntries(names.map(name => [name, columns[`${index}.${prefix}_${name}`]]));
  const run = {...head.runs[index], index};
  run.tasks = pick("task", "node", "device", "start", "end", "charge");
  run.taskOf = columns[`${index}.task_of`];
  run.transfers = pick("transfer", "node", "from", "to", "bytes", "ready", "start", "end");
  run.boxes = pick("box", "node", "device", "kind", "from", "to", "bytes", "base");
  run.path = pick("path", "kind", "node", "waiting", "from", "to", "start", "end");
  const {tasks, transfers} = run;
  run.deviceLane = itemsBy(tasks.node.length, devices, t => tasks.device[t]).map(list => makeLane(list, tasks.start, tasks.end));
  run.senderLane = itemsBy(transfers.node.length, devices, k => transfers.from[k])
    .map(list => makeLane(list, transfers.start, transfers.end));
  const links = itemsBy(transfers.node.length, devices * devices, k => transfers.from[k] * devices + transfers.to[k]);
  run.links = [];
  links.forEach((list, link) => {
    if (list.length === 0) return;
    run.links.push({from: Math.floor(link / devices), to: link % devices, lane: makeLane(list, transfers.start, transfers.end)});
  });
  run.memory = makeMemory(run.boxes, devices);
  run.onPath = new Uint8Array(tasks.node.length);
  for (let k = 0; k < run.path.kind.length; k++) {
    if (run.path.kind[k] <= 1) run.onPath[run.taskOf[run.path.node[k]]] = 1; // compute and charges
  }
  return run;
}

function makeMeasured(head, columns) {
  if (!head.measured) return null;
  const events = {track: columns.measured_track, node: columns.measured_node, name: columns.measured_name,
                  start: columns.measured_start, end: columns.measured_end};
  const lists = itemsBy(events.track.length, head.measured.tracks.length, k => events.track[k]);
  const tracks = head.measured.tracks.map((track, k) => {
    const lane = makeLane(lists[k], events.start, events.end);
    let known = 0;
    for (const item of lane.item) known += events.node[item] >= 0;
    return {...track, lane, known};
  });
  return {path: head.measured.path, leftOut: head.measured.left_out, names: head.measured.names, events, tracks};
}

// Modules are written with what their path has more than their parent's, which comes before them.
function makeModules(head) {
  const modules = [];
  for (const [more, parent] of head.modules) {
    modules.push(parent < 0 ? {path: more, name: more, parent} : {path: modules[parent].path + more, name: more.slice(1), parent});
  }
  return modules;
}

function makeModel({head, columns}) {
  const devices = head.machine.devices;
  const model = {head, devices, names: head.names, columns, labels: new Map(head.labels), modules: makeModules(head)};
  model.runs = head.runs.map((_, k) => makeRun(head, columns, k, devices.length));
  model.plan = model.runs[model.runs.length - 1];
  model.default = model.runs.length > 1 ? model.runs[0] : null;
  model.measured = makeMeasured(head, columns);
  model.end = Math.max(1, ...model.runs.map(run => run.step_ps));
  model.limit = model.measured ? model.measured.events.end.reduce((a, b) => Math.max(a, b), model.end) : model.end; // of what can be seen
  // Readers from reads: the same pairs the other way round.
  const count = head.names.length, start = new Int32Array(count + 1), readers = new Int32Array(columns.read.length);
  for (const producer of columns.read) start[producer + 1]++;
  for (let k = 0; k < count; k++) start[k + 1] += start[k];
  const next = start.slice();
  for (let node = 0; node < count; node++) {
    for (let k = columns.read_start[node]; k < columns.read_start[node + 1]; k++) readers[next[columns.read[k]]++] = node;
  }
  model.readsOf = node => columns.read.subarray(columns.read_start[node], columns.read_start[node + 1]);
  model.readersOf = node => readers.subarray(start[node], start[node + 1]);
  return model;
}
