"""Data sets: disjoint splits, uint8 images, and clear words about a path that is not what it should be."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from engine.core.errors import DamagedFile, UserError
from engine.datasets import datasets, hold_out, resize

SUBSET = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar10_subset.npz"


def rows(images) -> set[bytes]:
    return {image.numpy().tobytes() for image in images.x}


def npz(path: Path, **changes) -> Path:
    noise = np.random.default_rng(0)
    arrays = {
        "x_train": noise.integers(0, 255, (40, 8, 8, 3), dtype=np.uint8),
        "y_train": np.arange(40) % 4,
        "x_test": noise.integers(0, 255, (8, 8, 8, 3), dtype=np.uint8),
        "y_test": np.arange(8) % 4,
        "classes": np.array(["a", "b", "c", "d"]),
    }
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})
    return path


def test_digits_come_in_three_disjoint_parts_of_all_ten_classes():
    splits = datasets["digits"].load()
    parts = [splits.train, splits.validation, splits.test]
    assert sum(map(len, parts)) == 1797
    for part in parts:
        assert part.x.dtype == torch.uint8 and part.y.dtype == torch.int64
        assert part.y.unique().tolist() == list(range(10)) and part.x.shape[1:] == (1, 16, 16)
    # Some digits were drawn twice pixel for pixel, so the proof runs on positions of a set without doubles.
    x = torch.arange(60, dtype=torch.uint8).reshape(60, 1, 1, 1)
    rest, held = hold_out(type(splits.train)(x, torch.arange(60) % 3), 0.2, seed=0)
    assert not rows(rest) & rows(held) and len(rest) + len(held) == 60
    assert held.y.bincount().tolist() == [4, 4, 4]


def test_the_same_split_is_drawn_every_time():
    first, second = datasets["digits"].load(), datasets["digits"].load()
    assert torch.equal(first.test.x, second.test.x) and torch.equal(first.validation.y, second.validation.y)


def test_another_side_is_given_when_asked_for():
    assert datasets["digits"].load(size=28).shape == (1, 28, 28)
    x = torch.randint(0, 255, (2, 3, 8, 8), dtype=torch.uint8)
    assert resize(x, 8) is x and resize(x, 4).dtype == torch.uint8


@pytest.mark.parametrize("name", ["cifar10", "cub200", "fashion-mnist"])
def test_an_npz_is_read_with_its_class_names(name, tmp_path):
    splits = datasets[name].load(npz(tmp_path / "own.npz"), size=8)
    assert splits.classes == ("a", "b", "c", "d") == splits.train.classes
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (36, 4, 8)
    assert not rows(splits.train) & rows(splits.validation)


def test_grey_images_get_a_channel_and_numbers_serve_as_names(tmp_path):
    x = np.zeros((40, 8, 8), dtype=np.uint8)
    splits = datasets["fashion-mnist"].load(npz(tmp_path / "grey.npz", x_train=x, x_test=x[:8], classes=None), size=8)
    assert splits.shape == (1, 8, 8) and splits.classes == ("0", "1", "2", "3")


def test_folders_of_classes_are_read(tmp_path):
    for part in ("train", "test"):
        for shade, name in ((20, "dark"), (230, "light")):
            (tmp_path / part / name).mkdir(parents=True)
            for index in range(3):
                Image.new("RGB", (12, 10), (shade, shade, index)).save(tmp_path / part / name / f"{index}.png")
    splits = datasets["cifar10"].load(tmp_path)
    assert splits.classes == ("dark", "light") and splits.shape == (3, 32, 32)
    light = splits.test.of((1,))
    assert len(light) == 3 and light.x[:, 0].float().mean() == 230


def test_the_published_layout_of_cub_is_read(tmp_path):
    (tmp_path / "images.txt").write_text(
        "1 001.Sooty_Tern/a.jpg\n2 002.Crow/b.jpg\n3 001.Sooty_Tern/c.jpg\n4 002.Crow/d.jpg\n"
    )
    (tmp_path / "train_test_split.txt").write_text("1 1\n2 1\n3 0\n4 0\n")
    for name in ("001.Sooty_Tern/a", "002.Crow/b", "001.Sooty_Tern/c", "002.Crow/d"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9)).save(tmp_path / "images" / f"{name}.jpg")
    splits = datasets["cub200"].load(tmp_path)
    assert splits.classes == ("Sooty Tern", "Crow") and splits.test.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y_test": None}, "lacks y_test"),
        ({"x_train": np.zeros((40, 8, 8, 3), dtype=np.float32)}, "must be uint8"),
        ({"y_train": np.arange(39) % 4}, "39 labels"),
        ({"y_train": np.arange(40) % 5}, "labels 0 to 4 for 4 classes"),
    ],
)
def test_an_npz_that_does_not_fit_is_refused_with_the_reason(tmp_path, changes, words):
    with pytest.raises(DamagedFile, match=words):
        datasets["cifar10"].load(npz(tmp_path / "own.npz", **changes))


def test_a_cut_off_file_is_refused(tmp_path):
    whole = npz(tmp_path / "own.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFile, match=r"cut\.npz"):
        datasets["cifar10"].load(tmp_path / "cut.npz")


def test_a_missing_path_says_what_to_point_at(tmp_path):
    with pytest.raises(UserError, match="x_train"):
        datasets["cifar10"].load()
    with pytest.raises(UserError, match="does not exist"):
        datasets["cub200"].load(tmp_path / "nowhere")
    (tmp_path / "note.txt").write_text("no images here")
    with pytest.raises(UserError, match="nothing readable"):
        datasets["cub200"].load(tmp_path)


@pytest.mark.shared
@pytest.mark.skipif(not SUBSET.exists(), reason="the measuring data is not beside the project")
def test_the_measuring_subset_of_cifar_loads():
    splits = datasets["cifar10"].load(SUBSET)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (9000, 1000, 2000)
    assert splits.shape == (3, 32, 32) and splits.classes[0] == "airplane"
