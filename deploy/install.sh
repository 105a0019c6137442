#!/usr/bin/env bash
# Installs what Stoker's build, compiler, exporter and tests need on Debian 12 or
# Ubuntu 24.04: system packages, and a Python environment from a locked requirements
# file. Idempotent; takes seconds when nothing is missing.
#
#   deploy/install.sh            what building, compiling, exporting and serving need
#   deploy/install.sh --tests    that, and what tests/run.sh needs
#   deploy/install.sh --packages the system packages alone
#   deploy/install.sh --python   print the environment's Python and exit
#   deploy/install.sh --llhttp   print the folder of llhttp's sources and exit
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

packages=(
  build-essential ca-certificates ccache cmake git ninja-build pkg-config unzip
  libabsl-dev libcli11-dev libgmock-dev libgrpc++-dev libgrpc-dev libgtest-dev libnghttp2-dev
  libprotobuf-dev libsimdjson-dev libspdlog-dev libssl-dev libyaml-cpp-dev nlohmann-json3-dev
  prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc zlib1g-dev
  python3 python3-dev python3-venv
)
# The sanitizers' runtime comes in a package of its own, with the compiler's version in its name.
case $(. /etc/os-release && echo "$ID") in
  ubuntu) clang=18 ;;
  *) clang=14 ;;
esac
test_packages=("libclang-rt-$clang-dev" clang clang-format clang-tidy curl docker-registry haproxy nghttp2-client openssl prometheus skopeo)
# For libstoker_tokenizer.so, which quick start does without.
case $(. /etc/os-release && echo "$ID") in
  ubuntu) rust_packages=(rustc-1.85 cargo-1.85) ;;
  *) rust_packages=(rustc-web cargo-web) ;;
esac
need_disk_kb=$((5 * 1024 * 1024))

make_environment() {
  local venv=$1
  rm -rf "$venv.new"
  "$base_python" -m venv "$venv.new" &&
    "$venv.new/bin/pip" install --disable-pip-version-check --require-hashes \
      --no-deps -r "$lock_file" &&
    rm -rf "$venv" && mv "$venv.new" "$venv" &&
    # A venv's scripts name its folder; only `python` is used, which does not.
    "$venv/bin/python" -c 'import torch; assert torch.__version__.startswith("2.11.0")'
}

# The parser of HTTP/1.1 that Node.js maintains. Its C is generated, and comes in no Debian package; httptools,
# which carries it, is otherwise not used.
unpack_llhttp() {
  local folder=$1
  rm -rf "$folder.new"
  mkdir -p "$folder.new" &&
    "$base_python" -m venv "$folder.new/venv" &&
    "$folder.new/venv/bin/pip" download --disable-pip-version-check --require-hashes --no-deps \
      --no-binary :all: --dest "$folder.new" -r "$llhttp_lock" &&
    tar -xzf "$folder.new"/httptools-*.tar.gz -C "$folder.new" --strip-components=3 --wildcards '*/vendor/llhttp' &&
    rm -rf "$folder.new/venv" "$folder.new"/*.tar.gz "$folder" && mv "$folder.new" "$folder"
}

# What a kernel cache would otherwise make for itself when its first program is compiled. An image that has torch
# alone by now has no compiler yet, and makes them later.
precompiled_headers() {
  cd "$repo_root" && "$1/bin/python" -m compiler.worker.headers "${@:2}"
}

case ${1:-} in
  --llhttp)
    llhttp_folder
    exit 0
    ;;
  --python)
    printf '%s/bin/python\n' "$(venv_folder)"
    exit 0
    ;;
  --tests)
    packages+=("${test_packages[@]}")
    find_cargo >/dev/null || packages+=("${rust_packages[@]}")
    ;;
  '' | --packages) ;;
  *)
    sed -n '2,11s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac

command -v apt-get >/dev/null || fail "apt-get is needed: Debian 12 or Ubuntu 24.04"
[ "$(uname -m)" = x86_64 ] || fail "x86_64 is needed, this is $(uname -m)"

mapfile -t missing < <(missing_packages "${packages[@]}")
if [ ${#missing[@]} -gt 0 ] || [ ! -x "$(venv_folder)/bin/python" ]; then
  mkdir -p "$STOKER_HOME"
  free_kb=$(df -Pk "$STOKER_HOME" | awk 'NR == 2 { print $4 }')
  echo "  About 5 GB of disk will be used, most of it by torch, in $STOKER_HOME"
  [ "$free_kb" -ge "$need_disk_kb" ] ||
    fail "5 GB are needed in $STOKER_HOME, $((free_kb / 1024)) MB are free"
fi
if [ ${#missing[@]} -gt 0 ]; then
  step "system packages (${#missing[@]} missing)" install_packages "${missing[@]}"
fi
[ -f "$(llhttp_folder)/include/llhttp.h" ] || step "llhttp's sources" unpack_llhttp "$(llhttp_folder)"
[ "${1:-}" != --packages ] || exit 0
# Its name has Python's version in it: known only now.
venv=$(venv_folder)
[ -x "$venv/bin/python" ] || step "Python environment with torch 2.11.0" make_environment "$venv"
[ ! -d "$repo_root/compiler" ] || (precompiled_headers "$venv" --check) ||
  step "precompiled headers of the compiler" precompiled_headers "$venv"
