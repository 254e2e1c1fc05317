"""The visible field of an endoscope."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from polyplink import hand_off_review
from polyplink.core.errors import PolyplinkError
from polyplink.serve.desk import Desk
from polyplink.serve.pictures import visible_field
from tests.conftest import SampleRun

WIDTH, HEIGHT = 320, 256


def frames(count: int = 12) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Frames with text beside a field with cut corners, and masks of the field and the text."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    field = (np.hypot(x - 205, y - 128) < 128) & (x > 92) & (x < 318)
    text = Image.new("L", (WIDTH, HEIGHT))
    draw = ImageDraw.Draw(text)
    for row, line in enumerate(("ROSSI, MARIA", "12/03/1961", "F  64", "Cr: N  Eh: A5")):
        draw.text((4, 20 + 24 * row), line, fill=230, font=ImageFont.load_default(14))
    draw.line((0, 126, 120, 126), fill=200)  # a line of the overlay that touches the field
    letters = np.asarray(text) > 60
    images = []
    for k in range(count):
        lumen = np.exp(-(((x - 170 - 6 * k) / 45) ** 2 + ((y - 128) / 45) ** 2))
        level = 180 * (1 - lumen) * (0.6 + 0.4 * np.cos((x - 205) / 90))
        pixels = np.where(field, level, 6)[..., None] * np.array([1.0, 0.55, 0.45])
        pixels = np.where((letters & ~field)[..., None], 225, pixels)
        noisy = np.clip(pixels + rng.normal(0, 3, pixels.shape), 0, 255).astype(np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(noisy).save(buffer, "JPEG", quality=80)
        images.append(np.asarray(Image.open(buffer)))
    return images, field, letters & ~field


def test_the_field_excludes_text_in_the_border_and_includes_a_dark_lumen() -> None:
    images, field, text = frames()
    dark = [np.zeros_like(images[0])] * 3  # the recording begins before insertion
    for some_images in (images, images + dark, images[:1]):
        visible = visible_field(some_images)
        assert (visible & text).sum() <= 12  # where the line touches the field
        assert not (visible & text)[:, :90].any()
        assert (visible & field).sum() > 0.98 * field.sum()
        assert (visible & ~field).sum() < 0.01 * field.sum()
    assert not visible_field(dark).any()
    assert visible_field([frame[80:180, 150:260] for frame in images]).all()  # no border


def test_a_hand_off_warns_about_frames_without_a_border(desk: Desk, counted_folder: Path) -> None:
    desk = Desk(counted_folder, field=True)
    unmasked = Desk(counted_folder)
    first = unmasked.prepared.detections.filter(procedure_id=unmasked.names[0])["frame"][0]
    assert desk.frame(0, first) == unmasked.frame(0, first)
    assert desk.pictures.borderless == {desk.names[0]}
    handed_off = hand_off_review(counted_folder, mask_overlay=("field",))
    assert "without a dark border" in handed_off.warnings[-1]


def test_a_missing_frame_does_not_prevent_the_pictures_of_others(
    counted_folder: Path, sample_run: SampleRun, tmp_path: Path
) -> None:
    whole = Desk(counted_folder, field=True).picture(0, 0, 0, 640)
    desk = Desk(counted_folder, field=True)
    last = desk.prepared.detections.filter(procedure_id=desk.names[0])["frame"][-1]
    image = desk.prepared.detections.filter(procedure_id=desk.names[0], frame=last)["image"][0]
    source = desk.pictures.procedures[desk.names[0]]["source"]
    shared = sample_run.data / source / image  # other tests use it, too
    moved = shared.rename(tmp_path / "moved.jpg")
    try:
        assert desk.picture(0, 0, 0, 640) == whole
        broken = f"frame {last} of 001-001 cannot be shown .* missing"
        with pytest.raises(PolyplinkError, match=broken):
            desk.frame(0, last)
    finally:
        moved.rename(shared)
