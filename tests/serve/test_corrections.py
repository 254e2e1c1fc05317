"""The log of corrections, and what it says."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.serve.corrections import (
    LOG,
    Correction,
    append_correction,
    decide,
    parse_correction,
    read_corrections,
)

IDS = ["a", "b", "c", "d", "e"]


def said(kind: Any, own: str = "", others: str = "", **more: Any) -> Correction:
    return Correction("v", kind, tuple(own), tuple(others), **more)


def test_the_log_keeps_every_line_whoever_writes_and_whatever_is_cut_short(tmp_path: Path) -> None:
    assert read_corrections(tmp_path) == []
    lines = [said("same", "a", "b", reviewer=f"r{i} ä\n,=1") for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: append_correction(tmp_path, one), lines))
    assert sorted(one.id for one in read_corrections(tmp_path)) == sorted(one.id for one in lines)
    assert set(read_corrections(tmp_path)) == set(lines)
    path = tmp_path / LOG
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"procedure": "v", "ki')  # killed while writing
    assert len(read_corrections(tmp_path)) == 40
    append_correction(tmp_path, said("done"))
    assert [one.kind for one in read_corrections(tmp_path)][-1] == "done"
    assert path.read_bytes().startswith(whole)
    path.write_bytes(whole + b'{"procedure": "v", "kind": "shrug"}\n')
    with pytest.raises(PolyplinkError, match="line 41: not a correction"):
        read_corrections(tmp_path)


def consistent(must: set[tuple[str, str]], cannot: set[tuple[str, str]]) -> bool:
    """Whether some assignment of polyps satisfies all pairs; naive: all are tried."""
    for labels in product(range(5), repeat=5):
        of = dict(zip(IDS, labels, strict=True))
        if all(of[a] == of[b] for a, b in must) and all(of[a] != of[b] for a, b in cannot):
            return True
    return False


answers = st.tuples(
    st.sampled_from(["same", "different"]), st.sampled_from(IDS), st.sampled_from(IDS)
).filter(lambda one: one[1] != one[2])


@given(st.lists(answers, max_size=6))
def test_the_latest_answers_hold_as_far_as_they_agree(given: list[tuple[str, str, str]]) -> None:
    log = [said(kind, a, b) for kind, a, b in given]
    must: set[tuple[str, str]] = set()
    cannot: set[tuple[str, str]] = set()
    aside = set()
    for one in reversed(log):
        pair = {(one.tracklets[0], one.others[0])}
        more = (must | pair, cannot) if one.kind == "same" else (must, cannot | pair)
        if consistent(*more):
            must, cannot = more
        else:
            aside.add(one.id)
    found = decide(log, IDS)
    assert (set(found.must), set(found.cannot), set(found.set_aside)) == (must, cannot, aside)
    for by in found.set_aside.values():
        assert by
        assert not aside & set(by)


def test_every_kind_says_its_pairs() -> None:
    log = [
        said("merge", "abc"),
        said("split", "a", "de"),
        said("unsure", "d", "e"),
        said("move", "d", "e", apart=("b",)),
    ]
    found = decide(log, IDS)
    assert set(found.must) == {("a", "b"), ("a", "c"), ("d", "e")}
    assert set(found.cannot) == {("a", "d"), ("a", "e"), ("d", "b")}
    assert found.unsure == (("d", "e"),)
    away = decide([*log, said("not_polyp", "a"), said("polyp", "e")], IDS)
    assert away.removed == {"a"}
    assert away.restored == {"e"}
    assert set(away.must) == {("d", "e")}  # nothing is said of a tracklet that is out
    assert decide([*log, said("not_polyp", "a"), said("polyp", "a")], IDS).removed == frozenset()
    assert decide(log, ["a", "b"]).must == (("a", "b"),)  # others are no longer there


def test_undo_and_redo_are_lines_too() -> None:
    one, two = said("same", "a", "b"), said("different", "b", "c")
    log = [one, two]
    assert decide(log, IDS).undo == two.id
    log.append(said("undo", of=two.id))
    found = decide(log, IDS)
    assert (found.cannot, found.undo, found.redo) == ((), one.id, two.id)
    log.append(said("undo", of=one.id))
    found = decide(log, IDS)
    assert (found.must, found.undo, found.redo) == ((), None, one.id)
    log.append(said("redo", of=one.id))
    found = decide(log, IDS)
    assert (found.must, found.undo, found.redo) == ((("a", "b"),), one.id, two.id)
    log.append(said("done"))
    found = decide(log, IDS)
    assert (found.done, found.redo) == (True, None)
    assert not decide([*log, said("reopen")], IDS).done
    assert not decide([*log, said("undo", of=log[-1].id)], IDS).done


def test_what_the_page_sends_is_checked() -> None:
    found = parse_correction({"kind": "move", "row": 1, "others": [3, 4]}, "v", IDS, "me")
    assert (found.kind, found.tracklets, found.others) == ("move", ("b",), ("d", "e"))
    assert json.loads(json.dumps(found.id))
    wrong: tuple[Any, ...] = (
        None,
        [],
        {},
        {"kind": "shout"},
        {"kind": ["same"], "a": 0, "b": 1},
        {"kind": "same", "a": 0},
        {"kind": "same", "a": 0, "b": 5},
        {"kind": "same", "a": -1, "b": 1},
        {"kind": "same", "a": True, "b": 2},
        {"kind": "same", "a": "0", "b": 1},
        {"kind": "same", "a": 1, "b": 1},
        {"kind": "merge", "rows": [1]},
        {"kind": "split", "rows": [0, 1], "others": [1]},
        {"kind": "undo"},
        {"kind": "undo", "of": 3},
    )
    for broken in wrong:
        with pytest.raises(PolyplinkError, match="reload the page"):
            parse_correction(broken, "v", IDS, "me")


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    append_correction(tmp_path, said("done"))
    with pytest.raises(PolyplinkError, match="not UTF-8"):
        append_correction(tmp_path, said("done", reviewer="x\udcff"))
    assert len(read_corrections(tmp_path)) == 1
