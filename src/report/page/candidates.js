// What each method of the search came to, and how its best plan fell.

const SVG = "http://www.w3.org/2000/svg";
function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = plain(text);
  return made;
}

function candidateBar(step, most, best) {
  const bar = element("div", {className: "share"}), inner = element("div", {className: best ? "filled best" : "filled plain"});
  inner.style.width = `${Number.isFinite(step) && most > 0 ? 100 * step / most : 0}%`;
  bar.append(inner);
  return bar;
}

function showCandidates(model) {
  const list = model.head.candidates || [], section = byId("candidates");
  section.hidden = list.length === 0;
  if (list.length === 0) return;
  const steps = list.map(candidate => candidate.step_s === null ? NaN : candidate.step_s), most = Math.max(...steps.filter(Number.isFinite), 0);
  const valid = list.filter(candidate => candidate.valid && candidate.value !== null);
  const least = Math.min(...valid.map(candidate => candidate.value)), best = list.findIndex(candidate => candidate.valid && candidate.value === least);
  const body = element("tbody", {}, ...list.map((candidate, k) => {
    const peak = Math.max(0, ...(candidate.peak_bytes || []));
    return element("tr", {className: k === best ? "best" : ""}, element("td", {}, candidate.method),
      element("td", {className: "wide"}, candidateBar(steps[k], most, k === best)),
      element("td", {className: "number"}, Number.isFinite(steps[k]) ? timeText(1e12 * steps[k], 5) : "-"),
      element("td", {className: "number"}, peak > 0 ? byteText(peak) : "-"),
      element("td", {className: "number"}, countText(candidate.evaluations || 0)),
      element("td", {}, candidate.valid ? candidate.note || "" : candidate.reason || "not valid"));
  }));
  byId("candidates-note").textContent = "What each method came to; the best is the plan above.";
  byId("methods").replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...[["method", ""], ["", ""], ["step", "number"],
    ["largest peak", "number"], ["evaluations", "number"], ["", ""]].map(([title, className]) => element("th", {className}, title)))), body));
  byId("curves").replaceChildren(...drawCurves(list));
}

// Value over evaluations, of methods that found more than one plan. Steps: a plan holds until the next is found.
function drawCurves(list) {
  const curves = list.filter(candidate => candidate.valid && candidate.found && candidate.found.length > 1);
  if (curves.length === 0) return [];
  const width = 760, height = 220, left = 64, right = 150, top = 14, bottom = 30;
  const all = curves.flatMap(candidate => candidate.found), values = all.map(found => found[2]);
  const low = Math.min(...values), high = Math.max(...values), last = Math.max(...curves.map(c => c.evaluations), 1), room = high > low ? high - low : high || 1;
  const xOf = count => left + Math.log(Math.max(1, count)) / Math.log(Math.max(2, last)) * (width - left - right);
  const yOf = value => top + (high - value) / room * (height - top - bottom);
  const svg = drawn("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "value of the best plan over evaluations", class: "curves"});
  for (let k = 0; k <= 4; k++) {
    const value = low + room * k / 4;
    svg.append(drawn("line", {x1: left, x2: width - right, y1: yOf(value), y2: yOf(value), class: "grid"}),
               drawn("text", {x: left - 6, y: yOf(value) + 4, "text-anchor": "end"}, timeText(1e12 * value, 4)));
  }
  for (let count = 1; count <= last; count *= 10) svg.append(drawn("text", {x: xOf(count), y: height - 10, "text-anchor": "middle"}, countText(count)));
  svg.append(drawn("text", {x: width - right, y: height - 10, "text-anchor": "start", class: "axis"}, "  evaluations"));
  const ends = [];
  curves.forEach((candidate, k) => {
    const colour = deviceColours[k % deviceColours.length];
    let way = "";
    candidate.found.forEach(([, count, value], i) => { way += i === 0 ? `M${xOf(count)} ${yOf(value)}` : `H${xOf(count)}V${yOf(value)}`; });
    way += `H${xOf(candidate.evaluations)}`;
    svg.append(drawn("path", {d: way, fill: "none", stroke: colour, "stroke-width": 2}));
    ends.push({name: candidate.method, colour, y: yOf(candidate.found[candidate.found.length - 1][2]) + 4});
  });
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, k) => { // names that would cover each other move down
    if (k > 0 && end.y < ends[k - 1].y + 13) end.y = ends[k - 1].y + 13;
    svg.append(drawn("text", {x: width - right + 8, y: end.y, fill: end.colour, class: "method"}, end.name));
  });
  return [element("h3", {}, "How the best plan fell"), svg];
}
