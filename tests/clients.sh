#!/usr/bin/env bash
# Prints the Python that has the HTTP clients of tests/clients.lock; makes its environment if it isn't there.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../deploy/steps.sh"

lock=$repo_root/tests/clients.lock
clients=$STOKER_HOME/clients-$( (cat "$lock" && "$base_python" --version) | sha256sum | cut -c1-12)

make_clients() {
  rm -rf "$clients.new"
  "$base_python" -m venv "$clients.new" &&
    "$clients.new/bin/pip" install --disable-pip-version-check --require-hashes --no-deps -r "$lock" &&
    mv "$clients.new" "$clients"
}

[ -x "$clients/bin/python" ] || step "clients of HTTP" make_clients >&2
printf '%s/bin/python\n' "$clients"
