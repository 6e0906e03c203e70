"""Take the README's picture of the page; chromium must be installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent / "images" / "page.png"
SHOWN = {
    "q": "?city : borders(Brazil, ?n) & capital_of(?city, ?n) & !speaks(?n, Spanish)",
    "observed": "train+valid",
    "top": "6",
    "open": "Georgetown",
}


def photograph(address: str, shown: dict[str, str] = SHOWN, picture: Path = PICTURE) -> None:
    """Open the page with a question in its address, and an answer of it, and save what is seen."""
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1120, "height": 920}, color_scheme="light")
        page.goto(f"{address}?{urlencode(shown)}")
        page.wait_for_selector(".why svg")
        page.wait_for_timeout(500)  # bars grow and the reason unfolds
        page.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Serve `world` on a free port for as long as the picture takes."""
    command = [sys.executable, "-m", "tacit", "serve", "world", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            said = service.stdout.readline() if service.stdout else ""
            photograph(re.findall(r"http://\S+", said)[0])
        finally:
            service.terminate()


if __name__ == "__main__":
    main()
