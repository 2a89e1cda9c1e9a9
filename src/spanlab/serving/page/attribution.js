// Which tokens made an answer: every token shaded by its share, and the largest shares as numbers with their signs.

import { Characters, el, signed, table } from "./dom.js";

/** The texts of an attribution with their tokens, and where the score comes from. */
export function drawAttribution(found) {
  const every = found.texts.flatMap((text) => text.tokens.map((token) => Math.abs(token.value)));
  const largest = Math.max(1e-9, ...every);
  const several = found.texts.length > 1;
  const shares = found.texts.flatMap((text) => {
    const characters = new Characters(text.text);
    return text.tokens.map((token) => ({ ...token, word: characters.slice(token.start, token.end), field: text.field }));
  });
  const strongest = shares.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 8);
  return el("div", { class: "attribution" },
    ...found.texts.flatMap((text) => [several ? el("h4", { text: text.field }) : null, drawShares(text, largest)]),
    el("p", { class: "legend" },
      el("span", { class: "share for", css: { "--share": "0.8" }, text: "for" }), " the answer, ",
      el("span", { class: "share against", css: { "--share": "0.8" }, text: "against" }), " it (dotted). ",
      el("span", { class: "hint", text: `Score ${found.score.toFixed(2)}; with every token masked ${found.baseline.toFixed(2)}; the shares miss the difference by ${Math.abs(found.error).toFixed(3)}.` })),
    table("Largest shares", several ? ["Token", "Share", "In"] : ["Token", "Share"],
      strongest.map((share) => [share.word, signed(share.value), ...(several ? [share.field] : [])])));
}

function drawShares(text, largest) {
  const characters = new Characters(text.text);
  const passage = el("p", { class: "passage", dir: "auto" });
  let at = 0;
  for (const token of text.tokens) {
    if (token.start < at) continue; // bytes of one character
    passage.append(characters.slice(at, token.start), el("span", {
      class: `share ${token.value < 0 ? "against" : "for"}`,
      css: { "--share": (Math.abs(token.value) / largest).toFixed(3) },
      title: signed(token.value),
    }, characters.slice(token.start, token.end)));
    at = token.end;
  }
  passage.append(characters.slice(at));
  return passage;
}
