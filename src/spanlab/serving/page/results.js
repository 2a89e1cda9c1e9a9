// The result of each task, drawn on its text, with the same things in a list or table that can be read aloud.

import { COLOURS, Characters, bar, el, percent, table } from "./dom.js";
import { colourOf, drawArcs, drawSpans, linkByKey, tag } from "./spans.js";

const MOST_NAMED_ARCS = 6; // of more, the arcs have the numbers of the rows below

/** Result, input and `why(answer, name)`, a button that explains an answer, to what is shown; by kind of task. */
export const DRAWINGS = {
  classification: drawLabels,
  similarity: drawSimilarity,
  ner: drawEntities,
  qa: drawAnswers,
  coref: drawClusters,
  relation: drawRelations,
  summarisation: drawSummary,
  generation: (result) => el("p", { class: "passage", dir: "auto" }, el("b", { text: result.text })),
};

/** What is to be said of every result: whether some of the text was left out. */
export function remarks(result) {
  if (result.truncated) return el("p", { class: "note", text: "Some of the text was too long for the model and was left out." });
  if (result.windows === 0) return el("p", { class: "note", text: "There is no text to look at." });
  return result.windows > 1 ? el("p", { class: "hint", text: `The text was read in ${result.windows} windows.` }) : null;
}

function labelBars(scores, why) {
  const rows = Object.entries(scores).sort((a, b) => b[1] - a[1]);
  return table("Labels and their probabilities", ["Label", "Probability", ""],
    rows.map(([label, score]) => [label, bar(score), why(label, label)]), { class: "wide-second" });
}

function drawLabels(result, input, why) {
  const chosen = result.labels ?? (result.label === null ? [] : [result.label]);
  const said = chosen.length ? chosen.map((label) => el("span", { class: "verdict", text: label })) : [el("span", { class: "hint", text: "no label" })];
  return el("div", {}, el("p", { class: "verdicts" }, ...said), labelBars(result.scores, why));
}

function drawSimilarity(result, input, why) {
  if (result.scores) return drawLabels(result, input, why);
  const score = result.score === null ? "—" : result.score.toFixed(2);
  return el("div", {}, el("p", { class: "verdicts" }, el("span", { class: "verdict", text: score })), el("p", {}, why(null, "this score")));
}

function drawEntities(result, input, why) {
  const colour = colourOf(result.spans.map((span) => span.label));
  const spans = result.spans.map((span, index) => ({
    ...span, colour: colour(span.label), key: `e${index}`, title: `${span.label}, ${percent(span.score)}`,
  }));
  const list = table("Entities", ["Entity", "Label", "Probability", ""],
    result.spans.map((span, index) => [keyed(`e${index}`, span.text), span.label, bar(span.score), why(index, span.text)]));
  return linkByKey(el("div", {}, drawSpans(input.text ?? "", spans), result.spans.length ? list : nothing("No entity was found.")));
}

function keyed(key, text) {
  return el("span", { "data-key": key, dir: "auto" }, text);
}

const nothing = (text) => el("p", { class: "hint", text });

function drawAnswers(result, input, why) {
  const contexts = Array.isArray(input.context) ? input.context : [input.context ?? ""];
  const passage = el("div", {});
  const show = (answer) => {
    const document = answer.document ?? 0;
    const spans = answer.start === null ? [] : [{ start: answer.start, end: answer.end, label: "", colour: 0, key: "answer" }];
    passage.replaceChildren(drawSpans(contexts[document] ?? "", spans));
  };
  const nbest = result.nbest ?? [];
  const buttons = nbest.map((answer) => {
    const name = answer.start === null ? "no answer" : answer.answer;
    const button = el("button", { type: "button", class: "link", dir: "auto", text: name });
    button.addEventListener("click", () => {
      show(answer);
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    });
    button.setAttribute("aria-pressed", String(answer.start === result.start && answer.end === result.end && answer.document === result.document));
    return button;
  });
  show(result);
  const verdict = result.no_answer
    ? el("span", { class: "verdict none", text: "no answer in this text" })
    : el("span", { class: "verdict", dir: "auto", text: result.answer });
  const rows = nbest.map((answer, index) => [buttons[index], bar(answer.score), why(index, answer.answer || "no answer")]);
  return el("div", {},
    el("p", { class: "verdicts" }, verdict, el("span", { class: "hint", text: percent(result.score) })),
    passage,
    rows.length ? folded("Best answers", rows, (shown) => table("Best answers; press one to see it in the text", ["Answer", "Probability", ""], shown)) : null);
}

/** The first rows of a long table, and a button for the others. */
function folded(name, rows, draw, most = 6) {
  const box = el("div", {}, el("h3", { text: name }), draw(rows.slice(0, most)));
  if (rows.length > most) {
    const more = el("button", { type: "button", class: "quiet", text: `Show all ${rows.length}` });
    more.addEventListener("click", () => box.replaceChildren(el("h3", { text: name }), draw(rows)));
    box.append(more);
  }
  return box;
}

function drawClusters(result, input, why) {
  const spans = result.mentions.map((mention) => ({
    ...mention, label: String(mention.cluster + 1), colour: mention.cluster, key: `k${mention.cluster}`,
    title: `who is who: ${mention.cluster + 1}`,
  }));
  const characters = new Characters(input.text ?? "");
  const items = result.clusters.map((cluster, index) => {
    const names = cluster.map(([start, end]) => characters.slice(start, end));
    const name = names.reduce((longest, other) => (other.length > longest.length ? other : longest));
    const mentions = result.mentions.flatMap((mention, place) => (mention.cluster === index ? [{ mention, place }] : []));
    return el("li", { "data-key": `k${index}`, tabindex: 0 },
      el("span", { class: `tag c${index % COLOURS}`, text: String(index + 1) }),
      el("span", {}, el("b", { dir: "auto", text: name }), el("span", { class: "hint", text: ` ${names.length} ${names.length === 1 ? "mention" : "mentions"}` }),
        el("span", { class: "mentions" }, ...mentions.map(({ mention, place }) => why(place, mention.text, mention.text)))));
  });
  const list = el("ol", { class: "who", "aria-label": "Who is who" }, ...items);
  return linkByKey(el("div", {}, drawSpans(input.text ?? "", spans),
    ...(items.length ? [el("h3", { text: "Who is who" }), list] : [nothing("No two mentions refer to the same.")])));
}

function drawRelations(result, input, why) {
  const colour = colourOf(result.entities.map((entity) => entity.label));
  const spans = result.entities.map((entity, index) => ({ ...entity, colour: colour(entity.label), key: `e${index}` }));
  const passage = drawSpans(input.text ?? "", spans);
  for (const node of passage.querySelectorAll("[data-key]")) node.dataset.entity = node.dataset.key.slice(1);
  const numbered = result.relations.length > MOST_NAMED_ARCS;
  const rows = result.relations.map((relation, index) => {
    const [head, tail] = [result.entities[relation.head], result.entities[relation.tail]];
    const name = el("span", {}, numbered ? el("span", { class: `tag c${index % COLOURS}`, text: String(index + 1) }) : null, numbered ? " " : null, relation.label);
    return [keyed(`r${index}`, head.text), name, keyed(`r${index}`, tail.text), bar(relation.score), why(index, `${head.text} ${relation.label} ${tail.text}`)];
  });
  const arcs = result.relations.map((relation, index) => ({ ...relation, label: numbered ? String(index + 1) : relation.label }));
  const drawn = arcs.length ? drawArcs(passage, arcs) : passage;
  return linkByKey(el("div", {}, drawn,
    rows.length ? table("Triples", ["From", "Relation", "To", "Probability", ""], rows) : nothing("No relation was found.")));
}

function drawSummary(result, input, why) {
  const text = input.text ?? (input.sentences ?? []).join(" ");
  const spans = result.sentences.map((sentence, index) => ({ ...sentence, label: String(index + 1), colour: 0, key: `s${index}` }));
  const characters = new Characters(text);
  const rows = result.sentences.map((sentence, index) => [
    keyed(`s${index}`, `${index + 1}. ${characters.slice(sentence.start, sentence.end)}`), bar(sentence.score), why(index, `sentence ${index + 1}`),
  ]);
  return linkByKey(el("div", {}, drawSpans(text, spans),
    rows.length ? table("Chosen sentences", ["Sentence", "Probability", ""], rows, { class: "wide-first" }) : nothing("No sentence was chosen.")));
}

/** Cosines of all pairs of texts, from unit vectors, as a table whose shades follow its numbers. */
export function drawMatrix(texts, vectors) {
  const cosine = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
  const short = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);
  const head = ["", ...texts.map((_, index) => String(index + 1))];
  const rows = texts.map((text, row) => [
    el("span", { class: "row-name", dir: "auto" }, `${row + 1}. ${short(text)}`),
    ...texts.map((_, column) => {
      const value = cosine(vectors[row], vectors[column]);
      return el("span", { class: "shade", css: { "--share": String(Math.max(0, value)) }, text: value.toFixed(2) });
    }),
  ]);
  return table("Similarity of every two texts", head, rows, { class: "matrix" });
}

/** Masks filled: the text with the best filling of each run, and the candidates of both heads side by side. */
export function drawFillings(result) {
  const characters = new Characters(result.text);
  const filled = el("p", { class: "passage", dir: "auto" });
  let at = 0;
  result.runs.forEach((run, index) => {
    const best = run.fillings["mlm+sbo"]?.[0] ?? run.fillings.mlm?.[0];
    filled.append(characters.slice(at, run.start),
      el("mark", { class: `span c${index % COLOURS}` }, best ? best.text : "?", ...tag(String(index + 1))));
    at = run.end;
  });
  filled.append(characters.slice(at));
  return el("div", {}, filled, ...result.runs.map(drawRun), ...result.notes.map(nothing));
}

function drawRun(run, index) {
  const both = run.places.some((place) => place.sbo);
  const candidates = (list) => (list
    ? el("ol", { class: "candidates" }, ...list.slice(0, 6).map((candidate) => el("li", {},
      el("span", { dir: "auto", text: `${candidate.begins_word ? "" : "·"}${candidate.text || "␣"}` }), bar(candidate.probability))))
    : nothing("Not for a run of this length."));
  const fillings = Object.entries(run.fillings).filter(([, list]) => list.length);
  const rows = run.places.map((place, position) => [String(position + 1), candidates(place.mlm), ...(both ? [candidates(place.sbo)] : [])]);
  return el("section", { class: "fill-run" },
    el("h3", {}, `Masks ${index + 1}`),
    el("ul", { class: "fillings" }, ...fillings.map(([method, list]) => el("li", {},
      el("span", { class: "hint", text: method === "mlm" ? "MLM" : "MLM and SBO" }),
      el("span", { dir: "auto" }, el("b", { text: list[0].text }), list.length > 1 ? ` then ${list.slice(1, 4).map((one) => one.text).join(", ")}` : "")))),
    table(`Candidates of masks ${index + 1}`, both ? ["Mask", "MLM", "SBO"] : ["Mask", "MLM"], rows, { class: "upper" }),
    ...run.notes.map(nothing));
}
