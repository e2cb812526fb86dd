"""The judges: how they are split, calibrated and read, and what they say of real pictures where those are."""

import io
import zipfile
from pathlib import Path

import pytest
import torch

from engine import assets, attributes
from engine.attributes import (
    CELLS,
    FILE,
    NAMES,
    WHICH,
    WITNESS,
    AttributeNet,
    attribute_net,
    balanced_accuracy,
    card,
    together,
    width,
)
from engine.evaluation import jury
from engine.train.attributes import BLOCK, SETS, TAUGHT, Faces, calibrate, fit, measure

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
needs_trunk = pytest.mark.skipif(
    not assets.is_present("efficientnet-lite0"), reason="the ImageNet trunk is not here: python app.py assets fetch"
)


def made_up(n=600, seed=0):
    """Descriptions in which a third of the numbers are the attributes, blurred."""
    random = torch.Generator().manual_seed(seed)
    truth = (torch.rand(n, len(NAMES), generator=random) < 0.3).float()
    described = {}
    for which in WHICH:
        rows = torch.randn(n, 2, width(which), generator=random)
        rows[:, :, : 100 * len(NAMES)] += 2 * truth.repeat(1, 100)[:, None]
        described[which] = rows.half()
    truth[n // 2 :, 1:] = torch.nan  # the second half only knows glasses
    return Faces(described, truth, torch.arange(n) < n // 2, torch.arange(n) // BLOCK)


def test_the_two_networks_are_trained_on_disjoint_pictures_and_tested_on_neither():
    faces = made_up()
    halves = [faces.half(which) for which in WHICH]
    assert not (halves[0] & halves[1]).any() and not ((halves[0] | halves[1]) & faces.held_out).any()
    assert (halves[0] | halves[1] | faces.held_out).all()
    assert CELLS["judge"] != CELLS["second"]


def test_taught_generated_faces_teach_the_judge_alone_and_more_than_once():
    faces, n = made_up(n=60), 10
    taught = Faces(
        {which: rows[:n] for which, rows in faces.described.items()},
        torch.full((n, len(NAMES)), torch.nan),
        torch.zeros(n, dtype=torch.bool),
        torch.full((n,), TAUGHT),
    )
    both = faces.joined(taught)
    new = torch.arange(len(both.block)) >= 60
    assert both.half("judge")[new].all() and not both.half("second")[new].any() and not both.held_out[new].any()
    assert (both.times[new] > 1).all() and (both.times[~new] == 1).all()


def test_training_learns_what_can_be_learnt_and_leaves_the_unknown_out():
    faces = made_up()
    net = fit(faces, "second", epochs=6, seed=0)
    accuracy = measure(net, faces)
    assert accuracy["faces"]["glasses"] > 0.8 and set(accuracy["faces"]) == set(NAMES)
    assert set(accuracy["synthetic faces"]) == {"glasses"}
    again = fit(faces, "second", epochs=6, seed=0)
    assert torch.equal(net.out.weight, again.out.weight)


def test_calibration_moves_the_boundary_to_where_people_see_it():
    net, truth = AttributeNet("second").eval(), (torch.arange(200) % 4 == 0).float()
    described = torch.zeros(200, width("second"))
    described[:, 0] = 2 * truth + 0.1 * torch.randn(200, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.hidden.weight.zero_(), net.hidden.bias.zero_(), net.out.weight.zero_(), net.out.bias.zero_()
        net.hidden.weight[0, 0], net.out.weight[:, 0] = 1.0, 1.0
        net.out.bias -= 5  # nothing is seen at first
    assert balanced_accuracy((net(described) > 0)[:, 0], truth) == 0.5
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))  # both halves hold both kinds
    report = calibrate(net, (described[order], {"glasses": truth[order]}))
    assert report["glasses"]["balanced accuracy"] > 0.95 and balanced_accuracy((net(described) > 0)[:, 0], truth) > 0.95


def test_after_calibration_a_network_counts_as_many_as_people_do():
    random, n = torch.Generator().manual_seed(0), 4000
    truth = (torch.rand(n, generator=random) < 0.1).float()
    net, described = AttributeNet("second").eval(), torch.zeros(n, width("second"))
    described[:, 0] = 3 + 1.5 * truth + torch.randn(n, generator=random)  # one in ten, and hard to tell apart
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        net.hidden.weight[0, 0], net.out.weight[:, 0] = 1.0, 1.0
    report = calibrate(net, (described, {"beard": truth}))["beard"]
    seen = (net(described) > 0)[:, NAMES.index("beard")]
    assert 0.3 < seen.sum() / truth.sum() < 1.1  # the best balanced accuracy would see three times as many
    assert report["by both"] <= min(report["by eye"], report["by the network"])
    before = net.out.weight.clone()
    calibrate(net, (described, {"beard": truth}))
    assert torch.allclose(net.out.weight, before, atol=1e-3)  # doing it again changes nothing


@needs_trunk
@pytest.mark.assets
@pytest.mark.skipif(not FILE.exists(), reason="the judges are not trained yet: python -m engine.train.attributes")
def test_the_shipped_judges_are_small_honest_and_differentiable():
    assert FILE.stat().st_size < 4e6 * len((*WHICH, WITNESS))
    facts = card().facts
    assert "research use" in facts["licence"]
    assert card().accuracy("judge", "glasses") > 0.9 and card().accuracy("judge", "hat") > 0.85
    picture = torch.zeros(1, 3, 64, 64, requires_grad=True)
    for which in (*WHICH, WITNESS):
        picture.grad = None
        attribute_net(which).logits(picture).sum().backward()
        assert picture.grad.abs().max() > 0


@pytest.mark.assets
@pytest.mark.skipif(not assets.is_present("lpips-vgg"), reason="VGG is not here: python app.py assets fetch")
def test_the_witness_reads_another_trunk_than_the_nets_that_judge_and_attack(monkeypatch):
    def never(device):
        raise AssertionError("the witness asked for the judges' trunk")

    monkeypatch.setattr(attributes, "backbone", never)
    picture = torch.zeros(1, 3, 64, 64)
    assert attribute_net(WITNESS).logits(picture).shape == (1, len(NAMES))
    with pytest.raises(AssertionError, match="the judges' trunk"):
        attribute_net("second").logits(picture)


class Says(AttributeNet):
    """Always the same."""

    def __init__(self, logit):
        super().__init__("judge")
        self.logit = logit

    def logits(self, images):
        return torch.full((len(images), len(NAMES)), self.logit)


def test_two_judges_see_what_the_surer_one_sees():
    pictures = torch.zeros(20, 3, 8, 8)  # more than one batch
    assert together([Says(-1.0), Says(3.0)], pictures).all()
    assert not together([Says(1.0), Says(-3.0)], pictures).any()
    assert together([Says(1.0)], pictures).shape == (20, len(NAMES))


def test_the_jury_of_faces_is_two_nets_on_different_trunks_where_both_are_here(monkeypatch):
    monkeypatch.setattr(jury, "attribute_net", lambda which, device: Says(3.0 if which == "judge" else -1.0))
    for here, count in (((), 1), (("lpips-vgg",), 2)):
        monkeypatch.setattr(assets, "is_present", lambda name, here=here: name in here)
        found = jury.face_jury()
        assert len(found.nets) == count and not set(found.nets) & {"second"}
        assert found.sees(torch.zeros(3, 3, 8, 8)).all()


@needs_trunk
@pytest.mark.assets
@pytest.mark.shared
@pytest.mark.skipif(not FILE.exists(), reason="the judges are not trained yet: python -m engine.train.attributes")
@pytest.mark.skipif(not DATA.is_dir(), reason="the measuring data is not beside the project")
def test_the_judge_tells_held_out_faces_with_glasses_from_those_without():
    import csv

    with zipfile.ZipFile(DATA / f"{SETS[0]}.zip") as archive:
        rows = [r for r in csv.DictReader(io.TextIOWrapper(archive.open("index.csv"))) if r["glasses"]]
        held = [row for k, row in enumerate(rows) if (k // 25) % 6 == 5]
        rows = [r for r in held if r["glasses"] == "1"][:16] + [r for r in held if r["glasses"] == "0"][:16]
        from engine.train.attributes import opened

        pictures = torch.stack([opened(archive.read(row["file"])) for row in rows])
    says = attribute_net("judge").sees(pictures)[:, attributes.index("glasses")]
    assert balanced_accuracy(says, torch.tensor([float(row["glasses"]) for row in rows])) > 0.85
