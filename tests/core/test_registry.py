"""Plugins: the parts on the documentation pages, installed as a package."""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from polyplink import list_plugins, train
from polyplink.associate.grid_search import find_grid, search
from polyplink.cli import options
from polyplink.cli.command import sections
from polyplink.core.artefacts import write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import LOSSES, METRICS, REGISTRIES, SECTIONS, TRACKERS, VERBS
from polyplink.core.registry import Registry
from polyplink.data.origin import read_origin
from polyplink.data.tables import read_data
from polyplink.detect.onnx import DetectorRecord, OnnxDetector, record_path
from polyplink.encoders.adapt import ToneEncoder
from polyplink.encoders.load import load_encoder
from polyplink.encoders.weights import Seen, WeightsRecord, read_record, save_weights
from polyplink.evaluate.metric import Metric
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.recipes.by_name import find_recipe, override
from polyplink.recipes.ntssl import ntssl_demo
from polyplink.testing import check_tracker, check_verb
from polyplink.tracklets.box_runs import build_tracklets
from polyplink.tracklets.settings import PrepareSettings, TrackSettings
from tests.cli.calls import assert_refused, polyplink
from tests.conftest import TINY
from tests.detect.models import write_model
from tests.encoders.small import TRANSFORMER, random_encoder
from tests.samples import write_procedures

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
MODULE_OF_PAGE = {"plugins": "my_parts", "add-a-loss": "my_loss", "add-an-encoder": "my_encoder"}


def page_blocks(page: str, language: str) -> list[str]:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    title = r'(?: title="(?!test_)\w+\.py")?'
    return re.findall(rf"^```{language}{title}\n(.*?)^```$", text, re.M | re.S)


def without_checks(page: str) -> str:
    """The Python code of a page without its calls of `polyplink.testing`, which take longest."""
    code = "\n".join(page_blocks(page, "python"))
    return re.sub(r"^check_\w+\((.*\)|\n(    .*\n)+\))$", "", code, flags=re.M)


@pytest.fixture
def installed_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The code of the pages as modules, with entry points in the form that pip writes."""
    site = tmp_path / "site"
    information = site / "my_parts-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1.0\n")
    lines = []
    for page, name in MODULE_OF_PAGE.items():
        (site / f"{name}.py").write_text(without_checks(page))
        project = tomllib.loads(page_blocks(page, "toml")[0])["project"]
        for group, entries in project["entry-points"].items():
            (built_in,) = [r for r in REGISTRIES.values() if r.group == group]
            taken = [key for key in entries if key in built_in]
            assert not taken, f"rename the parts {taken}: examples of {page}.md have these names"
            lines.append(f"[{group}]")
            lines += [f"{key} = {name}:{value.split(':')[1]}" for key, value in entries.items()]
    (information / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    for name in MODULE_OF_PAGE.values():
        monkeypatch.delitem(sys.modules, name, raising=False)
    return site


class Untrained(NamedTuple):
    weights: Path
    data: Path


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Untrained:
    """The smallest encoder, untrained, and four procedures."""
    root = tmp_path_factory.mktemp("untrained")
    record = WeightsRecord(TRANSFORMER, PrepareSettings(size=32), {}, Seen(), {})
    save_weights(root / "weights.safetensors", random_encoder(TRANSFORMER), record)
    return Untrained(root / "weights.safetensors", write_procedures(root))


def test_every_part_on_the_pages_passes_its_check_and_is_listed(installed_parts: Path) -> None:
    for page, name in MODULE_OF_PAGE.items():
        (installed_parts / f"{name}.py").write_text("\n".join(page_blocks(page, "python")))
    result = polyplink("plugins", "--json")
    assert result.exit_code == 0, result.stderr
    listed = {part["kind"]: part for part in json.loads(result.stdout)}
    assert set(listed) == set(REGISTRIES)  # the page adds one of each kind, except the lab's
    names = {kind: listed[kind]["name"] for kind in ("simulated detector", "crops")}
    assert names == {"simulated detector": "sim", "crops": "simulator"}
    assert listed["loss"] == {
        "name": "margin",
        "kind": "loss",
        "package": "my-parts",
        "version": "1.0",
        "error": "",
    }
    for page in MODULE_OF_PAGE:
        assert all(len(code.splitlines()) < 60 for code in page_blocks(page, "python")), page
    metric = listed["metric"]["name"]
    assert metric in options.names_of("polyplink.core.parts:METRICS.names")(
        metric[:2]
    )  # the shell's


def test_a_part_that_cannot_be_imported_is_reported_in_one_line(installed_parts: Path) -> None:
    (installed_parts / "my_loss.py").write_text("import numpy\nnumpy.nothing\n")
    result = polyplink("plugins", "--json")
    assert result.exit_code == 1
    (broken,) = [part for part in json.loads(result.stdout) if part["error"]]
    assert broken["name"] == "margin"
    assert "loss 'margin' of the package my-parts cannot be imported (Attrib" in broken["error"]
    with pytest.raises(PolyplinkError, match=r"cannot be imported .*; correct the package"):
        override(ntssl_demo(), ["loss.kind=margin"])


def test_an_entry_point_that_is_not_named_as_the_kind_of_its_part_is_refused(
    installed_parts: Path,
) -> None:
    file = installed_parts / "my_parts-1.0.dist-info" / "entry_points.txt"
    file.write_text(file.read_text().replace("margin =", "hinge ="))
    (unused,) = [
        part["error"] for part in json.loads(polyplink("plugins", "--json").stdout) if part["error"]
    ]
    assert unused.endswith("has the kind 'margin'; name its entry point 'margin'")


def test_a_name_of_two_packages_is_refused(installed_parts: Path) -> None:
    other = installed_parts / "others-2.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text("[polyplink.losses]\nmargin = my_loss:MarginLoss\n")
    result = polyplink("plugins", "--json")
    assert result.exit_code == 1
    unused = {part["package"]: part["error"] for part in json.loads(result.stdout) if part["error"]}
    assert set(unused) == {"my-parts", "others"}
    shared = r"the packages (my-parts and others|others and my-parts) have a loss of one name"
    assert all(re.match(f"not used: {shared}", error) for error in unused.values())
    with pytest.raises(PolyplinkError, match=f"{shared}, 'margin'; uninstall all but one"):
        override(ntssl_demo(), ["loss.kind=margin"])


def test_a_part_in_a_misspelled_group_is_listed_with_the_right_one(installed_parts: Path) -> None:
    file = installed_parts / "my_parts-1.0.dist-info" / "entry_points.txt"
    file.write_text(file.read_text().replace("[polyplink.clusterers]", "[polyplink.clusterer]"))
    result = polyplink("plugins", "--json")
    assert result.exit_code == 1
    (misplaced,) = [part for part in json.loads(result.stdout) if part["error"]]
    assert (misplaced["name"], misplaced["kind"]) == ("mutual", "")
    error = "not used: no group 'polyplink.clusterer'; did you mean polyplink.clusterers?"
    assert misplaced["error"] == error


def test_built_in_parts_are_used_without_reading_entry_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: Registry[Any]) -> None:
        raise LookupError("entry points were read")

    monkeypatch.setattr(Registry, "installed", refuse)
    assert LOSSES.find("noise_aware") is NoiseAwareLoss
    assert override(ntssl_demo(), ["loss.kind=supervised"]).loss.kind == "supervised"
    build_tracklets(
        pl.DataFrame(
            schema={"procedure_id": str, "polyp_id": str, "frame": int}
            | dict.fromkeys("xywh", pl.Float32)
        )
    )
    with pytest.raises(LookupError, match="entry points"):
        override(ntssl_demo(), ["loss.kind=margin"])


def test_plugin_losses_bags_and_encoders_are_selected_in_recipes(
    installed_parts: Path, tmp_path: Path
) -> None:
    sets = ["loss.kind=margin", "loss.margin=0.2", "bags.kind=tracklet", "encoder.kind=max"]
    recipe: Any = override(ntssl_demo(), sets)
    assert (recipe.loss.margin, recipe.bags.views) == (0.2, 2)
    assert type(recipe.loss).__module__ == "my_loss"
    with pytest.raises(PolyplinkError, match=r"give margin\.py:NAME of a loss in it"):
        override(recipe, ["loss.kind=margin.py"])
    assert isinstance(override(recipe, ["loss.kind=noise_aware"]).loss, NoiseAwareLoss)
    path = tmp_path / "w.safetensors"
    for tone, name in ((0.0, "MaxEncoder"), (1.4, "ToneEncoder")):
        settings = replace(recipe.encoder, tone=tone)
        record = WeightsRecord(settings, PrepareSettings(size=32), {}, Seen(), {})
        plain = recipe.encoder.build()
        save_weights(path, ToneEncoder(plain, tone) if tone else plain, record)
        loaded = load_encoder(path, torch.device("cpu"))
        assert type(loaded.encoder).__name__ == name
        assert loaded.record.encoder == replace(settings, frame_weights=None)


def test_weights_of_an_uninstalled_part_are_refused_with_its_name(
    installed_parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe: Any = override(ntssl_demo(), ["encoder.kind=max"])
    path = tmp_path / "w.safetensors"
    record = WeightsRecord(recipe.encoder, PrepareSettings(size=32), {}, Seen(), {})
    save_weights(path, recipe.encoder.build(), record)
    monkeypatch.setattr(Registry, "installed", lambda _: {})
    with pytest.raises(PolyplinkError, match="no encoder 'max'"):
        read_record(path)


def test_a_plugin_clusterer_is_searched(installed_parts: Path) -> None:
    V = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    searched = search(V, [0.0, 0.1, 1.0], find_grid("demo", ["mutual", "threshold"]))
    assert list(searched) == ["mutual", "threshold"]
    assert searched["mutual"].labels.shape == (27, 3)
    assert [0, 0, 1] in searched["mutual"].labels.tolist()
    with pytest.raises(PolyplinkError, match=r"no clusterer 'mutuel'; did you mean [mM]utual"):
        find_grid("demo", ["mutuel"])


def test_a_plugin_importer_and_tracker_are_selected_on_the_command_line(
    installed_parts: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "v1.txt").write_text("".join(f"{i} a {10 + i} 10 50 40\n" for i in range(40)))
    out = tmp_path / "data"
    result = polyplink("import", "lines", source, out, "--dataset", "mine")
    assert result.exit_code == 0, result.stderr
    data = read_data(out)
    assert data.procedures["dataset"].to_list() == ["mine"]
    assert_refused(polyplink("import", "lines", "nowhere", out), "no file or folder nowhere")
    assert_refused(polyplink("import", "lines", source, out, "--kind", "gt"), "takes no --kind")
    assert_refused(
        polyplink("convert", out, "lines", tmp_path / "c"),
        "format 'lines' can be read but not written",
    )
    boxes = data.detections.with_columns(polyp_id=pl.lit(None, pl.String), score=pl.lit(0.3))
    for name, count in (("damped", 40), ("nearest", 1)):  # damped starts no track at a score of 0.3
        _, tracklets = build_tracklets(boxes, PrepareSettings(tracks=TrackSettings(tracker=name)))
        assert tracklets.height == count
    (source / "v1.txt").write_text("no box")
    fault = polyplink("import", "lines", source, tmp_path / "other")
    assert fault.exit_code == 3
    assert re.search(
        r"this is a fault of format 'lines' of my-parts \(my_parts\.py, line \d+\): report it",
        fault.stderr,
    )


def test_a_plugin_format_named_as_recordings_are_is_used(
    installed_parts: Path, tmp_path: Path
) -> None:
    """Without it, `import video` is a mistake for `run`."""
    source, out = tmp_path / "source", tmp_path / "data"
    source.mkdir()
    (source / "v1.txt").write_text("0 a 10 10 50 40\n")
    entries = installed_parts / "my_parts-1.0.dist-info" / "entry_points.txt"
    text = entries.read_text()
    entries.write_text(re.sub(r"^lines = ", "video = ", text, flags=re.M))
    assert polyplink("import", "video", source, out).exit_code == 0
    assert read_data(out).detections.height == 1
    assert_refused(polyplink("import", "images", source, out), "'images' is not a format of boxes")


RETURNS_NOTHING = """
from dataclasses import dataclass
from typing import Literal
import numpy
from polyplink.core.results import Result
from polyplink.data.formats.format import Format
from polyplink.data.tables import Imported

@dataclass(frozen=True)
class Bags:
    kind: Literal["tracklet"] = "tracklet"

    def draw(self, data, progress, size, rng): pass
    draw_validation = draw

class Tracker:
    def __init__(self, fps, settings): pass
    def update(self, frames, boxes, scores, scenes): return frames * 0.5

def read(source, *, images, strict, workers, progress): pass
def warn(source, *, images, strict, workers, progress): return Imported(None, "a box is odd")
def print_text(): return Result("text", printed="text")
def give_array(): return Result(numpy.arange(3))
LOSES = Format(read, read, ["colours"])
def simulate(preset, data, seed, folder): return [preset]
def nothing(): pass
"""


def test_a_part_of_a_package_that_returns_something_else_is_refused(
    installed_parts: Path, untrained: Untrained, tmp_path: Path
) -> None:
    (installed_parts / "my_parts.py").write_text(RETURNS_NOTHING)
    (installed_parts / "my_parts-1.0.dist-info" / "entry_points.txt").write_text(
        "[polyplink.bags]\ntracklet = my_parts:Bags\n"
        "[polyplink.trackers]\nnearest = my_parts:Tracker\n"
        "[polyplink.formats]\nlines = my_parts:read\nwarn = my_parts:warn\n"
        "number = my_parts:numpy\nloses = my_parts:LOSES\n"
        "[polyplink.simulated_detectors]\nmine = my_parts:simulate\n"
        "[polyplink.verbs]\nnothing = my_parts:nothing\n"
        "letters = my_parts:print_text\narray = my_parts:give_array\n"
    )
    data, sets = untrained.data, [word for field in TINY for word in ("--set", field)]
    sets += ["--set", "bags.kind=tracklet", "--device", "cpu"]
    assert_refused(
        polyplink("train", "ntssl-demo", data, "--out", tmp_path / "out", *sets),
        "bags 'tracklet' returns NoneType; return a polyplink.learn.bags.EpochBags",
    )
    assert_refused(
        polyplink("detect", data, tmp_path / "boxes", "--detector", "mine:all"),
        "simulated detector 'mine' returns list; return a polars",
    )
    assert_refused(
        polyplink("import", "lines", installed_parts, tmp_path / "lines"),
        "format 'lines' returns NoneType; return a polyplink.data.tables.Imported",
    )
    for command, message in (
        (("import", "warn", installed_parts), "warnings of an Imported is the text 'a box is odd'"),
        (("import", "number", installed_parts), "format 'number' is neither a function nor a "),
        (
            ("convert", data, "loses"),
            "`loses` of format 'loses' has 'colours'; choose of: images, ",
        ),
    ):
        assert_refused(polyplink(*command, tmp_path / "files"), message)
    assert_refused(polyplink("nothing"), "the verb `polyplink nothing` returns NoneType")
    assert_refused(polyplink("letters"), "printed of a Result is the text 'text'; give a list of")
    assert_refused(polyplink("array", "--json"), "cannot be written (Object of type ndarray is not")
    boxes = read_data(data).detections.with_columns(polyp_id=pl.lit(None, pl.String))
    with pytest.raises(PolyplinkError, match=r"tracker 'nearest' returns float64 of shape \(\d+,"):
        build_tracklets(boxes, PrepareSettings(tracks=TrackSettings(tracker="nearest")))


def test_a_plugin_verb_is_added_and_replaces_no_built_in_verb(
    installed_parts: Path, untrained: Untrained
) -> None:
    entries = next(installed_parts.glob("*.dist-info/entry_points.txt"))
    added = "[polyplink.verbs]\nmine longest = my_parts:longest\ntrain = my_parts:longest\n"
    added += "weights = my_parts:longest\n"
    added += "index longest = my_parts:longest\n"
    entries.write_text(entries.read_text().replace("[polyplink.verbs]\n", added))
    assert {"longest", "mine longest"} < {*sections()["Research"]}
    assert [*sections()["Train"]] == [*SECTIONS["Train"]]
    assert VERBS.find("train") is train
    hidden = {plugin.name: plugin.error for plugin in list_plugins().value if plugin.error}
    error = "not used: a built-in verb has the name {!r}; rename it"
    assert hidden == {name: error.format(name) for name in ("train", "weights")}
    for words in (["longest"], ["mine", "longest"], ["index", "longest"]):
        result = polyplink(*words, untrained.data, "--most", "2", "--json")
        lengths = read_data(untrained.data).procedures.sort("n_frames", descending=True)
        assert json.loads(result.stdout) == lengths["procedure_id"].head(2).to_list()
    assert "Mine: longest." in polyplink("mine", "--help").stdout
    assert "ones: build, add, longest." in " ".join(polyplink("index", "--help").stdout.split())


def test_a_verb_that_cannot_be_imported_does_not_affect_the_others(installed_parts: Path) -> None:
    (installed_parts / "my_parts.py").write_text("import numpy\nnumpy.nothing\n")
    page = polyplink("--help").stdout
    assert "  run " in page
    assert "  longest " not in page
    assert_refused(polyplink("longest"), "'longest' of the package my-parts cannot be imported")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("longest = 3", "verb 'longest' of the package my-parts has no __call__"),
        (
            "def longest(data: str, *, most: int = 3): pass",
            "verb 'longest' cannot be a command: its parameter 'data' has no default, and no "
            "annotation of typer; annotate it",
        ),
        (
            "def longest(**more: str): pass",
            "verb 'longest' cannot be a command: its parameter **more names no options",
        ),
        (
            "import typing, typer\n"
            "def longest(data: typing.Annotated[str | int, typer.Argument()]): pass",
            "verb 'longest' cannot be a command: Typer currently doesn't support Union types",
        ),
    ],
)
def test_a_verb_that_cannot_be_a_command_does_not_affect_the_others(
    installed_parts: Path, code: str, message: str
) -> None:
    (installed_parts / "my_parts.py").write_text(code)
    page = polyplink("--help")
    assert page.exit_code == 0
    assert "  longest " not in page.stdout
    assert_refused(polyplink("longest", "data"), message)
    errors = {part.name: part.error for part in list_plugins().value}
    assert errors["longest"].startswith(f"not used: {message}")


@pytest.mark.parametrize("name", VERBS)
def test_built_in_verbs_pass_the_check_for_those_of_packages(name: str) -> None:
    check_verb(VERBS[name])


@pytest.mark.parametrize("name", TRACKERS)
def test_built_in_trackers_pass_the_check_for_those_of_packages(name: str) -> None:
    check_tracker(TRACKERS[name])


def test_check_verb_names_what_is_wrong() -> None:
    def undocumented(data: str) -> None:
        pass

    def plain(data: str) -> None:
        """A parameter without an annotation of typer."""

    for verb, message in ((undocumented, "has no docstring"), (plain, "parameter 'data' has no")):
        with pytest.raises(AssertionError, match=message):
            check_verb(verb)


def test_a_plugin_layout_is_selected_in_the_detector_record(
    installed_parts: Path, tmp_path: Path
) -> None:
    path = tmp_path / "d.onnx"
    write_model(
        path, {"boxes": np.array([[0.25, 0.5, 0.5, 0.75, 2.0]], np.float32)}, [1, 3, 64, 64]
    )
    record = DetectorRecord(layout="corners", size=(64, 64), letterbox=False)
    write_json(record_path(path), record)
    (box,) = OnnxDetector(path)(np.zeros((128, 256, 3), np.uint8))
    np.testing.assert_allclose(box, [64, 64, 64, 32, 1 / (1 + np.exp(-2))], atol=1e-4)
    write_json(record_path(path), replace(record, layout="corner"))
    with pytest.raises(PolyplinkError, match=r"no layout 'corner'; did you mean corners"):
        OnnxDetector(path)


def test_a_plugin_detector_is_named_on_the_command_line(
    installed_parts: Path, tmp_path: Path
) -> None:
    film, out = tmp_path / "film", tmp_path / "data"
    film.mkdir()
    pixels = np.zeros((40, 48, 3), np.uint8)
    pixels[8:20, 10:26] = 255
    Image.fromarray(pixels).save(film / "0.png")
    origins = []
    information = next(installed_parts.glob("*.dist-info")) / "METADATA"
    for version in ("1.0", "1.1"):
        information.write_text(f"Metadata-Version: 2.1\nName: my-parts\nVersion: {version}\n")
        result = polyplink("detect", film, out, "--detector", "bright")
        assert result.exit_code == 0, result.output
        assert read_data(out).detections.select("x", "y", "w", "h").rows() == [(10, 8, 16, 12)]
        origins.append(read_origin(out))
    first, second = origins
    assert first is not None
    assert second is not None
    assert first.name == second.name == "bright"
    assert first.key != second.key
    unknown = polyplink("detect", film, out, "--detector", "brighter")
    assert_refused(
        unknown, "no detector file brighter; check the path, or give detector-v1 or FILE"
    )
    assert "or bright or sim:PRESET" in unknown.stderr


@pytest.mark.parametrize("kind", REGISTRIES)
def test_every_built_in_part_can_be_imported_by_name(kind: str) -> None:
    for name, part in REGISTRIES[kind].items():
        assert part is not None
        assert getattr(part, "kind", name) == name  # recipes name some parts by their field `kind`
        assert REGISTRIES[kind].take([name, name]) == (name,)


@pytest.fixture
def parts_file(tmp_path: Path) -> Iterator[Path]:
    """The code of the page as a file."""
    path = tmp_path / "extra_parts.py"
    path.write_text(without_checks("plugins"))
    yield path
    sys.modules.pop("extra_parts", None)
    sys.path[:] = [folder for folder in sys.path if folder != str(tmp_path)]


def test_a_clusterer_metrics_and_a_figure_from_a_file_are_used(
    parts_file: Path, untrained: Untrained, tmp_path: Path
) -> None:
    out, options = tmp_path / "out", ("--device", "cpu", "--workers", "1")
    of_file = ["--clusterer", f"{parts_file}:Mutual", "--metric", f"{parts_file}:RECIPROCAL"]
    of_file += ["--metric", f"{parts_file}:V_MEASURE", "--task", "retrieval", "--task", "counting"]
    command = ("evaluate", untrained.weights, untrained.data, "-o", out, *options)
    result = polyplink(*command, "--no-baselines", "--choose-on", "train", *of_file)
    assert result.exit_code == 0, result.stderr
    figures = pl.read_csv(out / "figures.csv")
    rows = {(row["group"], row["metric"]): row["value"] for row in figures.to_dicts()}
    queries = pl.read_parquet(out / "queries.parquet")
    reciprocal = (1 / queries["best_match_rank"]).mean()
    assert rows["Retrieval", "RECIPROCAL"] == pytest.approx(reciprocal)
    clusters = pl.read_parquet(out / "assignment.parquet")["cluster"].to_list()
    assert 0 <= rows["Counting, Mutual", "V_MEASURE"] <= 1
    assert {"RECIPROCAL", "V_MEASURE"} <= {*re.findall(r"\w+", result.stdout)}  # requested
    assert len(set(clusters)) == rows["Counting, Mutual", "PPC"]
    only = ("-o", tmp_path / "f", "--only", f"{parts_file}:draw_cosines")
    draw = ("figures", untrained.weights, untrained.data, *options)
    figures_run = polyplink(*draw, *only)
    assert figures_run.exit_code == 0, figures_run.stderr
    assert {path.name for path in (tmp_path / "f").glob("*.svg")} == {"draw_cosines.svg"}
    parts_file.write_text("def nothing(data): pass\ndef wrong(): pass\n")
    returns = polyplink(*draw, "-o", tmp_path / "f", "--only", f"{parts_file}:nothing")
    assert_refused(returns, "figure 'nothing' returns NoneType; return a matplotlib.figure.Figure")
    fault = polyplink(*draw, "-o", tmp_path / "f", "--only", f"{parts_file}:wrong")
    assert "this is a fault of figure 'wrong': correct it" in fault.stderr


@pytest.mark.parametrize(
    ("options_text", "message"),
    [
        ("--clusterer {}:Nothing", "extra_parts.py has no clusterer 'Nothing'"),
        ("--clusterer {}:dataclass", "extra_parts.py:dataclass has no cluster and no grid"),
        ("--metric {}:Mutual", "extra_parts.py:Mutual is not a polyplink.evaluate.metric.Metric"),
        ("--metric {}", "extra_parts.py:NAME of a metric in it"),
        ("--tracker {}:NearestTracker", "NearestTracker: a tracker is not taken from a file here"),
    ],
)
def test_a_file_without_the_part_is_refused(
    parts_file: Path, untrained: Untrained, options_text: str, message: str
) -> None:
    options = options_text.format(parts_file).split()
    assert_refused(polyplink("evaluate", untrained.weights, untrained.data, *options), message)


@pytest.mark.parametrize(
    ("page", "part", "use"),
    [
        (
            "plugins",
            "TrackletBags",
            "bags, not a recipe; use it with `polyplink train RECIPE DATA --",
        ),
        ("plugins", "find_bright", "has no recipe 'find_bright'"),
        ("plugins", "NearestTracker", "has no recipe 'NearestTracker'"),
        (
            "add-a-loss",
            "MarginLoss",
            "loss, not a recipe; use it with `polyplink train RECIPE DATA",
        ),
    ],
)
def test_a_part_in_place_of_a_recipe_is_refused_with_its_option(
    parts_file: Path, page: str, part: str, use: str
) -> None:
    parts_file.write_text(without_checks(page))
    with pytest.raises(PolyplinkError, match=re.escape(use)):
        find_recipe(f"{parts_file}:{part}")


WRONG_PARTS = """
from dataclasses import dataclass
from polyplink.evaluate.metric import Metric

@dataclass(frozen=True)
class Labels:
    @staticmethod
    def grid():
        return [Labels()]

    def cluster(self, V, positions):
        return [0] * len(V)

class Plain(Labels):
    grid = staticmethod(lambda: [object()])

class Empty(Labels):
    grid = staticmethod(lambda: [])

class NoMetric:
    value = staticmethod(lambda retrieval: retrieval.ap)

ONE = Metric(task="retrieval", meaning="x", value=lambda retrieval: 1.0)
UNKNOWN = Metric(task="retrieval", meaning="x", value=lambda found: found.ap * float("nan"))
PAIRS = Metric(task="reid", meaning="x", value=lambda pairs: 1.0)
"""


@pytest.mark.parametrize(
    ("options_text", "message"),
    [
        ("--metric {}:ONE", "metric 'ONE' returns 1.0, not an array of shape ("),
        ("--metric {}:PAIRS", "'PAIRS': only built-in metrics can be of re-identification"),
        ("--metric {}:ONE --metric {other}:ONE", "other_parts.py:ONE have one name; rename one"),
        ("--clusterer {}:Labels", "clusterer 'Labels' returns list, not a Clustering"),
        ("--metric {}:NoMetric", "NoMetric is not a polyplink.evaluate.metric.Metric"),
        ("--metric {}:UNKNOWN", "metric 'UNKNOWN' is nan for a query with "),
        ("--clusterer {}:Empty", "the grid() of clusterer 'Empty' has no setting"),
        ("--clusterer {}:Plain", "a setting of clusterer 'Plain' is no dataclass"),
    ],
)
def test_a_part_of_a_file_that_returns_something_else_is_refused(
    parts_file: Path, untrained: Untrained, tmp_path: Path, options_text: str, message: str
) -> None:
    other = tmp_path / "other_parts.py"
    for path in (parts_file, other):
        path.write_text(WRONG_PARTS)
    options = options_text.format(parts_file, parts_file, other=other).split()
    tasks = ("--task", "retrieval", "--task", "counting", "--no-baselines", "--grid", "demo")
    command = ("evaluate", untrained.weights, untrained.data, "-o", tmp_path / "out", *tasks)
    assert_refused(polyplink(*command, "--choose-on", "train", *options), message)
    # The tables of a later evaluation in this process read all metrics.
    assert all(isinstance(metric, Metric) for metric in METRICS.in_use().values())


@pytest.mark.parametrize(
    ("before", "after", "option", "at_fault"),
    [
        (
            "retrieval: 1.0",
            "retrieval: retrieval.nothing",
            "metric ONE",
            "metric 'ONE' of {} (line {})",
        ),
        ("def grid()", "def grid(self)", "clusterer Labels", "clusterer 'Labels'"),
        ("self, V, positions", "self, V", "clusterer Labels", "clusterer 'Labels'"),
    ],
)
def test_a_fault_of_a_file_is_for_its_user_to_correct(
    parts_file: Path,
    untrained: Untrained,
    tmp_path: Path,
    before: str,
    after: str,
    option: str,
    at_fault: str,
) -> None:
    code = WRONG_PARTS.replace(before, after)
    parts_file.write_text(code)
    line = 1 + code[: code.index(after)].count("\n")
    name, part = option.split()
    task = ("retrieval",) if name == "metric" else ("counting", "--choose-on", "train")
    options = ("--no-baselines", "-o", tmp_path / "out", "--task", *task)
    command = ("evaluate", untrained.weights, untrained.data, *options)
    fault = polyplink(*command, f"--{name}", f"{parts_file}:{part}")
    assert fault.exit_code == 3
    at_fault = at_fault.format(parts_file, line)
    assert f"this is a fault of {at_fault}: correct it, the trace is in" in fault.stderr
