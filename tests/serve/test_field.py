"""The visible field of an endoscope."""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from polyplink import hand_off_review
from polyplink.serve.desk import Desk
from polyplink.serve.pictures import visible_field

WIDTH, HEIGHT = 320, 256


def frames(count: int = 12) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Frames with text in the border, beside a field cut at its corners; the field and the text."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    true = (np.hypot(x - 205, y - 128) < 128) & (x > 92) & (x < 318)
    text = Image.new("L", (WIDTH, HEIGHT))
    draw = ImageDraw.Draw(text)
    for row, line in enumerate(("ROSSI, MARIA", "12/03/1961", "F  64", "Cr: N  Eh: A5")):
        draw.text((4, 20 + 24 * row), line, fill=230, font=ImageFont.load_default(14))
    draw.line((0, 126, 120, 126), fill=200)  # a line of the overlay that meets the field
    letters = np.asarray(text) > 60
    made = []
    for k in range(count):
        lumen = np.exp(-(((x - 170 - 6 * k) / 45) ** 2 + ((y - 128) / 45) ** 2))
        level = 180 * (1 - lumen) * (0.6 + 0.4 * np.cos((x - 205) / 90))
        pixels = np.where(true, level, 6)[..., None] * np.array([1.0, 0.55, 0.45])
        pixels = np.where((letters & ~true)[..., None], 225, pixels)
        noisy = np.clip(pixels + rng.normal(0, 3, pixels.shape), 0, 255).astype(np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(noisy).save(buffer, "JPEG", quality=80)
        made.append(np.asarray(Image.open(buffer)))
    return made, true, letters & ~true


def test_text_in_the_border_is_outside_and_a_dark_lumen_inside() -> None:
    shown, true, text = frames()
    dark = [np.zeros_like(shown[0])] * 3  # the recording begins before the endoscope is in
    for given in (shown, shown + dark, shown[:1]):
        found = visible_field(given)
        assert (found & text).sum() <= 12  # where the line meets the field
        assert not (found & text)[:, :90].any()
        assert (found & true).sum() > 0.98 * true.sum()
        assert (found & ~true).sum() < 0.01 * true.sum()
    assert not visible_field(dark).any()
    assert visible_field([frame[80:180, 150:260] for frame in shown]).all()  # no border


def test_a_hand_off_says_where_there_is_no_border(desk: Desk, counted: Path) -> None:
    desk = Desk(counted, field=True)
    plain = Desk(counted)
    first = plain.prepared.detections.filter(procedure_id=plain.names[0])["frame"][0]
    assert desk.frame(0, first) == plain.frame(0, first)
    assert desk.pictures.borderless == {desk.names[0]}
    done = hand_off_review(counted, mask_overlay=("field",))
    assert "without a dark border" in done.warnings[-1]
