"""The doors through which files leave, each for the one whose they are.

GET /deposits/RUN             a deposit
GET /vaults/SESSION/TASK      a forgotten task's vault file
"""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse

from engine.studio import Studio
from webui.transfer import given

KIND = "application/octet-stream"


def add_routes(app: FastAPI, studio: Studio, is_welcome: Callable[[Request], bool]) -> None:
    @app.get("/deposits/{job}")
    def deposit(job: str, request: Request) -> Any:
        def make(owner: str) -> FileResponse:
            path, row = studio.deposit_file(job, owner=owner), studio.run(job, owner)
            name = f"{'-'.join(row.params['classes'])[:60]}.deposit.safetensors".replace("/", "-").replace(" ", "_")
            return FileResponse(path, filename=name, media_type=KIND)

        return given(request, is_welcome, make, status=404)

    @app.get("/vaults/{session}/{task}")
    def vault(session: str, task: int, request: Request) -> Any:
        def make(owner: str) -> FileResponse:
            path = studio.task_vault(session, task, owner=owner)
            return FileResponse(path, filename=path.name, media_type=KIND)

        return given(request, is_welcome, make, status=404)
