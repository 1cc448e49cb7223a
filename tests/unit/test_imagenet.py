"""ImageNet in files: what is found, what is decoded, what is refused, and by whom it is read."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from workloads.base import WorkloadError
from workloads.cache import publish
from workloads.imagenet import Imagenet, check, index
from workloads.imagenet.decoding import Place, center_crop, random_crop
from workloads.imagenet.files import MEAN, FileImages, normalize
from workloads.imagenet.loading import Order, Readers, made

Image = pytest.importorskip("PIL.Image")
SIDE = 32


@pytest.fixture(scope="module")
def photographs() -> list:
    """Pieces of two photographs, 160 x 120 pixels each."""
    datasets = pytest.importorskip("sklearn.datasets")
    pieces = []
    for array in datasets.load_sample_images().images:
        whole = Image.fromarray(array)
        for left in range(0, 480, 160):
            pieces.append(whole.crop((left, 100, left + 160, 220)))
    return pieces


def encoded(image, kind: str = "JPEG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path, photographs: list) -> Path:
    """Two classes, six images to train on and two to score."""
    for number, image in enumerate(photographs):
        name = ("n01", "n02")[number // 3]
        for part in ("train", "val"):
            if part == "val" and number % 3:
                continue
            path = tmp_path / "images" / part / name / f"{name}_{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(image))
    return tmp_path / "images"


def in_shards(folder: Path, target: Path, *, per_class: bool = False) -> Path:
    """The same images in tar files."""
    for part in ("train", "val"):
        (target / part).mkdir(parents=True)
        found = sorted((folder / part).glob("*/*"))
        for number, path in enumerate(found):
            shard = path.parent.name if per_class else f"shard-{number % 2}"
            member = path.name if per_class else f"./{path.parent.name}/{path.name}"
            with tarfile.open(target / part / f"{shard}.tar", "a") as file:
                file.add(path, member)
    return target


def read(folder: Path) -> list[tuple[str, bytes]]:
    """(class, bytes) of the images to train on."""
    arrays = index.build(folder, lambda text: None)
    found = index.Index(arrays.__getitem__, "train")
    classes = arrays["classes"]
    numbers = range(len(found.labels))
    return sorted((str(classes[found.labels[n]]), found.place(n).read()) for n in numbers)


def test_folders_and_shards_hold_the_same_images(folder: Path, tmp_path: Path) -> None:
    expected = sorted((p.parent.name, p.read_bytes()) for p in (folder / "train").glob("*/*"))
    assert read(folder) == expected
    assert read(in_shards(folder, tmp_path / "mixed")) == expected
    assert read(in_shards(folder, tmp_path / "apart", per_class=True)) == expected


@pytest.mark.parametrize("name", ["../evil/a.JPEG", "/etc/a.JPEG", "n01/../../a.JPEG"])
def test_members_of_a_shard_may_not_leave_their_folder(
    folder: Path, tmp_path: Path, name: str
) -> None:
    shards = in_shards(folder, tmp_path / "shards")
    with tarfile.open(shards / "train" / "shard-0.tar", "a") as file:
        member = tarfile.TarInfo(name)
        file.addfile(member, io.BytesIO(b""))
    with pytest.raises(WorkloadError, match="is outside of its folder; refused"):
        index.build(shards, lambda text: None)


def test_a_shard_that_is_cut_off_or_none_is_refused(folder: Path, tmp_path: Path) -> None:
    shards = in_shards(folder, tmp_path / "shards")
    path = shards / "train" / "shard-1.tar"
    path.write_bytes(b"nothing of a tar file" * 100)
    with pytest.raises(WorkloadError, match=r"shard-1\.tar: cannot be read as a tar file"):
        index.build(shards, lambda text: None)


@pytest.mark.parametrize("cut", ["within a header", "within an image", "before the end"])
def test_a_shard_that_lost_its_end_is_refused(folder: Path, tmp_path: Path, cut: str) -> None:
    path = in_shards(folder, tmp_path / "shards") / "train" / "shard-0.tar"
    with tarfile.open(path) as shard:
        last = shard.getmembers()[-1]
    at = {
        "within a header": last.offset + 100,
        "within an image": last.offset_data + last.size // 2,
        "before the end": last.offset_data + (last.size + 511) // 512 * 512,
    }
    path.write_bytes(path.read_bytes()[: at[cut]])
    with pytest.raises(WorkloadError, match=r"shard-0\.tar: (damaged or cut off|cannot be read)"):
        index.build(tmp_path / "shards", lambda text: None)


def test_a_shard_with_a_damaged_header_is_refused(folder: Path, tmp_path: Path) -> None:
    path = in_shards(folder, tmp_path / "shards") / "train" / "shard-0.tar"
    with tarfile.open(path) as shard:
        second = shard.getmembers()[1]
    with path.open("r+b") as file:
        file.seek(second.offset)
        file.write(b"x" * 512)
    with pytest.raises(WorkloadError, match=f"damaged or cut off at byte {second.offset}"):
        index.build(tmp_path / "shards", lambda text: None)


def test_an_empty_image_of_a_shard_is_unreadable_and_no_more(folder: Path, tmp_path: Path) -> None:
    shards = in_shards(folder, tmp_path / "shards")
    with tarfile.open(shards / "train" / "shard-0.tar", "a") as file:
        file.addfile(tarfile.TarInfo("n01/empty.JPEG"), io.BytesIO(b""))
    arrays = index.build(shards, lambda text: None)
    found = index.Index(arrays.__getitem__, "train")
    sizes = [len(found.place(number).read()) for number in range(len(found.labels))]
    assert sizes.count(0) == 1


def test_a_folder_without_images_is_refused(folder: Path, tmp_path: Path) -> None:
    assert index.missing(folder) is None
    assert "train is no folder" in index.missing(tmp_path)
    (tmp_path / "empty" / "train").mkdir(parents=True)
    assert "holds neither class folders nor tar files" in index.missing(tmp_path / "empty")
    for path in (folder / "val").glob("*/*"):
        path.unlink()
    with pytest.raises(WorkloadError, match="val: holds no image"):
        index.build(folder, lambda text: None)


def test_a_class_to_score_must_be_trained_on(folder: Path) -> None:
    (folder / "val" / "n01").rename(folder / "val" / "n09")
    with pytest.raises(WorkloadError, match="val: class n09 has no images in"):
        index.build(folder, lambda text: None)


ODD = {
    "cmyk": lambda image: encoded(image.convert("CMYK")),
    "png named JPEG": lambda image: encoded(image, "PNG"),
    "gray": lambda image: encoded(image.convert("L")),
    "with transparency": lambda image: encoded(image.convert("RGBA"), "PNG"),
    "broken exif": lambda image: encoded(image, exif=b"Exif\0\0II*\0" + b"\xff" * 40),
    "palette": lambda image: encoded(image.convert("P"), "PNG"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.filterwarnings("error")
def test_odd_images_load_as_rgb(photographs: list, kind: str) -> None:
    data = ODD[kind](photographs[0])
    for pixels in (center_crop(data, SIDE), random_crop(data, SIDE, np.random.default_rng(0))):
        assert pixels.shape == (SIDE, SIDE, 3)
        assert pixels.dtype == np.uint8
        assert pixels.std() > 5


def test_the_middle_crop_is_the_middle() -> None:
    pixels = np.zeros((100, 300, 3), np.uint8)
    pixels[:, 100:200, 0] = 255
    found = center_crop(encoded(Image.fromarray(pixels), "PNG"), SIDE)
    assert found[..., 0].min() > 250
    assert found[..., 1].max() == 0


def test_random_crops_stay_inside_and_are_mirrored_half_the_time() -> None:
    pixels = np.full((60, 80, 3), 200, np.uint8)
    pixels[:, :40, 1] = 0
    data = encoded(Image.fromarray(pixels), "PNG")
    rng = np.random.default_rng(0)
    crops = [random_crop(data, SIDE, rng) for _ in range(200)]
    assert all(crop[..., 0].min() == 200 for crop in crops)  # nothing from outside
    slopes = [float(np.diff(crop[..., 1].mean(axis=0).astype(float)).sum()) for crop in crops]
    rising, falling = sum(s > 1 for s in slopes), sum(s < -1 for s in slopes)
    assert 0.35 < rising / (rising + falling) < 0.65
    assert not np.array_equal(crops[0], crops[1])


@pytest.fixture
def places(folder: Path, tmp_path: Path) -> list[Place]:
    """Seven images: of the third there is half, the fifth is a text, the seventh is not there."""
    whole = sorted((folder / "train").glob("*/*"))
    (tmp_path / "half.JPEG").write_bytes(whole[2].read_bytes()[:600])
    (tmp_path / "text.JPEG").write_text("no image")
    paths = [*whole[:2], tmp_path / "half.JPEG", whole[3], tmp_path / "text.JPEG", whole[5]]
    return [Place(str(path)) for path in (*paths, tmp_path / "gone.JPEG")]


def test_what_cannot_be_read_is_told_with_its_path(places: list[Place]) -> None:
    crops = made(Order(places, None, SIDE))
    assert sorted(crops.unreadable) == [2, 4, 6]
    for number, why in crops.unreadable.items():
        assert why.startswith(f"{places[number].path}: ")
        assert "\n" not in why
        assert crops.pixels[number].max() == 0


def orders(places: list[Place]) -> Iterator[Order]:
    for step in range(6):
        yield Order(places[step : step + 2], [(0, step, place) for place in range(2)], SIDE)


def test_crops_do_not_depend_on_who_makes_them(places: list[Place]) -> None:
    readers = Readers(2)
    alone, helped = list(Readers(0).stream(orders(places))), list(readers.stream(orders(places)))
    readers.close()
    assert len(alone) == len(helped) == 6
    for mine, theirs in zip(alone, helped, strict=True):
        assert np.array_equal(mine.pixels, theirs.pixels)
        assert mine.unreadable == theirs.unreadable


def test_a_giant_image_is_unreadable_and_no_more(
    places: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5_000)  # those here have 19,200
    assert sorted(made(Order(places, None, SIDE)).unreadable) == list(range(7))


def test_readers_end_with_whoever_started_them(places: list[Place]) -> None:
    program = (
        "import os, signal, sys\n"
        "from workloads.imagenet.loading import Readers\n"
        "readers = Readers(2)\n"
        "readers.start()\n"
        "print(*readers._pool._processes, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    children = [int(text) for text in done.stdout.split()]
    assert len(children) == 2, done.stderr
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    alive = [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert all("Z" in Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in alive), alive


def test_a_killed_reader_is_one_line(places: list[Place]) -> None:
    readers = Readers(1)
    readers.start()
    for pid in readers._pool._processes:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkloadError, match="a process that reads images was killed"):
        list(readers.stream(orders(places)))
    readers.close()


def prepared(folder: Path, cache: Path, **changes: object) -> FileImages:
    publish(cache / "index", lambda: index.build(folder, lambda text: None))
    settings = {"side": SIDE, "loaders": 0, "scored": 50, "seed": 0}
    return FileImages(cache / "index", **(settings | changes))


def test_workers_share_the_images_and_see_each_once_a_pass(folder: Path, tmp_path: Path) -> None:
    images = prepared(folder, tmp_path)
    seen = []
    for worker in range(2):
        batch, again = islice(images.training(worker, 2, 3), 2)
        assert batch.images.shape == (3, SIDE, SIDE, 3)
        assert sorted(batch.labels) == sorted(again.labels)  # three images: a pass is a batch
        seen += batch.labels.tolist()
    assert sorted(seen) == [0, 0, 0, 1, 1, 1]
    with pytest.raises(WorkloadError, match=r"cluster\.workers=7: must be at most 6"):
        images.training(6, 7, 1)


def test_an_unreadable_image_gives_way_to_the_next(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = next((folder / "train" / "n01").glob("*"))
    broken.write_text("no image")
    images = prepared(folder, tmp_path)
    batches = list(islice(images.training(0, 1, 5), 2))
    assert [len(batch.labels) for batch in batches] == [5, 5]
    assert np.bincount(batches[0].labels).tolist() == [2, 3]
    assert f"unreadable image 1: {broken}: is no image" in capsys.readouterr().err


def test_nothing_but_unreadable_images_ends_the_run(folder: Path, tmp_path: Path) -> None:
    for path in folder.glob("*/*/*"):
        path.write_text("no image")
    images = prepared(folder, tmp_path)
    with pytest.raises(WorkloadError, match="images could be read"):
        next(images.training(0, 1, 4))
    with pytest.raises(WorkloadError, match="none of 2 heldout images could be read"):
        list(images.heldout())


def test_pixels_are_normalized_by_channel() -> None:
    found = normalize(np.array([[[0, 0, 255]]], np.uint8))
    assert found.dtype == np.float32
    deviations = (0.229, 0.224, 0.225)
    expected = [-MEAN[0] / deviations[0], -MEAN[1] / deviations[1], (1 - MEAN[2]) / deviations[2]]
    assert found.ravel() == pytest.approx(expected, rel=1e-5)


def workload(cache: Path, **changes: object) -> Imagenet:
    settings = {
        "name": "resnet_imagenet",
        "framework": "torch",
        "dataset": "folder",
        "data_dir": None,
        "depth": 50,
        "side": SIDE,
        "batch_size": 2,
        "learning_rate": 0.01,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "loaders": 1,
        "scored": 4,
        "device": "cpu",
        "mixed_precision": False,
        "seed": 0,
        "cache_dir": cache,
    }
    return Imagenet(**(settings | changes))


def test_a_bottleneck_network_is_trained_and_scored_on_files(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    imagenet = workload(tmp_path / "cache", data_dir=str(folder))
    assert imagenet.problem() is None
    imagenet.prepare()
    model, trainer = imagenet.initial_model(), imagenet.trainer(0, 1)
    assert model.size == 25_557_032 - 998 * 2049  # two classes instead of a thousand
    trainer.warm_up()
    trainer.load()
    update = trainer.compute(model)[1]
    assert update.shape == model.shape
    assert np.isfinite(update).all()
    scores = imagenet.evaluator().evaluate(model + update)
    assert 0 <= scores["heldout_accuracy"] <= 1
    assert np.isfinite(scores["heldout_loss"])


def test_the_synthetic_images_say_so(tmp_path: Path) -> None:
    noise = workload(tmp_path, dataset="synthetic", loaders=0)
    assert noise.problem() is None
    assert noise.data.startswith("synthetic")
    batch = next(noise._source.training(3, 8, 5))
    assert batch.images.shape == (5, SIDE, SIDE, 3)
    assert noise._blueprint.size == 25_557_032
    assert sum(len(batch.labels) for batch in noise._source.heldout()) == noise.scored


def test_minibatches_that_were_taken_are_left_out_unread(folder: Path, tmp_path: Path) -> None:
    for images in (prepared(folder, tmp_path), workload(tmp_path, dataset="synthetic")._source):
        whole = list(islice(images.training(0, 2, 2), 6))
        for taken in (1, 5):
            rest = list(islice(images.training(0, 2, 2, taken), 6 - taken))
            for mine, theirs in zip(rest, whole[taken:], strict=True):
                assert np.array_equal(mine.images, theirs.images)
                assert np.array_equal(mine.labels, theirs.labels)


def test_the_same_images_are_scored_whatever_the_seed(folder: Path, tmp_path: Path) -> None:
    one, other = (prepared(folder, tmp_path, scored=1, seed=seed) for seed in (0, 1))
    assert np.array_equal(next(one.heldout()).images, next(other.heldout()).images)


def test_a_gpu_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    noise = workload(tmp_path, dataset="synthetic", loaders=0, device="cuda")
    with pytest.raises(WorkloadError, match=r"workload\.device=cuda: must be auto or cpu"):
        noise.trainer(0, 1)


def test_a_changed_folder_is_looked_at_again(folder: Path, tmp_path: Path) -> None:
    imagenet = workload(tmp_path / "cache", data_dir=str(folder))
    before = imagenet.prepared_dir
    more = folder / "train" / "n03"
    more.mkdir()
    assert imagenet.prepared_dir != before


def test_the_check_tells_of_every_unreadable_image(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main([str(folder)]) == 0
    told = "2 classes, 6 to train on, 2 to score, 0 unreadable\n"
    assert capsys.readouterr().out.endswith(told)
    broken = next((folder / "val" / "n02").glob("*"))
    broken.write_text("no image")
    assert check.main([str(folder)]) == 1
    assert f"unreadable image: {broken}" in capsys.readouterr().err
    assert check.main([str(folder.parent)]) == 1
    assert check.main([]) == 2
