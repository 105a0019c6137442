#!/usr/bin/env bash
# Copies the libraries of torch's wheels that stokerd loads into a folder, stripped: what images and
# the Debian package ship.
#
#   deploy/packages/torch_libraries.sh PYTHON FOLDER
#
# libtorch_cpu needs CUDA's runtime and its profiler even where there is no GPU: two small files.
# libtorch itself is never among them, it would need the whole of CUDA.
set -euo pipefail

[ $# -eq 2 ] || {
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
python=$1
folder=$2
torch=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
cuda=$(dirname "$torch")/nvidia/cu13/lib

mkdir -p "$folder"
for library in libc10.so libtorch_cpu.so libgomp.so.1; do
  strip --strip-unneeded -o "$folder/$library" "$torch/lib/$library"
done
cp "$cuda/libcudart.so.13" "$cuda/libcupti.so.13" "$folder/"
# The same in every build: the date of no build, and no write or execute permission from the wheels.
chmod 644 "$folder"/*
touch -d "@${SOURCE_DATE_EPOCH:-0}" "$folder"/*
