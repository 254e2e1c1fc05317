"""The server of a review: its routes, and the requests that it refuses."""

import asyncio
import json
import logging
import os
import re
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from starlette.testclient import TestClient

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import LANGUAGES, catalogue
from polyplink.report.polyps import HUES
from polyplink.serve import guard, server
from polyplink.serve.desk import CountChangedError, Desk
from polyplink.serve.guard import BODY_LIMIT, HEADERS, negotiate_language
from polyplink.serve.handoff import FOLDER, hand_off
from polyplink.serve.server import build_app, serve
from polyplink.streaming import live_page

SCRIPTS = sorted({*server.STATIC, *live_page.STATIC})
PORT, TOKEN = 8123, "t" * 43
HOME = f"http://127.0.0.1:{PORT}"
CORRECT = "/api/procedures/0/corrections"


@pytest.fixture
def client_without_token(desk: Desk) -> Iterator[TestClient]:
    """A client without the token."""
    app = build_app(desk, TOKEN, port=PORT)
    with TestClient(app, base_url=HOME, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(client_without_token: TestClient) -> TestClient:
    """A client that has opened the address with the token."""
    client_without_token.get("/", params={"token": TOKEN})
    return client_without_token


def test_the_token_is_exchanged_for_a_strict_http_only_cookie(
    client_without_token: TestClient,
) -> None:
    response = client_without_token.get("/", params={"token": TOKEN})
    assert (response.status_code, response.headers["location"]) == (303, "/")
    cookie = response.headers["set-cookie"].lower()
    assert cookie.startswith(f"polyplink-{PORT}={TOKEN}")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client_without_token.get("/").status_code == 200


def test_a_folder_that_cannot_be_written_is_named_to_the_page(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "count/reviewed")

    monkeypatch.setattr("polyplink.core.artefacts._temporary", refuse)
    monkeypatch.setattr("polyplink.serve.desk.append_correction", refuse)
    for path, body in (("/api/hand-off", {}), (CORRECT, {"kind": "done"})):
        response = client.post(path, json=body)
        assert (response.status_code, response.json()) == (
            400,
            {"error": "Permission denied at count/reviewed; check the path and its permissions"},
        )
    assert caplog.records == []


def test_requests_without_the_token_are_refused(client_without_token: TestClient) -> None:
    paths = ("/", "/page/review.js", "/api/overview", "/api/version", "/api/hand-off/a.csv", "/x")
    for path in paths:
        for headers in ({}, {"X-Polyplink-Token": TOKEN[:-1]}, {"Cookie": f"polyplink-{PORT}=ü"}):
            raw = {name: value.encode() for name, value in headers.items()}
            assert client_without_token.get(path, headers=raw).status_code == 403, path  # type: ignore[arg-type]
    assert client_without_token.get("/", params={"token": "wrong"}).status_code == 403
    for path in paths:
        client_without_token.cookies.clear()
        assert client_without_token.get(path, params={"token": TOKEN}).status_code in {303, 403}, (
            path
        )
    client_without_token.cookies.clear()
    response = client_without_token.get("/api/version", headers={"X-Polyplink-Token": TOKEN})
    assert response.json() == {"version": 0}


def test_only_127_0_0_1_and_localhost_are_accepted_as_hosts(client: TestClient) -> None:
    for host in ("polyps.example:8123", "127.0.0.1", "127.0.0.1:80", "localhost:8123.example", ""):
        assert client.get("/api/version", headers={"Host": host}).status_code == 403, host
        response = client.get("/", params={"token": TOKEN}, headers={"Host": host})
        assert response.status_code == 403, host
    headers = {"Host": f"localhost:{PORT}", "X-Polyplink-Token": TOKEN}
    assert client.get("/api/version", headers=headers).status_code == 200


def test_pages_of_other_origins_cannot_correct(client: TestClient) -> None:
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
        response = client.post(CORRECT, json={"kind": "done"}, headers=headers)
        assert response.status_code == 403, headers
        assert client.get("/api/version").json()["version"] == 0
    same_origin = {"Origin": HOME, "Sec-Fetch-Site": "same-origin"}
    assert client.post(CORRECT, json={"kind": "done"}, headers=same_origin).status_code == 200


def test_pages_of_other_sites_cannot_show_pictures(client: TestClient) -> None:
    address = "/api/procedures/0/tracklets/0/pictures/0.jpg"
    assert client.get(address, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client.get(address, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_bodies_other_than_small_json_are_refused(client: TestClient) -> None:
    large = json.dumps({"kind": "x" * BODY_LIMIT}).encode()
    as_json = {"Content-Type": "application/json"}
    assert client.post(CORRECT, content=large, headers=as_json).status_code == 413

    def slices() -> Iterator[bytes]:  # without a Content-Length
        yield from (large[at : at + 4096] for at in range(0, len(large), 4096))

    false_length = {"Content-Length": "5", "Transfer-Encoding": "chunked"}
    for headers in (as_json, as_json | false_length):
        assert client.post(CORRECT, content=slices(), headers=headers).status_code == 411
    form = {"Content-Type": "text/plain"}  # a form of another site can send this
    assert client.post(CORRECT, content=b'{"kind": "done"}', headers=form).status_code == 415
    nested = [b"[" * 60_000, b'{"a":' * 10_000, b"[" * 900 + b"]" * 900]
    for body in (b"", b"{", b"[1]", b'"same"', b"\xff", b"9" * 5000, *nested):
        assert client.post(CORRECT, content=body, headers=as_json).status_code == 400
    response = client.post(CORRECT, json={"kind": "<script>"})
    assert (response.status_code, set(response.json())) == (400, {"error"})
    assert client.get("/api/version").json() == {"version": 0}


def test_a_body_that_is_cut_short_is_refused(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    headers = {
        "host": f"127.0.0.1:{PORT}",
        "x-polyplink-token": TOKEN,
        "content-type": "application/json",
        "content-length": "100",
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
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(build_app(desk, TOKEN, port=PORT)(scope, receive, send))
    assert sent[0]["status"] == 400
    assert not caplog.records


UNKNOWN_PATHS = (
    "/page/../server.py",
    "/page/..%2fserver.py",
    "/page/%2e%2e/guard.py",
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


def test_unknown_paths_give_404(client: TestClient, counted_folder: Path) -> None:
    (counted_folder / "count" / "secret.txt").write_text("secret")
    client.post("/api/hand-off", json={})
    for path in UNKNOWN_PATHS:
        response = client.get(path)
        assert response.status_code == 404, path
        assert "secret" not in response.text


def test_every_response_has_the_security_headers(client: TestClient) -> None:
    responses = [
        client.get("/"),
        client.get("/page/review.js"),
        client.get("/api/overview"),
        client.get("/api/procedures/0/tracklets/0/pictures/0.jpg"),
        client.get("/nowhere"),
        client.get("/", headers={"Host": "polyps.example"}),
        client.post(CORRECT, content=b"{"),
    ]
    for response in responses:
        for name, value in HEADERS.items():
            assert response.headers[name] == value, (response.url, name)
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_an_internal_error_does_not_show_its_message(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Desk, index: int) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(Desk, "solve", fail)
    response = client.get("/api/procedures/0")
    assert (response.status_code, "secret" in response.text) == (500, False)
    assert response.headers["x-content-type-options"] == "nosniff"


def test_routes_of_the_page_return_data_and_pictures(client: TestClient) -> None:
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
    assert len(client.get("/api/procedures/0/tracklets/3/boxes").json()["boxes"]) == 32
    assert len(client.get("/api/procedures/0/tracklets/3/similar").json()) == 17
    for path in ("tracklets/0/pictures/0.jpg?size=640", "frames/5.jpg"):
        picture = client.get(f"/api/procedures/0/{path}")
        assert picture.headers["content-type"] == "image/jpeg"
        assert picture.content.startswith(b"\xff\xd8")


def test_nothing_of_a_count_is_served_after_a_new_one_in_its_folder(
    client: TestClient, desk: Desk
) -> None:
    count = desk.out / "count.json"
    aside = count.with_name("aside.json")
    changed = count.stat().st_mtime_ns
    view = "/api/procedures/0/tracklets/0"
    pictures = (f"{view}/pictures/0.jpg", "/api/procedures/0/frames/5.jpg")
    paths = ("/api/version", "/api/overview", "/api/procedures/0", f"{view}/similar", *pictures)

    def statuses() -> set[int]:
        answers = [client.get(path) for path in paths]
        answers += [
            client.post(CORRECT, json={"kind": "done"}),
            client.post("/api/hand-off", json={}),
        ]
        assert all(
            answer.json()["error"].endswith("start `polyplink review` again")
            for answer in answers
            if answer.status_code == 409
        )
        return {answer.status_code for answer in answers}

    try:
        os.utime(count, ns=(changed, changed + 1_000_000))  # the next count
        assert statuses() == {409}
        os.utime(count, ns=(changed, changed))
        count.rename(aside)  # removed, or not yet written
        assert statuses() == {409}
        assert not (desk.out / "corrections.jsonl").exists()
        aside.rename(count)
        count.write_bytes(content := count.read_bytes())
        assert statuses() == {409}
        with pytest.raises(CountChangedError, match="holds another count now, or none"):
            hand_off(desk)
    finally:
        if aside.exists():
            aside.rename(count)
        os.utime(count, ns=(changed, changed))
    assert count.read_bytes() == content
    assert statuses() == {200}


def test_files_of_a_hand_off_are_served_by_name(client: TestClient, desk: Desk) -> None:
    assert client.get("/api/hand-off/polyps.csv").status_code == 404  # nothing written yet
    listed_files = client.post("/api/hand-off", json={}).json()["files"]
    for file in listed_files:
        assert len(client.get(f"/api/hand-off/{file['name']}").content) == file["bytes"]
    locked = desk.out / FOLDER / "~$polyps.xlsx"  # of a spreadsheet program, while it has the file
    for is_open in (True, False):
        if is_open:
            locked.write_bytes(b"user")
        else:
            locked.unlink()
        names = {file["name"] for file in client.post("/api/hand-off", json={}).json()["files"]}
        assert names == {file["name"] for file in listed_files} | (
            {locked.name} if is_open else set()
        )
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
def test_the_language_of_the_cookie_precedes_that_of_the_browser(
    cookie: str | None, accepted: str, language: str
) -> None:
    assert negotiate_language(cookie, accepted) == language


def test_the_page_opens_in_the_chosen_language_and_colours(client: TestClient) -> None:
    assert (
        '<html lang="de" data-theme="auto">'
        in client.get("/", headers={"Accept-Language": "de"}).text
    )
    client.cookies.update({"polyplink-language": "it", "polyplink-theme": "dark"})
    assert '<html lang="it" data-theme="dark">' in client.get("/").text


def test_pages_get_the_texts_of_every_language_and_have_no_others(client: TestClient) -> None:
    texts = client.get("/api/messages").json()
    assert texts == {language: catalogue(language) for language in LANGUAGES}
    page = files("polyplink.serve").joinpath("page")
    for name in SCRIPTS:
        code = re.sub(r"//.*|/\*.*?\*/", "", page.joinpath(name).read_text())
        visible = re.findall(r"[\"`]([A-Z]?[a-z]+ [a-z][^\"`{<=:;,/-]*[a-z.])[\"`]", code)
        assert not [text for text in visible if text[0].isupper()], name
    handoff = page.joinpath("handoff.html.j2").read_text().partition("<body>")[2]
    seen = re.sub(r"{[{%#].*?[}%#]}|<[^>]*>", "", handoff)
    assert set(re.findall(r"[A-Za-z]{3,}", seen)) == {"UTC"}


def test_the_page_has_the_colours_of_the_report_and_scripts_write_no_html() -> None:
    page = files("polyplink.serve").joinpath("page")
    style = page.joinpath("review.css").read_text()
    for host_and_port, hue in enumerate(HUES):
        assert f".hue-{host_and_port} {{ --hue: {hue};" in style
    for name in SCRIPTS:
        code = page.joinpath(name).read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", code)
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", code), name


def test_a_used_port_is_refused_with_the_option_to_set(desk: Desk) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(PolyplinkError, match="--port"):
            serve(desk, port=listener.getsockname()[1], ready=pytest.fail)


@contextmanager
def serve_in_thread(build: Callable[[str, int], Any]) -> Iterator[tuple[tuple[str, int], str]]:
    """Run a server for this machine only; its host and port, and the token."""
    with guard.local_server(build, 0) as address:  # of the listening socket
        place = urlsplit(address)
        assert place.hostname == "127.0.0.1"
        assert place.port is not None
        yield (place.hostname, place.port), address.partition("token=")[2]


def test_a_server_leaves_the_log_file_of_the_program_open(desk: Desk, tmp_path: Path) -> None:
    handler = logging.FileHandler(tmp_path / "program.log", mode="w")
    with serve_in_thread(lambda token, port: build_app(desk, token, port=port)):
        handler.emit(logging.makeLogRecord({"msg": "still open"}))
    handler.close()
    assert (tmp_path / "program.log").read_text() == "still open\n"


def test_a_hundred_large_requests_need_little_memory(desk: Desk) -> None:
    kinds = {
        "POST": b"Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n" + b"x" * 50_000,
        "PUT": b"Content-Length: 900000000\r\n\r\n" + b"x" * 200_000,
        "GET": b"\r\n",
    }
    paths = {"POST": CORRECT, "PUT": "/", "GET": "/api/messages"}
    with serve_in_thread(lambda token, port: build_app(desk, token, port=port)) as (
        host_and_port,
        token,
    ):
        host = f"127.0.0.1:{host_and_port[1]}"
        head = f" HTTP/1.1\r\nHost: {host}\r\nX-Polyplink-Token: {token}\r\n".encode()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        clients, answers = [], list[bytes]()
        for number in range(100):
            kind = [*kinds][number % 3]
            client = socket.create_connection(host_and_port, timeout=60)
            with suppress(ConnectionError):
                client.sendall(f"{kind} {paths[kind]}".encode() + head + kinds[kind])
            # Read some responses at once: a server that sees all 100 clients first refuses all.
            if number < 9 and kind == "GET":
                answers.append(client.recv(12))
                client.close()
            else:
                clients.append(client)
        for client in clients:
            with suppress(ConnectionError):
                answers.append(client.recv(12))
            client.close()
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert growth < 100 * 1024  # KiB
        assert {b"HTTP/1.1 200", b"HTTP/1.1 413"} <= {*answers}
        assert {*answers} <= {b"", *(b"HTTP/1.1 %d" % code for code in (200, 405, 413, 503))}
        with socket.create_connection(host_and_port, timeout=60) as client:
            client.sendall(b"GET /api/messages" + head + b"\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"


def test_large_headers_are_refused() -> None:
    def page(token: str, port: int) -> Any:
        return guard.page_app("review.html", {}, [], token, port=port, verb="review")

    with (
        serve_in_thread(page) as (host_and_port, _),
        socket.create_connection(host_and_port, timeout=5) as large_client,
    ):
        large_client.sendall(b"GET / HTTP/1.1\r\nX-Huge: " + b"x" * 200_000)
        assert large_client.recv(100).startswith(b"HTTP/1.1 400")
