// The attention of one head: choose a token, and every token is shaded by the weight it gets from it.

import { Characters, bar, el, percent, svg, table } from "./dom.js";

const MOST_CELLS = 64;

/** `data` is one head as the server sends it; `choose(layer, head)` asks for another, if there is one to ask. */
export function drawAttention(text, data, choose) {
  const { tokens, weights } = data;
  const characters = new Characters(text);
  const names = tokens.map(({ token, start, end }) => (end > start ? characters.slice(start, end) : token));
  const state = { query: Math.min(1, tokens.length - 1) };
  const buttons = names.map((name, index) => el("button", { type: "button", class: tokens[index].end > tokens[index].start ? "token" : "token special", dir: "auto" }, name));
  const strongest = el("div", { "aria-live": "polite" });
  const flow = el("div", { class: "tokens", role: "group", "aria-label": "Tokens; press one to see where it attends" });
  buttons.forEach((button, index) => {
    const before = index ? tokens[index - 1].end : 0;
    if (index && tokens[index].start > before) flow.append(" ");
    flow.append(button);
    button.addEventListener("click", () => select(index));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = buttons[index + step];
      if (!step || !next) return;
      event.preventDefault();
      next.focus();
      select(index + step);
    });
  });
  const matrix = tokens.length <= MOST_CELLS ? drawMatrix(names, weights, (row) => select(row)) : null;
  function select(index) {
    state.query = index;
    const row = weights[index];
    buttons.forEach((button, column) => {
      button.style.setProperty("--share", String(Math.min(1, row[column] ** 0.7)));
      button.setAttribute("aria-pressed", String(column === index));
      button.title = `${percent(row[column])} of the attention of “${names[index]}”`;
      button.tabIndex = column === index ? 0 : -1;
    });
    const best = row.map((weight, column) => ({ weight, column })).sort((a, b) => b.weight - a.weight).slice(0, 6);
    strongest.replaceChildren(
      el("h3", {}, "“", el("span", { dir: "auto", text: names[index] }), "” attends to"),
      table("Strongest weights", ["Token", "Place", "Weight"], best.map(({ weight, column }) => [names[column], String(column + 1), bar(weight)])));
    for (const node of matrix?.querySelectorAll("[data-row]") ?? []) node.classList.toggle("lit", Number(node.dataset.row) === index);
  }
  select(state.query);
  return el("div", { class: "attention" }, chooser(data, choose), flow, el("div", { class: "pair" }, strongest,
    matrix ? el("figure", {}, matrix, el("figcaption", { class: "hint", text: "Rows attend to columns; every row sums to one." })) : null));
}

function chooser(data, choose) {
  const select = (name, count, chosen) => {
    const node = el("select", { id: `attention-${name}` }, ...Array.from({ length: count }, (_, index) => el("option", { value: index + 1, selected: index + 1 === chosen }, String(index + 1))));
    node.addEventListener("change", () => choose(...["layer", "head"].map((key) => Number(document.getElementById(`attention-${key}`).value)), name));
    return el("div", { class: "field inline" }, el("label", { for: `attention-${name}` }, name === "layer" ? "Layer" : "Head"), node);
  };
  return el("div", { class: "row" }, select("layer", data.layers, data.layer), select("head", data.heads, data.head));
}

function drawMatrix(names, weights, select) {
  const count = names.length;
  const cell = Math.max(5, Math.min(18, Math.floor(330 / count)));
  const labels = cell >= 11 ? 64 : 0;
  const size = labels + cell * count;
  const short = (name) => (name.length > 8 ? `${name.slice(0, 7)}…` : name);
  const rows = weights.map((row, index) => {
    const group = svg("g", { "data-row": index },
      ...row.map((weight, column) => svg("rect", { x: labels + column * cell, y: labels + index * cell, width: cell - 1, height: cell - 1, class: "cell", "fill-opacity": Math.min(1, weight ** 0.7).toFixed(3) })),
      labels ? svg("text", { x: labels - 5, y: labels + (index + 0.75) * cell, "text-anchor": "end" }, short(names[index])) : svg("g"));
    group.addEventListener("click", () => select(index));
    return group;
  });
  const top = labels ? names.map((name, column) => svg("text", { transform: `translate(${labels + (column + 0.75) * cell} ${labels - 5}) rotate(-90)` }, short(name))) : [];
  return svg("svg", { class: "matrix-svg", viewBox: `0 0 ${size} ${size}`, width: size, height: size, role: "img", "aria-label": "The weights of all tokens; the list beside has those of the chosen one" }, ...top, ...rows);
}
