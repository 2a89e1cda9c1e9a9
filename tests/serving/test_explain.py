"""The routes of explanations and of training runs: the library's answers, and refusals that name the place."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from spanlab.inference.attribution import attribute
from spanlab.report.attention import attention_of
from spanlab.serving.app import create_app
from spanlab.serving.served_model import ServedModel
from spanlab.serving.settings import ServeSettings
from tests.serving.servers import QUESTION, TEXT, same
from tests.web.browsing import write_run


def test_attention_is_that_of_the_encoder(client: TestClient, models: tuple[ServedModel, ...]) -> None:
    said = client.post("/v1/attention", json={"text": TEXT, "layer": 1, "head": 2}).json()
    model = models[0].predictor.model
    report = attention_of(model.encoder, model.tokenizer, TEXT)
    np.testing.assert_allclose(said["weights"], report.head(1, 2), atol=1e-3)
    assert [token["token"] for token in said["tokens"]] == list(report.tokens)
    words = [TEXT[token["start"] : token["end"]] for token in said["tokens"]]
    assert "".join(words) == TEXT.replace(" ", "")
    assert (said["layers"], said["heads"]) == report.weights_LHTT.shape[:2]


def test_attribution_is_that_of_the_library(client: TestClient, models: tuple[ServedModel, ...]) -> None:
    said = client.post("/v1/attribution", json={"task": "who", "input": QUESTION, "answer": 1}).json()
    found = attribute(models[0].predictor, QUESTION, task="who", answer=1)
    assert same(said, json.loads(json.dumps(found.to_dict())))
    assert [text["field"] for text in said["texts"]] == ["question", "context"]


@pytest.mark.parametrize(
    ("route", "body", "status", "place", "message"),
    [
        ("attention", {}, 422, "text", "the field 'text' is missing"),
        ("attention", {"text": 3}, 422, "text", "must be a text"),
        ("attention", {"text": "a", "layer": 99}, 422, "text", "no head 1 in layer 99"),
        ("attention", {"text": "a", "layer": True}, 422, "layer", "must be a whole number"),
        ("attention", {"text": "word " * 2000}, 422, "text", "tokens; the model takes"),
        ("attention", {"text": "a", "layr": 1}, 422, "body", "did you mean 'layer'"),
        ("attribution", {"task": "nobody", "input": {}}, 404, "path", "no task 'nobody'"),
        ("attribution", {"task": "who", "input": "x"}, 422, "input", "must be an object"),
        ("attribution", {"task": "who", "input": {**QUESTION, "contexts": 1}}, 422, "input", "did you mean 'context'"),
        ("attribution", {"task": "who", "input": QUESTION, "answer": 99}, 422, "input", "there is no answer 99"),
        ("attribution", {"task": "who", "input": QUESTION, "answer": [1]}, 422, "answer", "a label or an index"),
        ("attribution", {"task": "who", "input": QUESTION, "steps": 0}, 422, "input", "steps is 0"),
        ("attribution", {"task": "topics", "input": {"text": " "}}, 422, "input", "no text"),
    ],
)
def test_refusals_name_the_place(
    client: TestClient, route: str, body: dict[str, Any], status: int, place: str, message: str
) -> None:
    response = client.post(f"/v1/{route}", json=body)
    error = response.json()["error"]
    assert (response.status_code, message in error["message"]) == (status, True), error
    assert error["where"] in {place, "input 0"}, error


# ---- runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    write_run(runs / "first", range(1, 8), state="finished")
    write_run(runs / "study" / "deep", range(1, 4), state="running")
    write_run(tmp_path / "secret", range(1, 4), state="finished")
    (runs / "link").symlink_to(tmp_path / "secret")
    (runs / "odd").mkdir()
    (runs / "odd" / "metrics.jsonl").symlink_to(tmp_path / "secret" / "metrics.jsonl")
    (runs / "empty").mkdir()
    return runs


@pytest.fixture
def of_runs(models: tuple[ServedModel, ...], folder: Path) -> Iterator[TestClient]:
    with TestClient(create_app(ServeSettings(runs=folder), models), raise_server_exceptions=False) as client:
        yield client


def test_runs_are_those_below_the_folder(of_runs: TestClient, folder: Path) -> None:
    os.utime(folder / "first" / "metrics.jsonl", (1, 1))
    runs = of_runs.get("/v1/runs").json()["runs"]
    assert [(run["name"], run["state"], run["step"], run["steps"]) for run in runs] == [
        ("study/deep", "running", 3, 100),
        ("first", "finished", 7, 100),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "..%2fsecret",
        "first/../../secret",
        "link",
        "odd",
        "empty",
        "%2e%2e/secret",
        "nobody",
        "study",
        "//etc",
    ],
)
def test_nothing_else_can_be_read(of_runs: TestClient, name: str) -> None:
    response = of_runs.get(f"/v1/runs/{name}/metrics")
    assert response.status_code in {404, 405}
    assert "records" not in response.text


def test_metrics_are_followed_line_by_line(of_runs: TestClient, folder: Path) -> None:
    path = "/v1/runs/study/deep/metrics"
    whole = of_runs.get(path).json()
    assert [record["step"] for record in whole["records"]] == [1, 2, 3]
    assert (whole["start"], whole["lines"], whole["more"]) == (0, 3, False)
    follow = {"after": whole["lines"], "mark": whole["mark"]}
    assert of_runs.get(path, params=follow).json()["records"] == []
    with (folder / "study" / "deep" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "split": "train", "loss": 1.0}\n{"step": 5, "spl')  # being written
    said = of_runs.get(path, params=follow).json()
    assert [record["step"] for record in said["records"]] == [4]
    assert (said["start"], said["lines"]) == (3, 4)
    assert of_runs.get(path, params={"after": 2}).json()["records"][0]["step"] == 3


def test_a_run_that_was_resumed_earlier_is_sent_from_its_start(of_runs: TestClient, folder: Path) -> None:
    path = "/v1/runs/study/deep/metrics"
    known = of_runs.get(path).json()
    (folder / "study" / "deep" / "metrics.jsonl").unlink()
    write_run(folder / "study" / "deep", range(1, 6), state="running", height=9.0)
    said = of_runs.get(path, params={"after": known["lines"], "mark": known["mark"]}).json()
    assert (said["start"], said["lines"], len(said["records"])) == (0, 5, 5)


@pytest.mark.parametrize("after", ["-1", "x", "", "1e3", "٣", "9" * 30])
def test_a_line_is_a_number(of_runs: TestClient, after: str) -> None:
    response = of_runs.get("/v1/runs/first/metrics", params={"after": after})
    assert response.status_code == 422
    assert response.json()["error"]["where"] == "after"


def test_a_damaged_run_is_refused_in_words(of_runs: TestClient, folder: Path) -> None:
    (folder / "first" / "metrics.jsonl").write_text("no json\n")
    (folder / "first" / "status.json").write_text("[]")
    response = of_runs.get("/v1/runs/first/metrics")
    assert response.status_code == 422
    assert "not a record of a run" in response.json()["error"]["message"]
    assert {run["name"]: run["state"] for run in of_runs.get("/v1/runs").json()["runs"]}["first"] == "unknown"


def test_without_a_folder_there_are_no_runs(client: TestClient) -> None:
    assert client.get("/v1/runs").json() == {"runs": []}
    assert client.get("/v1/runs/first/metrics").status_code == 404
