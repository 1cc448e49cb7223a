"""Bags of words of the UCI repository: what is read, what forgiven, what refused and where."""

from __future__ import annotations

import gzip
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from workloads.base import WorkloadError
from workloads.cache import open_array
from workloads.plda import Plda, check
from workloads.plda.corpora import text, uci

WORDS = ("apple", "berry", "cherry")
LINES = ("4", "3", "6", "1 1 2", "1 3 1", "2 2 1", "3 1 1", "4 1 1", "4 2 3")


def write(folder: Path, lines: tuple[str, ...] = LINES, *, end: str = "\n", words=WORDS) -> Path:
    folder.mkdir(exist_ok=True)
    docword = "".join(f"{line}{end}" for line in lines)
    (folder / "docword.fruit.txt").write_bytes(docword.encode())
    (folder / "vocab.fruit.txt").write_text("".join(f"{word}\n" for word in words))
    return folder


def read(folder: Path, cache: Path) -> tuple[list[Counter], str]:
    """Each document's words, and the notes."""
    staging = folder / "staging"
    staging.mkdir()
    uci.fill(staging, uci.find(folder), cache, 0.25, lambda told: None)
    words, offsets = open_array(staging, "words"), open_array(staging, "offsets")
    names = open_array(staging, "vocabulary")
    bags = [
        Counter(str(names[word]) for word in words[begin:end]) for begin, end in pairwise(offsets)
    ]
    heldout, train = (open_array(staging, f"{part}_documents") for part in ("heldout", "train"))
    assert sorted([*heldout, *train]) == list(range(len(bags)))
    return bags, (staging / "notes.txt").read_text()


BAGS = [
    Counter(apple=2, cherry=1),
    Counter(berry=1),
    Counter(apple=1),
    Counter(apple=1, berry=3),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_documents_are_bags_of_their_words(tmp_path: Path, cache: Path) -> None:
    assert read(write(tmp_path / "a"), cache) == (BAGS, "")


def test_compressed_files_are_read_alike(tmp_path: Path, cache: Path) -> None:
    folder = write(tmp_path / "a")
    for path in sorted(folder.iterdir()):
        half = path.read_bytes()
        # Two members, as compressors that work in parallel write them.
        members = gzip.compress(half[:9]) + gzip.compress(half[9:])
        (folder / f"{path.name}.gz").write_bytes(members)
        path.unlink()
    assert read(folder, cache) == (BAGS, "")


@pytest.mark.parametrize("block", [1, 2, 7, 30])
def test_blocks_may_end_anywhere(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    assert read(write(tmp_path / "a"), cache) == (BAGS, "")


def test_what_is_forgiven_is_noted(tmp_path: Path, cache: Path) -> None:
    odd = ("9", "3", "7", "", "1 1 1", "1\t3  1", "1 1 1", " 2 2 1", "", "3 1 1", "7 1 1", "7 2 3")
    folder = write(tmp_path / "a", odd, end="\r\n")
    bags, notes = read(folder, cache)
    assert bags == BAGS
    path = folder / "docword.fruit.txt"
    assert notes.splitlines() == [
        f"{path}: D is 9; 4 documents hold words",
        f"{path}: 1 entries repeat a word of their document, the first in line 7: added up",
        f"{path}: 2 blank lines: left out",
        f"{path}: 12 lines end in CR LF: read as LF",
    ]


def test_the_last_line_may_have_no_end(tmp_path: Path, cache: Path) -> None:
    folder = write(tmp_path / "a")
    path = folder / "docword.fruit.txt"
    path.write_bytes(path.read_bytes().rstrip())
    assert read(folder, cache) == (BAGS, "")


def changed(line: int, text: str | None) -> tuple[str, ...]:
    """The lines with one replaced, or left out."""
    put = () if text is None else (text,)
    return (*LINES[: line - 1], *put, *LINES[line:])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (changed(1, "four"), "line 1: 'four': must be D, an integer from 1 to 2147483647"),
        (changed(2, "0"), "line 2: '0': must be W, an integer from 1"),
        (changed(3, ""), "line 3: blank: must be NNZ, an integer from 1"),
        ((), "line 1: blank: must be D, an integer from 1"),
        (changed(3, "7"), "line 9: the file ends after 6 entries; must be 7, as NNZ says"),
        (changed(3, "5"), "line 9: '4 2 3': more than 5 entries, NNZ"),
        (changed(1, "3"), "line 8: document 4: must be 1 to 3, as D says"),
        (changed(5, "1 4 1"), "line 5: word 4: must be 1 to 3, as W says"),
        (changed(5, "1 0 1"), "line 5: word 0: must be 1 to 3, as W says"),
        (changed(4, "0 1 2"), "line 4: document 0: must be 1 to 4, as D says"),
        (changed(7, "1 1 1"), "line 7: document 1 after document 2: documents must rise"),
        (changed(6, "2 2 0"), "line 6: count 0: must be 1 to 1000000"),
        (changed(6, "2 2 1000001"), "line 6: count 1000001: must be 1 to 1000000"),
        (changed(6, "2 2 -1"), "line 6: '2 2 -1': must be three integers: document, word, count"),
        (changed(6, "2 2 1.5"), "line 6: '2 2 1.5': must be three integers"),
        (changed(6, "2 2"), "line 6: '2 2': must be three integers"),
        (changed(6, "2 2 1 1"), "line 6: '2 2 1 1': must be three integers"),
        (changed(6, "2 2 9" + "9" * 20), "line 6: '2 2 99"),
        (changed(6, "2 2 ١"), "line 6: '2 2 ١': must be three integers"),
        (changed(6, "x" * 2000), "line 6: "),
        (("1", "3", "1", "1 1 1"), "1 documents hold words; must be at least 2"),
    ],
)
@pytest.mark.parametrize("block", [16, 1 << 20])
def test_each_fault_is_one_line_that_names_its_place(
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: tuple[str, ...],
    told: str,
    block: int,
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    folder = write(tmp_path / "a", lines)
    with pytest.raises(WorkloadError) as refused:
        read(folder, cache)
    assert told in str(refused.value)
    assert str(refused.value).startswith(str(folder / "docword.fruit.txt"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (WORDS[:2], "line 2: 2 words; must be 3, as W of the docword"),
        ((*WORDS, "date"), "line 4: 4 words or more; must be 3"),
        (("apple", "b" * 101, "cherry"), "line 2: 101 bytes: must be a word"),
        (("apple", "", "cherry"), "line 2: blank: must be a word"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(
    tmp_path: Path, cache: Path, words: tuple[str, ...], told: str
) -> None:
    folder = write(tmp_path / "a", words=words)
    with pytest.raises(WorkloadError) as refused:
        read(folder, cache)
    assert str(refused.value).startswith(f"{folder / 'vocab.fruit.txt'}, {told}")


def test_blank_lines_at_the_end_of_a_vocabulary_are_forgiven(tmp_path: Path, cache: Path) -> None:
    assert read(write(tmp_path / "a", words=(*WORDS, "", "")), cache) == (BAGS, "")


def test_a_surplus_entry_is_told_and_not_the_blank_line_before_it(
    tmp_path: Path, cache: Path
) -> None:
    folder = write(tmp_path / "a", (*changed(3, "5")[:-1], "", "4 2 3"))
    with pytest.raises(WorkloadError, match="line 10: '4 2 3': more than 5 entries"):
        read(folder, cache)


def test_large_counts_are_written_in_pieces(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uci, "TOKENS_AT_ONCE", 3)
    assert read(write(tmp_path / "a"), cache) == (BAGS, "")
    monkeypatch.setattr(uci, "MOST_TOKENS", 2)
    with pytest.raises(WorkloadError, match="tokens: must be at most 2"):
        read(write(tmp_path / "b"), cache)


def test_workers_without_a_document_are_told(tmp_path: Path, cache: Path) -> None:
    plda = workload(write(tmp_path / "a"), cache)
    plda.prepare()
    with pytest.raises(WorkloadError, match=r"cluster\.workers=9: must be fewer, as worker"):
        [plda.trainer(worker, 9).load() for worker in range(9)]


def test_a_file_cut_off_says_after_which_line(tmp_path: Path, cache: Path) -> None:
    rng = np.random.default_rng(0)
    many = [f"{n} {1 + n % 3} {rng.integers(1, 1_000_000)}" for n in range(1, 5001)]
    folder = write(tmp_path / "a", ("5000", "3", "5000", *many))
    path = folder / "docword.fruit.txt"
    whole = gzip.compress(path.read_bytes())
    path.unlink()
    (folder / "docword.fruit.txt.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WorkloadError) as refused:
        read(folder, cache)
    told = str(refused.value)
    assert told.endswith("the compressed file is cut off after this line")
    line = int(told.split("line ")[1].split(":")[0])
    assert 1500 < line < 3500
    (folder / "vocab.fruit.txt").unlink()
    (folder / "vocab.fruit.txt.gz").write_bytes(gzip.compress(b"apple\nberry\ncherry\n")[:-12])
    with pytest.raises(WorkloadError, match=r"vocab\.fruit\.txt\.gz, line \d+: .* cut off"):
        uci.read_vocabulary(folder / "vocab.fruit.txt.gz", 3)


def test_a_file_without_lines_is_not_read_to_its_end(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 600)
    folder = write(tmp_path / "a", (*LINES[:5], "x" * 10_000))
    with pytest.raises(WorkloadError, match="line 6: more than 1000 bytes"):
        read(folder, cache)


def test_a_file_that_is_no_gzip_is_refused(tmp_path: Path, cache: Path) -> None:
    folder = write(tmp_path / "a")
    (folder / "docword.fruit.txt").rename(folder / "docword.fruit.txt.gz")
    with pytest.raises(WorkloadError, match="cannot be decompressed further"):
        read(folder, cache)


def test_a_folder_must_hold_one_corpus(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    (folder / "docword.more.txt.gz").touch()
    with pytest.raises(WorkloadError, match=r"has docword\.fruit\.txt and docword\.more\.txt\.gz"):
        uci.find(folder)
    with pytest.raises(WorkloadError, match="has none"):
        uci.find(tmp_path)


def workload(folder: Path, cache: Path) -> Plda:
    return Plda(
        name="plda_nytimes",
        corpus="uci",
        data_dir=str(folder),
        heldout_fraction=0.25,
        topics=4,
        alpha=0.1,
        beta=0.1,
        minibatch_tokens=4,
        fold_in_sweeps=2,
        seed=0,
        cache_dir=cache,
    )


def test_a_corpus_is_read_once_and_again_when_it_has_changed(tmp_path: Path, cache: Path) -> None:
    folder = write(tmp_path / "a")
    plda = workload(folder, cache)
    plda.prepare()
    first = plda.prepared_dir
    before = (first / "words.npy").stat().st_mtime_ns
    plda.prepare()
    assert (first / "words.npy").stat().st_mtime_ns == before
    write(folder, (*LINES[:-1], "4 2 2"))
    assert plda.prepared_dir != first
    plda.prepare()
    assert len(open_array(plda.prepared_dir, "words")) == len(open_array(first, "words")) - 1


def test_a_corpus_of_files_is_trained_on(tmp_path: Path, cache: Path) -> None:
    plda = workload(write(tmp_path / "a"), cache)
    plda.prepare()
    model, trainer = plda.initial_model(), plda.trainer(0, 1)
    trainer.load()
    tokens = model.sum()
    for _ in range(5):
        indices, values = trainer.compute(model)
        model[indices] += values
    assert model.min() >= 0
    assert model.sum() == tokens
    scores = plda.evaluator().evaluate(model)
    assert scores["heldout_perplexity"] == pytest.approx(np.exp(-scores["heldout_loglik"]))
    report = plda.evaluator().report(model)["topics.txt"]
    assert {word for line in report.splitlines() for word in line.split()[2:]} <= set(WORDS)


def test_the_check_tells_what_a_folder_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "a")
    assert check.main([str(folder)]) == 0
    assert capsys.readouterr().out.endswith("4 documents, 3 words, 9 tokens: sound\n")
    write(folder, changed(6, "2 2"))
    assert check.main([str(folder)]) == 1
    assert "line 6: '2 2': must be three integers" in capsys.readouterr().err
    assert check.main([]) == 2
