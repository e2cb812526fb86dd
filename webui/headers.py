"""Pure ASGI middleware, so that streams flow: fixed headers on every response, and no stranger's host name."""

from collections.abc import Sequence
from typing import Any

# unsafe-eval is needed by gr.HTML. Nothing but this server can be asked for anything.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "frame-ancestors 'self'; base-uri 'self'; form-action 'self'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Headers:
    """Adds fixed headers to every response."""

    def __init__(self, app: Any, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.app, self.headers = app, headers

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        async def add(message: dict) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self.headers]
            await send(message)

        await self.app(scope, receive, add if scope["type"] == "http" else send)


class First:
    """Puts a piece of HTML at the beginning of the head of Gradio's pages, which come whole. Reports, which are kept as
    files, stay as they are."""

    def __init__(self, app: Any, html: str) -> None:
        self.app, self.html = app, html.encode()

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        asked = dict(scope["headers"]) if scope["type"] == "http" else {}
        if b"text/html" not in asked.get(b"accept", b""):
            await self.app(scope, receive, send)
            return
        begin, body = None, b""

        async def add(message: dict) -> None:
            nonlocal begin, body
            if message["type"] == "http.response.start":
                begin = message if dict(message["headers"]).get(b"content-type", b"").startswith(b"text/html") else None
            if begin is None:
                await send(message)
            elif message["type"] == "http.response.body":
                body += message.get("body", b"")
                if not message.get("more_body"):
                    is_ours = b"window.gradio_config" in body
                    page = body.replace(b"<head>", b"<head>" + self.html, 1) if is_ours else body
                    others = [pair for pair in begin["headers"] if pair[0] != b"content-length"]
                    await send({**begin, "headers": [*others, (b"content-length", str(len(page)).encode())]})
                    await send({"type": "http.response.body", "body": page})

        unpacked = [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]
        await self.app(scope | {"headers": unpacked}, receive, add)


class OnlyHosts:
    """Refuses requests that name another host: a foreign page cannot reach a local server by a name of its own."""

    def __init__(self, app: Any, names: Sequence[str]) -> None:
        self.app, self.names = app, names

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and host(scope) not in self.names:
            await send({"type": "http.response.start", "status": 421, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"open this page by its local address"})
            return
        await self.app(scope, receive, send)


def host(scope: dict) -> str:
    """The host that a request names, without its port."""
    name = next((value.decode("latin-1") for key, value in scope["headers"] if key == b"host"), "")
    return name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
