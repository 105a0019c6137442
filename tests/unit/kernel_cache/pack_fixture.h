// Kernel caches with small entries, and packs made of them.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "gtest/gtest.h"
#include "kernel_cache/kernel_cache.h"
#include "kernel_cache/pack.h"
#include "kernel_cache/ustar.h"
#include "metrics/metrics.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {

// Of a bucket of a model, on some machine.
inline KeyFactors FactorsOf(const std::string& bucket) {
  return {{"cpu.march", "x86-64-v4"},
          {"device", "cpu"},
          {"graph", "9a3f"},
          {"size.batch", bucket},
          {"torch", "2.11.0"}};
}

inline std::string PackManifest(const KeyFactors& factors,
                                const ArtifactFiles& files) {
  nlohmann::json manifest = ManifestOf(ArtifactKey(factors), files);
  manifest["factors"] = factors;
  manifest["bucket"] = "batch=" + factors.at("size.batch");
  return manifest.dump(1);
}

// name → content, in the order of an archive.
using ArchiveFiles = std::vector<std::pair<std::string, std::string>>;

// A tar archive of those files as packs have them.
inline std::string ArchiveOf(const ArchiveFiles& files) {
  std::string archive;
  for (const auto& [name, content] : files) {
    const auto bytes = static_cast<int64_t>(content.size());
    archive += *UstarHeader(name, bytes) + content +
               std::string(UstarPadding(bytes), '\0');
  }
  return archive + std::string(kUstarEndBytes, '\0');
}

// What the bytes of an archive of small files with short names hold.
inline ArchiveFiles FilesOf(const std::string& archive) {
  ArchiveFiles files;
  for (size_t at = 0; archive.at(at) != '\0';) {
    const std::string header = archive.substr(at, kUstarBlockBytes);
    const std::string prefix = header.c_str() + 345;
    const std::string name = header.c_str();
    const int64_t bytes = UstarSize(header).value();
    at += kUstarBlockBytes;
    files.emplace_back(prefix.empty() ? name : prefix + "/" + name,
                       archive.substr(at, static_cast<size_t>(bytes)));
    at += static_cast<size_t>(bytes) + UstarPadding(bytes);
  }
  return files;
}

inline constexpr char kVerdict[] = "verdict-36a32f.json";

class PackFixture : public testing::Test {
 protected:
  std::unique_ptr<KernelCache> Open(const std::string& name,
                                    Files& files = Files::Real()) {
    auto cache = KernelCache::Open({.root = folder_ / name}, files, metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }

  static ArtifactKey Add(KernelCache& cache, const KeyFactors& factors,
                         const ArtifactFiles& files = SmallArtifact()) {
    ArtifactKey key(factors);
    const std::string folder = *cache.entries().NewStagingFolder(key);
    StageArtifact(folder, key, files);
    WriteBytes(folder + "/manifest.json", PackManifest(factors, files));
    const absl::Status committed = cache.entries().Commit(key, folder).status();
    EXPECT_TRUE(committed.ok()) << committed;
    return key;
  }

  // The path of a pack of everything in the cache.
  std::string Export(KernelCache& cache, const SigningKey* signer = nullptr,
                     const std::string& name = "test.pack") {
    const absl::Status exported = ExportPack(cache, cache.entries().Keys(),
                                             local_, folder_ / name, signer)
                                      .status();
    EXPECT_TRUE(exported.ok()) << exported;
    return folder_ / name;
  }

  // A cache with two entries, one of which has notes.
  std::unique_ptr<KernelCache> FullCache(const std::string& name) {
    auto cache = Open(name);
    Add(*cache, FactorsOf("8"));
    Add(*cache, FactorsOf("1"), {{"model.so", "other code"}});
    EXPECT_TRUE(
        cache->facts().WriteNote(key8_, kVerdict, "{\"promote\":true}").ok());
    EXPECT_TRUE(cache->facts().WriteNote(key8_, "empty", "").ok());
    return cache;
  }
  std::string SmallPack(const SigningKey* signer = nullptr) {
    return ReadBytes(Export(*FullCache("source"), signer));
  }

  SigningKey MakeKey(const std::string& name) {
    const std::string path = folder_ / name;
    const std::string command =
        "openssl genpkey -algorithm ed25519 -out " + path;
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return *SigningKey::Load(path);
  }

  // Names below <cache>/v1/<folder>.
  std::vector<std::string> Names(const std::string& cache,
                                 const std::string& folder) {
    return *Files::Real().List(folder_ / (cache + "/v1/" + folder));
  }

  const ArtifactKey key8_{FactorsOf("8")};
  const ArtifactKey key1_{FactorsOf("1")};

  TempFolder folder_{TempFolder::Where::kMemory};
  MetricRegistry metrics_;
  const SignaturePolicy anybody_{.allow_unsigned = true};
  const LocalNotes local_{{"ran-on-"}};
};

}  // namespace stoker
