"""POST /v1/TASK: results are those of `predict`; lists, ids, errors with their place."""

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from spanlab.inference.writers import full_record
from spanlab.serving.app import create_app
from spanlab.serving.served_model import ServedModel, load_served
from spanlab.serving.settings import ServeSettings
from tests.serving.servers import DATA, MULTITASK, QUESTION, SPANBERT, TEXT, cases, load_models, same


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["task"])
def test_an_answer_is_the_prediction(client: TestClient, models: tuple[ServedModel, ...], case: dict) -> None:
    answer = client.post(f"/v1/{case['task']}", json=case["input"])
    assert answer.status_code == 200
    (predicted,) = models[0].predictor.predict(case["input"], task=case["task"])
    assert same(answer.json(), full_record(predicted), 1e-4)
    assert answer.json().keys() == case["said"].keys()


@pytest.mark.parametrize(
    "folder", ["coref", "relation-joint", "relation-pairs", "summarisation", "generation-causal", "lora", "added"]
)
def test_every_kind_of_task(folder: str) -> None:
    served = load_models(DATA / "tasks" / folder)
    asked = cases(folder)
    with TestClient(create_app(ServeSettings(), served)) as client:
        for case in asked:
            task = case["task"] or next(iter(served[0].tasks))
            answer = client.post(f"/v1/{task}", json=case["input"])
            assert answer.status_code == 200, answer.text
            (predicted,) = served[0].predictor.predict(case["input"], task=task)
            assert same(answer.json(), full_record(predicted), 1e-4)
        described = client.get("/v1/models").json()["data"][0]["spanlab"]
        assert [task["name"] for task in described["tasks"]] == list(served[0].tasks)


def test_a_list_keeps_its_order_and_one_bad_input_is_its_own(client: TestClient) -> None:
    inputs = [TEXT, {"text": 3}, {"id": "mine", "text": TEXT}, {"txt": "a"}, {"id": 7, "text": ""}, 5, None]
    answer = client.post("/v1/names", json=inputs)
    assert answer.status_code == 200
    first, wrong_type, named, unknown, empty, number, null = answer.json()
    assert [span["text"] for span in first["spans"]] == ["Anna", "Delft"]
    assert first["id"] == "0"
    assert wrong_type["id"] == "1"
    assert wrong_type["error"] == {
        "code": "invalid_input",
        "message": "'text' is 3; it must be text",
        "where": "input 1",
    }
    assert named == {**first, "id": "mine"}
    assert "did you mean 'text'" in unknown["error"]["message"]
    assert (empty["id"], empty["windows"], empty["spans"]) == ("7", 0, [])
    assert number["error"]["where"] == "input 5"
    assert null["error"]["message"].startswith("an input is null; 'ner' takes objects such as")
    assert client.post("/v1/names", json=[]).json() == []


def test_a_long_list_is_split_inside(models: tuple[ServedModel, ...]) -> None:
    inputs = [{"id": f"n{index}", "text": f"{'Anna' if index % 3 else 'Ivan'} swam at sea."} for index in range(300)]
    with TestClient(create_app(ServeSettings(batch_tokens=64, queue=8), models)) as client:
        answers = client.post("/v1/names", json=inputs).json()
        metrics = client.get("/metrics").text
    assert [answer["id"] for answer in answers] == [one["id"] for one in inputs]
    predicted = models[0].predictor.predict(inputs, task="names")
    assert all(same(answer, full_record(result), 1e-3) for answer, result in zip(answers, predicted, strict=True))
    assert "spanlab_waiting_inputs 0.0" in metrics
    largest = next(line for line in metrics.splitlines() if line.startswith('spanlab_batch_tokens_bucket{le="64.0"}'))
    count = next(line for line in metrics.splitlines() if line.startswith("spanlab_batch_tokens_count"))
    assert largest.split()[-1] == count.split()[-1] != "0.0", "no batch has more tokens than asked for"


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ('{"question": "Who?", "context": 3}', "'context' is 3; it must be text"),
        ('{"question": "Who?"}', "the field 'context' is missing"),
        ('{"question": "Who?", "context": "a", "answers": []}', "unknown field 'answers'"),
        ('{"question": "Who?", "context": "a", "id": {}}', "'id' is {}"),
        ('"Who?"', "an input is a text; 'qa' takes objects such as"),
        ('{"question": "Who?", "context": "a\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_a_single_bad_input_is_422_with_its_place(client: TestClient, body: str, part: str) -> None:
    answer = client.post("/v1/who", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error.keys() == {"code", "message", "where"}
    assert part in error["message"]


def test_all_tasks_whose_fields_are_given(client: TestClient) -> None:
    with_question = client.post("/v1/all", json={"text": TEXT, "question": QUESTION["question"], "id": "x"}).json()
    assert list(with_question) == ["topics", "names", "who"]
    assert all(result["id"] == "x" for result in with_question.values())
    assert with_question["who"]["answer"] == "Anna"
    single = client.post("/v1/names", json={"text": TEXT, "id": "x"}).json()
    assert same(with_question["names"], single, 1e-3)
    without = client.post("/v1/all", json={"text": TEXT}).json()
    assert list(without) == ["topics", "names"]
    assert client.post("/v1/all", json={"text": TEXT, "context": "a"}).status_code == 422
    assert client.post("/v1/all?model=spanbert", json={"text": TEXT}).json()["error"]["code"] == "invalid_input"


def test_fill(client: TestClient, models: tuple[ServedModel, ...]) -> None:
    text = "Anna sold [MASK] [MASK] in Delft."
    answer = client.post("/v1/fill", json={"text": text, "top": 3})
    assert answer.status_code == 200
    assert models[1].filler is not None
    assert same(answer.json(), models[1].filler.fill(text, top=3).to_dict(), 1e-3)
    for body, part in (
        ({"text": "no mask"}, "the text has no mask"),
        ({"text": "[MASK]" * 40}, "at most 32 masks"),
        ({"text": "[MASK]", "top": 0}, "'top' is 0"),
        ({"text": "[MASK]", "size": 1}, "unknown field 'size'"),
        ({"text": "[MASK] a" + " a" * 200}, "tokens, special ones included, and the model takes"),
    ):
        refused = client.post("/v1/fill", json=body)
        assert refused.status_code == 422
        assert part in refused.json()["error"]["message"]
    assert client.post("/v1/fill?model=multitask", json={"text": text}).status_code == 404


def test_what_does_not_exist(client: TestClient) -> None:
    answer = client.post("/v1/nams", json="a")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_task")
    assert "did you mean 'names'" in answer.json()["error"]["message"]
    answer = client.post("/v1/names?model=multitaks", json="a")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_model")
    assert client.get("/v1/names").json()["error"]["code"] == "method_not_allowed"
    assert client.get("/nothing").json()["error"]["code"] == "unknown_route"


def test_the_model_that_answers_a_task() -> None:
    first, second = str(DATA / "tasks" / "classification"), str(MULTITASK)
    served = load_served([second], tasks={"topics": second, "genre": first}, precision="fp32")
    assert {model.name: list(model.tasks) for model in served} == {
        "multitask": ["topics", "names", "alike", "who"],
        "classification": ["genre"],
    }
    with TestClient(create_app(ServeSettings(), served)) as client:
        renamed = client.post("/v1/genre", json=TEXT).json()
        assert renamed["label"] == client.post("/v1/topics", json=TEXT).json()["label"]
        assert list(client.post("/v1/all?model=classification", json={"text": TEXT}).json()) == ["genre"]


def test_two_folders_of_one_name(models: tuple[ServedModel, ...]) -> None:
    twice = [model.name for model in load_served([str(SPANBERT), str(SPANBERT) + "/"])]
    assert twice == ["spanbert", "spanbert-2"]
    renamed = [replace(model, name=f"m{index}") for index, model in enumerate(models)]
    with TestClient(create_app(ServeSettings(), renamed)) as client:
        assert [one["id"] for one in client.get("/v1/models").json()["data"]] == ["m0", "m1"]
        assert client.post("/v1/who?model=m0", json=QUESTION).json()["answer"] == "Anna"


def test_a_list_that_is_too_long(client: TestClient) -> None:
    for path, body in (("/v1/names", [""] * 100_001), ("/embed", {"inputs": [""] * 100_001})):
        answer = client.post(path, json=body)
        assert answer.status_code == 422
        assert "100,001" in answer.json()["error"]["message"]


def test_an_exported_folder_is_served(tmp_path: Path) -> None:
    """It answers and embeds; what looks into layers is refused in a line."""
    pytest.importorskip("onnxruntime", reason="the onnx extra is not installed")
    from spanlab.inference.onnx_export import export_onnx

    export_onnx(DATA / "tasks" / "multitask", tmp_path / "out")
    served = load_models(tmp_path / "out")
    with TestClient(create_app(ServeSettings(), served)) as client:
        for case in cases("multitask"):
            answer = client.post(f"/v1/{case['task']}", json=case["input"])
            assert answer.status_code == 200, answer.text
            assert answer.json().keys() == case["said"].keys()
        (vector,) = client.post("/v1/embeddings", json={"input": TEXT}).json()["data"]
        assert len(vector["embedding"]) == served[0].predictor.model.shape.width
        assert client.get("/v1/models").json()["data"][0]["spanlab"]["attention"] is False
        refused = client.post("/v1/attention", json={"text": TEXT})
        assert refused.status_code == 422
        assert "cannot be looked into" in refused.text
