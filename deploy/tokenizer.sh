#!/usr/bin/env bash
# Builds libstoker_tokenizer.so, which pipelines that take strings need
# (config/README.md), from server/pipelines/tokenizer with cargo. What it is made
# of is fixed by Cargo.lock and comes from crates.io. Seconds when nothing changed.
#
#   deploy/tokenizer.sh [FOLDER]   into FOLDER, by default beside the stokerd of build/release
#
# Without a Rust toolchain it says which packages have one, and fails.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

case ${1:-} in
  -*)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
folder=${1:-$repo_root/build/release/server/main}
crate=$repo_root/server/pipelines/tokenizer
cargo=$(find_cargo) || {
  echo "cargo 1.85 or later is needed, found none: on Debian 12 apt-get install rustc-web cargo-web, on Ubuntu 24.04" \
    "rustc-1.85 cargo-1.85"
  exit 1
}
# Versioned packages have their rustc beside their cargo.
versioned=${cargo/cargo-/rustc-}
[ "$versioned" = "$cargo" ] || export RUSTC=$versioned
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$STOKER_HOME/tokenizer}
"$cargo" build --release --locked --quiet --manifest-path "$crate/Cargo.toml"
mkdir -p "$folder"
# A daemon may have the old one open.
install -m 644 "$CARGO_TARGET_DIR/release/libstoker_tokenizer.so" "$folder/libstoker_tokenizer.so.new"
mv "$folder/libstoker_tokenizer.so.new" "$folder/libstoker_tokenizer.so"
