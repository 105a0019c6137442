#!/usr/bin/env bash
# Puts the CUDA half of torch, and what it needs of CUDA, into the folder where libstoker_cuda.so is, beside what
# deploy/packages/torch_libraries.sh puts there: what the image for GPUs ships, and a host needs whose models run on a GPU.
# TORCH is the folder of torch 2.11.0's wheel in a Python environment, .../site-packages/torch.
#
#   deploy/packages/cuda_libraries.sh TORCH FOLDER         copies, 3 GB
#   deploy/packages/cuda_libraries.sh --link TORCH FOLDER  links to TORCH and its neighbours, which have to stay there
#
# The driver's own (libcuda, libnvidia-ml) are never among them: they come with the driver, also into containers.
set -euo pipefail

place=(cp -L)
if [ "${1:-}" = --link ]; then
  place=(ln -s)
  shift
fi
[ $# -eq 2 ] && [ "${1#-}" = "$1" ] || {
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
torch=$(realpath -s "$1")
packages=$(dirname "$torch")
folder=$2

# Linear algebra, cuDNN's engines and the run-time compiler of kernels are opened by name once somebody needs them.
roots=("$torch"/lib/libtorch_cuda.so "$torch"/lib/libtorch_cuda_linalg.so
  "$packages"/nvidia/cudnn/lib/libcudnn_*.so.9
  "$packages"/nvidia/cu13/lib/libnvrtc.so.13 "$packages"/nvidia/cu13/lib/libnvrtc-builtins.so.13.0)
for library in "${roots[@]}"; do
  [ -e "$library" ] || {
    echo "stoker: expected torch 2.11.0 for CUDA 13.0 in $packages, there is no $library" >&2
    exit 1
  }
done
needed=$(ldd "${roots[@]}")
if grep 'not found' <<<"$needed" >&2; then
  echo "stoker: expected the libraries above in $packages/nvidia" >&2
  exit 1
fi
# One name for each file; a path may go through `..`.
files() { awk '$2 == "=>" { print $3 }' | xargs realpath -s | grep -F "$packages/" | sort -u; }

mkdir -p "$folder"
comm -23 <({ files <<<"$needed" && printf '%s\n' "${roots[@]}"; } | sort -u) \
  <({ ldd "$torch/lib/libtorch_cpu.so" | files && echo "$torch/lib/libtorch_cpu.so"; } | sort -u) |
  while read -r library; do
    "${place[@]}" -f "$library" "$folder/"
    [ "${place[0]}" = ln ] || {
      # The same in every copy, as torch_libraries.sh does it.
      chmod 644 "$folder/$(basename "$library")"
      touch -d "@${SOURCE_DATE_EPOCH:-0}" "$folder/$(basename "$library")"
    }
  done
