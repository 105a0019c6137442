// The name of a compiled artifact: SHA-256 over the canonical JSON of every
// factor that can change its machine code, and of nothing else. Weights, host
// names, paths, pids, users and times are never factors.
#pragma once

#include <compare>
#include <map>
#include <string>

namespace stoker {

// Factor name → value, e.g. {"graph": "<digest>", "bucket.s43": "8",
// "cpu.march": "x86-64-v4"}. Flat and textual so that two keys can be compared
// by eye.
using KeyFactors = std::map<std::string, std::string>;

class ArtifactKey {
 public:
  explicit ArtifactKey(const KeyFactors& factors);
  // From its text form, as in a folder name. Empty when not 64 lower-case
  // hexadecimal digits.
  static ArtifactKey FromHex(std::string hex);

  const std::string& hex() const { return hex_; }
  std::string Short() const { return hex_.substr(0, 12); }
  // clang-tidy 14 takes the 0 of the generated comparison for a pointer.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const ArtifactKey&, const ArtifactKey&) = default;

 private:
  ArtifactKey() = default;
  std::string hex_;
};

// One artifact, by its bytes. Those of one key need not be the same ones: a
// compile may be made again, elsewhere, and put in the place of the first.
struct ArtifactId {
  ArtifactKey key;
  std::string manifest_sha256;  // the manifest lists every file with its digest

  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const ArtifactId&, const ArtifactId&) = default;
};

// {"bucket.s43":"8",...}: keys sorted by their bytes, no spaces, and the
// shortest JSON escapes of what must be escaped. Equals Python's
// json.dumps(factors, sort_keys=True, separators=(",", ":"),
// ensure_ascii=False). Different factors give different texts.
std::string CanonicalJson(const KeyFactors& factors);

}  // namespace stoker
