// The page as a whole: what is in view and selected, and what the reader does.

const LEAST_SPAN = 1e3; // a nanosecond
const LEAST_SHARE = 2 ** -40; // of the time at which a view begins: numbers have 53 bits, and a view has thousands of pixels

function makeState(model) {
  return {view: {t0: 0, t1: model.end}, colour: "device", links: model.plan.links.length > 16 ? "sender" : "each", path: false,
          matches: null, matchedTasks: null, found: [], foundAt: -1, selected: null, area: null};
}

class Page {
  constructor(model) {
    this.model = model;
    this.state = makeState(model);
    this.timeline = new Timeline(byId("timeline"), model, this.state);
    this.memory = new Memory(byId("memory"), model, this.state);
    this.waiting = false;
    showSummary(model);
    showModules(model);
    showCandidates(model);
    this.fillChoices();
    this.showLegends();
    this.listen();
    this.draw();
  }

  // ---- drawing ----

  draw() {
    this.timeline.draw();
    this.memory.draw();
    this.drawOver();
  }

  // Once before the next frame, however much has changed.
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  recolour() {
    this.timeline.recolour();
    this.memory.recolour();
    this.showLegends();
    this.redraw();
  }

  // What lies over both plots: the pointer's line, the area, what is selected.
  drawOver(pointer) {
    for (const [view, name] of [[this.timeline, "timeline"], [this.memory, "memory"]]) {
      const c = view.plot.overlay, {theme} = view;
      c.clearRect(0, 0, view.plot.width, view.height);
      c.save();
      c.beginPath();
      c.rect(GUTTER, 0, view.plot.width - GUTTER, view.height);
      c.clip();
      const {area} = this.state;
      if (area) {
        const x0 = this.timeline.xOf(area.t0), x1 = this.timeline.xOf(area.t1), own = area.plot === name;
        c.fillStyle = theme.accent;
        c.globalAlpha = own ? 0.16 : 0.07;
        c.fillRect(x0, own ? area.y0 : AXIS, x1 - x0, own ? area.y1 - area.y0 : view.height);
        c.globalAlpha = 1;
        if (own) {
          c.strokeStyle = theme.accent;
          c.strokeRect(x0 + 0.5, area.y0 + 0.5, x1 - x0, area.y1 - area.y0);
        }
      }
      if (view === this.timeline) drawSelected(this.timeline, c);
      if (pointer && pointer.x >= GUTTER) this.drawPointer(c, view, pointer);
      c.restore();
    }
  }

  drawPointer(c, view, pointer) {
    const {theme} = view, text = timeText(Math.max(0, this.timeline.timeAt(pointer.x)), 6);
    c.strokeStyle = theme.faint;
    c.beginPath();
    c.moveTo(pointer.x + 0.5, 14);
    c.lineTo(pointer.x + 0.5, view.height);
    c.stroke();
    c.font = "11px system-ui, sans-serif";
    const width = c.measureText(text).width + 10, left = Math.min(pointer.x - width / 2, view.plot.width - width);
    c.fillStyle = theme.text;
    c.fillRect(Math.max(GUTTER, left), 0, width, 16);
    c.fillStyle = theme.page;
    c.textBaseline = "middle";
    c.fillText(text, Math.max(GUTTER, left) + 5, 8.5);
  }

  showLegends() {
    const chips = entries => entries.map(({name, rgb}) => {
      const spot = element("span", {className: "spot"});
      spot.style.backgroundColor = cssColour(rgb);
      return element("span", {className: "chip"}, spot, name);
    });
    byId("legend").replaceChildren(...chips(this.timeline.legend));
    byId("memory-legend").replaceChildren(...chips(boxColours.map(([name, colour]) => ({name, rgb: parseColour(colour)}))));
  }

  fillChoices() {
    const runs = byId("memory-run");
    this.model.runs.forEach((run, k) => runs.append(element("option", {value: String(k)}, `the ${run.title}`)));
    runs.value = String(this.model.runs.length - 1);
    byId("links").value = this.state.links;
  }

  // ---- moving ----

  setView(t0, t1) {
    const whole = this.model.limit * 1.002, least = Math.max(Math.min(LEAST_SPAN, whole), LEAST_SHARE * Math.min(t0, whole));
    let span = Math.min(Math.max(t1 - t0, least), whole);
    t0 = Math.min(Math.max(0, t0), whole - span);
    this.state.view = {t0, t1: t0 + span};
    this.redraw();
  }

  zoom(factor, at) {
    const {t0, t1} = this.state.view;
    at = at === undefined ? (t0 + t1) / 2 : at;
    this.setView(at - (at - t0) * factor, at + (t1 - at) * factor);
  }

  move(share) {
    const {t0, t1} = this.state.view, by = share * (t1 - t0);
    this.setView(t0 + by, t1 + by);
  }

  zoomTo(t0, t1, margin = 0.2) {
    const more = Math.max(margin * (t1 - t0), LEAST_SPAN / 2);
    this.setView(t0 - more, t1 + more);
  }

  // ---- choosing ----

  choose(run, task, show) {
    const {tasks} = run, {view} = this.state;
    this.state.selected = {run, task};
    this.state.area = null;
    showSelected(this.model, this.state, (r, t) => this.choose(r, t, true));
    const outside = tasks.end[task] < view.t0 || tasks.start[task] > view.t1, tiny = tasks.end[task] - tasks.start[task] < (view.t1 - view.t0) / 400;
    if (show && (outside || tiny)) {
      const span = Math.min(view.t1 - view.t0, 60 * Math.max(tasks.end[task] - tasks.start[task], LEAST_SPAN));
      const center = (tasks.start[task] + tasks.end[task]) / 2;
      this.setView(center - span / 2, center + span / 2);
    } else {
      this.redraw();
    }
  }

  chooseNothing() {
    this.state.selected = this.state.area = null;
    byId("details").replaceChildren();
    this.redraw();
  }

  zoomToChosen() {
    const {selected, area} = this.state;
    if (area) this.zoomTo(area.t0, area.t1, 0);
    else if (selected) this.zoomTo(selected.run.tasks.start[selected.task], selected.run.tasks.end[selected.task], 1);
  }

  // ---- searching ----

  search(text) {
    const {model, state} = this, wanted = text.trim().toLowerCase(), found = [];
    state.matches = state.matchedTasks = null;
    state.foundAt = -1;
    if (wanted !== "") {
      const matches = new Uint8Array(model.names.length), {columns, plan} = model;
      const classes = model.head.op_names.map(name => name.toLowerCase() === wanted);
      for (let node = 0; node < model.names.length; node++) {
        const hit = this.lowerNames()[node].includes(wanted) || classes[columns.node_op[node]] || String(node) === wanted ||
          (model.labels.has(node) && model.labels.get(node).toLowerCase().includes(wanted));
        if (!hit) continue;
        matches[node] = 1;
        if (plan.taskOf[node] >= 0) found.push(node);
      }
      state.matches = matches;
      state.matchedTasks = model.runs.map(run => {
        const tasks = new Uint8Array(run.tasks.node.length);
        for (let node = 0; node < matches.length; node++) if (matches[node] && run.taskOf[node] >= 0) tasks[run.taskOf[node]] = 1;
        return tasks;
      });
    }
    found.sort((a, b) => model.plan.tasks.start[model.plan.taskOf[a]] - model.plan.tasks.start[model.plan.taskOf[b]] || a - b);
    state.found = found;
    byId("found").textContent = wanted === "" ? "" : `${plural(found.length, "op")}${found.length > 0 ? ", Enter: the next" : ""}`;
    this.recolour();
  }

  lowerNames() {
    return this.lower || (this.lower = this.model.names.map(name => name.toLowerCase()));
  }

  showNext(by) {
    const {state, model} = this, {found} = state;
    if (found.length === 0) return;
    state.foundAt = (state.foundAt + by + found.length) % found.length;
    byId("found").textContent = `${countText(state.foundAt + 1)} of ${plural(found.length, "op")}`;
    this.choose(model.plan, model.plan.taskOf[found[state.foundAt]], true);
  }

  // ---- the pointer ----

  tip(title, facts, event) {
    const tip = byId("tip");
    if (!title) {
      tip.hidden = true;
      return;
    }
    tip.replaceChildren(element("strong", {}, fitText(title, 80)), factList(facts));
    tip.hidden = false;
    const {width, height} = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + height > window.innerHeight ? Math.max(4, event.clientY - height - 10) : event.clientY + 18}px`;
  }

  hover(name, x, y, event) {
    const {model} = this;
    if (name === "timeline") {
      const hit = this.timeline.hit(x, y);
      if (!hit) return this.tip();
      const {row, item} = hit, facts = row.kind === "task" ? taskFacts(model, row.run, item)
        : row.kind === "transfer" ? transferFacts(model, row.run, item) : measuredFacts(model, item);
      return this.tip(this.timeline.nameOf(row, item), facts, event);
    }
    const hit = this.memory.hit(x, y);
    if (!hit) return this.tip();
    if (hit.item >= 0) return this.tip(nodeTitle(model, this.memory.run.boxes.node[hit.item]), boxFacts(model, this.memory.run, hit.item), event);
    return this.tip(deviceName(model, hit.row.device), [["at", timeText(hit.time, 6)], ["holds", byteText(this.memory.heldAt(hit.row.device, hit.time))]], event);
  }

  click(name, x, y) {
    const {model} = this;
    if (name === "memory") {
      const row = this.memory.rowAt(y), hit = this.memory.hit(x, y);
      if (row && row.device !== this.memory.large) {
        this.memory.large = row.device;
        this.memory.layout();
        return this.redraw();
      }
      const node = hit && hit.item >= 0 ? this.memory.run.boxes.node[hit.item] : -1;
      if (node >= 0 && this.memory.run.taskOf[node] >= 0) this.choose(this.memory.run, this.memory.run.taskOf[node], false);
      return undefined;
    }
    const hit = this.timeline.hit(x, y);
    if (!hit) return this.chooseNothing();
    const {row, item} = hit, run = row.run || model.plan;
    const node = row.kind === "task" ? run.tasks.node[item] : row.kind === "transfer" ? run.transfers.node[item] : model.measured.events.node[item];
    if (node >= 0 && run.taskOf[node] >= 0) this.choose(run, run.taskOf[node], false);
    return undefined;
  }

  // Dragging marks an area; a click that moves by less than three pixels does not.
  listenPlot(name, view) {
    const {over} = view.plot, at = event => {
      const box = over.getBoundingClientRect();
      return {x: event.clientX - box.left, y: event.clientY - box.top};
    };
    let from = null, moved = false;
    over.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      from = at(event);
      moved = false;
      over.setPointerCapture(event.pointerId);
      view.plot.element.focus({preventScroll: true});
    });
    over.addEventListener("pointermove", event => {
      const point = at(event);
      if (from && (moved || Math.abs(point.x - from.x) + Math.abs(point.y - from.y) > 3)) {
        moved = true;
        this.tip();
        const limit = x => Math.min(Math.max(x, GUTTER), view.plot.width);
        const [x0, x1] = [limit(from.x), limit(point.x)].sort((a, b) => a - b), [y0, y1] = [from.y, point.y].sort((a, b) => a - b);
        this.state.area = {plot: name, t0: Math.max(0, this.timeline.timeAt(x0)), t1: this.timeline.timeAt(x1), y0: Math.max(AXIS, y0), y1: Math.min(view.height, y1)};
      } else if (!from) {
        this.hover(name, point.x, point.y, event);
      }
      this.drawOver(point);
    });
    over.addEventListener("pointerup", event => {
      const point = at(event);
      if (from && !moved) this.click(name, point.x, point.y);
      if (from && moved) this.showArea();
      from = null;
    });
    over.addEventListener("pointerleave", () => {
      this.tip();
      if (!from) this.drawOver();
    });
    over.addEventListener("dblclick", () => this.zoomToChosen());
    over.addEventListener("wheel", event => {
      const point = at(event);
      if (point.x < GUTTER) return; // over the names the page scrolls
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        this.move((Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY) * lines / view.plot.width);
      } else {
        this.zoom(Math.exp(Math.max(-240, Math.min(240, event.deltaY * lines)) * 0.0022), this.timeline.timeAt(point.x));
      }
    }, {passive: false});
  }

  showArea() {
    const {area} = this.state, zoom = () => this.zoomToChosen();
    this.state.selected = null;
    if (area.plot === "timeline") showTimelineArea(this.timeline, area, zoom);
    else showMemoryArea(this.memory, area, zoom);
    this.redraw();
  }

  // ---- keys and choices ----

  key(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      byId("search").value = "";
      byId("search").blur();
      this.search("");
      return this.chooseNothing();
    }
    if (typing) return undefined;
    const acts = {w: () => this.zoom(0.6), s: () => this.zoom(1 / 0.6), "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6),
                  a: () => this.move(-0.25), d: () => this.move(0.25), ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25),
                  0: () => this.setView(0, this.model.end), 1: () => this.setView(0, this.model.plan.step_ps), f: () => this.zoomToChosen(), "/": () => byId("search").focus(), t: () => this.switchTheme(),
                  c: () => byId("path").click(), n: () => this.showNext(1), p: () => this.showNext(-1)};
    const act = acts[event.key];
    if (!act) return undefined;
    event.preventDefault();
    return act();
  }

  themeIsDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  setTheme(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    byId("theme").textContent = this.themeIsDark() ? "Light" : "Dark";
    this.recolour();
  }

  switchTheme() {
    this.setTheme(this.themeIsDark() ? "light" : "dark");
  }

  listen() {
    this.listenPlot("timeline", this.timeline);
    this.listenPlot("memory", this.memory);
    document.addEventListener("keydown", event => this.key(event));
    let later = 0;
    byId("search").addEventListener("input", event => {
      clearTimeout(later);
      later = setTimeout(() => this.search(event.target.value), 120);
    });
    byId("search").addEventListener("keydown", event => {
      if (event.key === "Enter") this.showNext(event.shiftKey ? -1 : 1);
    });
    const changed = (id, act) => byId(id).addEventListener("change", event => act(event.target));
    changed("colour", target => {
      this.state.colour = target.value;
      this.recolour();
    });
    changed("links", target => {
      this.state.links = target.value;
      this.timeline.layout();
      this.redraw();
    });
    changed("path", target => {
      this.state.path = target.checked;
      this.recolour();
    });
    changed("memory-run", target => {
      this.memory.setRun(this.model.runs[Number(target.value)]);
      this.redraw();
    });
    byId("fit-plan").addEventListener("click", () => this.setView(0, this.model.plan.step_ps));
    byId("fit").addEventListener("click", () => this.setView(0, this.model.end));
    byId("theme").addEventListener("click", () => this.switchTheme());
    byId("print").addEventListener("click", () => window.print());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.setTheme(document.documentElement.dataset.theme));
    new ResizeObserver(() => this.redraw()).observe(byId("timeline"));
    this.listenPrinting();
    byId("theme").textContent = this.themeIsDark() ? "Light" : "Dark";
  }

  // Paper is white, whatever the screen is.
  listenPrinting() {
    let before;
    window.addEventListener("beforeprint", () => {
      before = document.documentElement.dataset.theme;
      this.setTheme("light");
      this.draw();
    });
    window.addEventListener("afterprint", () => this.setTheme(before));
  }
}

async function begin() {
  const text = byId("data");
  try {
    const model = makeModel(await unpack(text.textContent.trim()));
    text.remove();
    sizeScale = model.head.graph.size_scale;
    window.stowageReport = new Page(model); // for whoever wants to look inside, by the browser's console
  } catch (error) {
    byId("sentences").replaceChildren(element("li", {}, typeof DecompressionStream === "undefined"
      ? "This browser cannot unpack the data: one of 2023 or later is needed." : `The page cannot be shown: ${error.message}`));
    throw error;
  }
}

begin();
