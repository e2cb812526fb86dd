"""Who is asking: the name they logged in with, else a random id in a cookie of their browser.

The middleware writes the answer into a request header of its own (one sent from outside is thrown away), so that
Gradio's events and a component's server functions read it in the same way. A script that sends no cookie is the
person at this machine, like the command line.
"""

import re
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any

from engine.studio import LOCAL

HEADER = b"x-lethe-owner"
COOKIE = "lethe"
ID = re.compile(r"^[0-9a-f]{32}$")
YEAR = 365 * 24 * 3600


def owner_of(request: Any) -> str:
    """The owner of a handler's request."""
    return request.headers[HEADER.decode()]


class Owners:
    """Marks every request with its owner, and gives a new browser its cookie with the first page."""

    def __init__(self, app: Any, username: str | None) -> None:
        self.app, self.username = app, username

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name != HEADER]
        owner, cookie = self.username or known(headers), None
        if owner is None and opens_a_page(scope, headers):
            owner = secrets.token_hex(16)
            cookie = f"{COOKIE}={owner}; Max-Age={YEAR}; Path=/; HttpOnly; SameSite=Strict".encode()
        scope = {**scope, "headers": [*headers, (HEADER, (owner or LOCAL).encode())]}

        async def add(message: dict) -> None:
            if cookie and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"set-cookie", cookie)]
            await send(message)

        await self.app(scope, receive, add)


def known(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The id in the cookie; a made-up one that is not of our form counts as none."""
    for name, value in headers:
        if name == b"cookie":
            try:
                cookies = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                continue
            if COOKIE in cookies and ID.match(cookies[COOKIE].value):
                return cookies[COOKIE].value
    return None


def opens_a_page(scope: dict, headers: list[tuple[bytes, bytes]]) -> bool:
    return scope["method"] == "GET" and any(name == b"accept" and b"text/html" in value for name, value in headers)
