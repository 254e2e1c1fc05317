"""The server of the review desk: routes of the page, and who may use them.

A review desk shows pictures of patients, so the server trusts nobody by default. It listens on
this machine alone; every request needs a random token, which the address carries once and a cookie
from then on; the Host header must name this machine (against DNS rebinding); a POST must come from
the page itself (against cross-site requests); bodies are small. Nothing that a client sends is
used as a path of a file: names are looked up in lists.
"""

import asyncio
import logging
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.serve.desk import Desk
from polyplink.serve.handoff import FOLDER, hand_off

try:
    import uvicorn
    from anyio.to_thread import current_default_thread_limiter
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, PlainTextResponse
    from starlette.exceptions import HTTPException
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise PolyplinkError(
        f"the review desk needs {error.name}, which is not installed",
        "pip install 'polyplink[serve]'",
    ) from error

LOOPBACK = ("127.0.0.1", "localhost")
BODY_LIMIT = 64 * 1024  # bytes; the longest correction of 736 rows has about 4 KiB
BODY_SECONDS = 10.0  # a body that takes longer is refused
PICTURE_SIZES = (160, 640)  # longer side in pixels
THREADS = 8  # requests worked on at once; decoding a frame takes a core
CONNECTIONS = 64  # more are answered with 503
LANGUAGES = ("en", "de", "it")
THEMES = ("auto", "light", "dark")
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
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A printable report brings its own styles; it is shown without scripts and as a foreign origin.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox"
)
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": CONTENT_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class RefusedError(Exception):
    """A request that is not answered: HTTP status and one line."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Guard:
    """ASGI middleware: refuses what does not come from the page, and sets the headers of safety.

    Args:
        app: What answers the requests that pass.
        token: The secret that the address carries once.
        port: Port of the server: the Host header must name it, and cookies of two desks on one
            machine (cookies know no ports) are told apart by it.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"{name}:{port}" for name in LOOPBACK}
        self.cookie = f"polyplink-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":  # no web sockets
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = {name.lower() for name, _ in message["headers"]}
                safety = ((name.encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] += [pair for pair in safety if pair[0] not in given]
            await send(message)

        answer: ASGIApp
        try:
            if self.enters(Request(scope)):
                answer = self.cookie_and_page()
            else:
                if scope["method"] == "POST":
                    receive = replayed(await read_body(Request(scope, receive)), receive)
                answer = self.app
        except RefusedError as refused:
            answer = refusal(scope["path"], refused.status, refused.why)
        try:
            await answer(scope, receive, guarded)
        except Exception:
            logging.getLogger("uvicorn.error").exception("%s failed", scope["path"])
            if not started:
                why = "the review desk failed; the terminal that it runs in says how"
                await refusal(scope["path"], 500, why)(scope, receive, guarded)

    def enters(self, request: Request) -> bool:
        """Whether a request brings the token in its address, to get the cookie.

        Raises:
            RefusedError: If a request may not pass.
        """
        headers, page = request.headers, request.url.path == "/"
        host = headers.get("host", "")
        if host not in self.hosts:
            raise RefusedError(403, "this is not the address of the review desk")
        site = headers.get("sec-fetch-site", "same-origin")
        if request.method == "POST":
            local = headers.get("origin", f"http://{host}") == f"http://{host}"
            local &= site == "same-origin"
        else:  # the page may be opened from elsewhere; what it loads is loaded by itself alone
            local = page or site in {"same-origin", "none"}
        if not local:
            raise RefusedError(403, "the request comes from another page")
        given = parse_qs(request.url.query).get("token")
        if page and given and request.method == "GET":
            self.compare(given[0])
            return True
        self.compare(headers.get("x-polyplink-token") or request.cookies.get(self.cookie, ""))
        return False

    def cookie_and_page(self) -> Response:
        """Set the cookie and go to the address without the token."""
        response = Response(status_code=303, headers={"location": "/"})
        response.set_cookie(self.cookie, self.token, path="/", httponly=True, samesite="strict")
        return response

    def compare(self, given: str) -> None:
        """Refuse a wrong token, in a time that does not depend on how wrong it is."""
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise RefusedError(403, "open the address that `polyplink review` printed")


def refusal(path: str, status: int, why: str) -> Response:
    """One line: JSON for the page's script, plain text for a person who opens the page."""
    if path.startswith("/api/"):
        return JSONResponse({"error": why}, status)
    return PlainTextResponse(why + "\n", status)


async def read_body(request: Request) -> bytes:
    """The body of a POST.

    Raises:
        RefusedError: If it is not JSON (415), too large (413) or too slow (408).
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "the body must be JSON")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > BODY_LIMIT:
                    raise RefusedError(413, f"the body is larger than {BODY_LIMIT // 1024} KiB")
    except TimeoutError:
        raise RefusedError(408, "the body arrives too slowly") from None
    return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """An ASGI `receive` that gives a body that was read already, then what `receive` gives."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def negotiated(cookie: str | None, accepted: str) -> str:
    """The language of the page: the one chosen before, else the browser's first that is known.

    Args:
        cookie: The language chosen on the page, if any.
        accepted: The header Accept-Language, as "de-AT,de;q=0.9,en;q=0.5".

    Example:
        >>> negotiated(None, "fr-CH, it;q=0.8, en;q=0.4")
        'it'
    """
    if cookie in LANGUAGES:
        return cookie
    ranked = []
    for place, part in enumerate(accepted.split(",")[:20]):
        tag, _, weight = part.partition(";q=")
        try:
            ranked.append((-float(weight or 1), place, tag.strip().lower().split("-")[0]))
        except ValueError:
            continue
    return next((tag for q, _, tag in sorted(ranked) if q < 0 and tag in LANGUAGES), LANGUAGES[0])


def build_app(desk: Desk, token: str, *, port: int) -> FastAPI:
    """The application that serves a desk.

    Args:
        desk: The opened folder.
        token: Secret that every request must carry.
        port: Port that it will be served on; requests to another are refused.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        yield

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    lock = threading.Lock()  # one hand-off at a time; the desk locks itself
    written: dict[str, Path] = {}  # files of the last hand-off, by name

    def error(status: int, why: str) -> Response:
        return JSONResponse({"error": why}, status)

    @app.exception_handler(PolyplinkError)
    async def mistake(request: Request, raised: PolyplinkError) -> Response:
        return error(400 if request.method == "POST" else 404, str(raised))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, raised: RequestValidationError) -> Response:
        return error(400 if request.method == "POST" else 404, "no such address")

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, raised: HTTPException) -> Response:
        return error(raised.status_code, str(raised.detail))

    def language_of(request: Request) -> str:
        accepted = request.headers.get("accept-language", "")
        return negotiated(request.cookies.get("polyplink-language"), accepted)

    @app.get("/")
    def page(request: Request) -> Response:
        language, theme = language_of(request), request.cookies.get("polyplink-theme", "")
        html = shipped("page/review.html").decode().replace('lang="en"', f'lang="{language}"', 1)
        if theme in THEMES:
            html = html.replace('data-theme="auto"', f'data-theme="{theme}"', 1)
        return Response(html, media_type="text/html; charset=utf-8")

    @app.get("/page/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            return error(404, "no such address")
        return Response(shipped(f"page/{name}"), media_type=STATIC[name])

    @app.get("/api/messages")
    def messages() -> Response:
        return Response(shipped("messages.json"), media_type="application/json")

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
            return error(404, "no such file in the last hand-off")
        media = MEDIA.get(path.suffix, "application/octet-stream")
        shown = path.suffix in {".html", ".pdf"}
        place = "inline" if shown else "attachment"
        headers = {"content-disposition": f'{place}; filename="{quoted(path.name)}"'}
        if shown:
            headers["content-security-policy"] = REPORT_POLICY
        return Response(path.read_bytes(), media_type=media, headers=headers)

    app.add_middleware(Guard, token=token, port=port)
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


def shipped(name: str) -> bytes:
    """A file of this package; names come from this module alone."""
    return files("polyplink.serve").joinpath(name).read_bytes()


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
    PolyplinkError.unless(
        host in LOOPBACK,
        f"--host {host}: the review desk is served on this machine alone",
        "leave out --host; from another machine use `ssh -L PORT:127.0.0.1:PORT`",
    )
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK[0], port))
    except OSError as error:
        listening.close()
        raise PolyplinkError(
            f"--port {port}: {first_line(error)}", "choose another, or 0 for any free port"
        ) from error
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(32)
    config = uvicorn.Config(
        build_app(desk, token, port=port),
        ws="none",
        log_level="warning",
        access_log=False,  # addresses would be written with the token
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
    )
    listening.listen(CONNECTIONS)
    ready(f"http://{host}:{port}/?token={token}")
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has stopped
        uvicorn.Server(config).run(sockets=[listening])
