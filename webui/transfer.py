"""Models in and out of the browser: too large for Gradio's uploads, so they have a door of their own.

PUT /transfer/NAME?file=x.pkl&licence=...   the file as the body, streamed to disk; answers {"name"} or {"error"}
GET /transfer/NAME?form=safetensors|pkl     the model with its applied erasures baked in, as a download
"""

import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from engine.core.errors import UserError
from engine.files import room_for
from engine.studio import Studio
from webui import words
from webui.component import component
from webui.events import SORRY
from webui.owner import owner_of

LARGEST = 4_000_000_000
SPARE = 500_000_000  # bytes that must stay free on the disk
KINDS = (".pkl", ".safetensors", ".pt", ".pth")
log = logging.getLogger("lethe")


def add_routes(app: FastAPI, studio: Studio, is_welcome: Callable[[Request], bool]) -> None:
    """Both ways, for those who may see the page."""

    @app.put("/transfer/{name}")
    async def take_in(name: str, request: Request, file: str = "model.pkl", licence: str = "not stated") -> Any:
        if not is_welcome(request):
            return refusal("log in first", 401)
        try:
            kind = Path(file).suffix.lower()
            if kind not in KINDS or not file.isprintable():
                raise UserError(f"{file[:80]!r}: not a kind of model file we read; use {', '.join(KINDS)}")
            with room_for(file), tempfile.TemporaryDirectory(dir=studio.store.bases, prefix=".incoming.") as folder:
                path = Path(folder) / f"{Path(file).stem[:60]}{kind}"
                await receive(request, path)
                info = await run_in_threadpool(studio.import_base, path, name, licence=licence[:300] or "not stated")
            return {"name": info.name}
        except UserError as error:
            return refusal(str(error))
        except Exception:
            log.exception("a model could not be taken in")
            return refusal(SORRY, 500)

    @app.get("/transfer/{name}")
    async def give_out(name: str, request: Request, form: str = "safetensors") -> Any:
        if not is_welcome(request):
            return refusal("log in first", 401)
        folder = Path(tempfile.mkdtemp(dir=studio.store.bases, prefix=".outgoing."))
        tidy = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        try:
            if name not in [info.name for info in studio.bases()] or form not in ("safetensors", "pkl"):
                raise UserError(f"there is no model {name} to export as {form}; the Models page lists them")
            path = folder / f"{name}.{form}"
            await run_in_threadpool(studio.export, name, studio.active(name), path, as_pickle=form == "pkl")
            return FileResponse(path, filename=path.name, media_type="application/octet-stream", background=tidy)
        except UserError as error:
            await tidy()
            return refusal(str(error))


def given(request: Request, is_welcome: Callable[[Request], bool], make: Callable[[str], Any], *, status: int) -> Any:
    """A file for its owner: make(owner) -> response. What cannot be given is refused in words, with this status."""
    if not is_welcome(request):
        return refusal("log in first", 401)
    try:
        return make(owner_of(request))
    except UserError as error:
        return refusal(str(error), status)


def clean(studio: Studio) -> None:
    """Removes what a killed server left half sent. Only for the one server of a data folder."""
    for scrap in studio.store.bases.glob(".*ing.*"):
        shutil.rmtree(scrap, ignore_errors=True)


def refusal(text: str, status: int = 400) -> JSONResponse:
    return JSONResponse({"error": text[:1].upper() + text[1:]}, status_code=status)


async def receive(request: Request, path: Path) -> None:
    """Streams the body to a file; too much is refused while it comes, not after."""
    room = min(LARGEST, shutil.disk_usage(path.parent).free - SPARE)
    with room_for(path.name), path.open("wb") as target:
        async for chunk in request.stream():
            room -= len(chunk)
            if room < 0:
                raise UserError(
                    f"the file is larger than {words.weight(LARGEST)}, or the disk is nearly full; free some space"
                )
            target.write(chunk)


def ModelDrop() -> gr.HTML:
    """Choose or drop a model file; shows its progress, then fires `taken` with `event.name`."""
    return component("transfer", cls="drop-host", elem_id="import")
