#!/usr/bin/env bash
# Makes what a release consists of, into one folder:
#
#   stoker_VERSION_amd64.deb              the Debian package
#   stoker-cuda_VERSION_amd64.deb         what it needs beside that for GPUs
#   stoker-VERSION.tgz                    the Helm chart
#   stoker-VERSION-image.tar.zst          the images stoker:VERSION and stoker:VERSION-minimal
#   *.spdx.json                           what the first package and the image stoker:VERSION are made of
#   SHA256SUMS                            of all of them
#
# The images stoker:VERSION-cuda and stoker:VERSION-compile stay in the Docker daemon, for `docker
# push`: they are 4 and 6 GB.
#
#   deploy/release.sh FOLDER              everything; needs Docker
#   deploy/release.sh --no-images FOLDER  without the images
#
# Dates are the commit's: the same commit on the same system gives the same package, chart and
# their descriptions, byte for byte. Images don't come out the same: their layers hold the times
# at which they were made.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
cd "$repo_root"

images=1
if [ "${1:-}" = --no-images ]; then
  images=0
  shift
fi
if [ $# -ne 1 ] || [ "${1#-}" != "$1" ]; then
  sed -n '2,20s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
[ ! -e "$1" ] || [ -z "$(ls -A "$1")" ] || fail "expected an empty or a new folder, got $1"
[ -z "$(git status --porcelain)" ] || fail "expected a checkout as it was committed: see git status"
if [ "$images" = 1 ]; then
  docker info >/dev/null 2>&1 ||
    fail "expected a Docker daemon for the images, found none; without them: $0 --no-images $1"
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
version=$(sed -n 's/^project(stoker VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
chart_version=$(sed -n 's/^version: //p' deploy/kubernetes/charts/stoker/Chart.yaml)
[ "$chart_version" = "$version" ] ||
  fail "expected one version, got $version in CMakeLists.txt and $chart_version in the chart"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sbom_python() {
  local tag
  tag=$( (cat deploy/release.lock && "$base_python" --version) | sha256sum | cut -c1-12)
  printf '%s/release-%s/bin/python' "$STOKER_HOME" "$tag"
}

make_sbom_environment() {
  local venv
  venv=$(dirname "$(dirname "$(sbom_python)")")
  rm -rf "$venv" "$venv.new"
  "$base_python" -m venv "$venv.new" &&
    "$venv.new/bin/pip" install --disable-pip-version-check --require-hashes --no-deps -r deploy/release.lock &&
    # A venv's scripts name its folder; only `python` is used, which does not.
    mv "$venv.new" "$venv"
}

# describe NAME FILE STATUS [--depends ...]
describe() {
  local name=$1 file=$2 status=$3
  shift 3
  "$(sbom_python)" deploy/sbom.py --name "$name" --version "$version" --commit "$commit" --file "$file" \
    --status "$status" --output "$file.spdx.json" "$@"
}

make_packages() {
  cpack --config build/release/CPackConfig.cmake -B "$work/package" &&
    cp "$work/package/stoker_${version}_amd64.deb" "$work/package/stoker-cuda_${version}_amd64.deb" "$out/"
}

describe_package() {
  local package=$out/stoker_${version}_amd64.deb
  describe stoker "$package" /var/lib/dpkg/status --depends "$(dpkg-deb -f "$package" Depends)"
}

# As `helm package` does, but for the dates.
make_chart() {
  tar --create --directory deploy/kubernetes/charts --dereference \
    --exclude-from <(sed 's,/$,,' deploy/kubernetes/charts/stoker/.helmignore) \
    --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX stoker |
    gzip --no-name --best >"$out/stoker-$version.tgz"
}

# build TAG TARGET
build() {
  local given=()
  # A private certificate authority of this host.
  [ -z "${PIP_CERT:-}" ] || given+=("--secret=id=ca,src=$PIP_CERT")
  # shellcheck disable=SC2086
  DOCKER_BUILDKIT=1 docker build "${given[@]}" ${STOKER_BUILD_OPTIONS:-} --target "$2" --tag "$1" \
    --build-arg "VERSION=$version" --build-arg "REVISION=$commit" \
    --build-arg "CREATED=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" .
}

save_images() {
  docker save "stoker:$version" "stoker:$version-minimal" | zstd -q -T0 -3 -o "$out/stoker-$version-image.tar.zst"
}

describe_image() {
  local container
  container=$(docker create "stoker:$version") &&
    docker cp "$container:/var/lib/dpkg/status" "$work/status" &&
    docker rm "$container" &&
    describe stoker-image "$out/stoker-$version-image.tar.zst" "$work/status"
}

echo "Stoker $version, commit ${commit:0:12}"
[ -x "$(sbom_python)" ] || step "tools for the lists of parts" make_sbom_environment
step "build" configure_and_build release --target stokerd stokerctl stoker_cuda
step "Debian packages" make_packages
step "list of parts of the first" describe_package
step "chart" make_chart
if [ "$images" = 1 ]; then
  step "image stoker:$version" build "stoker:$version" serve
  step "image stoker:$version-minimal" build "stoker:$version-minimal" serve-minimal
  step "image stoker:$version-cuda" build "stoker:$version-cuda" serve-cuda
  step "image stoker:$version-compile" build "stoker:$version-compile" compile
  step "images as a file" save_images
  step "their list of parts" describe_image
fi
(cd "$out" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
cat "$out/SHA256SUMS"
