"""A model folder to the hub: the requests it makes, with a hub of our own on this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from spanlab.errors import InputError
from spanlab.inference.push import push_model

Requests = list[tuple[str, bytes]]


class _Hub(BaseHTTPRequestHandler):
    """Answers as the hub does, and keeps what it was asked."""

    seen: Requests

    def do_GET(self) -> None:
        self._answer(200, {"siblings": [], "id": "me/model"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.seen.append((self.path, body))
        if b"forbidden" in body or "forbidden" in self.path:
            self._answer(403, {"error": "you may not"})
        elif "/preupload/" in self.path:
            files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            self._answer(200, {"files": [{**file, "shouldIgnore": False} for file in files]})
        elif "/commit/" in self.path:
            self._answer(200, {"commitUrl": f"{constants.ENDPOINT}/me/model/commit/abc", "commitOid": "abc"})
        else:
            self._answer(200, {"url": f"{constants.ENDPOINT}/me/model", "id": "me/model"})

    def _answer(self, status: int, content: object) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    """What a hub on this machine was asked."""
    _Hub.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield _Hub.seen
    server.shutdown()
    thread.join()


def test_the_folder_goes_up_with_its_card_and_nothing_else(hub: Requests, tmp_path: Path) -> None:
    model = tmp_path / "run" / "model"
    model.mkdir(parents=True)
    for name in ("config.json", "spanlab.json", "README.md", "secret.key", "notes.log"):
        (model / name).write_text("{}")
    address = push_model(tmp_path / "run", "me/model", private=True, message="First")
    assert address == f"{constants.ENDPOINT}/me/model/commit/abc"
    commit = next(body for path, body in hub if "/commit/" in path)
    assert all(name.encode() in commit for name in ("config.json", "spanlab.json", "README.md", "First"))
    assert b"secret.key" not in commit
    assert b"notes.log" not in commit
    created = next(body for path, body in hub if path.endswith("/repos/create"))
    assert json.loads(created)["name"] == "model"


def test_a_refusal_is_one_line(hub: Requests, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="the hub refuses 'forbidden/model'"):
        push_model(tmp_path, "forbidden/model", private=False, message="x")
    with pytest.raises(InputError, match="no such model folder"):
        push_model(tmp_path / "missing", "me/model", private=False, message="x")
