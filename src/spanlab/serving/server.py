"""The process of a server: it listens, says where, and at SIGTERM or Ctrl-C answers what it has accepted.

From the signal on, further requests get 503, so that whoever balances the load asks another; the listening socket is
open a moment longer, since a connection that was made just before must get an answer, too. A second signal ends the
process at once.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from spanlab.errors import InputError
from spanlab.serving.state import Serving

_LINGER = 0.5
"""Seconds from the signal to the end of listening, at least."""
_KEEP_ALIVE = 75


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol; it also closes connections on which the head of a request does not arrive in time."""

    _head_timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        else:
            self._await_head()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head_timer is None and not self.transport.is_closing():
            serving: Serving = self.config.app.state.serving  # type: ignore[union-attr]
            self._head_timer = self.loop.call_later(serving.settings.body_timeout, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class DrainingServer(uvicorn.Server):
    """uvicorn's server with our end."""

    def __init__(self, config: uvicorn.Config, serving: Serving, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._serving, self._on_ready = serving, on_ready
        self._signalled = 0.0
        self.received: signal.Signals | None = None
        """The signal that ended the server."""

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.received is not None:
            self.should_exit = self.force_exit = True
            return
        self.received, self._signalled = signal.Signals(sig), time.monotonic()
        self._serving.draining = True

    @override
    async def on_tick(self, counter: int) -> bool:
        is_drained = not self._serving.in_flight and time.monotonic() - self._signalled > _LINGER
        if self.received is not None and is_drained:
            return True
        return await super().on_tick(counter)


def listen(host: str, port: int) -> socket.socket:
    """A socket on a free port; port 0 chooses one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        fix = "use another --host or --port"
        raise InputError(f"cannot listen on {host}, port {port}: {error.strerror or error}", fix=fix) from None
    return listener


def configure(app: FastAPI) -> uvicorn.Config:
    """Uvicorn's settings for an application of `create_app`."""
    return uvicorn.Config(
        app,
        http=ImpatientProtocol,
        loop="asyncio",  # the same on every machine, whatever else is installed
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
    )


def run(app: FastAPI, listener: socket.socket, on_ready: Callable[[], None]) -> signal.Signals | None:
    """Serve until a signal, which is given back when every accepted request is answered; `on_ready` is called first."""
    _log_to_stderr()
    server = DrainingServer(configure(app), app.state.serving, on_ready)
    server.run(sockets=[listener])
    return server.received


def _log_to_stderr() -> None:
    """One line for each request; of uvicorn only what is wrong."""
    logger = logging.getLogger("spanlab.serving")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(os.environ.get("SPANLAB_LOG_LEVEL", "INFO"))
    logger.propagate = False
    logging.getLogger("uvicorn").setLevel("ERROR")
