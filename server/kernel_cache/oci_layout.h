// A pack as an OCI image layout, a folder that skopeo, oras and podman push to
// registries and pull from them (OCI image specification 1.1, image-layout.md):
//
//   oci-layout                 the version of the layout
//   index.json                 tag → manifest
//   blobs/sha256/<64 hex>      the manifest, the configuration, the pack
//
// The manifest is that of an image with one layer, the pack's tar, so besides
// being an artifact (artifactType) it is an image that Kubernetes mounts as an
// image volume and docker build copies from: its files are a cache folder.
// Annotations tell registries' users what it fits.
//
// A copy must keep digests: a recompressed layer is no pack any more.
//
//   skopeo copy --preserve-digests oci:FOLDER:TAG docker://REGISTRY/NAME:TAG
//
// These functions block on disk. Writers of one folder must take turns.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stoker {

inline constexpr std::string_view kPackArtifactType =
    "application/vnd.stoker.kernel-pack.v1";

// Adds the pack under a tag ([A-Za-z0-9_][A-Za-z0-9._-]{0,127}), which is moved
// when the layout has it (old blobs stay). The folder is created when missing;
// FAILED_PRECONDITION when it holds something other than a layout. The same
// pack and tag give the same bytes.
absl::Status WriteOciLayout(const std::string& pack_path,
                            const std::string& folder, const std::string& tag);

// The path of the pack with that tag, its digest and size verified. NOT_FOUND,
// with the tags that there are, or INVALID_ARGUMENT with what is wrong.
absl::StatusOr<std::string> FindPackInOciLayout(const std::string& folder,
                                                const std::string& tag);

}  // namespace stoker
