// Pointing at a mention lights its cluster, at a relation its two entities, at a question its answers in the text.
const unlit = () => document.querySelectorAll(".lit").forEach((node) => node.classList.remove("lit"));
const light = (event) => {
  unlit();
  const card = event.target.closest("article");
  const source = event.target.closest("[data-question], [data-entities], [data-entity]");
  if (!card || !source) return;
  const { question, entities, entity } = source.dataset;
  const wanted = question
    ? [`.text [data-answers~="${question}"]`]
    : (entities ?? entity).split(" ").map((number) => `.text [data-entity="${number}"]`);
  card.querySelectorAll(wanted.join()).forEach((node) => node.classList.add("lit"));
};
document.addEventListener("mouseover", light);
document.addEventListener("focusin", light);

// The search keeps the passages that hold every word typed, in their text, title, labels or questions.
const search = document.querySelector("nav input");
const texts = new Map();
search?.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/);
  document.querySelectorAll("nav li").forEach((row) => {
    const card = document.getElementById(row.dataset.for);
    if (!texts.has(card)) texts.set(card, card.textContent.toLowerCase());
    const found = words.every((word) => texts.get(card).includes(word));
    row.hidden = card.hidden = !found;
  });
});
