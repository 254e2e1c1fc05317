"""The page of a running procedure, which shows the current count by server-sent events.

A page receives only the newest state, and none that it missed: a slow client costs no memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.serve.guard import REPORT_POLICY, local_server, page_app

from starlette.applications import Starlette  # isort: skip - guard reports a missing package
from starlette.requests import Request  # isort: skip
from starlette.responses import FileResponse, Response, StreamingResponse  # isort: skip
from starlette.routing import Route  # isort: skip

STATIC = {"live.css": "text/css", "review.css": "text/css"} | dict.fromkeys(
    ("dom.js", "live.js", "words.js"), "text/javascript"
)
LOOK_SECONDS = 0.2  # between checks for a new state


@dataclass
class LivePage:
    """The page of a running procedure.

    Attributes:
        state: Returns the contents of the page, as JSON on one line; a new object whenever they
            have changed.
        pictures: Folder of the pictures, NUMBER.jpg with five digits or more.
        report: The report's file, which is written at the end.
        address: The page's address, token included, once it is served.
        open: Number of pages that receive states.
        closing: Whether the server is stopping; streams then end.
    """

    state: Callable[[], bytes]
    pictures: Path
    report: Path
    address: str = ""
    open: int = 0
    closing: bool = False

    async def events(self) -> AsyncIterator[bytes]:
        """The newest state whenever it has changed, and the last one, as server-sent events."""
        self.open += 1
        sent = b""
        try:
            while True:
                is_last = self.closing
                state = self.state()
                if state is not sent:
                    yield b"data: " + state + b"\n\n"
                    sent = state
                if is_last:
                    break
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self.open -= 1


def build_app(page: LivePage, token: str, port: int) -> Starlette:
    """The application that shows a running procedure.

    Args:
        page: The page to serve.
        token: Secret that every request must carry.
        port: Port of the server; requests addressed to another port are refused.
    """

    def states(request: Request) -> Response:
        return StreamingResponse(page.events(), media_type="text/event-stream")

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
    with local_server(partial(build_app, page), port) as page.address:
        try:
            yield
        finally:
            page.closing = True  # streams end without being cancelled
