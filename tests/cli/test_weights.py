"""Published weights: adding them, and using them by name."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from polyplink import add_weights, embed_data, list_weights, show_weights
from polyplink.core.artefacts import file_key
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.adapt import unwrap_encoder
from polyplink.encoders.build import build_frame_encoder
from polyplink.encoders.catalogue import FOUNDATION
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.load import load_encoder
from polyplink.encoders.published import check_published
from polyplink.encoders.weights import read_record, weights_path
from polyplink.models.shipped import ENCODER
from polyplink.recipes.paper_cost import cost_of
from polyplink_lab.reproduce.published_tables import published_tables
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.conftest import SampleRun
from tests.encoders.checkpoints import caformer_shapes, golden_state
from tests.samples import write_procedures

pytestmark = pytest.mark.usefixtures("empty_store")
CPU = torch.device("cpu")
cached_cost = cache(cost_of)


def test_added_weights_are_listed_shown_and_used_by_name(tmp_path: Path) -> None:
    surgenet = tmp_path / "SurgeNetXL_checkpoint_epoch0050_teacher.pth"
    torch.save(golden_state(caformer_shapes()), surgenet)
    command = ("weights", "add", surgenet, "--preset", "reference")
    added = printed_json(*command)
    assert (added["name"], added["tensors"]) == ("surgenet", 152)
    assert added["sha256"] == file_key(surgenet)
    rows = {r["name"]: r for r in printed_json("weights", "list")}
    assert rows["surgenet"]["path"] == added["path"]
    assert rows["endofm"]["path"] == ""
    assert set(rows) == {ENCODER, *FOUNDATION}
    assert "not here; from" in polyplink("weights", "list").stdout
    path = Path(added["path"])
    record = read_record(path)
    assert record.prepare.size == 224
    assert "NC" in record.origin["licence"]
    config = record.encoder
    assert isinstance(config, FoundationConfig)
    assert (config.mean, config.clip) == ((0.45,) * 3, 0)  # values of the preset
    printed = json.loads(polyplink("weights", "show", "surgenet").stdout)
    assert printed["origin"]["sha256"] == added["sha256"]
    data = write_procedures(tmp_path, procedures=1, polyps=1, views=1)
    result = embed_data("surgenet", data, device="cpu", stride=32)  # one crop
    assert result.value.prepared.settings.size == 224
    assert result.value.vectors["surgenet"].shape == (1, 512)
    assert np.isfinite(result.value.vectors["surgenet"]).all()


def test_long_lists_of_a_record_are_printed_whole_only_as_json() -> None:
    record = printed_json("weights", "show", ENCODER)
    trained = record["seen"]["trained"]
    assert len(trained) > 1000
    stdout = polyplink("weights", "show", ENCODER).stdout
    assert stdout.count("\n") < 300
    printed = json.loads(stdout)
    last = f"{len(trained) - 3} more, printed with --json"
    assert printed["seen"]["trained"] == [*trained[:3], last]
    whole = ("encoder", "prepare", "origin", "path", "sha256")
    assert {name: printed[name] for name in whole} == {name: record[name] for name in whole}


def test_published_digests_are_checked() -> None:
    check_published(Path("x.pth"), "ab12", "")
    check_published(Path("m-0123abcd.pth"), "0123abcd99", "")
    for path, expected in ((Path("x.pth"), "cd"), (Path("m-0123abcd.pth"), "")):
        with pytest.raises(PolyplinkError, match=r"not the published file.*--unverified"):
            check_published(path, "ab12" * 16, expected)


@pytest.mark.slow
def test_an_added_backbone_is_loaded_by_its_file_name(tmp_path: Path) -> None:
    model, width = build_frame_encoder("timm:resnet50")
    state = dict(model.state_dict()) | {"fc.weight": torch.zeros(1000, width)}
    state |= {"fc.bias": torch.zeros(1000)}
    path = tmp_path / "resnet50-11ad3fa6.pth"
    torch.save(state, path)
    with pytest.raises(PolyplinkError, match="its SHA-256 begins with"):
        add_weights(path)
    added = add_weights(path, unverified=True).value
    assert added["name"] == "resnet50.tv2_in1k"
    loaded, _ = build_frame_encoder("timm:resnet50.tv2_in1k", Path("resnet50.tv2_in1k.safetensors"))
    assert torch.equal(loaded.state_dict()["conv1.weight"], state["conv1.weight"])
    rows = {row["name"]: row for row in list_weights().value}
    assert rows["resnet50.tv2_in1k"]["path"] == str(added["path"])


COST_CELLS = [
    cell for cell in published_tables()["ntssl/1"].cells if cell.measure.startswith("cost/")
]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name != "ntssl"))
        for name in dict.fromkeys(cell.subject for cell in COST_CELLS)
    ],
)
def test_parameters_and_macs_equal_the_published_table(name: str) -> None:
    cost = cached_cost(name)
    for cell in COST_CELLS:
        if cell.subject != name or (name, cell.measure) == ("ntssl", "cost/parameters"):
            continue  # the table gives "Ours" 25.6 M, the encoder of the preceding paper
        kind = {"cost/parameters": "params_m", "cost/macs": "macs_g"}[cell.measure]
        digits = len(cell.text.partition(".")[2])
        # The table has 190.1 for 190.05, and 85.7 and 137.7 for 85.66 M and 137.62 G of DINOv3-B.
        tolerance = 0.5 * 10**-digits + (0.031 if name == "dinov3-b" else 0.006)
        assert abs(cost[f"published_{kind}"] - float(cell.text)) <= tolerance, cell


@pytest.mark.slow
def test_costs_equal_measured_values() -> None:
    hmve = cached_cost("hmve")
    assert round(hmve["params_m"], 2) == 26.40  # with the sizes in the paper's text
    assert round(hmve["params_m"] + hmve["projector_m"], 2) == 26.50
    assert round(hmve["published_params_m"], 2) == 26.50
    # The table has 25.6 M, because the program's module includes its projector.
    supervised = cached_cost("supervised")
    assert (round(supervised["params_m"], 3), round(supervised["published_params_m"], 3)) == (
        25.550,
        25.583,
    )
    assert round(hmve["macs_g"], 2) == 33.07
    assert round(cached_cost("hmve", 232)["macs_g"], 2) == 37.68
    assert round(cached_cost("sfe")["macs_g"], 2) == 33.05
    jepa = cached_cost("vjepa2-l")
    assert (round(jepa["params_m"], 2), round(jepa["macs_g"], 2)) == (303.89, 238.15)
    assert round(jepa["published_macs_g"], 2) == 272.12
    dino = cached_cost("dinov3-b")
    assert (round(dino["params_m"], 2), round(dino["macs_g"], 2)) == (85.66, 137.62)
    expected_macs = {"endofm": 195.83, "endovit": 140.50, "surgenet": 32.83, "dinov2-s": 48.99}
    assert {
        name: round(cached_cost(name)["all_macs_g"], 2) for name in expected_macs
    } == expected_macs


def test_the_cost_of_an_encoder_is_printed() -> None:
    text = polyplink("weights", "cost", "surgenet").stdout
    assert "23.24 M parameters (24.29 M as the paper counts" in text
    assert "31.00 G multiply-accumulates" in text
    encoder = load_encoder(Path(ENCODER), CPU).encoder
    millions = sum(parameter.numel() for parameter in encoder.parameters()) / 1e6
    path = str(weights_path(Path(ENCODER)))
    for weights, size, options in ((ENCODER, 224, ()), (path, 96, ("--size", "96"))):
        with FlopCounterMode(display=False) as counter:
            unwrap_encoder(encoder)(torch.zeros(1, size, size, 3, dtype=torch.uint8), [1])
        cost = printed_json("weights", "cost", weights, "--frames", "1", *options)
        assert (cost["name"], cost["size"], cost["params_m"]) == (weights, size, millions)
        assert cost["all_macs_g"] == pytest.approx(counter.get_total_flops() / 2e9)


def test_a_saved_folder_can_be_added_by_name_and_a_changed_file_is_refused(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    out = tmp_path / "shared"
    saved = printed_json("weights", "save", sample_run.weights, out)
    assert saved["procedures_named"] == 4
    succeed("weights", "add", out, "--as", "again")
    path = weights_path(Path("again"))
    assert path.read_bytes() == (out / "model.safetensors").read_bytes()
    assert_refused(polyplink("weights", "add", tmp_path), "has no model.safetensors")
    assert_refused(polyplink("weights", "save", sample_run.weights, out), "exists already")
    for changed in (out / "model.safetensors", path):
        data = bytearray(changed.read_bytes())
        data[-1] ^= 1
        changed.write_bytes(data)
    assert_refused(polyplink("weights", "add", out), "its SHA-256 begins with")
    for read in (lambda: load_encoder(Path("again"), CPU), lambda: show_weights(path)):
        with pytest.raises(PolyplinkError, match="not the file that was added"):
            read()
