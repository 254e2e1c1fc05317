"""The count, its tables and its report."""

import gc
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import numpy as np
import polars as pl
import pytest
import torch

from polyplink.associate.alarms import FEATURES, AlarmModel
from polyplink.associate.identities import recorded_point, untuned
from polyplink.cli.count import count
from polyplink.core.artefacts import to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message, catalogue
from polyplink.counting.count_part import (
    count_messages,
    count_part,
    counted_procedures,
    views_table,
)
from polyplink.counting.interval import Coverage
from polyplink.counting.link import LinkedPart, link_messages, link_part, linked_boxes
from polyplink.counting.result import Count
from polyplink.data.faults import Faults
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.encoders.device import pick_device
from polyplink.encoders.encode import encode, read_embeddings
from polyplink.encoders.load import load_encoder, load_named
from polyplink.encoders.weights import read_record, save_weights
from polyplink.pipeline.count_data import COUNTS, _count_table
from polyplink.report.contents import build_report
from polyplink.tracklets.prepare import lost_boxes
from tests.cli.calls import succeed
from tests.conftest import SampleRun
from tests.report.sample import print_table, report


@pytest.fixture
def count_folder(run_folder: Path) -> Path:
    return run_folder / "count"


@pytest.fixture(scope="module")
def part(sample_run: SampleRun) -> LinkedPart:
    """All procedures, linked as for a count."""
    encoded = encode([load_named(sample_run.run, "cpu")], sample_run.data)
    return link_part(encoded, purpose="count", keep_alarms=False)


def test_a_count_of_an_earlier_version_is_read(count_folder: Path, tmp_path: Path) -> None:
    text = (count_folder / "count.json").read_text()
    (tmp_path / "count.json").write_text(text.replace('"confidence"', '"sureness"'))
    assert Count.read(tmp_path) == Count.read(count_folder)


def test_tables_round_probabilities_as_the_count_does(part: LinkedPart) -> None:
    first, *others = part.procedures
    scores = np.array([0.99997, 0.00003, 1.0, 0.0, 0.31416, np.nan])
    odd = replace(first, identities=replace(first.identities, scores=scores))
    linked = replace(part, procedures=[odd, *others])
    views = views_table(linked).filter(procedure=first.procedure_id)
    by_tracklet = dict(views.select("tracklet", "probability").iter_rows())
    assert list(by_tracklet.values()) == [0.9999, 0.0001, 1.0, 0.0, 0.3142, None]
    groups = counted_procedures(linked)[0].groups
    assert by_tracklet == {t.tracklet_id: t.confidence for g in groups for t in g.tracklets}


def test_every_tracklet_is_in_one_group_and_tables_agree(count_folder: Path) -> None:
    summary = json.loads((count_folder / "count.json").read_text())
    inputs = json.loads((count_folder / "run.json").read_text())["inputs"]
    assert inputs == {name: summary[name] for name in ("weights", "crops")}
    assert [p["procedure_id"] for p in summary["procedures"]] == [f"001-00{i}" for i in range(1, 6)]
    for procedure in summary["procedures"]:
        ids = [t["tracklet_id"] for g in procedure["groups"] for t in g["tracklets"]]
        assert len(ids) == len(set(ids)) == procedure["tracklets"] == 6
        assert len(procedure["groups"]) == procedure["polyps"]
        assert all(t["confidence"] is not None for g in procedure["groups"] for t in g["tracklets"])
        firsts = [g["tracklets"][0]["first_frame"] for g in procedure["groups"]]
        assert firsts == sorted(firsts)  # polyps are numbered in order of appearance
    assert summary["polyps"] == sum(p["polyps"] for p in summary["procedures"])
    counts = pl.read_csv(count_folder / "counts.csv")
    assert counts["polyps"].to_list() == [p["polyps"] for p in summary["procedures"]]
    views = pl.read_csv(count_folder / "views.csv")
    tracklets = [
        (p["procedure_id"], g["polyp"], t["tracklet_id"], t["first_frame"], t["confidence"])
        for p in summary["procedures"]
        for g in p["groups"]
        for t in g["tracklets"]
    ]
    columns = ("procedure", "polyp", "tracklet", "start_frame", "probability")
    assert sorted(views.select(columns).rows()) == sorted(tracklets)
    frames, seconds = views["end_frame"] + 1, views["end_s"]
    assert seconds.to_list() == (frames / 25).round(2).to_list()
    assert views["start_s"].to_list() == (views["start_frame"] / 25).round(2).to_list()
    assert views["bridged"].to_list() == [0.0] * 30  # every frame has a box
    assignment = pl.read_parquet(count_folder / "assignment.parquet")
    assert assignment.columns == ["procedure_id", "tracklet_id", "label", "score", "converged"]
    assert assignment.height == 30
    groups = assignment.group_by("procedure_id", maintain_order=True)
    labels = groups.agg(pl.col("label").n_unique())["label"]
    assert labels.to_list() == counts["polyps"].to_list()
    text = (count_folder / "report.html").read_text()
    assert "trained or validated on 4 of these procedures" in text
    assert "001-005" in text


def test_counts_without_a_view_and_from_a_single_view(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data, name = read_data(sample_run.data), pl.col("procedure_id")
    first = int(data.detections.filter(name == "001-004")["frame"].to_numpy().min())
    first_view = (name != "001-004") | (pl.col("frame") < first + 32)
    boxes = data.detections.filter(first_view & (name != "001-005"))
    parts = {"mine": ["001-004", "001-005"]}
    write_data(tmp_path / "d", DataSet.of(boxes, data.procedures, data.polyps, parts))
    result = count(
        sample_run.weights, tmp_path / "d", out=tmp_path / "c", part="mine", device="cpu"
    )
    counted = {
        procedure["procedure_id"]: (procedure["polyps"], procedure["to_look_at"])
        for procedure in result.value.summary["procedures"]
    }
    assert counted == {"001-004": (1, []), "001-005": (0, [])}
    report_text = result.value.report.read_text()
    assert "001-005" in report_text
    warning = "Counted from a single view in 1 procedure (001-004)"
    assert sum(warning in line for line in result.warnings) == 1
    assert warning in report_text
    drawn = result.value.all_boxes  # boxes without a polyp are drawn too
    assert (drawn.height, drawn["polyp"].null_count()) == (boxes.height, boxes.height - 32)


@pytest.mark.parametrize(("chance", "questions"), [(0.9, 1), (0.99, 0)])
def test_a_single_view_that_may_be_a_false_alarm_is_a_question(
    sample_run: SampleRun, count_folder: Path, tmp_path: Path, chance: float, questions: int
) -> None:
    loaded = load_encoder(sample_run.weights, torch.device("cpu"))
    vectors = read_embeddings(count_folder / "vectors.parquet").vectors
    no_effect = (0.0,) * len(FEATURES), (0.0,) * vectors.shape[1]
    alarms = AlarmModel(np.log(chance / (1 - chance)), *no_effect, 0.5, "")
    operating = {**(loaded.record.operating or {}), "alarms": to_plain(alarms)}
    weights = tmp_path / "weights.safetensors"
    save_weights(weights, loaded.encoder, replace(loaded.record, operating=operating))
    data, name = read_data(sample_run.data), pl.col("procedure_id")
    boxes = data.detections.filter(name == "001-004")
    first = int(boxes["frame"].to_numpy().min())
    boxes = boxes.filter(pl.col("frame") < first + 32).with_columns(
        score=pl.lit(0.9), polyp_id=pl.lit(None, pl.String)
    )
    procedures = data.procedures.filter(name == "001-004")
    write_data(tmp_path / "d", DataSet.of(boxes, procedures, data.polyps.clear()))
    result = count(weights, tmp_path / "d", out=tmp_path / "c", device="cpu")
    (procedure,) = result.value.count.procedures
    assert (procedure.polyps, procedure.tracklets, procedure.questions) == (1, 1, questions)
    warned = any("Counted from a single view" in line for line in result.warnings)
    assert warned == (questions == 0)  # "so there is no question to answer"


def test_histories_without_a_curriculum_are_shown_and_broken_ones_refused(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    shutil.copytree(sample_run.run, tmp_path / "run")
    history = tmp_path / "run" / "history.csv"
    history.write_text("a,b\n1,2\n")
    with pytest.raises(PolyplinkError, match="is not the history of a training run"):
        count(tmp_path / "run", sample_run.data, out=tmp_path / "c", part="eval", device="cpu")
    history.write_text("epoch,loss,loss_labels\n0,2.5,1\n1,2,1\n")
    result = count(tmp_path / "run", sample_run.data, out=tmp_path / "c", part="eval", device="cpu")
    assert result.value.page.curves == {"loss": (2.5, 2.0), "validation_loss": (1.0, 1.0)}
    record = read_record(tmp_path / "run" / "weights.safetensors")
    assert result.value.page.best_epoch == int(record.origin["epoch"])


def test_the_table_of_a_part_without_procedures_has_its_columns(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(sample_run.data, data)
    write_json(data / "splits.json", {"none": []})
    counted = count(sample_run.weights, data, part="none", out=tmp_path / "out", device="cpu")
    table = pl.read_csv(tmp_path / "out" / "counts.csv")
    assert table.columns == counted.value.counts.columns == list(COUNTS)


def test_the_close_decisions_are_in_the_report_and_in_the_record(
    sample_run: SampleRun, part: LinkedPart
) -> None:
    prepared, linked = part.encoded.prepared, list(part.procedures)
    questions = [
        replace(question, close=i < 2) for i, question in enumerate(linked[0].identities.questions)
    ]
    assert len(questions) > 2
    linked[0] = replace(linked[0], identities=replace(linked[0].identities, questions=questions))
    part, message = replace(part, procedures=linked), Message.of("mine")
    counted = counted_procedures(part)
    page = build_report("T", sample_run.run, part, counted, seconds={}, messages=[message])
    assert [p.counted.procedure_id for p in page.procedures] == list(prepared.procedures)
    assert set(page.curves) == {"loss", "validation_loss", "tau", "purity"}
    assert list(map(str, page.warnings)) == ["mine"]
    first = page.procedures[0]
    assert first.n_polyps == 2
    assert first.similarity is not None
    assert first.similarity.shape == (6, 6)
    tracklet = linked[0].table.row(0, named=True)
    middle = tracklet["crop_first"] + tracklet["n_crops"] // 2
    assert middle > tracklet["crop_first"]
    np.testing.assert_array_equal(
        first.crops[tracklet["tracklet_id"]], prepared.crops(first.counted.procedure_id)[middle]
    )
    names, links = linked[0].table["tracklet_id"], first.counted.to_look_at
    assert [(link.members, link.joined) for link in links] == [
        (tuple(names[row] for row in question.members), question.joined)
        for question in questions[:2]
    ]
    confidences = [question.confidence for question in questions[:2]]
    assert [link.confidence for link in links] == pytest.approx(confidences, abs=1e-4)
    data = replace(prepared.data, polyps=prepared.data.polyps.clear())
    unlabelled = replace(part.encoded, prepared=replace(prepared, data=data))
    page = build_report("T", sample_run.run, replace(part, encoded=unlabelled), counted, seconds={})
    assert {procedure.n_polyps for procedure in page.procedures} == {None}
    unnamed = (pl.col("procedure_id") == "001-001") & (pl.col("frame") < 20)
    boxes = prepared.data.detections.with_columns(polyp_id=pl.when(~unnamed).then("polyp_id"))
    data = replace(prepared.data, detections=boxes)
    partly = replace(part.encoded, prepared=replace(prepared, data=data))
    page = build_report("T", sample_run.run, replace(part, encoded=partly), counted, seconds={})
    numbers = {p.counted.procedure_id: p.n_polyps for p in page.procedures}
    assert [name for name, number in numbers.items() if number is None] == ["001-001"]
    # A procedure of another data set, with boxes of a detector, is not one without polyps.
    first_rows = pl.col("procedure_id") == "001-001"
    detected = pl.when(~first_rows).then("polyp_id"), pl.when(first_rows).then(0.9).alias("score")
    of_first = pl.when(first_rows).then(pl.lit("recordings")).otherwise("dataset").alias("dataset")
    data = replace(
        prepared.data,
        detections=prepared.data.detections.with_columns(*detected),
        polyps=prepared.data.polyps.filter(~first_rows),
        procedures=prepared.data.procedures.with_columns(of_first),
    )
    merged = replace(part.encoded, prepared=replace(prepared, data=data))
    page = build_report("T", sample_run.run, replace(part, encoded=merged), counted, seconds={})
    assert {p.counted.procedure_id: p.n_polyps for p in page.procedures} == numbers
    unconverged = replace(linked[0], identities=replace(linked[0].identities, converged=False))
    messages = link_messages(untuned("no labels"), [unconverged, *linked[1:]])
    assert messages == [
        Message("no_probabilities", {"why": "not tuned: no labels"}),
        Message("not_converged", {"names": "001-001"}),
    ]


def test_the_record_of_a_count_with_intervals(
    sample_run: SampleRun, part: LinkedPart, tmp_path: Path
) -> None:
    linked = [
        replace(procedure, identities=replace(procedure.identities, interval=(2, 3)))
        for procedure in part.procedures
    ]
    part = replace(part, cover=replace(part.cover, gap=""), procedures=linked)
    boxes = linked_boxes(part.encoded.prepared, linked)
    data = read_data(sample_run.data)
    first = pl.col("procedure_id") == "001-001"
    truth = DataSet.of(
        data.detections.filter(~first), data.procedures, data.polyps.filter(~first), {}
    )
    write_data(tmp_path / "truth", truth)

    def recorded(truth: Path | None = None) -> tuple[Count, list[str]]:
        count, notes = count_part(
            part, boxes, sample_run.run, tmp_path, truth=truth, purpose="count", warnings=["mine"]
        )
        return count, [note.kind for note in notes]

    count, notes = recorded()
    assert (count.purpose, count.coverage) == ("count", Coverage(5, 5, 0, 0))
    assert "mine" in count.warnings
    assert "notes.zero" not in notes
    assert recorded(tmp_path / "truth")[0].coverage == Coverage(5, 4, 0, 0)
    part = replace(part, procedures=linked[1:])  # the first procedure has no tracklets
    assert "notes.zero" in recorded()[1]


def test_a_count_of_recordings_by_an_encoder_of_simulations_has_a_warning(part: LinkedPart) -> None:
    encoder, prepared = part.encoded.first, part.encoded.prepared
    assert encoder.record is not None
    seen = replace(encoder.record.seen, trained=[("simulated smoke 0", "001-001", "001-001")])
    encoder = replace(encoder, weights_record=replace(encoder.record, seen=seen))
    rows = prepared.data.procedures
    for procedures in (rows, rows.with_columns(dataset=pl.lit("simulated smoke 1"))):
        data = replace(prepared.data, procedures=procedures)
        encoded = replace(
            part.encoded, encoders={encoder.name: encoder}, prepared=replace(prepared, data=data)
        )
        warnings, _ = count_messages(replace(part, encoded=encoded), lost_boxes(prepared))
        kinds = [message.kind for message in warnings]
        assert ("encoder_simulated" in kinds) == (procedures is rows)


def test_a_count_of_0_states_what_was_left_out_of_these_procedures_alone(part: LinkedPart) -> None:
    prepared = part.encoded.prepared
    name = prepared.procedures[0]
    without = replace(prepared, tracklets=prepared.tracklets.filter(pl.col("procedure_id") != name))
    encoded = replace(part.encoded, prepared=without)
    warnings, _ = count_messages(
        replace(part, encoded=encoded, procedures=part.procedures[1:]), lost_boxes(without)
    )
    boxes = prepared.detections.filter(procedure_id=name).height
    assert any(
        f"({name}): {boxes} of {boxes} boxes in views" in str(warning) for warning in warnings
    )
    # Faults of the import come first if they took more boxes than they left.
    total = prepared.data.detections.height
    for unread, named in ((total, False), (total + 1, True)):
        faults = Faults()
        faults.fault(Message("import.no_area"), "boxes.csv, line 7", "correct it", unread)
        line = Message("boxes_read", {"line": faults.messages[0]})
        warnings, _ = count_messages(
            replace(part, encoded=encoded, procedures=part.procedures[1:]),
            lost_boxes(without),
            [line, Message("boxes_read", {"line": "of an earlier version"})],
        )
        (counted_none,) = [str(warning) for warning in warnings if warning.kind == "counted_none"]
        first = f"({name}): most of the source was left out when it was read"
        assert (first in counted_none) == named


def test_a_second_count_in_another_language_gives_equal_results(
    sample_run: SampleRun, count_folder: Path, tmp_path: Path
) -> None:
    command = ("count", sample_run.weights, sample_run.data, "-o", tmp_path, "--device", "cpu")
    result = succeed(*command, "--language", "it")
    page, english = ((f / "report.html").read_text() for f in (tmp_path, count_folder))
    assert '<html lang="it">' in page
    assert '<html lang="en">' in english
    for kind in ("report.title", "report.summary", "report.lines", "report.made", "device"):
        assert catalogue("en")[kind] in english
        assert catalogue("en")[kind] not in page
        assert catalogue("it")[kind] in page
    # What is printed and what programs read stay the same.
    assert "trained or validated on 4 of these procedures" in result.stderr
    assert "not tuned" not in result.stderr
    assert "001-005" in result.stdout
    assert f"report: {tmp_path / 'report.html'}" in result.stdout
    second, first = (json.loads((f / "count.json").read_text()) for f in (tmp_path, count_folder))
    for name in ("data", "weights_file"):  # paths are relative to the folder
        assert (tmp_path / second.pop(name)).resolve() == (count_folder / first.pop(name)).resolve()
    assert second == first
    for name in ("counts.csv", "views.csv"):
        assert (tmp_path / name).read_text() == (count_folder / name).read_text()


def test_a_count_table_has_truth_only_where_it_is_known() -> None:
    sample_report = report()
    text = print_table(_count_table(sample_report))
    assert "true" in text
    rows = [line.split() for line in text.splitlines() if "│ p" in line]
    assert [[cell for cell in row if cell != "│"] for row in rows] == [
        ["p0", "5", "3", "2", "1"],
        ["p1", "5", "3", "2", "1"],
    ]
    unknown = tuple(replace(p, n_polyps=None) for p in sample_report.procedures)
    assert "true" not in print_table(_count_table(replace(sample_report, procedures=unknown)))
    mixed = (replace(sample_report.procedures[0], n_polyps=None), sample_report.procedures[1])
    assert "–" in print_table(_count_table(replace(sample_report, procedures=mixed)))


def test_an_untuned_operating_point_has_a_warning(sample_run: SampleRun, tmp_path: Path) -> None:
    encoder = load_named(sample_run.run, "cpu")
    assert encoder.record is not None
    path = tmp_path / "weights.safetensors"
    save_weights(
        path,
        load_encoder(sample_run.run, pick_device("cpu")).encoder,
        replace(encoder.record, operating=None),
    )
    command = ("count", path, sample_run.data, "-o", tmp_path / "out", "--part", "eval")
    result = succeed(*command, "--device", "cpu")
    assert "calibrated on no labelled procedures (not tuned" in result.stderr


def test_a_count_calls_few_source_files(
    run_folder: Path, sample_run: SampleRun, tmp_path: Path
) -> None:
    """After a first count has imported all modules; only Python files are counted."""
    source, entered = str(Path(recorded_point.__code__.co_filename).parents[1]), set[str]()

    def record_file(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(source) and file.endswith(".py"):
            entered.add(file)

    gc.collect()  # or objects of earlier tests may be closed meanwhile
    before = sys.getprofile()
    sys.setprofile(record_file)
    try:
        count(sample_run.run, sample_run.data, out=tmp_path / "c", part="eval", device="cpu")
    finally:
        sys.setprofile(before)
    assert 40 < len(entered) <= 50, sorted(entered)
