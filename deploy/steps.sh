# Sourced by the scripts here and by tests/run.sh: where things live, and steps that
# say what they do, how long it took and, when they fail, why.

repo_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Everything kept between runs: the Python environment, compiler and kernel caches.
STOKER_HOME=${STOKER_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/stoker}
export CCACHE_DIR=${CCACHE_DIR:-$STOKER_HOME/ccache}
# Two checkouts share what they compile: paths below the checkout count as relative.
export CCACHE_BASEDIR=$repo_root CCACHE_NOHASHDIR=1
lock_file=$repo_root/deploy/requirements.lock
llhttp_lock=$repo_root/deploy/llhttp.lock
base_python=/usr/bin/python3

fail() {
  printf '\nstoker: %s\n' "$*" >&2
  exit 1
}

# step "what it does" command [arguments]: output goes to a log, whose end is shown
# when the command fails.
step() {
  local title=$1 log start
  shift
  mkdir -p "$STOKER_HOME/logs"
  log=$STOKER_HOME/logs/$(printf '%s' "$title" | tr -cs 'a-zA-Z0-9' '-').log
  start=$SECONDS
  printf '%-58s' "  $title"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf 'ok %5d s\n' $((SECONDS - start))
  else
    printf 'FAILED\n\n'
    tail -n 25 "$log" >&2
    fail "step \"$title\" failed; the whole log is $log"
  fi
}

# Those of the named Debian packages that aren't installed.
missing_packages() {
  local name
  for name in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -q '^installed$' ||
      printf '%s\n' "$name"
  done
}

install_packages() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "not root and no sudo; ask an administrator to run: apt-get install $*"
      return 1
    }
    as_root=(sudo)
  fi
  # RUNLEVEL=1: services (of packages that carry promtool and the like) are not started.
  "${as_root[@]}" apt-get update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
      apt-get install -y --no-install-recommends "$@"
}

# The environment's folder changes with the locked requirements and the interpreter,
# so that an old one is never taken for a new one.
venv_folder() {
  local tag
  tag=$( (cat "$lock_file" && "$base_python" --version) | sha256sum | cut -c1-12)
  printf '%s/venv-%s' "$STOKER_HOME" "$tag"
}

llhttp_folder() {
  printf '%s/llhttp-%s\n' "$STOKER_HOME" "$(sha256sum <"$llhttp_lock" | cut -c1-12)"
}

# A cargo that builds server/pipelines/tokenizer: 1.85 or later. Fails without one.
find_cargo() {
  local name minor
  for name in cargo cargo-1.89 cargo-1.85; do
    minor=$("$name" --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
    [ "${minor:-0}" -lt 85 ] || {
      command -v "$name"
      return
    }
  done
  return 1
}

configure_and_build() {
  local preset=$1
  shift
  cmake --preset "$preset" -S "$repo_root" -DSTOKER_PYTHON="$(venv_folder)/bin/python" &&
    cmake --build "$repo_root/build/$preset" --parallel "$(nproc)" "$@"
}
