"""The doors through which files leave, each for the one whose they are.

GET /deposits/RUN             a deposit
GET /vaults/SESSION/TASK      a forgotten task's vault file
GET /audits/RUN.html|json     an audit's report
"""

import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response

from engine.core.errors import UserError
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

    @app.get("/audits/{name}")
    def audit(name: str, request: Request) -> Any:
        def make(owner: str) -> Response:
            job, _, kind = name.rpartition(".")
            if kind not in ("html", "json"):
                raise UserError(f"a report is written as html or json, not as {kind[:20]!r}")
            is_page = kind == "html"
            text = studio.audit_html(job, owner=owner) if is_page else json.dumps(studio.audit_report(job, owner=owner))
            media = "text/html" if is_page else "application/json"
            headers = {"content-disposition": f'attachment; filename="audit-{job}.{kind}"'}
            return Response(text, media_type=media, headers=headers)

        return given(request, is_welcome, make, status=404)
