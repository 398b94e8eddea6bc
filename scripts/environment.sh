# Sourced by demo, test and check: makes .venv and installs the hashed pins, once and again only when they change.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

ready() { # ready NAME: .venv holds requirements/NAME.txt and this project
    local pins="requirements/$1.txt" python="${PYTHON:-python3}" wanted stamp
    stamp=".venv/.installed-$1"
    wanted="$(cat "$pins" pyproject.toml "${BASH_SOURCE[0]}" | cksum) $PWD"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return; fi

    "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || {
        echo "kernelbandits runs on Python 3.11 to 3.14; '$python' is $("$python" --version 2>&1)." \
             "Name another one: PYTHON=python3.12 $0" >&2
        exit 1
    }
    echo "Preparing .venv ($pins) ..." >&2
    [ -x .venv/bin/python ] || "$python" -m venv .venv || exit 1
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$pins" || exit 1
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . || exit 1
    echo "$wanted" > "$stamp"
}
