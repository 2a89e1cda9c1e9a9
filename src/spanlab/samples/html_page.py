"""Passages of the almanac as one self-contained HTML page.

What enters is a list of passages; what leaves is the page: one card for each, and for more than one an index with a
search field. Mentions are nested elements. Answers may overlap them, so the text is split where an answer starts or
ends, and each part names its questions. Labels are drawn by the style sheet and are not part of the text: what a reader
copies is the passage.
"""

from collections.abc import Sequence
from html import escape
from importlib import resources
from itertools import pairwise
from pathlib import Path

from spanlab.atomic_io import disk_problem, write_atomically
from spanlab.errors import InputError
from spanlab.samples import Answer, Mention, Passage, Question, Relation

LANGUAGE_NAMES = {"en": "English", "zh": "中文", "ko": "한국어"}
# The golden angle: entities with neighbouring numbers get distant hues.
HUE_STEP = 137.5


def draw_page(passages: Sequence[Passage]) -> str:
    """The page as HTML."""
    style, script = (_resource(f"html_page.{suffix}") for suffix in ("css", "js"))
    title = passages[0].title if len(passages) == 1 else "The almanac"
    cards = "\n".join(_card(passage) for passage in passages)
    index = _index(passages) if len(passages) > 1 else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body{' class="many"' if index else ""}>
{index}<main>
{cards}
</main>
<script>
{script}</script>
</body>
</html>
"""


def write_page(passages: Sequence[Passage], path: Path, *, overwrite: bool = False) -> None:
    """Write the page to a file."""
    if path.exists() and not overwrite:
        raise InputError("file exists", path=path, fix="choose another file, or use --overwrite")
    try:
        write_atomically(path, draw_page(passages).encode())
    except OSError as error:
        if disk_problem(error) is not None:
            raise
        raise InputError(f"cannot be written ({error.strerror})", path=path, fix="choose another file") from error


def _resource(name: str) -> str:
    return (resources.files("spanlab.samples") / name).read_text(encoding="utf-8")


def _index(passages: Sequence[Passage]) -> str:
    rows = "\n".join(
        f'<li data-for="{passage.id}"><a href="#{passage.id}"><b>{passage.id}</b> '
        f'<span lang="{passage.language}">{escape(passage.title)}</span></a></li>'
        for passage in passages
    )
    return f"""<nav aria-label="Passages">
<h1>The almanac</h1>
<input type="search" placeholder="Search {len(passages)} passages" aria-label="Search the passages">
<ol>
{rows}
</ol>
</nav>
"""


def _card(passage: Passage) -> str:
    about = [LANGUAGE_NAMES[passage.language], passage.topic, passage.style, passage.split, passage.sentiment]
    chips = "".join(f"<li>{escape(part)}</li>" for part in about if part)
    return f"""<article id="{passage.id}" lang="{passage.language}">
<header lang="en"><code>{passage.id}</code><ul class="about">{chips}</ul></header>
<h2>{escape(passage.title)}</h2>
<p class="text">{_text(passage)}</p>
<div class="layers">
<section><h3 lang="en">Questions</h3><ol class="questions">{_questions(passage.questions)}</ol></section>
<section><h3 lang="en">Relations</h3><ul class="relations">{_relations(passage)}</ul>
<h3 lang="en">Pairs</h3><ul class="pairs">{_pairs(passage)}</ul></section>
</div>
</article>"""


def _text(passage: Passage) -> str:
    """The text sentence by sentence; space between sentences is kept, paragraphs as line feeds."""
    parts, last = [], 0
    for sentence in passage.sentences:
        mentions = [m for m in passage.mentions if sentence.start <= m.start < sentence.end]
        inside = _inside(passage, sentence.start, sentence.end, mentions)
        css_class = "sentence key" if sentence.key else "sentence"
        parts.append(escape(passage.text[last : sentence.start]) + f'<span class="{css_class}">{inside}</span>')
        last = sentence.end
    return "".join(parts)


def _inside(passage: Passage, start: int, end: int, mentions: Sequence[Mention]) -> str:
    """The characters from `start` to `end` with the given mentions, outer before inner, as nested elements."""
    html, done = "", start
    for index, mention in enumerate(mentions):
        if mention.start < done:
            continue
        inner = [other for other in mentions[index + 1 :] if other.start < mention.end]
        html += _split_at_answers(passage, done, mention.start)
        html += _open(mention) + _inside(passage, mention.start, mention.end, inner) + "</span>"
        done = mention.end
    return html + _split_at_answers(passage, done, end)


def _open(mention: Mention) -> str:
    attributes = [f'class="mention {mention.label or "reference"}"']
    if mention.label:
        attributes.append(f'data-type="{mention.label}"')
    if mention.entity:
        attributes += [f'data-entity="{mention.entity}"', f'style="--hue: {_hue(mention.entity)}"']
    return f"<span {' '.join(attributes)}>"


def _hue(entity: int) -> int:
    return round(entity * HUE_STEP) % 360


def _split_at_answers(passage: Passage, start: int, end: int) -> str:
    """Text without mentions, split where an answer starts or ends, each part with the numbers of its questions."""
    spans = [(number, answer) for number, question in enumerate(passage.questions, start=1)
             for answer in _spans(question)]  # fmt: skip
    cuts = {edge for _, answer in spans for edge in (answer.start, answer.end) if start < edge < end}
    edges = sorted({start, end} | cuts)
    html = ""
    for first, last in pairwise(edges):
        text = escape(passage.text[first:last])
        answered = sorted({number for number, answer in spans if answer.start <= first and last <= answer.end})
        html += f'<span data-answers="{" ".join(map(str, answered))}">{text}</span>' if answered else text
    return html


def _spans(question: Question) -> tuple[Answer, ...]:
    return (question.tempting,) if question.tempting else question.answers


def _questions(questions: Sequence[Question]) -> str:
    items = []
    for number, question in enumerate(questions, start=1):
        answers = " ".join(f"<mark>{escape(answer.text)}</mark>" for answer in question.answers)
        if question.tempting:
            tempting = f"<s>{escape(question.tempting.text)}</s>"
            answers = f'<em lang="en">no answer in the text</em> {tempting}'
        items.append(f'<li tabindex="0" data-question="{number}">{escape(question.text)}<br>{answers}</li>')
    return "".join(items)


def _relations(passage: Passage) -> str:
    return "".join(_relation(passage, relation) for relation in passage.relations)


def _relation(passage: Passage, relation: Relation) -> str:
    head, tail = (_name(passage, entity) for entity in (relation.head, relation.tail))
    arrow = f'<span class="arrow" lang="en">{relation.label.replace("_", " ")}</span>'
    return f'<li tabindex="0" data-entities="{relation.head} {relation.tail}">{head}{arrow}{tail}</li>'


def _name(passage: Passage, entity: int) -> str:
    mention = passage.name_of(entity)
    return _open(mention) + escape(passage.span(mention)) + "</span>"


def _pairs(passage: Passage) -> str:
    return "".join(
        f'<li class="{"same" if pair.same else "different"}">'
        f"<span>{escape(pair.text_a)}</span><span>{escape(pair.text_b)}</span></li>"
        for pair in passage.pairs
    )
