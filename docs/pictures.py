"""The pictures of docs/gallery.md, from a finished demo: `make docs-pictures`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent / "pictures"
FIGURES = ("similarity", "curriculum", "recall", "counting")
WIDE = {"width": 1200, "height": 900}


def keep(picture: Path, name: str) -> None:
    """Write a picture as WebP of at most 1,200 pixels."""
    image = Image.open(picture).convert("RGB")
    image.thumbnail((1200, 1600))
    image.save(HERE / f"{name}.webp", quality=70, method=6)


def shoot(page: Page, part: str, name: str, folder: Path) -> None:
    """Keep a picture of the part of a page that a selector finds."""
    page.locator(part).first.screenshot(path=folder / "shot.png")
    keep(folder / "shot.png", name)


def main(demo: Path, chromium: str) -> None:
    """Make all pictures from the folder of a demo."""
    HERE.mkdir(exist_ok=True)
    polyplink = [sys.executable, "-m", "polyplink"]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=chromium)
        page = browser.new_page(viewport=WIDE, color_scheme="light")
        page.goto((demo / "count" / "report.html").resolve().as_uri())
        page.screenshot(path=folder / "shot.png")
        keep(folder / "shot.png", "report")
        shoot(page, "details.procedure", "report-procedure", folder)
        page.goto((demo / "report.html").resolve().as_uri() + "#figures")
        page.screenshot(path=folder / "shot.png")
        keep(folder / "shot.png", "report-figures")
        asked = ["review", str(demo / "count"), "--no-browser"]
        with subprocess.Popen(  # noqa: S603
            [*polyplink, *asked], stdout=subprocess.PIPE, text=True
        ) as desk:
            assert desk.stdout is not None
            page.goto(desk.stdout.readline().split()[-1])
            page.get_by_text("Continue with").click()
            page.wait_for_timeout(5000)  # until the views are loaded
            page.screenshot(path=folder / "shot.png")
            keep(folder / "shot.png", "review")
            desk.terminate()
        browser.close()
        only = [word for figure in FIGURES for word in ("--only", figure)]
        drawn = ["figures", str(demo / "run"), str(demo / "data"), "--out", str(folder), *only]
        subprocess.run([*polyplink, *drawn], check=True)  # noqa: S603
        for figure in FIGURES:
            keep(folder / f"{figure}.png", f"figure-{figure}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
