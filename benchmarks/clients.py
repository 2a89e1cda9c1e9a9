"""Clients on loopback that ask a server over HTTP, many at once, and what they saw."""

import http.client
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

HEADERS = {"Content-Type": "application/json"}
Asked = tuple[str, str]
"""A path and a body."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One request and what came of it."""

    sent: float
    """By `time.perf_counter`."""
    seconds: float
    status: int
    """0 where the connection was refused or ended without an answer."""
    content: bytes


def ask_once(port: int, path: str, body: str | None = None, timeout: float = 600.0) -> Answered:
    """Ask by a connection of its own; without a body, GET."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        return _ask(connection, path, body)
    finally:
        connection.close()


def ask_together(
    port: int,
    requests: Sequence[Asked],
    *,
    clients: int,
    seconds: float,
    pause: float = 0.0,
    stop: threading.Event | None = None,
) -> list[Answered]:
    """Ask by so many connections at once, in turn through the requests, until the time is over or `stop` is set.

    A client waits for its answer, and then `pause` seconds; one whose connection is refused ends.
    """
    answered: list[list[Answered]] = [[] for _ in range(clients)]
    end, stopped = time.perf_counter() + seconds, stop or threading.Event()

    def ask(client: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        index = client
        while time.perf_counter() < end and not stopped.is_set():
            answered[client].append(_ask(connection, *requests[index % len(requests)]))
            index += clients
            if not answered[client][-1].status:
                break
            if pause:
                stopped.wait(pause)
        connection.close()

    threads = [threading.Thread(target=ask, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted((one for part in answered for one in part), key=lambda one: one.sent)


def quantile(answered: Sequence[Answered], share: float) -> float:
    """The seconds within which this share of the requests was answered."""
    ordered = sorted(one.seconds for one in answered)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _ask(connection: http.client.HTTPConnection, path: str, body: str | None) -> Answered:
    sent = time.perf_counter()
    try:
        connection.request("GET" if body is None else "POST", path, body, HEADERS)
        answer = connection.getresponse()
        status, content = answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        status, content = 0, repr(error).encode()
    return Answered(sent=sent, seconds=time.perf_counter() - sent, status=status, content=content)
