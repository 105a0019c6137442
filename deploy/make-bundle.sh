#!/usr/bin/env bash
# Packs what a machine with a GPU needs to try Stoker and measure it, and has not got itself: the programs of
# build/release with the libraries that they were linked against, the compiler and tests/gpu. Torch is not in it:
# there has to be a python3 that has 2.11.0; of CUDA's headers, those that don't come with torch are. glibc may be
# newer than here, not older.
#
#   deploy/make-bundle.sh [FOLDER]     makes FOLDER/stoker-gpu-bundle.tar.gz; by default build/bundle
#
# There: tar -xf stoker-gpu-bundle.tar.gz && stoker-gpu/tests/gpu/run.sh
set -euo pipefail
shopt -s extglob
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
cd "$repo_root"

max_bytes=$((60 << 20))
build=build/release
case ${1:-} in
  -*)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
folder=${1:-build/bundle}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/lacking"
bundle=$work/stoker-gpu

# Those of the named targets that this checkout has.
known_targets() {
  local name
  for name in "$@"; do
    if grep -qE "^build ([^:]*/)?$name:|^build $name:" "$build/build.ninja"; then printf '%s\n' "$name"; fi
  done
}

build_all() {
  cmake --preset release -S "$repo_root" -DSTOKER_PYTHON="$(venv_folder)/bin/python" &&
    mapfile -t targets < <(known_targets stokerd stokerctl stoker-loadtest stoker_cuda gpu_test gpu_bench) &&
    cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}"
}

torch_folder() {
  "$(venv_folder)/bin/python" -c 'import torch, os; print(os.path.dirname(torch.__file__))'
}

# Copies the libraries that the bundle's programs are linked against, but for C's, C++'s, torch's and CUDA's.
copy_libraries() {
  local torch file
  torch=$(realpath "$(torch_folder)/..")
  export LD_LIBRARY_PATH=$torch/torch/lib
  for file in "$torch"/nvidia/cu*/lib; do LD_LIBRARY_PATH+=:$file; done
  find "$bundle/bin" "$bundle/lib" -type f -exec ldd {} + >"$work/needed" 2>&1 || true
  if grep 'not found' "$work/needed" | grep -v 'libcuda\.so\|libnvidia-ml'; then
    echo "a library is missing here: is the build complete?"
    return 1
  fi
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' "$work/needed" | sort -u | while read -r file; do
    case $(basename "$file"):$(realpath "$file") in
      *:"$(realpath "$torch")"/*) ;;
      ld-linux*:* | lib[cm].so*:* | lib@(dl|pthread|rt|resolv|stdc++|gcc_s|mvec|anl|util|nss_*).so*:*) ;;
      *) cp -L "$file" "$bundle/lib/" ;;
    esac
  done
}

pack() {
  mkdir -p "$bundle/lib" "$bundle/tests/gpu" "$bundle/loadtest/servers"
  cmake --install "$build" --strip --component daemon --prefix "$bundle" &&
    cmake --install "$build" --component compiler --prefix "$work/share" &&
    mv "$work/share/share/stoker/compiler" "$bundle/compiler" || return 1
  local name found
  for name in stoker-loadtest gpu_test gpu_bench; do
    found=$(find "$build" -type f -name "$name" -perm -u+x | head -n 1)
    if [ -n "$found" ]; then cp "$found" "$bundle/bin/"; else echo "$name" >>"$work/lacking"; fi
  done
  # The half of the daemon that knows CUDA, where stokerd looks for it.
  mkdir -p "$bundle/lib/stoker"
  if [ ! -e "$bundle/lib/stoker/libstoker_cuda.so" ] && [ ! -e "$bundle/bin/libstoker_cuda.so" ]; then
    found=$(find "$build" -type f -name libstoker_cuda.so | head -n 1)
    if [ -n "$found" ]; then cp "$found" "$bundle/lib/stoker/"; else echo libstoker_cuda.so >>"$work/lacking"; fi
  fi
  copy_libraries || return 1
  find "$bundle/bin" "$bundle/lib" -type f -exec strip --strip-unneeded {} +
  # What stokerd starts as its Python: without the bundle's libraries, which are for its programs.
  cat >"$bundle/bin/python" <<'END'
#!/bin/sh
LD_LIBRARY_PATH=$STOKER_OUTER_LIBRARY_PATH exec "${STOKER_PYTHON:-python3}" "$@"
END
  chmod +x "$bundle/bin/python"
  # What compiling needs and torch's wheel doesn't ask for (nvidia-cuda-crt, nvidia-cuda-cccl).
  mkdir -p "$bundle/cuda/include"
  for found in "$(torch_folder)"/../nvidia/cu[0-9]*/include; do
    cp -r "$found/crt" "$found/cccl/nv" "$bundle/cuda/include/" || return 1
  done
  cp tests/gpu/*.py tests/gpu/run.sh "$bundle/tests/gpu/"
  cp tests/__init__.py "$bundle/tests/"
  cp loadtest/__init__.py "$bundle/loadtest/"
  cp loadtest/servers/*.py "$bundle/loadtest/servers/"
  git rev-parse HEAD >"$bundle/COMMIT"
  tar -C "$work" -czf "$work/bundle.tar.gz" stoker-gpu
}

[ -x "$(venv_folder)/bin/python" ] || fail "the Python environment is missing: run deploy/install.sh"
step "build" build_all
step "bundle" pack
bytes=$(stat -c %s "$work/bundle.tar.gz")
while read -r name; do echo "  without $name, which this checkout doesn't build"; done <"$work/lacking"
[ "$bytes" -le "$max_bytes" ] || fail "the bundle has $bytes bytes, expected at most $max_bytes"
mv "$work/bundle.tar.gz" "$folder/stoker-gpu-bundle.tar.gz"
printf '  %s: %d.%d MB, %s\n' "$folder/stoker-gpu-bundle.tar.gz" $((bytes / 1000000)) $((bytes / 100000 % 10)) \
  "$(tar -tzf "$folder/stoker-gpu-bundle.tar.gz" | grep -c '\.so') libraries"
