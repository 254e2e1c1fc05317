"""Common parts of the local pages: access control, static files, and the server.

The pages show pictures of patients, so a server trusts nobody by default. It listens only on this
machine; every request needs a random token, which is first in the address and then in a cookie; the
Host header must name this machine (against DNS rebinding); a POST must come from the page itself
(against cross-site requests); the size of bodies is limited. Nothing that a client sends is used as
the path of a file.
"""

import logging
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from threading import Thread
from urllib.parse import parse_qs

from polyplink.core.errors import PolyplinkError, extras_installed, first_line, system_error
from polyplink.core.messages import LANGUAGES, catalogue

with extras_installed("a page in the browser"):
    import uvicorn
    from anyio.to_thread import current_default_thread_limiter
    from starlette.applications import Starlette
    from starlette.convertors import Convertor, register_url_convertor
    from starlette.datastructures import Headers
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost")
BODY_LIMIT = 64 * 1024  # bytes; the longest correction of 736 rows has about 4 KiB
THREADS = 8  # requests processed at the same time; decoding a frame takes a core
CONNECTIONS = 64  # further ones are answered with 503
THEMES = ("auto", "light", "dark")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A report contains its styles; it is shown without scripts and as a foreign origin.
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


class Number(Convertor[int]):
    """A whole number of at most nine digits in an address, `{name:number}`."""

    regex = "[0-9]{1,9}"

    def convert(self, value: str) -> int:
        """The number that the digits represent."""
        return int(value)


register_url_convertor("number", Number())


class RefusedError(Exception):
    """A request that is not answered: HTTP status and one line."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """ASGI middleware: refuses requests that do not come from the page; sets security headers.

    Args:
        app: The application that answers accepted requests.
        token: The secret, part of the page's address when it is opened.
        port: Port of the server. The Host header must name it, and it distinguishes the cookies of
            two pages on one machine, as cookies are not bound to ports.
        verb: The command that serves the page, for messages.
    """

    def __init__(self, app: ASGIApp, token: str, port: int, verb: str) -> None:
        self.app, self.token, self.verb = app, token, verb
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
                present = {name.lower() for name, _ in message["headers"]}
                safety = ((name.encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] += [pair for pair in safety if pair[0] not in present]
            await send(message)

        answer: ASGIApp
        try:
            if self.enters(Request(scope)):
                answer = Response(status_code=303, headers={"location": "/"})  # without the token
                answer.set_cookie(
                    self.cookie, self.token, path="/", httponly=True, samesite="strict"
                )
            else:
                if scope["method"] == "POST":
                    check_body(Headers(scope=scope))
                answer = self.app
        except RefusedError as raised:
            answer = refusal(scope["path"], raised.status, raised.reason)
        try:
            await answer(scope, receive, guarded)
        except Exception:
            logging.getLogger("polyplink.serve").exception("%s failed", scope["path"])
            if not started:
                reason = f"`polyplink {self.verb}` failed; its terminal shows the error"
                await refusal(scope["path"], 500, reason)(scope, receive, guarded)

    def enters(self, request: Request) -> bool:
        """Whether the address of a request has the token; the answer then sets the cookie.

        Raises:
            RefusedError: If the request is not accepted.
        """
        headers, page = request.headers, request.url.path == "/"
        host = headers.get("host", "")
        if host not in self.hosts:
            raise RefusedError(403, f"this is not the address of `polyplink {self.verb}`")
        site = headers.get("sec-fetch-site", "same-origin")
        if request.method == "POST":
            local = headers.get("origin", f"http://{host}") == f"http://{host}"
            local &= site == "same-origin"
        else:  # other sites may link to the page, but only the page may load its resources
            local = page or site in {"same-origin", "none"}
        if not local:
            raise RefusedError(403, "the request comes from another page")
        tokens = parse_qs(request.url.query).get("token")
        if page and tokens and request.method == "GET":
            self.compare(tokens[0])
            return True
        self.compare(headers.get("x-polyplink-token") or request.cookies.get(self.cookie, ""))
        return False

    def compare(self, token: str) -> None:
        """Refuse a wrong token, in constant time."""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            raise RefusedError(403, f"open the address that `polyplink {self.verb}` printed")


def refusal(path: str, status: int, reason: str) -> Response:
    """An answer with one line: JSON for the page's script, plain text for the page itself."""
    if path.startswith("/api/"):
        return JSONResponse({"error": reason}, status)
    return PlainTextResponse(reason + "\n", status)


def check_body(headers: Headers) -> None:
    """Refuse the body of a POST by its headers, before it arrives.

    Raises:
        RefusedError: If it is not JSON (415), states no length (411) or is too large (413).
    """
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "the body must be JSON")
    length = headers.get("content-length", "")
    if not length.isdecimal() or "transfer-encoding" in headers:  # which overrides the length
        raise RefusedError(411, "the body states no length")
    if int(length) > BODY_LIMIT:
        raise RefusedError(413, f"the body is larger than {BODY_LIMIT // 1024} KiB")


def negotiate_language(cookie: str | None, accepted: str) -> str:
    """The language of the page: the one chosen before, else the browser's first available one.

    Args:
        cookie: The language chosen on the page, if any.
        accepted: The header Accept-Language, as "de-AT,de;q=0.9,en;q=0.5".

    Example:
        >>> negotiate_language(None, "fr-CH, it;q=0.8, en;q=0.4")
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


def page_app(
    page: str,
    static: Mapping[str, str],
    routes: Sequence[Route],
    token: str,
    *,
    port: int,
    verb: str,
) -> Starlette:
    """An application behind a guard.

    Args:
        page: The page's HTML, a file of the folder `page`.
        static: Media types of the files that the page loads from that folder.
        routes: Further routes.
        token: Secret that every request must carry.
        port: Port of the server; requests addressed to another port are refused.
        verb: The command that serves the page.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        yield

    async def refused(request: Request, raised: Exception) -> Response:
        status = 400 if request.method == "POST" else 404
        if isinstance(raised, HTTPException):
            return JSONResponse({"error": raised.detail}, raised.status_code)
        reason = system_error(raised) if isinstance(raised, OSError) else str(raised)
        return JSONResponse({"error": reason}, status)

    def full_page(request: Request) -> Response:
        language, theme = language_of(request), request.cookies.get("polyplink-theme", "")
        html = package_file(f"page/{page}").decode().replace('lang="en"', f'lang="{language}"', 1)
        if theme in THEMES:
            html = html.replace('data-theme="auto"', f'data-theme="{theme}"', 1)
        return Response(html, media_type="text/html; charset=utf-8")

    def part(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            raise HTTPException(404, "no such address")
        return Response(package_file(f"page/{name}"), media_type=static[name])

    def messages(request: Request) -> Response:
        return JSONResponse({language: catalogue(language) for language in LANGUAGES})

    shared = [Route("/", full_page), Route("/page/{name}", part), Route("/api/messages", messages)]
    return Starlette(
        routes=[*shared, *routes],
        middleware=[Middleware(Guard, token=token, port=port, verb=verb)],
        exception_handlers=dict.fromkeys((PolyplinkError, HTTPException, OSError), refused),
        lifespan=lifespan,
    )


def language_of(request: Request) -> str:
    """The language in which a page is shown."""
    accepted = request.headers.get("accept-language", "")
    return negotiate_language(request.cookies.get("polyplink-language"), accepted)


def package_file(name: str) -> bytes:
    """A file of this package; names are constants, never from a request."""
    return files("polyplink.serve").joinpath(name).read_bytes()


@contextmanager
def local_server(build: Callable[[str, int], ASGIApp], port: int) -> Iterator[str]:
    """Serve an application in a thread, reachable only from this machine.

    Args:
        build: Makes the application from the token and the port.
        port: Port; 0 takes any free one.

    Yields:
        The address of the page, token included.

    Raises:
        PolyplinkError: If the port is taken.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK[0], port))
    except OSError as error:
        listening.close()
        raise PolyplinkError(
            f"--port {port}: {first_line(error)}",
            "give another --port, or --port 0 for any free one",
        ) from error
    host, port = listening.getsockname()
    token = secrets.token_urlsafe(32)
    config = uvicorn.Config(
        build(token, port),
        http="h11",
        ws="none",
        log_config=None,  # uvicorn's own would close the log files of the program
        log_level="critical",  # `Guard` logs errors; a slow page that is cut off is none
        access_log=False,  # addresses would be logged with the token
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
    )
    listening.listen(CONNECTIONS)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="page")
    thread.start()
    try:
        yield f"http://{host}:{port}/?token={token}"
    finally:
        server.should_exit = True
        thread.join()
