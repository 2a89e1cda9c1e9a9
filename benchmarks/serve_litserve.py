"""LitServe with batching around the same models of transformers as `benchmarks.serve_plain`.

    python -m benchmarks.serve_litserve --port N [--qa FOLDER] [--ner FOLDER] [--embed FOLDER]

Requests that come together are computed in one batch, padded to the longest.
"""

from pathlib import Path
from typing import Any

import litserve

from benchmarks.serve_plain import Peer, read_options


class BatchedApi(litserve.LitAPI):  # type: ignore[misc]
    """The models of `Peer`; LitServe makes one in each of its workers."""

    def __init__(self, folders: tuple[Path | None, Path | None, Path | None]) -> None:
        super().__init__(max_batch_size=16, batch_timeout=0.005)
        self.folders = folders

    def setup(self, device: str) -> None:
        """Load the models."""
        self.peer = Peer(*self.folders)

    def decode_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """The body as it is."""
        return request

    def predict(self, requests: list[dict[str, Any]]) -> list[Any]:
        """A batch of requests."""
        return self.peer.answer(requests)

    def encode_response(self, output: object) -> dict[str, Any]:
        """The answer in an object."""
        return {"output": output}


if __name__ == "__main__":
    options = read_options(__doc__)
    api = BatchedApi((options.qa, options.ner, options.embed))
    server = litserve.LitServer(api, accelerator="cpu", timeout=300)
    server.run(port=options.port, host="127.0.0.1", generate_client_file=False, log_level="warning")
