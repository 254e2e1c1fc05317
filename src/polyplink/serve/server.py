"""The server of the review desk: routes of the page; `serve.guard` says who may use them."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from polyplink.serve.desk import Desk
from polyplink.serve.guard import LOOPBACK, language_of, local_server, page_app
from polyplink.serve.handoff import FOLDER, hand_off

from fastapi import FastAPI, HTTPException, Request, Response  # isort: skip - guard reports a missing package
from fastapi.responses import JSONResponse  # isort: skip

PICTURE_SIZES = (160, 640)  # longer side in pixels
STATIC = {"review.css": "text/css"} | dict.fromkeys(
    ("dom.js", "parts.js", "review.js", "viewer.js", "words.js"), "text/javascript"
)
MEDIA = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
# A printable report brings its own styles; it is shown without scripts and as a foreign origin.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox"
)


def build_app(desk: Desk, token: str, *, port: int) -> FastAPI:
    """The application that serves a desk.

    Args:
        desk: The opened folder.
        token: Secret that every request must carry.
        port: Port that it will be served on; requests to another are refused.
    """
    app = page_app("review.html", STATIC, token, port=port, verb="review")
    lock = threading.Lock()  # one hand-off at a time; the desk locks itself
    written: dict[str, Path] = {}  # files of the last hand-off, by name

    @app.get("/api/version")
    def version() -> dict[str, int]:
        return {"version": desk.version()}

    @app.get("/api/overview")
    def overview() -> Response:
        return JSONResponse(desk.overview())

    @app.get("/api/procedures/{index}")
    def procedure(index: int) -> Response:
        return JSONResponse(desk.procedure(index))

    @app.post("/api/procedures/{index}/corrections")
    def correct(index: int, correction: dict[str, Any]) -> Response:
        return JSONResponse(desk.correct(index, correction))

    add_pictures(app, desk)

    @app.post("/api/hand-off")
    def write_files(request: Request) -> Response:
        with lock:
            found = hand_off(desk, language_of(request))
            written.clear()
            written.update({str(path.relative_to(desk.out / FOLDER)): path for path in found})
        listed = [{"name": n, "bytes": p.stat().st_size} for n, p in written.items()]
        return JSONResponse({"files": listed})

    @app.get("/api/hand-off/{name:path}")
    def handed(name: str) -> Response:
        path = written.get(name)
        if path is None or not path.is_file():
            raise HTTPException(404, "no such file in the last hand-off")
        media = MEDIA.get(path.suffix, "application/octet-stream")
        shown = path.suffix in {".html", ".pdf"}
        place = "inline" if shown else "attachment"
        headers = {"content-disposition": f'{place}; filename="{quoted(path.name)}"'}
        if shown:
            headers["content-security-policy"] = REPORT_POLICY
        return Response(path.read_bytes(), media_type=media, headers=headers)

    return app


def add_pictures(app: FastAPI, desk: Desk) -> None:
    """Add the routes of pictures and boxes, which leave the desk as it is."""

    @app.get("/api/procedures/{index}/tracklets/{row}/boxes")
    def boxes(index: int, row: int) -> Response:
        return JSONResponse(desk.boxes(index, row))

    @app.get("/api/procedures/{index}/tracklets/{row}/similar")
    def similar(index: int, row: int) -> Response:
        return JSONResponse(desk.similar(index, row))

    @app.get("/api/procedures/{index}/tracklets/{row}/pictures/{k}.jpg")
    def picture(index: int, row: int, k: int, size: int = PICTURE_SIZES[0]) -> Response:
        if size not in PICTURE_SIZES:
            return JSONResponse({"error": f"size is one of {PICTURE_SIZES}"}, 404)
        return Response(desk.picture(index, row, k, size), media_type="image/jpeg")

    @app.get("/api/procedures/{index}/frames/{frame}.jpg")
    def recorded(index: int, frame: int) -> Response:
        return Response(desk.frame(index, frame), media_type="image/jpeg")


def quoted(name: str) -> str:
    """A file name that is safe inside a quoted header value."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_. ") else "_" for c in name)


def serve(
    desk: Desk,
    *,
    host: str = LOOPBACK[0],
    port: int = 0,
    ready: Callable[[str], None],
) -> None:
    """Serve a desk on this machine until it is interrupted.

    Args:
        desk: The opened folder.
        host: "127.0.0.1" or "localhost".
        port: Port; 0 takes any free one.
        ready: Called with the page's address, token included, once it can be opened.

    Raises:
        PolyplinkError: If `host` is not this machine or the port is taken.
    """

    def build(token: str, own: int) -> FastAPI:
        return build_app(desk, token, port=own)

    server, listening, address = local_server(build, host, port)
    ready(address)
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has stopped
        server.run(sockets=[listening])
