// The model by modules: how much time the ops of each take, and on which device.

function sumModules(model) {
  const {modules, columns, plan} = model, D = model.devices.length;
  const makeRow = module => ({...module, children: [], time: new Float64Array(D), ops: 0, bytes: 0, first: Infinity});
  const rows = modules.map(makeRow), rest = makeRow({path: "", name: "no module", parent: -1});
  const tops = [];
  const addTo = (k, act) => {
    if (k < 0) act(rest);
    for (; k >= 0; k = rows[k].parent) act(rows[k]);
  };
  for (let t = 0; t < plan.tasks.node.length; t++) {
    const members = membersOf(model, plan, t), share = (plan.tasks.end[t] - plan.tasks.start[t]) / members.length;
    for (const node of members) {
      addTo(columns.node_module[node], row => {
        row.time[plan.tasks.device[t]] += share;
        row.ops++;
        row.first = Math.min(row.first, node);
      });
    }
  }
  for (let node = 0; node < columns.node_kind.length; node++) {
    if (columns.node_kind[node] === 2) addTo(columns.node_module[node], row => { row.bytes += columns.node_bytes[node]; });
  }
  rows.forEach(row => (row.parent >= 0 ? rows[row.parent].children : tops).push(row));
  if (rest.ops > 0) tops.push(rest);
  const order = list => {
    list.sort((a, b) => a.first - b.first); // as the model runs
    list.forEach(row => order(row.children));
  };
  order(tops);
  return tops;
}

const total = row => row.time.reduce((a, b) => a + b, 0);

function moduleBar(model, row, most) {
  const bar = element("div", {className: "share"}), inner = element("div", {className: "filled"});
  inner.style.width = `${most > 0 ? 100 * total(row) / most : 0}%`;
  row.time.forEach((time, d) => {
    if (time === 0) return;
    const part = element("div", {title: `${plain(deviceName(model, d))}: ${timeText(time, 3)}, ${percent(time / total(row))}`});
    part.style.flexGrow = String(time);
    part.style.backgroundColor = cssColour(deviceColour(d));
    inner.append(part);
  });
  bar.append(inner);
  return bar;
}

// The dearest of a list, in its order, and how many others there are.
function dearest(list) {
  const most = 500;
  if (list.length <= most) return {shown: list, left: 0};
  const chosen = new Set(list.slice().sort((a, b) => total(b) - total(a)).slice(0, most));
  return {shown: list.filter(row => chosen.has(row)), left: list.length - most};
}

function showModules(model) {
  const tops = sumModules(model), known = model.modules.length > 0;
  byId("modules-note").textContent = known
    ? "Time of each module's ops, coloured by device, in the order in which the model runs. An op belongs to the module of a parameter that it reads, else to that of an op before it. Times of groups are shared equally among their ops."
    : "Neither labels of parameters nor names of ops tell modules apart.";
  if (!known) return;
  let tall = tops;
  while (tall.length === 1 && tall[0].children.length > 0) tall = tall[0].children;
  const most = tall.reduce((a, row) => Math.max(a, total(row)), 1), body = element("tbody", {});
  const addList = (list, depth, before) => {
    const {shown, left} = dearest(list), removals = shown.map(row => add(row, depth, before));
    if (left > 0) {
      const line = element("tr", {}, element("td", {className: "module"}, `${countText(left)} more, which take less`));
      line.firstChild.style.paddingLeft = `${6 + 18 * depth}px`;
      body.insertBefore(line, before);
      removals.push(() => line.remove());
    }
    return removals;
  };
  const add = (row, depth, before) => {
    const line = element("tr", {}), open = element("button", {type: "button", className: "open"}, row.children.length > 0 ? "\u25b8" : "");
    open.disabled = row.children.length === 0;
    open.setAttribute("aria-label", `open ${plain(row.path)}`);
    const name = element("td", {className: "module"}, open, row.name);
    name.style.paddingLeft = `${6 + 18 * depth}px`;
    line.append(name, element("td", {className: "wide"}, moduleBar(model, row, Math.max(most, total(row)))),
                element("td", {className: "number"}, timeText(total(row), 3)), element("td", {className: "number"}, countText(row.ops)),
                element("td", {className: "number"}, row.bytes > 0 ? byteText(row.bytes) : ""));
    body.insertBefore(line, before);
    let shown = null;
    const toggle = () => {
      if (shown) {
        shown.forEach(remove => remove());
        shown = null;
      } else {
        const next = line.nextSibling;
        shown = addList(row.children, depth + 1, next);
      }
      open.textContent = row.children.length > 0 ? (shown ? "\u25be" : "\u25b8") : "";
    };
    if (row.children.length > 0) open.addEventListener("click", toggle);
    if (row.children.length > 0 && depth === 0 && (tops.length === 1 || row.children.length <= 12 && tops.length <= 12)) toggle();
    return () => {
      if (shown) toggle();
      line.remove();
    };
  };
  addList(tops, 0, null);
  const made = element("table", {className: "tree"}, element("thead", {}, element("tr", {}, element("th", {}, "module"), element("th", {}, "time by device"),
    element("th", {className: "number"}, "time"), element("th", {className: "number"}, "ops"), element("th", {className: "number"}, "parameters"))), body);
  byId("tree").replaceChildren(made);
}
