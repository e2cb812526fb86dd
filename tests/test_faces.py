import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from engine import assets, rounded
from engine.core.errors import UserError
from engine.faces import align, detect, recogniser_a, recogniser_b
from engine.faces.age_gender import AgeGender
from engine.faces.crop import Crop
from engine.faces.expression import Expression
from engine.faces.landmarks import Landmarks

# The five points of the mean face in an FFHQ-aligned image, in parts of its side (300 generated faces).
MEAN = np.array([[0.3773, 0.4711], [0.6267, 0.4712], [0.5003, 0.6210], [0.3852, 0.7256], [0.6203, 0.7271]])


def as_input(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 127.5 - 1


# ---------------------------------------------------------------------------- alignment


def test_a_similarity_is_recovered_from_five_points():
    angle, scale, shift = 0.4, 2.5, np.array([30.0, -12.0])
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    found = align.similarity(MEAN, MEAN @ turn.T + shift)
    np.testing.assert_allclose(found, np.column_stack([turn, shift]), atol=1e-12)


def test_a_similarity_never_mirrors():
    mirrored = MEAN * [-1, 1]
    assert np.linalg.det(align.similarity(MEAN, mirrored)[:, :2]) > 0


def test_ffhqs_square_of_an_ffhq_face_is_the_whole_image():
    corners = align.ffhq_quad(MEAN)
    np.testing.assert_allclose(corners, [[0, 0], [0, 1], [1, 1], [1, 0]], atol=0.01)


def landscape(size: int) -> np.ndarray:
    """A smooth picture with no symmetry."""
    y, x = np.mgrid[:size, :size] / size
    return np.stack([255 * x, 255 * y, 127 + 120 * np.sin(5 * x + 3 * y)], -1).astype(np.uint8)


def test_aligning_an_ffhq_image_gives_it_back():
    image = landscape(256)
    again = align.ffhq(image, MEAN * 256, 256)
    assert again.shape == (256, 256, 3) and again.dtype == np.uint8
    assert np.abs(again[16:-16, 16:-16].astype(int) - image[16:-16, 16:-16]).mean() < 4


def test_a_turned_face_is_turned_back():
    image, angle = landscape(256), 25
    turned = np.asarray(Image.fromarray(image).rotate(angle, Image.Resampling.BICUBIC))
    radians = np.deg2rad(-angle)
    turn = np.array([[np.cos(radians), -np.sin(radians)], [np.sin(radians), np.cos(radians)]])
    points = (MEAN * 256 - 128) @ turn.T + 128
    again = align.ffhq(turned, points, 128)
    expected = np.asarray(Image.fromarray(image).reduce(2))
    inner = np.hypot(*(np.mgrid[:128, :128] - 63.5)) < 55  # the corners were turned out of the image
    assert np.abs(again.astype(int) - expected)[inner].mean() < 4


@pytest.mark.parametrize("size", [64, 256, 1024])
def test_a_face_at_the_edge_is_filled_with_its_surroundings(size):
    photo = landscape(300)[:, 120:]
    made = align.ffhq(photo, MEAN * 260 + [-150, 10], size)
    assert made.shape == (size, size, 3)
    assert made.reshape(-1, 3).min(0).max() > 0  # no black border


def test_a_large_photo_is_shrunk_without_aliasing():
    stripes = np.tile(np.array([0, 255], np.uint8), 2000)[None, :, None].repeat(4000, 0).repeat(3, 2)
    made = align.ffhq(stripes, MEAN * 3000 + 300, 128)
    assert made.std() < 12 and 110 < made.mean() < 145


def test_five_points_land_on_the_template():
    size, template = align.ARCFACE
    image = np.zeros((400, 400, 3), np.uint8)
    points = np.rint(MEAN * 300 + 40)
    for x, y in points.astype(int):
        image[y - 4 : y + 5, x - 4 : x + 5] = 255
    made = align.five_point(image, points + 0.5, align.ARCFACE)
    assert made.shape == (size, size, 3)
    for x, y in template:
        assert made[int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3].max() > 200


# ---------------------------------------------------------------------------- the fixed crops


def test_a_crop_means_the_same_place_at_every_size():
    small, large = (as_input(landscape(size)[None]) for size in (128, 1024))
    a, b = (recogniser_a.FFHQ.take(image, 112) for image in (small, large))
    assert (a - b).abs().mean() < 0.02


def test_a_crop_of_a_large_image_does_not_alias():
    stripes = (torch.arange(1024) // 2 % 2 * 2.0 - 1).expand(1, 3, 1024, 1024)
    assert recogniser_a.FFHQ.take(stripes, 112).abs().mean() < 0.1


def test_a_crop_of_the_whole_is_the_image():
    image = as_input(landscape(96)[None])
    torch.testing.assert_close(Crop(0, 0, 1).take(image, 96), image, atol=1e-5, rtol=0)


def test_a_crop_passes_gradients():
    image = torch.rand(2, 3, 128, 128, requires_grad=True)
    recogniser_b.FFHQ.take(image, 150).sum().backward()
    assert image.grad.abs().sum() > 0


@pytest.mark.parametrize(("crop", "template"), [(recogniser_a.FFHQ, align.ARCFACE), (recogniser_b.FFHQ, align.DLIB)])
def test_the_fixed_crops_put_the_mean_face_on_the_templates(crop, template):
    size, points = template
    found = (MEAN - [crop.x0, crop.y0]) / crop.side * size
    assert np.hypot(*(found - points).T).mean() < 0.035 * size


# ---------------------------------------------------------------------------- detection


def hopper() -> np.ndarray:
    """A portrait that matplotlib ships."""
    from matplotlib import cbook

    return np.asarray(Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)).convert("RGB"))


def test_the_face_of_a_portrait_is_found_where_it_is():
    (face,) = detect.find(hopper())
    assert face.probability > 0.99
    left, right, nose, mouth_left, mouth_right = face.points
    assert left[0] < nose[0] < right[0] and mouth_left[0] < mouth_right[0]
    assert max(left[1], right[1]) < nose[1] < min(mouth_left[1], mouth_right[1])
    assert (face.points > face.box[:2]).all() and (face.points < face.box[2:]).all()


def test_several_faces_come_largest_first():
    one = Image.fromarray(hopper())
    wide = Image.new("RGB", (one.width + one.width // 2, one.height), "grey")
    wide.paste(one.resize((one.width // 2, one.height // 2)), (0, 0))
    wide.paste(one, (one.width // 2, 0))
    faces = detect.find(np.asarray(wide))
    assert len(faces) == 2
    assert faces[0].box[0] > one.width // 2 > faces[1].box[0]


def test_an_aligned_portrait_has_its_eyes_where_ffhq_has_them():
    made = detect.aligned(hopper(), 256)
    (face,) = detect.find(made)
    assert np.hypot(*(face.points[:2] / 256 - MEAN[:2]).T).max() < 0.04


def test_no_face_is_a_sentence():
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    assert detect.find(noise) == []
    with pytest.raises(detect.NoFace, match=r"No face found\. Use a frontal photo\."):
        detect.aligned(noise, 256)


def test_a_face_that_is_not_there_cannot_be_chosen():
    with pytest.raises(UserError, match="face 3 was asked for, but 1 found"):
        detect.aligned(hopper(), 64, which=2)


# ---------------------------------------------------------------------------- the networks, on random weights


def test_the_networks_have_the_shapes_they_promise():
    x = torch.zeros(2, 3, 112, 112)
    assert recogniser_a.MobileFaceNet().eval()(x).shape == (2, 128)
    assert recogniser_b.DlibResNet()(torch.zeros(2, 3, 150, 150)).shape == (2, 128)
    assert Expression()(x).sum(1).tolist() == pytest.approx([1, 1])
    assert Landmarks()(x).shape == (2, 68, 2)
    age, male = AgeGender()(x)
    assert age.shape == male.shape == (2,)


def test_the_centred_similarity_takes_the_common_part_away():
    mean = torch.tensor([10.0, 10.0, 0.0])
    a, b = mean + torch.tensor([1.0, 0, 0]), mean + torch.tensor([0, 1.0, 0])
    assert recogniser_b.centred_similarity(a, b, mean).item() == pytest.approx(0)
    assert recogniser_b.centred_similarity(a, a, mean).item() == pytest.approx(1)
    assert torch.cosine_similarity(a, b, dim=0) > 0.98


# ---------------------------------------------------------------------------- the networks, on the real weights


def pattern(size: int) -> torch.Tensor:
    """Four images of coloured squares: the input of the reference run."""
    squares = np.random.default_rng(0).integers(0, 256, (4, 10, 10, 3), dtype=np.uint8)
    side = -(-size // 10)
    return as_input(np.kron(squares, np.ones((1, side, side, 1), np.uint8))[:, :size, :size])


@pytest.fixture(scope="module")
def published():
    """What the packages' own code says of `pattern`: facesdk, face-api in node, and dlib's original network."""
    with np.load(Path(__file__).parent / "data" / "network_parity.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def needs(name: str):
    missing = not assets.is_present(name)
    return pytest.mark.skipif(missing, reason=f"{name} is missing: run 'python app.py assets fetch'")


@pytest.fixture
def random_recogniser():
    """Of random weights, with norms that do something."""
    torch.manual_seed(0)
    network = recogniser_a.MobileFaceNet().eval().requires_grad_(False)
    for norm in network.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            for numbers in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
                numbers.copy_(torch.rand(numbers.shape) + 0.5)
    return network


def test_recogniser_a_says_the_same_with_its_norms_folded_into_its_convolutions(random_recogniser):
    x = torch.rand(2, 3, 112, 112)
    wanted = random_recogniser(x)
    folded = recogniser_a.folded(random_recogniser)
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in folded.modules())
    assert not any(weight.requires_grad for weight in folded.parameters())
    torch.testing.assert_close(folded(x), wanted, atol=1e-5, rtol=0)  # other products, the same function


def test_recogniser_a_sees_and_teaches_the_same_with_its_maps_channels_last(random_recogniser):
    x = torch.rand(2, 3, 112, 112).requires_grad_()
    folded = recogniser_a.folded(random_recogniser)
    (wanted, right), (found, slope) = (
        (y := network(x), torch.autograd.grad(y[:, :64].sum(), x)[0])
        for network in (folded, recogniser_a.channels_last(copy.deepcopy(folded)))
    )
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
    assert (slope - right).norm() <= 1e-3 * right.norm()  # where ReLU6 bends, a last bit decides


def test_a_bottleneck_keeps_only_the_maps_behind_its_two_kinks(random_recogniser):
    block = recogniser_a.channels_last(recogniser_a.folded(random_recogniser)).features[1]
    y = block(torch.rand(1, 64, 28, 28).requires_grad_())
    (step, _), *_ = y.grad_fn.next_functions  # behind the turn of the map
    assert [tuple(kept.shape) for kept in step.saved_tensors] == [(1, 28, 28, 128)] * 2


@pytest.mark.parametrize("at", [0, 1])  # with stride 2, which goes back in single precision, and with stride 1
def test_a_bottleneck_rounds_gradients_where_it_was_asked_to_and_nothing_that_is_seen(random_recogniser, at):
    block = recogniser_a.channels_last(recogniser_a.folded(random_recogniser)).features[at]
    x = torch.rand(2, 64, 28, 28).requires_grad_()
    exact = block(x)
    with rounded.gradients(torch.bfloat16):
        same = block(x)
    assert torch.equal(exact, same)
    (right,), (near,) = (torch.autograd.grad(y.square().sum(), x) for y in (exact, same))
    assert 0 < (near - right).norm() <= 0.02 * right.norm()


@pytest.mark.assets
@needs("recogniser-a")
def test_recogniser_a_equals_its_package(published):
    found = recogniser_a.recogniser_a()(pattern(112))
    torch.testing.assert_close(found, published["recogniser_a"], atol=2e-6, rtol=0)


@pytest.mark.assets
@needs("recogniser-b")
def test_recogniser_b_is_within_the_rounding_of_dlibs_network(published):
    found = recogniser_b.recogniser_b()(pattern(150))
    # face-api divides by 255, dlib by 256; its weights are dlib's, rounded to 8 bits
    assert (found - published["recogniser_b"]).norm(dim=1).max() < 0.002
    assert (found - published["dlib"]).norm(dim=1).max() < 0.05
    assert torch.pdist(published["dlib"]).min() > 0.1


@pytest.mark.assets
@needs("expression")
def test_the_small_networks_equal_face_api(published):
    from engine.faces.age_gender import age_gender
    from engine.faces.expression import expression
    from engine.faces.landmarks import landmarks

    x = pattern(112)
    torch.testing.assert_close(expression()(x), published["expression"], atol=1e-5, rtol=0)
    torch.testing.assert_close(landmarks()(x), published["landmarks"], atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.stack(age_gender()(x), 1), published["age_male"], atol=1e-4, rtol=0)


PEOPLE = Path(__file__).resolve().parents[2] / "shared" / "data" / "lfw_identities"


@pytest.fixture(scope="module")
def photos():
    """Eight people, five photos each, with the five points of the face nearest the middle."""
    if not PEOPLE.is_dir():
        pytest.skip("the measuring data is not beside the project")
    found = []
    for person in range(8):
        for path in sorted((PEOPLE / f"person_{person:02d}").glob("*.jpg")):
            pixels = np.asarray(Image.open(path).convert("RGB"))
            middle = np.array(pixels.shape[1::-1]) / 2
            face = min(detect.find(pixels), key=lambda face: np.hypot(*(face.box.reshape(2, 2).mean(0) - middle)))
            found.append((person, pixels, face.points))
    return found


def separation(photos, similarity: np.ndarray) -> tuple[float, float, float]:
    """(AUC of same against other, mean of same, mean of other)."""
    from sklearn.metrics import roc_auc_score

    people = np.array([person for person, *_ in photos])
    upper = np.triu_indices(len(people), 1)
    same, values = (people[:, None] == people)[upper], similarity[upper]
    return roc_auc_score(same, values), values[same].mean(), values[~same].mean()


@pytest.mark.assets
@pytest.mark.shared
@needs("recogniser-a")
def test_recogniser_a_tells_people_apart(photos):
    x = as_input(np.stack([align.five_point(pixels, points, align.ARCFACE) for _, pixels, points in photos]))
    vectors = recogniser_a.recogniser_a()(x)
    auc, same, other = separation(photos, (vectors @ vectors.T).numpy())
    assert auc > 0.999 and same > 0.6 and abs(other) < 0.06
    x = as_input(np.stack([align.ffhq(pixels, points, 256) for _, pixels, points in photos]))
    assert (recogniser_a.recogniser_a().of_ffhq(x) * vectors).sum(1).mean() > 0.94


@pytest.mark.assets
@pytest.mark.shared
@needs("recogniser-b")
def test_recogniser_b_tells_people_apart(photos):
    x = as_input(np.stack([align.five_point(pixels, points, align.DLIB) for _, pixels, points in photos]))
    vectors = recogniser_b.recogniser_b()(x)
    auc, same, other = separation(photos, -torch.cdist(vectors, vectors).numpy())
    assert auc > 0.998 and same == pytest.approx(-0.44, abs=0.05) and other == pytest.approx(-0.82, abs=0.05)
    centred = vectors - vectors.mean(0)
    auc, same, other = separation(photos, torch.cosine_similarity(centred[:, None], centred, dim=-1).numpy())
    assert auc > 0.998 and same > 0.6 and other < 0.05


@pytest.mark.assets
@pytest.mark.shared
@needs("expression")
def test_happy_follows_the_labelled_smile():
    import csv
    import io
    import zipfile

    from sklearn.metrics import roc_auc_score

    from engine.faces.expression import CLASSES, expression

    bundle = PEOPLE.parent / "faces_attributes_128.zip"
    if not bundle.is_file():
        pytest.skip("the measuring data is not beside the project")
    with zipfile.ZipFile(bundle) as files:
        (index,) = (name for name in files.namelist() if name.endswith("index.csv"))
        rows = list(csv.DictReader(io.StringIO(files.read(index).decode())))[::25]
        inside = {Path(name).name: name for name in files.namelist()}
        images = [Image.open(io.BytesIO(files.read(inside[Path(row["file"]).name]))).convert("RGB") for row in rows]
    happy = expression().of_ffhq(as_input(np.stack([np.asarray(image) for image in images])))[:, CLASSES.index("happy")]
    assert roc_auc_score([float(row["smile"]) > 0 for row in rows], happy) > 0.93
