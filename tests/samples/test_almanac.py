"""The almanac's grammar, and the shipped passages against every check."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.samples import Passage, examine, load, parse
from spanlab.samples.markup import parse_inline
from spanlab.samples.passage import ENTITY_TYPES, Mention
from tests.samples.check_almanac import SHIPPED, find, read_files

SMALL = """\
% A passage to break.
## en-science-07 style=news split=dev
title: A bridge
* {1:PER|Ada} built a bridge in {2:LOC|Ulm}.
- {1|She} liked {LOC|{3:PER|Otto} Square}.

- {3:PER|Otto} liked {2:LOC|Ulm} too.

rel: 1 lives_in 2
q: Where is the bridge?
a@1: Ulm
q: When was it built?
not: Otto Square
same: Ada built it. | It was built by Ada.
diff: Ada saw Otto. | Otto saw Ada.
"""


def small_with(old: str, new: str) -> str:
    assert SMALL.count(old) == 1
    return SMALL.replace(old, new)


def test_reads_every_layer() -> None:
    (passage,) = parse(SMALL)
    assert (passage.id, passage.language, passage.topic) == ("en-science-07", "en", "science")
    assert (passage.style, passage.split, passage.sentiment) == ("news", "dev", None)
    assert passage.text == "Ada built a bridge in Ulm. She liked Otto Square.\nOtto liked Ulm too."
    assert [passage.span(sentence) for sentence in passage.sentences] == [
        "Ada built a bridge in Ulm.",
        "She liked Otto Square.",
        "Otto liked Ulm too.",
    ]
    assert [sentence.key for sentence in passage.sentences] == [True, False, False]
    assert [(passage.span(entity), entity.label) for entity in passage.entities] == [
        ("Ada", "PER"),
        ("Ulm", "LOC"),
        ("Otto Square", "LOC"),
        ("Otto", "PER"),
        ("Otto", "PER"),
        ("Ulm", "LOC"),
    ]
    clusters = [[passage.span(mention) for mention in cluster] for cluster in passage.clusters]
    assert clusters == [["Ada", "She"], ["Ulm", "Ulm"], ["Otto", "Otto"]]
    assert [(r.head, r.label, r.tail) for r in passage.relations] == [(1, "lives_in", 2)]
    answered, unanswered = passage.questions
    assert (answered.id, answered.answers[0].start, answered.tempting) == ("en-science-07-q1", 22, None)
    assert unanswered.answers == ()
    assert unanswered.tempting is not None
    assert passage.text[unanswered.tempting.start : unanswered.tempting.end] == "Otto Square"
    assert [pair.same for pair in passage.pairs] == [True, False]


FAULTS = [
    ("en-science-07", "en-science-7", 2, 4, "is not a passage id"),
    ("en-science-07", "fr-science-07", 2, 4, "unknown language 'fr'"),
    ("en-science-07", "en-sciense-07", 2, 7, "did you mean 'science'"),
    ("style=news", "style=new", 2, 24, "did you mean 'news'"),
    ("style=news", "stile=news", 2, 18, "did you mean 'style'"),
    ("split=dev", "split=dev split=dev", 2, 39, "given twice"),
    (" split=dev", "", 2, 4, "no split"),
    ("split=dev", "split=dev sentiment=mixed", 2, 4, "belongs to reviews and letters"),
    ("style=news", "style=review", 2, 4, "add sentiment="),
    ("style=news", "style=dialogue", 4, 3, "a turn without a speaker"),
    ("title: A bridge\n", "", 2, 4, "0 titles"),
    ("title: A bridge\n", "title: A\ntitle: B\n", 4, 8, "2 titles"),
    ("{1:PER|Ada}", "{1:PR|Ada}", 4, 4, "did you mean 'PER'"),
    ("{1:PER|Ada}", "{1:PER|Ada", 4, 3, "never closed"),
    ("{1:PER|Ada}", "Ada}", 4, 6, "closes nothing"),
    ("{1:PER|Ada}", "{1:PER Ada}", 4, 3, "without a tag"),
    ("{1:PER|Ada}", "{1:PER|Ada }", 4, 3, "space at the edge"),
    ("{1:PER|Ada}", "{1:PER|}", 4, 3, "empty mention"),
    ("{1:PER|Ada}", "{1:PER|{2|Ada}}", 4, 3, "two mentions cover 'Ada'"),
    ("{1:PER|Ada}", "{1:PER|Ada {1|Lee}}", 4, 14, "inside itself"),
    ("{1:PER|Ada}", "Ada | Ada", 4, 7, "'|' outside a tag"),
    ("{1:PER|Ada}", "{1:PER|Ada}\t", 4, 14, "U+0009"),
    ("built a", "built  a", 4, 20, "two spaces"),
    ("- {1|She}", "- {4|She}", 5, 6, "mentioned once and in no relation"),
    ("{3:PER|Otto} liked", "{3:LOC|Otto} liked", 7, 10, "entity 3 is PER above and LOC here"),
    ("- {1|She}", "{1|She}", 5, 1, "unknown kind of line"),
    ("rel: 1 lives_in 2", "rel: 1 live_in 2", 9, 8, "did you mean 'lives_in'"),
    ("rel: 1 lives_in 2", "rel: 2 lives_in 1", 9, 6, "the head of lives_in cannot be LOC"),
    ("rel: 1 lives_in 2", "rel: 1 lives_in 3", 9, 17, "the tail of lives_in cannot be PER"),
    ("rel: 1 lives_in 2", "rel: 1 lives_in 9", 9, 17, "entity 9 has no typed mention"),
    ("rel: 1 lives_in 2", "rel: 1 taught 1", 9, 6, "with itself"),
    ("rel: 1 lives_in 2", "rel: 1 lives_in 2\nrel: 1 lives_in 2", 10, 6, "occurs twice"),
    ("rel: 1 lives_in 2", "rel: Ada lives_in Ulm", 9, 6, "is not a relation"),
    ("rel: 1 lives_in 2", "rl: 1 lives_in 2", 9, 1, "did you mean 'rel'"),
    ("a@1: Ulm", "a: Ulm", 11, 4, "occurs 2 times"),
    ("a@1: Ulm", "a@3: Ulm", 11, 6, "occurs 2 times in the text, not 3"),
    ("a@1: Ulm", "a: Ul", 11, 4, "is not in the text"),
    ("a@1: Ulm", "a@1: Ulm\na@1: Ulm", 10, 4, "the same answer twice"),
    ("a@1: Ulm", "a@1: Ulm\nnot: Ada", 10, 4, "needs answers, or one 'not:'"),
    ("a@1: Ulm\n", "", 10, 4, "needs answers, or one 'not:'"),
    ("q: Where is the bridge?\n", "", 10, 6, "an answer without a question"),
    ("a@1: Ulm", "a@1: {2|Ulm}", 11, 6, "a bracket outside a sentence"),
    ("a@1: Ulm", "a@1:Ulm", 11, 1, "without a value"),
    ("q: Where is", "q@2: Where is", 10, 1, "makes no sense"),
    ("same: Ada built it. |", "same: Ada built it.", 14, 7, "two sentences"),
    ("diff: Ada saw Otto. | Otto saw Ada.", "diff: Ada. | Ada.", 15, 7, "are the same"),
    ("% A passage", "A passage", 1, 1, "unknown kind of line"),
    ("% A passage to break.", "q: Why?", 1, 4, "before the first header"),
    ("not: Otto Square\n", "not: Otto Square\nrel: 3 lives_in 2\n", 14, 6, "'rel' after 'not'"),
]


@pytest.mark.parametrize(("old", "new", "line", "column", "cause"), FAULTS)
def test_names_the_place_of_a_fault(old: str, new: str, line: int, column: int, cause: str) -> None:
    source = small_with(old, new)
    problems = examine(source, "file.txt").problems
    assert any(cause in str(p) and str(p).startswith(f"file.txt:{line}:{column}: ") for p in problems), problems
    with pytest.raises(InputError):
        parse(source)


def test_shows_all_faults_and_keeps_the_sound_passages() -> None:
    broken = SMALL.replace("07", "08").replace("{1:PER|Ada}", "{1:XYZ|Ada}").replace("split=dev", "split=def")
    examination = examine(SMALL + broken)
    assert [passage.id for passage in examination.passages] == ["en-science-07"]
    assert "unknown split 'def'" in str(examination.problems[0])
    both = examine(SMALL + SMALL)
    assert [problem.line for problem in both.problems] == [17]
    assert "also the passage of line 2" in str(both.problems[0])


@pytest.mark.parametrize("source", ["", "\n\n", "% nothing\n"])
def test_an_empty_file_is_a_fault(source: str) -> None:
    with pytest.raises(InputError, match="no passage"):
        parse(source)


def test_joins_sentences_as_the_language_does() -> None:
    header = "style=news split=dev\ntitle: t\n- {LOC|甲}乙。\n- 丙。\n\n- 丁。\n"
    assert parse(f"## zh-law-01 {header}")[0].text == "甲乙。丙。\n丁。"
    assert parse(f"## ko-law-01 {header}")[0].text == "甲乙。 丙。\n丁。"


def test_a_dialogue_knows_its_speakers() -> None:
    source = "## en-law-01 style=dialogue split=dev\ntitle: t\n- {PER|Bo}: Hi.\n- Well?\n\n- {PER|Al}: Hm.\n"
    assert [sentence.speaker for sentence in parse(source)[0].sentences] == ["Bo", "Bo", "Al"]


def test_the_name_of_an_entity_is_its_longest() -> None:
    source = "## en-law-01 style=news split=dev\ntitle: t\n- {2:ORG|{1:PER|Moss} Paper} hired {1:PER|Ada Moss}.\n"
    (passage,) = parse(source + "rel: 1 works_for 2\n")
    assert [passage.span(passage.name_of(entity)) for entity in (1, 2)] == ["Ada Moss", "Moss Paper"]


words = st.text(st.characters(codec="utf-8", exclude_characters="{}|", exclude_categories=["C", "Z"]), min_size=1)
tags = st.one_of(
    st.tuples(st.none(), st.sampled_from(ENTITY_TYPES)),
    st.tuples(st.integers(1, 99), st.one_of(st.none(), st.sampled_from(ENTITY_TYPES))),
)
trees = st.recursive(words, lambda inner: st.tuples(tags, st.lists(inner, min_size=2, max_size=3)), max_leaves=12)


def write_markup(tree: object, start: int, around: tuple[int, ...]) -> tuple[str, str, list[Mention]]:
    """The markup of a tree, its bare text and its mentions; a number used around is not used again inside."""
    if isinstance(tree, str):
        return tree, tree, []
    assert isinstance(tree, tuple)
    (entity, label), children = tree
    if entity in around:
        entity, label = None, label or "PER"
    markup, text = "", ""
    mentions: list[Mention] = []
    for child in children:
        child_markup, child_text, inside = write_markup(child, start + len(text), (*around, entity or 0))
        markup, text, mentions = markup + child_markup, text + child_text, mentions + inside
    tag = ":".join(str(part) for part in (entity, label) if part)
    mention = Mention(start=start, end=start + len(text), label=label, entity=entity)
    return f"{{{tag}|{markup}}}", text, [mention, *mentions]


@given(st.lists(trees, min_size=1, max_size=4))
def test_brackets_round_trip(forest: list[object]) -> None:
    markup, text = "", ""
    mentions: list[Mention] = []
    for tree in forest:
        tree_markup, tree_text, inside = write_markup(tree, len(text), ())
        markup, text, mentions = markup + tree_markup, text + tree_text, mentions + inside
    inline = parse_inline(markup)
    assert inline.text == text
    assert sorted(map(repr, inline.mentions)) == sorted(map(repr, mentions))
    assert [markup[place] for place in inline.offsets] == list(text)


@given(st.text(st.sampled_from("{}|1:PERab \n-*#q:a@2.title=samdf"), max_size=80))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    for source in (text, SMALL + text, "## en-law-01 style=news split=dev\ntitle: t\n- " + text):
        for problem in examine(source).problems:
            assert problem.line is not None
            assert 1 <= problem.line <= source.count("\n") + 1


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.txt")), ids=lambda path: path.stem)
def test_shipped_files_are_faultless(path: Path) -> None:
    everything, faults = read_files([path])
    assert not faults
    assert everything
    assert [str(finding) for finding in find(everything) if not finding.note] == []


def test_load_gives_the_shipped_passages() -> None:
    everything, _ = read_files(sorted(SHIPPED.glob("*.txt")))
    shipped: tuple[Passage, ...] = load()
    assert shipped == tuple(checked.passage for checked in everything)
