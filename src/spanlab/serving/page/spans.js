// Spans on a text: boxes that nest, with their labels written in them, so that colour is never the only sign.

import { Characters, COLOURS, el, svg } from "./dom.js";

/** The text with its spans {start, end, label, colour, key}; those that cross another are drawn in two pieces. */
export function drawSpans(text, spans) {
  const characters = new Characters(text);
  const root = el("p", { class: "passage", dir: "auto" });
  const waiting = spans.filter((span) => span.start < span.end).map((span) => ({ ...span })).sort(order);
  const open = [{ node: root, end: Infinity }];
  let at = 0;
  const write = (to) => {
    if (to > at) open.at(-1).node.append(characters.slice(at, to));
    at = Math.max(at, to);
  };
  const closeUntil = (position) => {
    while (open.length > 1 && open.at(-1).end <= position) {
      write(open.at(-1).end);
      const { node, span } = open.pop();
      if (span.label) node.append(...tag(span.label));
    }
  };
  while (waiting.length) {
    const span = waiting.shift();
    closeUntil(span.start);
    const around = open.at(-1).end;
    if (span.end > around) {
      waiting.push({ ...span, start: around });
      waiting.sort(order);
      Object.assign(span, { end: around, label: "" });
    }
    write(span.start);
    const node = el("mark", { class: `span c${span.colour % COLOURS}${span.faint ? " faint" : ""}`, "data-key": span.key, title: span.title });
    open.at(-1).node.append(node);
    open.push({ node, end: span.end, span });
  }
  closeUntil(characters.length);
  write(characters.length);
  return root;
}

/** A label after its words: a space that never breaks keeps them together, also when they are read aloud. */
export const tag = (label) => [el("span", { class: "gap", text: "\u00a0" }), el("span", { class: "tag", text: label })];

const order = (a, b) => a.start - b.start || b.end - a.end;

/** Colours by name, in the order of the names, so that one label looks the same in every result. */
export function colourOf(names) {
  const index = new Map([...new Set(names)].sort().map((name, position) => [name, position]));
  return (name) => index.get(name) ?? 0;
}

/** While something with `data-key` is pointed at or has the focus, everything with the same key is lit. */
export function linkByKey(root) {
  const light = (event) => {
    const key = event.type === "mouseleave" ? null : event.target.closest?.("[data-key]")?.dataset.key;
    root.classList.toggle("dimmed", key !== null && key !== undefined);
    for (const node of root.querySelectorAll("[data-key]")) node.classList.toggle("lit", node.dataset.key === key);
  };
  for (const event of ["mouseover", "mouseleave", "focusin"]) root.addEventListener(event, light);
  root.addEventListener("focusout", (event) => { if (!root.contains(event.relatedTarget)) light({ type: "mouseleave", target: root }); });
  return root;
}

/** The nearest height to `y` at which a label hides no other. */
function free(taken, x, y, half) {
  for (const shift of [0, -13, 13, -26, 26, 39, -39]) {
    if (taken.every((box) => Math.abs(box.x - x) > box.half + half || Math.abs(box.y - y - shift) > 12)) {
      taken.push({ x, y: y + shift, half });
      return y + shift;
    }
  }
  return y;
}

/** Arcs over a passage from entity to entity; drawn anew whenever the lines of the text break elsewhere. */
export function drawArcs(passage, relations) {
  const layer = svg("svg", { class: "arcs", "aria-hidden": "true" });
  const box = el("div", { class: "with-arcs" }, passage, layer);
  const taken = []; // the boxes of labels, so that none is written over another
  const draw = () => {
    const frame = box.getBoundingClientRect();
    if (!frame.width) return;
    layer.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    taken.length = 0;
    layer.replaceChildren(
      svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
        svg("path", { d: "M0 0 L8 4 L0 8 z", class: "tip" }))),
      ...relations.flatMap((relation, index) => arc(frame, relation, index)));
  };
  const node = (index) => passage.querySelector(`[data-entity="${index}"]`);
  function arc(frame, relation, index) {
    const [head, tail] = [node(relation.head), node(relation.tail)];
    if (!head || !tail) return [];
    const [a, b] = [head.getClientRects()[0], tail.getClientRects()[0]];
    const [x1, x2] = [a, b].map((word) => word.left + word.width / 2 - frame.left);
    const sameLine = Math.abs(a.top - b.top) < 8;
    // Between two lines an arc stays in the gap: from the side of one word to the facing side of the other.
    const below = b.top > a.top;
    const y1 = (sameLine || !below ? a.top - 2 : a.bottom + 1) - frame.top;
    const y2 = (sameLine || below ? b.top - 3 : b.bottom + 3) - frame.top;
    const top = Math.max(2, y1 - Math.min(40, 18 + Math.abs(x1 - x2) / 12));
    const reach = (y2 - y1) / 2;
    const path = sameLine
      ? `M${x1} ${y1} C${x1} ${top} ${x2} ${top} ${x2} ${y2}`
      : `M${x1} ${y1} C${x1} ${y1 + reach} ${x2} ${y2 - reach} ${x2} ${y2}`;
    const middleX = (x1 + x2) / 2;
    const middleY = sameLine ? y1 - 0.75 * (y1 - top) + 4 : (y1 + y2) / 2 + 4;
    const half = relation.label.length * 3.3 + 5;
    const labelX = Math.max(half, Math.min(frame.width - half, middleX));
    const labelY = free(taken, labelX, middleY, half);
    return [
      svg("path", { d: path, class: `arc c${index % COLOURS}`, "marker-end": "url(#tip)", "data-key": `r${index}` }),
      svg("text", { x: labelX, y: labelY, class: `arc-label c${index % COLOURS}`, "data-key": `r${index}` }, relation.label),
    ];
  }
  new ResizeObserver(draw).observe(box);
  return box;
}
