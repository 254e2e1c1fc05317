"""The log of corrections: writing it, and the constraints that it decides."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from polyplink.associate.identities import Constraints
from polyplink.core.errors import PolyplinkError
from polyplink.counting.corrections import (
    LOG,
    Correction,
    append_correction,
    decide,
    parse_correction,
    read_corrections,
    review_messages,
    split_by_views,
    views_key,
)

IDS = ["a", "b", "c", "d", "e"]


def correction(
    kind: Any, tracklets: str = "", other_tracklets: str = "", **changes: Any
) -> Correction:
    return Correction("v", kind, tuple(tracklets), tuple(other_tracklets), **changes)


def test_the_log_keeps_all_lines_of_concurrent_and_interrupted_writers(tmp_path: Path) -> None:
    assert read_corrections(tmp_path) == []
    lines = [correction("same", "a", "b", reviewer=f"r{i} ä\n,=1") for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda correction: append_correction(tmp_path, correction), lines))
    assert sorted(correction.id for correction in read_corrections(tmp_path)) == sorted(
        correction.id for correction in lines
    )
    assert set(read_corrections(tmp_path)) == set(lines)
    path = tmp_path / LOG
    complete_log = path.read_bytes()
    path.write_bytes(complete_log + b'{"procedure": "v", "ki')  # killed while writing
    assert len(read_corrections(tmp_path)) == 40
    append_correction(tmp_path, correction("done"))
    assert [correction.kind for correction in read_corrections(tmp_path)][-1] == "done"
    assert path.read_bytes().startswith(complete_log)
    path.write_bytes(complete_log + b'{"procedure": "v", "kind": "shrug"}\n')
    with pytest.raises(PolyplinkError, match="line 41: not a correction"):
        read_corrections(tmp_path)


def consistent(must: set[tuple[str, str]], cannot: set[tuple[str, str]]) -> bool:
    """Whether any assignment of polyps satisfies up to six pairs, by trying all assignments."""
    for labels in product(range(4), repeat=4):  # five polyps would need ten different pairs
        polyp_of = dict(zip(IDS, (0, *labels), strict=True))
        if all(polyp_of[a] == polyp_of[b] for a, b in must) and all(
            polyp_of[a] != polyp_of[b] for a, b in cannot
        ):
            return True
    return False


answers = st.tuples(
    st.sampled_from(["same", "different"]), st.sampled_from(IDS), st.sampled_from(IDS)
).filter(lambda answer: answer[1] != answer[2])


@given(st.lists(answers, max_size=6))
def test_contradicting_answers_are_set_aside_latest_first(
    answers_in_order: list[tuple[str, str, str]],
) -> None:
    log = [correction(kind, a, b) for kind, a, b in answers_in_order]
    must: set[tuple[str, str]] = set()
    cannot: set[tuple[str, str]] = set()
    set_aside = set()
    for entry in reversed(log):
        pair = {(entry.tracklets[0], entry.others[0])}
        extended = (must | pair, cannot) if entry.kind == "same" else (must, cannot | pair)
        if consistent(*extended):
            must, cannot = extended
        else:
            set_aside.add(entry.id)
    decided = decide(log, IDS)
    assert (set(decided.must), set(decided.cannot), set(decided.set_aside)) == (
        must,
        cannot,
        set_aside,
    )
    for conflicting in decided.set_aside.values():
        assert conflicting
        assert not set_aside & set(conflicting)


def test_every_kind_of_correction_gives_its_pairs() -> None:
    log = [
        correction("merge", "abc"),
        correction("split", "a", "de"),
        correction("unsure", "d", "e"),
        correction("move", "d", "e", apart=("b",)),
    ]
    decided = decide(log, IDS)
    assert set(decided.must) == {("a", "b"), ("a", "c"), ("d", "e")}
    assert set(decided.cannot) == {("a", "d"), ("a", "e"), ("d", "b")}
    assert decided.unsure == (("d", "e", None),)
    without_removed = decide([*log, correction("not_polyp", "a"), correction("polyp", "e")], IDS)
    assert without_removed.removed == {"a"}
    assert without_removed.restored == {"b", "c", "e"}  # merged views show a polyp
    # A removed tracklet has no pairs; the others of a merge stay one polyp.
    assert set(without_removed.must) == {("b", "c"), ("d", "e")}
    assert (
        decide([*log, correction("not_polyp", "a"), correction("polyp", "a")], IDS).removed
        == frozenset()
    )
    assert decide(log, ["a", "b"]).must == (("a", "b"),)  # the other tracklets no longer exist


@pytest.mark.parametrize(
    ("later", "polyps"),
    [
        ([correction("split", "cd", "ab")], ["ab", "cd", "e"]),
        ([correction("move", "a", apart=("b", "c", "d"))], ["a", "bcd", "e"]),
        ([correction("split", "cd", "ab"), correction("split", "d", "c")], ["ab", "c", "d", "e"]),
        ([correction("same", "b", "e"), correction("split", "cd", "ae")], ["abe", "cd"]),
    ],
)
def test_a_later_split_of_merged_views_leaves_one_polyp_on_each_side(
    later: list[Correction], polyps: list[str]
) -> None:
    log = [correction("merge", "abcd"), *later]
    decided = decide(log, IDS)
    assert decided.set_aside == {}
    must, cannot = (
        tuple((IDS.index(a), IDS.index(b)) for a, b in pairs)
        for pairs in (decided.must, decided.cannot)
    )
    together, apart = Constraints(must, cannot).closure(len(IDS))
    assert {"".join(IDS[i] for i in np.flatnonzero(row)) for row in together} == set(polyps)
    for a, b in combinations([side for side in polyps if side != "e"], 2):
        assert all(apart[IDS.index(i), IDS.index(j)] for i in a for j in b)
    # The split undone, they are one polyp again.
    undone = [correction("undo", of=answer.id) for answer in later if answer.kind != "same"]
    assert {("a", "b"), ("a", "c"), ("a", "d")} <= set(decide([*log, *undone], IDS).must)


def test_a_merge_that_later_answers_do_not_divide_is_set_aside() -> None:
    merge, different = correction("merge", "abc"), correction("different", "a", "b")
    decided = decide([merge, different], IDS)  # the third tracklet is near both
    assert (decided.must, decided.set_aside) == ((), {merge.id: (different.id,)})
    merge, split = correction("merge", "ab"), correction("split", "b", "a")
    assert decide([merge, split], IDS).set_aside == {merge.id: (split.id,)}


def test_answers_about_views_of_another_count_are_kept_apart() -> None:
    def tracklets(*first_frames: int) -> pl.DataFrame:
        rows = [(f"v:{k}", first, first + 9, 10) for k, first in enumerate(first_frames)]
        columns = ["tracklet_id", "first_frame", "last_frame", "n"]
        return pl.DataFrame(rows, schema=columns, orient="row")

    before, after = tracklets(0, 50, 90), tracklets(0, 70, 90)
    names = ("v:0",), ("v:1",)
    answer = Correction("v", "same", *names, views=views_key(before))
    done = Correction("v", "done", views=views_key(before))
    new = Correction("v", "different", *names, views=views_key(after))
    assert split_by_views([answer, done, new], before) == ([answer, done], [new])
    assert split_by_views([answer, done, new], after) == (
        [new],
        [answer, done],
    )  # of the same names
    # A log of an earlier version has no keys: it is used unless it names a missing view.
    log = [Correction("v", "same", *names), Correction("v", "done")]
    assert split_by_views(log, after) == (log, [])
    part = Correction("v", "different", ("v:1@60",), ("v:0",))  # of a tracklet that was cut
    assert split_by_views([*log, part], after) == ([*log, part], [])
    assert split_by_views(log, tracklets(0)) == ([], log)


def test_a_new_count_names_reviews_that_stay_and_those_of_other_views() -> None:
    columns = ["procedure_id", "tracklet_id", "first_frame", "last_frame", "n"]
    rows = [("v", f"v:{k}", 50 * k, 50 * k + 9, 10) for k in range(2)]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    key = views_key(table)
    answer = Correction("v", "same", ("v:0",), ("v:1",), views=key)
    undone = Correction("v", "undo", of=answer.id, views=key)
    other = Correction("v", "same", ("v:0",), ("v:1",), views="of another count")
    done = Correction("v", "done", views=key)
    for log, kinds in (
        ([answer], ["review_kept"]),
        ([answer, undone], []),
        ([other], ["outdated"]),
        ([other, answer], ["review_kept", "outdated"]),
        ([other, answer, done], ["review_kept"]),
        ([replace(answer, procedure="w")], ["review_absent"]),
    ):
        notes, warnings = review_messages(log, ["v"], table, "polyplink hand-off OUT")
        assert [message.kind for message in (*notes, *warnings)] == kinds


def test_undo_and_redo_are_lines_of_the_log() -> None:
    first, second = correction("same", "a", "b"), correction("different", "b", "c")
    log = [first, second]
    assert decide(log, IDS).undo == second.id
    log.append(correction("undo", of=second.id))
    decided = decide(log, IDS)
    assert (decided.cannot, decided.undo, decided.redo) == ((), first.id, second.id)
    log.append(correction("undo", of=first.id))
    decided = decide(log, IDS)
    assert (decided.must, decided.undo, decided.redo) == ((), None, first.id)
    log.append(correction("redo", of=first.id))
    decided = decide(log, IDS)
    assert (decided.must, decided.undo, decided.redo) == ((("a", "b"),), first.id, second.id)
    log.append(correction("done"))
    decided = decide(log, IDS)
    assert (decided.done, decided.redo) == (True, None)
    assert not decide([*log, correction("reopen")], IDS).done
    undone = [*log, correction("undo", of=log[-1].id)]
    assert not decide(undone, IDS).done
    assert decide([*undone, correction("redo", of=log[-1].id)], IDS).done


def test_what_was_undone_last_can_be_redone_until_a_new_answer() -> None:
    first, second = correction("same", "a", "b"), correction("same", "b", "c")
    log = [first, second, correction("undo", of=first.id)]  # from the list of corrections
    assert decide(log, IDS).redo == first.id
    assert decide([*log, correction("redo", of=first.id)], IDS).redo is None
    assert decide([*log, correction("unsure", "d", "e")], IDS).redo is None


def test_views_that_are_merged_show_a_polyp_until_they_are_rejected_again() -> None:
    log = [correction("not_polyp", "b"), correction("merge", "ab")]
    decided = decide(log, IDS)
    assert (decided.must, decided.removed) == ((("a", "b"),), frozenset())
    assert "b" in decided.restored  # also if the model of false alarms rejects it
    assert decide([*log, correction("undo", of=log[1].id)], IDS).removed == {"b"}
    assert decide([*log, correction("not_polyp", "b")], IDS).removed == {"b"}


def test_whatever_changes_a_finished_procedure_opens_it_again() -> None:
    answer, done = correction("same", "a", "b"), correction("done")
    log = [answer, done]
    later = correction("unsure", "b", "c")
    assert decide(log, IDS).done
    assert not decide([*log, later], IDS).done
    assert decide([*log, later, correction("undo", of=later.id)], IDS).done
    undone = [*log, correction("undo", of=answer.id)]
    assert not decide(undone, IDS).done
    assert not decide([*undone, correction("redo", of=answer.id)], IDS).done
    assert decide([*undone, correction("done")], IDS).done


def test_invalid_requests_of_the_page_are_refused() -> None:
    parsed = parse_correction({"kind": "move", "row": 1, "others": [3, 4]}, "v", IDS, "me")
    assert (parsed.kind, parsed.tracklets, parsed.others) == ("move", ("b",), ("d", "e"))
    assert json.loads(json.dumps(parsed.id))
    invalid_requests: tuple[Any, ...] = (
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
    for request in invalid_requests:
        with pytest.raises(PolyplinkError, match="reload the page"):
            parse_correction(request, "v", IDS, "me")


def test_a_correction_that_is_not_utf_8_is_not_written(tmp_path: Path) -> None:
    append_correction(tmp_path, correction("done"))
    with pytest.raises(PolyplinkError, match="not UTF-8"):
        append_correction(tmp_path, correction("done", reviewer="x\udcff"))
    assert len(read_corrections(tmp_path)) == 1
