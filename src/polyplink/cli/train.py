"""The verb `train`: trains an encoder with a recipe."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from typer import Argument, Exit, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, TrackletOptions, check_inputs
from polyplink.cli.verb import inform, prints_lines, verb
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result, ShownFields
from polyplink.core.runs import RunRecord, sole_writer

if TYPE_CHECKING:
    from polyplink.associate.identities import OperatingPoint
    from polyplink.encoders.encoder import Encoder
    from polyplink.encoders.weights import Seen
    from polyplink.learn.loop import Fitted
    from polyplink.learn.train_config import TrainConfig
    from polyplink.tracklets.prepare import Prepared

TOO_SURE = (
    "the links are fitted on procedures that the encoder was trained on, and trust its vectors too "
    "much on others: fit them on procedures that it has not seen, with "
    "`polyplink calibrate`"
)


def _list_fields(recipe: str | None) -> None:
    """Print the fields of a recipe that `--set` takes, and exit: called while options are read."""
    if recipe is not None:
        from polyplink.recipes.by_name import find_recipe
        from polyplink.recipes.provenance import field_sources
        from polyplink.report.printed_tables import fields_table

        fields = field_sources(find_recipe(recipe))
        hint = f"with fields changed: polyplink recipes show {recipe} --set NAME=VALUE"
        Result(fields, printed=[fields_table(recipe, fields), hint]).print_text()
        raise Exit


@dataclass(frozen=True)
class Trained(ShownFields):
    """A finished training run.

    Attributes:
        weights: The weights file.
        epoch: Selected epoch, from 0.
        epochs: Epochs trained.
        loss: Training loss of the selected epoch.
        operating: Origin of the operating point, as a sentence.
        warnings: Warnings for the user.
    """

    weights: Path
    epoch: int
    epochs: int
    loss: float
    operating: str
    warnings: tuple[str, ...]


@verb
def train(
    recipe: Annotated[
        "str | TrainConfig",
        Argument(help=options.RECIPE_HELP, autocompletion=options.complete_recipes),
    ],
    data: options.Data,
    *,
    out: options.Out = "run",
    part: Annotated[
        str | None, Option(help="Part to train on, or all; the recipe's by default.")
    ] = None,
    sets: options.Sets = (),
    resume: Annotated[
        bool,
        Option(
            help="Continue the run in --out, or extend it: its schedules then follow the new "
            "number of epochs, so that it equals no single run."
        ),
    ] = False,
    init_from: Annotated[
        StrPath | None, Option(help="Initial weights from another run: file, folder or name.")
    ] = None,
    polyps_from: Annotated[
        StrPath | None,
        Option(
            help="Train on the polyps that these weights find without labels, in place of "
            "annotated ones."
        ),
    ] = None,
    log: Annotated[
        Sequence[str],
        Option(help="tensorboard or wandb (offline), in addition to history.csv."),
    ] = (),
    device: options.Device = "auto",
    devices: Annotated[
        int, Option(min=1, help="Processes to train in, each with a GPU or all on the CPU.")
    ] = 1,
    workers: options.Workers = 2,
    help_recipe: Annotated[
        str | None,
        Option(
            metavar="NAME",
            is_eager=True,
            callback=_list_fields,
            help="List the fields of a recipe that --set takes, and exit.",
        ),
    ] = None,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> Result[Trained]:
    """Train an encoder with a recipe; --resume continues a stopped run, or extends one.

    Args:
        recipe: Name of a recipe, FILE.py:NAME for your own, or the recipe itself.
        out: The output folder, which gets weights.safetensors.
        help_recipe: For the command line; `recipes.provenance.field_sources` gives the fields.
        progress: Called for crops and epochs.

    Returns:
        The training: `value.weights` is the file to embed, count and evaluate with.

    Raises:
        PolyplinkError: If `out` already holds a run (or none to resume), or data or recipe are
            missing or broken.

    Example:
        >>> import polyplink
        >>> polyplink.train("ntssl", "data", out="run").value.weights  # doctest: +SKIP
        PosixPath('run/weights.safetensors')
    """
    data, out = Path(data), Path(out)
    init_from = None if init_from is None else Path(init_from)
    polyps_from = None if polyps_from is None else Path(polyps_from)
    config = _configure(recipe, data, part, sets, init_from, tracklets)
    _check(config, data, polyps_from, device)
    with sole_writer(out):
        record = RunRecord("train", settings=config, seed=config.seed)
        record.claim(out)
        _check_checkpoint(config, out, resume)
        from polyplink.counting.operating_point import fit_trained
        from polyplink.encoders.build import check_input
        from polyplink.encoders.device import pick_device
        from polyplink.encoders.encode import encode
        from polyplink.encoders.finetune import trainable
        from polyplink.encoders.load import build_started, load_named
        from polyplink.encoders.weights import seen_before_training, seen_by
        from polyplink.learn.devices import check_devices
        from polyplink.learn.loggers import check_loggers, open_loggers
        from polyplink.learn.loop import fit
        from polyplink.tracklets.prepare import prepare

        # What training starts from: a missing weights file or package, or a size or fine-tuning
        # that the encoder does not take, is reported before crops are cut, which may take hours.
        torch_device = pick_device(device)
        check_devices(devices, torch_device)
        check_loggers(log)
        started = trainable(build_started(config.encoder, config.init_from), config.finetune)
        check_input(started, config.prepare.size, config.fragment_length)
        seen, inputs = seen_before_training(config.encoder, config.init_from)

        # The crops, and the polyps to train on: annotated ones, or those that weights find.
        with record.stage("prepare"):
            prepare_by = partial(
                prepare,
                data,
                procedures=_procedures(config, data, labelled=polyps_from is None),
                workers=workers,
                progress=partial(progress, "crops"),
            )
            prepared = labelled = prepare_by(config.prepare)
            if polyps_from is not None:
                from polyplink.counting.labels import with_pseudo_labels
                from polyplink.data.origin import read_origin

                finder = load_named(polyps_from, device, origin=read_origin(data))
                encoded = encode(
                    [finder], data, prepared.procedures, workers=workers, progress=progress
                )
                labelled = with_pseudo_labels(prepared, encoded)
                seen = seen.merged_with(finder.record.seen)
                inputs = inputs | {"polyps_from": finder.key}
        record.inputs |= {"crops": prepared.key} | inputs

        # The encoder, and what is fitted to its vectors.
        with record.stage("train"), open_loggers(log, out, config) as to_logs:
            fitted = fit(
                config,
                labelled,
                out,
                device=torch_device,
                devices=devices,
                resume=resume,
                progress=_ticker(to_logs, progress),
            )
        with record.stage("operating point"):
            encoder = _fitted_to_crops(fitted.encoder, config, prepared)
            used = prepared
            if config.prepare_evaluation != config.prepare:
                used = prepare_by(config.prepare_evaluation)
            point = fit_trained(encoder, used, data)
        record.write(out)
        seen = seen_by(prepared.data, fitted.train, fitted.held, seen)
        return _save_run(out, config, replace(fitted, encoder=encoder), seen, point)


def _configure(
    recipe: "str | TrainConfig",
    data: Path,
    part: str | None,
    sets: Sequence[str],
    init_from: Path | None,
    tracklets: TrackletOptions,
) -> "TrainConfig":
    """The recipe with the thresholds of the boxes' detector, and what options override."""
    from polyplink.data.origin import read_origin
    from polyplink.recipes.by_name import find_recipe, override
    from polyplink.tracklets.settings import with_options

    start = [] if init_from is None else [f"init_from={init_from}"]
    config = find_recipe(recipe) if isinstance(recipe, str) else recipe
    config = replace(config, prepare=with_options(config.prepare, {}, read_origin(data)))
    config = override(config, [*start, *sets])
    prepare = with_options(config.prepare, tracklets)
    config = replace(config, prepare=prepare, part=part or config.part)
    return _with_initial_scale(config, sets)


def _check(config: "TrainConfig", data: Path, polyps_from: Path | None, device: str) -> None:
    """Refuse invalid arguments before torch is imported."""
    from polyplink.core.parts import ENCODERS
    from polyplink.learn.train_config import NEED_POLYPS

    parts = [part for part in (config.part, config.validation.part) if part]
    check_inputs(config.init_from, data, parts, device)
    check_inputs(polyps_from)
    if polyps_from is not None and config.bags.kind not in NEED_POLYPS:
        raise PolyplinkError(
            f"bags.kind={config.bags.kind} does not use polyps, which --polyps-from provides",
            "name a recipe that does, such as supervised, or leave --polyps-from out",
        )
    if config.encoder.kind not in ENCODERS.names():
        raise PolyplinkError(
            f"no package has the encoder {config.encoder.kind!r}: no command could read its "
            "weights",
            "name its configuration in the pyproject.toml of a package and install it; the "
            "how-to on adding an encoder says how",
        )


def _with_initial_scale(config: "TrainConfig", sets: Sequence[str]) -> "TrainConfig":
    """The recipe with the mean and std of its initial weights, unless `sets` has them.

    Raises:
        PolyplinkError: If the weights have another backbone than the recipe.
    """
    from polyplink.encoders.weights import read_record, weights_path

    if config.init_from is None:
        return config
    start, encoder = read_record(weights_path(config.init_from)).encoder, config.encoder
    names = {field.name for field in fields(encoder)}
    if getattr(start, "stages", ()) and "stages" not in names:
        raise PolyplinkError(
            f"{config.init_from} uses several stages of its backbone, which the encoder of the "
            f"recipe {config.name}, a {encoder.kind}, cannot",
            f"name a recipe with the encoder {start.kind}, such as {start.kind}-small",
        )
    differing = [
        name
        for name in ("frame_encoder", "stages")
        if name in names and getattr(start, name, getattr(encoder, name)) != getattr(encoder, name)
    ]
    if differing:
        backbone_options = [  # without spaces, to be typed
            f"--set encoder.{name}={to_plain(getattr(start, name))}".replace(", ", ",")
            for name in differing
        ]
        raise PolyplinkError(
            f"{config.init_from} holds weights of another backbone than the recipe {config.name} "
            "builds",
            f"build theirs with {' '.join(backbone_options)}",
        )
    set_names = {assignment.partition("=")[0] for assignment in sets}
    scale = {
        name: getattr(start, name)
        for name in ("mean", "std")
        if name in names
        and f"encoder.{name}" not in set_names
        and getattr(start, name, None) is not None
    }
    return replace(config, encoder=replace(encoder, **scale))


def _check_checkpoint(config: "TrainConfig", out: Path, resume: bool) -> None:
    """Refuse a second run in one folder, and --resume without a checkpoint of the recipe."""
    from polyplink.learn.train_config import LAST

    exists = (out / LAST).is_file()
    if not resume and exists:
        raise PolyplinkError(
            f"{out} holds a training run already",
            "continue it with --resume, or name another --out",
        )
    if not exists and resume:
        raise PolyplinkError(
            f"no checkpoint {out / LAST}", "start without --resume, in a new folder"
        )
    if resume:
        from polyplink.learn.loop import read_resumed

        read_resumed(config, out)


def _procedures(config: "TrainConfig", folder: Path, *, labelled: bool) -> list[str]:
    """Procedures to train and validate on.

    Args:
        config: The recipe.
        folder: The data folder.
        labelled: Whether the polyps to train on are the annotated ones.

    Raises:
        PolyplinkError: If bags need known polyps, but the part has none; if the recipe selects by
            validation, but none of its procedures is held out, or by labels, and they have none.
    """
    import polars as pl

    from polyplink.data.tables import read_data
    from polyplink.learn.loop import check_selection, split_procedures, too_few_labels
    from polyplink.learn.train_config import NEED_POLYPS

    data = read_data(folder)
    parts = filter(None, (config.part, config.validation.part))
    names = [name for part in parts for name in data.part(part)]
    polyps = data.detections.select("procedure_id", "polyp_id").drop_nulls().unique()
    n_known = polyps.filter(pl.col("procedure_id").is_in(names)).height
    if config.bags.kind in NEED_POLYPS and labelled and n_known < 2:
        raise PolyplinkError(
            f"table detections: column polyp_id is empty in the part {config.part!r} or names one "
            f"polyp, and bags.kind={config.bags.kind} draws views of known polyps",
            "name a labelled part (--part NAME), a recipe without labels, such as ntssl, or "
            "weights of one with --polyps-from",
        )
    held = split_procedures(data, config)[1]
    if not held:
        check_selection(config, None)
    n_known = polyps.filter(pl.col("procedure_id").is_in(held)).height
    if config.validation.select == "labels" and labelled and n_known < 2:
        raise too_few_labels(config)
    return names


def _ticker(
    log: Callable[[Mapping[str, float]], None], progress: Progress
) -> Callable[[int, int, Mapping[str, float]], None]:
    """The callback of every epoch: logs, progress, and a printed line if no bar is shown."""

    def tick(done: int, total: int, row: Mapping[str, float]) -> None:
        log(row)
        progress("epochs", done, total)
        if prints_lines(progress):
            losses = [
                f"{name} {value:.3f}"
                for name, value in row.items()
                if name.startswith("loss") and not math.isnan(value)
            ]
            text = f"epoch {done} of {total}: {', '.join(losses)}, {row['seconds']:.1f} s"
            print(text, file=sys.stderr, flush=True)

    return tick


def _fitted_to_crops(encoder: "Encoder", config: "TrainConfig", prepared: "Prepared") -> "Encoder":
    """The encoder with the recipe's tone and whitening layers, fitted to the crops."""
    from polyplink.encoders.adapt import CROPS, fitted_to_crops
    from polyplink.tracklets.prepare import typical_crops

    tone, whiten = (getattr(config.encoder, part, 0.0) for part in ("tone", "whiten"))
    if not (tone or whiten):
        return encoder
    return fitted_to_crops(encoder, typical_crops(prepared, CROPS), tone, bool(whiten))


def _save_run(
    out: Path, config: "TrainConfig", fitted: "Fitted", seen: "Seen", point: "OperatingPoint"
) -> Result[Trained]:
    """Write the weights as the last file: a run with weights is complete.

    Args:
        out: The output folder.
        config: The recipe.
        fitted: Result of the training.
        seen: Procedures trained and validated on.
        point: Operating point of the encoder.
    """
    from polyplink.encoders.weights import WEIGHTS_FILE, WeightsRecord, save_weights
    from polyplink.learn.train_config import NEED_POLYPS

    # The weights' record leaves out the seconds: equal training runs must give equal files.
    chosen = {k: v for k, v in fitted.chosen.items() if k != "seconds" and not math.isnan(v)}
    record = WeightsRecord(
        encoder=config.encoder,
        prepare=config.prepare_evaluation,
        recipe=to_plain(config),
        seen=seen,
        origin={"selected_by": config.validation.select} | chosen,
        operating=asdict(point),
    )
    weights = out / WEIGHTS_FILE
    save_weights(weights, fitted.encoder, record)
    warnings: tuple[str, ...] = ()
    if not point.prices:
        warnings = (f"operating point: {point.origin}",)
    elif config.bags.kind in NEED_POLYPS:
        warnings = (TOO_SURE,)
    trained = Trained(
        weights=weights,
        epoch=int(fitted.chosen["epoch"]),
        epochs=len(fitted.history),
        loss=fitted.chosen["loss"],
        operating=point.origin,
        warnings=warnings,
    )
    printed = (
        f"{weights}: epoch {trained.epoch + 1} of {trained.epochs}, loss {trained.loss:.3f}; "
        f"operating point: {trained.operating}"
    )
    return Result(trained, printed=[printed], warnings=trained.warnings)
