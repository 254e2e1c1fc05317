"""The page of the review desk in a browser, from opening to hand-off."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

from polyplink.serve.desk import Desk

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
FAULTS: dict[Page, list[str]] = {}  # messages of the console and requests to elsewhere
ALIKE = {"index": None, "id": "E0-001", "tracklet": "E0-001:1", "start_s": 9.5, "end_s": 11.0}
ALIKE |= {"size_mm": 6.0, "histology": "adenoma", "picture": None, "similarity": 0.93}
REVIEWER = '<img src="x" onerror="alert(1)">Rossi'


@pytest.fixture(scope="module")
def address(counted: Path) -> Iterator[str]:
    """The address that `polyplink review` prints."""
    (counted / "count" / "corrections.jsonl").unlink(missing_ok=True)
    command = ["review", str(counted), "--no-browser", "--reviewer", REVIEWER]
    process = subprocess.Popen(
        [sys.executable, "-m", "polyplink", *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    yield found.group()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) in {0, 130}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )


@pytest.fixture
def context(browser: Browser, counted: Path) -> Iterator[BrowserContext]:
    """A browser without cookies, on a folder without corrections."""
    (counted / "count" / "corrections.jsonl").unlink(missing_ok=True)
    context = browser.new_context(viewport={"width": 1400, "height": 900}, locale="en-GB")
    context.set_default_timeout(15_000)
    yield context
    context.close()


def opened(context: BrowserContext, address: str, place: str = "#/1") -> Page:
    """A page on a procedure."""
    page = context.new_page()
    FAULTS[page] = faults = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    home = address.partition("?")[0]

    def asked(request: Request) -> None:
        if not request.url.startswith((home, "data:")):
            faults.append(request.url)

    page.on("request", asked)
    page.goto(address)
    expect(page).to_have_url(re.compile(re.escape(home) + r"(#/\d*)?$"))  # without the token
    page.goto(home + place)
    page.wait_for_selector("#count")
    return page


def count_of(page: Page) -> int:
    return int(page.locator(".figure").inner_text())


def ask(page: Page) -> None:
    """Show a question, those that are not close included."""
    page.wait_for_selector("#further, #same")  # what answered before may still be on its way
    if page.locator("#further").count():
        page.locator("#further").click()
    page.wait_for_selector("#same")


def test_from_opening_to_hand_off(context: BrowserContext, address: str, counted: Path) -> None:
    page = opened(context, address, "#/")
    desk = Desk(counted)
    expect(page.locator("tbody tr")).to_have_count(5)
    page.keyboard.press("/")
    page.keyboard.type("003")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".facts")).to_contain_text("001-003")

    shown = desk.procedure(2)
    assert count_of(page) == shown["polyps"]
    expect(page.locator("main .strip .view")).to_have_count(6)
    expect(page.locator(".bar")).to_have_count(6)
    assert page.locator("main .view img").first.bounding_box()["width"] >= 120  # type: ignore[index]

    # A merge, a contradiction, the way out of it.
    a, b = (group["rows"][0] for group in shown["groups"][:2])
    for row in range(6):
        page.locator(f"#pick-{row}").check()
    page.keyboard.press("m")
    expect(page.locator("#live")).to_contain_text("Now 1 polyp")
    assert count_of(page) == desk.procedure(2)["polyps"] == 1
    page.locator(f"#view-{b}").focus()
    page.keyboard.press("b")  # split here
    expect(page.locator(".conflicts")).to_be_visible()
    expect(page.locator(".conflicts li")).to_have_count(2)
    page.locator(".conflicts li button").first.click()
    expect(page.locator(".conflicts")).to_have_count(0)
    page.keyboard.press("z")
    expect(page.locator(".log .undone")).to_have_count(2)
    assert count_of(page) == shown["polyps"]

    # Not a polyp, and a polyp after all.
    page.locator(f"#view-{a}").focus()
    page.keyboard.press("x")
    expect(page.locator(".alarms .view")).to_have_count(1)
    page.locator(".alarms li button.small").click()
    expect(page.locator(".alarms")).to_have_count(0)
    page.locator(f"#view-{a}").focus()
    page.keyboard.press("v")
    page.locator("#to-own").click()
    expect(page.locator("#choice")).not_to_be_visible()
    expect(page.locator(".log li")).to_have_count(5)
    assert count_of(page) == desk.procedure(2)["polyps"]

    # What the reviewer is called is text.
    page.locator(".log summary").click()
    expect(page.locator(".log li").first).to_contain_text(REVIEWER)
    assert page.locator("img[src='x']").count() == 0

    page.locator("#done").click()
    expect(page.locator(".state.done")).to_be_visible()
    page.locator("#hand-off").click()
    page.wait_for_selector("#sheet .files a")
    expect(page.locator("#sheet")).to_contain_text("one row per view of a polyp")
    expect(page.locator("#sheet")).not_to_contain_text("hand_off.for")
    for link in page.locator("#sheet .files a").all():
        answer = context.request.get(address.partition("/?")[0] + str(link.get_attribute("href")))
        assert answer.ok
        assert len(answer.body()) > 0
    assert Desk(counted).overview()["done"] == 1
    assert FAULTS[page] == []


def test_questions_are_answered_with_three_keys(
    context: BrowserContext, address: str, counted: Path
) -> None:
    page, desk = opened(context, address), Desk(counted)
    ask(page)
    before = count_of(page)
    questions = desk.procedure(1)["questions"]
    question = min(questions, key=lambda one: not one["close"])
    for key, kind in (("s", "same"), ("d", "different"), ("u", "unsure")):
        started = page.evaluate("performance.now()")
        page.keyboard.press(key)
        expect(page.locator("#undo")).to_be_enabled()
        took = page.evaluate("performance.now()") - started
        assert took < 2000
        entry = desk.procedure(1)["log"][-1]
        assert (entry["kind"], entry["rows"], entry["others"]) == (
            kind,
            [question["a"]],
            [question["b"]],
        )
        assert count_of(page) == desk.procedure(1)["polyps"]
        page.keyboard.press("z")
        expect(page.locator("#undo")).to_be_disabled()
        assert count_of(page) == before
    page.keyboard.press("y")
    expect(page.locator("#undo")).to_be_enabled()
    first = page.locator("#asked-left img").get_attribute("src")
    page.keyboard.press("1")
    expect(page.locator("#asked-left img")).not_to_have_attribute("src", str(first))
    assert FAULTS[page] == []


def test_the_keyboard_reaches_everything(context: BrowserContext, address: str) -> None:
    page = opened(context, address)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.strip .view')"):
            break
    focused = "document.activeElement.id"
    first = page.evaluate(focused)
    page.keyboard.press("ArrowRight")
    second = page.evaluate(focused)
    assert second != first
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press(" ")
    expect(page.locator(".chosen")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".chosen")).to_have_count(0)
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer .picture img")
    place = page.locator("#viewer .where")
    before = place.inner_text()
    box = page.locator("#viewer rect.over")
    expect(box).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(place).not_to_have_text(before)
    page.keyboard.press("c")
    expect(box).to_have_count(0)
    page.keyboard.press("g")
    page.wait_for_selector(".alike li")
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).not_to_be_visible()
    assert page.evaluate(focused) == second
    page.keyboard.press("?")
    expect(page.locator("#sheet")).to_contain_text("Undo")
    page.keyboard.press("Escape")
    page.keyboard.press("]")
    expect(page.locator(".facts")).to_contain_text("001-003")
    names = page.evaluate(
        "[...document.querySelectorAll('button, a, input, select')].filter(e => !("
        "e.getAttribute('aria-label') || e.innerText || e.labels?.length)).map(e => e.outerHTML)"
    )
    assert names == []
    assert FAULTS[page] == []


def test_it_is_printed_with_every_picture(context: BrowserContext, address: str) -> None:
    page = opened(context, address)
    loaded = "[...document.querySelectorAll('#main img')].map(e => e.complete && e.naturalWidth)"
    page.evaluate(f"window.print = () => {{ window.printed = {loaded}; }}")
    page.keyboard.press("Control+p")
    page.wait_for_function("window.printed")
    pictures = page.evaluate("window.printed")
    assert len(pictures) > 4
    assert all(pictures)


def test_the_browser_s_menu_prints_pictures_not_scrolled_to(
    context: BrowserContext, address: str
) -> None:
    far = "document.getElementById('main').style.paddingTop = '20000px'"
    context.add_init_script(f"addEventListener('DOMContentLoaded', () => {{ {far} }})")
    page = opened(context, address)
    complete = page.wait_for_function(
        "() => (all => all.length > 4 && all.every(e => e.complete && e.naturalWidth))"
        "([...document.querySelectorAll('#main img')])"
    )
    assert complete.json_value()


def test_a_view_is_cut_and_an_index_is_shown(
    context: BrowserContext, address: str, counted: Path
) -> None:
    page = opened(context, address)
    page.route("**/similar", lambda route: route.fulfill(json=[ALIKE]))
    page.locator("main .strip .view").first.click()
    page.wait_for_selector("#viewer .picture img")
    page.keyboard.press("g")
    expect(page.locator(".alike li")).to_contain_text("E0-001 · 6 mm · adenoma")
    page.keyboard.press("Home")
    expect(page.locator("#viewer-cut")).to_be_disabled()
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("b")
    expect(page.locator("#viewer")).not_to_be_visible()
    # The first cut imports torch.
    expect(page.locator("main .strip .view")).to_have_count(7, timeout=60_000)
    entry = Desk(counted).procedure(1)["log"][-1]
    assert (entry["kind"], len(entry["others"])) == ("cut", 2)
    page.keyboard.press("z")
    expect(page.locator("main .strip .view")).to_have_count(6)
    assert FAULTS[page] == []


def test_it_speaks_three_languages_and_remembers(context: BrowserContext, address: str) -> None:
    page = opened(context, address)
    expect(page.locator(".unit")).to_have_text(re.compile("polyps?"))
    for language, polyps, procedure in (
        ("de", "Polyp(en)?", "Untersuchung"),
        ("it", "polip[oi]", "Esame"),
    ):
        page.locator("#language").select_option(language)
        for _ in range(2):  # the second time after opening it anew
            expect(page.locator(".unit")).to_have_text(re.compile(polyps))
            expect(page.locator(".facts")).to_contain_text(procedure)
            assert page.evaluate("document.documentElement.lang") == language
            page.reload()
            page.wait_for_selector("#count")
    page.locator("#theme").select_option("dark")
    page.reload()
    page.wait_for_selector("#count")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", dark))) < 40
    assert FAULTS[page] == []


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_it_fits_any_width(context: BrowserContext, address: str, width: int) -> None:
    page = opened(context, address)
    page.set_viewport_size({"width": width, "height": 850})
    ask(page)
    for language in ("en", "de", "it"):
        page.locator("#language").select_option(language)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wide = page.evaluate("Math.min(...[...document.querySelectorAll('.strip img')]"
                             ".map(image => image.getBoundingClientRect().width))")  # fmt: skip
        assert wide >= 120
    page.locator("#asked-left").click()
    page.wait_for_selector("#viewer .picture img")
    assert page.evaluate("document.querySelector('#viewer').scrollWidth") <= width


def test_two_pages_show_each_others_corrections(context: BrowserContext, address: str) -> None:
    one, other = opened(context, address), opened(context, address)
    one.locator("main .strip .view").first.focus()
    one.keyboard.press("x")
    expect(other.locator(".alarms .view")).to_have_count(1)
    assert count_of(other) == count_of(one)
    expect(other.locator("#toast")).to_contain_text("another page")
