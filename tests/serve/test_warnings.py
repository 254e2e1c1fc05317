"""Warnings of a count in every language, page and file."""

import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import polyplink
from polyplink.core.artefacts import to_plain
from polyplink.core.messages import LANGUAGES, Message, catalogue
from polyplink.counting.count_part import named_procedures
from polyplink.counting.result import CountedProcedure
from polyplink.report.contents import Report
from polyplink.report.page import render, render_fragment
from polyplink.serve.desk import Desk
from polyplink.serve.handoff import corrected_count, hand_off

SOURCE = Path(polyplink.__file__).parent
# Parts of sentences and the basis of the interval, which are no warnings.
BASES = ("cover.given", "cover.stills")
PARTS = (
    *("boxes.", "material.", "ask.", "todo.", "lost.", "shipped.", "place."),
    *("no_box", "alarms_left_out"),
)


def kinds() -> list[str]:
    """Kinds of the warnings of a count: what the code writes outside pages."""
    pages = ("report", "serve", "core")
    files = [
        path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in pages
    ]
    code = "".join(path.read_text() for path in files)
    starts = re.findall(r"\bMessage\(\s*f?\"([\w. ]+)", code)
    starts += re.findall(r'"(cover\.[\w ]+)"', code)
    all_kinds = (re.sub(r"\.(one|other)$", "", kind) for kind in catalogue("en"))
    written = {kind for kind in all_kinds if kind.startswith(tuple(starts))}
    return sorted(kind for kind in written if not kind.startswith(PARTS) and kind not in BASES)


def message(kind: str) -> Message:
    """A message with a distinct word for each value, which HTML must escape."""
    sentence = catalogue("en").get(kind) or catalogue("en")[f"{kind}.other"]
    names = re.findall(r"\{(\w+)\}", sentence)
    made = Message(kind, {name: 7 if name == "n" else f"<{name}>" for name in names})
    return boxes_read(made) if kind.startswith("import.") else made


def boxes_read(what: Message) -> Message:
    """The warning of a count about a kind of fault of its boxes."""
    first = Message("place.line", {"file": "<boxes.csv>", "number": 3})
    line = Message("import.left_out", {"n": 7, "what": what, "first": first})
    return Message("boxes_read", {"line": line})


@pytest.fixture
def folder_with_warnings(counted_folder: Path, tmp_path: Path) -> tuple[Path, list[Message]]:
    """A counted folder of two procedures with a warning of every kind."""
    messages = [message(kind) for kind in kinds()]
    shutil.copytree(counted_folder / "count", tmp_path / "count")
    (tmp_path / "count" / "corrections.jsonl").unlink(missing_ok=True)
    path = tmp_path / "count" / "count.json"
    summary = json.loads(path.read_text())
    summary |= {"messages": to_plain(messages), "warnings": list(map(str, messages))}
    summary["procedures"] = summary["procedures"][:2]
    summary["data"] = str((counted_folder / "count" / summary["data"]).resolve())
    path.write_text(json.dumps(summary))
    return tmp_path / "count", messages


def unescaped(page: str) -> str:
    """A page with commands between backticks again, which it marks as code."""
    assert "`" not in page
    return html.unescape(re.sub("</?code>", "`", page))


def test_every_warning_reaches_every_page_and_file(
    folder_with_warnings: tuple[Path, list[Message]],
) -> None:
    folder, messages = folder_with_warnings
    assert len(messages) > 20
    desk = Desk(folder)
    assert desk.overview()["warnings"] == {
        name: [message.text(name) for message in messages] for name in LANGUAGES
    }
    for name in LANGUAGES:
        hand_off(desk, name)
        texts = [message.text(name) for message in messages]
        assert json.loads((folder / "reviewed" / "review.json").read_text())["warnings"] == texts
        page = (folder / "reviewed" / "report.html").read_text()
        top = unescaped(page[: page.index("<table")])
        assert all(text in top for text in texts)
    report = Report("T", "D", "now", "here", warnings=tuple(map(str, messages)))
    for page in (render(report), render_fragment(report)):
        top = unescaped(page[: page.index('id="summary"')])
        assert all(str(message) in top for message in messages)


def test_a_warning_about_boxes_is_in_the_language_with_names_as_they_are() -> None:
    what = Message("import.unknown_column", {"table": "boxes.csv"})
    assert boxes_read(what).text("de") == (
        "Beim Einlesen der Rahmen: 7 × unbekannte Spalte in boxes.csv, nicht gelesen, ausgelassen "
        "(zuerst: <boxes.csv>, Zeile 3)."
    )
    # Counts of earlier versions, and importers of plugins, have a sentence.
    earlier = Message("boxes_read", {"line": "2 x box of no area, left out (first: a.csv, line 3)"})
    assert earlier.text("it") == (
        "Nella lettura dei riquadri: 2 x box of no area, left out (first: a.csv, line 3)."
    )


def test_a_count_of_another_version_is_shown_with_its_english_warnings(
    folder_with_warnings: tuple[Path, list[Message]],
) -> None:
    folder, _ = folder_with_warnings
    path = folder / "count.json"
    summary = json.loads(path.read_text())
    values = {"lost": 2, "frames": 9, "name": "a.mp4"}  # in place of n, frames and name
    summary["messages"] = [{"kind": "not_decoded", "values": values}]
    summary["warnings"] = ["2 of 9 frames of a.mp4 cannot be decoded and were skipped."]
    path.write_text(json.dumps(summary))
    shown_warnings = Desk(folder).overview()["warnings"]
    assert shown_warnings == dict.fromkeys(LANGUAGES, summary["warnings"])


def test_a_hand_off_is_called_reviewed_only_after_all_questions(
    folder_with_warnings: tuple[Path, list[Message]],
) -> None:
    folder, _ = folder_with_warnings
    desk = Desk(folder)

    def page() -> str:
        hand_off(desk, "de")
        return (folder / "reviewed" / "report.html").read_text()

    def record() -> dict[str, object]:
        review: dict[str, object] = json.loads((folder / "reviewed" / "review.json").read_text())
        return review

    before = page()
    open_questions = sum(procedure["questions"] for procedure in desk.overview()["procedures"])
    assert open_questions > 0  # without an interval, links below 90 % are questions
    assert f"Geprüfte Fragen: 0 von {open_questions}." in before
    assert "<h1>Polypenzählung, nicht geprüft</h1>" in before
    assert (record()["reviewed"], record()["answered"]) == (False, 0)
    for index in range(len(desk.names)):
        desk.correct(index, {"kind": "done"})
    assert not corrected_count(desk).reviewed  # questions are open
    answered = 0
    for index in range(len(desk.names)):
        while questions := [q for q in desk.procedure(index)["questions"] if q["close"]]:
            kind = "same" if questions[0]["joined"] else "different"
            desk.correct(index, {"kind": kind, "a": questions[0]["a"], "b": questions[0]["b"]})
            answered += 1
    page()
    assert not record()["reviewed"]  # an answer opens the procedure again
    for index in range(len(desk.names)):
        desk.correct(index, {"kind": "done"})
    after = page()
    assert f"Geprüfte Fragen: {answered} von {answered}." in after
    assert "<h1>Geprüfte Polypenzählung</h1>" in after
    assert (record()["reviewed"], record()["answered"]) == (True, answered)


def test_an_interval_is_not_claimed_for_a_corrected_count(
    folder_with_warnings: tuple[Path, list[Message]],
) -> None:
    (folder, _), language = folder_with_warnings, "it"
    path = folder / "count.json"
    summary = json.loads(path.read_text())
    summary["cover"]["gap"] = ""
    summary["operating_point"] |= {"spread": 3.0, "margin": 1, "ask_below": None}
    for procedure in summary["procedures"]:
        procedure |= {"low": procedure["polyps"] - 1, "high": procedure["polyps"] + 1}
    path.write_text(json.dumps(summary))
    desk = Desk(folder)
    basis = desk.overview()["basis"][language][0]
    corrected = catalogue(language)["interval.corrected"]

    def handed_off() -> tuple[dict[str, Any], str]:
        hand_off(desk, language)
        page = html.unescape((folder / "reviewed" / "report.html").read_text())
        return json.loads((folder / "reviewed" / "review.json").read_text()), page

    # An answer that decides nothing leaves the count, and its interval, as they are.
    a, b = desk.procedure(0)["groups"][0]["rows"][:2]
    unsure = desk.correct(0, {"kind": "unsure", "a": a, "b": b})
    assert (unsure["low"] is None, unsure["corrected"], unsure["corrections"]) == (False, False, 1)
    review, page = handed_off()
    assert review["basis"] == basis
    assert basis in page
    assert corrected not in page

    confirmed = desk.correct(0, {"kind": "done"})
    assert (confirmed["low"], confirmed["corrected"]) == (None, True)
    reopened = desk.correct(0, {"kind": "reopen"})
    assert (reopened["low"] is None, reopened["corrected"]) == (False, False)

    after = desk.correct(0, {"kind": "not_polyp", "rows": [a]})
    assert (after["low"], after["high"], after["corrected"]) == (None, None, True)
    review, page = handed_off()
    assert [procedure["low"] is None for procedure in review["procedures"]] == [True, False]
    assert [procedure["corrected"] for procedure in review["procedures"]] == [True, False]
    assert page.count(corrected) == 1
    assert json.loads(path.read_text())["procedures"] == summary["procedures"]

    # Nothing says what intervals hold when no procedure has one. All state one number.
    desk.correct(1, {"kind": "not_polyp", "rows": list(range(6))})
    desk.correct(1, {"kind": "done"})
    review, page = handed_off()
    assert review["basis"] is None
    assert basis not in page
    assert page.count(corrected) == 2
    numbers = [procedure["corrections"] for procedure in review["procedures"]]
    assert numbers == [procedure["corrections"] for procedure in desk.overview()["procedures"]]
    assert numbers == [desk.procedure(index)["corrections"] for index in range(2)] == [2, 1]
    undone = desk.correct(0, {"kind": "undo", "of": desk.procedure(0)["undo"]})
    assert (undone["low"] is None, undone["corrected"], undone["corrections"]) == (False, False, 1)


def test_a_count_of_an_earlier_version_opens_without_an_interval(
    folder_with_warnings: tuple[Path, list[Message]],
) -> None:
    folder, _ = folder_with_warnings
    path = folder / "count.json"
    summary = json.loads(path.read_text())
    for name in ("cover", "messages", "coverage", "models"):
        del summary[name]
    point = {k: v for k, v in summary["operating_point"].items() if k != "ask_below"}
    path.write_text(
        json.dumps(summary | {"operating_point": point | {"spread": 3.0}, "warnings": ["Old."]})
    )
    overview = Desk(folder).overview()
    assert all(procedure["low"] is None for procedure in overview["procedures"])
    assert overview["warnings"]["en"][0].startswith(
        "No 90 % interval is shown: this count was written"
    )
    assert overview["warnings"]["en"][1] == "Old."
    assert overview["ask_below"] == 0.9


def test_a_count_of_0_is_not_explained_once_a_reviewer_added_a_polyp(desk: Desk) -> None:
    """Of two procedures with a count of 0, the warning names the one that still has none."""
    names = desk.names
    empty = tuple(CountedProcedure(name) for name in names)
    why = Message("counted_none", named_procedures(names) | {"why": [Message("no_box")]})
    desk.count = replace(desk.count, procedures=empty, messages=(why,))
    every_row = list(range(len(desk.procedure(1)["tracklets"])))
    desk.correct(1, {"kind": "not_polyp", "rows": every_row})
    (line,) = desk.overview()["warnings"]["en"]
    assert names[1] in line
    assert names[0] not in line
    desk.correct(1, {"kind": "missed", "frame": 0})
    assert desk.overview()["warnings"]["en"] == []
