"""A server process under load: overload, the signals to end, a model folder that is deleted."""

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from spanlab.serving.app import create_app
from spanlab.serving.settings import ServeSettings
from tests.serving.listening import Address, read_answer, send, wait_until
from tests.serving.servers import MULTITASK, QUESTION, TEXT, RunningServer, load_models, running_server


def address_of(server: RunningServer) -> Address:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def waiting_inputs(server: RunningServer) -> int:
    with server.client() as client:
        match = re.search(r"^spanlab_waiting_inputs (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert match is not None
    return int(float(match[1]))


def test_overload_gives_200_and_429_only_and_passes() -> None:
    statuses: Counter[object] = Counter()
    with running_server(MULTITASK, "--queue", 64) as server:
        address = address_of(server)
        body = json.dumps([TEXT] * 8)

        def ask() -> None:
            connection = http.client.HTTPConnection(*address, timeout=60)
            for _ in range(2):
                try:
                    connection.request("POST", "/v1/names", body, {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    content = json.loads(answer.read())
                    statuses[answer.status] += 1
                    assert len(content) == 8 if answer.status == 200 else "error" in content
                    assert answer.status == 200 or int(answer.headers["Retry-After"]) >= 1
                except (OSError, http.client.HTTPException, AssertionError) as error:
                    statuses[repr(error)] += 1
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses.keys() == {200, 429}, statuses
        assert statuses.total() == 400
        wait_until(lambda: waiting_inputs(server) == 0)
        with server.client() as client:
            assert client.post("/v1/who", json=QUESTION).json()["answer"] == "Anna"
            refused = re.search(r'spanlab_refusals_total\{cause="queue_full"\} (\S+)', client.get("/metrics").text)
        assert refused is not None
        assert float(refused[1]) == statuses[429]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_server_when_what_it_accepted_is_answered(number: signal.Signals, code: int) -> None:
    with running_server(MULTITASK, "--queue", 100_000) as server:
        address = address_of(server)
        accepted = [send(address, [f"{TEXT} "] * 100) for _ in range(12)]
        wait_until(lambda: waiting_inputs(server) > 600 or sum(map(_has_answer, accepted)) > 5)
        server.process.send_signal(number)
        later = []
        for _ in range(20):
            try:
                later.append(read_answer(send(address, TEXT)))
            except OSError:
                break
        for connection in accepted:
            answer = read_answer(connection)
            assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
            assert answer.count(b'"Delft"') == 100
            connection.close()
        assert server.process.wait(timeout=60) == code
        assert all(answer.startswith((b"HTTP/1.1 503 ", b"HTTP/1.1 200 ")) for answer in later if answer)
        with pytest.raises(OSError, match=r"refused|reset"):
            read_answer(send(address, TEXT))
    assert not any("Traceback" in line for line in server.log), server.log


def _has_answer(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.setblocking(True)


def test_a_second_signal_ends_it_at_once() -> None:
    with running_server(MULTITASK, "--queue", 100_000) as server:
        connection = send(address_of(server), [f"{TEXT} " * 20] * 1000)
        wait_until(lambda: waiting_inputs(server) == 1000)
        server.process.send_signal(signal.SIGINT)
        with server.client() as client:
            wait_until(lambda: client.get("/health/ready").status_code == 503)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=30) != 0
        connection.close()


def test_the_folder_of_a_model_is_deleted_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "model-to-delete"
    shutil.copytree(MULTITASK, folder)
    served = load_models(folder)
    with TestClient(create_app(ServeSettings(), served)) as client:
        assert client.post("/v1/who", json=QUESTION).json()["answer"] == "Anna"
        shutil.rmtree(folder)
        assert client.post("/v1/who", json=QUESTION).json()["answer"] == "Anna"
        assert client.post("/tokenize", json={"inputs": TEXT}).status_code == 200
        assert client.get("/v1/models").json()["data"][0]["id"] == "model-to-delete"


def test_a_port_that_is_taken_and_other_wrong_starts(tmp_path: Path) -> None:
    from tests.cli.run import run_here

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_here("serve", str(MULTITASK), "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "Address already in use; use another --host or --port" in done.stderr
    (tmp_path / "short").write_text("abc\n")
    for arguments, part in (
        ([], "no model to serve; name one"),
        ([str(tmp_path / "none")], "no such model folder"),
        ([str(MULTITASK), "--task", "qa"], "--task qa is not NAME=MODEL"),
        ([str(MULTITASK), "--task", f"qa={MULTITASK}"], "the model's tasks are topics, names, alike, who"),
        ([str(MULTITASK), "--api-key-file", str(tmp_path / "none")], "none: no such file"),
        ([str(MULTITASK), "--api-key-file", str(tmp_path / "short")], "a key has at least 8 printable"),
        ([str(MULTITASK), "--runs", str(tmp_path / "none")], "no such folder; name the folder that holds the runs"),
    ):
        done = run_here("serve", *arguments, "--port", "0")
        assert done.returncode == 2, done.stderr
        assert part in done.stderr


def test_threads_follow_what_the_process_may_use() -> None:
    """The lanes compute with torch's number of threads, which is never more than the available cores."""
    code = (
        "import threading, torch\n"
        "from spanlab.machine import available_cores, limit_threads\n"
        "torch.set_num_threads(64); limit_threads()\n"
        "seen = []\n"
        "thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))\n"
        "thread.start(); thread.join()\n"
        "assert seen == [torch.get_num_threads()] and seen[0] <= available_cores(), seen\n"
    )
    import sys

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
