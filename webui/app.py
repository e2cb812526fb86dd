"""The server: all pages in one Gradio app, mounted under headers that let nothing out."""

import asyncio
import contextlib
import importlib.util
import ipaddress
import logging
import socket
import warnings
from collections.abc import AsyncIterator

import gradio as gr
import uvicorn
from fastapi import FastAPI, Request
from starlette.routing import Mount

from engine.core.errors import UserError
from engine.memory import uncollected
from engine.studio import Studio
from webui import pictures, report, runfiles
from webui.endpoints import add_endpoints
from webui.feature import files
from webui.headers import HEADERS, LOOPBACK, First, Headers, OnlyHosts
from webui.owner import Owners
from webui.pages import pages
from webui.recover import downloads
from webui.shell import footer, header, keep_stream
from webui.theme import first_script, head, theme
from webui.transfer import add_routes, clean

TEN_MINUTES = 600
PLACES = 1000  # events at one time: an open page holds one, a run that is watched another; neither holds a thread


def build(studio: Studio) -> gr.Blocks:
    """Every registered page, each in the common frame."""
    ordered = sorted(pages.values(), key=lambda page: page.order)
    demo = gr.Blocks(title="Lethe", analytics_enabled=False, delete_cache=(TEN_MINUTES, TEN_MINUTES), fill_width=True)
    for page in ordered:
        if page.path:
            demo.route(page.title, page.path)
    # All pages in one context: Gradio makes its whole web application anew whenever one is left.
    with demo:
        demo.current_page = pages["help"].path  # where they are described
        add_endpoints(studio)  # first: a handler of a page would take a name such as "sample"
        for page in ordered:
            demo.current_page = page.path
            header(ordered, page)
            with gr.Column(elem_id="content", elem_classes=[f"page-{page.path or 'start'}"]):
                page.build(studio, demo)
            footer()
            keep_stream(demo)
    demo.max_threads = PLACES
    return demo.queue(default_concurrency_limit=8, max_size=256)


def site(
    studio: Studio, auth: tuple[str, str] | None = None, hosts: tuple[str, ...] = (), *, mcp: bool = False
) -> FastAPI:
    """The whole web application. `hosts` are the only names it answers to; none given means any. `mcp` offers the
    endpoints as tools to MCP clients, too."""

    @contextlib.asynccontextmanager
    async def warm(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(asyncio.to_thread(pictures.warm, studio))
        yield
        task.cancel()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=warm)

    @app.get("/healthz")
    def healthz() -> dict[str, bool]:
        return {"ok": True}

    def is_welcome(request: Request) -> bool:
        """Gradio's own login decides; its tokens are in cookies it has set."""
        inner = next(route.app for route in app.routes if isinstance(route, Mount))
        cookies = {value for name, value in request.cookies.items() if name.startswith("access-token")}
        return auth is None or any(inner.tokens.get(value) for value in cookies)

    add_routes(app, studio, is_welcome)
    files.add_routes(app, studio, is_welcome)
    downloads.add_routes(app, studio, is_welcome)
    report.add_routes(app, studio, is_welcome)
    runfiles.add_routes(app, studio, is_welcome)
    warnings.filterwarnings("ignore", message="SSR mode")  # we never ask for it
    app = gr.mount_gradio_app(
        app,
        build(studio),
        path="/",
        auth=auth,
        auth_message="This studio asks for a name and a password.",
        theme=theme(),
        head=head(),
        ssr_mode=False,
        show_error=False,
        footer_links=[],
        max_file_size="10mb",
        run_history=False,
        enable_monitoring=False,
        app_kwargs={"openapi_url": None, "docs_url": None, "redoc_url": None},
        pwa=False,
        mcp_server=mcp,
    )
    app.add_middleware(Owners, username=auth[0] if auth else None)
    if hosts:
        app.add_middleware(OnlyHosts, names=hosts)
    app.add_middleware(First, html=first_script())
    app.add_middleware(Headers, headers=HEADERS)
    return app


def serve(
    studio: Studio, *, host: str = "127.0.0.1", port: int = 7860, auth: str | None = None, mcp: bool = False
) -> int:
    """Serves until it is interrupted. Says one line when the page can be opened."""
    user = credentials(auth)
    if mcp:
        check_mcp(user)
    if not is_loopback(host) and user is None:
        raise UserError(f"--host {host}: others could reach this page; add --auth NAME:PASSWORD, or leave --host out")
    listener = listen(host, port)
    studio.claim()
    clean(studio)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with uncollected():
        app = site(studio, user, () if user else LOOPBACK, mcp=mcp)
    port = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    Server(config, f"Lethe is ready: http://{shown}:{port}").run(sockets=[listener])
    return 0


class Server(uvicorn.Server):
    """Speaks when it can be visited, not before."""

    def __init__(self, config: uvicorn.Config, greeting: str) -> None:
        super().__init__(config)
        self.greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self.greeting, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(
            logging.CRITICAL
        )  # pages that still watch are cut off; that is no news
        await super().shutdown(sockets)


def credentials(auth: str | None) -> tuple[str, str] | None:
    if auth is None:
        return None
    name, colon, password = auth.partition(":")
    if not (name and colon and password):
        raise UserError("--auth: must be NAME:PASSWORD, both of at least one letter")
    return name, password


def check_mcp(user: tuple[str, str] | None) -> None:
    """Gradio's tools call its own server, where they cannot log in."""
    if user is not None:
        raise UserError("--mcp: its tools cannot log in; leave out --auth, or call the endpoints over HTTP with it")
    if importlib.util.find_spec("mcp") is None:
        package = f'"gradio[mcp]=={gr.__version__}"'
        raise UserError(f"--mcp needs a package that is not here; run 'pip install {package}', then start again")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """Takes the port now, so that a taken one is said in words before anything is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OverflowError as error:
        raise UserError(f"--port {port}: must lie in [0, 65535]") from error
    except OSError as error:
        listener.close()
        raise UserError(
            f"port {port} on {host} cannot be used ({error.strerror}); is Lethe already running? Try --port {port + 1}"
        ) from error
    return listener
