"""Where the value of each recipe field comes from: the paper, its authors' program, or polyplink.

`text` marks values stated in the paper, `program` values that appear only in the authors' released
program, and `ours` choices of polyplink where both are silent or could not be followed (the note
says why). Fields of options that a recipe does not use (LoRA's rank with `finetune.how=whole`) are
`unused`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

from polyplink.core.artefacts import to_plain
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.by_name import OTHER_PART, RECIPES, field_names, find_recipe, type_text

Source = Literal["text", "program", "ours", "unused"]
Sources = dict[str, tuple[Source, str]]


@dataclass(frozen=True)
class FieldSource:
    """A field of a recipe.

    Attributes:
        name: Dotted name, as for `--set`.
        type: The values that the field takes, see `type_text`.
        value: The value, as in JSON.
        source: Where the value comes from.
        note: The reason for the value, or the place in the source.
    """

    name: str
    type: str
    value: Any
    source: Source
    note: str


_NORMALISATION = "0.45 and 0.225 as in the programs' evaluation; their training does not normalise"
_HELD_OUT = "every ninth procedure; the papers validate on ten of the evaluated procedures"

_COMMON: Sources = {
    "name": ("ours", ""),
    "encoder.frame_encoder": ("text", "ResNet-50"),
    "encoder.frame_weights": ("program", "IMAGENET1K_V2; the text says pre-trained on ImageNet"),
    "encoder.mean": ("program", _NORMALISATION),
    "encoder.std": ("program", _NORMALISATION),
    "encoder.projector_hidden": ("program", ""),
    "encoder.projector_out": ("program", ""),
    "encoder.least_brightness": ("ours", "0: crops as they are"),
    "encoder.least_contrast": ("ours", "0: crops as they are"),
    "encoder.tone": ("ours", "0: the encoder alone"),
    "encoder.whiten": ("ours", "off: the features as they are"),
    "init_from": ("ours", ""),
    "finetune.how": ("text", "the whole encoder is trained"),
    "finetune": ("unused", "only with finetune.how last or lora"),
    "prepare.min_length": ("program", "30 frames, before one in four is kept"),
    "prepare.stride": ("text", "one frame in four"),
    "prepare.max_gap": ("text", "consecutive frames"),
    "prepare.min_iou": ("text", "0.1 between consecutive frames"),
    "prepare.crop_factor": ("text", "5 times the box"),
    "prepare.size": ("text", "232 pixels"),
    "prepare.min_seconds": ("ours", "for detected boxes; the papers use annotated ones"),
    "prepare.tracks": ("ours", "for detected boxes; the papers use annotated ones"),
    "evaluation_stride": ("text", "as in training"),
    "fragment_length": ("text", "8"),
    "augment": ("program", "none"),
    "raw_training": ("ours", "off; the programs train on raw pixels, as true does"),
    "optim.epochs": ("program", "50"),
    "optim.rate": ("program", "1e-5, constant"),
    "optim.weight_decay": ("program", "1e-4"),
    "optim.method": ("program", "AdamW"),
    "optim.schedule": ("program", "constant"),
    "optim.accumulate": ("ours", "1: a step is one batch"),
    "optim.checkpointing": ("ours", "off; saves memory, but BatchNorm's statistics adapt faster"),
    "optim.precision": ("program", "float32 with TF32 products (high)"),
    "validation.every": ("ours", _HELD_OUT),
    "validation.part": (
        "ours",
        "none; the papers' ten are tpc-val, which `reproduce --as-published` allows",
    ),
    "validation.select": ("program", "lowest loss on true identities"),
    "validation.views": ("program", "2"),
    "validation.tau": ("unused", "only with validation.select bags"),
    "validation.patience": ("program", "all epochs"),
    "part": ("text", "the 27 procedures of REAL-Colon that are not evaluated on"),
    "seed": ("program", "42"),
}
_TRANSFORMER: Sources = {
    "encoder.kind": ("text", "transformer over frames with a learnable token"),
    "encoder.layers": ("text", "3"),
    "encoder.heads": ("text", "8"),
    "encoder.dropout": ("text", "0.1"),
}
_NTSSL: Sources = _TRANSFORMER | {
    "encoder.width": ("text", "256"),
    "encoder.feedforward": ("text", "1024"),
    "encoder.projector_hidden": ("text", "256"),
    "encoder.projector_out": ("text", "128"),
    "bags": ("text", "2.1; K = 4, tau from 0.3 to 12"),
    "loss.kind": ("text", "2.2"),
    "loss.form": (
        "program",
        "every member of a bag is an anchor; `anchored` is eq. 1 of the text",
    ),
    "loss.temperature": ("program", "0.07; the text states none"),
    "loss.tracklet": ("text", "sum of both levels"),
    "loss.frame": ("text", "sum of both levels"),
    "loss.within": ("program", "a third term; weight 0, as the text has only two"),
    "loss.mask_fragment": ("program", "off by default"),
    "loss.negatives": ("text", "all views of other bags"),
    "optim.bags_per_batch": ("text", "60 fragments: 12 bags of 5"),
    "validation.loss": ("program", "MIL-NCE on tracklet vectors alone"),
    "validation.bags_per_batch": ("program", "6 views: 2 of each of 3 polyps"),
}
_CONTRASTIVE_PAIRS: Sources = {
    "encoder.kind": ("program", "NTSSL's for MVE and TPC, which has the printed parameters"),
    "encoder.vector": (
        "ours",
        "backbone features as in NTSSL's comparison; predecessor: projected",
    ),
    "encoder.stages": ("program", "none: the backbone's own output"),
    "encoder.rings": ("program", "none"),
    "encoder.layers": ("program", "3"),
    "encoder.heads": ("program", "8"),
    "encoder.dropout": ("program", "0.1"),
    "encoder.width": ("program", "128"),
    "encoder.feedforward": ("program", "2048"),
    "encoder.frame_hidden": ("program", "2048"),
    "prepare.stride": ("text", "every frame; the bags draw the strides of parts"),
    "evaluation_stride": ("program", "one in four, as for every encoder of the comparison"),
    "prepare.crop_factor": (
        "ours",
        "as in NTSSL's comparison; the predecessors crop the exact box",
    ),
    "bags.kind": ("text", ""),
    "bags.distance": ("text", "Gaussian or uniform in a window"),
    "bags.deviation": ("text", "30 frames"),
    "bags.window": ("ours", ""),
    "bags.longest": ("text", "strides of 1 to 4; their distribution is the program's"),
    "bags.alpha_first": ("text", "decreases linearly"),
    "bags.alpha_last": ("text", "decreases linearly"),
    "loss.kind": ("text", "NT-Xent"),
    "loss.temperature": ("text", "0.07"),
    "augment": ("program", "strengths; the papers name the kinds only"),
    "optim.epochs": ("ours", "as for NTSSL"),
    "optim.bags_per_batch": ("ours", "56 pairs"),
    "optim.rate": ("ours", "1e-3 x pairs / 256, scaled as in the program, which states no rate"),
    "optim.weight_decay": ("program", "1e-4 for SFE, none for MVE and TPC"),
    "optim.method": ("program", "Adam"),
    "optim.schedule": ("program", "one-cycle for SFE, constant for MVE and TPC"),
    "optim.warm_up": ("program", "0.1 of the training"),
    "optim.precision": ("program", "TF32, torch's default for convolutions; here for all products"),
    "validation.loss": ("ours", "the loss of training"),
    "validation.bags_per_batch": ("ours", "as in training"),
    "validation.select": ("program", "lowest loss on pairs; for SFE, highest top-1"),
    "validation.tau": ("unused", "only with temporal bags"),
}
_PARTS: Sources = _CONTRASTIVE_PAIRS | {
    "optim.rate": ("program", "1e-4 unscaled, the default; the rate used is not recorded"),
}
_SUPERVISED: Sources = _TRANSFORMER | {
    "encoder.width": ("text", "128"),
    "encoder.feedforward": ("program", "2048"),
    "bags": ("text", "views of each polyp in a batch of 56"),
    "bags.refill": ("program", "an epoch ends when too few polyps have enough unused fragments"),
    "loss.kind": ("text", ""),
    "loss.temperature": ("program", "0.25"),
    "loss.decay": ("text", "lambda = 1"),
    "loss.gamma": ("text", "0.2 (thesis)"),
    "optim.bags_per_batch": ("program", "56 / views; the text says 3 polyps for 14 views"),
    "validation.loss": ("program", "the loss of training"),
    "validation.bags_per_batch": ("program", "16 views: 2 of each of 8 polyps"),
}
_ENDOFM: Sources = {
    "encoder": ("text", "EndoFM as published, fine-tuned whole"),
    "encoder.preset": ("ours", "EndoFM's normalisation; the program's is preset=reference"),
    "encoder.projector_hidden": ("ours", "as NTSSL; the thesis states none"),
    "encoder.projector_out": ("ours", "as NTSSL; the thesis states none"),
    "encoder.least_brightness": ("ours", "0: crops as they are"),
    "encoder.least_contrast": ("ours", "0: crops as they are"),
    "encoder.tone": ("ours", "0: the encoder alone"),
    "encoder.whiten": ("ours", "off: the features as they are"),
    "prepare.crop_factor": ("text", "none: frames are resized; only the evaluation crops"),
    "prepare.size": ("text", "224 pixels"),
    "prepare.stride": ("text", "4"),
    "bags": ("text", "2 or 4 views of each polyp, batches of 8"),
    "bags.refill": ("program", "as TA's; the thesis does not say when an epoch ends"),
    "loss.kind": ("text", "5.3.1"),
    "loss.temperature": ("text", "0.25"),
    "loss.decay": ("text", "lambda = 1"),
    "loss.gamma": ("text", "0.2"),
    "optim": ("text", "50 epochs, 1e-5, weight decay 1e-4, batches of 8"),
    "optim.method": ("program", "AdamW in TA's; the thesis states none"),
    "optim.schedule": ("program", "constant in TA's; the thesis states none"),
    "optim.accumulate": ("ours", "1: a step is one batch"),
    "optim.checkpointing": ("ours", "changes memory, not results"),
    "optim.precision": ("program", "TF32 in TA's; the thesis states none"),
    "validation.loss": ("ours", "the loss of training"),
    "validation.bags_per_batch": ("text", "16 views, 2 of each polyp"),
    "validation.views": ("text", "2"),
}
# Values with another source than their field: FIELD=VALUE.
_OF_VALUES: Sources = {
    "part=ta384": ("text", "384 polyps: REAL-Colon's 27 procedures, LDPolypVideo, SUN, PolypsSet"),
    "encoder.kind=mve": ("program", "the predecessor's encoder"),
    "encoder.kind=sfe": ("text", "frames one by one"),
    "encoder.vector=projected": ("program", "after the head, as in the predecessor"),
    "bags.sampling=nearest": ("text", "table 2: the K nearest; tau is not used"),
    "bags.tau_min=6.15": ("ours", "middle of the curriculum; table 2 states no temperature"),
    "bags.tau_max=6.15": ("ours", "middle of the curriculum; table 2 states no temperature"),
    "loss.tracklet=0.0": ("text", "table 2: only frames"),
    "loss.frame=0.0": ("text", "table 2: only tracklets"),
    "loss.form=anchored": ("text", "eq. 1: members against the anchor"),
}
_FAMILIES: Mapping[str, Sources] = {
    "ntssl": _NTSSL,
    "sfe": _CONTRASTIVE_PAIRS,
    "mve": _PARTS,
    "tpc": _PARTS,
    "temporally-aware": _SUPERVISED,
    "supervised": _SUPERVISED,
    "intra-inter": _SUPERVISED,
    "endofm": _ENDOFM,
}


def field_sources(recipe: TrainConfig, unchanged: TrainConfig | None = None) -> list[FieldSource]:
    """The fields of a recipe with the sources of their values.

    A field is looked up by its name, then by its groups ("augment.flip", "augment"), first in the
    table of the method, then in the common table. All values of small recipes are `ours`, as are
    those of a user's recipe that differ from the built-in recipe of its name, if there is one.

    Args:
        recipe: The recipe.
        unchanged: The recipe before fields were set; values that differ are `ours`. None if no
            field was set.

    Example:
        >>> from polyplink.recipes.by_name import find_recipe
        >>> fields = {field.name: field for field in field_sources(find_recipe("ntssl"))}
        >>> fields["loss.temperature"].source
        'program'
    """
    # The built-in recipe of that name, and the sources of its values.
    plain_name = recipe.name.removeprefix(OTHER_PART)
    built_in = find_recipe(recipe.name) if plain_name in RECIPES else None
    is_small = built_in is not None and plain_name.endswith(("-small", "-demo"))
    has_sources = built_in is not None and not is_small
    tables: tuple[Sources, ...] = ()
    if has_sources:
        family = next(family for family in _FAMILIES if plain_name.startswith(family))
        tables = (_FAMILIES[family], _COMMON)

    # Each field of the recipe.
    fields_now, fields_before, fields_built_in = map(
        to_plain, (recipe, unchanged or recipe, built_in or recipe)
    )
    sources = []
    for name in field_names(recipe):
        parts = name.split(".")
        value, value_before, built_in_value = (
            reduce(lambda inner, key: (inner or {}).get(key), parts, fields_of)
            for fields_of in (fields_now, fields_before, fields_built_in)
        )
        groups = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        hits = (table[key] for table in tables for key in groups if key in table)
        source, note = next(hits, ("ours", "at a size for a laptop" if is_small else ""))
        if name == "optim.warm_up" and recipe.optim.schedule == "constant" and not is_small:
            source, note = "unused", "only with optim.schedule one_cycle"
        if has_sources:
            source, note = _OF_VALUES.get(f"{name}={value}", (source, note))
        if value != value_before:
            source, note = "ours", f"set; {value_before} in the recipe"
        elif value != built_in_value:
            source, note = "ours", f"{built_in_value} in the built-in recipe"
        sources.append(FieldSource(name, type_text(recipe, name), value, source, note))
    return sources
