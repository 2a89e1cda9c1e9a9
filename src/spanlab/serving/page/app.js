// The page: which model, which task, which input; what is asked of the server, and where its answer is shown.

import { curl, ofModel, request, setKey } from "./api.js";
import { drawAttention } from "./attention.js";
import { drawAttribution } from "./attribution.js";
import { copyButton, el, showError } from "./dom.js";
import { DRAWINGS, drawFillings, drawMatrix, remarks } from "./results.js";
import { hideRuns, showRuns } from "./runs.js";

const get = (id) => document.getElementById(id);
const state = { models: [], samples: [], choice: null, sample: null, asked: 0 };

const KINDS = {
  classification: "Labels", similarity: "Similarity", ner: "Entities", qa: "Answers", coref: "Who is who",
  relation: "Relations", summarisation: "Summary", generation: "Generation",
};
const FIELDS = {
  text: { label: "Text", rows: 8 },
  question: { label: "Question", rows: 2 },
  context: { label: "Text with the answer", rows: 8 },
  text_a: { label: "First text", rows: 3 },
  text_b: { label: "Second text", rows: 3 },
  source: { label: "Source text", rows: 5 },
  lines: { label: "Texts, one a line", rows: 6 },
};
const OPTIONAL = { question: "optional: answers are looked for with a question only" };

// ---- choosing

const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);
const model = () => state.models.find((one) => one.id === get("model").value);

/** What can be asked of a model, in the order of the buttons: {id, name, fields, kind, path, task}. */
function choices(chosen) {
  const { tasks, fill, embed, attention } = chosen.spanlab;
  const several = tasks.filter((task) => task.task !== "similarity" && task.task !== "generation");
  const texts = several.length > 1 ? [{
    id: "all", name: "Everything", path: "v1/all", kind: "all",
    fields: tasks.some((task) => task.task === "qa") ? ["text", "question"] : ["text"], optional: ["question"],
  }] : [];
  return [
    ...texts,
    ...tasks.map((task) => ({
      id: `task-${task.name}`, name: task.name === task.task ? KINDS[task.task] : capital(task.name),
      path: `v1/${task.name}`, kind: task.task, task, fields: task.fields, optional: [],
    })),
    ...(fill ? [{ id: "fill", name: "Fill [MASK]", path: "v1/fill", kind: "fill", fields: ["text"], optional: [] }] : []),
    ...(embed ? [{ id: "compare", name: "Compare texts", path: "v1/embeddings", kind: "compare", fields: ["lines"], optional: [] }] : []),
    ...(attention ? [{ id: "attention", name: "Attention", path: "v1/attention", kind: "attention", fields: ["text"], optional: [] }] : []),
  ];
}

function showChoices() {
  const all = choices(model());
  const before = state.choice?.id;
  get("tasks").replaceChildren(...all.map((choice) => {
    const input = el("input", { type: "radio", name: "task", id: `choice-${choice.id}`, value: choice.id });
    input.addEventListener("change", () => choose(choice));
    return el("span", { class: "chip" }, input, el("label", { for: input.id }, choice.name));
  }));
  const next = all.find((choice) => choice.id === before) ?? all[0];
  if (next) {
    get(`choice-${next.id}`).checked = true;
    choose(next);
  }
}

/** The inputs of a choice; texts that were written already stay. */
function choose(choice) {
  const written = values();
  state.choice = choice;
  get("fields").replaceChildren(...choice.fields.map(field));
  const main = written.text || written.context || written.source;
  for (const name of choice.fields) {
    const same = { text: main, context: main, source: main }[name] ?? "";
    get(`field-${name}`).value = written[name] || same;
  }
  const further = (choice.task?.optional ?? []).filter((name) => name !== "id");
  get("more").hidden = !further.length;
  get("more-note").textContent = further.length ? `This task also takes ${further.join(", ")}, as in a labelled file.` : "";
  for (const id of ["ask-error", "more-error"]) showError(get(id), "");
  if (state.sample && !main) useSample(state.sample);
}

function field(name) {
  const { label, rows } = FIELDS[name] ?? { label: name, rows: 4 };
  const id = `field-${name}`;
  const input = el("textarea", { id, rows, dir: "auto", spellcheck: "false", "aria-describedby": `${id}-error` });
  const note = state.choice.optional?.includes(name) ? el("span", { class: "hint", text: ` ${OPTIONAL[name] ?? "optional"}` }) : null;
  return el("div", { class: "field" }, el("label", { for: id }, label, note), input, el("p", { class: "error", id: `${id}-error`, role: "alert", hidden: true }));
}

function values() {
  const found = {};
  for (const name of state.choice?.fields ?? []) found[name] = get(`field-${name}`)?.value ?? "";
  return found;
}

// ---- samples

async function loadSamples() {
  state.samples = await request("static/samples.json");
  const names = { en: "English", zh: "中文", ko: "한국어" };
  get("sample").append(...Object.entries(names).map(([language, name]) => el("optgroup", { label: name },
    ...state.samples.filter((sample) => sample.language === language).map((sample) => el("option", { value: sample.id, lang: language }, sample.title)))));
}

function useSample(sample) {
  state.sample = sample;
  const [first, second] = sample.pair;
  const by = {
    text: state.choice.kind === "fill" ? sample.masked : state.choice.kind === "attention" ? sample.sentence : sample.text,
    context: sample.text, question: sample.question, source: sample.text, text_a: first, text_b: second,
    lines: sample.lines.join("\n"),
  };
  for (const name of state.choice.fields) if (by[name] !== undefined) get(`field-${name}`).value = by[name];
}

// ---- asking

/** The body of a request, or null where an input is missing, which is then said beside it. */
function body() {
  const given = values();
  let complete = true;
  for (const name of state.choice.fields) {
    const missing = !given[name].trim() && !state.choice.optional?.includes(name);
    mark(name, missing ? "Write something here first." : "");
    if (missing && complete) get(`field-${name}`).focus();
    complete &&= !missing;
  }
  const more = furtherFields();
  if (!complete || more === null) return null;
  if (state.choice.kind === "compare") return { input: given.lines.split("\n").map((line) => line.trim()).filter(Boolean), model: model().id };
  if (!given.question) delete given.question;
  return { ...given, ...more };
}

function furtherFields() {
  const written = get("more").hidden ? "" : get("more-json").value.trim();
  showError(get("more-error"), "");
  if (!written) return {};
  try {
    const more = JSON.parse(written);
    if (more && typeof more === "object" && !Array.isArray(more)) return more;
    showError(get("more-error"), "This must be a JSON object, such as {\"entities\": []}.");
  } catch (problem) {
    showError(get("more-error"), `This is not JSON: ${problem.message}`);
  }
  get("more").open = true;
  get("more-json").focus();
  return null;
}

function mark(name, message) {
  const input = get(`field-${name}`);
  if (message) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
  showError(get(`field-${name}-error`), message);
}

/** The path of a request: the model is named in the query, but in OpenAI's route in the body. */
const pathOf = (choice) => (choice.kind === "compare" ? choice.path : ofModel(choice.path, model().id));

async function ask(event) {
  event?.preventDefault();
  showError(get("ask-error"), "");
  const choice = state.choice;
  const sent = choice && body();
  if (!sent) return;
  const path = pathOf(choice);
  await busy(async () => {
    const turn = ++state.asked;
    const answer = await request(path, sent);
    if (turn !== state.asked) return; // something else was asked meanwhile
    const node = show(choice, sent, answer, model().id);
    get("answer").replaceChildren(el("div", { class: "panel" }, node, tools(path, sent, answer)));
    if (matchMedia("(max-width: 60rem)").matches) get("answer").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }, fail);
}

/** An error stands at the field it is about, or below the button. */
function fail(problem) {
  if (problem.status === 401) {
    askForKey();
    return;
  }
  const names = { input: state.choice.fields[0], lines: "lines" };
  const name = names[problem.where] ?? problem.where;
  const message = problem.code === "queue_full" ? `${problem.message} Try again in a moment.` : problem.message;
  if (state.choice.fields.includes(name)) {
    mark(name, message);
    get(`field-${name}`).focus();
  } else showError(get("ask-error"), message);
}

async function busy(work, failed) {
  const button = get("run");
  const waiting = setTimeout(() => { get("busy").textContent = "Working…"; get("busy").classList.add("turning"); }, 150);
  button.disabled = true;
  get("answer").setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (problem) {
    if (problem.status === undefined) throw problem;
    failed(problem);
  } finally {
    clearTimeout(waiting);
    button.disabled = false;
    get("busy").textContent = "";
    get("busy").classList.remove("turning");
    get("answer").removeAttribute("aria-busy");
  }
}

// ---- showing

function show(choice, sent, answer, name) {
  if (choice.kind === "all") return drawAll(sent, answer, name);
  if (choice.kind === "fill") return titled("Fill [MASK]", drawFillings(answer));
  if (choice.kind === "compare") return titled("Similarity of texts", drawMatrix(sent.input, answer.data.map((item) => item.embedding)));
  if (choice.kind === "attention") return titled("Attention", attentionView(sent, answer));
  return titled(choice.name, drawTask(choice.task, sent, answer, name));
}

const titled = (title, ...nodes) => el("section", {}, el("h2", { text: title }), ...nodes);

function drawAll(sent, answer, name) {
  const tasks = new Map(choices(model()).filter((choice) => choice.task).map((choice) => [choice.task.name, choice]));
  return el("div", { class: "all" }, ...Object.entries(answer).filter(([task]) => tasks.has(task)).map(([task, result]) => {
    const choice = tasks.get(task);
    const input = choice.kind === "qa" ? { question: sent.question, context: sent.text } : choice.fields[0] === "source" ? { source: sent.text } : { text: sent.text };
    return titled(choice.name, drawTask(choice.task, input, result, name));
  }));
}

/** A result with its explanations: a button at each answer opens the attribution below. */
function drawTask(task, input, result, name) {
  const place = el("div", { class: "why-place", "aria-live": "polite" });
  const why = (answer, title, text = "Why?") => {
    const button = el("button", { type: "button", class: text === "Why?" ? "quiet small" : "link", "aria-label": `Why ${title}?`, dir: "auto" }, text);
    button.addEventListener("click", () => explain(place, button, task, input, answer, title, name));
    return button;
  };
  const drawn = DRAWINGS[task.task](result, input, task.task === "generation" ? () => null : why);
  return el("div", {}, ...[remarks(result)].filter(Boolean), drawn, place);
}

async function explain(place, button, task, input, answer, title, name) {
  const path = ofModel("v1/attribution", name);
  const sent = { task: task.name, input, ...(answer === null ? {} : { answer }) };
  button.disabled = true;
  place.replaceChildren(el("p", { class: "turning", role: "status", text: "Following the answer to its tokens…" }));
  try {
    const found = await request(path, sent);
    place.replaceChildren(el("section", { class: "why" }, el("h3", {}, "Why “", el("span", { dir: "auto", text: found.answer || title }), "”?"), drawAttribution(found), tools(path, sent, found)));
  } catch (problem) {
    if (problem.status === undefined) throw problem;
    if (problem.status === 401) askForKey();
    place.replaceChildren(el("p", { class: "error", role: "alert", text: problem.message }));
  } finally {
    button.disabled = false;
    button.focus();
  }
}

function attentionView(sent, answer) {
  const box = el("div", {});
  const path = pathOf(state.choice);
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const draw = (data) => box.replaceChildren(drawAttention(sent.text, data, async (layer, head, moved) => {
    const next = { ...sent, layer, head };
    try {
      draw(await request(path, next));
      showError(error, "");
      get(`attention-${moved}`).focus();
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      showError(error, problem.message);
    }
  }));
  draw(answer);
  return el("div", {}, box, error);
}

/** Below every result: the same as JSON, and the command that made it. */
function tools(path, sent, answer) {
  const json = () => JSON.stringify(answer, null, 2);
  const details = el("details", { class: "raw" }, el("summary", { text: "JSON" }));
  details.addEventListener("toggle", () => { if (details.open && details.childElementCount === 1) details.append(el("pre", { tabindex: 0, text: json().slice(0, 100000) })); });
  return el("div", { class: "tools" }, copyButton("Copy JSON", json), copyButton("Copy curl", () => curl(path, sent)), details);
}

// ---- the frame

function askForKey() {
  get("key-form").hidden = false;
  showError(get("page-error"), "This server asks for its API key.");
  get("key").focus();
}

async function useKey(event) {
  event.preventDefault();
  setKey(get("key").value.trim());
  get("key-form").hidden = true;
  showError(get("page-error"), "");
  await start();
}

const THEMES = { auto: "as the system", light: "light", dark: "dark" };

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  get("theme").textContent = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" }[theme];
  get("theme").setAttribute("aria-label", `Theme: ${THEMES[theme]}`);
}

function theme() {
  try {
    return THEMES[localStorage.getItem("spanlab-theme")] ? localStorage.getItem("spanlab-theme") : "auto";
  } catch {
    return "auto";
  }
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % names.length];
  try {
    localStorage.setItem("spanlab-theme", next);
  } catch { /* without storage it lasts until the page is closed */ }
  showTheme(next);
}

async function showView() {
  const runs = location.hash === "#runs";
  get("view-try").hidden = runs;
  get("view-runs").hidden = !runs;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === (runs ? "runs" : "try")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = runs ? "Training runs · SpanLab" : "SpanLab";
  if (runs) await showRuns(get("runs"));
  else hideRuns();
}

async function start() {
  try {
    state.models = (await request("v1/models")).data.filter((one) => one.spanlab);
    get("model").replaceChildren(...state.models.map((one) => el("option", { value: one.id }, one.id)));
    showChoices();
    if (!state.samples.length) await loadSamples();
    await showView();
  } catch (problem) {
    if (problem.status === undefined) throw problem;
    if (problem.status === 401) askForKey();
    else showError(get("page-error"), problem.message);
  }
}

get("ask").addEventListener("submit", ask);
get("ask").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(event); });
get("key-form").addEventListener("submit", useKey);
get("model").addEventListener("change", showChoices);
get("sample").addEventListener("change", () => {
  const sample = state.samples.find((one) => one.id === get("sample").value);
  if (sample) useSample(sample);
});
get("theme").addEventListener("click", nextTheme);
addEventListener("hashchange", showView);
showTheme(theme());
start();
