"""The server of the review desk: its routes, and everybody whom it refuses."""

import asyncio
import json
import re
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from starlette.testclient import TestClient

from polyplink.core.errors import PolyplinkError
from polyplink.report.polyps import HUES
from polyplink.serve import guard, server
from polyplink.serve.desk import Desk
from polyplink.serve.guard import BODY_LIMIT, HEADERS, negotiated
from polyplink.serve.server import build_app, serve
from polyplink.streaming import live_page

SCRIPTS = sorted({*server.STATIC, *live_page.STATIC})
PORT, TOKEN = 8123, "t" * 43
HOME = f"http://127.0.0.1:{PORT}"
CORRECT = "/api/procedures/0/corrections"


@pytest.fixture
def stranger(desk: Desk) -> Iterator[TestClient]:
    """A client without the token."""
    app = build_app(desk, TOKEN, port=PORT)
    with TestClient(app, base_url=HOME, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient) -> TestClient:
    """A client that opened the address with the token."""
    stranger.get("/", params={"token": TOKEN})
    return stranger


def test_the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use(
    stranger: TestClient,
) -> None:
    entered = stranger.get("/", params={"token": TOKEN})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"].lower()
    assert cookie.startswith(f"polyplink-{PORT}={TOKEN}")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200


def test_nothing_is_answered_without_the_token(stranger: TestClient) -> None:
    paths = ("/", "/page/review.js", "/api/overview", "/api/version", "/api/hand-off/a.csv", "/x")
    for path in paths:
        for headers in ({}, {"X-Polyplink-Token": TOKEN[:-1]}, {"Cookie": f"polyplink-{PORT}=ü"}):
            raw = {name: value.encode() for name, value in headers.items()}
            assert stranger.get(path, headers=raw).status_code == 403, path  # type: ignore[arg-type]
    assert stranger.get("/", params={"token": "wrong"}).status_code == 403
    for path in paths:
        stranger.cookies.clear()
        assert stranger.get(path, params={"token": TOKEN}).status_code in {303, 403}, path
    stranger.cookies.clear()
    held = stranger.get("/api/version", headers={"X-Polyplink-Token": TOKEN})
    assert held.json() == {"version": 0}


def test_foreign_hosts_are_refused_and_this_machine_has_two_names(client: TestClient) -> None:
    for host in ("polyps.example:8123", "127.0.0.1", "127.0.0.1:80", "localhost:8123.example", ""):
        assert client.get("/api/version", headers={"Host": host}).status_code == 403, host
        entered = client.get("/", params={"token": TOKEN}, headers={"Host": host})
        assert entered.status_code == 403, host
    named = {"Host": f"localhost:{PORT}", "X-Polyplink-Token": TOKEN}
    assert client.get("/api/version", headers=named).status_code == 200


def test_other_pages_cannot_correct(client: TestClient) -> None:
    origins = (
        "https://polyps.example",
        "null",
        "http://127.0.0.1:9999",
        f"https://127.0.0.1:{PORT}",
    )
    sites = ("cross-site", "same-site", "none")  # same-site: another port of this machine
    for headers in (
        *({"Origin": origin} for origin in origins),
        *({"Sec-Fetch-Site": site} for site in sites),
    ):
        refused = client.post(CORRECT, json={"kind": "done"}, headers=headers)
        assert refused.status_code == 403, headers
        assert client.get("/api/version").json()["version"] == 0
    own = {"Origin": HOME, "Sec-Fetch-Site": "same-origin"}
    assert client.post(CORRECT, json={"kind": "done"}, headers=own).status_code == 200


def test_other_pages_cannot_show_pictures(client: TestClient) -> None:
    address = "/api/procedures/0/tracklets/0/pictures/0.jpg"
    assert client.get(address, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client.get(address, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_bodies_are_small_json(client: TestClient) -> None:
    large = json.dumps({"kind": "x" * BODY_LIMIT}).encode()
    as_json = {"Content-Type": "application/json"}
    assert client.post(CORRECT, content=large, headers=as_json).status_code == 413

    def slices() -> Iterator[bytes]:  # without a Content-Length
        yield from (large[at : at + 4096] for at in range(0, len(large), 4096))

    assert client.post(CORRECT, content=slices(), headers=as_json).status_code == 413
    form = {"Content-Type": "text/plain"}  # what a foreign form can send without being asked
    assert client.post(CORRECT, content=b'{"kind": "done"}', headers=form).status_code == 415
    deep = [b"[" * 60_000, b'{"a":' * 10_000, b"[" * 900 + b"]" * 900]
    for body in (b"", b"{", b"[1]", b'"same"', b"\xff", b"9" * 5000, *deep):
        assert client.post(CORRECT, content=body, headers=as_json).status_code == 400
    wrong = client.post(CORRECT, json={"kind": "<script>"})
    assert (wrong.status_code, set(wrong.json())) == (400, {"error"})
    assert client.get("/api/version").json() == {"version": 0}


@pytest.mark.parametrize("gone", [False, True])
def test_a_body_that_does_not_arrive_is_not_waited_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.01)
    headers = {
        "host": f"127.0.0.1:{PORT}",
        "x-polyplink-token": TOKEN,
        "content-type": "application/json",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": CORRECT,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if gone:
            return {"type": "http.disconnect"}
        await asyncio.sleep(60)
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(build_app(desk, TOKEN, port=PORT)(scope, receive, send))
    assert sent[0]["status"] == (400 if gone else 408)


NOWHERE = (
    "/page/../server.py",
    "/page/..%2fserver.py",
    "/page/%2e%2e/messages.json",
    "/page/review.html",
    "/api/hand-off/../corrections.jsonl",
    "/api/hand-off/..%2f..%2fcorrections.jsonl",
    "/api/hand-off/%2fetc%2fpasswd",
    "/api/hand-off/mot/../../secret.txt",
    "/api/procedures/99",
    "/api/procedures/-1",
    "/api/procedures/0.5",
    "/api/procedures/0/tracklets/99/boxes",
    "/api/procedures/0/tracklets/0/pictures/0.jpg?size=100000",
    "/api/procedures/0/tracklets/0/pictures/../../0.jpg",
    "/api/procedures/0/frames/x.jpg",
    *(
        path.replace("N", "9" * digits)
        for digits in (9, 20, 5000)
        for path in (
            "/api/procedures/N",
            "/api/procedures/N/tracklets/0/boxes",
            "/api/procedures/0/tracklets/N/similar",
            "/api/procedures/0/tracklets/0/pictures/N.jpg",
            "/api/procedures/0/frames/N.jpg",
        )
    ),
    "/docs",
    "/redoc",
    "/openapi.json",
)


def test_unknown_names_and_numbers_lead_nowhere(client: TestClient, counted: Path) -> None:
    (counted / "count" / "secret.txt").write_text("secret")
    client.post("/api/hand-off", json={})
    for path in NOWHERE:
        refused = client.get(path)
        assert refused.status_code == 404, path
        assert "secret" not in refused.text


def test_every_answer_has_the_headers_of_safety(client: TestClient) -> None:
    answers = [
        client.get("/"),
        client.get("/page/review.js"),
        client.get("/api/overview"),
        client.get("/api/procedures/0/tracklets/0/pictures/0.jpg"),
        client.get("/nowhere"),
        client.get("/", headers={"Host": "polyps.example"}),
        client.post(CORRECT, content=b"{"),
    ]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, (answer.url, name)
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_fault_of_the_desk_is_one_line_without_its_inside(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Desk, index: int) -> None:
        raise RuntimeError("secret of the inside")

    monkeypatch.setattr(Desk, "solve", fail)
    failed = client.get("/api/procedures/0")
    assert (failed.status_code, "secret" in failed.text) == (500, False)
    assert failed.headers["x-content-type-options"] == "nosniff"


def test_what_the_page_asks_is_answered(client: TestClient) -> None:
    overview = client.get("/api/overview").json()
    before = client.get("/api/procedures/1").json()
    assert (overview["reviewer"], len(overview["procedures"])) == ("Dr. Rossi", 5)
    assert overview["procedures"][1]["polyps"] == before["polyps"]
    answer = {"kind": "not_polyp", "rows": [*range(1, 6)]}
    after = client.post("/api/procedures/1/corrections", json=answer).json()
    assert after["polyps"] == 1
    assert after["log"][0]["reviewer"] == "Dr. Rossi"
    undone = client.post(
        "/api/procedures/1/corrections", json={"kind": "undo", "of": after["undo"]}
    ).json()
    assert undone["polyps"] == before["polyps"]
    assert client.get("/api/version").json()["version"] > 0
    assert client.get("/api/procedures/0/tracklets/3/boxes").json()["width"] == 48
    assert len(client.get("/api/procedures/0/tracklets/3/similar").json()) == 17
    for path in ("tracklets/0/pictures/0.jpg?size=640", "frames/5.jpg"):
        picture = client.get(f"/api/procedures/0/{path}")
        assert picture.headers["content-type"] == "image/jpeg"
        assert picture.content.startswith(b"\xff\xd8")


def test_written_files_are_handed_out_by_name(client: TestClient) -> None:
    assert client.get("/api/hand-off/polyps.csv").status_code == 404  # nothing written yet
    written = client.post("/api/hand-off", json={}).json()["files"]
    for file in written:
        assert len(client.get(f"/api/hand-off/{file['name']}").content) == file["bytes"]
    table = client.get("/api/hand-off/polyps.csv")
    assert table.headers["content-disposition"].startswith("attachment")
    report = client.get("/api/hand-off/report.html").headers
    assert report["content-disposition"].startswith("inline")
    assert report["content-security-policy"].endswith("sandbox")
    assert "script-src" not in report["content-security-policy"]


@pytest.mark.parametrize(
    ("cookie", "accepted", "language"),
    [
        (None, "", "en"),
        (None, "de-AT,de;q=0.9,en;q=0.5", "de"),
        (None, "fr, it;q=0.8, de;q=0.9", "de"),
        (None, "de;q=0, it;q=x, *", "en"),
        ("it", "de", "it"),
        ("../en", "de", "de"),
    ],
)
def test_the_language_is_the_chosen_one_else_the_browsers(
    cookie: str | None, accepted: str, language: str
) -> None:
    assert negotiated(cookie, accepted) == language


def test_the_page_opens_in_the_chosen_language_and_colours(client: TestClient) -> None:
    assert (
        '<html lang="de" data-theme="auto">'
        in client.get("/", headers={"Accept-Language": "de"}).text
    )
    client.cookies.update({"polyplink-language": "it", "polyplink-theme": "dark"})
    assert '<html lang="it" data-theme="dark">' in client.get("/").text


def test_the_catalogue_is_whole(client: TestClient) -> None:
    catalogue = client.get("/api/messages").json()
    assert tuple(catalogue) == guard.LANGUAGES
    english = catalogue["en"]
    for messages in catalogue.values():
        assert list(messages) == list(english)
        for key, text in messages.items():
            assert text, key
            assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", english[key])), key
    page = files("polyplink.serve").joinpath("page")
    scripts = "".join(page.joinpath(name).read_text() for name in SCRIPTS)
    named = set(re.findall(r'\bt\(\s*"([\w.]+)"', scripts))
    assert named <= set(english)
    counted = set(re.findall(r'\bcount\(\s*"([\w.]+)"', scripts))
    assert {f"{key}.{form}" for key in counted for form in ("one", "other")} <= set(english)
    started = tuple(re.findall(r"\b(?:t|has)\(`([\w.]+)\$", scripts)) + tuple(counted)
    used = set(re.findall(r'"([\w.]+)"', scripts))
    started += ("handoff.", "decimal")  # which the hand-off writes
    idle = [key for key in english if key not in used and not key.startswith(started)]
    assert idle == []


# Messages that are the same word, or no word, in another language.
SAME = {
    "de": "polyp researcher.id researcher.polyp researcher.frames handoff.polyp live.polyp",
    "it": "polyp.adenoma researcher.id",
}


def test_no_text_of_the_pages_is_left_in_english(client: TestClient) -> None:
    messages = client.get("/api/messages").json()
    for language, same in SAME.items():
        left = [
            key
            for key, text in messages[language].items()
            if text == messages["en"][key] and re.search(r"[a-z]{3}", re.sub(r"{\w+}", "", text))
        ]
        assert left == same.split(), language
    page = files("polyplink.serve").joinpath("page")
    for name in SCRIPTS:  # what is shown comes from the messages
        code = re.sub(r"//.*|/\*.*?\*/", "", page.joinpath(name).read_text())
        texts = re.findall(r"[\"`]([A-Z]?[a-z]+ [a-z][^\"`{<=:;,/-]*[a-z.])[\"`]", code)
        assert not [text for text in texts if text[0].isupper()], name
    handoff = page.joinpath("handoff.html.j2").read_text().partition("<body>")[2]
    visible = re.sub(r"{[{%#].*?[}%#]}|<[^>]*>", "", handoff)
    assert set(re.findall(r"[A-Za-z]{3,}", visible)) == {"UTC"}


def test_the_page_has_the_colours_of_the_report_and_writes_no_markup() -> None:
    page = files("polyplink.serve").joinpath("page")
    style = page.joinpath("review.css").read_text()
    for place, hue in enumerate(HUES):
        assert f".hue-{place} {{ --hue: {hue};" in style
    for name in SCRIPTS:
        code = page.joinpath(name).read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", code)
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", code), name


def test_a_port_that_is_taken_is_an_error_of_one_line(desk: Desk) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PolyplinkError, match="--port"):
            serve(desk, port=other.getsockname()[1], ready=pytest.fail)


@contextmanager
def served(build: Callable[[str, int], Any]) -> Iterator[tuple[tuple[str, int], str]]:
    """A running server, for this machine alone: host and port, and the token."""
    one, listening, address = guard.local_server(build, 0)
    assert listening.getsockname()[0] == "127.0.0.1"
    running = threading.Thread(target=one.run, kwargs={"sockets": [listening]})
    running.start()
    try:
        yield listening.getsockname(), address.partition("token=")[2]
    finally:
        one.should_exit = True
        running.join()


def test_a_hundred_clients_with_slow_and_large_requests_cost_no_memory(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.2)
    kinds = {
        "POST": b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n" + b"x" * 50_000,
        "PUT": b"Content-Length: 900000000\r\n\r\n" + b"x" * 200_000,
        "GET": b"\r\n",
    }
    asked = {"POST": CORRECT, "PUT": "/", "GET": "/api/messages"}
    with served(lambda token, port: build_app(desk, token, port=port)) as (place, token):
        head = f" HTTP/1.1\r\nHost: 127.0.0.1:{place[1]}\r\nX-Polyplink-Token: {token}\r\n".encode()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        clients, answers = [], list[bytes]()
        for number in range(100):
            kind = [*kinds][number % 3]
            client = socket.create_connection(place, timeout=60)
            with suppress(ConnectionError):
                client.sendall(f"{kind} {asked[kind]}".encode() + head + kinds[kind])
            # Where the server gets no turn before all hundred are there, it refuses every one.
            if number < 9 and kind == "GET":
                answers.append(client.recv(12))
                client.close()
            else:
                clients.append(client)
        for client in clients:
            with suppress(ConnectionError):
                answers.append(client.recv(12))
            client.close()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 100 * 1024  # KiB
        assert {b"HTTP/1.1 200", b"HTTP/1.1 408"} <= {*answers}
        assert {*answers} <= {b"", *(b"HTTP/1.1 %d" % code for code in (200, 405, 408, 503))}
        with socket.create_connection(place, timeout=60) as client:
            client.sendall(b"GET /api/messages" + head + b"\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"


def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "HEADER_SECONDS", 0.2)

    def page(token: str, port: int) -> Any:
        return guard.page_app("review.html", {}, [], token, port=port, verb="review")

    with served(page) as (place, _):
        with socket.create_connection(place, timeout=5) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
            assert slow.recv(100) == b""  # closed, without an answer
        with socket.create_connection(place, timeout=5) as huge:
            huge.sendall(b"GET / HTTP/1.1\r\nX-Huge: " + b"x" * 200_000)
            assert huge.recv(100).startswith(b"HTTP/1.1 400")
