"""The door through which a deposit file leaves: GET /deposits/RUN, for the one who made it."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse

from engine.core.errors import UserError
from engine.studio import Studio
from webui.owner import owner_of
from webui.transfer import refusal


def add_routes(app: FastAPI, studio: Studio, is_welcome: Callable[[Request], bool]) -> None:
    @app.get("/deposits/{job}")
    def give_out(job: str, request: Request) -> Any:
        if not is_welcome(request):
            return refusal("log in first", 401)
        try:
            path, row = studio.deposit_file(job, owner=owner_of(request)), studio.run(job, owner_of(request))
        except UserError as error:
            return refusal(str(error), 404)
        name = f"{'-'.join(row.params['classes'])[:60]}.deposit.safetensors".replace("/", "-").replace(" ", "_")
        return FileResponse(path, filename=name, media_type="application/octet-stream")
