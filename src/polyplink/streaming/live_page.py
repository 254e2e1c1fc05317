"""The page of a running procedure, which shows the current count by server-sent events.

A page receives only the newest state, and none that it missed: a slow client costs no memory, and
one that does not read at all is disconnected.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.serve.guard import REPORT_POLICY, local_server, page_app, refusal

from starlette.applications import Starlette  # isort: skip - guard reports a missing package
from starlette.requests import Request  # isort: skip
from starlette.responses import FileResponse, Response  # isort: skip
from starlette.routing import Route  # isort: skip
from starlette.types import Receive, Scope, Send  # isort: skip

STATIC = {"live.css": "text/css", "review.css": "text/css"} | dict.fromkeys(
    ("dom.js", "live.js", "words.js"), "text/javascript"
)
STREAMS = 32  # most pages open at the same time
LOOK_SECONDS = 0.2  # between checks for a new state
ALIVE_SECONDS = 10.0  # without a change, after which a comment is sent
SLOW_SECONDS = 10.0  # a page that takes longer to read a state is disconnected


class States(Response):
    """The states of a procedure as server-sent events, until the page or the server closes."""

    def __init__(self, page: "LivePage") -> None:
        self.page, self.background = page, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the newest state whenever it has changed."""
        if len(self.page.open) >= STREAMS:
            reason = f"{STREAMS} pages are open already"
            await refusal(scope["path"], 503, reason)(scope, receive, send)
            return
        self.page.open.add(self)

        async def leaving() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        disconnected = asyncio.ensure_future(leaving())
        headers = [(b"content-type", b"text/event-stream")]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            sent, quiet = b"", 0.0
            while not disconnected.done() and not self.page.closing:
                state = self.page.state()
                if state is sent:
                    quiet += LOOK_SECONDS
                    await asyncio.sleep(LOOK_SECONDS)
                    if quiet < ALIVE_SECONDS:
                        continue
                text = b": still here\n\n" if state is sent else b"data: " + state + b"\n\n"
                sent, quiet = state, 0.0
                async with asyncio.timeout(SLOW_SECONDS):
                    await send({"type": "http.response.body", "body": text, "more_body": True})
            last = self.page.state()
            text = b"" if last is sent else b"data: " + last + b"\n\n"
            await send({"type": "http.response.body", "body": text, "more_body": False})
        except (TimeoutError, OSError):
            return
        except asyncio.CancelledError:  # a page did not read the last state in time
            if not self.page.closing:
                raise
        finally:
            disconnected.cancel()
            self.page.open.discard(self)


@dataclass
class LivePage:
    """The page of a running procedure.

    Attributes:
        state: Returns the contents of the page, as JSON on one line; a new object whenever they
            have changed.
        pictures: Folder of the pictures, NUMBER.jpg with five digits or more.
        report: The report's file, which is written at the end.
        address: The page's address, token included, once it is served.
        open: The streams of states that are open.
        closing: Whether the server is stopping; streams then end.
    """

    state: Callable[[], bytes]
    pictures: Path
    report: Path
    address: str = ""
    open: set[object] = field(default_factory=set)
    closing: bool = False


def build_app(page: LivePage, token: str, port: int) -> Starlette:
    """The application that shows a running procedure.

    Args:
        page: The page to serve.
        token: Secret that every request must carry.
        port: Port of the server; requests addressed to another port are refused.
    """

    def states(request: Request) -> Response:
        return States(page)

    def report(request: Request) -> Response:
        if not page.report.is_file():
            raise PolyplinkError("no report yet", "wait for the end")
        headers = {"content-security-policy": REPORT_POLICY}
        return FileResponse(page.report, media_type="text/html", headers=headers)

    def picture(request: Request) -> Response:
        path = page.pictures / f"{request.path_params['number']:05d}.jpg"
        if not path.is_file():
            raise PolyplinkError("no such picture", "reload")
        return FileResponse(path, media_type="image/jpeg")

    routes = [
        Route("/api/states", states),
        Route("/api/report", report),
        Route("/api/pictures/{number:number}.jpg", picture),
    ]
    return page_app("live.html", STATIC, routes, token, port=port, verb="live")


@contextmanager
def serving(page: LivePage, port: int) -> Iterator[None]:
    """Serve a page in a thread, see `local_server`, and set its address."""
    # Disconnecting a slow page is no error.
    cut_off = ("without completing", "graceful shutdown exceeded")
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: not any(words in str(record.msg) for words in cut_off)
    )
    with local_server(partial(build_app, page), port) as page.address:
        try:
            yield
        finally:
            page.closing = True  # streams end without being cancelled
