"""Arbitrary requests to the review and to the page of a running procedure, for `tests.fuzz`.

They are passed to the ASGI applications without a socket. Every request must get an answer other
than status 500, and the corrections that a review records must be readable.
"""

import asyncio
import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette

from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.counting.corrections import LOG, read_corrections
from polyplink.serve import server
from polyplink.serve.desk import Desk
from polyplink.streaming import live_page as live

PORT, TOKEN = 8125, "t" * 43
HEADERS = {"host": f"127.0.0.1:{PORT}", "x-polyplink-token": TOKEN}
TRACKLET = "/api/procedures/0/tracklets/0"
ANSWERS = (
    {"kind": "same", "a": 0, "b": 1},
    {"kind": "split", "rows": [0], "others": [1, 2]},
    {"kind": "merge", "rows": [0, 2]},
    {"kind": "move", "row": 0, "to": 1},
    {"kind": "not_polyp", "rows": [1]},
    {"kind": "cut", "row": 0, "frame": 8},
    {"kind": "missed", "frame": 8},
    {"kind": "not_missed", "frame": 8},
    {"kind": "done"},
    {"kind": "undo", "of": "0123456789ab"},
)
REVIEW: list[dict[str, Any]] = [
    *({"method": "GET", "path": path} for path in ("/", "/page/review.js", "/api/overview")),
    *({"method": "GET", "path": f"{TRACKLET}/{name}"} for name in ("boxes", "similar")),
    {"method": "GET", "path": f"{TRACKLET}/pictures/0.jpg?size=160"},
    {"method": "GET", "path": "/api/procedures/0/frames/3.jpg"},
    {"method": "GET", "path": "/api/procedures/0/places/0.jpg?size=160"},
    *({"method": "POST", "path": "/api/procedures/0/corrections", "body": a} for a in ANSWERS),
    {"method": "GET", "path": "/api/hand-off/polyps.csv"},
]
LIVE: list[dict[str, Any]] = [
    {"method": "GET", "path": path}
    for path in ("/", "/page/live.css", "/api/states", "/api/report", "/api/pictures/3.jpg")
]


def write_requests(root: Path) -> None:
    """Write the requests to be mutated, `review requests` and `live requests`."""
    for name, requests in (("review", REVIEW), ("live", LIVE)):
        rows = [{"headers": HEADERS} | request for request in requests]
        write_json(root / f"{name} requests" / "a.json", rows)


def ask(app: Starlette, request: Mapping[str, Any]) -> int:
    """Send one request with arbitrary values, and return the status of the answer.

    Raises:
        AssertionError: If the status is 500, or there is no answer.
    """
    headers, body = request.get("headers"), request.get("body", b"")
    method, whole = str(request.get("method", "GET")), str(request.get("path", "/"))
    path, _, query = whole.encode("utf-8", "surrogatepass").partition(b"?")
    fields = headers if isinstance(headers, dict) else {}
    if "body" in request:
        fields = {"content-type": "application/json", **fields}
        body = body if isinstance(body, str) else json.dumps(body)
        body = body.encode("utf-8", "surrogatepass")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.upper(),
        "scheme": "http",
        "path": unquote(path.decode("utf-8", "replace")),
        "raw_path": path,
        "root_path": "",
        "query_string": query,
        "headers": [
            (k.lower().encode("latin-1", "replace"), str(v).encode("latin-1", "replace"))
            for k, v in fields.items()
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", PORT),
    }
    waiting = [{"type": "http.request", "body": body, "more_body": False}]
    answers = []

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        answers.append(message)

    _runner().run(app(scope, receive, send))
    status = next((message["status"] for message in answers if "status" in message), 0)
    assert status not in (0, 500), f"{method} {whole!r} was answered by {status}"
    return int(status)


@cache
def _runner() -> asyncio.Runner:
    """One event loop, with its threads, for all requests."""
    return asyncio.Runner()


def _requests(folder: Path) -> list[dict[str, Any]]:
    rows = read_json(min(path for path in folder.rglob("*") if path.is_file()))
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def review(counted: Path, folder: Path, _: object) -> None:
    """Send requests to the review of a copy of a counted folder, and open the copy again."""
    requests, reviewed = _requests(folder), folder.parent / "reviewed"
    if not reviewed.exists():
        shutil.copytree(counted, reviewed)
    (reviewed / "count" / LOG).unlink(missing_ok=True)
    app = server.build_app(Desk(reviewed / "count", reviewed / "data"), TOKEN, PORT)
    accepted = 0
    for request in requests:
        status = ask(app, request)
        accepted += status == 200 and str(request.get("method")).upper() == "POST"
    try:
        recorded = len(read_corrections(reviewed / "count"))
        desk = Desk(reviewed / "count", reviewed / "data")
        for procedure in range(len(desk.names)):
            desk.procedure(procedure)
    except PolyplinkError as error:
        raise AssertionError(f"cannot read the recorded corrections: {error}") from error
    assert recorded == accepted, f"{accepted} corrections were accepted, {recorded} are recorded"


def live_page(folder: Path, _: object) -> None:
    """Send requests to the page of a running procedure."""
    requests = _requests(folder)
    page = live.LivePage(lambda: b'{"count": 1}', folder.parent, folder.parent / "report.html")
    page.closing = True  # streams end at once
    app = live.build_app(page, TOKEN, PORT)
    for request in requests:
        ask(app, request)
