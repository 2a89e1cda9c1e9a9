// Elements and text: what every drawing is made of. Nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element; `attributes` may hold `text`, `on` (listeners) and `css` (custom properties and styles). */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") node.textContent = value;
    else if (key === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (key === "css") for (const [name, style] of Object.entries(value)) node.style.setProperty(name, style);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A text by characters as the server counts them: code points, not halves of surrogate pairs. */
export class Characters {
  constructor(text) {
    this.points = /[\ud800-\udfff]/.test(text) ? Array.from(text) : null;
    this.text = text;
  }

  get length() {
    return this.points ? this.points.length : this.text.length;
  }

  slice(start, end) {
    return this.points ? this.points.slice(start, end).join("") : this.text.slice(start, end);
  }
}

export const percent = (share) => (share > 0 && share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(share >= 0.1 || share === 0 ? 0 : 1)} %`);
export const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
export const COLOURS = 8;

/** A table with a caption for screen readers; cells are texts or nodes. */
export function table(caption, head, rows, attributes = {}) {
  const cell = (name, value, more = {}) => (value instanceof Node ? el(name, more, value) : el(name, more, String(value)));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", attributes,
      el("caption", { class: "hidden", text: caption }),
      el("thead", {}, el("tr", {}, ...head.map((name) => cell("th", name, { scope: "col" })))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((value) => cell("td", value)))))));
}

/** A bar from 0 to 1 beside its number, which says the same. */
export function bar(share, text = percent(share)) {
  return el("span", { class: "bar" },
    el("span", { class: "track", "aria-hidden": "true" }, el("span", { css: { width: `${Math.max(0, Math.min(1, share)) * 100}%` } })),
    el("span", { class: "number", text }));
}

/** Show an error where it belongs, or hide it again with an empty message. */
export function showError(node, message) {
  node.textContent = message || "";
  node.hidden = !message;
}

/** A button that copies what `content` gives when it is pressed, and says so. */
export function copyButton(name, content) {
  const button = el("button", { type: "button", class: "quiet" }, name);
  button.addEventListener("click", async () => {
    const done = await copy(content());
    button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = name; }, 1500);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers give the clipboard to pages of https and localhost alone; elsewhere the old way remains.
    const area = el("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
