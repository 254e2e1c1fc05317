"""The outputs and pictures of docs/gallery.md, from a finished demo: `make docs-pictures`.

Each command of the page is run in the folder of the demo, and what it prints replaces the block
below its name in the page.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent / "pictures"
PAGE = HERE.with_name("gallery.md")
POLYPLINK = (sys.executable, "-m", "polyplink")
FIGURES = ("similarity", "curriculum", "recall", "counting")
WIDE = {"width": 1200, "height": 900}
MOST = 20  # lines shown of an output
LIVE = 40_000  # milliseconds of a live count, at a quarter of the speed, before its picture
PREPARATIONS = (  # commands that make what other commands and the pictures need
    "simulate more --preset smoke --write tables --workers 1",
    "study ntssl-small supervised-small more --out study --seeds 2 --task retrieval "
    "--set optim.epochs=1 --set validation.every=2",
    "index build run data --index index",
    "evaluate run data --out evaluation --grid demo",
    "count run data --part eval --out count --replace",
    "hand-off count",
    "search run {view} --index index --others -k 4 --out search",
)
COMMANDS = {  # what is printed, by the name of its block
    "run": "run recording/film/{film} --fps 25 --out counted --replace",
}

MADE = ("more", "counted", "evaluation", "study", "index")


def words(command: str, demo: Path) -> list[str]:
    """A command, split, with the film of the demo and a view of it filled in."""
    film = next((demo / "recording" / "film").glob("*_frames")).name
    view = (demo / "count" / "views.csv").read_text().splitlines()[2].split(",")[2]
    return command.format(film=film, view=view).split()


def printed(command: Sequence[str], demo: Path) -> str:
    """What a command prints in the folder of the demo, and its warnings."""
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(  # noqa: S603
        [*POLYPLINK, *command],
        cwd=demo,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr  # 1: problems in the data
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning")]
    return "\n".join([done.stdout.rstrip(), *warnings])


def shortened(text: str) -> str:
    """The first and last lines of a long output."""
    lines = [line.rstrip() for line in text.splitlines()]
    if len(lines) > MOST:
        lines[MOST - 6 : -5] = ["..."]
    return "\n".join(lines)


def block(page: str, name: str, command: Sequence[str], output: str) -> str:
    """The page with an output in the block of its name."""
    pattern = rf"(<!-- output: {name} -->\n```text\n).*?(^```$)"
    text = f"$ polyplink {' '.join(command)}\n{shortened(output)}\n"
    page, n = re.subn(pattern, lambda match: match[1] + text + match[2], page, flags=re.M | re.S)
    assert n == 1, name
    return page


def keep(picture: Path, name: str) -> None:
    """Write a picture as WebP of at most 1,200 pixels."""
    image = Image.open(picture).convert("RGB")
    image.thumbnail((1200, 1600))
    image.save(HERE / f"{name}.webp", quality=70, method=6)


def shoot(page: Page, part: str, name: str, folder: Path) -> None:
    """Keep a picture of the part of a page that a selector finds."""
    page.locator(part).first.screenshot(path=folder / "shot.png")
    keep(folder / "shot.png", name)


def served(
    command: Sequence[str],
    demo: Path,
    page: Page,
    act: Callable[[], None],
    address: Callable[[str], str],
) -> None:
    """Open the page that a command serves, and do something there."""
    with subprocess.Popen(  # noqa: S603
        [*POLYPLINK, *command, "--no-browser"], cwd=demo, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        page.goto(address(process.stdout.readline()))
        act()
        process.terminate()


def shoot_pages(demo: Path, chromium: str, folder: Path) -> None:
    """Pictures of the pages that commands write or serve."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport=WIDE, color_scheme="light")

        def seen(name: str) -> None:
            page.screenshot(path=folder / "shot.png")
            keep(folder / "shot.png", name)

        def written(file: str, name: str, part: str = "") -> None:
            page.goto((demo / file).resolve().as_uri() + part)
            seen(name)

        written("count/report.html", "report")
        shoot(page, "details.procedure", "report-procedure", folder)
        written("evaluation/report.html", "report-figures", "#figures")
        written("study/report.html", "study")
        page.goto((demo / "search/search.html").resolve().as_uri())
        shoot(page, "body", "search", folder)
        written("count/reviewed/report.html", "hand-off")

        def review() -> None:
            page.get_by_text("Continue with").click()
            page.wait_for_timeout(5000)  # until the views are loaded
            seen("review")

        def live() -> None:
            page.wait_for_timeout(LIVE)
            seen("live")

        served(["review", "count"], demo, page, review, lambda line: line.split()[-1])
        film = words(COMMANDS["run"], demo)[1]
        command = ["live", film, "--fps", "25", "--out", "live", "--replace", "--speed", "0.25"]
        served(command, demo, page, live, lambda line: str(json.loads(line)["page"]))
        browser.close()


def main(demo: Path, chromium: str, names: Sequence[str]) -> None:
    """Make what has some names, or all outputs and "pictures", from the folder of a demo."""
    HERE.mkdir(exist_ok=True)
    if not names:
        for earlier in MADE:
            shutil.rmtree(demo / earlier, ignore_errors=True)
        for preparation in PREPARATIONS:
            printed(words(preparation, demo), demo)
    for name in (name for name in COMMANDS if name in names or not names):
        command = words(COMMANDS[name], demo)
        output = printed(command, demo)
        PAGE.write_text(block(PAGE.read_text(encoding="utf-8"), name, command, output), "utf-8")
    if names and "pictures" not in names:
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shoot_pages(demo, chromium, folder)
        only = [word for figure in FIGURES for word in ("--only", figure)]
        drawn = ["figures", "run", "data", "--out", str(folder), *only]
        subprocess.run([*POLYPLINK, *drawn], cwd=demo, check=True)  # noqa: S603
        for figure in FIGURES:
            keep(folder / f"{figure}.png", f"figure-{figure}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
