"""Every bad input of the planner's command is one line that names the field, exit status 2."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from mlfabric.errors import SettingError
from mlfabric.plan import answer
from mlfabric.plan.__main__ import main

MISSING = object()
RATES = [[0.0, 1e6]]
PROBLEM = {
    "version": 100,
    "server": "s",
    "links": {h: {"egress": RATES, "ingress": RATES} for h in ("s", "w1", "w2", "w3", "r")},
    "updates": [
        {"id": "u1", "worker": "w1", "bytes": 10, "version": 98, "ready": 0.0, "norm": 1.0},
        {"id": "u2", "worker": "w2", "bytes": 10, "version": 99, "ready": 0.0, "norm": 1.0},
    ],
    "aggregators": ["w3"],
    "racks": {
        "r1": {"hosts": ["w1", "w2"], "up": RATES, "down": RATES},
        "r2": {"hosts": ["w3"], "up": RATES, "down": RATES},
    },
    "replica": {"host": "r", "divergence_bound": 3.0, "pending_norm": 0.0},
}
"""Nothing is wrong with this one."""

NAN, INF = float("nan"), float("inf")
RATE = "must be a number, at least 0"
LARGEST = "must be at most 1e+15 in magnitude"
UNICODE = "must be a text without lone surrogates"
LAST = "must be at least 1e-09, as the last rate holds for ever"

KEYS = (
    "server, links, updates, now, version, delay_bound, ordering, sharing, aggregation, "
    "aggregators, aggregator_choice, reuse_aggregators, seed, model_bytes, chunk_bytes, racks, "
    "replica"
)

# (where, new value, the complaint)
REFUSED_FIELDS: list[tuple[tuple[Any, ...], Any, str]] = [
    # out of range
    (("updates", 1, "bytes"), -5, "updates[1].bytes: -5: must be an integer, above 0"),
    (("updates", 0, "bytes"), 0, "updates[0].bytes: 0: must be an integer, above 0"),
    (("updates", 0, "bytes"), 10**16, f"updates[0].bytes: 10000000000000000: {LARGEST}"),
    (("updates", 0, "norm"), -1.0, "updates[0].norm: -1.0: must be a number, at least 0 or null"),
    (("updates", 0, "version"), -1, "updates[0].version: -1: must be an integer, at least 0"),
    (("updates", 0, "id"), "", 'updates[0].id: "": must be a text, not empty'),
    (
        ("updates", 0, "ready"),
        1e11,
        "updates[0].ready: 100000000000.0: must be at most 1e+10 in magnitude",
    ),
    (("now",), -1e300, "now: -1e+300: must be at most 1e+10 in magnitude"),
    (("updates", 0, "norm"), 1e308, f"updates[0].norm: 1e+308: {LARGEST}"),
    (("updates", 0, "version"), 1e16, f"updates[0].version: 10000000000000000: {LARGEST}"),
    (("replica", "divergence_bound"), 1e308, f"replica.divergence_bound: 1e+308: {LARGEST}"),
    (("replica", "pending_norm"), 1.1e15, f"replica.pending_norm: 1100000000000000.0: {LARGEST}"),
    (("version",), -1, "version: -1: must be an integer, at least 0"),
    (("delay_bound",), -1, "delay_bound: -1: must be an integer, at least 0 or null"),
    (("seed",), -1, "seed: -1: must be an integer, at least 0"),
    (("model_bytes",), 0, "model_bytes: 0: must be an integer, above 0 or null"),
    (("chunk_bytes",), 0, "chunk_bytes: 0: must be an integer, above 0"),
    (("links", "w1", "egress", 0, 1), -1.0, f"links.w1.egress[0][1]: -1.0: {RATE}"),
    (("racks", "r1", "up", 0, 1), -1.0, f"racks.r1.up[0][1]: -1.0: {RATE}"),
    (("replica", "pending_norm"), -1, f"replica.pending_norm: -1: {RATE}"),
    (("replica", "divergence_bound"), -1, f"replica.divergence_bound: -1: {RATE}"),
    # not finite
    (("updates", 0, "bytes"), NAN, "updates[0].bytes: NaN: must be an integer, above 0"),
    (("updates", 0, "ready"), INF, "updates[0].ready: Infinity: must be a number"),
    (("now",), NAN, "now: NaN: must be a number"),
    (("links", "w2", "ingress", 0, 1), NAN, f"links.w2.ingress[0][1]: NaN: {RATE}"),
    (("links", "w2", "ingress", 0, 0), -INF, "links.w2.ingress[0][0]: -Infinity: must be a number"),
    (("replica", "divergence_bound"), INF, f"replica.divergence_bound: Infinity: {RATE}"),
    # wrong types
    (("updates", 0, "bytes"), True, "updates[0].bytes: true: must be an integer, above 0"),
    (("updates", 0, "bytes"), 1.5, "updates[0].bytes: 1.5: must be an integer, above 0"),
    (("version",), 99.5, "version: 99.5: must be an integer, at least 0"),
    (("delay_bound",), True, "delay_bound: true: must be an integer, at least 0 or null"),
    (("seed",), 0.1, "seed: 0.1: must be an integer, at least 0"),
    (("updates", 0, "bytes"), -1e6, "updates[0].bytes: -1000000: must be an integer, above 0"),
    (("updates", 0, "bytes"), "10", 'updates[0].bytes: "10": must be an integer, above 0'),
    (("updates", 0, "ready"), False, "updates[0].ready: false: must be a number"),
    (("updates", 0, "id"), 7, "updates[0].id: 7: must be a text, not empty"),
    (("updates", 0), [], "updates[0]: []: must be an object"),
    (("updates",), {}, "updates: {}: must be a list, not empty"),
    (("server",), None, "server: null: must be a text, not empty"),
    (("links",), [1], "links: […]: must be an object, not empty"),
    (("links",), {}, "links: {}: must be an object, not empty"),
    (("links", "w1"), 3, "links.w1: 3: must be an object"),
    (("links", "w1", "egress"), 1e6, "links.w1.egress: 1000000.0: must be a list, not empty"),
    (("links", "w1", "egress", 0), 5, "links.w1.egress[0]: 5: must be a pair [time, bytes/s]"),
    (
        ("links", "w1", "egress", 0),
        [0, 1, 2],
        "links.w1.egress[0]: […]: must be a pair [time, bytes/s]",
    ),
    (("links", "w1", "egress", 0), [0], f"links.w1.egress[0][1]: missing; {RATE}"),
    (("links", "w1", "egress", 0, 0), "0", 'links.w1.egress[0][0]: "0": must be a number'),
    (("aggregators",), "w3", 'aggregators: "w3": must be a list'),
    (("aggregators", 0), 3, "aggregators[0]: 3: must be a text, not empty"),
    (
        ("aggregation",),
        "best",
        'aggregation: "best": must be one of none, paper, refined, pipelined or null',
    ),
    (("aggregator_choice",), 1, "aggregator_choice: 1: must be one of in_order, random, best_fit"),
    (("ordering",), "longest", 'ordering: "longest": must be one of shortest, delay_aware'),
    (("sharing",), None, "sharing: null: must be one of time, fair"),
    (("reuse_aggregators",), 1, "reuse_aggregators: 1: must be true or false"),
    (("racks",), [], "racks: []: must be an object or null"),
    (("racks", "r1"), None, "racks.r1: null: must be an object"),
    (("racks", "r1", "hosts"), [], "racks.r1.hosts: []: must be a list, not empty"),
    (("replica",), "r", 'replica: "r": must be an object or null'),
    (("updates", 0, "id"), ["u"] * 99, "updates[0].id: […]: must be a text, not empty"),
    (("server",), "s\n" * 99, 'server: "' + "s\\n" * 12 + "s\\…: must be a host in links"),
    # missing and unknown keys
    (("server",), MISSING, "server: missing; must be a text, not empty"),
    (("links",), MISSING, "links: missing; must be an object, not empty"),
    (("updates",), MISSING, "updates: missing; must be a list, not empty"),
    (("updates", 1, "id"), MISSING, "updates[1].id: missing; must be a text, not empty"),
    (("updates", 1, "worker"), MISSING, "updates[1].worker: missing; must be a text, not empty"),
    (("updates", 1, "bytes"), MISSING, "updates[1].bytes: missing; must be an integer, above 0"),
    (
        ("updates", 1, "version"),
        MISSING,
        "updates[1].version: missing; must be an integer, at least 0",
    ),
    (("updates", 1, "ready"), MISSING, "updates[1].ready: missing; must be a number"),
    (("links", "w1", "ingress"), MISSING, "links.w1.ingress: missing; must be a list, not empty"),
    (("racks", "r1", "up"), MISSING, "racks.r1.up: missing; must be a list, not empty"),
    (("replica", "host"), MISSING, "replica.host: missing; must be a text, not empty"),
    (("agregators",), [], "agregators: unknown key; did you mean aggregators?"),
    (("updates", 0, "byte"), 3, "updates[0].byte: unknown key; did you mean bytes?"),
    (("links", "w1", "up"), RATES, "links.w1.up: unknown key; known: egress, ingress"),
    (("links", "w1", "a b\n"), RATES, 'links.w1["a b\\n"]: unknown key; known: egress, ingress'),
    (("links", "w1", "x" * 99), [], f'links.w1["{"x" * 38}…]: unknown key; known: egress, ingress'),
    (("\x1b[31m",), 1, f'["\\u001b[31m"]: unknown key; known: {KEYS}'),
    (("\ud800",), 1, f'the input: the key "\\ud800" {UNICODE}'),
    (("links", "\ud800"), 1, f'links: the key "\\ud800" {UNICODE}'),
    (("links", "w1", "\ud800"), 1, f'links.w1: the key "\\ud800" {UNICODE}'),
    (("updates", 1, "\ud800"), 1, f'updates[1]: the key "\\ud800" {UNICODE}'),
    (("racks", "\ud800"), {}, f'racks: the key "\\ud800" {UNICODE}'),
    (("racks", "r1", "\ud800"), 1, f'racks.r1: the key "\\ud800" {UNICODE}'),
    (("replica", "\ud800"), 1, f'replica: the key "\\ud800" {UNICODE}'),
    (("updates", 0, "id"), "\ud800", f'updates[0].id: "\\ud800": {UNICODE}'),
    (("aggregators", 0), "\ud800", f'aggregators[0]: "\\ud800": {UNICODE}'),
    (("racks", ""), {}, 'racks: the key "" must be a text, not empty'),
    (("links", ""), {}, 'links: the key "" must be a text, not empty'),
    (("links", "[key]"), "x", 'links["[key]"]: "x": must be an object'),
    # between fields
    (("links", "w1", "egress"), [], "links.w1.egress: []: must be a list, not empty"),
    (
        ("links", "w1", "egress"),
        [[0, 1], [3, 2], [1, 1]],
        "links.w1.egress[2][0]: 1.0: must be above the time before it, 3.0",
    ),
    (
        ("racks", "r1", "down"),
        [[0, 1], [0, 2]],
        "racks.r1.down[1][0]: 0.0: must be above the time before it, 0.0",
    ),
    (("links", "w1", "egress"), [[1, 1]], "links.w1.egress[0][0]: 1.0: must be at most now, 0.0"),
    (("links", "w1", "egress"), [[0, 1], [3, 0]], f"links.w1.egress[1][1]: 0.0: {LAST}"),
    (("links", "w3", "ingress"), [[0, 0]], f"links.w3.ingress[0][1]: 0.0: {LAST}"),
    (("links", "w3", "ingress"), [[0, 1e-300]], f"links.w3.ingress[0][1]: 1e-300: {LAST}"),
    (("server",), "x", 'server: "x": must be a host in links'),
    (("updates", 1, "worker"), "x", 'updates[1].worker: "x": must be a host in links'),
    (("aggregators", 0), "x", 'aggregators[0]: "x": must be a host in links'),
    (("racks", "r1", "hosts", 1), "x", 'racks.r1.hosts[1]: "x": must be a host in links'),
    (("replica", "host"), "x", 'replica.host: "x": must be a host in links'),
    (("racks", "w1"), PROBLEM["racks"]["r2"], "racks.w1: must not be named like a host in links"),  # type: ignore[index]
    (
        ("racks", "r2", "hosts", 0),
        "w2",
        'racks.r2.hosts[0]: "w2": must be in one rack only; it is in "r1" already',
    ),
    (
        ("racks", "r1", "hosts"),
        ["w1", "w1"],
        'racks.r1.hosts[1]: "w1": must be in one rack only; it is in "r1" already',
    ),
    (("updates", 1, "id"), "u1", 'updates[1].id: "u1": must be unlike every id before it'),
    (
        ("aggregators",),
        ["w3", "w3"],
        'aggregators[1]: "w3": must be unlike every aggregator before it',
    ),
    (
        ("updates", 0, "worker"),
        "s",
        'updates[0].worker: "s": must be another host than the server',
    ),
    (("aggregators", 0), "s", 'aggregators[0]: "s": must be another host than the server'),
    (("replica", "host"), "s", 'replica.host: "s": must be another host than the server'),
    (
        ("replica", "host"),
        "w1",
        'replica.host: "w1": must be a host without updates that does not aggregate',
    ),
    (
        ("replica", "host"),
        "w3",
        'replica.host: "w3": must be a host without updates that does not aggregate',
    ),
    (
        ("updates", 1, "version"),
        101,
        "updates[1].version: 101: must be at most the server's version 100",
    ),
    (
        ("updates", 1, "norm"),
        MISSING,
        "updates[1].norm: missing; must be a number, at least 0 with a replica",
    ),
    (
        ("replica", "pending_norm"),
        4.0,
        "replica.pending_norm: 4.0: must be at most divergence_bound 3.0",
    ),
    (("updates",), [], "updates: []: must be a list, not empty"),
    (("sharing",), "fair", 'aggregation: "paper": must be none with sharing fair'),
    (
        ("links", "w2", "egress"),
        [[i, 1] for i in range(357143)],
        "links.w2.egress: 357143 rates: must be at most 357142 with 14 links",
    ),
]

ALONE = PROBLEM | {"aggregators": [], "replica": None}
ODD = ["r\n\x1b[31m", "x" * 99]
RACK = {"up": RATES, "down": RATES}

# Problems with more than one change, and the complaint.
REFUSED_TOGETHER: list[tuple[dict[str, Any], str]] = [
    (
        ALONE | {"sharing": "fair", "ordering": "delay_aware"},
        'ordering: "delay_aware": must be shortest with sharing fair',
    ),
    (
        PROBLEM | {"sharing": "fair", "aggregators": []},
        'sharing: "fair": must be time with a replica',
    ),
    (
        ALONE | {"racks": {name: {"hosts": ["w1"], **RACK} for name in ODD}},
        f'racks["{ODD[1][:38]}…].hosts[0]: "w1": must be in one rack only; '
        'it is in "r\\n\\u001b[31m" already',
    ),
    (
        ALONE
        | {
            "links": PROBLEM["links"] | {ODD[0]: PROBLEM["links"]["w1"]},  # type: ignore[index,operator]
            "racks": {ODD[0]: {"hosts": ["w1"], **RACK}},
        },
        'racks["r\\n\\u001b[31m"]: must not be named like a host in links',
    ),
]

REFUSED_TEXTS: list[tuple[bytes, str]] = [
    (b"", "the input: not JSON: line 1, column 1: Expecting value"),
    (
        b'{"now": 0,\n "server" "s"}',
        "the input: not JSON: line 2, column 11: Expecting ':' delimiter",
    ),
    (b"{} {}", "the input: not JSON: line 1, column 4: Extra data"),
    (b"[]", "the input: []: must be an object"),
    (b"null", "the input: null: must be an object"),
    (b'{"server": "\xff"}', "the input: not UTF-8: byte 13"),
    (b"[" * 10**6, "the input: lists and objects are nested too deeply"),
    (b'{"a": ' * 10**6, "the input: lists and objects are nested too deeply"),
    (b"[" * 500 + b"]" * 500, "the input: […]: must be an object"),
    (
        json.dumps(PROBLEM).replace('"ready": 0.0', '"ready": 1e999').encode(),
        "updates[0].ready: Infinity: must be a number",
    ),
    (b'{"server": 1e999}', "server: Infinity: must be a text, not empty"),
    (b'{"seed": 1' + b"0" * 5000 + b"}", "the input: an integer has more than 4300 digits"),
    (b'{"seed": 1, "now": 0, "seed": 2}', "seed: the key is given twice"),
    (
        b'{"links": {"w 1": {"egress": [], "egress": []}}}',
        'links["w 1"].egress: the key is given twice',
    ),
    (b'{"updates": [{}, {"id": 1, "id": 1}]}', "updates[1].id: the key is given twice"),
]


def changed(where: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """PROBLEM with another value in one place."""
    problem: dict[str, Any] = json.loads(json.dumps(PROBLEM))
    inner: Any = problem
    for part in where[:-1]:
        inner = inner[part]
    if value is MISSING:
        del inner[where[-1]]
    else:
        inner[where[-1]] = value
    return problem


def refused(capsys: pytest.CaptureFixture[str], argv: list[str], data: bytes = b"") -> str:
    """The one line of a call that must be refused."""
    assert main(argv, io.BytesIO(data)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    return err.removesuffix("\n")


@pytest.mark.parametrize(("where", "value", "line"), REFUSED_FIELDS)
def test_a_bad_field_is_named(
    where: tuple[Any, ...], value: Any, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = changed(where, value)
    assert refused(capsys, [], json.dumps(problem).encode()) == line
    with pytest.raises(SettingError) as raised:
        answer(problem)
    assert str(raised.value) == line


@pytest.mark.parametrize(("problem", "line"), REFUSED_TOGETHER)
def test_what_does_not_go_together_is_told(
    problem: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, [], json.dumps(problem).encode()) == line


@pytest.mark.parametrize(("data", "line"), REFUSED_TEXTS)
def test_a_bad_text_is_told(data: bytes, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, ["-"], data) == line


def test_a_misspelt_key_is_told_rather_than_the_missing_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = changed(("server",), MISSING) | {"serverr": "s"}
    line = refused(capsys, [], json.dumps(problem).encode())
    assert line == "serverr: unknown key; did you mean server?"


def test_keys_that_no_json_text_has() -> None:
    with pytest.raises(SettingError, match=r"^the input: the key 3 must be a text, not empty$"):
        answer({**PROBLEM, 3: 4})  # type: ignore[dict-item]
    with pytest.raises(SettingError, match=r"^links: the key 3 must be a text, not empty$"):
        answer(changed(("links", 3), {}))


def test_an_input_too_large_for_the_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    first = PROBLEM["updates"][0]  # type: ignore[index]
    updates = [{**first, "id": f"u{i}"} for i in range(6)]
    problem = changed(("updates",), updates) | {"replica": None}
    line = refused(capsys, ["--exact"], json.dumps(problem).encode())
    assert line == "exact: 6 updates, at most 5 are allowed"
