"""Make the picture of the documentation's first page anew: run the demo, keep its plots.

    python scripts/demo_picture.py --broker amqp://guest:guest@localhost:5672// --pool prefork

All arguments are the demo's. What is kept stands in the first page as it is.
"""

import json
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

PICTURE = Path(__file__).parents[1] / "docs" / "demo-picture.html"


def picture(page: str, report: dict[str, object]) -> str:
    """Return a figure: a run's name, its plot, the other's, and the sentence of both.

    Arguments:
        page: what the demo has written.
        report: what it has printed.
    """
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    plots = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    runs = [f"<p>{title}</p>\n{plot}" for title, plot in zip(titles, plots, strict=True)]
    caption = f"<figcaption>{escape(str(report['sentence']))}</figcaption>"
    return "\n".join(['<figure class="demo">', *runs, caption, "</figure>", ""])


def main() -> None:
    with TemporaryDirectory() as folder:
        page = Path(folder, "demo.html")
        command = [sys.executable, "-m", "celery", "fair", "demo", *sys.argv[1:]]
        asked = [*command, "--json", "--html", str(page)]
        done = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True)
        PICTURE.write_text(picture(page.read_text(), json.loads(done.stdout)))


if __name__ == "__main__":
    main()
