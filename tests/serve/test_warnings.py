"""Every warning, in every language, through everything that is made of a count."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest

from polyplink.core.artefacts import to_plain
from polyplink.core.messages import LANGUAGES, Message, catalogue
from polyplink.report.page import render, render_fragment
from polyplink.report.records import Report
from polyplink.serve.desk import Desk
from polyplink.serve.handoff import hand_off

# Parts of sentences, and what the interval rests on: they are no warnings by themselves.
PARTS = ("boxes.", "material.", "ask.", "todo.", "lost.", "shipped.", "no_box", "alarms_left_out")


def kinds() -> list[str]:
    every = (re.sub(r"\.(one|other)$", "", kind) for kind in catalogue()["en"])
    return sorted({one for one in every if not one.startswith(PARTS) and one != "cover.given"})


def message(kind: str) -> Message:
    """One with a word of its own for each value, that HTML must escape."""
    sentence = catalogue()["en"].get(kind) or catalogue()["en"][f"{kind}.other"]
    names = re.findall(r"\{(\w+)\}", sentence)
    return Message(kind, {name: 7 if name == "n" else f"<{name}>" for name in names})


def test_the_languages_have_the_same_sentences_with_the_same_values() -> None:
    every = catalogue()
    assert tuple(every) == LANGUAGES
    for name in LANGUAGES[1:]:
        assert every[name].keys() == every["en"].keys()
        for kind, sentence in every[name].items():
            values = set(re.findall(r"\{(\w+)\}", every["en"][kind]))
            assert set(re.findall(r"\{(\w+)\}", sentence)) == values, kind
            assert sentence != every["en"][kind], kind


@pytest.fixture
def warned(counted: Path, tmp_path: Path) -> tuple[Path, list[Message]]:
    """A counted folder with a warning of every kind."""
    messages = [message(kind) for kind in kinds()]
    shutil.copytree(counted / "count", tmp_path / "count")
    (tmp_path / "count" / "corrections.jsonl").unlink(missing_ok=True)
    path = tmp_path / "count" / "count.json"
    summary = json.loads(path.read_text())
    summary |= {"messages": to_plain(messages), "warnings": list(map(str, messages))}
    summary["data"] = str((counted / "count" / summary["data"]).resolve())
    path.write_text(json.dumps(summary))
    return tmp_path / "count", messages


def test_every_warning_reaches_every_page_and_file(warned: tuple[Path, list[Message]]) -> None:
    folder, messages = warned
    assert len(messages) > 20
    desk = Desk(folder)
    assert desk.overview()["warnings"] == {
        name: [one.text(name) for one in messages] for name in LANGUAGES
    }
    for name in LANGUAGES:
        hand_off(desk, name)
        texts = [one.text(name) for one in messages]
        assert json.loads((folder / "reviewed" / "review.json").read_text())["warnings"] == texts
        page = (folder / "reviewed" / "report.html").read_text()
        top = html.unescape(page[: page.index("<table>")])
        assert all(text in top for text in texts)
    report = Report("T", "D", "now", "here", warnings=tuple(map(str, messages)))
    for shown in (render(report), render_fragment(report)):
        top = html.unescape(shown[: shown.index('id="summary"')])
        assert all(str(one) in top for one in messages)


def test_a_count_is_called_reviewed_only_when_it_was(warned: tuple[Path, list[Message]]) -> None:
    folder, _ = warned
    desk = Desk(folder)

    def page() -> str:
        hand_off(desk, "de")
        return (folder / "reviewed" / "report.html").read_text()

    def record() -> dict[str, object]:
        found: dict[str, object] = json.loads((folder / "reviewed" / "review.json").read_text())
        return found

    before = page()
    open_ones = sum(one["questions"] for one in desk.overview()["procedures"])
    assert open_ones > 0  # without an interval, links below 90 % are asked
    assert f"Geprüfte Fragen: 0 von {open_ones}." in before
    assert "<h1>Polypenzählung, nicht geprüft</h1>" in before
    assert (record()["reviewed"], record()["answered"]) == (False, 0)
    answered = 0
    for index in range(len(desk.names)):
        desk.correct(index, {"kind": "done"})
        while questions := [q for q in desk.procedure(index)["questions"] if q["close"]]:
            kind = "same" if questions[0]["joined"] else "different"
            desk.correct(index, {"kind": kind, "a": questions[0]["a"], "b": questions[0]["b"]})
            answered += 1
    after = page()
    assert f"Geprüfte Fragen: {answered} von {answered}." in after
    assert "<h1>Geprüfte Polypenzählung</h1>" in after
    assert (record()["reviewed"], record()["answered"]) == (True, answered)


def test_a_count_of_an_earlier_version_opens_without_an_interval(
    warned: tuple[Path, list[Message]],
) -> None:
    folder, _ = warned
    path = folder / "count.json"
    summary = json.loads(path.read_text())
    for name in ("cover", "messages", "coverage", "models"):
        del summary[name]
    point = {k: v for k, v in summary["operating_point"].items() if k != "ask_below"}
    path.write_text(
        json.dumps(summary | {"operating_point": point | {"spread": 3.0}, "warnings": ["Old."]})
    )
    seen = Desk(folder).overview()
    assert all(one["low"] is None for one in seen["procedures"])
    assert seen["warnings"]["en"][0].startswith("No 90 % interval is shown: this count was written")
    assert seen["warnings"]["en"][1] == "Old."
    assert seen["ask_below"] == 0.9
