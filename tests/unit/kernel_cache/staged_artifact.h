// Writes artifacts the way the compile worker leaves them in a staging folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/sha256.h"
#include "kernel_cache/artifact_key.h"
#include "nlohmann/json.hpp"

namespace stoker {

using ArtifactFiles = std::map<std::string, std::string>;  // name → content

inline const ArtifactFiles& SmallArtifact() {
  static const auto& files = *new ArtifactFiles{{"model.so",
                                                 "\x7f"
                                                 "ELF machine code"},
                                                {"model.json", "{}"}};
  return files;
}

inline nlohmann::json ManifestOf(const ArtifactKey& key,
                                 const ArtifactFiles& files) {
  nlohmann::json manifest = {{"schema", 1},
                             {"key", key.hex()},
                             {"model", "minilm:1"},
                             {"seconds", 18.2},
                             {"files", nlohmann::json::object()}};
  for (const auto& [name, content] : files) {
    manifest["files"][name] = {{"bytes", content.size()},
                               {"sha256", Sha256Hex(content)}};
  }
  return manifest;
}

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  using std::filesystem::perms;
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write);
}

inline std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void StageArtifact(const std::string& folder, const ArtifactKey& key,
                          const ArtifactFiles& files = SmallArtifact()) {
  for (const auto& [name, content] : files) {
    WriteBytes(folder + "/" + name, content);
  }
  WriteBytes(folder + "/manifest.json", ManifestOf(key, files).dump(1));
}

// Whether a folder holds those files with that content.
inline bool HoldsArtifact(const std::string& folder,
                          const ArtifactFiles& files = SmallArtifact()) {
  for (const auto& [name, content] : files) {
    if (ReadBytes(folder + "/" + name) != content) return false;
  }
  return true;
}

// Where a cache keeps an entry.
inline std::string EntryFolderIn(const std::string& root,
                                 const ArtifactKey& key) {
  return root + "/v1/entries/" + key.hex().substr(0, 2) + "/" + key.hex();
}

}  // namespace stoker
