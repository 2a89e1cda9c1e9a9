"""Windows of all requests together: in what order they are computed, and what is computed beside them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from spanlab.inference.writers import full_record
from spanlab.serving.app import create_app
from spanlab.serving.served_model import ServedModel
from spanlab.serving.settings import ServeSettings
from spanlab.serving.state import Serving
from tests.serving.listening import hold_up, listening_app, read_answer, send, wait_until
from tests.serving.servers import DATA, QUESTION, TEXT, cases, load_models, same


class Steps:
    """Lets a model compute one batch at a time, and remembers the samples of each."""

    def __init__(self, model: ServedModel) -> None:
        self.batches: list[dict[str, int]] = []
        self.asked = 0
        self._permits = threading.Semaphore(0)
        self._predictor = model.predictor

    def allow(self, batches: int) -> None:
        self._permits.release(batches)

    def compute(self, samples: Any, **more: Any) -> Any:
        self.asked += 1
        assert self._permits.acquire(timeout=60)
        self.batches.append({task: sum(sample.tokens for sample in part) for task, part in samples.items()})
        return type(self._predictor).compute(self._predictor, samples, **more)


@contextmanager
def step_by_step(model: ServedModel) -> Iterator[Steps]:
    steps = Steps(model)
    model.predictor.compute = steps.compute  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        steps.allow(1_000_000)
        del model.predictor.compute  # type: ignore[method-assign]


def requests_in_lane(serving: Serving) -> int:
    """Requests with windows that no batch has yet taken."""
    assert serving.batcher._lanes is not None
    return len(serving.batcher._lanes[0]._waiting)


def test_short_requests_are_not_held_up_by_a_novel(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(batch_tokens=512), models)
    serving: Serving = app.state.serving
    novel = {"id": "novel", "text": f"{TEXT} " * 2000}
    with step_by_step(models[0]) as steps, listening_app(app) as address:
        long = send(address, novel)
        steps.allow(1)
        wait_until(lambda: len(steps.batches) == 1)
        short = [send(address, QUESTION, "/v1/who") for _ in range(5)]
        wait_until(lambda: requests_in_lane(serving) == 6)
        # One batch was about to be computed; the short ones share the next.
        steps.allow(3)
        for connection in short:
            answer = read_answer(connection)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b'"answer": "Anna"' in answer
            connection.close()
        assert serving.batcher.waiting == 1, "the novel waits for its other windows"
        assert len(steps.batches) <= 4
        steps.allow(1_000_000)
        answer = read_answer(long)
        long.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    (predicted,) = models[0].predictor.predict(novel, task="names")
    assert same(json.loads(answer.partition(b"\r\n\r\n")[2]), full_record(predicted), 1e-2)
    # A window at a time of 64 tokens: no more of one request in a batch than its share, until a batch ends it.
    *shares, last = [batch["names"] for batch in steps.batches if "names" in batch]
    assert max(shares) <= 64
    assert last <= 512
    assert predicted.windows - 8 <= len(shares) + 1 <= predicted.windows
    assert predicted.windows > 500


def test_requests_of_several_tasks_share_a_batch(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(), models)
    serving: Serving = app.state.serving
    bodies = {"names": TEXT, "topics": TEXT, "who": QUESTION, "alike": {"text_a": TEXT, "text_b": TEXT}}
    with step_by_step(models[0]) as steps, listening_app(app) as address:
        first = send(address, TEXT)
        wait_until(lambda: steps.asked == 1)
        others = {task: send(address, body, f"/v1/{task}") for task, body in bodies.items()}
        vectors = send(address, {"inputs": TEXT}, "/embed")
        wait_until(lambda: requests_in_lane(serving) == 5)
        steps.allow(2)
        for connection in (first, *others.values(), vectors):
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
            connection.close()
    assert [set(batch) for batch in steps.batches] == [{"names"}, {*bodies, "embedding/"}]


def test_a_text_of_a_few_windows_is_answered_by_one_batch(models: tuple[ServedModel, ...]) -> None:
    """What is beyond a request's share fills a batch that has room, and waits where it has none."""
    app = create_app(ServeSettings(batch_tokens=512), models)
    serving: Serving = app.state.serving
    with step_by_step(models[0]) as steps, listening_app(app) as address:
        first = send(address, TEXT)
        wait_until(lambda: steps.asked == 1)
        texts = [send(address, f"{TEXT} " * 7) for _ in range(3)]
        wait_until(lambda: requests_in_lane(serving) == 3)
        steps.allow(2)
        wait_until(lambda: serving.batcher.waiting == 2)
        assert len(steps.batches) == 2
        assert steps.batches[1]["names"] > 512 // 2, "one text is whole in the batch, beside shares of the others"
        steps.allow(1_000_000)
        read_answer(first)
        answers = [read_answer(connection) for connection in texts]
        for connection in (first, *texts):
            connection.close()
    counts = [answer.count(b'"Delft"') for answer in answers]
    assert counts[0] > 1
    assert len(set(counts)) == 1
    assert all(sum(batch.values()) <= 512 for batch in steps.batches)


def test_every_request_gets_its_turn(models: tuple[ServedModel, ...]) -> None:
    """Lists share a batch, whoever came first; none is computed to its end before another begins."""
    app = create_app(ServeSettings(batch_tokens=128), models)
    serving: Serving = app.state.serving
    with listening_app(app) as address:
        with hold_up(serving):
            lists = [send(address, [TEXT] * 60) for _ in range(3)]
            wait_until(lambda: serving.batcher.waiting == 180)
        for connection in lists:
            assert read_answer(connection).count(b'"Delft"') == 60
            connection.close()
    text = serving.metrics.to_text().decode()
    assert 'spanlab_batch_requests_bucket{le="2.0"}' in text
    assert "spanlab_queue_seconds_count 3.0" in text


def test_a_document_that_cannot_be_cut_is_computed_beside_the_others() -> None:
    (model,) = load_models(DATA / "tasks" / "coref")
    app = create_app(ServeSettings(batch_tokens=256), [model])
    serving: Serving = app.state.serving
    task = next(iter(model.tasks))
    document, path = f"{TEXT} " * 30, f"/v1/{task}"
    begun, free = threading.Event(), threading.Event()

    def compute(samples: Any, **more: Any) -> Any:
        if threading.current_thread().name == "spanlab-compute-long":
            begun.set()
            assert free.wait(60)
        return type(model.predictor).compute(model.predictor, samples, **more)

    model.predictor.compute = compute  # type: ignore[method-assign]
    with listening_app(app) as address:
        try:
            long = send(address, document, path)
            assert begun.wait(60)
            short = send(address, TEXT, path)
            assert read_answer(short).startswith(b"HTTP/1.1 200 ")
            assert serving.batcher.waiting == 1
        finally:
            free.set()
        answer = read_answer(long)
        assert answer.startswith(b"HTTP/1.1 200 ")
        for connection in (short, long):
            connection.close()


def test_texts_that_share_an_encoder_are_encoded_once(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(), models)
    with step_by_step(models[0]) as steps, TestClient(app) as client:
        steps.allow(1)
        answer = client.post("/v1/all", json={"text": TEXT, "question": QUESTION["question"]})
    assert set(answer.json()) == {"topics", "names", "who"}
    assert len(steps.batches) == 1
    metrics = app.state.serving.metrics.to_text().decode()
    assert "spanlab_batch_windows_sum 2.0" in metrics  # the text alone for two tasks, and behind its question


def test_one_input_that_fails_in_a_batch_fails_alone(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(), models)
    serving: Serving = app.state.serving
    predictor = models[0].predictor
    batches: list[list[str]] = []
    free = threading.Event()

    def compute(samples: Any, **more: Any) -> Any:
        batches.append(sorted(samples))
        assert free.wait(60)
        if "topics" in samples:
            raise RuntimeError("not enough memory for Anna's text")
        return type(predictor).compute(predictor, samples, **more)

    predictor.compute = compute  # type: ignore[method-assign]
    try:
        with listening_app(app) as address:
            first = send(address, TEXT)
            wait_until(lambda: len(batches) == 1)
            bad = send(address, TEXT, "/v1/topics")
            good = [send(address, TEXT) for _ in range(3)]
            wait_until(lambda: requests_in_lane(serving) == 4)
            free.set()
            answer = read_answer(bad)
            assert answer.startswith(b"HTTP/1.1 500 ")
            assert b"Anna" not in answer
            assert b"memory" not in answer
            for connection in (first, *good):
                assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
            for connection in (first, bad, *good):
                connection.close()
    finally:
        del predictor.compute  # type: ignore[method-assign]
    assert batches[:2] == [["names"], ["names", "topics"]]
    assert sorted(batches[2:]) == [["names"]] * 3 + [["topics"]]


def test_many_threads_of_clients_get_their_own_answers(models: tuple[ServedModel, ...]) -> None:
    asked = cases()
    wanted = [full_record(models[0].predictor.predict(case["input"], task=case["task"])[0]) for case in asked]
    wrong: list[Any] = []
    with TestClient(create_app(ServeSettings(batch_tokens=256), models)) as client:

        def ask(offset: int) -> None:
            for turn in range(12):
                index = (turn * 5 + offset) % len(asked)
                answer = client.post(f"/v1/{asked[index]['task']}", json=asked[index]["input"])
                if answer.status_code != 200 or not same(answer.json(), wanted[index], 1e-3):
                    wrong.append(answer.text)

        threads = [threading.Thread(target=ask, args=(offset,)) for offset in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


@pytest.mark.parametrize("batch_tokens", [8, 64, 100_000])
def test_results_do_not_depend_on_batches(models: tuple[ServedModel, ...], batch_tokens: int) -> None:
    inputs = [{"text": f"{TEXT} " * (1 + index % 7)} for index in range(20)]
    wanted = [full_record(result) for result in models[0].predictor.predict(inputs, task="names")]
    with TestClient(create_app(ServeSettings(batch_tokens=batch_tokens), models)) as client:
        assert same(client.post("/v1/names", json=inputs).json(), wanted, 1e-3)
