#!/usr/bin/env bash
# Tries and measures everything that needs a GPU, in one call of nine minutes, on a machine that has nothing but
# Python with torch 2.11.0 and g++. Takes what deploy/make-bundle.sh made, packed or unpacked.
#
#   tests/gpu/run.sh [--bundle FILE_OR_FOLDER] [--out FOLDER] [--work FOLDER] [--continue FILE]
#                    [--budget-seconds 540] [--only STEP...]
#
# The bundle: by default the one that this script lies in, or else build/bundle/stoker-gpu-bundle.tar.gz of this
# checkout. gpu.json, gpu.txt and timeline.svg go to --out, by default $OUT or the current folder. Without a GPU the
# half that needs none runs, and the rest is named as skipped. A second call goes on where the first ended with --continue and the
# first one's gpu.json; with the same --work, which is kept, nothing is compiled again. python3 -m tests.gpu.merge puts
# results of several calls together. Exit code 0 when nothing that ran failed, and no GPU is there that can't be used.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bundle=$here
[ -e "$here/bin/stokerd" ] || bundle=$here/build/bundle/stoker-gpu-bundle.tar.gz
out=${OUT:-.}
kept=
more=()
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) bundle=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --work) kept=$2 && shift 2 ;;
    --continue) more+=(--continue "$(realpath "$2")") && shift 2 ;;
    --budget-seconds | --only) more+=("$@") && break ;;
    *)
      sed -n '2,13s/^# \{0,1\}//p' "$0"
      exit 2
      ;;
  esac
done
[ -e "$bundle" ] || {
  echo "no bundle at $bundle: make it with deploy/make-bundle.sh, or name it with --bundle" >&2
  exit 2
}
mkdir -p "$out"
out=$(cd "$out" && pwd)

work=$(mktemp -d "${TMPDIR:-/tmp}/stoker-gpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
if [ -f "$bundle" ]; then
  mkdir "$work/bundle"
  tar -xf "$bundle" -C "$work/bundle" --strip-components 1
  bundle=$work/bundle
fi
bundle=$(cd "$bundle" && pwd)

torch=$(python3 -c 'import torch, os; print(os.path.dirname(torch.__file__))' 2>/dev/null) || {
  echo "python3 has no torch: $(command -v python3)" >&2
  exit 2
}
# The bundle's libraries are for its programs only: Python keeps its own.
export STOKER_PYTHON STOKER_OUTER_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
STOKER_PYTHON=$(command -v python3)
libraries=$bundle/lib:$torch/lib
for folder in "$torch"/../nvidia/cu*/lib; do
  [ ! -d "$folder" ] || libraries=$libraries:$(cd "$folder" && pwd)
done
libraries=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# CUDA's headers: those beside torch, and from the bundle those that its wheel doesn't ask for.
for folder in "$torch"/../nvidia/cu[0-9]*/include; do
  [ -d "$folder" ] || continue
  mkdir -p "$work/cuda/include"
  for header in "$folder"/* "$bundle"/cuda/include/*; do
    [ -e "$work/cuda/include/$(basename "$header")" ] || ln -s "$(realpath "$header")" "$work/cuda/include/"
  done
  export CUDA_HOME=$work/cuda
done

[ -z "$kept" ] || { mkdir -p "$kept" && kept=$(cd "$kept" && pwd); }
cd "$bundle"
PYTHONUNBUFFERED=1 python3 -m tests.gpu.run --bundle "$bundle" --work "${kept:-$work/run}" --out "$out" \
  --library-path "$libraries" --outer-library-path "${LD_LIBRARY_PATH:-}" ${more[@]+"${more[@]}"}
