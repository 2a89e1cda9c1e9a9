"""What every request passes: sizes, types, times, ids, headers, logs."""

import json
import re
import socket
from collections.abc import Iterator
from functools import partial

import httpx2
import pytest
from starlette.testclient import TestClient

from spanlab.serving.app import create_app
from spanlab.serving.gate import HEADERS
from spanlab.serving.served_model import ServedModel
from spanlab.serving.settings import ServeSettings
from spanlab.serving.state import Serving
from tests.serving.listening import (
    hold_up,
    listening,
    listening_app,
    read_all,
    read_answer,
    send,
    wait_until,
)
from tests.serving.servers import MULTITASK, QUESTION, TEXT

JSON = {"Content-Type": "application/json"}


def test_a_body_that_is_too_large(models: tuple[ServedModel, ...]) -> None:
    with listening(ServeSettings(max_body=1 << 20), models) as (host, port):
        url = f"http://{host}:{port}"
        for size in (1 << 20, 3 << 20):
            answer = httpx2.post(f"{url}/v1/names", content=json.dumps("a" * size), headers=JSON)
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "body_too_large"
            assert "1,048,576 bytes" in answer.json()["error"]["message"]
        assert httpx2.post(f"{url}/v1/names", content=_chunks(), headers=JSON).status_code == 413
        assert httpx2.post(f"{url}/v1/who", json=QUESTION).status_code == 200


def _chunks() -> Iterator[bytes]:
    yield b'"'
    for _ in range(40):
        yield b"a" * 65536
    yield b'"'


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_only_json_is_taken(client: TestClient, kind: str) -> None:
    answer = client.post("/v1/names", content=json.dumps(TEXT), headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "wrong_content_type"
    for accepted in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"):
        answer = client.post("/v1/names", content=json.dumps(TEXT), headers={"Content-Type": accepted})
        assert answer.status_code == 200


def test_ids_of_requests(client: TestClient) -> None:
    given = client.get("/health/live", headers={"X-Request-ID": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    made = [client.get("/health/live").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    for strange in ("a b", "x" * 200, "<script>", "a\x1b[0m"):
        answer = client.get("/health/live", headers={"X-Request-ID": strange})
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


@pytest.mark.parametrize("path", ["/health/live", "/v1/models", "/nothing", "/openapi.json"])
def test_headers_of_every_answer(client: TestClient, path: str) -> None:
    answer = client.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "server" not in answer.headers


@pytest.mark.parametrize("json_logs", [True, False])
def test_the_log_has_no_text(
    models: tuple[ServedModel, ...], caplog: pytest.LogCaptureFixture, json_logs: bool
) -> None:
    app = create_app(ServeSettings(json_logs=json_logs), models)
    with caplog.at_level("INFO", "spanlab.serving"), TestClient(app) as client:
        client.post("/v1/names?secret=words", json={"text": "Ivan swam at sea"}, headers={"X-Request-ID": "logged-1"})
        client.post("/v1/names", json={"text": "Ivan swam at sea", "wrong": 1})
        client.get("/secret/Ivan")
    lines = [record.getMessage() for record in caplog.records if record.name == "spanlab.serving"]
    assert len(lines) == 3
    assert not any("Ivan" in line or "secret" in line for line in lines)
    if json_logs:
        read = [json.loads(line) for line in lines]
        assert [line["status"] for line in read] == [200, 422, 404]
        assert [line["route"] for line in read] == ["/v1/names", "/v1/names", "none"]
        assert (read[0]["id"], read[0]["method"], read[0]["bytes"]) == ("logged-1", "POST", 27)
    else:
        assert lines[0].startswith("id=logged-1 method=POST route=/v1/names status=200 bytes=27 milliseconds=")


def test_metrics_have_times_sizes_and_causes_and_no_text(models: tuple[ServedModel, ...]) -> None:
    with TestClient(create_app(ServeSettings(), models)) as client:
        client.post("/v1/names?secret=words", json={"text": "Ivan swam at sea"})
        client.post("/v1/names", json={"text": "Ivan swam at sea", "Ivan": 1})
        client.get("/secret/Ivan")
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in ("queue_seconds", "tokenize_seconds", "infer_seconds", "decode_seconds", "batch_tokens"):
        assert f"spanlab_{name}_count 1.0" in answer.text
    assert "spanlab_batch_windows_sum 1.0" in answer.text
    assert "spanlab_batch_requests_sum 1.0" in answer.text
    assert 'spanlab_refusals_total{cause="invalid_input"} 1.0' in answer.text
    assert 'spanlab_requests_total{route="/v1/names",status="422"} 1.0' in answer.text
    assert 'spanlab_requests_total{route="none",status="404"} 1.0' in answer.text
    assert not re.search("Ivan|secret|words|swam", answer.text)


def test_a_sender_that_is_too_slow(models: tuple[ServedModel, ...]) -> None:
    settings = ServeSettings(body_timeout=0.3)
    with listening(settings, models) as address, socket.create_connection(address) as connection:
        connection.sendall(
            b"POST /v1/names HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"
        )
        connection.sendall(b'"Ann')
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code": "body_timeout"' in answer


def test_what_takes_too_long_is_dropped(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(timeout=0.05), models)
    serving: Serving = app.state.serving
    with TestClient(app) as client, hold_up(serving):
        answer = client.post("/v1/names", json=TEXT)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "timeout"
        assert serving.batcher.waiting == 0
        assert "unhandled" not in answer.text


def test_a_client_that_goes_leaves_nothing_in_the_queue(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(), models)
    serving: Serving = app.state.serving
    body = json.dumps([TEXT] * 500).encode()
    head = b"POST /v1/names HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with listening_app(app) as address, hold_up(serving):
        with socket.create_connection(address) as connection:
            connection.sendall(head % len(body) + body)
            wait_until(lambda: serving.batcher.waiting == 500)
        wait_until(lambda: serving.batcher.waiting == 0)
        wait_until(lambda: serving.in_flight == 0)
        assert 'spanlab_refusals_total{cause="client_gone"} 1.0' in serving.metrics.to_text().decode()


@pytest.mark.parametrize("sizes", [[1, 1, 1, 1], [4], [3, 1], [1, 9]], ids=str)
def test_a_full_queue_counts_inputs_alone_and_in_lists_alike(models: tuple[ServedModel, ...], sizes: list[int]) -> None:
    app = create_app(ServeSettings(queue=4), models)
    serving: Serving = app.state.serving
    with listening_app(app) as address:
        connections = []
        with hold_up(serving):
            for count, size in enumerate(sizes, 1):
                connections.append(send(address, [TEXT] * size))
                wait_until(partial(_has_inputs, serving, sum(sizes[:count])))
            refused = send(address, [TEXT])
            answer = read_answer(refused)
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert int(re.search(rb"(?i)retry-after: (\d+)", answer)[1]) >= 1  # type: ignore[index]
        for connection, size in zip(connections, sizes, strict=True):
            answer = read_answer(connection)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert len(json.loads(answer.partition(b"\r\n\r\n")[2])) == size
        connections.append(send(address, [TEXT]))
        assert read_answer(connections[-1]).startswith(b"HTTP/1.1 200 ")
        for connection in (*connections, refused):
            connection.close()


def _has_inputs(serving: Serving, count: int) -> bool:
    return serving.batcher.waiting == count


def test_an_error_in_the_server_shows_nothing_of_it(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(), models)
    serving: Serving = app.state.serving
    with TestClient(app, raise_server_exceptions=False) as client:
        serving.predict = None  # type: ignore[method-assign, assignment]
        answer = client.post("/v1/names", json=TEXT)
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "internal"
        assert "Error" not in answer.text
        assert "Traceback" not in answer.text
        assert answer.headers["x-request-id"] in answer.json()["error"]["message"]


def test_large_bodies_at_once_are_bounded(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(max_body=1000, body_timeout=60), models)
    serving: Serving = app.state.serving
    head = b"POST /v1/names HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    with listening_app(app) as address:
        connections = [socket.create_connection(address) for _ in range(16)]
        for connection in connections:
            connection.sendall(head + b'"' + b"a" * 998)
        wait_until(lambda: serving.body_bytes == 16 * 999)
        one_more = socket.create_connection(address)
        one_more.sendall(head + b'"' + b"a" * 998)
        assert read_answer(one_more).startswith(b"HTTP/1.1 429 ")
        for connection in connections:
            connection.sendall(b'"')
        for connection in connections:
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: serving.body_bytes == 0)
        for connection in (*connections, one_more):
            connection.close()


def test_draining(models: tuple[ServedModel, ...]) -> None:
    app = create_app(ServeSettings(), models)
    with TestClient(app) as client:
        app.state.serving.draining = True
        answer = client.post("/v1/names", json=TEXT)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "draining")
        assert "retry-after" in answer.headers
        assert client.get("/health/ready").status_code == 503
        assert client.get("/health/live").status_code == 200


def test_which_addresses_need_a_key(tmp_path: object) -> None:
    from tests.cli.run import run_here

    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        done = run_here("serve", str(MULTITASK), "--host", host)
        assert done.returncode == 2
        assert "no key protects the server; add --api-key-file FILE, or --insecure" in done.stderr
