"""Open the built site and reports in a real browser: `python -m docs.tools.browse [more.html ...]`.

Chromium is driven through a pipe, so nothing but the standard library is needed. Every page is opened on
a narrow and on a wide screen, by day and in the dark; what a page says to the console, asks for and does
not get, lets run over the edge or shows in the other colours is a fault. Screenshots are left in
`build/screenshots` for people to look at.
"""

import base64
import contextlib
import fcntl
import functools
import http.server
import itertools
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
SHOTS = ROOT / "build" / "screenshots"
WIDTHS = (400, 1400)
# Hands two ends of pipes over as 3 and 4, where the browser looks for them, and becomes the browser.
_LAUNCH = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""
# How light a page's background is, 0 to 255.
_LIGHTNESS = """(() => {
  const shown = [document.body, document.documentElement].map(e => getComputedStyle(e).backgroundColor);
  const colour = shown.find(c => c !== "rgba(0, 0, 0, 0)") || "rgb(255, 255, 255)";
  const numbers = colour.match(/[\\d.]+/g).map(Number);
  return (numbers[0] + numbers[1] + numbers[2]) / 3 * (colour.startsWith("color(") ? 255 : 1);
})()"""
_FORGET = "try { localStorage.clear() } catch (refused) {}"
# Where the search's answers lead; they are in a tree of their own.
_ANSWERS = """[...document.querySelectorAll("*")].filter(e => e.shadowRoot).flatMap(
  e => [...e.shadowRoot.querySelectorAll("a[href]")].map(a => a.href))"""
_SECONDS = 60.0


class Look(NamedTuple):
    """What a page looked like on one screen.

    Attributes:
        faults: errors of the console, files that were not there, text that runs over the edge.
        picture: a PNG of the first screens.
    """

    faults: list[str]
    picture: bytes


def chromium() -> str | None:
    """The browser, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A headless Chromium with one page, spoken to by the DevTools protocol over a pipe."""

    def __init__(self, program: str):
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (read_there, self._write), (self._read, write_there) = _high_pipe(), _high_pipe()
        options = (
            "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars "
            "--disable-sync --disable-quic --disable-background-networking --no-first-run "
            "--disable-component-update --remote-debugging-pipe about:blank"
        )
        home = f"--user-data-dir={self._home.name}"
        ends = (read_there, write_there)
        line = [sys.executable, "-c", _LAUNCH, *map(str, ends), program, home, *options.split()]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(line, pass_fds=ends, **quiet)
        os.close(read_there)
        os.close(write_there)
        self._ids, self._rest = itertools.count(1), b""
        self._events: list[dict[str, Any]] = []
        targets = self._ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        # A site keeps the colours of its first visit; every visit here is the first.
        self._ask("Page.addScriptToEvaluateOnNewDocument", source=_FORGET)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: Any) -> None:
        with contextlib.suppress(OSError):
            os.close(self._write)
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        self._home.cleanup()

    def look(self, url: str, width: int, dark: bool = False, height: int = 1400) -> Look:
        """Open a page on a screen and look at it."""
        # The page before must be gone, or it keeps the colours of its own screen for this one.
        self._events.clear()
        self._ask("Page.navigate", url="about:blank")
        self._wait_for("Page.loadEventFired")
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self._ask("Page.navigate", url=url)
        self._wait_for("Page.loadEventFired")
        self._pump(0.3)
        faults = [text for event in self._events if (text := _fault(event))]
        over = self._value("document.documentElement.scrollWidth - window.innerWidth")
        if over > 1:
            faults.append(f"{over} pixels run over the edge")
        if (self._value(_LIGHTNESS) < 128) != dark:
            faults.append(f"it is not {'dark' if dark else 'light'}")
        picture = base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])
        return Look(faults, picture)

    def search(self, site: str, words: str, most: int = 5) -> list[str]:
        """The first pages that the search of the site gives for some words."""
        self.look(f"{site}/index.html", WIDTHS[-1])
        self._value("document.querySelector('.md-search__button').click() || true")
        self._pump(1.0)
        self._ask("Input.insertText", text=words)
        self._pump(1.0)
        pages = [re.split(r"[?#]", url)[0].removeprefix(f"{site}/") for url in self._value(_ANSWERS)]
        return list(dict.fromkeys(pages))[:most]

    def _value(self, expression: str) -> Any:
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            for reply in self._messages(1.0):
                if reply.get("id") == number:
                    if "error" in reply:
                        raise RuntimeError(f"{method}: {reply['error']['message']}")
                    return reply["result"]
        raise TimeoutError(f"the browser did not answer {method}")

    def _wait_for(self, event: str) -> None:
        until = time.monotonic() + _SECONDS
        while not any(seen["method"] == event for seen in self._events):
            if time.monotonic() > until:
                raise TimeoutError(f"the browser did not say {event}")
            self._pump(0.2)

    def _pump(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            list(self._messages(left))

    def _messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        if select.select([self._read], [], [], seconds)[0]:
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("the browser went away")
            *whole, self._rest = (self._rest + part).split(b"\0")
            replies = [json.loads(text) for text in whole]
            self._events += [reply for reply in replies if "method" in reply]
            yield from replies


def _high_pipe() -> tuple[int, int]:
    """A pipe whose ends are neither 3 nor 4, the numbers under which the browser finds its own."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]


def _fault(event: dict[str, Any]) -> str | None:
    """What an event says is wrong, if it does."""
    params = event.get("params", {})
    if event["method"] == "Runtime.exceptionThrown":
        return f"exception: {params['exceptionDetails'].get('text')}"
    if event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
        return f"console: {[value.get('value') for value in params['args']]}"
    if event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
        return f"log: {params['entry']['text']} {params['entry'].get('url', '')}"
    if event["method"] == "Network.responseReceived" and params["response"]["status"] >= 400:
        return f"{params['response']['status']}: {params['response']['url']}"
    if event["method"] == "Network.loadingFailed" and not params.get("canceled"):
        return f"not loaded: {params['errorText']}"
    return None


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder at an address of this machine."""
    handler = functools.partial(_Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def look_at(browser: Browser, url: str, name: str, shots: Path) -> list[str]:
    """Open one page on every screen, keep the screenshots; its faults."""
    faults = []
    for width, is_dark in itertools.product(WIDTHS, (False, True)):
        look = browser.look(url, width, is_dark)
        screen = f"{width}{'-dark' if is_dark else ''}"
        shots.mkdir(parents=True, exist_ok=True)
        (shots / f"{name.replace('/', '_').removesuffix('.html')}-{screen}.png").write_bytes(
            look.picture
        )
        faults += [f"{name} at {screen}: {fault}" for fault in look.faults]
    return faults


def main(more: list[str]) -> int:
    """Look at the site and at further pages; the number of faults."""
    program = chromium()
    if program is None:
        print("No chromium found; `apt-get install chromium` brings one.")
        return 1
    faults, count = [], 0
    with Browser(program) as browser, served(SITE) as address:
        for page in sorted(SITE.rglob("*.html")):
            name = page.relative_to(SITE).as_posix()
            if name != "404.html":
                faults += look_at(browser, f"{address}/{name}", name, SHOTS)
                count += 1
        for path in map(Path, more):
            faults += look_at(
                browser, path.resolve().as_uri(), f"report_{path.parent.name}_{path.stem}", SHOTS
            )
            count += 1
    print("\n".join(faults) or f"{count} pages, no fault; screenshots in {SHOTS.relative_to(ROOT)}.")
    return min(len(faults), 99)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
