#!/bin/sh
# Makes .venv, with what `make demo` needs or with all: `environment.sh demo`, `environment.sh dev`.
#
# Python makes the folder, its pip fetches uv, and uv the rest, as pinned in the constraints. What is
# there already, for this very folder and these pins, is left as it is; what was broken off is done
# again. Pip's own settings of index and certificate (pip.conf, PIP_INDEX_URL) hold for uv too.
set -eu

venv=.venv
here="$(pwd -P)"
stamp="$venv/.$1"
doing="finding Python"

say() { printf '%s\n' "$*" >&2; }

# What there is to say when something fails, whatever it was; its own words stand above.
explain() {
    status=$?
    [ "$status" = 0 ] && return
    say "" "celery-fair: could not set up $venv; it failed while $doing."
    free="$(df -Pk . | awk 'NR == 2 { print int($4 / 1024) }')"
    [ "${free:-9999}" -lt "$space" ] &&
        say "The disk has ${free} MiB left here; about $space are needed."
    say "It needs the Python package index (a mirror: PIP_INDEX_URL=…) and about $space MiB of disk." \
        "When that is mended, give the same command again."
    exit "$status"
}

case "$1" in
    demo) extra=cli space=150 ;;
    dev) extra=dev space=2500 ;;
    *) say "environment.sh demo|dev, not '$1'"; exit 2 ;;
esac

current() {
    [ -e "$1" ] && [ "$(cat "$1")" = "$here" ] && "$venv/bin/python" -c '' 2>/dev/null || return 1
    for source in pyproject.toml constraints.txt constraints-celery.txt; do
        [ "$source" -nt "$1" ] && return 1
    done
    return 0
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for python in "${PYTHON:-python3}" ${PYTHON:+--} python3.14 python3.13 python3.12 python3.11; do
        [ "$python" != -- ] || break  # one that was named is taken, or none
        if new_enough "$python"; then return; fi
    done
    found="$("${PYTHON:-python3}" --version 2>&1)" || found='not there'
    say "celery-fair needs Python 3.11 or newer; ${PYTHON:-python3} is $found." \
        "If you have one elsewhere: make PYTHON=/path/to/python3.11 …"
    exit 1
}

# Whether .venv is of another Python than the one that was named.
another_python() {
    [ -n "${PYTHON:-}" ] &&
        [ "$(version_of "$PYTHON")" != "$(version_of "$venv/bin/python")" ]
}

version_of() { "$1" -c 'import sys; print(*sys.version_info[:3], sys.base_prefix)' 2>/dev/null; }

# Two at once would be in each other's way. The lock goes with the process.
if command -v flock >/dev/null 2>&1; then
    exec 9>.venv.lock
    flock 9
fi
if ! another_python; then
    for done in "$venv/.dev" "$stamp"; do
        if current "$done"; then exit 0; fi
    done
fi
find_python
PYTHON="$python" scripts/system-packages.sh python3-venv
trap explain EXIT

# A folder that was moved, or whose Python is gone or another, or in which something was broken off.
if another_python || [ ! -e "$venv/.made" ] || [ "$(cat "$venv/.made")" != "$here" ] || [ -e "$venv/.unfinished" ] ||
    ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    doing="making $venv with $python"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    printf '%s\n' "$here" >"$venv/.made"
fi

touch "$venv/.unfinished"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

doing="fetching uv with pip"
"$venv/bin/uv" --version >/dev/null 2>&1 || pip install -q -c constraints.txt uv

doing="reading pip's settings"
settings="$(pip config list 2>/dev/null || true)"
setting() { printf '%s\n' "$settings" | sed -n "s/^[^.]*\.\.\{0,1\}$1='\(.*\)'$/\1/p" | tail -n 1; }
UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$(setting index-url)}"
SSL_CERT_FILE="${SSL_CERT_FILE:-$(setting cert)}"
[ -z "$UV_DEFAULT_INDEX" ] || export UV_DEFAULT_INDEX
[ -z "$SSL_CERT_FILE" ] || export SSL_CERT_FILE

doing="installing packages"
say "Installing celery-fair[$extra] into $venv"
# Spark comes as source, half a gigabyte of archives: to compress them again would take longest.
"$venv/bin/uv" pip install -q --python "$venv/bin/python" -c constraints.txt \
    -c constraints-celery.txt --config-setting=--build-option=--compression=stored \
    -e ".[$extra]"
printf '%s\n' "$here" >"$stamp"
rm -f "$venv/.unfinished"
