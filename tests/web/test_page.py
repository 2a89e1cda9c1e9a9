"""What the page does beside drawing: errors where they are looked for, keyboard, copying, themes, keys, live runs."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spanlab.samples import load
from tests.cli.run import run_here
from tests.serving.servers import TEXT
from tests.tiny_model import write_tiny_model
from tests.web.browsing import LONG, Visit, write_run

PAGE = Path(__file__).resolve().parents[2] / "src" / "spanlab" / "serving" / "page"


def alerts(visit: Visit) -> list[str]:
    return [text for text in visit.page.locator("[role=alert]:visible").all_inner_texts() if text]


def answer_with(visit: Visit, pattern: str, status: int, value: Any) -> None:
    """Have the browser get this answer in place of the server's."""
    visit.page.route(pattern, lambda route: route.fulfill(status=status, json=value))


# ---- errors


def test_an_empty_field_is_named_where_it_is(visit: Visit) -> None:
    visit.choose("multitask", "task-who")
    visit.page.fill("#field-context", TEXT)
    visit.page.click("#run")
    assert visit.page.locator("#field-question-error").inner_text() == "Write something here first."
    assert visit.page.evaluate("document.activeElement.id") == "field-question"
    assert visit.page.get_attribute("#field-question", "aria-invalid") == "true"
    visit.check_readable()
    visit.page.fill("#field-question", "Who sold the flour?")
    visit.page.click("#run")
    visit.page.wait_for_selector("#answer mark")
    assert alerts(visit) == []


def test_what_the_server_refuses_is_shown_at_the_input(visit: Visit) -> None:
    visit.choose("relation-pairs", "task-relation")
    visit.page.fill("#field-text", TEXT)
    visit.page.click("#run")
    visit.page.wait_for_selector("#field-text-error:visible, #ask-error:visible")
    assert "this model does not predict them" in " ".join(alerts(visit))
    visit.page.click("#more summary")
    visit.page.fill("#more-json", '{"entities": [')
    visit.page.click("#run")
    assert "This is not JSON" in visit.page.locator("#more-error").inner_text()
    entities = [{"start": 0, "end": 4, "label": "person"}, {"start": 23, "end": 28, "label": "place"}]
    visit.page.fill("#more-json", json.dumps({"entities": entities}))
    visit.page.click("#run")
    visit.page.wait_for_selector("#answer path.arc", state="attached")
    assert alerts(visit) == []


def test_a_full_queue_and_a_server_that_is_gone(visit: Visit) -> None:
    visit.choose("multitask", "task-topics")
    visit.page.fill("#field-text", TEXT)
    error = {"code": "queue_full", "message": "the queue is full", "where": None}
    answer_with(visit, "**/v1/topics*", 429, {"error": error})
    visit.page.click("#run")
    visit.page.wait_for_selector("#ask-error:visible")
    assert "the queue is full Try again in a moment." in visit.page.locator("#ask-error").inner_text()
    assert visit.page.is_enabled("#run")
    visit.page.unroute("**/v1/topics*")
    visit.page.route("**/v1/topics*", lambda route: route.abort())
    visit.page.click("#run")
    visit.page.wait_for_selector("#ask-error:has-text('does not answer')")
    visit.complaints = [text for text in visit.complaints if "net::ERR_FAILED" not in text]


def test_while_it_waits_the_page_says_so(visit: Visit) -> None:
    held: list[Any] = []
    visit.page.route("**/v1/topics*", lambda route: held.append(route))  # noqa: PLW0108
    visit.choose("multitask", "task-topics")
    visit.page.fill("#field-text", TEXT)
    visit.page.click("#run")
    visit.page.wait_for_selector("#busy:has-text('Working')")
    assert visit.page.get_attribute("#answer", "aria-busy") == "true"
    assert visit.page.is_disabled("#run")
    held[0].continue_()
    visit.page.wait_for_selector("#answer .verdict")
    assert visit.page.locator("#busy").inner_text() == ""
    assert visit.page.get_attribute("#answer", "aria-busy") is None


def test_the_page_asks_for_a_key(visit: Visit) -> None:
    error = {"error": {"code": "unauthorized", "message": "the key is missing or wrong", "where": None}}

    def check(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer open sesame":
            route.continue_()
        else:
            route.fulfill(status=401, json=error)

    visit.page.route("**/v1/**", check)
    visit.page.goto("/")
    visit.page.wait_for_selector("#key-form:visible")
    assert "asks for its API key" in " ".join(alerts(visit))
    visit.check_readable()
    visit.page.fill("#key", "open sesame")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_selector("#tasks input", state="attached")
    assert alerts(visit) == []
    visit.ask("multitask", "task-topics", text=TEXT)
    visit.page.click("text=Copy curl")
    assert "open sesame" not in visit.page.evaluate("navigator.clipboard.readText()")


# ---- keyboard, copying, themes


def test_everything_can_be_reached_by_the_keyboard(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        outline = page.evaluate(OUTLINE)
        assert outline, f"no focus ring on {reached[-1]}"
    for wanted in ("theme", "model", "choice-all", "sample", "field-text", "field-question", "run"):
        assert wanted in reached
    page.focus("#choice-all")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "choice-task-topics"
    page.fill("#field-text", TEXT)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#answer .verdict")


OUTLINE = """() => {
  const node = document.activeElement;
  const shown = node.type === "radio" ? node.nextElementSibling : node;
  return parseFloat(getComputedStyle(shown).outlineWidth) >= 2;
}"""


def test_a_result_is_copied_as_json_and_as_the_command_that_made_it(visit: Visit) -> None:
    text = 'Anna\'s flour, "sold" in Delft $HOME `x` \\n 😀'
    visit.ask("multitask", "task-names", text=text)
    visit.page.click("text=Copy JSON")
    copied = json.loads(visit.page.evaluate("navigator.clipboard.readText()"))
    visit.page.wait_for_selector("button:has-text('Copied')")
    visit.page.click("text=Copy curl")
    command = visit.page.evaluate("navigator.clipboard.readText()")
    assert command.startswith("curl -s 'http://127.0.0.1:")
    if shutil.which("curl") is None:
        pytest.skip("no curl on this machine")
    said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(said.stdout) == copied


def test_the_theme_can_be_switched_and_is_remembered(visit: Visit) -> None:
    page = visit.page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.get_attribute("#theme", "aria-label") == "Theme: light"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light
    page.click("#theme")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    visit.check_readable()
    visit.open()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


# ---- spans


def drawn(visit: Visit, text: str, spans: list[dict[str, Any]]) -> str:
    """The text that `drawSpans` makes, with [ ] around its marks."""
    html: str = visit.page.evaluate(
        """async ([text, spans]) => (await import("/static/spans.js")).drawSpans(text, spans).innerHTML""",
        [text, spans],
    )
    plain = re.sub(r'<span class="(gap|tag)">([^<]*)</span>', lambda m: "" if m[1] == "gap" else f"_{m[2]}", html)
    return re.sub(r"<mark[^>]*>", "[", plain).replace("</mark>", "]")


def span(start: int, end: int, label: str) -> dict[str, Any]:
    return {"start": start, "end": end, "label": label, "colour": 0, "key": label}


def test_spans_nest_cross_and_count_characters_as_the_server_does(visit: Visit) -> None:
    assert drawn(visit, "the mayor of Oslo", [span(13, 17, "L"), span(4, 17, "P")]) == "the [mayor of [Oslo_L]_P]"
    assert drawn(visit, "abcdef", [span(0, 4, "x"), span(2, 6, "y")]) == "[ab[cd]_x][ef_y]"
    assert drawn(visit, "😀 Anna 𝄞", [span(2, 6, "P"), span(7, 8, "S")]) == "😀 [Anna_P] [𝄞_S]"
    assert drawn(visit, "ab", [span(0, 1, "x"), span(1, 2, "y"), span(0, 2, "z")]) == "[[a_x][b_y]_z]"
    assert drawn(visit, "<b>&", [span(1, 2, "<i>")]) == "&lt;[b_&lt;i&gt;]&gt;&amp;"


def test_text_is_never_markup(visit: Visit) -> None:
    text = "<img src=x onerror=alert(1)> Anna <script>alert(2)</script> sold the flour."
    answer = visit.ask("multitask", "all", text=text, question="<b>Who</b>?")
    assert answer.locator("img, script, b").count() == 0
    shown = answer.locator(".passage").first.inner_text()
    assert shown.replace("\xa0person", "").replace("\xa0place", "") == text


# ---- training runs


def last_values(visit: Visit) -> list[str]:
    rows: list[str] = visit.page.locator("#runs tbody tr").all_inner_texts()
    return rows


@pytest.mark.parametrize("visit", [("light", 1280), ("dark", 375)], indirect=True, ids=["light-1280", "dark-375"])
def test_runs_over_each_other_and_live(visit: Visit, runs_folder: Path) -> None:
    page, folder = visit.page, runs_folder / f"live-{visit.width}"
    write_run(folder, range(1, 12), state="running", height=7.0)
    page.click("nav a:has-text('Training runs')")
    page.wait_for_selector("path.curve:not(.raw)", state="attached")
    for name in ("first", "study/second", folder.name):
        page.get_by_label(name, exact=False).first.check()
    page.wait_for_selector("#runs tbody tr:nth-child(3)")
    assert page.locator("#runs svg.chart path.curve:not(.raw)").count() == 3
    visit.check_readable()

    write_run(folder, range(12, 21), state="running", height=3.0)
    page.wait_for_selector(f"#runs tbody tr:has-text('{folder.name}'):has-text('3.05')")
    (folder / "metrics.jsonl").unlink()  # as a resumed run writes it anew, from an earlier step
    write_run(folder, range(1, 6), state="finished", height=5.0)
    page.wait_for_selector(f"#runs tbody tr:has-text('{folder.name}'):has-text('5.2')")
    page.select_option("#metric", "lr")
    page.wait_for_selector("#runs tbody tr:has-text('1.0e-4')")
    page.locator("svg.chart").hover()
    assert re.match(r"step \d+ · .*first: ", page.locator(".values").inner_text())
    shutil.rmtree(folder)


# ---- what the page is made of


def test_the_page_is_small_and_needs_nothing_from_elsewhere() -> None:
    files = sorted(PAGE.iterdir())
    assert sum(file.stat().st_size for file in files) < 150_000
    for file in files:
        content = file.read_text(encoding="utf-8")
        addresses = set(re.findall(r"https?://[^\s\"'<>)]+", content))
        assert addresses <= {"http://www.w3.org/2000/svg"}, (file.name, addresses)
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", content), file.name
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", index)


def test_samples_are_passages_of_the_almanac() -> None:
    passages = {passage.id: passage for passage in load()}
    samples = json.loads((PAGE / "samples.json").read_text(encoding="utf-8"))
    assert {sample["language"] for sample in samples} == {"en", "zh", "ko"}
    for sample in samples:
        passage = passages[sample["id"]]
        assert (sample["text"], sample["title"]) == (passage.text, passage.title)
        assert sample["question"] in {question.text for question in passage.questions}
        assert sample["sentence"] in passage.text
        parts = re.split(r"(?: ?\[MASK\])+", sample["masked"])
        assert "[MASK]" in sample["masked"]
        assert all(part in passage.text for part in parts)
        assert sample["pair"] in [[pair.text_a, pair.text_b] for pair in passage.pairs]


def test_the_file_of_inspect_attention_is_the_same_view(browser: Any, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model")
    text = "The </script> <b>comet</b> returns."
    html = tmp_path / "attention.html"
    told = run_here(
        "inspect", "attention", str(model), text, "--layer", "2", "--head", "3", "--html", str(html), "--json"
    )
    weights = json.loads(told.stdout)["weights"]
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(html.as_uri())
    tokens = page.locator(".tokens button")
    assert tokens.count() == len(weights)
    assert (page.input_value("#attention-layer"), page.input_value("#attention-head")) == ("2", "3")
    tokens.nth(4).click()
    shown = page.evaluate(
        "[...document.querySelectorAll('.tokens button')].map((node) => Number(node.style.getPropertyValue('--share')))"
    )
    assert [share ** (1 / 0.7) for share in shown] == pytest.approx(weights[4], abs=0.01)
    page.select_option("#attention-head", "1")
    assert page.evaluate("document.activeElement.id") == "attention-head"
    assert complaints == []
    page.close()


def test_a_choice_stays_when_the_model_changes(visit: Visit) -> None:
    visit.choose("multitask", "compare")
    visit.page.fill("#field-lines", "a\nb")
    visit.page.select_option("#model", "coref")
    assert visit.page.is_checked("#choice-compare")
    assert visit.page.input_value("#field-lines") == "a\nb"
    visit.choose("coref", "task-coref")
    visit.page.fill("#field-text", LONG)
    visit.choose("multitask", "task-who")
    assert visit.page.input_value("#field-context") == LONG
