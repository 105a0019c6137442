#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the C++ files that changed: against where the checkout left
# origin/main, or in the last commit where that is the same. Without libtorch: what needs it is
# left out, and so are tests' clients of it.
#
#   tests/tidy.sh            what changed
#   tests/tidy.sh COMMIT     what changed since that commit
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../deploy/steps.sh"
cd "$repo_root"

since=${1:-$(git merge-base HEAD origin/main 2>/dev/null || true)}
if [ -z "$since" ] || { [ $# -eq 0 ] && [ "$since" = "$(git rev-parse HEAD)" ]; }; then
  since=HEAD~1
fi

# What is included is looked at with what includes it: for a header, the file of its name.
mapfile -t changed < <(git diff --name-only --diff-filter=d "$since" -- 'server/*.h' 'server/*.cc' \
  'tests/*.h' 'tests/*.cc' 'loadtest/*.h' 'loadtest/*.cc' | sed 's/\.h$/.cc/' | sort -u)
cmake --preset tidy >/dev/null
known=build/tidy/compile_commands.json
files=()
for file in "${changed[@]}"; do
  if grep -qF "\"$repo_root/$file\"" "$known"; then files+=("$file"); fi
done
echo "${#files[@]} files changed since $since"
[ ${#files[@]} -gt 0 ] || exit 0
cmake --build build/tidy --target stoker_proto_headers
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -quiet -p build/tidy
