"""Data sets: disjoint splits, uint8 images, and clear words about a path that is not what it should be."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from engine import assets
from engine.core.errors import DamagedFile, UserError
from engine.datasets import datasets, hold_out, people, resize
from engine.generators import bases
from engine.generators.tiny import Tiny

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


def test_people_vary_without_leaving_their_code_and_draws_are_disjoint(tmp_path):
    generator = Tiny().eval()
    moves = (people.Move((1, 2), 0, 3, 0.5),)
    draws = [list(people.draw(generator, (1, 2), 3, moves, stream=s, psi=0.7, size=16)) for s in (0, 1, 0)]
    first, second, again = (torch.cat(parts) for parts in draws)
    assert first.shape == (6, 3, 16, 16) and first.dtype == torch.uint8
    assert torch.equal(first, again) and len({image.numpy().tobytes() for image in torch.cat([first, second])}) == 12
    still = torch.cat(
        list(people.draw(generator, (1,), 2, (people.Move((0,), 0, 3, 0.0),), stream=0, psi=0.7, size=16))
    )
    assert torch.equal(still[0], still[1])


def test_main_components_are_ordered_orthogonal_and_have_one_sign():
    parts = people.main_components(Tiny().eval(), 4)
    lengths = parts.norm(dim=1)
    assert (lengths[:-1] >= lengths[1:]).all()
    assert torch.allclose(parts @ parts.T, torch.diag(lengths**2), atol=1e-4)
    assert (parts.gather(1, parts.abs().argmax(1, keepdim=True)) > 0).all()


def test_people_are_kept_in_the_folder_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(people, "PEOPLE", {"Ada": 1, "Tom": 2})
    monkeypatch.setattr(people, "COUNTS", {"train": 3, "validation": 1, "test": 2})
    monkeypatch.setattr(people, "MOVES", (people.Move((1, 2), 0, 3, 0.5),))
    monkeypatch.setattr(people, "SIZE", 16)
    monkeypatch.setitem(bases, "ffhq", bases["tiny"])
    with pytest.raises(UserError, match="folder"):
        people.read(None)
    splits = people.read(tmp_path)
    assert splits.classes == ("Ada", "Tom") and [len(p) for p in (splits.train, splits.validation, splits.test)] == [
        6,
        2,
        4,
    ]
    monkeypatch.setattr(people, "make", None)  # the second time nothing is rendered
    assert torch.equal(people.read(tmp_path).test.x, splits.test.x)
    people.cache(tmp_path).write_bytes(people.cache(tmp_path).read_bytes()[:100])
    with pytest.raises(DamagedFile, match=r"people\.npz"):
        people.read(tmp_path)


@pytest.mark.assets
@pytest.mark.skipif(
    not assets.is_present("ffhq"), reason="the FFHQ generator is not fetched; run `python app.py assets`"
)
@pytest.mark.skipif(not assets.is_present("recogniser-a"), reason="recogniser A is not fetched")
def test_a_recogniser_sees_the_same_person_in_all_their_pictures():
    from engine.faces.recogniser_a import recogniser_a

    generator = bases["ffhq"].load().eval()
    seeds = tuple(people.PEOPLE.values())[:3]
    images = torch.cat(list(people.draw(generator, seeds, 4, people.MOVES, stream=2, psi=people.PSI, size=128)))
    codes = recogniser_a().of_ffhq(images.float() / 127.5 - 1)
    alike, same = codes @ codes.T, torch.block_diag(*[torch.ones(4, 4)] * 3).bool()
    assert alike[same & ~torch.eye(12).bool()].mean() > 0.45 and alike[~same].mean() < 0.2


@pytest.mark.shared
@pytest.mark.skipif(not SUBSET.exists(), reason="the measuring data is not beside the project")
def test_the_measuring_subset_of_cifar_loads():
    splits = datasets["cifar10"].load(SUBSET)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (9000, 1000, 2000)
    assert splits.shape == (3, 32, 32) and splits.classes[0] == "airplane"
