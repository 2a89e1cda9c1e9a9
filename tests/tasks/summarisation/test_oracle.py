"""The oracle: the same choice as a plain loop over the metric itself."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.metrics.generation import score_rouge
from spanlab.tasks.summarisation.config import Limit
from spanlab.tasks.summarisation.decode import RougeOracle

NAMES = ["rivers", "rose", "again", "over", "green", "fields"]
WORDS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=7).map(" ".join)


def plainly(sentences: list[str], references: list[str], most: int) -> list[int]:
    """Greedy search with `rouge-score` itself as the judge."""

    def worth(chosen: list[int]) -> float:
        summary = " ".join(sentences[n] for n in sorted(chosen))
        scores = [score_rouge([reference], [summary]) for reference in references]
        return max(score["rouge1"] + score["rouge2"] for score in scores)

    chosen: list[int] = []
    best = 0.0
    while len(chosen) < min(most, len(sentences)):
        tried = {n: worth([*chosen, n]) for n in range(len(sentences)) if n not in chosen}
        number = max(tried, key=lambda n: (round(tried[n], 6), -n))
        if tried[number] <= best + 1e-6:
            break
        best = tried[number]
        chosen.append(number)
    return sorted(chosen)


@settings(max_examples=40, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(WORDS, min_size=1, max_size=2), st.integers(1, 3))
def test_it_is_the_plain_loop(sentences: list[str], references: list[str], most: int) -> None:
    found = RougeOracle("en").choose(sentences, references, Limit(amount=float(most)))
    assert found == plainly(sentences, references, most)


def test_on_abstracts(real_data: Path) -> None:
    lines = (real_data / "summarisation/scitldr/dev.jsonl").read_text(encoding="utf-8").splitlines()[:12]
    for row in map(json.loads, lines):
        found = RougeOracle("en").choose(row["source"], row["target"], Limit(amount=2.0))
        assert found == plainly(row["source"], row["target"], 2)


def test_nothing_shared_is_nothing_chosen() -> None:
    assert RougeOracle("en").choose(["A river.", "A fog."], ["Unlike them all"], Limit(amount=2.0)) == []


def test_a_limit_in_words_holds() -> None:
    sentences = ["rivers rose again over the fields", "rivers rose", "again over"]
    assert RougeOracle("en").choose(sentences, ["rivers rose again over"], Limit(amount=4.0, unit="words")) == [1, 2]


def test_chinese_is_counted_by_character() -> None:
    assert RougeOracle("zh").choose(["河水上涨。", "雾散了。"], ["雾已散了"], Limit(amount=1.0)) == [1]


def test_rouge1_is_that_of_the_metric() -> None:
    references = ["Rivers rose over green fields.", "The fog lifted."]
    summary = "The rivers were rising over the fields."
    wanted = max(score_rouge([reference], [summary])["rouge1"] for reference in references)
    assert 100 * RougeOracle("en").rouge1(summary, references) == pytest.approx(wanted)
