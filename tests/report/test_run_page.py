"""The page of a run: it holds what the folder holds, escapes it, and stands a folder that is not whole."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.inference.fill_result import Candidate, Filling, FillResult, MaskPosition, MaskRun
from spanlab.report.run_history import History, read_run, summarise
from spanlab.report.run_page import Section, run_page
from tests.report.runs import records, write_run

VOID = {"meta", "br", "line", "polyline", "circle"}
TEXT = "A <b>[MASK] [MASK]</b> & more."


class Page(HTMLParser):
    """Titles, text and curves of a page; fails on tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles: list[str] = []
        self.marks: list[str] = []
        self.polylines: list[tuple[str, list[tuple[float, float]]]] = []
        self.tips: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "polyline":
            told = {name: value or "" for name, value in attrs}
            points = [tuple(map(float, point.split(","))) for point in told["points"].split()]
            self.polylines.append((told["class"], points))  # type: ignore[arg-type]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.titles.append(data)
        if self.open[-1:] == ["mark"]:
            self.marks.append(data)
        if self.open[-2:] == ["rect", "title"]:
            self.tips.append(data)
        if "style" not in self.open:
            self.text += data


def fill_result(filling: str) -> FillResult:
    def one(name: str, share: float) -> Candidate:
        return Candidate(token=name, text=name, begins_word=True, probability=share)

    places = tuple(MaskPosition(start=s, end=s + 6, mlm=(one("x<y", 0.5),), sbo=(one("&", 0.25),)) for s in (5, 12))
    fillings = {law: (Filling(text=f"{filling} {law}", tokens=("a", "b"), score=-1.5),) for law in ("mlm", "mlm+sbo")}
    run = MaskRun(start=5, end=18, places=places, fillings=fillings)  # type: ignore[arg-type]
    return FillResult(text=TEXT, filled=f"A <b>{filling}</b> & more.", runs=(run,))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    fillings = {time: [fill_result(f"<{time}>").to_dict()] for time in ("before", "after")}
    return write_run(tmp_path / "run", fillings=fillings)


def test_everything_has_its_section(run: Path) -> None:
    html = run_page(run, [Section(title="Errors & such", html="<p>three</p>")])
    page = Page(html)
    assert page.titles == [
        "Scores", "Loss", "Accuracy and scores", "Optimiser", "Speed", "Errors & such", "Notes", "Fillings", "Config",
        "Environment",
    ]  # fmt: skip
    assert "spanbert mini" in page.text
    assert "400 of 400" in page.text
    assert "21 min 4 s" in page.text
    assert "the loss is 3.2 times its recent mean" in page.text
    assert "geometric_p: 0.2" in page.text
    assert "2.13.0" in page.text


def test_the_page_needs_nothing_beside_it(run: Path) -> None:
    html = run_page(run)
    assert not re.search(r"https?://|<script|<link|\ssrc=|url\(|@import", html)
    assert "prefers-color-scheme: dark" in html


def test_text_from_files_is_never_markup(run: Path) -> None:
    told = records(3)
    told[1]["notes"] = ["<script>alert(1)</script>"]
    told[2]["loss.<i>"] = 2.0
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in told))
    (run / "config.yaml").write_text("system: <u>x\n")
    (run / "environment.json").write_text(json.dumps({"<s>": ["<q>", {"a": 1}]}))
    (run / "status.json").write_text(json.dumps({"state": "<em>", "step": 3, "steps": 9, "message": "<h1>"}))
    html = run_page(run)
    Page(html)
    for tag in ("<script", "<i>", "<u>", "<s>", "<q>", "<em>", "<h1>alert", "<before>"):
        assert tag not in html
    assert "&lt;script&gt;" in html


def test_fillings_stand_side_by_side(run: Path) -> None:
    page = Page(run_page(run))
    assert page.marks[0].replace("\xa0", "") == "··"
    assert page.marks[1:] == ["<before> mlm", "<before> mlm+sbo", "<after> mlm", "<after> mlm+sbo"]
    assert page.text.count("A <b>") == 5
    only_after = replace(fill_result("x"), runs=())
    (run / "fillings.json").write_text(json.dumps({"after": [only_after.to_dict()]}))
    assert "before training" not in run_page(run)


def test_curves_are_the_numbers(run: Path) -> None:
    history = History(read_run(run).records)
    page = Page(run_page(run))
    curves = [points for kind, points in page.polylines if kind == "dev dots"]
    dev = history.series("dev", "loss")
    points = curves[0]
    assert len(points) == len(dev) == 20
    # Places are a linear map of steps and values, upwards.
    for column, values, rising in ((0, dev.steps, True), (1, dev.values, False)):
        drawn = [point[column] for point in points]
        scale = (drawn[-1] - drawn[0]) / (values[-1] - values[0])
        assert bool(scale > 0) is rising
        expected = [drawn[0] + scale * (value - values[0]) for value in values]
        assert drawn == pytest.approx(expected, abs=0.11)
    assert f"held-out: {dev.values[-1]:.3g}" in page.tips[79]
    assert page.tips[0].startswith("step 1\n")


def test_long_runs_are_drawn_with_few_points_and_keep_their_spikes(tmp_path: Path) -> None:
    steps = 5000
    page = Page(run_page(write_run(tmp_path, steps=steps)))
    assert len(page.polylines) > 8
    assert max(len(points) for _, points in page.polylines) <= 600
    raw_mlm = [points for kind, points in page.polylines if kind == "train faint"][1]
    spike = min(raw_mlm[20:], key=lambda point: point[1])
    assert spike[1] == pytest.approx(10, abs=0.1)  # cut off at the upper edge
    assert spike[0] == pytest.approx(52 + (550 - 52 - 20) / 3, abs=1)


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("task: ner\n")
    assert Page(run_page(tmp_path)).titles == ["Config"]
    (tmp_path / "metrics.jsonl").write_text(json.dumps(records(9)[0]) + '\n{"step": 2, "spl')
    assert Page(run_page(tmp_path)).titles == ["Scores", "Loss", "Optimiser", "Speed", "Config"]
    (tmp_path / "config.yaml").unlink()
    assert tmp_path.name in Page(run_page(tmp_path)).text


def test_numbers_that_are_none(tmp_path: Path) -> None:
    told = [{"step": n, "split": "train", "loss": value} for n, value in enumerate([2.0, math.nan, math.inf, 1.0], 1)]
    told.append({"step": 4, "split": "dev", "loss": math.nan, "f1": None})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in told))
    history = History(read_run(tmp_path).records)
    assert history.series("train", "loss").values.tolist() == [2.0, 1.0]
    assert len(history.series("dev", "f1")) == 0
    Page(run_page(tmp_path))


def test_the_summary(run: Path) -> None:
    files = read_run(run)
    summary = summarise(files, History(files.records))
    courses = {course.name: course for course in summary.courses}
    train = [record["loss.sbo"] for record in files.records if record["split"] == "train"]
    dev = {record["step"]: record["accuracy.mlm"] for record in files.records if record["split"] == "dev"}
    assert courses["loss.sbo"].train_first == train[0]
    assert courses["loss.sbo"].train_now == pytest.approx(sum(train[-40:]) / 40)
    assert courses["loss.sbo"].dev_best_step == 400
    assert courses["accuracy.mlm"].dev_best == max(dev.values())
    assert (courses["accuracy.mlm"].dev_first, courses["accuracy.mlm"].train_now) == (dev[20], None)
    assert "lr" not in courses
    assert [(one.name, one.bytes) for one in summary.checkpoints] == [("step-00000200", 1502), ("step-00000400", 1502)]
    assert json.loads(json.dumps(summary.to_dict()))["title"] == "spanbert mini"


def test_steps_done_again_count_once(tmp_path: Path) -> None:
    """A run that was killed goes back to its checkpoint and tells some steps anew."""
    told = [{"step": step, "split": "train", "loss": value} for step, value in ((1, 9.0), (2, 8.0), (3, 7.0), (2, 6.0))]
    history = History(told)
    assert history.series("train", "loss").steps.tolist() == [1, 2, 3]
    assert history.series("train", "loss").values.tolist() == [9, 6, 7]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "metrics.jsonl",
            '{"step": 1, "split": "train"}\nnonsense\n{"step": 2, "split": "train"}\n',
            r"jsonl:2: not a ",
        ),
        ("metrics.jsonl", '{"split": "train"}\n{"step": 2, "split": "train"}\n', r"jsonl:1: not a record"),
        ("config.yaml", "[1, 2]", r"config\.yaml: not the config of a run"),
        ("config.yaml", "a: [", r"config\.yaml:1:5: not valid YAML"),
        ("status.json", "[]", r"status\.json: not a JSON object"),
        ("fillings.json", '{"after": [{"txt": ""}]}', r"fillings\.json: unknown key 'txt' \(did you mean 'text'"),
    ],
)
def test_damaged_files_are_named(name: str, content: str, message: str, run: Path) -> None:
    (run / name).write_text(content)
    with pytest.raises(InputError, match=message):
        run_page(run)


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run folder: it has neither"):
        run_page(tmp_path)
    with pytest.raises(InputError, match="no such run folder"):
        run_page(tmp_path / "nowhere")
