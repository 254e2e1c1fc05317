"""The verbs review, hand-off and learn-from."""

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import webbrowser
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest

from polyplink import Result, hand_off_review, learn_from, review
from polyplink.associate.clusterers import LearnedLinks
from polyplink.cli.count import count
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.tables import read_data
from polyplink.encoders.weights import read_record
from polyplink.serve.desk import Desk
from polyplink.serve.finished_reviews import finished_procedures, fit_reviews
from tests.cli.calls import polyplink, printed_json, succeed
from tests.cli.reviews import finish_review
from tests.conftest import SampleRun


@pytest.fixture
def count_folder(unreviewed: Path) -> Path:
    return unreviewed / "count"


def served_procedures(address: str) -> int:
    """The number of procedures that a served review has."""
    token = address.partition("token=")[2]
    request = urllib.request.Request(
        address.partition("?")[0] + "api/overview", headers={"X-Polyplink-Token": token}
    )
    with urllib.request.urlopen(request) as answer:
        return len(json.load(answer)["procedures"])


@pytest.mark.slow
def test_the_page_is_served_until_the_process_ends(count_folder: Path) -> None:
    command = [sys.executable, "-m", "polyplink", "review", str(count_folder), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = re.search(r"http://127.0.0.1:\d+/\?token=\S+", process.stdout.readline())
        assert address is not None
        assert served_procedures(address[0]) == 5
        process.terminate()
        process.wait(20)


@pytest.mark.slow
@pytest.mark.parametrize("recounted", [False, True])
def test_ctrl_c_is_the_usual_end_also_after_a_new_count(
    count_folder: Path, tmp_path: Path, sample_run: SampleRun, recounted: bool
) -> None:
    folder = tmp_path / "count"
    shutil.copytree(count_folder, folder)
    arguments = ["review", str(folder), "--data", str(sample_run.data), "--no-browser"]
    command = [sys.executable, "-m", "polyplink", *arguments]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("review: http://127.0.0.1:")
        assert process.stdout.readline() == "open this address; Ctrl-C ends\n"
        if recounted:
            (folder / "count.json").write_text((folder / "count.json").read_text() + " ")
        process.send_signal(signal.SIGINT)
        printed, messages = process.communicate(timeout=60)
    assert process.returncode == 0, messages
    changed = f"warning: {folder} holds another count now, or none\n"
    assert messages == "\npolyplink: stopping ...\n" + changed * recounted
    assert printed == ("" if recounted else f"0 corrections in {folder}\n")


def test_a_notebook_serves_the_printed_page_until_it_is_interrupted(
    count_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[int] = []

    def browse(address: str) -> None:
        assert capsys.readouterr().out.startswith(f"review: {address}\n")
        opened.append(served_procedures(address))
        raise KeyboardInterrupt

    async def cell() -> Result[Path]:
        return review(count_folder)

    monkeypatch.setattr(webbrowser, "open", browse)
    with closing(asyncio.new_event_loop()) as loop:  # runs while the cell runs, in the same thread
        assert loop.run_until_complete(cell()).json["corrections"] == 0
    assert opened == [5]


def test_a_review_of_views_that_no_longer_exist_is_not_used(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    folder, weights, data = tmp_path / "count", sample_run.weights, sample_run.data
    options: dict[str, Any] = {"out": folder, "part": "eval", "device": "cpu", "language": "de"}
    count(weights, data, **options)
    finish_review(folder, data)
    record = folder / "reviewed" / "review.json"

    def handed_off() -> tuple[dict[str, Any], str]:
        hand_off_review(folder, language="de")
        return json.loads(record.read_text()), record.with_name("report.html").read_text()

    # The same views: the review stays, and output and report say that it exists.
    again = succeed("count", weights, data, "--part", "eval", "-o", folder, "--device", "cpu")
    assert "1 procedure (001-005) has been reviewed here." in again.stdout
    assert f"polyplink hand-off {folder}" in (folder / "report.html").read_text()
    assert all(procedure["reviewed"] for procedure in handed_off()[0]["procedures"])

    # None of them: nothing is called reviewed.
    result = count(weights, data, min_length=60, **options)
    message = Message("outdated", {"n": 1, "names": "001-005"})
    assert str(message) in result.warnings
    warning = message.text("de")
    assert warning in (folder / "report.html").read_text()
    review, page = handed_off()
    assert (review["reviewed"], review["answered"]) == (False, 0)
    assert warning in review["warnings"]
    assert warning in page
    for procedure in review["procedures"]:
        assert (procedure["done"], procedure["reviewed"], procedure["outdated"]) == (
            False,
            False,
            True,
        )
    assert learn_from_refuses(weights, folder, tmp_path / "learned")

    # A new review withdraws the warning; the old one is there for the views that it was of.
    Desk(folder).correct(0, {"kind": "done"})
    assert warning not in handed_off()[0]["warnings"]
    count(weights, data, **options)
    assert {procedure["corrections"] for procedure in handed_off()[0]["procedures"]} != {0}


def learn_from_refuses(weights: Path, folder: Path, out: Path) -> bool:
    refused = polyplink("learn-from", weights, folder, "-o", out)
    return refused.exit_code == 2 and "is marked as finished" in refused.stderr


def test_a_finished_review_is_handed_off_and_learned_from(
    count_folder: Path, sample_run: SampleRun, tmp_path: Path
) -> None:
    refused = polyplink("learn-from", sample_run.weights, count_folder, "-o", tmp_path / "none")
    assert refused.exit_code == 2
    assert "no procedure with a polyp in" in refused.stderr
    assert "mark some as finished in `polyplink review`" in refused.stderr
    shutil.copytree(count_folder, tmp_path / "unfinished")
    unfinished = Desk(tmp_path / "unfinished", sample_run.data)
    desk = finish_review(count_folder, sample_run.data)
    truth = read_data(sample_run.data).detections
    files = printed_json("hand-off", count_folder, "--language", "de")["files"]
    assert any(file.endswith("polyps.xlsx") for file in files)
    learning = learn_from(str(sample_run.weights), str(count_folder), out=tmp_path / "learned")
    assert learning.value.procedures == 5
    assert learning.value.warnings == tuple(learning.warnings)  # for --json
    labelled = read_data(learning.value.data)
    assert labelled.polyps.height == 10
    joined = labelled.detections.join(
        truth.select("procedure_id", "frame", true="polyp_id"), on=["procedure_id", "frame"]
    )
    pairs = joined.select("polyp_id", "true").unique()
    assert pairs.height == pairs["true"].n_unique() == 10
    record = read_record(learning.value.weights)
    assert record.operating is not None
    # Links are fitted again with the tolerance of the weights.
    before = replace(desk.point, setting=LearnedLinks(1.0, tolerance=0.5))
    fitted, notes = fit_reviews([desk], finished_procedures(desk), before)
    assert (fitted.tolerance, notes) == (0.5, [])
    # A polyp that the reviewer adds is one that the count missed.
    state = desk.correct(0, {"kind": "missed", "frame": 3})
    desk.correct(0, {"kind": "done"})
    with_missed, _ = fit_reviews([desk], finished_procedures(desk), before)
    assert fitted.error == 0.0
    assert with_missed.error == pytest.approx(1 / 5)  # in one of five procedures
    # Another review of the procedures that is not finished does not take part.
    beside, _ = fit_reviews([desk, unfinished], finished_procedures(desk), before)
    assert beside == with_missed
    desk.correct(0, {"kind": "undo", "of": state["missed"][0]["id"]})
    # What the reviewer rejected is linked in a new count too, and counted as a polyp.
    rejected = desk.procedure(0)["groups"][0]["rows"]
    desk.correct(0, {"kind": "not_polyp", "rows": rejected})
    desk.correct(0, {"kind": "done"})
    finished = finished_procedures(desk)
    assert [row for row, polyp in enumerate(finished[0].polyps) if polyp is None] == rejected
    with_false_alarm, _ = fit_reviews([desk], finished, before)
    assert with_false_alarm.error == pytest.approx(1 / 5)
    # What the model of false alarms rejects is not, even if the reviewer restored it.
    counted, *others = desk.count.procedures
    alarm = counted.groups[1].tracklets[0]
    desk.count = replace(desk.count, procedures=(replace(counted, alarms=(alarm,)), *others))
    assert alarm.tracklet_id not in finished_procedures(desk)[0].table["tracklet_id"]
    desk.count = replace(desk.count, procedures=(counted, *others))
    # Links that count worse than those of the weights are not used.
    rng, mixed_up = np.random.default_rng(0), []
    for procedure in finished_procedures(desk):
        polyps = procedure.table["polyp_id"].gather(rng.permutation(procedure.table.height))
        mixed_up.append(replace(procedure, table=procedure.table.with_columns(polyp_id=polyps)))
    point, (note,) = fit_reviews([desk], mixed_up, fitted)
    assert point is fitted
    assert "of the weights by 0.20: the weights keep theirs" in note
    with pytest.raises(
        PolyplinkError, match="judged on others, but only one finished procedure has a view"
    ):
        fit_reviews([desk], finished_procedures(desk)[:1], before)
    assert {name for _, name, _ in record.seen.validated} >= set(desk.names)
    recount = count(learning.value.weights, sample_run.data, out=tmp_path / "again", device="cpu")
    assert recount.value.summary["tracklets"] == to_plain(desk.count.tracklets)
    with pytest.raises(PolyplinkError, match="was counted with weights"):
        learn_from(learning.value.weights, [count_folder], out=tmp_path / "other")
    with pytest.raises(PolyplinkError, match="holds the weights themselves, which would be"):
        learn_from(learning.value.weights, [tmp_path / "again"], out=tmp_path / "learned")


def test_invalid_review_folders_are_refused(
    sample_run: SampleRun, tmp_path: Path, count_folder: Path
) -> None:
    for arguments, message in (
        ((tmp_path,), "count.json is missing"),
        ((count_folder, "--mask-overlay", "1,2,3"), "give LEFT,TOP,WIDTH,HEIGHT"),
        ((count_folder, "--mask-overlay", "1,2,0,9"), "1,2,0,9 hides nothing of any frame"),
        (
            (count_folder, "--mask-overlay", "9,999,9,9"),
            "9,999,9,9 hides nothing of any frame; the la",
        ),
        ((count_folder, "--data", tmp_path), "is not a data folder|is missing|no folder"),
    ):
        for verb in ("review", "hand-off"):
            result = polyplink(verb, *arguments)
            assert result.exit_code == 2
            assert re.search(message, result.stderr), result.stderr
            assert result.stderr.count("\n") == 1
