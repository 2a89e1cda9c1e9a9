"""Whatever is sent is answered with a result or an error object: no 5xx, no hang, nothing of the server's inside."""

import json
import os
import random
import socket
from collections import Counter

import pytest
from starlette.testclient import TestClient

from spanlab.serving.app import create_app
from spanlab.serving.served_model import ServedModel
from spanlab.serving.settings import ServeSettings
from tests.serving.bad_bodies import bad_requests
from tests.serving.listening import listening, read_answer, send
from tests.serving.servers import TEXT

ERRORS = {404, 413, 415, 422, 429}


def check(client: TestClient, path: str, body: bytes) -> int:
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200 or answer.status_code in ERRORS, (path, body[:200], answer.text)
    assert "Traceback" not in answer.text
    assert 'File "' not in answer.text
    content = json.loads(answer.text)
    if answer.status_code != 200:
        assert content["error"].keys() == {"code", "message", "where"}
        assert content["error"]["message"]
        assert len(content["error"]["message"]) < 1000
    return int(answer.status_code)


def run(models: tuple[ServedModel, ...], count: int, seed: int) -> Counter[int]:
    statuses: Counter[int] = Counter()
    with TestClient(create_app(ServeSettings(max_body=200_000), models), raise_server_exceptions=False) as client:
        for path, body in bad_requests(count, seed):
            statuses[check(client, path, body)] += 1
        assert client.post("/v1/names", json=TEXT).status_code == 200
        assert client.app.state.serving.batcher.waiting == 0  # type: ignore[attr-defined]
    return statuses


def test_some_hundred_bad_bodies(models: tuple[ServedModel, ...]) -> None:
    statuses = run(models, 300, seed=1)
    assert {200, 404, 413, 422} <= statuses.keys(), "they are wrong in different ways"


@pytest.mark.slow
def test_ten_thousand_bad_bodies(models: tuple[ServedModel, ...]) -> None:
    run(models, 10_000, seed=int(os.environ.get("FUZZ_SEED", "2")))


def test_connections_that_are_not_http_or_end_early(models: tuple[ServedModel, ...]) -> None:
    draw = random.Random(3)
    head = b"POST /v1/names HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    pieces = (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/names HTTP/1.1\r\n",
        head + b"Content-Length: -1\r\n\r\n",
        head + b"Content-Length: 99999999999999999999999\r\n\r\na",
        head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        head + b"Content-Length: 100\r\n\r\n" + b'"Anna',
        head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        head + b'Transfer-Encoding: chunked\r\n\r\n5\r\n"Anna\r\n',
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    )
    with listening(ServeSettings(body_timeout=0.3), models) as address:
        for number in range(60):
            with socket.create_connection(address, timeout=30) as connection:
                try:
                    connection.sendall(draw.choice(pieces) if number >= len(pieces) else pieces[number])
                    if number % 3 == 0:
                        connection.shutdown(socket.SHUT_WR)
                    if number % 3 != 2:
                        answer = read_answer(connection)
                        assert not answer or answer.split()[1][:1] in b"24", answer[:200]
                except (ConnectionResetError, BrokenPipeError):
                    continue
        with send(address, TEXT) as connection:
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
