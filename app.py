"""Lethe: an unlearning studio. `python app.py` serves the page; `python app.py <verb>` works without one."""

import argparse
import hashlib
import os
import shutil
import sys
from pathlib import Path

# Before gradio is imported by anyone: nothing calls out.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from engine.commands import verbs
from engine.commands.screen import say
from engine.core.errors import UserError
from engine.memory import uncollected


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: done; 1: the user can mend it, and the sentence says how; 2: the words of the call are off."""
    args = parser().parse_args(argv)
    opened = []

    def open_studio():
        from engine.studio import ROOT, Studio

        opened.append(Studio(args.data or ROOT, args.device, base=args.first_base))
        return opened[-1]

    try:
        if args.verb is None:
            return serve(args, open_studio)
        say(verbs[args.verb].run(args, open_studio), as_json=args.json)
    except UserError as error:
        print(f"lethe: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        for studio in opened:
            studio.close()
    return 0


def parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", type=Path, default=argparse.SUPPRESS, help="data folder (default: checkpoints/)")
    common.add_argument(
        "--device", choices=("auto", "cpu", "cuda", "mps"), default=argparse.SUPPRESS, help="default auto"
    )
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for machines")
    top = argparse.ArgumentParser(
        prog="app.py", parents=[common], description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.set_defaults(data=None, device="auto", json=False)
    page = top.add_argument_group("the page")
    page.add_argument("--host", default="127.0.0.1", help="address to listen on (another than loopback needs --auth)")
    page.add_argument("--port", type=int, default=7860, help="port (default 7860)")
    page.add_argument(
        "--base",
        dest="first_base",
        metavar="NAME",
        help="model the page opens with (default: the best one that is here)",
    )
    page.add_argument("--auth", metavar="NAME:PASSWORD", help="ask visitors for a name and a password")
    page.add_argument("--mcp", action="store_true", help="offer the endpoints of docs/endpoints.md as MCP tools, too")
    chosen = top.add_subparsers(dest="verb", metavar="verb", title="verbs (without one, the page is served)")
    for name, verb in sorted(verbs.items()):
        verb.arguments(chosen.add_parser(name, parents=[common], help=verb.help, description=verb.help.capitalize()))
    return top


def serve(args: argparse.Namespace, open_studio) -> int:
    with uncollected():
        studio = open_studio()
        studio.default_base()  # a wrong --base is said before anything is opened
        studio.claim()
        os.environ["GRADIO_TEMP_DIR"] = str(empty_upload_folder(studio.store.root))
        from webui.app import serve as serve_page

    return serve_page(studio, host=args.host, port=args.port, auth=args.auth, mcp=args.mcp)


def empty_upload_folder(data: Path) -> Path:
    """Where Gradio puts uploads: ours alone, in memory where the system has a place for that, one to a data folder.
    What a killed server left there goes now; the data folder is claimed, so nobody else uses it."""
    memory = Path("/dev/shm")
    name = f"lethe-{os.getuid()}-{hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:12]}"
    folder = (memory if os.access(memory, os.W_OK) else data) / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)  # fails if somebody else put something there
    return folder


if __name__ == "__main__":
    sys.exit(main())
