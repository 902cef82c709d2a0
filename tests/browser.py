"""A real browser without a window: what it makes of a page, and what it complains of."""

import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class Visit:
    dom: str
    console: list[str]
    requests: list[str]


@contextmanager
def server(pages: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Serves pages on this machine, and remembers what it was asked for."""
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            content = pages.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write((content or "").encode())

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}", requests
        finally:
            listening.shutdown()
            thread.join()


FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--virtual-time-budget=3000",
    "--enable-logging=stderr",
)


def visit(pages: dict[str, str], profile: Path, *flags: str) -> Visit:
    """Opens the page ``/`` of these."""
    assert CHROMIUM is not None
    with server(pages) as (address, requests):
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", *flags, f"{address}/"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in ended.stderr.splitlines() if re.search(r"CONSOLE[:(]", line)]
    return Visit(dom=ended.stdout, console=console, requests=requests)


FRAME = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,"><body style="margin:0">
<iframe src="/page" style="width:{width}px;height:900px;border:0"></iframe><pre></pre><script>
document.querySelector("iframe").onload = function () {{
  const page = this.contentDocument.documentElement;
  const small = [...page.querySelectorAll("p, li, td, dd, pre")].map(
    one => parseFloat(this.contentWindow.getComputedStyle(one).fontSize));
  document.querySelector("pre").textContent = JSON.stringify(
    {{scroll: page.scrollWidth, width: page.clientWidth, font: Math.min(...small)}});
}};
</script></body>"""
"""Measures the page ``/page`` in a frame: a window of the browser has a least width, which is wider than a phone."""
