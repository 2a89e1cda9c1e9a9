"""What the passages must satisfy together: nothing twice, no template, balanced splits, enough of every layer."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from spanlab.samples import Passage
from tests.samples.almanac_findings import Checked, Finding, overlap, sequences, units

SHARES = {"train": 0.7, "dev": 0.1, "test": 0.2}
TOTALS = {
    "passages": 200,
    "passages in en": 160,
    "passages in zh": 20,
    "passages in ko": 20,
    "questions": 800,
    "unanswerable questions": 180,
    "entities": 1800,
    "coreference clusters": 300,
    "relations": 400,
    "relation types": 8,
    "similarity pairs": 200,
}
LARGEST = 500_000
ALIKE_PASSAGES = 0.15
ALIKE_QUESTIONS = 0.8
# Six words; ten characters are about as much in Chinese.
TEMPLATE_LENGTHS = {"en": 6, "ko": 6, "zh": 10}
PASSAGES_A_TEMPLATE = 3


def count_layers(passages: Sequence[Passage]) -> dict[str, int]:
    """How much there is of every layer."""
    counts = {
        "passages": len(passages),
        "sentences": sum(len(passage.sentences) for passage in passages),
        "key sentences": sum(sentence.key for passage in passages for sentence in passage.sentences),
        "entities": sum(len(passage.entities) for passage in passages),
        "coreference clusters": sum(len(passage.clusters) for passage in passages),
        "mentions in clusters": sum(len(cluster) for passage in passages for cluster in passage.clusters),
        "relations": sum(len(passage.relations) for passage in passages),
        "relation types": len({relation.label for passage in passages for relation in passage.relations}),
        "questions": sum(len(passage.questions) for passage in passages),
        "unanswerable questions": sum(not q.answers for passage in passages for q in passage.questions),
        "similarity pairs": sum(len(passage.pairs) for passage in passages),
        "paraphrases": sum(pair.same for passage in passages for pair in passage.pairs),
    }
    for language, count in Counter(passage.language for passage in passages).items():
        counts[f"passages in {language}"] = count
    return counts


def count_labels(passages: Sequence[Passage]) -> dict[str, Counter[str]]:
    """How often every label occurs, by layer."""
    return {
        "topic": Counter(passage.topic for passage in passages),
        "style": Counter(passage.style for passage in passages),
        "split": Counter(passage.split for passage in passages),
        "sentiment": Counter(passage.sentiment for passage in passages if passage.sentiment),
        "entity": Counter(entity.label or "" for passage in passages for entity in passage.entities),
        "relation": Counter(relation.label for passage in passages for relation in passage.relations),
    }


def check_set(everything: Sequence[Checked]) -> Iterator[Finding]:
    """What no passage may have in common with another."""
    yield from _check_ids_and_titles(everything)
    by_language: defaultdict[str, list[Checked]] = defaultdict(list)
    for checked in everything:
        by_language[checked.passage.language].append(checked)
    for language, group in by_language.items():
        yield from _check_alike_passages(group, language)
        yield from _check_alike_questions(group, language)
        yield from _check_templates(group, language)


def check_totals(passages: Sequence[Passage], size: int) -> list[str]:
    """What the whole almanac lacks, and whether its splits are balanced."""
    counts = count_layers(passages)
    problems = [f"{counts.get(layer, 0)} {layer}; {least} wanted" for layer, least in TOTALS.items()
                if counts.get(layer, 0) < least]  # fmt: skip
    if size >= LARGEST:
        problems.append(f"{size} bytes of passages; keep them under {LARGEST}")
    problems += _check_balance(passages, "language", lambda passage: passage.language)
    english = [passage for passage in passages if passage.language == "en"]
    problems += _check_balance(english, "topic", lambda passage: passage.topic)
    problems += _check_balance(passages, "style", lambda passage: passage.style)
    problems += _check_kinds_of_questions(passages)
    same = counts["paraphrases"] / max(1, counts["similarity pairs"])
    if not 0.4 <= same <= 0.6:
        problems.append(f"{same:.0%} of the pairs are paraphrases; keep 40 % to 60 %")
    return problems


def dates_and_amounts(passages: Sequence[Passage], *, answerable: bool) -> float:
    """The share of the questions, with an answer or without, whose (tempting) answer is a date or an amount."""
    asked = [
        any(e.label in {"DATE", "QUANTITY"} and e.start < span.end and span.start < e.end for e in passage.entities)
        for passage in passages
        for question in passage.questions
        for span in (question.answers or (question.tempting,))[:1]
        if span and bool(question.answers) == answerable
    ]
    return sum(asked) / max(1, len(asked))


def _check_kinds_of_questions(passages: Sequence[Passage]) -> list[str]:
    """The kind of a question must not give away that it has no answer."""
    problems = []
    for language in sorted({passage.language for passage in passages}):
        group = [passage for passage in passages if passage.language == language]
        without, others = (dates_and_amounts(group, answerable=answerable) for answerable in (False, True))
        if without - others > 0.25:
            cause = (
                f"{without:.0%} of the unanswerable questions are about dates and amounts, {others:.0%} of the others"
            )
            problems.append(f"{language}: {cause}; ask who, what, where and why too")
    return problems


def _check_balance(passages: Sequence[Passage], what: str, group: Callable[[Passage], str]) -> list[str]:
    """Each split holds its share of each group, to within a passage and a half or three in a hundred."""
    problems = []
    sizes = Counter(group(passage) for passage in passages)
    found = Counter((group(passage), passage.split) for passage in passages)
    for name, size in sizes.items():
        for split, share in SHARES.items():
            if abs(found[name, split] - share * size) > max(1.5, 0.03 * size):
                problems.append(f"{what} {name}: {found[name, split]} of {size} in {split}; {share * size:.0f} wanted")
    return problems


def _check_ids_and_titles(everything: Sequence[Checked]) -> Iterator[Finding]:
    for what in ("id", "title", "text"):
        seen: dict[str, Checked] = {}
        for checked in everything:
            value = getattr(checked.passage, what).lower()
            first = seen.setdefault(value, checked)
            if first is not checked:
                yield checked.at_line(checked.passage.line, f"the same {what} as {first.passage.id} in {first.path}")


def _check_alike_passages(group: Sequence[Checked], language: str) -> Iterator[Finding]:
    shingles = [(checked, sequences(units(checked.passage.text, language), 3)) for checked in group]
    for (a, shingles_a), (b, shingles_b) in combinations(shingles, 2):
        alike = overlap(shingles_a, shingles_b)
        if alike > ALIKE_PASSAGES:
            yield b.at_line(b.passage.line, f"the text is too like that of {a.passage.id} ({alike:.2f})")


def _check_alike_questions(group: Sequence[Checked], language: str) -> Iterator[Finding]:
    asked = []
    for checked in group:
        texts = [(question.line, question.text) for question in checked.passage.questions]
        texts += [(pair.line, f"{pair.text_a} {pair.text_b}") for pair in checked.passage.pairs]
        asked += [(checked, line, text, frozenset(units(text, language))) for line, text in texts]
    for (_, _, text_a, words_a), (b, line_b, _, words_b) in combinations(asked, 2):
        shortest, longest = sorted((len(words_a), len(words_b)))
        if shortest >= ALIKE_QUESTIONS * longest and overlap(words_a, words_b) >= ALIKE_QUESTIONS:
            yield b.at_line(line_b, f"too like '{text_a}'")


def _check_templates(group: Sequence[Checked], language: str) -> Iterator[Finding]:
    length = TEMPLATE_LENGTHS[language]
    users: defaultdict[tuple[str, ...], list[Checked]] = defaultdict(list)
    for checked in group:
        for words in _own_sequences(checked.passage, length):
            users[words].append(checked)
    for words, using in users.items():
        if len(using) > PASSAGES_A_TEMPLATE:
            text = ("" if language == "zh" else " ").join(words)
            last = using[-1]
            yield last.at_line(last.passage.line, f"'{text}' stands in {len(using)} passages; say it another way")


def _own_sequences(passage: Passage, length: int) -> set[tuple[str, ...]]:
    texts = [passage.text, *(question.text for question in passage.questions)]
    texts += [side for pair in passage.pairs for side in (pair.text_a, pair.text_b)]
    return set().union(*(sequences(units(text, passage.language), length) for text in texts))
