#include "kernel_cache/oci_layout.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/file_stream.h"
#include "base/files.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "kernel_cache/pack.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr char kLayoutVersion[] = "1.0.0";
constexpr char kIndexType[] = "application/vnd.oci.image.index.v1+json";
constexpr char kManifestType[] = "application/vnd.oci.image.manifest.v1+json";
// An artifact of its own would have an empty configuration and a layer type of
// its own, but no container runtime unpacks such a thing.
constexpr char kConfigType[] = "application/vnd.oci.image.config.v1+json";
constexpr char kLayerType[] = "application/vnd.oci.image.layer.v1.tar";
constexpr char kTagAnnotation[] = "org.opencontainers.image.ref.name";
constexpr char kTitleAnnotation[] = "org.opencontainers.image.title";
// The file name that oras gives the pack.
constexpr char kTitle[] = "kernels.pack";

// Without it skopeo compresses the layer, and some versions drop artifactType.
constexpr char kKeepDigests[] = " (copied without --preserve-digests?)";

// What the specification asks registries to accept.
constexpr int64_t kMaxDocumentBytes = int64_t{4} << 20;

absl::Status CheckTag(const std::string& tag) {
  constexpr std::string_view kWord =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  const bool good = !tag.empty() && tag.size() <= 128 &&
                    kWord.find(tag[0]) != std::string_view::npos &&
                    tag.find_first_not_of(absl::StrCat(Absl(kWord), ".-")) ==
                        std::string::npos;
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tag \"", absl::CHexEscape(tag),
                   "\", expected [A-Za-z0-9_][A-Za-z0-9._-]{0,127}"));
}

absl::Status Wrong(const std::string& path, std::string_view expected,
                   std::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected ", Absl(expected), ", found ",
                   absl::CHexEscape(Absl(found.substr(0, 200)))));
}

std::string BlobsFolder(const std::string& folder) {
  return absl::StrCat(folder, "/blobs/sha256");
}

absl::StatusOr<Json> ReadDocument(const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t bytes, Files::Real().Size(path));
  if (bytes > kMaxDocumentBytes) {
    return Wrong(path, absl::StrCat("at most ", kMaxDocumentBytes, " bytes"),
                 absl::StrCat(bytes));
  }
  ASSIGN_OR_RETURN(const std::string text, Files::Real().Read(path));
  Json json = ReadJson(text);
  if (!json.is_object()) return Wrong(path, "a JSON object", "something else");
  return json;
}

absl::Status WriteDocument(const std::string& folder, const std::string& name,
                           std::string_view text) {
  ASSIGN_OR_RETURN(DraftFile draft, DraftFile::CreateIn(folder));
  RETURN_IF_ERROR(draft.Write(text));
  return draft.PublishAs(absl::StrCat(folder, "/", name));
}

// A descriptor of what was stored.
Json Descriptor(const char* type, const std::string& sha256, int64_t bytes) {
  return {{"mediaType", type},
          {"digest", absl::StrCat("sha256:", sha256)},
          {"size", bytes}};
}

absl::StatusOr<Json> StoreText(const std::string& folder, const char* type,
                               const std::string& text) {
  const std::string sha256 = Sha256Hex(text);
  RETURN_IF_ERROR(WriteDocument(BlobsFolder(folder), sha256, text));
  return Descriptor(type, sha256, static_cast<int64_t>(text.size()));
}

absl::StatusOr<Json> StoreLayer(const std::string& folder,
                                const std::string& pack_path) {
  ASSIGN_OR_RETURN(InputFile pack, InputFile::Open(pack_path));
  ASSIGN_OR_RETURN(DraftFile draft, DraftFile::CreateIn(BlobsFolder(folder)));
  Sha256 digest;
  const auto copy = [&](std::string_view piece) {
    digest.Add(piece);
    return draft.Write(piece);
  };
  ASSIGN_OR_RETURN(const int64_t bytes, pack.ReadTo(copy));
  const std::string sha256 = digest.Hex();
  RETURN_IF_ERROR(
      draft.PublishAs(absl::StrCat(BlobsFolder(folder), "/", sha256)));
  Json layer = Descriptor(kLayerType, sha256, bytes);
  layer["annotations"][kTitleAnnotation] = kTitle;
  return layer;
}

// What users of a registry see without a download; values are texts.
Json Annotations(const PackSummary& pack) {
  std::set<std::string> models;
  for (const PackEntry& entry : pack.index.entries) models.insert(entry.model);
  Json annotations = {
      {"stoker.kernel-pack.entries", absl::StrCat(pack.index.entries.size())},
      {"stoker.kernel-pack.hardware", JsonText(HardwareOf(pack.index.entries))},
      {"stoker.kernel-pack.models", JsonText(models)}};
  if (!pack.signature.signer.empty()) {
    annotations["stoker.kernel-pack.signer"] = pack.signature.signer;
  }
  return annotations;
}

// The layout's index without the tag; a fresh one when there is no layout.
absl::StatusOr<Json> OpenLayout(const std::string& folder,
                                const std::string& tag) {
  RETURN_IF_ERROR(Files::Real().MakeFolders(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   Files::Real().List(folder));
  Json fresh = {{"schemaVersion", 2},
                {"mediaType", kIndexType},
                {"manifests", Json::array()}};
  if (names.empty()) return fresh;
  if (std::find(names.begin(), names.end(), "oci-layout") == names.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder,
                     ": expected an OCI layout or an empty folder, "
                     "found ",
                     names.front()));
  }
  const std::string path = absl::StrCat(folder, "/index.json");
  absl::StatusOr<Json> index = ReadDocument(path);
  if (absl::IsNotFound(index.status())) return fresh;
  RETURN_IF_ERROR(index.status());
  const Json& manifests = Field(*index, "manifests");
  if (!manifests.is_array()) {
    return Wrong(path, "an array \"manifests\"", manifests.type_name());
  }
  Json others = Json::array();
  for (const Json& manifest : manifests) {
    if (TextField(Field(manifest, "annotations"), kTagAnnotation) != tag) {
      others.push_back(manifest);
    }
  }
  (*index)["manifests"] = std::move(others);
  return index;
}

// The path of the blob that a descriptor is about, of which size and digest are
// right.
absl::StatusOr<std::string> FindBlob(const std::string& folder,
                                     const Json& descriptor,
                                     const std::string& where) {
  constexpr std::string_view kAlgorithm = "sha256:";
  const std::string digest = TextField(descriptor, "digest");
  const std::string hex =
      digest.starts_with(kAlgorithm) ? digest.substr(kAlgorithm.size()) : "";
  if (ArtifactKey::FromHex(hex).hex().empty()) {
    return Wrong(where, "a digest sha256:<64 hexadecimal digits>", digest);
  }
  std::string path = absl::StrCat(BlobsFolder(folder), "/", hex);
  ASSIGN_OR_RETURN(const int64_t bytes, Files::Real().Size(path));
  if (const Json& size = Field(descriptor, "size"); size != bytes) {
    return Wrong(path,
                 absl::StrCat(size.is_number() ? JsonText(size) : "unknown",
                              " bytes as in ", where),
                 absl::StrCat(bytes));
  }
  ASSIGN_OR_RETURN(const std::string actual, Sha256File(path));
  if (actual != hex) {
    return Wrong(path, absl::StrCat("SHA-256 ", hex), actual);
  }
  return path;
}

// The manifest with that tag.
absl::StatusOr<Json> FindManifest(const std::string& folder,
                                  const std::string& tag, std::string* path) {
  const std::string layout_path = absl::StrCat(folder, "/oci-layout");
  ASSIGN_OR_RETURN(const Json layout, ReadDocument(layout_path));
  const std::string version = TextField(layout, "imageLayoutVersion");
  if (version != kLayoutVersion) {
    return Wrong(layout_path,
                 absl::StrCat("imageLayoutVersion ", kLayoutVersion), version);
  }
  const std::string index_path = absl::StrCat(folder, "/index.json");
  ASSIGN_OR_RETURN(const Json index, ReadDocument(index_path));
  std::vector<std::string> tags;
  for (const Json& manifest : Field(index, "manifests")) {
    tags.push_back(TextField(Field(manifest, "annotations"), kTagAnnotation));
    if (tags.back() != tag) continue;
    ASSIGN_OR_RETURN(*path, FindBlob(folder, manifest, index_path));
    return ReadDocument(*path);
  }
  return absl::NotFoundError(absl::StrCat(
      index_path, ": no tag ", tag, ", found ",
      tags.empty() ? "none" : absl::CHexEscape(absl::StrJoin(tags, ", "))));
}

}  // namespace

absl::Status WriteOciLayout(const std::string& pack_path,
                            const std::string& folder, const std::string& tag) {
  RETURN_IF_ERROR(CheckTag(tag));
  ASSIGN_OR_RETURN(const PackSummary pack, ReadPackSummary(pack_path, {}));
  ASSIGN_OR_RETURN(Json index, OpenLayout(folder, tag));
  RETURN_IF_ERROR(Files::Real().MakeFolders(BlobsFolder(folder)));
  ASSIGN_OR_RETURN(const Json layer, StoreLayer(folder, pack_path));
  // Stoker runs on x86-64 only, so far; an uncompressed layer's diff_id is its
  // digest.
  const Json config = {
      {"architecture", "amd64"},
      {"os", "linux"},
      {"config", Json::object()},
      {"rootfs",
       {{"type", "layers"}, {"diff_ids", Json::array({layer["digest"]})}}}};
  ASSIGN_OR_RETURN(const Json config_blob,
                   StoreText(folder, kConfigType, JsonText(config)));
  const Json manifest = {{"schemaVersion", 2},
                         {"mediaType", kManifestType},
                         {"artifactType", kPackArtifactType},
                         {"config", config_blob},
                         {"layers", Json::array({layer})},
                         {"annotations", Annotations(pack)}};
  ASSIGN_OR_RETURN(Json tagged,
                   StoreText(folder, kManifestType, JsonText(manifest)));
  tagged["artifactType"] = kPackArtifactType;
  tagged["annotations"][kTagAnnotation] = tag;
  index["manifests"].push_back(std::move(tagged));
  Json layout;
  layout["imageLayoutVersion"] = kLayoutVersion;
  RETURN_IF_ERROR(WriteDocument(folder, "oci-layout", JsonText(layout)));
  return WriteDocument(folder, "index.json", JsonText(index));
}

absl::StatusOr<std::string> FindPackInOciLayout(const std::string& folder,
                                                const std::string& tag) {
  RETURN_IF_ERROR(CheckTag(tag));
  std::string path;
  ASSIGN_OR_RETURN(const Json manifest, FindManifest(folder, tag, &path));
  const std::string type = TextField(manifest, "artifactType");
  if (type != kPackArtifactType) {
    return Wrong(
        path,
        absl::StrCat("artifactType ", Absl(kPackArtifactType), kKeepDigests),
        type.empty() ? "none" : type);
  }
  const Json& layers = Field(manifest, "layers");
  if (!layers.is_array() || layers.size() != 1) {
    return Wrong(path, "one layer", absl::StrCat(layers.size()));
  }
  if (const std::string layer = TextField(layers[0], "mediaType");
      layer != kLayerType) {
    return Wrong(path,
                 absl::StrCat("a layer of type ", kLayerType, kKeepDigests),
                 layer);
  }
  return FindBlob(folder, layers[0], path);
}

}  // namespace stoker
