"""The page of a review in a browser, from opening to hand-off."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)

from polyplink.counting.corrections import Correction, append_correction
from polyplink.counting.result import CountedQuestion, CountedTracklet
from polyplink.report.contents import Report, ReportedProcedure
from polyplink.report.page import render
from polyplink.serve.desk import Desk
from polyplink.serve.handoff import FOLDER, hand_off
from tests.report.sample import comparison, counted

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
PAGE_ERRORS: dict[Page, list[str]] = {}  # messages of the console, and requests to other hosts
SIMILAR_VIEW = {
    "index": None,
    "id": "E0-001",
    "tracklet": "E0-001:1",
    "start_s": 9.5,
    "end_s": 11.0,
}
SIMILAR_VIEW |= {"size_mm": 5.4, "histology": "adenoma", "picture": None, "similarity": 0.93}
PROBLEMS = Path(__file__).with_name("problems.js").read_text()
LONG_NAME = "Aufzeichnung" * 12
REVIEWER = '<img src="x" onerror="alert(1)">Rossi'


@pytest.fixture(scope="module")
def address(counted_folder: Path) -> Iterator[str]:
    """The address that `polyplink review` prints, while it runs."""
    (counted_folder / "count" / "corrections.jsonl").unlink(missing_ok=True)
    command = ["review", str(counted_folder), "--no-browser", "--reviewer", REVIEWER]
    process = subprocess.Popen(
        [sys.executable, "-m", "polyplink", *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    match = re.search(r"http://\S+", process.stdout.readline())
    assert match is not None
    yield match.group()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) in {0, 130}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )


@pytest.fixture
def context(browser: Browser, unreviewed: Path) -> Iterator[BrowserContext]:
    """A browser context without cookies, on a folder without corrections."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, locale="en-GB")
    context.set_default_timeout(15_000)
    yield context
    context.close()


def open_page(context: BrowserContext, address: str, place: str = "#/1") -> Page:
    """Open a page of the review, by default on a procedure."""
    page = context.new_page()
    PAGE_ERRORS[page] = errors = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    home = address.partition("?")[0]

    def check_address(request: Request) -> None:
        if not request.url.startswith((home, "data:")):
            errors.append(request.url)

    page.on("request", check_address)
    page.goto(address)
    expect(page).to_have_url(re.compile(re.escape(home) + r"(#/\d*)?$"))  # without the token
    page.goto(home + place)
    page.wait_for_selector(".filters" if place == "#/" else ".facts")
    return page


def count_of(page: Page) -> int:
    return int(page.locator(".figure").inner_text())


def ask(page: Page) -> None:
    """Show a question, also if it is not close."""
    page.wait_for_selector("#further, #same")  # an earlier answer may still be on its way
    if page.locator("#further").count():
        page.locator("#further").click()
    page.wait_for_selector("#same")


def test_a_review_from_opening_to_hand_off(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    page = open_page(context, address, "#/")
    desk = Desk(counted_folder)
    expect(page.locator("tbody tr")).to_have_count(5)
    page.keyboard.press("/")
    page.keyboard.type("003")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".facts")).to_contain_text("001-003")

    procedure = desk.procedure(2)
    assert count_of(page) == procedure["polyps"]
    expect(page.locator("main .strip .view")).to_have_count(6)
    expect(page.locator(".bar")).to_have_count(6)
    expect(page.locator(".facts")).to_contain_text("6 views")
    assert page.locator("main .view img").first.bounding_box()["width"] >= 120  # type: ignore[index]

    # A merge, a contradiction, and its resolution.
    a, b = (group["rows"][0] for group in procedure["groups"][:2])
    for row in range(6):
        page.locator(f"#pick-{row}").check()
    page.keyboard.press("m")
    expect(page.locator("#live")).to_contain_text("Now 1 polyp")
    assert count_of(page) == desk.procedure(2)["polyps"] == 1
    page.locator(f"#view-{b}").focus()
    page.keyboard.press("b")  # split here: each side of the merge stays one polyp
    expect(page.locator("#live")).to_contain_text("Now 2 polyps")
    expect(page.locator(".conflicts")).to_have_count(0)
    for row in range(6):
        page.locator(f"#pick-{row}").check()
    page.keyboard.press("m")
    expect(page.locator(".conflicts")).to_be_visible()
    expect(page.locator("#live")).to_contain_text("This contradicts another answer")
    expect(page.locator(".conflicts li")).to_have_count(2)
    page.locator(".conflicts li button").first.click()
    expect(page.locator(".conflicts")).to_have_count(0)
    for undone in (2, 3):
        page.keyboard.press("z")
        expect(page.locator(".log .undone")).to_have_count(undone)
    assert count_of(page) == procedure["polyps"]

    # Mark a view as not a polyp, and take it back.
    page.locator(f"#view-{a}").focus()
    page.keyboard.press("x")
    expect(page.locator(".alarms .view")).to_have_count(1)
    expect(page.locator(".facts")).to_contain_text("5 views")  # those counted, as in the report
    page.locator(".alarms li button.small").click()
    expect(page.locator(".alarms")).to_have_count(0)
    page.locator(f"#view-{a}").focus()
    page.keyboard.press("v")
    page.locator("#to-own").click()
    expect(page.locator("#choice")).not_to_be_visible()
    expect(page.locator(".log li")).to_have_count(6)
    assert count_of(page) == desk.procedure(2)["polyps"]

    # The name of the reviewer is escaped.
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
    assert Desk(counted_folder).overview()["done"] == 1
    assert PAGE_ERRORS[page] == []


def test_questions_are_answered_with_three_keys(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    page, desk = open_page(context, address), Desk(counted_folder)
    ask(page)
    before = count_of(page)
    questions = desk.procedure(1)["questions"]
    question = min(questions, key=lambda question: not question["close"])
    for key, kind in (("s", "same"), ("d", "different"), ("u", "unsure")):
        started = page.evaluate("performance.now()")
        page.keyboard.press(key)
        expect(page.locator("#undo")).to_be_enabled()
        milliseconds = page.evaluate("performance.now()") - started
        assert milliseconds < 2000
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
    assert PAGE_ERRORS[page] == []


def doubt_first_polyp(context: BrowserContext, *, every_link: bool = False) -> None:
    """Ask whether the first polyp is one until it is confirmed, and about every link on request."""

    def add_question(route: Route) -> None:
        state = route.fetch().json()
        rows = state["groups"][0]["rows"]
        links = [question | {"close": every_link} for question in state["questions"]]
        doubt = {"a": rows[0], "b": None, "members": rows, "others": [], "joined": None}
        doubt |= {"close": True, "probability": 0.71, "counted": True, "change": -1}
        answered = any(
            entry["rows"] == rows and not entry["undone"] and entry["kind"] in ("polyp", "unsure")
            for entry in state["log"]
        )
        route.fulfill(json=state | {"questions": links if answered else [doubt, *links]})

    context.route("**/api/procedures/1", add_question)
    context.route("**/corrections", add_question)


def test_whether_a_polyp_is_one_is_asked_and_answered(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    doubt_first_polyp(context)
    page, desk = open_page(context, address), Desk(counted_folder)
    members = desk.procedure(1)["groups"][0]["rows"]
    before = count_of(page)
    assert page.locator("#question").inner_text() == "Is this a polyp?"
    text = page.locator(".meaning").inner_text().replace("\xa0", " ")
    assert text.endswith("(probability 71 %). If it is not one, the count becomes 1.")
    expect(page.locator("#asked-right, #not-polyp-left")).to_have_count(0)
    label = page.locator("#asked-left").get_attribute("aria-label")
    assert str(label).startswith("Polyp 1, view at")  # not "Left"
    assert "two views" not in page.locator(".timeline").inner_text()
    widths = page.locator("#asked-left, .pair").evaluate_all("all => all.map(e => e.clientWidth)")
    assert max(widths) - min(widths) < 5
    assert page.locator("#unsure").inner_text().startswith("Cannot say")
    answers = (("s", "polyp", before), ("u", "unsure", before), ("d", "not_polyp", before - 1))
    for key, kind, count in answers:
        page.keyboard.press(key)
        expect(page.locator("#undo")).to_be_enabled()
        entry = desk.procedure(1)["log"][-1]
        assert (entry["kind"], entry["rows"]) == (kind, members)
        assert count_of(page) == count
        page.keyboard.press("z")
        expect(page.locator("#undo")).to_be_disabled()
    assert [entry["kind"] for entry in desk.procedure(1)["log"]] == [
        *("polyp", "undo", "unsure", "undo", "not_polyp", "undo")
    ]
    assert PAGE_ERRORS[page] == []


def test_going_from_one_kind_of_question_to_the_other_is_announced_and_keeps_the_focus(
    context: BrowserContext, address: str
) -> None:
    doubt_first_polyp(context, every_link=True)
    page = open_page(context, address)
    said = page.locator("#live")
    page.keyboard.press("n")
    expect(said).to_contain_text("Is this the same polyp? Question 2 of")
    page.locator("#not-polyp-left").focus()
    page.keyboard.press("p")
    expect(said).to_contain_text("Is this a polyp? Question 1 of")
    expect(page.locator("#same")).to_be_focused()
    page.keyboard.press("s")
    expect(said).to_contain_text("Is this the same polyp?")
    expect(page.locator("#same")).to_be_focused()
    page.keyboard.press("u")
    expect(said).to_contain_text("Now")
    expect(said).not_to_contain_text("Is this")  # the same kind of question
    assert PAGE_ERRORS[page] == []


def test_the_page_says_how_many_questions_follow_from_an_answer(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    def open_every_question(route: Route) -> None:
        state = route.fetch().json()
        questions = [question | {"close": True} for question in state["questions"]]
        route.fulfill(json=state | {"questions": questions})

    context.route("**/api/procedures/1", open_every_question)
    context.route("**/corrections", open_every_question)
    page, desk = open_page(context, address), Desk(counted_folder)

    def pairs() -> set[frozenset[int]]:
        questions = desk.procedure(1)["questions"]
        asked_pairs = {frozenset((question["a"], question["b"])) for question in questions}
        assert len(asked_pairs) == len(questions)
        return asked_pairs

    following = 0
    for answers in range(1, 4):
        before = pairs()
        page.keyboard.press("u")  # the same decision is then asked about by other views
        expect(page.locator(".log summary")).to_contain_text(f"({answers})")
        new = len(pairs() - before)
        text = page.locator("#toast").inner_text()
        assert (f"(new: {new}, about other views)." in text) == bool(new), text
        assert f"{len(pairs())} open question" in text
        following += new
    assert following
    assert PAGE_ERRORS[page] == []


def test_after_the_last_answer_the_page_shows_that_none_is_open(
    context: BrowserContext, address: str
) -> None:
    page = open_page(context, address)
    ask(page)
    page.locator("#unsure").focus()
    answers = 0
    while page.locator("#same").count():
        answers += 1
        page.keyboard.press("u")
        expect(page.locator(".log summary")).to_contain_text(f"({answers})")
    expect(page.locator("#question")).to_be_focused()
    expect(page.locator("#question")).to_be_in_viewport()
    page.keyboard.press("z")
    expect(page.locator("#same")).to_have_count(1)
    page.locator("#not-polyp-left").click()
    expect(page.locator("#same")).to_have_count(0)
    expect(page.locator("#question")).to_be_focused()
    assert PAGE_ERRORS[page] == []


def test_a_question_that_another_page_changed_takes_no_answer_at_once(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    desk, first_page = Desk(counted_folder), open_page(context, address)
    second_page = open_page(context, address)
    second_page.clock.install()
    for page in (first_page, second_page):
        ask(page)
    pictures = second_page.locator("#asked-left img, #asked-right img")
    sources = pictures.evaluate_all("images => images.map(image => image.src)")
    first_page.keyboard.press("d")
    expect(first_page.locator("#undo")).to_be_enabled()
    second_page.clock.run_for(3000)
    expect(second_page.locator("#toast")).to_contain_text("another page")
    assert pictures.evaluate_all("images => images.map(image => image.src)") != sources
    second_page.keyboard.press("s")
    second_page.clock.run_for(1000)
    assert len(desk.procedure(1)["log"]) == 1
    second_page.keyboard.press("s")
    expect(second_page.locator("#toast")).to_contain_text("Now")
    assert [entry["kind"] for entry in desk.procedure(1)["log"]] == ["different", "same"]


def test_the_page_can_be_used_with_the_keyboard(context: BrowserContext, address: str) -> None:
    page = open_page(context, address)
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
    assert PAGE_ERRORS[page] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screen_readers_and_weak_eyes_can_read_every_page(
    context: BrowserContext,
    address: str,
    counted_folder: Path,
    tmp_path: Path,
    scheme: Literal["light", "dark"],
) -> None:
    pages = (
        open_report(context, tmp_path / "report.html"),
        open_hand_off(context, counted_folder),
        open_page(context, address, "#/"),
    )
    for page in pages:
        page.emulate_media(color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate(PROBLEMS) == []
    page = open_page(context, address)
    page.emulate_media(color_scheme=scheme)
    ask(page)
    assert page.evaluate(PROBLEMS) == []
    live_region = page.locator("#live")
    page.keyboard.press("d")
    expect(live_region).to_contain_text(re.compile(r"Now \d polyps?.* question"))
    page.evaluate(
        "new MutationObserver(() => { window.saidAgain = true; })"
        ".observe(document.getElementById('live'), {childList: true})"
    )
    page.keyboard.press("u")
    page.wait_for_function("() => window.saidAgain")  # also where it says the same
    page.locator("main .strip .view").first.focus()
    page.keyboard.press("Space")
    expect(live_region).to_have_text("1 view selected")
    page.keyboard.press("Escape")
    page.locator(".log summary").click()
    page.locator("main .strip .view").first.click()
    page.keyboard.press("g")
    page.wait_for_selector(".alike li")
    assert page.evaluate(PROBLEMS) == []
    page.keyboard.press("v")
    page.wait_for_selector("#choice li")
    assert page.evaluate(PROBLEMS) == []
    assert PAGE_ERRORS[page] == []


def test_printing_loads_every_picture(context: BrowserContext, address: str) -> None:
    page = open_page(context, address)
    loaded = "[...document.querySelectorAll('#main img')].map(e => e.complete && e.naturalWidth)"
    page.evaluate(f"() => {{ window.print = () => {{ window.printed = {loaded}; }}; }}")
    assert page.evaluate("window.printed") is None
    page.keyboard.press("Control+p")
    page.wait_for_function("() => window.printed")
    pictures = page.evaluate("window.printed")
    assert len(pictures) > 4
    assert all(pictures)


def forty_polyps(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a procedure with a long name, its polyps repeated."""
    groups = state["groups"] * (40 // len(state["groups"]))
    return state | {"id": LONG_NAME, "groups": groups, "polyps": len(groups)}


def open_report(context: BrowserContext, path: Path) -> Page:
    """The report of a procedure with forty polyps and many questions."""
    crop = np.full((160, 160, 3), 90, dtype=np.uint8)
    views = [CountedTracklet(f"t{i}", 50 * i, 50 * i + 35, confidence=0.5) for i in range(240)]
    links = tuple(
        CountedQuestion((f"t{i}",), (f"t{i + 1}", f"t{i + 2}"), True, 0.3) for i in range(0, 90, 6)
    )
    polyps = {f"p{i}": views[6 * i : 6 * i + 6] for i in range(40)}
    count = counted(LONG_NAME, polyps, converged=True, to_look_at=links)
    crops = dict.fromkeys((view.tracklet_id for view in views), crop)
    case = ReportedProcedure(count, 12_000, 25.0, crops=crops)
    path.write_text(render(Report("Polyp count", "data", "today", "here", procedures=(case,))))
    page = context.new_page()
    page.goto(path.as_uri())
    return page


def open_hand_off(context: BrowserContext, folder: Path) -> Page:
    """A German hand-off: forty corrected polyps in the first procedure, none in the others."""
    whole = Desk.procedure

    def state(desk: Desk, index: int) -> dict[str, Any]:
        empty = {"id": f"P{index}", "groups": []}
        return forty_polyps(whole(desk, index)) | {"corrected": True} | (empty if index else {})

    with patch.object(Desk, "procedure", state):
        hand_off(Desk(folder), language="de")
    page = context.new_page()
    page.goto((folder / "count" / FOLDER / "report.html").as_uri())
    return page


def open_review(context: BrowserContext, address: str) -> Page:
    """The review of a procedure with forty polyps."""
    procedure = re.compile("/api/procedures/1$")
    context.route(procedure, lambda route: route.fulfill(json=forty_polyps(route.fetch().json())))
    return open_page(context, address)


@pytest.mark.parametrize("kind", ["report", "hand-off", "review"])
def test_dozens_of_polyps_print_on_few_pages(
    context: BrowserContext, address: str, counted_folder: Path, tmp_path: Path, kind: str
) -> None:
    if kind == "report":
        page = open_report(context, tmp_path / "report.html")
    elif kind == "hand-off":
        page = open_hand_off(context, counted_folder)
    else:
        page = open_review(context, address)
    assert 3 <= len(re.findall(rb"/Type /Page\b", page.pdf(format="A4"))) <= 6
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 900})  # A4 between margins of 15 mm
    assert page.evaluate("document.documentElement.scrollWidth") <= 680


def test_methods_with_long_names_fit_on_paper(context: BrowserContext, tmp_path: Path) -> None:
    table = comparison()
    methods = tuple(replace(method, name=method.name + LONG_NAME) for method in table.methods)
    path = tmp_path / "report.html"
    table = replace(table, methods=methods)
    path.write_text(render(Report("Evaluation", "data", "today", "here", comparison=table)))
    page = context.new_page()
    page.goto(path.as_uri())
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 900})  # A4 between margins of 15 mm
    assert page.evaluate("document.documentElement.scrollWidth") <= 680


def test_reports_and_hand_offs_fit_phones_and_put_texts_above_cards(
    context: BrowserContext, counted_folder: Path, tmp_path: Path
) -> None:
    report, handed_off = (
        open_report(context, tmp_path / "report.html"),
        open_hand_off(context, counted_folder),
    )
    for page, width in product((report, handed_off), (400, 640, 800)):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(handed_off.locator("tbody tr").first).to_contain_text(re.compile(r"\d"))
    report.set_viewport_size({"width": 1280, "height": 800})
    text, first = (
        report.locator(f"details[open] .strips > {name}").first.bounding_box()
        for name in ("p", ".strip")
    )
    assert text is not None
    assert first is not None
    assert text["y"] + text["height"] <= first["y"]


def test_the_page_says_which_other_polyp_an_answer_splits(
    context: BrowserContext, address: str
) -> None:
    page = open_page(context, address)

    def add_split(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"split": [[0, 2]]})

    page.route("**/corrections", add_split)
    page.locator("#view-5").focus()
    page.keyboard.press("x")
    for element in ("#live", "#toast"):
        expect(page.locator(element)).to_contain_text(
            "splits another polyp: the views at 0:00, 0:03"
        )
    assert PAGE_ERRORS[page] == []


def test_pictures_below_the_window_load_for_printing_from_the_menu(
    context: BrowserContext, address: str
) -> None:
    far_below = "document.getElementById('main').style.paddingTop = '20000px'"
    context.add_init_script(f"addEventListener('DOMContentLoaded', () => {{ {far_below} }})")
    page = open_page(context, address)
    complete = page.wait_for_function(
        "() => (all => all.length > 4 && all.every(e => e.complete && e.naturalWidth))"
        "([...document.querySelectorAll('#main img')])"
    )
    assert complete.json_value()


def test_the_viewer_cuts_a_view_and_shows_similar_views_of_an_index(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    page = open_page(context, address)
    page.route("**/similar", lambda route: route.fulfill(json=[SIMILAR_VIEW]))
    page.locator("main .strip .view").first.click()
    page.wait_for_selector("#viewer .picture img")
    page.keyboard.press("g")
    expect(page.locator(".alike li")).to_contain_text("E0-001 · 5.4 mm · adenoma")
    page.keyboard.press("Home")
    expect(page.locator("#viewer-cut")).to_be_disabled()
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("b")
    expect(page.locator("#viewer")).not_to_be_visible()
    # The first cut imports torch.
    expect(page.locator("main .strip .view")).to_have_count(7, timeout=60_000)
    entry = Desk(counted_folder).procedure(1)["log"][-1]
    assert (entry["kind"], len(entry["others"])) == ("cut", 2)
    page.keyboard.press("z")
    expect(page.locator("main .strip .view")).to_have_count(6)
    assert PAGE_ERRORS[page] == []


def whole_recording(
    context: BrowserContext,
    counted_folder: Path,
    places: list[dict[str, Any]],
    hidden: dict[str, Any],
) -> list[int]:
    """Show procedure 1 as a whole recording with places; returns frames that were dismissed.

    The tests have images of frames with boxes alone, and no place.
    """
    dismissed: list[int] = []

    def state_of(route: Route) -> None:
        answer: dict[str, Any] = route.request.post_data_json or {}
        if answer.get("kind") == "not_missed":
            dismissed.append(answer["frame"])
            answer = {"kind": "unsure", "a": 0, "b": 1}  # decides nothing either
        state = route.fetch(post_data=answer or None).json()
        for entry in state["log"]:
            entry["kind"] = entry["kind"].replace("unsure", "not_missed")
        open_places = [place for place in places if place["frame"] not in dismissed]
        route.fulfill(json=state | {"any_frame": True, "places": open_places} | hidden)

    context.route(re.compile(r"/api/procedures/1(/corrections)?$"), state_of)
    picture = Desk(counted_folder).frame(1, 2, 160)
    context.route(re.compile(r"/places/\d+\.jpg"), lambda route: route.fulfill(body=picture))
    context.route(re.compile(r"/frames/\d+\.jpg"), lambda route: route.fulfill(body=picture))
    return dismissed


def test_undoing_a_cut_in_the_whole_recording_draws_the_boxes_of_the_whole_view(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    whole_recording(context, counted_folder, [], {})
    desk = Desk(counted_folder)
    last = desk.procedure(1)["tracklets"][0]["last_frame"]
    desk.correct(1, {"kind": "cut", "row": 0, "k": 1})
    page = open_page(context, address)
    page.locator("#recording").click()
    boxes_of_first = page.locator("#viewer rect.over.hue-0")
    expect(boxes_of_first).to_have_count(1)
    page.locator("#viewer-range").fill(str(last))
    expect(boxes_of_first).to_have_count(0)
    page.keyboard.press("z")
    expect(boxes_of_first).to_have_count(1)
    assert PAGE_ERRORS[page] == []


def test_places_are_dismissed_by_button_and_key(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    places = [{"frame": k, "at_s": k / 25, "box": [4, 4, 9, 9]} for k in (2, 50, 75, 100)]
    dismissed = whole_recording(context, counted_folder, places, {})
    page = open_page(context, address)
    before = count_of(page)
    tiles = page.locator("[id^=place-]")
    expect(tiles).to_have_count(4)
    # By its button; then by key in the list, and in the viewer. The focus goes to the next.
    page.get_by_role("button", name="Nothing missed: 0:02", exact=True).click()
    expect(tiles).to_have_count(3)
    expect(page.locator("#place-75")).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator("#place-100")).to_be_focused()
    page.locator("#place-2").press("Enter")
    expect(page.locator("#viewer-none")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#viewer .where")).to_contain_text("Picture 4 of")
    expect(page.locator("#viewer-none")).to_have_count(0)
    page.keyboard.press("x")  # no place is in this frame
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#viewer-none")).to_be_visible()
    page.keyboard.press("x")
    expect(page.locator("#viewer-none, #viewer rect.maybe")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#place-100")).to_be_focused()
    assert dismissed == [50, 75, 2]
    assert count_of(page) == before
    # The last one, and nothing is listed.
    page.keyboard.press("x")
    expect(page.locator("#places")).to_have_count(0)
    # A place is added by key in the list too.
    dismissed.clear()
    page.reload()
    page.locator("#place-50").press("a")
    expect(page.locator("[id^=missed-]")).to_be_focused()
    expect(tiles).to_have_count(3)
    assert PAGE_ERRORS[page] == []


def test_a_missed_polyp_is_added_in_the_recording_and_removed(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    place = {"frame": 2, "at_s": 0.08, "box": [4, 4, 9, 9]}
    hidden: dict[str, Any] = {}
    whole_recording(context, counted_folder, [place], hidden)
    page = open_page(context, address)
    before = count_of(page)
    expect(page.locator(".hero")).not_to_contain_text("recording is not available")
    page.locator("#recording").click()
    page.wait_for_selector("#viewer .picture img")
    expect(page.locator("#viewer rect.over")).to_have_count(1)  # the counted view in this frame
    expect(page.locator("#viewer-title")).to_contain_text("Polyp")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#viewer .where")).to_contain_text("Picture 2 of")
    page.keyboard.press("a")
    expect(page.locator("#viewer-add")).to_be_disabled()
    expect(page.locator("#viewer [role=status]")).to_contain_text("Now")
    page.keyboard.press("a")  # one polyp in a frame
    page.keyboard.press("PageUp")  # ten seconds back, at most to the first frame
    expect(page.locator("#viewer .where")).to_contain_text("Picture 1 of")
    expect(page.locator("#viewer-add")).to_be_enabled()
    page.keyboard.press("Escape")
    assert count_of(page) == before + 1
    expect(page.locator(".polyp").last).to_contain_text("added by hand, seen at 0:00")
    page.locator(".polyp").last.locator(".view").click()
    expect(page.locator("#viewer .where")).to_contain_text("Picture 2 of")
    page.keyboard.press("Escape")
    page.locator("[id^=remove-]").click()
    expect(page.locator("[id^=remove-]")).to_have_count(0)
    assert count_of(page) == before
    # The same at a place that the page names.
    page.locator("#place-2").click()
    expect(page.locator("#viewer .where")).to_contain_text("Picture 3 of")
    expect(page.locator("#viewer rect.over.maybe")).to_have_count(1)
    page.keyboard.press("Escape")
    # By keys alone: neither a place nor an added polyp is a view to select or to reject.
    expect(page.locator("#place-2")).to_be_focused()
    for key in ("ArrowUp", "ArrowDown", " "):
        page.keyboard.press(key)
    expect(page.locator("#viewer")).to_be_visible()
    expect(page.locator(".chosen, .message.bad")).to_have_count(0)
    page.keyboard.press("Escape")
    page.locator("#add-2").press("Enter")
    expect(page.locator("[id^=missed-]")).to_be_focused()
    for key in ("x", " "):
        page.keyboard.press(key)
    expect(page.locator("#viewer")).to_be_visible()
    expect(page.locator(".chosen, .message.bad")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#place-2")).to_have_count(0)
    assert count_of(page) == before + 1
    page.locator("[id^=remove-]").press("Enter")
    expect(page.locator("#redo")).to_be_focused()
    page.locator("#place-2").press("Enter")
    page.keyboard.press("a")
    expect(page.locator("#viewer-add")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.locator("[id^=missed-]")).to_be_focused()
    # A whole recording plays to its end.
    page.locator("#recording").click()
    for key in ("End", "ArrowLeft", "ArrowLeft", "ArrowLeft", " "):
        page.keyboard.press(key)
    expect(page.locator("#viewer .where")).to_contain_text("Picture 252 of 252")
    expect(page.locator("#viewer-play")).to_have_attribute("aria-label", "Play")
    page.keyboard.press("Escape")
    # Added polyps are between the others and the views that are left out.
    page.locator("main .strip .view").first.press("x")
    expect(page.locator(".lane .bar").last).to_have_class("bar none")
    # Without the recording.
    hidden |= {"any_frame": False, "recording": False}
    page.reload()
    expect(page.locator(".polyp").last).to_contain_text("This picture cannot be shown.")
    expect(page.locator("#recording, [id^=missed-], [id^=place-]")).to_have_count(0)
    expect(page.locator(".hero")).to_contain_text("recording is not available")
    page.locator(".lane .bar[data-frame]").click()
    page.wait_for_selector("#viewer .stage > *")
    expect(page.locator("#viewer")).not_to_contain_text("close-ups")
    assert PAGE_ERRORS[page] == []


def test_language_and_theme_are_remembered(context: BrowserContext, address: str) -> None:
    page = open_page(context, address)
    expect(page.locator(".unit")).to_have_text(re.compile("polyps?"))
    for language, polyps, procedure in (
        ("de", "Polyp(en)?", "Untersuchung"),
        ("it", "polip[oi]", "Esame"),
    ):
        page.locator("#language").select_option(language)
        for _ in range(2):  # the second time after a reload
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
    assert PAGE_ERRORS[page] == []


@pytest.mark.parametrize("width", [400, 641, 800, 1400])
def test_the_page_fits_any_width(context: BrowserContext, address: str, width: int) -> None:
    page = open_page(context, address, "#/")
    overview = page.evaluate("fetch('/api/overview').then((answer) => answer.json())")
    overview["procedures"][1] |= {"id": LONG_NAME, "corrected": True, "done": True}
    context.route("**/api/overview", lambda route: route.fulfill(json=overview))
    page.reload()
    page.set_viewport_size({"width": width, "height": 850})
    expect(page.locator("#open-1")).to_have_text(LONG_NAME)
    for language in ("en", "de", "it"):
        page.locator("#language").select_option(language)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#open-1").click()
    ask(page)
    for language in ("en", "de", "it"):
        page.locator("#language").select_option(language)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        narrowest = page.evaluate("Math.min(...[...document.querySelectorAll('.strip img')]"
                             ".map(image => image.getBoundingClientRect().width))")  # fmt: skip
        assert narrowest >= 120
    page.locator("#asked-left").click()
    page.wait_for_selector("#viewer .picture img")
    assert page.evaluate("document.querySelector('#viewer').scrollWidth") <= width


def test_a_view_moves_to_the_polyp_shown_although_another_page_changes_its_number(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    desk = Desk(counted_folder)
    desk.correct(1, {"kind": "split", "rows": [0, 1, 2], "others": [3, 4, 5]})
    for rows in ([0, 1, 2], [3, 4, 5]):
        desk.correct(1, {"kind": "merge", "rows": rows})
    page = open_page(context, address)
    page.locator("#view-0").focus()
    page.keyboard.press("v")
    page.wait_for_selector("#to-1")  # the polyp of views 3 to 5
    desk.correct(1, {"kind": "split", "rows": [1, 2], "others": [0]})  # it is the third now
    expect(page.locator("#toast")).to_contain_text("another page")
    page.locator("#to-1").click()
    expect(page.locator("#live")).to_contain_text("Now")
    assert desk.procedure(1)["log"][-1]["others"] == [3, 4, 5]


def test_pages_show_the_corrections_of_other_pages(context: BrowserContext, address: str) -> None:
    first_page, second_page = open_page(context, address), open_page(context, address)
    first_page.locator("main .strip .view").first.focus()
    first_page.keyboard.press("x")
    expect(second_page.locator(".alarms .view")).to_have_count(1)
    assert count_of(second_page) == count_of(first_page)
    expect(second_page.locator("#toast")).to_contain_text("another page")
    # A page that the server cannot answer, and one with a token of an earlier start.
    expect(first_page.locator("#undo")).to_be_enabled()
    first_page.route("**/corrections", lambda route: route.abort())
    first_page.keyboard.press("z")
    expect(first_page.locator("#toast")).to_contain_text("does not answer, so nothing was stored")
    second_page.route("**/corrections", lambda route: route.fulfill(status=403))
    second_page.keyboard.press("z")
    expect(second_page.locator("#toast")).to_contain_text("The review has been started again")
    notice = second_page.locator("#notice [role=alert]")
    second_page.route("**/version", lambda route: route.abort())
    expect(notice).to_contain_text("was closed in the terminal")
    second_page.route("**/version", lambda route: route.fulfill(status=403))
    expect(notice).to_contain_text("has been started again")


def test_a_cut_on_another_page_clears_what_is_kept_by_row(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    page, desk = open_page(context, address), Desk(counted_folder)
    ask(page)
    view = desk.procedure(1)["tracklets"][
        int(str(page.locator("#asked-left").get_attribute("data-row")))
    ]
    for _ in range(view["pictures"] - 1 - view["best"]):
        page.keyboard.press("1")
    stepping = page.locator(".stepping").first
    expect(stepping).to_contain_text("{0}/{0}".format(view["pictures"]))
    page.locator("main .strip .view").first.press(" ")
    expect(page.locator(".chosen")).to_have_count(1)
    desk.correct(1, {"kind": "cut", "row": view["row"], "k": 1})
    expect(page.locator(".chosen")).to_have_count(0)
    pictures = [
        [int(k) for k in re.findall(r"\d+", text)[:2]]
        for text in page.locator(".stepping").all_inner_texts()
    ]
    assert all(k <= n for k, n in pictures), pictures
    desk.correct(1, {"kind": "undo", "of": desk.procedure(1)["undo"]})


def test_a_log_with_a_time_that_is_none_is_shown(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    name = Desk(counted_folder).names[4]  # which no other test corrects
    append_correction(counted_folder / "count", Correction(name, "done", at="gestern"))
    page = open_page(context, address, "#/4")
    page.locator(".log summary").click()
    expect(page.locator(".log li")).to_contain_text("gestern")
    assert PAGE_ERRORS[page] == []


def test_a_page_shows_nothing_of_a_count_after_a_new_one_in_its_folder(
    context: BrowserContext, address: str, counted_folder: Path
) -> None:
    count = counted_folder / "count" / "count.json"
    changed = count.stat().st_mtime_ns
    pages = [open_page(context, address, place) for place in ("#/0", "#/1", "#/")]
    pages[1].locator("#view-0").click()
    expect(pages[1].locator("#viewer")).to_be_visible()
    try:
        os.utime(count, ns=(changed, changed + 1_000_000))
        pages[0].locator("#done").click()
        pages[2].locator("#hand-off").click()
        pages.append(context.new_page())
        pages[3].goto(address.partition("?")[0])
        for page in pages:  # the second one finds it by itself
            expect(page.locator("#notice [role=alert]")).to_contain_text(
                "Start polyplink review again."
            )
            expect(page.locator(".figure, .view, dialog[open], .message")).to_have_count(0)
        for language, text in (("de", "neu."), ("it", "Riavviare")):
            pages[0].locator("#language").select_option(language)
            expect(pages[0].locator("#notice")).to_contain_text(text)
        assert not (counted_folder / "count" / "corrections.jsonl").exists()
    finally:
        os.utime(count, ns=(changed, changed))
    pages[2].reload()
    expect(pages[2].locator("tbody tr")).to_have_count(5)
    statuses = [error for page in pages[:3] for error in PAGE_ERRORS[page]]
    assert all("409" in status for status in statuses), statuses
