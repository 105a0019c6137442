// `stokerctl cache export`, `import` and `inspect`: packs as files and as OCI
// image layouts.
//
// As CacheCommands: prints on stdout, returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernel_cache/kernel_cache.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

class CommandLine;

// A file, or a tag of an OCI image layout.
struct PackPlaceArgument {
  std::string file;
  std::string oci_folder;
  std::string oci_tag = "latest";

  // INVALID_ARGUMENT unless exactly one of both is given.
  absl::Status Check() const;
};

struct PackCommands {
  KernelCache& cache;
  bool json = false;

  // Unsigned without `signing_key`, which is a path.
  absl::StatusOr<int> Export(const std::vector<ArtifactKey>& keys,
                             const PackPlaceArgument& to,
                             const std::string& signing_key) const;
  // `trusted` are paths of public keys.
  absl::StatusOr<int> Import(const PackPlaceArgument& from,
                             const std::vector<std::string>& trusted,
                             bool allow_unsigned) const;
};

// What a pack holds, what it fits and who signed it; needs no cache.
absl::StatusOr<int> InspectPack(const PackPlaceArgument& from,
                                const std::vector<std::string>& trusted,
                                bool json);

// Those three; `to` is `cache`.
void AddPackCommands(CommandLine& line, CLI::App& to);

}  // namespace stoker
