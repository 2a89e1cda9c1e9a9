"""A server that listens in a thread of this process, so that a test can look into it, and raw connections to it."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from spanlab.serving.app import create_app
from spanlab.serving.served_model import ServedModel
from spanlab.serving.server import configure, listen
from spanlab.serving.settings import ServeSettings
from spanlab.serving.state import Serving

Address = tuple[str, int]


@contextmanager
def listening(settings: ServeSettings, models: Sequence[ServedModel]) -> Iterator[Address]:
    with listening_app(create_app(settings, models)) as address:
        yield address


@contextmanager
def listening_app(app: FastAPI) -> Iterator[Address]:
    with listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(configure(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def hold_up(serving: Serving) -> Iterator[None]:
    """Context in which nothing is computed: both lanes wait for its end."""
    free = threading.Event()
    for model in serving.models:
        model.predictor.compute = lambda *args, m=model, **more: (  # type: ignore[method-assign]
            free.wait(60),
            type(m.predictor).compute(m.predictor, *args, **more),
        )[1]
    try:
        yield
    finally:
        free.set()
        for model in serving.models:
            del model.predictor.compute  # type: ignore[method-assign]


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to it"
        time.sleep(0.01)


def send(address: Address, body: object, path: str = "/v1/names") -> socket.socket:
    """A connection on which one request was sent."""
    connection = socket.create_connection(address, timeout=60)
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    connection.sendall(head.encode() + content)
    return connection


def read_answer(connection: socket.socket) -> bytes:
    """The next answer, by its Content-Length; what there is of it if the connection ends before."""
    connection.settimeout(60)
    data = b""
    while True:
        head, found, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if found and length is not None and len(body) >= int(length[1]):
            return data
        part = connection.recv(65536)
        if not part:
            return data
        data += part


def read_all(connection: socket.socket) -> bytes:
    connection.settimeout(60)
    data = b""
    while part := connection.recv(65536):
        data += part
    return data
