"""Write constraints.txt and constraints-celery.txt from what pip installs today.

What belongs to a Celery release goes to a file of its own, so that the environments for other
Celery versions can use all other pins.

Run it with the oldest Python that is supported, down to its patch level (Debian 12 has 3.11.2):
newer ones can install what older ones pin, not the other way round.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CELERY_RELEASE = {"amqp", "billiard", "celery", "kombu", "redis", "vine"}


def installed_versions() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-q", f"{ROOT}[dev]"], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True)
    return [line for line in frozen.stdout.splitlines() if "==" in line]


def write(name: str, pins: list[str]) -> None:
    (ROOT / name).write_text("".join(f"{pin}\n" for pin in pins))
    print(f"{name}: {len(pins)} versions")


def main() -> None:
    pins = installed_versions()
    release = [pin for pin in pins if pin.split("==")[0].lower() in CELERY_RELEASE]
    write("constraints.txt", [pin for pin in pins if pin not in release])
    write("constraints-celery.txt", release)


if __name__ == "__main__":
    main()
