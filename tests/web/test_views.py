"""Every view, in both themes, on a desk and on a phone: what is drawn is what the server says, and can be read."""

import json
from typing import Any

import pytest

from tests.serving.servers import TEXT, RunningServer
from tests.web.browsing import LONG, Visit

WINDOWS = [
    pytest.param(("light", 1280), id="light-1280"),
    pytest.param(("dark", 375), id="dark-375"),
    pytest.param(("dark", 1280), id="dark-1280", marks=pytest.mark.slow),
    pytest.param(("light", 375), id="light-375", marks=pytest.mark.slow),
]
every_window = pytest.mark.parametrize("visit", WINDOWS, indirect=True)


def post(server: RunningServer, path: str, body: Any) -> Any:
    with server.client() as client:
        response = client.post(path, json=body)
        assert response.status_code == 200, response.text
        return response.json()


@every_window
def test_the_empty_page(visit: Visit) -> None:
    visit.check_readable()
    assert visit.page.locator("#tasks input:checked").count() == 1
    background = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    theme = visit.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
    assert (background == "rgb(20, 23, 27)") == (theme == "dark")


@every_window
def test_everything_a_model_can_find_and_why(visit: Visit, server: RunningServer) -> None:
    answer = visit.ask("multitask", "all", text=LONG, question="Who sold the flour?")
    said = post(server, "/v1/all?model=multitask", {"text": LONG, "question": "Who sold the flour?"})
    assert answer.locator("h2").all_inner_texts() == [task.capitalize() for task in said]
    marked = answer.locator("section:has(h2:text-is('Names')) mark").all_inner_texts()
    assert [text.split() for text in marked] == [[span["text"], span["label"]] for span in said["names"]["spans"]]
    assert answer.locator("section:has(h2:text-is('Who')) .verdict").inner_text() == said["who"]["answer"]
    assert answer.locator("section:has(h2:text-is('Topics')) .verdict").inner_text() == said["topics"]["label"]
    visit.check_readable()
    why = visit.why()
    assert why.locator(".share.for, .share.against").count() > 10
    visit.check_readable()


@every_window
def test_answers(visit: Visit, server: RunningServer) -> None:
    answer = visit.ask("multitask", "task-who", question="Who sold the flour?", context=TEXT)
    said = post(server, "/v1/who", {"question": "Who sold the flour?", "context": TEXT})
    assert answer.locator("mark").inner_text() == said["answer"]
    rows = answer.locator("tbody tr")
    assert rows.count() == min(6, len(said["nbest"]))
    assert rows.nth(1).locator("td").first.inner_text() == said["nbest"][1]["answer"]
    rows.nth(1).locator("button.link").click()
    assert answer.locator("mark").inner_text() == said["nbest"][1]["answer"]
    assert rows.nth(1).locator("button.link").get_attribute("aria-pressed") == "true"
    answer.get_by_text("Show all").click()
    assert answer.locator("tbody tr").count() == len(said["nbest"])
    visit.check_readable()
    visit.why()
    assert visit.page.locator(".why h4").all_inner_texts() == ["question", "context"]


@every_window
def test_labels_entities_and_chosen_sentences(visit: Visit, server: RunningServer) -> None:
    answer = visit.ask("multitask", "task-topics", text=TEXT)
    said = post(server, "/v1/topics", {"text": TEXT})
    numbers = [float(text.split()[0]) for text in answer.locator(".number").all_inner_texts()]
    assert numbers == pytest.approx(sorted((100 * share for share in said["scores"].values()), reverse=True), abs=0.6)
    visit.check_readable()

    answer = visit.ask("ner-span", "task-ner", text=LONG)
    said = post(server, "/v1/ner", {"text": LONG})
    assert answer.locator("mark").count() == len(said["spans"]) == answer.locator("tbody tr").count()
    visit.check_readable()

    answer = visit.ask("summarisation", "task-summarisation", text=LONG)
    said = post(server, "/v1/summarisation", {"text": LONG})
    chosen = [LONG[sentence["start"] : sentence["end"]] for sentence in said["sentences"]]
    drawn = visit.page.evaluate("[...document.querySelectorAll('mark')].map((node) => node.firstChild.textContent)")
    assert drawn == chosen
    visit.check_readable()


@every_window
def test_who_is_who(visit: Visit, server: RunningServer) -> None:
    answer = visit.ask("coref", "task-coref", text=TEXT)
    said = post(server, "/v1/coref", {"text": TEXT})
    assert answer.locator("mark").count() == len(said["mentions"])
    assert answer.locator(".who li").count() == len(said["clusters"])
    answer.locator("mark").first.hover()
    assert answer.locator("mark.lit").count() == len(said["clusters"][0])
    answer.locator(".who li").first.focus()
    assert answer.locator("mark.lit").count() == len(said["clusters"][0])
    visit.page.mouse.move(0, 0)
    visit.check_readable()
    why = visit.why(1)
    assert "She → Anna" in why.locator("h3").inner_text()
    visit.check_readable()


@every_window
def test_relations_as_arcs_and_as_triples(visit: Visit, server: RunningServer) -> None:
    answer = visit.ask("relation-joint", "task-relation", text=LONG)
    said = post(server, "/v1/relation?model=relation-joint", {"text": LONG})
    assert answer.locator("path.arc").count() == len(said["relations"]) > 6
    rows = [row.split("\t")[:3] for row in answer.locator("tbody tr").all_inner_texts()]
    names = [entity["text"] for entity in said["entities"]]
    triples = [(names[r["head"]], r["label"], names[r["tail"]]) for r in said["relations"]]
    assert [(row[0], row[1].split(maxsplit=1)[1], row[2]) for row in rows] == triples
    ends = visit.page.evaluate(ARC_ENDS)
    assert max(ends) < 4, "an arc does not begin at its entity"
    visit.check_readable()
    if visit.width == 1280:  # where lines break elsewhere, the arcs follow
        visit.page.set_viewport_size({"width": 700, "height": 900})
        visit.page.wait_for_timeout(200)
        assert max(visit.page.evaluate(ARC_ENDS)) < 4


ARC_ENDS = """() => {
  const left = document.querySelector(".with-arcs").getBoundingClientRect().left;
  const boxes = [...document.querySelectorAll("[data-entity]")].map((node) => node.getClientRects()[0]);
  const middles = boxes.map((box) => box.left + box.width / 2 - left);
  const starts = [...document.querySelectorAll("path.arc")].map((path) => path.getPointAtLength(0).x);
  return starts.map((x) => Math.min(...middles.map((middle) => Math.abs(x - middle))));
}"""


@every_window
def test_pairs_and_several_texts(visit: Visit, server: RunningServer) -> None:
    pair = {"text_a": "Anna sold the flour.", "text_b": "Anna sold flour in Delft."}
    answer = visit.ask("multitask", "task-alike", **pair)
    said = post(server, "/v1/alike?model=multitask", pair)
    assert float(answer.locator(".verdict").inner_text()) == pytest.approx(said["score"], abs=0.006)
    visit.check_readable()

    answer = visit.ask("multitask", "compare", lines="The mill stood.\n\nThe mill stood.\nA comet returns.")
    cells = [float(text) for text in answer.locator(".shade").all_inner_texts()]
    assert len(cells) == 9
    assert cells[0] == cells[1] == cells[4] == cells[8] == 1.0
    assert cells[2] == cells[6] < 1
    visit.check_readable()


@every_window
def test_masks_filled_by_both_heads(visit: Visit, server: RunningServer) -> None:
    text = "The old [MASK] [MASK] went out to sea."
    answer = visit.ask("spanbert", "fill", text=text)
    said = post(server, "/v1/fill", {"text": text})
    (run,) = said["runs"]
    assert answer.locator("thead th").all_inner_texts() == ["Mask", "MLM", "SBO"]
    lists = answer.locator(".candidates").all()
    assert len(lists) == 4
    first = lists[0].locator("li").first.inner_text().split()[0].lstrip("·")
    assert first == run["places"][0]["mlm"][0]["text"]
    assert said["filled"] == answer.locator(".passage").inner_text().replace("\xa01", "")
    visit.check_readable()


@every_window
def test_attention(visit: Visit, server: RunningServer) -> None:
    answer = visit.ask("tiny", "attention", text="The comet returns.")
    visit.page.select_option("#attention-layer", "2")
    visit.page.wait_for_selector("#attention-layer option[value='2'][selected]", state="attached")  # drawn anew
    said = post(server, "/v1/attention?model=tiny", {"text": "The comet returns.", "layer": 2, "head": 1})
    tokens = answer.locator(".tokens button")
    assert tokens.count() == len(said["tokens"])
    tokens.nth(2).click()
    drawn = visit.page.evaluate(
        "[...document.querySelectorAll('.tokens button')].map((node) => Number(node.style.getPropertyValue('--share')))"
    )
    assert drawn == pytest.approx([min(1.0, weight**0.7) for weight in said["weights"][2]], abs=0.01)
    visit.page.keyboard.press("ArrowRight")
    assert tokens.nth(3).get_attribute("aria-pressed") == "true"
    visit.check_readable()


@every_window
def test_generation(visit: Visit) -> None:
    answer = visit.ask("generation-both", "task-generation", source=TEXT)
    assert answer.locator(".passage").inner_text() == "Anna was glad."
    assert answer.locator("button[aria-label^=Why]").count() == 0
    visit.check_readable()


@every_window
def test_samples_in_three_languages(visit: Visit) -> None:
    for language in ("en", "zh", "ko"):
        option = visit.page.locator(f"#sample option[lang={language}]").first
        visit.page.select_option("#sample", option.get_attribute("value"))
        visit.choose("multitask", "all")
        assert len(visit.page.input_value("#field-text")) > 60
        visit.page.click("#run")
        visit.page.wait_for_selector("#answer .tools")
        visit.check_readable()
        visit.page.evaluate("document.getElementById('answer').replaceChildren()")
        visit.page.fill("#field-text", "")


def test_a_shown_result_is_the_servers_json(visit: Visit, server: RunningServer) -> None:
    answer = visit.ask("multitask", "task-names", text=TEXT)
    answer.locator("summary:has-text('JSON')").click()
    shown = json.loads(answer.locator("pre").inner_text())
    assert shown == post(server, "/v1/names?model=multitask", {"text": TEXT})
