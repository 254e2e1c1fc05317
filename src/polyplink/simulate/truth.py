"""What is known of simulated procedures: written with the frames, read back as a data set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.artefacts import read_json, to_plain
from polyplink.data import DataSet, frame_stem, frames_folder, simulated_name, split_by_rule
from polyplink.simulate.first_plan import Plan
from polyplink.simulate.picture.polyp import Traits
from polyplink.simulate.presets import Preset

TRUTH = "simulation"
SITES = (
    "cecum",
    "ascending",
    "hepatic_flexure",
    "transverse",
    "splenic_flexure",
    "descending",
    "sigma",
    "rectum",
)
BBPS = (6.0, 7.0, 8.0, 9.0)


def truth_path(out: Path, procedure_id: str) -> Path:
    """The file with what is known of one procedure."""
    return out / TRUTH / f"{procedure_id}.json"


def histology(traits: Traits) -> tuple[str, str]:
    """Histology and its class."""
    return {"AD": "adenoma", "HP": "hyperplastic polyp"}[traits.histology_class], (
        traits.histology_class
    )


def draw_record(rng: np.random.Generator, plan: Plan) -> dict[str, Any]:
    """Draw what a procedure's record says; polyps lie in the order of withdrawal.

    Returns:
        JSON-ready: age, sex, bbps, and for every polyp its site, histology, class and traits.
    """
    sites = np.sort(rng.integers(0, len(SITES), len(plan.traits)))
    polyps = [
        {"site": SITES[site], "histology": histology(traits), "traits": to_plain(traits)}
        for site, traits in zip(sites, plan.traits, strict=True)
    ]
    return {
        "age": int(rng.integers(45, 81)),
        "sex": str(rng.choice(["female", "male"])),
        "bbps": float(rng.choice(BBPS)),
        "polyps": polyps,
    }


def read_truth(out: Path, preset: Preset, seed: int) -> DataSet:
    """Read all procedures of a preset back as a data set.

    Args:
        out: Folder that they were written to.
        preset: Names them.
        seed: That they were drawn from.

    Returns:
        The data set, equal to what importing the written folder gives; its parts are those of
        `data.split_by_rule`.

    Raises:
        PolyplinkError: If a procedure is missing.
    """
    known = {name: read_json(truth_path(out, name)) for name, _ in preset.polyps}
    splits = split_by_rule(known, {name for name, polyps in preset.polyps if polyps})
    return DataSet.of(
        _detections(known), _procedures(known, preset, seed, out), _polyps(known), splits
    )


def polyp_id(procedure_id: str, index: int) -> str:
    """Name of a procedure's polyp, index from 0; names count from 1, as in REAL-Colon."""
    return f"{procedure_id}_{index + 1}"


def _detections(known: Mapping[str, Any]) -> pl.DataFrame:
    rows = [
        {
            "procedure_id": name,
            "frame": frame,
            **dict(zip("xywh", box, strict=True)),
            "polyp_id": polyp_id(name, polyp),
            "image": f"{frames_folder(name)}/{frame_stem(name, frame)}.jpg",
        }
        for name, record in known.items()
        for frame, polyp, *box in record["boxes"]
    ]
    columns = ["procedure_id", "frame", "x", "y", "w", "h", "polyp_id", "image"]
    return pl.DataFrame(rows, schema=columns if not rows else None)


def _procedures(known: Mapping[str, Any], preset: Preset, seed: int, out: Path) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "procedure_id": name,
                "dataset": simulated_name(preset.name, seed),
                "patient": name,
                "n_frames": record["n_frames"],
                "fps": preset.fps,
                "width": preset.width,
                "height": preset.height,
                "source": str(out),
                "age": record["age"],
                "sex": record["sex"],
                "brand": "polyplink",
                "bbps": record["bbps"],
            }
            for name, record in known.items()
        ]
    )


def _polyps(known: Mapping[str, Any]) -> pl.DataFrame:
    rows = [
        {
            "polyp_id": polyp_id(name, index),
            "procedure_id": name,
            "size_mm": polyp["traits"]["size_mm"],
            "histology": polyp["histology"][0],
            "histology_class": polyp["histology"][1],
            "location": polyp["site"],
        }
        for name, record in known.items()
        for index, polyp in enumerate(record["polyps"])
    ]
    return pl.DataFrame(rows, schema=["polyp_id", "procedure_id"] if not rows else None)
