"""`train`: the weights with their record, and the options of training."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest

from polyplink import train
from polyplink.core.errors import PolyplinkError
from polyplink.data.origin import BoxesOrigin, write_origin
from polyplink.data.tables import read_data
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import REFERENCE_MEAN, REFERENCE_STD, FoundationConfig, SfeConfig
from polyplink.encoders.device import pick_device
from polyplink.encoders.load import load_encoder
from polyplink.encoders.weights import Seen, WeightsRecord, read_record, save_weights
from polyplink.recipes.by_name import override
from polyplink.tracklets.prepare import prepared_folder
from polyplink.tracklets.settings import PrepareSettings
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.conftest import SampleRun, recipe
from tests.samples import write_procedures


def test_weights_record_recipe_procedures_and_operating_point(sample_run: SampleRun) -> None:
    record = read_record(sample_run.run / "weights.safetensors")
    assert record.prepare == recipe().prepare
    trained, validated = record.seen.trained, record.seen.validated
    assert [row[1] for row in trained] == ["001-001", "001-002", "001-004"]
    assert list(validated) == [("sample", "001-003", "001-003")]  # data set, procedure, patient
    assert "seconds" not in record.origin  # equal runs give equal files
    assert record.operating is not None
    assert "pairs of tracklets of 4 procedures" in record.operating["origin"]
    assert set(record.operating["prices"]) == {"count", "link", "published"}
    run = json.loads((sample_run.run / "run.json").read_text())
    assert run["command"] == "train"
    assert {"prepare", "train", "operating point"} == run["seconds"].keys()


def test_weights_record_the_crops_of_their_evaluation(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=3, views=2)
    config = override(recipe(), ["prepare.stride=2", "evaluation_stride=4", "optim.epochs=1"])
    train(config, data, out=tmp_path / "run", device="cpu")
    record = read_record(tmp_path / "run" / "weights.safetensors")
    assert (record.prepare.stride, record.recipe["prepare"]["stride"]) == (4, 2)
    cut = {prepared_folder(data, replace(record.prepare, stride=stride)) for stride in (2, 4)}
    assert set((data / "prepared").iterdir()) == cut  # the operating point is of the latter


def test_a_finished_run_resumes_to_the_same_weights(sample_run: SampleRun) -> None:
    before = (sample_run.run / "weights.safetensors").read_bytes()
    result = train(recipe(), sample_run.data, out=sample_run.run, device="cpu", resume=True).value
    assert result.epochs == 2
    assert (sample_run.run / "weights.safetensors").read_bytes() == before


def test_another_recipe_is_refused_before_crops_are_cut(sample_run: SampleRun) -> None:
    before = set((sample_run.data / "prepared").iterdir())
    with pytest.raises(PolyplinkError, match=r"prepare\.size is 32 there and 40 here; resume with"):
        train(
            override(recipe(), ["prepare.size=40"]),
            sample_run.data,
            out=sample_run.run,
            resume=True,
        )
    assert set((sample_run.data / "prepared").iterdir()) == before


def test_training_without_labels_has_a_warning(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=4, labelled=False)
    config = override(recipe(), ["validation.select=bags", "optim.epochs=1"])
    result = train(config, data, out=tmp_path / "run", device="cpu").value
    assert "no procedure has known polyps" in result.warnings[0]
    with pytest.raises(PolyplinkError, match=r"set validation\.select=bags, which needs no label"):
        labels = override(recipe(), ["validation.select=labels"])
        train(labels, data, out=tmp_path / "other", device="cpu")
    views = override(recipe(), ["bags.kind=polyp_views", "prepare.size=48"])
    with pytest.raises(PolyplinkError, match=r"column polyp_id is empty in the part 'train'"):
        train(views, data, out=tmp_path / "views", device="cpu")
    assert len(list((data / "prepared").iterdir())) == 1  # refused before crops of size 48 are cut


def test_links_fitted_on_training_polyps_have_a_warning(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=3, views=2)
    supervised = ["bags.kind=polyp_views", "bags.refill=true", "loss.kind=supervised"]
    config = override(recipe(), [*supervised, "optim.epochs=1"])
    (warning,) = train(config, data, out=tmp_path / "run", device="cpu").warnings
    assert "`polyplink calibrate`" in warning


def test_polyps_from_another_encoder_replace_all_labels(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    changes = [
        "bags.kind=polyp_views",
        "bags.refill=true",
        "loss.kind=supervised",
        "optim.epochs=1",
    ]
    config = override(recipe(), changes)
    histories = []
    for false_labels in (False, True):
        data = write_procedures(tmp_path / f"data-{false_labels}", procedures=2, polyps=4)
        if false_labels:  # polyps alternate between the views of a procedure
            boxes, polyp = pl.read_parquet(data / "detections.parquet"), pl.col("frame") // 42 % 4
            names = pl.format("{}_{}", "procedure_id", polyp + 1)
            boxes.with_columns(polyp_id=names).write_parquet(data / "detections.parquet")
        run = tmp_path / f"run-{false_labels}"
        train(config, data, out=run, polyps_from=sample_run.run, device="cpu")
        # The last column, the seconds, differs between runs.
        histories.append((run / "history.csv").read_text().rpartition(",")[0])
        inputs = json.loads((run / "run.json").read_text())["inputs"]
        assert inputs["polyps_from"] == load_encoder(sample_run.run, pick_device("cpu")).weights_id
        seen = {row[1] for row in read_record(run / "weights.safetensors").seen.trained}
        assert "001-004" in seen  # a procedure of the first encoder, missing in this folder
    assert histories[0] == histories[1]
    with pytest.raises(PolyplinkError, match="holds a run of other data; resume with the same"):
        train(config, data, out=run, resume=True, device="cpu")


def test_tracks_have_the_thresholds_of_their_detector_unless_they_are_set(tmp_path: Path) -> None:
    data = write_procedures(tmp_path / "data", procedures=2, polyps=1, views=2)
    boxes = pl.read_parquet(data / "detections.parquet")
    without = pl.lit(None, pl.String)
    boxes.with_columns(score=pl.lit(0.25, pl.Float32), polyp_id=without).write_parquet(
        data / "detections.parquet"
    )
    size = ("--set", "prepare.size=8")
    printed = succeed("prepare", data, *size)
    assert ": 0 tracklets, 0 crops" in printed.stdout
    assert "warning: no tracklets: `polyplink doctor` lists" in printed.stderr
    write_origin(data, BoxesOrigin("d", "d", high=0.2))
    for options, count in (
        ((), 2),
        (("--set", "prepare.tracks.high=0.5"), 0),
        (("--high", "0.5"), 0),
    ):
        assert printed_json("prepare", data, *size, *options)["tracklets"] == count, options
    config = override(recipe(), ["optim.epochs=1", "part=all", "validation.part=none"])
    trained = train(config, data, out=tmp_path / "run", device="cpu").value
    assert read_record(trained.weights).prepare.tracks.high == 0.2


def test_polyps_from_other_tracklets_are_refused(sample_run: SampleRun, tmp_path: Path) -> None:
    changes = ["bags.kind=polyp_views", "loss.kind=supervised", "prepare.min_length=33"]
    with pytest.raises(PolyplinkError, match="tracklets with other settings than the recipe"):
        train(
            override(recipe(), changes), sample_run.data, out=tmp_path, polyps_from=sample_run.run
        )


def test_a_run_from_weights_records_their_procedures_as_seen(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data = write_procedures(tmp_path, procedures=2, images=True)
    changes = ["validation.every=0", "validation.select=last", "optim.epochs=1"]
    config, out = override(recipe(), changes), str(tmp_path / "run")  # a path as text
    result = train(config, str(data), out=out, init_from=str(sample_run.run), device="cpu").value
    initial, trained = (
        read_record(sample_run.run / "weights.safetensors"),
        read_record(result.weights),
    )
    assert {row[1] for row in initial.seen.trained} <= {row[1] for row in trained.seen.trained}
    assert list(initial.seen.validated) == list(trained.seen.validated)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["inputs"]["init_from"] == load_encoder(sample_run.run, pick_device("cpu")).weights_id
    assert train(config, data, out=tmp_path / "other", device="cpu").value.loss != result.loss


def test_a_run_from_weights_of_a_foundation_encoder_feeds_it_as_before(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2, images=True)
    settings = PrepareSettings(size=28)
    changes = ["validation.every=0", "validation.select=last", "optim.epochs=1"]
    tiny = FoundationConfig(model="dinov2-s", depth=1, size=28)
    config = replace(override(recipe(), changes), encoder=tiny, prepare=settings)
    start = tmp_path / "start.safetensors"
    encoder = build_encoder(replace(tiny, preset="reference"))
    save_weights(start, encoder, WeightsRecord(encoder.config, settings, {}, Seen(), {}))
    for sets, mean in ((), REFERENCE_MEAN), (("encoder.mean=[0.5,0.5,0.5]",), (0.5, 0.5, 0.5)):
        out = tmp_path / f"run{len(sets)}"
        result = train(config, data, out=out, init_from=start, sets=sets, device="cpu").value
        trained = read_record(result.weights).encoder
        assert (trained.mean, trained.std) == (mean, REFERENCE_STD)


def test_an_encoder_that_cannot_be_trained_is_refused_before_crops_are_cut(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    options = ("--part", "train", "--out", tmp_path / "run", "--device", "cpu")
    nothing = ("train", "sfe-small", data, *options, "--set", "finetune.how=frozen")
    assert_refused(polyplink(*nothing), "leaves nothing of this encoder to train")
    two = write_procedures(tmp_path / "two", procedures=3, polyps=1)  # and one to evaluate
    labels = ("--set", "validation.select=labels", "--set", "validation.every=2")
    one_held_out = polyplink("train", "sfe-small", two, *options, *labels)
    assert_refused(one_held_out, "validation on labels needs two held-out polyps")
    assert not (two / "prepared").exists()
    log = ("train", "sfe-small", data, *options, "--log", "tensorbord")
    assert_refused(polyplink(*log), "no logger 'tensorbord'; did you mean tensorboard")
    shipped = polyplink("train", "ntssl-demo", data, *options, "--init-from", "encoder-v1")
    assert_refused(shipped, "a transformer, cannot; name a recipe with the encoder sfe")
    result = polyplink("train", "ntssl", data, *options)
    assert_refused(
        result, "no file resnet50.tv2_in1k.safetensors with weights of the frame encoder"
    )
    assert not (data / "prepared").exists()  # refused before crops are cut


@dataclass(frozen=True)
class OwnEncoder(SfeConfig):
    """The configuration of an encoder that no package has."""

    kind: Literal["own"] = "own"  # type: ignore[assignment]


def test_an_encoder_that_no_package_has_is_refused(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    config = replace(recipe(), encoder=OwnEncoder())
    with pytest.raises(PolyplinkError, match="no package has the encoder 'own'"):
        train(config, data, out=tmp_path / "run", device="cpu")


def test_nothing_to_validate_on_is_refused_before_crops_are_cut(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2)
    config = override(recipe(), ["validation.every=9", "validation.select=labels"])
    with pytest.raises(PolyplinkError, match="no fragments to validate on; hold some out"):
        train(config, data, out=tmp_path / "run", device="cpu")
    assert not (data / "prepared").exists()


def test_a_separate_part_can_be_used_for_validation(
    sample_run: SampleRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ["validation.part=eval", "validation.loss=tracklet", "optim.epochs=1"]
    config = override(recipe(), changes)
    out = tmp_path / "run"
    options: dict[str, Any] = {"device": "cpu", "workers": 1, "progress": lambda *step: None}
    assert train(config, sample_run.data, out=out, **options).warnings == ()
    (line,) = capsys.readouterr().err.splitlines()  # without a terminal, one line per epoch
    assert re.fullmatch(r"epoch 1 of 1: loss \d+\.\d{3}, loss_labels [\d., a-z_]+ s", line)
    seen = read_record(tmp_path / "run" / "weights.safetensors").seen
    data = read_data(sample_run.data)
    assert [row[1] for row in seen.trained] == data.part("train")
    assert [row[1] for row in seen.validated] == data.part("eval")
    same_part = override(config, ["validation.part=train"])
    with pytest.raises(PolyplinkError, match="is in 'train' and in 'train'"):
        train(same_part, sample_run.data, out=tmp_path / "no", device="cpu", workers=1)
