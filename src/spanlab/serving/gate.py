"""What every request passes: its id, the key, the limits of its body, the headers of its answer, its line in the log.

A plain ASGI middleware: nothing is buffered, and the endpoint still sees when its client goes. Logs hold the route, the
status, the time and the sizes; never a body, a query or a header of the client's.
"""

import asyncio
import hmac
import json
import logging
import re
import time
import uuid
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spanlab.serving.refusals import RefusalError, error_response
from spanlab.serving.state import ClientGoneError, Serving

log = logging.getLogger("spanlab.serving")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_OPEN = re.compile(r"/health/(live|ready)|/|/favicon\.ico|/static/.*")
"""Paths that ask for no key: probes, and the page, which asks its user for it."""
_JSON = re.compile(r"\s*application/(\w[\w.-]*\+)?json\s*(;.*)?", re.IGNORECASE)
"""Other types are refused: a page of another origin can send them without being asked to by the server."""
_WHILE_DRAINING = re.compile(r"/health/(live|ready)|/metrics")
_READ_ANYWAY = 4
"""Of a body that is too large, so many times the limit are read before it is refused."""
_BODIES = 16
"""All bodies together have at most so many times the limit of one."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(kw_only=True)
class _Exchange:
    """One request and what is known of its answer."""

    scope: Scope
    request_id: str
    started: float = field(default_factory=time.perf_counter)
    status: int | None = None
    """None until the answer has begun."""
    received: int = 0
    """Bytes of the body."""
    held: int = 0
    """Those of them that are in memory."""

    @property
    def route(self) -> str:
        """The pattern of the path; paths that no route has are all one."""
        route = self.scope.get("route")
        return str(getattr(route, "path", "")) or "none"


class Gate:
    """The middleware; `serving` has the settings."""

    def __init__(self, app: ASGIApp, serving: Serving) -> None:
        self.app, self.serving = app, serving
        key = serving.settings.api_key
        self._key = None if key is None else key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let an HTTP request through, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope=scope, request_id=_request_id(scope))
        respond = self._with_headers(exchange, send)
        self.serving.in_flight += 1
        try:
            await self._pass(exchange, receive, respond)
        except ClientGoneError:
            exchange.status = exchange.status or 499
            self.serving.metrics.count_refusal("client_gone")
        except Exception:
            log.exception("request %s failed", exchange.request_id)
            if exchange.status is None:
                refusal = RefusalError(500, "internal", f"an error in the server; its log names {exchange.request_id}")
                await error_response(refusal)(scope, receive, respond)
        finally:
            self.serving.in_flight -= 1
            self.serving.body_bytes -= exchange.held
            self._note(exchange)

    async def _pass(self, exchange: _Exchange, receive: Receive, send: Send) -> None:
        try:
            self._check(exchange.scope)
            await self.app(exchange.scope, self._limited(exchange, receive), send)
        except RefusalError as refusal:
            if exchange.status is not None:
                raise
            self.serving.metrics.count_refusal(refusal.code)
            await error_response(refusal)(exchange.scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers, path = Headers(scope=scope), scope["path"]
        if self.serving.draining and not _WHILE_DRAINING.fullmatch(path):
            again = {"Retry-After": "1", "Connection": "close"}
            raise RefusalError(503, "draining", "the server is about to end; ask another", headers=again)
        if self._key is not None and not _OPEN.fullmatch(path) and scope["method"] != "OPTIONS":
            self._check_key(headers)
        if scope["method"] == "POST" and not _JSON.fullmatch(headers.get("content-type", "")):
            raise RefusalError(415, "wrong_content_type", "send JSON, with the header Content-Type: application/json")

    def _check_key(self, headers: Headers) -> None:
        assert self._key is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Compared in full whatever the scheme, in a time that does not depend on where they differ.
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._key)
        if not is_right or scheme.lower() != "bearer":
            message = "the key is missing or wrong; send the header Authorization: Bearer KEY"
            raise RefusalError(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})

    def _too_large(self) -> RefusalError:
        limit = self.serving.settings.max_body
        message = f"the body is larger than {limit:,} bytes, the limit; send fewer inputs at once"
        return RefusalError(413, "body_too_large", message, headers={"Connection": "close"})

    def _limited(self, exchange: _Exchange, receive: Receive) -> Receive:
        """`receive` that refuses bodies which are too large or arrive too slowly."""
        settings = self.serving.settings
        deadline = exchange.started + settings.body_timeout
        is_complete = False

        async def limited() -> Message:
            nonlocal is_complete
            while not is_complete:
                try:
                    async with asyncio.timeout(max(0.0, deadline - time.perf_counter())):
                        message = await receive()
                except TimeoutError:
                    cause = f"the body did not arrive within {settings.body_timeout:g} seconds"
                    raise RefusalError(408, "body_timeout", cause, headers={"Connection": "close"}) from None
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                size = len(message.get("body", b""))
                exchange.received += size
                is_complete = not message.get("more_body", False)
                if exchange.received <= settings.max_body:
                    self._hold(exchange, size)
                    return message
                # Read to its end, since a client that still sends would not see the answer; to an end that is near.
                if is_complete or exchange.received > _READ_ANYWAY * settings.max_body:
                    raise self._too_large()
            return await receive()

        return limited

    def _hold(self, exchange: _Exchange, size: int) -> None:
        """Count bytes that are held in memory; refused where the bodies of all requests are too much of it."""
        exchange.held += size
        self.serving.body_bytes += size
        if self.serving.body_bytes > _BODIES * self.serving.settings.max_body:
            message = "too many large bodies arrive at once; try again later"
            raise RefusalError(429, "queue_full", message, headers={"Retry-After": "1", "Connection": "close"})

    def _with_headers(self, exchange: _Exchange, send: Send) -> Send:
        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-ID"] = exchange.request_id
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        return respond

    def _note(self, exchange: _Exchange) -> None:
        seconds, status = time.perf_counter() - exchange.started, exchange.status or 500
        self.serving.metrics.count_request(exchange.route, status, seconds)
        fields = {
            "id": exchange.request_id,
            "method": exchange.scope["method"],
            "route": exchange.route,
            "status": status,
            "bytes": exchange.received,
            "milliseconds": round(1000 * seconds, 1),
        }
        if self.serving.settings.json_logs:
            log.info("%s", json.dumps(fields))
        else:
            log.info("%s", " ".join(f"{name}={value}" for name, value in fields.items()))


def _request_id(scope: Scope) -> str:
    """The client's own id of the request, if it is one, or a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
