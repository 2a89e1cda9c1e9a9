"""The settings of a server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from spanlab.config import Above, AtLeast, AtMost, Bounded


@dataclass(frozen=True, kw_only=True)
class ServeSettings(Bounded):
    """Limits and access; where the server listens is not its concern."""

    api_key: str | None = None
    """What clients send as `Authorization: Bearer KEY`; None: no key is asked for."""
    batch_tokens: Annotated[int, AtLeast(8), AtMost(10_000_000)] = 4096
    """Maximum tokens computed together."""
    queue: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 512
    """Inputs accepted and not yet answered; while there are as many, further requests are refused."""
    max_body: Annotated[int, AtLeast(1), AtMost(1 << 30)] = 16 << 20
    """Bytes of a request's body."""
    timeout: Annotated[float, Above(0), AtMost(86_400)] = 300.0
    """Seconds in which a request is answered, counted from the end of its body."""
    body_timeout: Annotated[float, Above(0), AtMost(86_400)] = 30.0
    """Seconds in which a body arrives."""
    json_logs: bool = False
    """A line of JSON for each request in place of plain text."""
    runs: Path | None = None
    """The folder whose training runs are shown."""
    cors: tuple[str, ...] = ()
    """The origins of other pages that may use this server, such as https://example.org."""
