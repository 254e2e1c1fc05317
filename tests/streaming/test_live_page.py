"""The page of a live procedure: new states, refused requests, and slow readers."""

import json
import resource
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from starlette.testclient import TestClient

from polyplink.serve.guard import HEADERS
from polyplink.streaming import live_page
from polyplink.streaming.live_page import LivePage, build_app, serving

PORT, TOKEN = 8124, "t" * 43
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class ServedPage:
    """A served page, the state it shows, and its clients."""

    pictures: Path
    state: bytes = b'{"count": 0}'
    address: str = ""
    token: str = ""
    sockets: list[socket.socket] = field(default_factory=list)

    def open(self, path: str = "/api/states", token: str | None = None) -> socket.socket:
        """Connect a client that has sent its request and reads nothing yet."""
        url = urlsplit(self.address)
        client = socket.create_connection((url.hostname, url.port or 0), timeout=10)
        self.sockets.append(client)
        head = f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\n"
        client.sendall(f"{head}X-Polyplink-Token: {token or self.token}\r\n\r\n".encode())
        return client


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedPage]:
    (tmp_path / "00003.jpg").write_bytes(b"\xff\xd8jpeg")
    (tmp_path / "events.jsonl").write_text("secret")
    served_page = ServedPage(tmp_path)
    page = LivePage(lambda: served_page.state, tmp_path, tmp_path / "report.html")
    with serving(page, 0):
        served_page.address, served_page.token = (
            page.address,
            parse_qs(urlsplit(page.address).query)["token"][0],
        )
        yield served_page
        for client in served_page.sockets:
            client.close()


def read_until(client: socket.socket, text: bytes) -> bytes:
    """What a client receives until a text appears."""
    received = b""
    while text not in received:
        data = client.recv(65536)
        assert data, received
        received += data
    return received


def test_a_page_receives_the_newest_state_when_it_changes(served: ServedPage) -> None:
    client = served.open()
    head = read_until(client, b'data: {"count": 0}\n\n')
    assert b"text/event-stream" in head
    for name in HEADERS:
        assert name.encode() in head.lower()
    for count in range(1, 6):
        served.state = json.dumps({"count": count}).encode()
    assert b'{"count": 1}' not in read_until(client, b'data: {"count": 5}\n\n')
    client.close()


def test_requests_without_the_token_or_from_other_sites_are_refused(tmp_path: Path) -> None:
    (tmp_path / "00003.jpg").write_bytes(b"\xff\xd8jpeg")
    page = LivePage(lambda: b"{}", tmp_path, tmp_path / "report.html")
    app = build_app(page, TOKEN, port=PORT)
    home, token = f"http://127.0.0.1:{PORT}", {"X-Polyplink-Token": TOKEN}
    with TestClient(app, base_url=home, follow_redirects=False) as client:
        for path in ("/", "/page/live.js", "/api/states", "/api/pictures/3.jpg", "/api/messages"):
            assert client.get(path).status_code == 403
            assert client.get(path, headers={"X-Polyplink-Token": "x"}).status_code == 403
            other_host = token | {"Host": "polyps.example:8124"}
            assert client.get(path, headers=other_host).status_code == 403
            if path != "/":
                cross_site = token | {"Sec-Fetch-Site": "cross-site"}
                assert client.get(path, headers=cross_site).status_code == 403
        text = client.get("/").text
        assert "`polyplink live` printed" in text
        for path in ("/", "/page/live.js", "/page/live.css", "/api/messages"):
            assert client.get(path, headers=token).status_code == 200
        picture = client.get("/api/pictures/3.jpg", headers=token)
        assert (picture.content, picture.headers["content-type"]) == (b"\xff\xd8jpeg", "image/jpeg")
        for path in (
            "/api/pictures/4.jpg",
            "/api/pictures/-1.jpg",
            f"/api/pictures/{'9' * 5000}.jpg",
            "/api/pictures/..%2fevents.jsonl",
            "/api/pictures/%2fetc%2fpasswd.jpg",
            "/page/live.html",
            "/page/review.js",
            "/events.jsonl",
        ):
            assert client.get(path, headers=token).status_code == 404, path
        response = client.post("/api/states", json={}, headers=token)
        assert response.status_code == 405
        large_response = client.post("/api/states", content=b"x" * 100_000, headers=token)
        assert large_response.status_code == 415


def test_closing_the_server_closes_open_pages_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    served_page = ServedPage(tmp_path)
    page = LivePage(lambda: served_page.state, tmp_path, report)
    with serving(page, 0):
        served_page.address, served_page.token = (
            page.address,
            parse_qs(urlsplit(page.address).query)["token"][0],
        )
        reader, silent = served_page.open(), served_page.open()
        assert (
            silent.recv(12) == b"HTTP/1.1 200"
        )  # the server has the request; the client reads no further
        read_until(reader, b'data: {"count": 0}\n\n')
        read_until(served_page.open("/api/report"), b"no report yet")
        report.write_text("<p>the report")
        read_until(served_page.open("/api/report"), b"<p>the report")
        assert page.open == 2
        served_page.state = b'{"finished": true}'
        start = time.monotonic()
    read_until(reader, served_page.state)  # sent although the server closes at once
    assert time.monotonic() - start < 1.5  # no request had to be cancelled
    assert not page.open
    assert not any(thread.name == "page" for thread in threading.enumerate())
    silent.close()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_hundred_slow_readers_need_little_memory(
    served: ServedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "LOOK_SECONDS", 0.01)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clients, answers = [], []
    for _ in range(100):  # one after the other, because the server may refuse all at once
        clients.append(served.open())
        answers.append(clients[-1].recv(12))  # none of them reads further
    assert {*answers} == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
    for count in range(100):
        served.state = json.dumps({"count": count, "filling": "x" * 200_000}).encode()
        time.sleep(0.01)
    time.sleep(1.5)
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth < 100 * 1024  # KiB; 100 states of 200 kB to 100 pages would be 2 GB
    for client in clients:
        client.close()
    served.state = b'{"count": 7}'
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:  # disconnected clients free their places
        client_again = served.open()
        if client_again.recv(12) == b"HTTP/1.1 200":
            break
        time.sleep(0.1)
    read_until(client_again, b'data: {"count": 7}')


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_page_shows_the_newest_view_and_in_the_end_only_the_final_count(
    served: ServedPage,
) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    view = {"tracklet": "a:3", "time": 40.0, "start": 31.0, "number": 2, "certain": True}
    moved = {"time": 40.0, "number_before": 3, "number": 2}
    polyp = {"polyp": 2, "views": 3, "picture": 3, "first": 9.0, "last": 39.0}
    state = {
        "count": 2, "low": 1, "high": 3, "time": 41.0, "open": [], "polyps": [polyp],
        "card": view | {"probability": 0.9, "seen_before": {"tracklet": "a:3", "clock": "0:09"}},
        "revised": [moved | {"time": 20.0}, moved, moved],
        "warnings": {"en": ["Look."], "de": ["Ansehen."]}, "basis": {"en": []}, "finished": None,
        "broke_off": {"en": []},
    }  # fmt: skip
    served.state = json.dumps(state).encode()
    errors: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(locale="de-DE")
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(served.address)
        status, main = page.get_by_role("status"), page.get_by_role("main")
        sync_api.expect(status).to_have_text("Polyp 2: schon gesehen bei 0:09. 2 Polypen.")
        sync_api.expect(page.get_by_role("list", name="Warnungen")).to_have_text("Ansehen.")
        for text in ("Konfidenz, dass es Polyp 2 ist: 90 %", "diese Ansicht, bei 0:31"):
            sync_api.expect(main).to_contain_text(text)
        sync_api.expect(main.get_by_text("frühere")).to_have_text(
            "2 frühere Ansichten, bisher von Polyp 3, gehören zu Polyp 2."
        )
        maybe = view | {"probability": 0.22, "seen_before": None, "certain": False, "new": True}
        served.state = json.dumps(state | {"card": maybe}).encode()
        title = "Polyp 2: als neu gezählt, vielleicht aber schon gesehen"
        sync_api.expect(status).to_have_text(f"{title}. 2 Polypen.")
        sync_api.expect(main).to_contain_text("Konfidenz, dass er noch nicht gesehen wurde: 22 %")
        finished = {"count": 4, "low": None, "high": None, "review": "http://127.0.0.1:1/"}
        served.state = json.dumps(state | {"finished": finished}).encode()
        sync_api.expect(status).to_contain_text("zu Ende")
        sync_api.expect(page.get_by_role("heading")).to_have_text(["4 Polypen"])
        sync_api.expect(main).to_contain_text("kein 90-%-Intervall")
        assert [link.get_attribute("href") for link in main.get_by_role("link").all()] == [
            "/api/report",
            "http://127.0.0.1:1/",
        ]
        broke_off = {"broke_off": {"en": ["It broke off."]}, "finished": finished}
        served.state = json.dumps(state | broke_off).encode()
        sync_api.expect(status).to_contain_text("It broke off. Dies ist die endgültige Zahl bis")
        warnings = page.get_by_role("list", name="Warnungen").get_by_role("listitem")
        sync_api.expect(warnings).to_have_text(["It broke off.", "Ansehen."])
        assert "zu Ende" not in main.inner_text()
        browser.close()
    assert errors == []
