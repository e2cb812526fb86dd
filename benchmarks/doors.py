"""Every place where the product takes a file, with good files for it and with what was built against it.

doors = Doors(folder)               a studio in folder/data; `outside` is where nothing may ever appear
for sent in doors.hostile(1000, seed=0):
    outcome = doors.send(sent)
doors.close()
"""

import itertools
import json
import random as randomness
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import hostile
from engine.core.errors import UserError
from engine.core.joblog import State
from engine.core.targets import Seeds
from engine.datasets import datasets
from engine.faces.photo import open_photo
from engine.generators import architectures
from engine.masks import vault
from engine.studio import READY, Studio
from tests import published
from webui.feature.files import taken
from webui.pages.feature import PSI

LONGEST = 600  # letters of a sentence that somebody would read
CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
OWNER = "0123456789abcdef" * 2


@dataclass(frozen=True)
class Sent:
    """One file, and to which door it goes."""

    door: str
    what: str
    content: bytes


@dataclass(frozen=True)
class Outcome:
    """What came of it. `said` is the refusal's sentence; `broke` is what should never be."""

    sent: Sent
    said: str = ""
    broke: str = ""
    seconds: float = 0.0
    grown: int = 0  # bytes of memory at the peak, beyond what was held before


class Doors:
    """One studio with a run, labels, a deposit and a forgotten task, so that every door has its good file."""

    def __init__(self, folder: Path, bomb: int = 1 << 28) -> None:
        """A `bomb` unfolds to so many bytes."""
        self.folder, self.outside = folder, folder / "outside"
        self.inbox = folder / "inbox"
        for place in (self.outside, self.inbox):
            place.mkdir(parents=True)
        self.studio = Studio(folder / "data", "cpu", base="tiny")
        self._prepare()
        self.take: dict[str, Callable[[Path], object]] = {
            "photo": lambda path: open_photo(path.read_bytes()),
            "picture for a classifier": self._try_picture,
            "labels": lambda path: taken(self.studio, path.read_bytes(), PSI, OWNER),
            "run": lambda path: self.studio.import_run(path, owner=OWNER),
            "model": self._import_model,
            "deposit": self._hand_back_deposit,
            "vault": self._hand_back_task,
            "data set": lambda path: self.studio.class_pictures("cifar10", str(path)),
            "folder of pictures": self._read_folder,
            "published data set": self._read_published,
            "list of pictures": self._read_list,
        }
        self.good = self._good_files()
        self.built = self._built_files(bomb)
        self.before, self.count = self._everything(), 0

    def close(self) -> None:
        self.studio.close()

    # Good files

    def _prepare(self) -> None:
        studio = self.studio
        self.run = studio.wait(studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 3}, owner=OWNER)).id
        studio.labels.set_many(OWNER, "tiny", "hat", {seed: seed % 2 for seed in range(30)})
        quick = {"steps": 4, "dreams": 8, "dream_steps": 1}
        self.deposit = studio.wait(studio.deposit("digits", READY, ["two"], quick)).id
        begun = studio.wait(studio.begin_tasks("packnet", "digits", {"steps": 4, "batch": 8}))
        self.session = begun.params["session"]
        studio.wait(studio.learn_task(self.session))
        studio.wait(studio.forget_task(self.session, 0))

    def _good_files(self) -> dict[str, list[bytes]]:
        studio, scrap = self.studio, self.inbox / "scrap"
        photos = [hostile.picture(kind) for kind in ("JPEG", "PNG", "WEBP")]
        run = studio.export_run(self.run, scrap.with_suffix(".zip"), owner=OWNER).read_bytes()
        model = studio.export("tiny", [], scrap.with_suffix(".safetensors")).read_bytes()
        labels = [studio.labels_text("tiny", "hat", kind, owner=OWNER).encode() for kind in ("json", "csv")]
        good = {
            "photo": photos,
            "picture for a classifier": photos,
            "labels": labels,
            "run": [run],
            "model": [model, *published_models()],
            "deposit": [studio.deposit_file(self.deposit).read_bytes()],
            "vault": [studio.task_vault(self.session, 0).read_bytes()],
            "data set": [hostile.good_dataset()],
            "folder of pictures": photos,
            "published data set": [hostile.idx()],
            "list of pictures": [b"1 001.Crow/good.png\n2 002.Tern/good.png\n"],
        }
        for path in self.inbox.iterdir():
            path.unlink()
        return good

    def _built_files(self, bomb: int) -> dict[str, dict[str, bytes]]:
        pictures, archives = hostile.odd_pictures(bomb), hostile.odd_archives(self.outside, bomb)
        pickles, texts = hostile.odd_pickles(self.outside), hostile.odd_texts()
        labels = json.loads(self.good["labels"][0])
        model, deposit, kept = (self.good[door][0] for door in ("model", "deposit", "vault"))
        tensors = vault.read(self.studio.task_vault(self.session, 0))[1]
        odd_model, odd_deposit, odd_vault = (
            hostile.odd_safetensors(hostile.metadata(good)) for good in (model, deposit, kept)
        )
        return {
            "photo": pictures | texts,
            "picture for a classifier": pictures | texts,
            "labels": hostile.odd_labels(labels) | texts,
            "run": archives | texts | hostile.odd_runs(self.good["run"][0], pictures),
            "model": pickles | archives | odd_model | hostile.odd_models(model) | texts,
            "deposit": odd_deposit | hostile.odd_deposits(deposit) | pickles | texts,
            "vault": odd_vault | hostile.odd_vaults(kept, lambda card: vault._seal(card, tensors)) | pickles | texts,
            "data set": hostile.odd_datasets(self.outside, bomb) | archives | texts,
            "folder of pictures": pictures | texts,
            "published data set": hostile.odd_idx() | texts,
            "list of pictures": hostile.odd_lists() | texts,
        }

    # Bad ones

    def hostile(self, count: int, seed: int = 0) -> Iterator[Sent]:
        """As many, every door in turn: at each what was built against it, then good files that were spoilt in every
        way, and good files of other doors."""
        random, names = randomness.Random(seed), list(self.take)
        lines = {name: self._line(name, random) for name in names}
        for number in range(count):
            yield next(lines[names[number % len(names)]])

    def _line(self, door: str, random: randomness.Random) -> Iterator[Sent]:
        built = random.sample(sorted(self.built[door].items()), len(self.built[door]))
        others = [content for name, some in self.good.items() if name != door for content in some]
        for number in itertools.count():
            if number < len(built):
                yield Sent(door, *built[number])
            if number % 2 == 0:
                yield Sent(door, *hostile.spoilt(random.choice(self.good[door]), number // 2, random))
            if number % 16 == 0:
                yield Sent(door, "a good file of another kind", random.choice(others))

    def send(self, sent: Sent) -> Outcome:
        """Gives the file to its door, and looks at what it left behind."""
        self.count += 1
        path = self.inbox / f"sent-{self.count}"  # a name of its own: a data set is remembered by its path
        path.write_bytes(sent.content)
        held, began, said, broke = forget_peak(), time.monotonic(), "", ""
        try:
            self.take[sent.door](path)
        except UserError as error:
            said = str(error)
        except BaseException as error:
            broke = f"{type(error).__name__}: {str(error)[:200]}"
        seconds, grown = time.monotonic() - began, max(0, peak() - held)
        path.unlink()
        left = self._left_behind(refused=bool(said or broke))
        broke = broke or self._wrong_sentence(said) or left
        return Outcome(sent, said, broke, seconds, grown)

    def _wrong_sentence(self, said: str) -> str:
        return f"a refusal of {len(said)} letters" if len(said) > LONGEST or "Traceback" in said else ""

    def _left_behind(self, *, refused: bool) -> str:
        """In words, if a file lies where none may: outside at any time, in the data folder after a refusal."""
        now = self._everything()
        new = sorted(path for path in now - self.before if not refused or path.is_file())
        self.before = now
        if not refused:
            new = [path for path in new if not path.is_relative_to(self.studio.store.root)]
        return f"left {new[0].relative_to(self.folder)} behind" if new else ""

    def _everything(self) -> set[Path]:
        return {path for path in self.folder.rglob("*") if not path.name.startswith("studio.sqlite")}

    # Doors that need more than a line; what they took in by chance is given back, for the next one

    def _import_model(self, path: Path) -> None:
        self.studio.import_base(path, "arrived")
        self.studio.sample("arrived", [1])
        self.studio.delete_base("arrived")

    def _hand_back_deposit(self, path: Path) -> None:
        list(self.studio.withdraw(self.deposit, [path]))
        list(self.studio.take_out_again(self.deposit))

    def _hand_back_task(self, path: Path) -> None:
        row = self.studio.wait(self.studio.hand_back_task(self.session, path.read_bytes()))
        assert row.state is State.DONE, row.error
        self.studio.wait(self.studio.forget_task(self.session, 0))

    def _try_picture(self, path: Path) -> None:
        self.studio.try_picture(self.deposit, self.studio.own_picture(path.read_bytes()))

    def _read_folder(self, path: Path) -> None:
        folder = self.inbox / "pictures"
        for part in ("train", "test"):
            for name in ("cat", "dog"):
                (folder / part / name).mkdir(parents=True)
                (folder / part / name / "good.png").write_bytes(self.good["photo"][1])
        shutil.copy(path, folder / "train" / "cat" / "sent.png")
        try:
            datasets["cifar10"].load(folder)
        finally:
            shutil.rmtree(folder)

    def _read_published(self, path: Path) -> None:
        raw = self.inbox / "clothes" / "FashionMNIST" / "raw"
        raw.mkdir(parents=True)
        labels = struct.pack(">BBBBI", 0, 0, 8, 1, 40) + bytes(range(10)) * 4
        for part in ("train", "t10k"):
            (raw / f"{part}-images-idx3-ubyte").write_bytes(self.good["published data set"][0])
            (raw / f"{part}-labels-idx1-ubyte").write_bytes(labels)
        shutil.copy(path, raw / "train-images-idx3-ubyte")
        try:
            datasets["fashion-mnist"].load(self.inbox / "clothes")
        finally:
            shutil.rmtree(self.inbox / "clothes")

    def _read_list(self, path: Path) -> None:
        birds = self.inbox / "birds"
        for kind in ("001.Crow", "002.Tern"):
            (birds / "images" / kind).mkdir(parents=True)
            (birds / "images" / kind / "good.png").write_bytes(self.good["photo"][1])
        (birds / "train_test_split.txt").write_text("1 1\n2 0\n")
        shutil.copy(path, birds / "images.txt")
        try:
            datasets["cub200"].load(birds)
        finally:
            shutil.rmtree(birds)


def published_models() -> list[bytes]:
    """A small StyleGAN2 as its authors pickle it, and its weights as torch saves and saved them."""
    settings = {"z_dim": 8, "c_dim": 0, "w_dim": 8, "img_resolution": 8, "img_channels": 3, "channel_base": 64}
    settings |= {"channel_max": 8, "mapping_kwargs": {"num_layers": 1}}
    state = architectures["stylegan2"](**settings).state_dict()
    whole = {"G": None, "D": None, "G_ema": published.network(published.tree(state), settings)}
    return [published.dump(whole), published.torch_save(state), published.torch_save(state, archive=False)]


def forget_peak() -> int:
    """Bytes held now; `peak` counts from here on."""
    CLEAR.write_text("5")
    return _status("VmRSS")


def peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])
