"""Made-up corpora: readable, of the shape asked for, the same every time, of the topics told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workloads.cache import open_array
from workloads.plda import generate
from workloads.plda.corpora import uci
from workloads.plda.corpora.text import blocks

SHAPE = ["--documents", "400", "--words", "300", "--tokens", "40000", "--topics", "3"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "up"
    assert generate.main([str(folder), *SHAPE]) == 0
    return folder


def test_a_made_up_corpus_can_be_read_and_says_that_it_is_synthetic(
    corpus: Path, tmp_path: Path
) -> None:
    source = uci.find(corpus)
    assert "synthetic" in source.docword.name
    uci.fill(tmp_path, source, tmp_path, 0.1, lambda text: None)
    assert len(open_array(tmp_path, "offsets")) == 401
    assert len(open_array(tmp_path, "words")) == pytest.approx(40_000, rel=0.01)
    assert open_array(tmp_path, "vocabulary")[0] == "synthetic000001"
    assert (tmp_path / "notes.txt").read_text() == ""


def test_words_come_from_the_topics_told(corpus: Path, tmp_path: Path) -> None:
    # Every document mixes the three topics, so that the corpus' frequencies lie in their span.
    uci.fill(tmp_path, uci.find(corpus), tmp_path, 0.1, lambda text: None)
    found = np.bincount(open_array(tmp_path, "words"), minlength=300) / 40_000
    topics = np.load(corpus / "topics.npy").astype(np.float64)
    assert topics.sum(axis=1) == pytest.approx(1, rel=1e-5)
    mixture, *_ = np.linalg.lstsq(topics.T, found, rcond=None)
    assert mixture.sum() == pytest.approx(1, abs=0.02)
    assert np.abs(mixture @ topics - found).sum() < 0.05


def test_the_same_numbers_make_the_same_text(corpus: Path, tmp_path: Path) -> None:
    again, other = tmp_path / "again", tmp_path / "other"
    generate.main([str(again), *SHAPE])
    generate.main([str(other), *SHAPE, "--seed", "1"])

    def text(folder: Path) -> bytes:
        with uci.find(folder).docword.open("rb") as raw:
            return b"".join(blocks(raw, compressed=True))

    assert text(again) == text(corpus)
    assert text(other) != text(corpus)


def test_a_folder_with_a_corpus_is_left_alone(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main([str(corpus), *SHAPE]) == 2
    assert "must be a folder without a docword file" in capsys.readouterr().err


@pytest.mark.parametrize("bad", ["0", "-3", "many"])
def test_a_bad_number_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        generate.main([str(tmp_path), f"--documents={bad}"])
    assert ended.value.code == 2
    assert f"{bad}: must be a whole number from 1" in capsys.readouterr().err
