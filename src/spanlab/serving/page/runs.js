// Training runs: curves of metrics.jsonl, several over each other, that grow while a run goes on.

import { request } from "./api.js";
import { COLOURS, el, showError, svg, table } from "./dom.js";

const PAUSE = 2000;
const MOST_POINTS = 700;
const NOT_METRICS = new Set(["step", "epoch", "split", "notes"]);
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
const SIZE = { width: 860, height: 340, left: 54, right: 14, top: 14, bottom: 44 };

const state = { runs: [], chosen: new Set(), data: new Map(), metric: "loss", smooth: true, timer: null, active: false, asking: false, again: false, box: null, shell: null, drawn: null, curves: null };

/** Show the runs in `box`, and follow them until `hideRuns`. */
export async function showRuns(box) {
  state.box = box;
  state.active = true;
  await refresh();
}

export function hideRuns() {
  state.active = false;
  clearTimeout(state.timer);
}

/** Ask once, and again after a pause; what is asked meanwhile is asked when this is done, never at the same time. */
async function refresh() {
  clearTimeout(state.timer);
  if (state.asking) {
    state.again = true;
    return;
  }
  state.asking = true;
  const error = document.getElementById("runs-error");
  try {
    const { runs } = await request("v1/runs");
    const first = !state.runs.length;
    state.runs = runs;
    if (first) runs.slice(0, 1).forEach((run) => state.chosen.add(run.name));
    await Promise.all([...state.chosen].map(follow));
    showError(error, "");
    draw();
  } catch (problem) {
    showError(error, problem.message);
  }
  state.asking = false;
  if (state.active) state.timer = setTimeout(refresh, state.again ? 0 : PAUSE);
  state.again = false;
}

/** Fetch what a run has written since the last time. */
async function follow(name) {
  let known = state.data.get(name) ?? { lines: 0, records: [], mark: null };
  for (let more = true; more;) {
    const path = `v1/runs/${name.split("/").map(encodeURIComponent).join("/")}/metrics?after=${known.lines}`;
    const part = await request(known.mark ? `${path}&mark=${known.mark}` : path);
    // A run that was resumed from an earlier step starts again from its first line.
    const before = part.start === known.lines ? known.records : [];
    known = { lines: part.lines, records: before.concat(part.records), mark: part.mark };
    more = part.more;
  }
  state.data.set(name, known);
}

/** Draw what is new; selects and check boxes stay the same elements, since somebody may be using them. */
function draw() {
  if (!state.runs.length) {
    state.shell = null;
    state.box.replaceChildren(el("p", { class: "empty", text: "No run is below the folder that the server was started with (spanlab serve MODEL --runs FOLDER)." }));
    return;
  }
  const lines = [...state.chosen].filter((name) => state.data.has(name));
  const metrics = [...new Set(lines.flatMap((name) => state.data.get(name).records.flatMap((record) => Object.keys(record))))].filter((key) => !NOT_METRICS.has(key)).sort();
  if (metrics.length && !metrics.includes(state.metric)) state.metric = metrics.includes("loss") ? "loss" : metrics[0];
  const shell = JSON.stringify([state.runs.map((run) => run.name).sort(), lines, metrics]);
  if (shell !== state.shell) {
    const focused = document.activeElement?.id;
    state.shell = shell;
    state.curves = el("div", {});
    state.box.replaceChildren(el("div", { class: "columns runs" }, chooser(), el("section", { "aria-label": "Curves" }, controls(metrics), state.curves)));
    if (focused) document.getElementById(focused)?.focus();
  }
  state.runs.forEach((run) => {
    const told = [...state.box.querySelectorAll("[data-run]")].find((node) => node.dataset.run === run.name);
    told?.replaceChildren(...progress(run));
  });
  const drawn = JSON.stringify([shell, state.metric, state.smooth, state.curves.clientWidth, lines.map((name) => [state.data.get(name).mark])]);
  if (drawn === state.drawn && state.curves.childElementCount) return;
  state.drawn = drawn;
  state.curves.replaceChildren(...[chart(lines), latest(lines, metrics)].filter(Boolean));
}

function progress(run) {
  const steps = run.steps ? `${run.step.toLocaleString()} of ${run.steps.toLocaleString()} steps` : `${run.step.toLocaleString()} steps`;
  return [el("span", { class: `state ${run.state}`, text: run.state }), ` ${steps}`];
}

function chooser() {
  const items = state.runs.map((run, index) => {
    const box = el("input", { type: "checkbox", id: `run-${index}`, checked: state.chosen.has(run.name) });
    box.addEventListener("change", () => {
      if (box.checked) state.chosen.add(run.name);
      else state.chosen.delete(run.name);
      refresh();
    });
    const place = [...state.chosen].indexOf(run.name);
    return el("li", {}, box, el("label", { for: `run-${index}` },
      el("span", { class: "run-name" }, place < 0 ? null : sample(place), run.name),
      el("span", { class: "hint", "data-run": run.name }, ...progress(run))));
  });
  return el("fieldset", { class: "panel runs-list" }, el("legend", { text: "Runs" }), el("ul", {}, ...items));
}

/** A piece of a run's line, for the legend. */
function sample(place) {
  return svg("svg", { class: "sample", width: 24, height: 8, viewBox: "0 0 24 8", "aria-hidden": "true" },
    svg("path", { d: "M1 4 H23", class: `curve c${place % COLOURS}`, "stroke-dasharray": DASHES[place % DASHES.length] }));
}

function controls(metrics) {
  const select = el("select", { id: "metric" }, ...metrics.map((metric) => el("option", { value: metric, selected: metric === state.metric }, metric)));
  select.addEventListener("change", () => { state.metric = select.value; draw(); });
  const smooth = el("input", { type: "checkbox", id: "smooth", checked: state.smooth });
  smooth.addEventListener("change", () => { state.smooth = smooth.checked; draw(); });
  return el("div", { class: "row" },
    el("div", { class: "field inline" }, el("label", { for: "metric", text: "Metric" }), select),
    el("div", { class: "field inline" }, smooth, el("label", { for: "smooth", text: "Smooth the training curve" })));
}

function series(name, split) {
  return state.data.get(name).records.filter((record) => record.split === split && typeof record[state.metric] === "number").map((record) => [record.step, record[state.metric]]);
}

function smoothed(points) {
  const width = Math.max(1, Math.floor(points.length / 50));
  const sums = [0];
  for (const [, value] of points) sums.push(sums.at(-1) + value);
  return points.map(([step], index) => {
    const [from, to] = [Math.max(0, index - width), Math.min(points.length, index + width + 1)];
    return [step, (sums[to] - sums[from]) / (to - from)];
  });
}

const thin = (points) => (points.length <= MOST_POINTS ? points : points.filter((_, index) => index % Math.ceil(points.length / MOST_POINTS) === 0 || index === points.length - 1));

function chart(names) {
  SIZE.width = Math.max(300, Math.min(1000, (state.curves.clientWidth || 860) - 22));
  SIZE.height = SIZE.width < 500 ? 260 : 340;
  const lines = names.map((name, place) => {
    const train = series(name, "train");
    return { name, place, train: thin(state.smooth ? smoothed(train) : train), raw: state.smooth ? thin(train) : [], dev: series(name, "dev") };
  });
  const points = lines.flatMap((line) => [...line.train, ...line.dev]);
  if (!points.length) return el("p", { class: "empty", text: names.length ? "No value yet." : "Choose a run." });
  const { width, height, left, right, top, bottom } = SIZE;
  const last = Math.max(1, ...points.map(([step]) => step));
  let [low, high] = [Math.min(...points.map((point) => point[1])), Math.max(...points.map((point) => point[1]))];
  const isFlat = high - low <= 1e-9 * Math.max(Math.abs(high), Math.abs(low)); // but for the rounding of means
  const margin = isFlat ? Math.abs(high) * 0.06 || 1 : 0.06 * (high - low);
  [low, high] = [low - margin, high + margin];
  const x = (step) => left + (step / last) * (width - left - right);
  const y = (value) => height - bottom - ((Math.max(low, Math.min(high, value)) - low) / (high - low)) * (height - top - bottom);
  const path = (list) => list.map(([step, value], index) => `${index ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const drawn = lines.flatMap((line) => {
    const c = `c${line.place % COLOURS}`;
    const dash = DASHES[line.place % DASHES.length];
    return [
      svg("path", { class: `curve raw ${c}`, d: path(line.raw) }),
      svg("path", { class: `curve ${c}`, d: path(line.train), "stroke-dasharray": dash }),
      ...line.dev.map(([step, value]) => svg("circle", { class: `dot ${c}`, cx: x(step), cy: y(value), r: 3.6 })),
    ];
  });
  const values = el("p", { class: "hint values", text: "Point at the chart for values; dots are held-out data." });
  const cursor = svg("path", { class: "cursor", d: "" });
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${state.metric} over steps of ${names.join(", ")}` }, ...grid(low, high, last, x, y), ...drawn, cursor);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const step = Math.max(0, Math.min(last, (((event.clientX - box.left) / box.width) * width - left) / (width - left - right) * last));
    cursor.setAttribute("d", `M${x(step)} ${top} V${height - bottom}`);
    const near = (list) => list.reduce((best, point) => (best === null || Math.abs(point[0] - step) < Math.abs(best[0] - step) ? point : best), null);
    const told = lines.flatMap((line) => { const point = near(line.train) ?? near(line.dev); return point ? [`${line.name}: ${format(point[1])}`] : []; });
    values.textContent = `step ${Math.round(step).toLocaleString()} · ${told.join(" · ")}`;
  });
  return el("figure", { class: "chart-box" }, picture, values);
}

function grid(low, high, last, x, y) {
  const { width, height, left, right, bottom } = SIZE;
  return [
    ...ticks(low, high).flatMap((value) => [
      svg("path", { class: "grid", d: `M${left} ${y(value)} H${width - right}` }),
      svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    ]),
    ...ticks(0, last).map((step) => svg("text", { x: x(step), y: height - bottom + 18, "text-anchor": "middle" }, format(step))),
    svg("text", { x: width - right, y: height - bottom + 36, "text-anchor": "end" }, "steps"),
  ];
}

function ticks(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, index) => (first + index) * step);
}

function format(value) {
  const size = Math.abs(value);
  if (size >= 10000) return `${Number((value / 1000).toPrecision(4))}k`;
  if (size && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

function latest(names, metrics) {
  if (!names.length || !metrics.length) return null;
  const value = (name, split) => { const list = series(name, split); return list.length ? format(list.at(-1)[1]) : "—"; };
  const best = (name) => {
    const list = series(name, "dev").map((point) => point[1]);
    if (!list.length) return "—";
    return format(/^(loss|perplexity|unigram)/.test(state.metric) ? Math.min(...list) : Math.max(...list));
  };
  return table(`Last values of ${state.metric}`, ["Run", "Training, now", "Held-out, now", "Held-out, best"],
    names.map((name, place) => [el("span", { class: "run-name" }, sample(place), name), value(name, "train"), value(name, "dev"), best(name)]));
}
