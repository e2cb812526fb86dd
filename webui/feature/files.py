"""Labels as files: out by a link, in by a button.

GET /labels/BASE?feature=glasses&kind=json|csv    the visitor's own labels, as a download
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import Response

from engine.core.errors import UserError
from engine.studio import Studio
from webui.transfer import given
from webui.view import Node, h

TYPES = {"json": "application/json", "csv": "text/csv"}
LARGEST = 5_000_000


def add_routes(app: FastAPI, studio: Studio, is_welcome: Callable[[Request], bool]) -> None:
    """For those who may see the page; everybody gets their own labels."""

    @app.get("/labels/{base}")
    def give_out(base: str, feature: str, request: Request, kind: str = "json") -> Any:
        def make(owner: str) -> Response:
            if kind not in TYPES:
                raise UserError(f"labels are written as {' or '.join(TYPES)}, not as {kind[:20]!r}")
            text = studio.labels_text(base, feature, kind, owner=owner)
            named = f"attachment; filename*=UTF-8''{quote(f'{feature}.{kind}', safe='')}"
            return Response(text, media_type=TYPES[kind], headers={"content-disposition": named})

        return given(request, is_welcome, make, status=400)


def links(base: str, feature: str) -> Node:
    """`download` keeps Gradio from thinking that the page is left."""
    address = f"./labels/{quote(base, safe='')}?feature={quote(feature, safe='')}"
    made = [h("a", kind.upper(), href=f"{address}&kind={kind}", download="") for kind in TYPES]
    return h("p", "Labels as a file: ", made[0], " or ", made[1], cls="quiet small")


def taken(studio: Studio, content: bytes | None, psi: float, owner: str) -> str:
    """Stores an uploaded file's labels, made at the page's truncation, and gives the feature's name."""
    if not content:
        raise UserError("the file is empty; choose labels that were saved here as JSON or CSV")
    if len(content) > LARGEST:
        raise UserError(f"the file has {len(content) / 1e6:.0f} MB; labels are never that large")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError("this is not a text file; choose labels that were saved here as JSON or CSV") from error
    return studio.take_labels(text, base=studio.default_base(), psi=psi, owner=owner)[1]
