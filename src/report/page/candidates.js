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

// A plan's file may say anything of its candidates. What is no such number or text as the program writes is taken as not said.
const isNumber = value => Number.isFinite(value) && Math.abs(value) < 2 ** 63;
const numberOr = (value, other) => isNumber(value) ? value : other;
const textOf = value => typeof value === "string" ? value : "";
const isPoint = found => Array.isArray(found) && found.length >= 3 && found.every(isNumber) && found[2] > 1e-13; // 1 ps is 1e-12
const largest = (values, least) => values.reduce((a, b) => Math.max(a, b), least);

function readCandidate(said) {
  const peaks = Array.isArray(said.peak_bytes) ? said.peak_bytes : [], found = Array.isArray(said.found) ? said.found : [];
  return {method: textOf(said.method), valid: said.valid === true, note: textOf(said.note), reason: textOf(said.reason),
          step: numberOr(said.step_s, NaN), value: numberOr(said.value, NaN), evaluations: Math.max(0, numberOr(said.evaluations, 0)),
          peak: largest(peaks.filter(isNumber), 0), found: found.every(isPoint) ? found : []};
}

function readCandidates(head) {
  const most = 500, list = Array.isArray(head.candidates) ? head.candidates : [];
  return list.filter(said => said !== null && typeof said === "object" && !Array.isArray(said)).slice(0, most).map(readCandidate);
}

function showCandidates(model) {
  const list = readCandidates(model.head), section = byId("candidates");
  section.hidden = list.length === 0;
  if (list.length === 0) return;
  const most = largest(list.map(candidate => candidate.step).filter(isNumber), 0);
  const least = Math.min(...list.filter(candidate => candidate.valid && isNumber(candidate.value)).map(candidate => candidate.value));
  const best = list.findIndex(candidate => candidate.valid && candidate.value === least);
  const body = element("tbody", {}, ...list.map((candidate, k) => {
    const {step, peak} = candidate;
    return element("tr", {className: k === best ? "best" : ""}, element("td", {className: "name"}, candidate.method),
      element("td", {className: "wide"}, candidateBar(step, most, k === best)),
      element("td", {className: "number"}, isNumber(step) ? timeText(1e12 * step, 5) : "-"),
      element("td", {className: "number"}, peak > 0 ? byteText(peak) : "-"),
      element("td", {className: "number"}, countText(candidate.evaluations)),
      element("td", {className: "note"}, candidate.valid ? candidate.note : candidate.reason || "not valid"));
  }));
  byId("candidates-note").textContent = "What each method came to; the best is the plan above.";
  byId("methods").replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...[["method", ""], ["", ""], ["step", "number"],
    ["largest peak", "number"], ["evaluations", "number"], ["", ""]].map(([title, className]) => element("th", {className}, title)))), body));
  const {objective} = model.head;
  byId("curves").replaceChildren(...drawCurves(list, value => objective === "memory" ? byteText(value) : timeText(1e12 * value, 4)));
}

// Value over evaluations, of methods that found more than one plan. Steps: a plan holds until the next is found. Both scales are
// logarithmic: the last per cent takes most of the search.
function drawCurves(list, valueText) {
  const curves = list.filter(candidate => candidate.valid && candidate.found.length > 1);
  if (curves.length === 0) return [];
  const width = 860, height = 300, left = 74, right = 150, top = 14, bottom = 40;
  const values = curves.flatMap(candidate => candidate.found).map(found => found[2]);
  const low = values.reduce((a, b) => Math.min(a, b)), high = largest(values, 1.02 * low), last = largest(curves.map(c => c.evaluations), 2);
  const xOf = count => left + Math.log(Math.max(1, count)) / Math.log(last) * (width - left - right);
  const yOf = value => top + Math.log(high / value) / Math.log(high / low) * (height - top - bottom);
  const svg = drawn("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "value of the best plan over evaluations", class: "curves"});
  for (let k = 0; k <= 4; k++) {
    const value = low * (high / low) ** (k / 4);
    svg.append(drawn("line", {x1: left, x2: width - right, y1: yOf(value), y2: yOf(value), class: "grid"}),
               drawn("text", {x: left - 8, y: yOf(value) + 4, "text-anchor": "end"}, valueText(value)));
  }
  for (let count = 1; count <= last; count *= 10) {
    svg.append(drawn("text", {x: xOf(count), y: height - bottom + 18, "text-anchor": "middle"}, countText(count)));
  }
  svg.append(drawn("text", {x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle"}, "evaluations of the method"));
  const ends = curves.map((candidate, k) => {
    const colour = deviceColours[k % deviceColours.length], dash = k < deviceColours.length ? "none" : "5 3";
    let way = "";
    candidate.found.forEach(([, count, value], i) => { way += i === 0 ? `M${xOf(count)} ${yOf(value)}` : `H${xOf(count)}V${yOf(value)}`; });
    svg.append(drawn("path", {d: `${way}H${xOf(candidate.evaluations)}`, fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash}));
    return {name: candidate.method, colour, y: yOf(candidate.found[candidate.found.length - 1][2]) + 4};
  });
  // Names that would cover each other move apart: upwards from the lower edge.
  ends.sort((a, b) => b.y - a.y);
  ends.forEach((end, k) => { end.y = Math.min(end.y, k === 0 ? height - bottom + 4 : ends[k - 1].y - 13); });
  for (const end of ends) {
    const text = drawn("text", {x: width - right + 8, y: end.y, class: "method"}, fitText(end.name, 20));
    text.style.fill = end.colour;
    svg.append(text);
  }
  return [element("h3", {}, "How the best plan of each method fell"), svg];
}
