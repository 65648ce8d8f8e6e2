#!/bin/sh
# Builds the source archive and the wheel as for an index, and tries the wheel where nothing else is:
# in an empty environment of each Python from 3.11 on that uv finds here. Leaves both in dist/.
set -eu

python=.venv/bin/python
rm -rf dist
"$python" -m build -q --outdir dist .
"$python" scripts/check_metadata.py dist/*.whl

empty="$(mktemp -d)"
trap 'rm -rf "$empty"' EXIT
cat >"$empty/shop.py" <<'APP'
from celery import Celery
from celery_fair import NonRepeatableTask, install

app = Celery("shop", broker="memory://")
app.conf.fair_queues = {"interactive": {"quantum": 40}, "bulk": {"quantum": 4}}
install(app)


@app.task(base=NonRepeatableTask)
def charge(cents):
    return cents
APP

tried=""
for version in 11 12 13 14; do
    .venv/bin/uv venv -q --no-python-downloads --python "3.$version" "$empty/$version" \
        2>/dev/null || continue
    .venv/bin/uv pip install -q --python "$empty/$version/bin/python" -c constraints.txt \
        -c constraints-celery.txt dist/*.whl
    (
        cd "$empty"
        "./$version/bin/python" -W error::DeprecationWarning -c 'import shop; shop.app.finalize()'
        "./$version/bin/celery" -A shop fair --help >help
        grep -q 'dead-letters' help
    )
    tried="$tried 3.$version"
done
[ -n "$tried" ] || { echo "uv finds no Python from 3.11 on" >&2; exit 1; }
echo "dist/: built, and tried in empty environments of Python$tried"
