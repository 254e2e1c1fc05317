"""The page of a running procedure: states as they come, and everybody whom it refuses."""

import http.client
import json
import resource
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

from polyplink.core.errors import PolyplinkError
from polyplink.serve.guard import HEADERS
from polyplink.streaming import live_page as live
from polyplink.streaming.live_page import LivePage, build_app, serving

PORT, TOKEN = 8124, "t" * 43


@dataclass
class Running:
    """A served page and what it shows."""

    pictures: Path
    state: bytes = b'{"count": 0}'
    address: str = ""
    token: str = ""
    sockets: list[socket.socket] = field(default_factory=list)

    def open(self, path: str = "/api/states", token: str | None = None) -> socket.socket:
        """A client that has asked, and reads nothing yet."""
        place = urlsplit(self.address)
        client = socket.create_connection((place.hostname, place.port or 0), timeout=10)
        self.sockets.append(client)
        head = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n"
        client.sendall(f"{head}X-Polyplink-Token: {token or self.token}\r\n\r\n".encode())
        return client


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "00003.jpg").write_bytes(b"\xff\xd8jpeg")
    (tmp_path / "events.jsonl").write_text("secret")
    one = Running(tmp_path)
    with serving(lambda: one.state, tmp_path, tmp_path / "report.html", 0) as page:
        one.address, one.token = page.address, parse_qs(urlsplit(page.address).query)["token"][0]
        yield one
        for client in one.sockets:
            client.close()


def read_until(client: socket.socket, text: bytes) -> bytes:
    found = b""
    while text not in found:
        part = client.recv(65536)
        assert part, found
        found += part
    return found


def test_states_come_when_they_change_and_a_page_gets_the_newest(running: Running) -> None:
    client = running.open()
    head = read_until(client, b'data: {"count": 0}\n\n')
    assert b"text/event-stream" in head
    for name in HEADERS:
        assert name.encode() in head.lower()
    for count in range(1, 6):
        running.state = json.dumps({"count": count}).encode()
    assert b'{"count": 1}' not in read_until(client, b'data: {"count": 5}\n\n')
    client.close()


def test_nobody_without_the_token_and_no_other_page_sees_anything(tmp_path: Path) -> None:
    (tmp_path / "00003.jpg").write_bytes(b"\xff\xd8jpeg")
    page = LivePage(lambda: b"{}", tmp_path, tmp_path / "report.html")
    app = build_app(page, TOKEN, port=PORT)
    home, token = f"http://127.0.0.1:{PORT}", {"X-Polyplink-Token": TOKEN}
    with TestClient(app, base_url=home, follow_redirects=False) as client:
        for path in ("/", "/page/live.js", "/api/states", "/api/pictures/3.jpg", "/api/messages"):
            assert client.get(path).status_code == 403
            assert client.get(path, headers={"X-Polyplink-Token": "x"}).status_code == 403
            foreign = token | {"Host": "polyps.example:8124"}
            assert client.get(path, headers=foreign).status_code == 403
            if path != "/":
                cross = token | {"Sec-Fetch-Site": "cross-site"}
                assert client.get(path, headers=cross).status_code == 403
        said = client.get("/").text
        assert "`polyplink live` printed" in said
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
        posted = client.post("/api/states", json={}, headers=token)
        assert posted.status_code == 405
        large = client.post("/api/states", content=b"x" * 100_000, headers=token)
        assert large.status_code == 415


def test_the_end_closes_open_pages_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    one = Running(tmp_path)
    with serving(lambda: one.state, tmp_path, report, 0) as page:
        one.address, one.token = page.address, parse_qs(urlsplit(page.address).query)["token"][0]
        watching, deaf = one.open(), one.open()
        assert deaf.recv(12) == b"HTTP/1.1 200"  # the server has it; it reads no further
        read_until(watching, b'data: {"count": 0}\n\n')
        read_until(one.open("/api/report"), b"no report yet")
        report.write_text("<p>the report")
        read_until(one.open("/api/report"), b"<p>the report")
        assert len(page.open) == 2
        one.state = b'{"finished": true}'
        begun = time.monotonic()
    read_until(watching, one.state)  # said although the server ends at once
    assert time.monotonic() - begun < 1.5  # nothing had to be cancelled
    assert not page.open
    deaf.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_hundred_pages_and_slow_readers_cost_no_memory(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "SLOW_SECONDS", 1.0)
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.01)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clients, answers = [], []
    for _ in range(100):  # one after the other: where all come at once, all may be too many
        clients.append(running.open())
        answers.append(clients[-1].recv(12))  # none of them reads any further
    assert {*answers} == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
    for count in range(100):
        running.state = json.dumps({"count": count, "filling": "x" * 200_000}).encode()
        time.sleep(0.01)
    time.sleep(1.5)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 * 1024  # KiB; 100 states of 200 kB to 100 pages would be 2 GB
    for client in clients:
        client.close()
    running.state = b'{"count": 7}'
    until = time.monotonic() + 20
    while time.monotonic() < until:  # those that were cut off leave room
        again = running.open()
        if again.recv(12) == b"HTTP/1.1 200":
            break
        time.sleep(0.1)
    read_until(again, b'data: {"count": 7}')


def test_the_server_ends_while_pages_are_open(tmp_path: Path) -> None:
    with serving(lambda: b"{}", tmp_path, tmp_path, 0) as page:
        place = urlsplit(page.address)
        client = http.client.HTTPConnection(str(place.hostname), place.port, timeout=10)
        token = parse_qs(place.query)["token"][0]
        client.request("GET", "/api/states", headers={"X-Polyplink-Token": token})
        assert client.getresponse().status == 200
        begun = time.monotonic()
    assert time.monotonic() - begun < 8
    assert not any(thread.name == "page" for thread in threading.enumerate())


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with (
            pytest.raises(PolyplinkError, match="--port"),
            serving(lambda: b"{}", tmp_path, tmp_path, other.getsockname()[1]),
        ):
            pytest.fail("served")
