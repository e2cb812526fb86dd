"""Runs in and out of the browser as zips.

GET /run-files/RUN     one run, for its owner
PUT /run-files         a zip as the body; answers {"name"}, the run's id, or {"error"}
"""

import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from engine.core.errors import UserError
from engine.files import room_for
from engine.studio import Studio
from webui.component import component
from webui.events import SORRY
from webui.owner import owner_of
from webui.transfer import given, receive, refusal

log = logging.getLogger("lethe")


def add_routes(app: FastAPI, studio: Studio, is_welcome: Callable[[Request], bool]) -> None:
    @app.get("/run-files/{job}")
    def give_out(job: str, request: Request) -> Any:
        folder = Path(tempfile.mkdtemp(dir=studio.store.bases, prefix=".outgoing."))
        tidy = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)

        def make(owner: str) -> FileResponse:
            path = studio.export_run(job, folder / "run.zip", owner=owner)
            return FileResponse(path, filename=f"run-{job}.zip", media_type="application/zip", background=tidy)

        answer = given(request, is_welcome, make, status=404)
        if not isinstance(answer, FileResponse):
            shutil.rmtree(folder, ignore_errors=True)
        return answer

    @app.put("/run-files")
    async def take_in(request: Request) -> Any:
        if not is_welcome(request):
            return refusal("log in first", 401)
        try:
            with (
                room_for("this run"),
                tempfile.TemporaryDirectory(dir=studio.store.bases, prefix=".incoming.") as folder,
            ):
                path = Path(folder) / "run.zip"
                await receive(request, path)
                return {"name": await run_in_threadpool(studio.import_run, path, owner=owner_of(request))}
        except UserError as error:
            return refusal(str(error))
        except Exception:
            log.exception("a run could not be taken in")
            return refusal(SORRY, 500)


def RunDrop() -> gr.HTML:
    """Choose the zip of a run; shows its progress, then fires `taken` with `event.name`."""
    return component("rundrop", cls="drop-host", elem_id="import-run", script="transfer")
