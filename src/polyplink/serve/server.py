"""The server of the review desk and its routes; `serve.guard` controls access."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from polyplink.serve.desk import CountChangedError, Desk
from polyplink.serve.guard import REPORT_POLICY, language_of, local_server, page_app

from starlette.applications import Starlette  # isort: skip - guard reports a missing package
from starlette.concurrency import run_in_threadpool  # isort: skip
from starlette.exceptions import HTTPException  # isort: skip
from starlette.requests import ClientDisconnect, Request  # isort: skip
from starlette.responses import FileResponse, JSONResponse, Response  # isort: skip
from starlette.routing import Route  # isort: skip

PICTURE_SIZES = (160, 640)  # longer side in pixels
STATIC = {"review.css": "text/css"} | dict.fromkeys(
    ("dom.js", "parts.js", "review.js", "viewer.js", "words.js"), "text/javascript"
)


def build_app(desk: Desk, token: str, port: int) -> Starlette:
    """The application that serves a desk.

    Args:
        desk: The desk to serve.
        token: Secret that every request must carry.
        port: Port of the server; requests addressed to another port are refused.
    """
    files: dict[str, Path] = {}  # files of the last hand-off, by name

    async def correct(request: Request) -> Response:
        try:
            correction = await request.json()
        except (ValueError, RecursionError, ClientDisconnect):  # no JSON, too deep, or cut short
            correction = None
        if not isinstance(correction, dict):
            raise HTTPException(400, "a correction is a JSON object")
        procedure = await run_in_threadpool(desk.correct, request.path_params["index"], correction)
        return JSONResponse(procedure)

    def write_files(request: Request) -> Response:
        from polyplink.serve.handoff import FOLDER, hand_off  # noqa: PLC0415 - slow to import

        with desk.lock:  # one hand-off at a time, with all files of the same answers
            paths = hand_off(desk, language_of(request))
            files.clear()
            files.update({path.relative_to(desk.out / FOLDER).as_posix(): path for path in paths})
        listed = [{"name": n, "bytes": p.stat().st_size} for n, p in files.items()]
        return JSONResponse({"files": listed})

    def download(request: Request) -> Response:
        path = files.get(request.path_params["name"])
        if path is None or not path.is_file():
            raise HTTPException(404, "no such file in the last hand-off")
        is_page = path.suffix == ".html"
        return FileResponse(
            path,
            headers={"content-security-policy": REPORT_POLICY} if is_page else None,
            filename=path.name,
            content_disposition_type="inline" if is_page else "attachment",
        )

    def size_of(request: Request) -> int:
        size = request.query_params.get("size", str(PICTURE_SIZES[0]))
        if size not in map(str, PICTURE_SIZES):
            raise HTTPException(404, f"size is one of {PICTURE_SIZES}")
        return int(size)

    def picture(request: Request) -> Response:
        jpeg = desk.picture(**request.path_params, size=size_of(request))
        return Response(jpeg, media_type="image/jpeg")

    def place(request: Request) -> Response:
        jpeg = desk.place(**request.path_params, size=size_of(request))
        return Response(jpeg, media_type="image/jpeg")

    def recorded(request: Request) -> Response:
        size = size_of(request) if "size" in request.query_params else None
        return Response(desk.frame(**request.path_params, size=size), media_type="image/jpeg")

    procedure_route = "/api/procedures/{index:number}"
    row = f"{procedure_route}/tracklets/{{row:number}}"
    routes = [
        _json_route("/api/version", lambda: {"version": desk.version()}),
        _json_route("/api/overview", desk.overview),
        _json_route(procedure_route, desk.procedure),
        Route(f"{procedure_route}/corrections", correct, methods=["POST"]),
        _json_route(f"{row}/boxes", desk.boxes),
        _json_route(f"{row}/similar", desk.similar),
        Route(f"{row}/pictures/{{k:number}}.jpg", picture),
        Route(f"{procedure_route}/places/{{frame:number}}.jpg", place),
        Route(f"{procedure_route}/frames/{{frame:number}}.jpg", recorded),
        Route("/api/hand-off", write_files, methods=["POST"]),
        Route("/api/hand-off/{name:path}", download),
    ]
    app = page_app("review.html", STATIC, routes, token, port=port, verb="review")
    app.add_exception_handler(CountChangedError, _count_changed)
    return app


def _count_changed(request: Request, error: Exception) -> Response:
    """The answer to every request after a new count: the page then shows nothing of the old one."""
    return JSONResponse({"error": str(error)}, 409)


def _json_route(path: str, answer: Callable[..., Any]) -> Route:
    """A route that calls a function with the numbers in its path and returns the result as JSON."""

    def endpoint(request: Request) -> Response:
        return JSONResponse(answer(**request.path_params))

    return Route(path, endpoint)


def serve(desk: Desk, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve a desk on this machine until it is interrupted.

    Args:
        desk: The desk to serve.
        port: Port; 0 takes any free one.
        ready: Called with the page's address, token included, once it can be opened.

    Raises:
        PolyplinkError: If the port is taken.
    """
    # In a thread: a notebook already runs an event loop in this one, and uvicorn needs its own.
    with serving(desk, port=port) as address, suppress(KeyboardInterrupt):
        ready(address)
        while True:  # on Windows, Ctrl-C ends a sleep, but not the wait for a lock or an event
            time.sleep(1)


def serving(desk: Desk, *, port: int = 0) -> AbstractContextManager[str]:
    """Serve a desk in a thread, see `local_server`."""
    return local_server(partial(build_app, desk), port)
