"""Whatever users' data holds, a rendered card shows it as it is and interprets none of it."""

import re

import pytest
from markdown_it import MarkdownIt

from spanlab.markdown import code, code_block, plain
from spanlab.metrics.precision_recall import LabelScores
from spanlab.pretraining.card import write_card as write_pretraining_card
from spanlab.pretraining.recipe import load_recipe
from spanlab.tasks.base import FittedState
from spanlab.tasks.card import CardFacts, CardTask, write_card, write_shared_card
from spanlab.tasks.classification import Classification, ClassificationConfig
from spanlab.tasks.result import Scores

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "](http://evil.example)",
    "![x](http://evil.example/x.png)",
    "[click](javascript:alert(1))",
    "a|b",
    "`<b>`",
    "```\n<i>",
    "*bold* _and_ ~~struck~~ **more**",
    "# heading",
    "- item",
    "1. item",
    "line\n\n# break\n<hr>",
    "\\<b>",
    "&lt;b&gt;",
    "snake_case_name",
    "\u202etxt",
)
ONE_LINE = re.compile(r"\s+")


def rendered(markdown: str) -> str:
    """As HTML, by a renderer that lets raw HTML through and knows tables."""
    return str(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))


def shown(text: str) -> str:
    return ONE_LINE.sub(" ", "".join(c if c.isprintable() else " " for c in text)).strip()


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_shown_as_it_is(text: str) -> None:
    html = shown(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert rendered(plain(text)).replace("&quot;", '"') == f"<p>{html}</p>\n"
    assert rendered(f"x {code(text)}") == f"<p>x <code>{html}</code></p>\n"
    cells = rendered(f"| a | b |\n|---|---|\n| {plain(text)} | {code(text, cell=True)} |")
    assert f"<td>{html}</td>\n<td><code>{html}</code></td>" in cells
    block = rendered(code_block(text, "json"))
    assert block.count("<") == block.count("<pre>") + block.count("<code ") + 2


ROW = LabelScores(precision=100.0, recall=100.0, f1=100.0, support=1)


def tags(html: str) -> set[str]:
    return set(re.findall(r"<([a-z]\w*)", html))


def test_cards_interpret_nothing() -> None:
    task = Classification(ClassificationConfig(), FittedState(labels=HOSTILE, thresholds=dict.fromkeys(HOSTILE, 0.5)))
    settings = {"note": HOSTILE}
    scores = Scores(task="classification", count=3, metrics={"accuracy": 1.0}, per_label=dict.fromkeys(HOSTILE, ROW))
    text = " ".join(HOSTILE)
    dropped = dict.fromkeys(HOSTILE, 1)
    facts = CardFacts(base=text, train=text, dev=text, examples=3, dropped=dropped, settings=settings)
    expected = {"p", "h1", "h2", "h3", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "ul", "li"}
    one = write_card(task, facts, scores)
    several = write_shared_card([CardTask(name=text, task=task, facts=facts, scores=scores)] * 2, facts)
    pretrained = write_pretraining_card(load_recipe("bert", []), list(HOSTILE), 10)
    for card in (one, several, pretrained):
        html = rendered(card.split("---", 2)[2])
        assert tags(html) <= expected
