#!/usr/bin/env bash
# Prints the Python that has the HTTP clients of tests/clients.lock; makes its environment if it isn't there.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../deploy/steps.sh"

lock=$repo_root/tests/clients.lock
clients=$STOKER_HOME/clients-$( (cat "$lock" && "$base_python" --version) | sha256sum | cut -c1-12)

# In a folder of this process's own: tests that run at the same time make it at the same time.
make_clients() {
  local new=$clients.$$
  "$base_python" -m venv "$new" &&
    "$new/bin/pip" install --disable-pip-version-check --require-hashes --no-deps -r "$lock" || return 1
  mv -T "$new" "$clients" 2>/dev/null || rm -rf "$new"
  [ -x "$clients/bin/python" ]
}

[ -x "$clients/bin/python" ] || step "clients of HTTP" make_clients >&2
printf '%s/bin/python\n' "$clients"
