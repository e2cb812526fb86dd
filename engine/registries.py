"""Taking one archive from a package registry by its exact name, without running anything that is in it.

pip would run the set-up script of a source archive even to download it. So PyPI archives come straight from the
indexes that pip is configured for: their addresses, certificates and proxies are read from pip at run time. npm
archives come from npm's own client, which runs no script for a registry package.
"""

import ast
import base64
import contextlib
import html.parser
import http.client
import io
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Generator, Iterable
from functools import cache
from pathlib import Path

from engine.core.errors import DamagedFile, UserError

CHUNK = 1 << 20
Download = Generator[int, None, bytes]  # yields how many bytes have come, returns them all


class Unreachable(UserError):
    """No registry answered, or none has the archive."""


class NoNpm(UserError):
    """The npm client is not installed."""


def from_pypi(package: str, archive: str, size: int) -> Download:
    """The archive of that file name from the first configured index that has it, `size` bytes long."""
    troubles = []
    for page in _pages(package):
        try:
            for url in _links(page):
                if urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2] == archive:
                    return (yield from _download(url, size))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                troubles.append(f"{_host(page)}: {error}")
        except FileNotFoundError:
            continue
        except UserError:
            raise
        except (OSError, ValueError, http.client.HTTPException) as error:
            troubles.append(f"{_host(page)}: {getattr(error, 'reason', error)}")
    if troubles:
        raise Unreachable(f"the package index cannot be reached ({'; '.join(troubles)})")
    raise Unreachable(f"no package index that pip is configured for has {archive}")


def from_npm(package: str, version: str, archive: str, size: int) -> Download:
    """The archive of a registry package, by `npm pack` in a folder of its own."""
    npm = shutil.which("npm")
    if npm is None:
        raise NoNpm("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"{package}@{version}", "--ignore-scripts", "--pack-destination", folder]
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            while process.poll() is None:
                time.sleep(0.2)
                yield 0
        finally:
            process.kill()
            process.wait()
        found = Path(folder) / archive
        if process.returncode != 0 or not found.is_file():
            lines = [line for line in log.read_text("utf8", "replace").splitlines() if "ERR" in line or "error" in line]
            raise Unreachable(f"npm could not fetch it ({(lines or ['no reason given'])[0].strip()})")
        if found.stat().st_size != size:
            raise DamagedFile(f"{archive} has {found.stat().st_size} bytes, not {size}")
        return found.read_bytes()


def members(archive: str, content: bytes, paths: Iterable[str]) -> dict[str, bytes]:
    """Named files of a zip or tar, read in memory. A tar's one top folder (name-version/) is not part of the path."""
    wanted, found = set(paths), {}
    try:
        if archive.endswith((".whl", ".zip")):
            with zipfile.ZipFile(io.BytesIO(content)) as bundle:
                found = {name: bundle.read(name) for name in bundle.namelist() if name in wanted}
        else:
            with tarfile.open(fileobj=io.BytesIO(content)) as bundle:
                for member in bundle:
                    name = member.name.partition("/")[2]
                    if member.isfile() and name in wanted:
                        found[name] = bundle.extractfile(member).read()
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        raise DamagedFile(f"{archive} cannot be opened ({error})") from error
    if missing := wanted - found.keys():
        raise DamagedFile(f"{archive} lacks {', '.join(sorted(missing))}")
    return found


# ---------------------------------------------------------------------------- what pip is configured for


@cache
def _settings() -> dict[str, str]:
    """pip's effective settings by their short name: its files (command over global), then the environment."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    found: dict[str, str] = {}
    for wanted in ("global", "install", "download"):
        for line in lines:
            section, _, name = line.partition("=")[0].rpartition(".")
            if section == wanted:
                found[name] = str(ast.literal_eval(line.partition("=")[2]))
    prefix = "PIP_"
    named = {name.removeprefix(prefix): value for name, value in os.environ.items() if name.startswith(prefix)}
    return found | {name.lower().replace("_", "-"): value for name, value in named.items()}


def _pages(package: str) -> list[str]:
    """The addresses to look at: indexes (simple API) first, then the places of find-links."""
    settings = _settings()
    indexes = []
    if settings.get("no-index", "").lower() not in ("1", "true", "yes", "on"):
        indexes = [settings.get("index-url") or _default_index(), *settings.get("extra-index-url", "").split()]
    pages = [f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', package).lower()}/" for index in indexes]
    for place in settings.get("find-links", "").split():
        path = Path(place).expanduser()
        pages.append(path.resolve().as_uri() + ("/" if path.is_dir() else "") if path.exists() else place)
    return pages


def _default_index() -> str:
    try:
        from pip._internal.models.index import PyPI
    except ImportError as error:
        raise Unreachable("pip is not installed here, so no package index is known; set PIP_INDEX_URL") from error
    return PyPI.simple_url


def _links(page: str) -> list[str]:
    """The addresses that a simple-API page, an HTML page or a local folder lists."""
    url = urllib.parse.urlsplit(page)
    if url.scheme == "file":
        place = Path(urllib.request.url2pathname(url.path))
        if place.is_dir() and not (place / "index.html").is_file():
            return [entry.as_uri() for entry in place.iterdir()]
        content, kind = (place / "index.html" if place.is_dir() else place).read_bytes(), "text/html"
    else:
        accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
        with _open(page, {"Accept": accept}) as answer:
            content, kind = answer.read(), answer.headers.get_content_type()
            page = _with_login(answer.url, page)
    if kind.endswith("json"):
        hrefs = [file["url"] for file in json.loads(content)["files"]]
    else:
        reader = _Anchors()
        reader.feed(content.decode("utf8", "replace"))
        hrefs = reader.hrefs
    return [_with_login(urllib.parse.urljoin(page, href), page) for href in hrefs]


def _with_login(url: str, page: str) -> str:
    """An index that wants a name and password wants them for its files too; another host does not get them."""
    target, source = urllib.parse.urlsplit(url), urllib.parse.urlsplit(page)
    if not source.username or target.username or target.hostname != source.hostname:
        return url
    return target._replace(netloc=f"{source.netloc.rpartition('@')[0]}@{target.netloc}").geturl()


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hrefs += [value for name, value in attrs if tag == "a" and name == "href" and value]


# ---------------------------------------------------------------------------- the transfer itself


def _download(url: str, size: int) -> Download:
    content = bytearray()
    with _open(urllib.parse.urldefrag(url).url, {}) as answer:
        while chunk := answer.read(CHUNK):
            content += chunk
            if len(content) > size:
                raise DamagedFile(f"the archive has more than its {size} bytes")
            yield len(content)
    if len(content) < size:
        raise OSError(f"the transfer was cut off after {len(content)} of {size} bytes")
    return bytes(content)


def _open(url: str, headers: dict[str, str]):
    """Opens an address with pip's certificate, proxy and time-out; a name and password in it become a header."""
    parts = urllib.parse.urlsplit(url)
    if parts.username:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers = headers | {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    timeout = float(_settings().get("default-timeout") or _settings().get("timeout") or 15)
    return _opener().open(urllib.request.Request(url, headers=headers), timeout=timeout)


@cache
def _opener() -> urllib.request.OpenerDirector:
    settings = _settings()
    bundle = settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    context = ssl.create_default_context(cafile=bundle)
    if bundle is None:  # Pythons without the system's certificates: take pip's
        with contextlib.suppress(ImportError):
            from pip._vendor import certifi

            context.load_verify_locations(certifi.where())
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
    if proxy := settings.get("proxy"):
        handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
    return urllib.request.build_opener(*handlers)


def _host(page: str) -> str:
    """What a message may say of an address: no name, no password."""
    parts = urllib.parse.urlsplit(page)
    return parts.hostname or parts.path
