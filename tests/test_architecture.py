"""Who may import whom. Read this first: it is the map of the project."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"torchvision", "lpips", "facenet_pytorch", "torchmetrics"}
INNER = {f"engine.{part}" for part in ("methods", "generators", "classifiers", "metrics", "delta", "masks")}

# folder or file -> modules it must not import, with the reason as the test's message
FORBIDDEN = {
    "engine": ({"gradio", "webui", "fastapi", "uvicorn"}, "the engine knows no page"),
    "engine/core": ({"torch", "safetensors", "numpy", *INNER, "engine.studio", "engine.store"}, "core is plain Python"),
    "engine/generators": ({"engine.methods", "engine.metrics", "engine.studio"}, "a generator knows no method"),
    "engine/classifiers": ({"engine.methods", "engine.metrics", "engine.studio"}, "a classifier knows no method"),
    "engine/methods": (
        {"engine.generators", "engine.classifiers", "engine.studio", "engine.store"},
        "a method knows models by protocol",
    ),
    "engine/audit": ({"engine.generators", "engine.studio", "engine.store"}, "an attack knows models by protocol"),
    "webui": ({"torch", "safetensors", *INNER}, "the page knows no tensors"),
}


def imports(path: Path, *, at_run_time: bool = True) -> set[str]:
    """Every module a file imports, in functions too; TYPE_CHECKING blocks do not count."""
    found: set[str] = set()
    pending = list(ast.parse(path.read_text()).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and at_run_time:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
        pending.extend(ast.iter_child_nodes(node))
    return found


def hits(found: set[str], banned: set[str]) -> set[str]:
    return {name for name in found for bad in banned if name == bad or name.startswith(f"{bad}.")}


@pytest.mark.parametrize("place", FORBIDDEN)
def test_nobody_imports_what_their_layer_must_not_know(place):
    banned, reason = FORBIDDEN[place]
    for path in (ROOT / place).rglob("*.py"):
        assert not hits(imports(path), banned), f"{path.relative_to(ROOT)}: {reason}"


def test_methods_do_not_import_each_other():
    names = {path.stem for path in (ROOT / "engine/methods").glob("*.py")} - {"__init__"}
    for name in names:
        others = {f"engine.methods.{other}" for other in names - {name}}
        assert not hits(imports(ROOT / f"engine/methods/{name}.py"), others), name


def test_only_vision_imports_the_packages_that_need_the_shim():
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "webui").rglob("*.py")]:
        if path != ROOT / "engine/vision.py":
            assert not hits(imports(path), HEAVY), path


def test_only_jobs_starts_a_thread():
    for path in (ROOT / "engine").rglob("*.py"):
        if path.name != "jobs.py":
            assert "threading.Thread(" not in path.read_text(), path


def test_the_device_is_chosen_in_one_place():
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "webui").rglob("*.py")]:
        text = path.read_text()
        if path != ROOT / "engine/device.py":
            for word in ('device="cpu"', "device='cpu'", '.to("cpu")', ".cuda()", '"cuda"', '.to("cuda'):
                assert word not in text, f"{path}: {word}"


def test_the_engine_never_seeds_the_global_random_stream():
    for path in (ROOT / "engine").rglob("*.py"):
        assert "torch.manual_seed" not in path.read_text(), path
