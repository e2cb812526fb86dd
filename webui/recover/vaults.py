"""The door through which a forgotten task's vault file leaves: GET /vaults/SESSION/TASK, for the session's owner."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse

from engine.core.errors import UserError
from engine.studio import Studio
from webui.owner import owner_of
from webui.transfer import refusal


def add_routes(app: FastAPI, studio: Studio, is_welcome: Callable[[Request], bool]) -> None:
    @app.get("/vaults/{session}/{task}")
    def give_out(session: str, task: int, request: Request) -> Any:
        if not is_welcome(request):
            return refusal("log in first", 401)
        try:
            path = studio.task_vault(session, task, owner=owner_of(request))
        except UserError as error:
            return refusal(str(error), 404)
        return FileResponse(path, filename=path.name, media_type="application/octet-stream")
