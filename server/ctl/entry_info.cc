#include "ctl/entry_info.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_field.h"
#include "base/json_text.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

EntryInfo Read(const CacheLayer& layer, int index, const ArtifactKey& key) {
  EntryInfo info{.key = key,
                 .layer = index,
                 .bytes = layer.Bytes(key),
                 .last_used = layer.LastUsed(key),
                 .notes = layer.NoteNames(key)};
  const auto text = layer.ReadManifest(key);
  if (!text.ok()) return info;
  Json manifest = ReadJson(*text);
  if (!manifest.is_object()) return info;
  info.model = TextField(manifest, "model");
  info.bucket = TextField(manifest, "bucket");
  if (const Json& seconds = Field(manifest, "seconds"); seconds.is_number()) {
    info.compile_seconds = seconds.get<double>();
  }
  if (const Json& factors = Field(manifest, "factors"); factors.is_object()) {
    for (const auto& [name, value] : factors.items()) {
      if (value.is_string()) info.factors[name] = value.get<std::string>();
    }
  }
  info.manifest = std::move(manifest);
  return info;
}

}  // namespace

std::vector<EntryInfo> ListEntries(const EntryStore& store) {
  std::vector<EntryInfo> entries;
  std::set<ArtifactKey> seen;
  for (size_t i = 0; i < store.layers().size(); ++i) {
    const CacheLayer& layer = store.layers()[i];
    for (const ArtifactKey& key : layer.Keys()) {
      if (!seen.insert(key).second) continue;
      entries.push_back(Read(layer, static_cast<int>(i), key));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.model, a.bucket, a.key) <
           std::tie(b.model, b.bucket, b.key);
  });
  return entries;
}

absl::StatusOr<EntryInfo> FindEntry(const EntryStore& store,
                                    const std::string& prefix) {
  std::vector<ArtifactKey> found;
  for (const ArtifactKey& key : store.Keys()) {
    if (absl::StartsWith(key.hex(), prefix)) found.push_back(key);
  }
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no entry has a key that begins with ", prefix));
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        found.size(), " keys begin with ", prefix, ", expected one: ",
        found[0].hex(), ", ", found[1].hex(), found.size() > 2 ? ", ..." : ""));
  }
  for (size_t i = 0; i < store.layers().size(); ++i) {
    const CacheLayer& layer = store.layers()[i];
    if (layer.ReadManifest(found[0]).ok()) {
      return Read(layer, static_cast<int>(i), found[0]);
    }
  }
  return Read(store.layers()[0], 0, found[0]);
}

std::vector<FactorDifference> Differences(const KeyFactors& left,
                                          const KeyFactors& right) {
  std::set<std::string> names;
  for (const auto& [name, value] : left) names.insert(name);
  for (const auto& [name, value] : right) names.insert(name);
  const auto value_of = [](const KeyFactors& factors, const std::string& name) {
    const auto it = factors.find(name);
    return it == factors.end() ? std::string("-") : it->second;
  };
  std::vector<FactorDifference> differences;
  for (const std::string& name : names) {
    FactorDifference one{name, value_of(left, name), value_of(right, name)};
    if (one.left != one.right) differences.push_back(std::move(one));
  }
  return differences;
}

const EntryInfo* Nearest(const std::vector<EntryInfo>& entries,
                         const KeyFactors& wanted) {
  const EntryInfo* nearest = nullptr;
  std::pair<bool, size_t> least;
  for (const EntryInfo& entry : entries) {
    if (entry.factors.empty()) continue;
    const std::vector<FactorDifference> differences =
        Differences(entry.factors, wanted);
    const bool other_graph =
        std::any_of(differences.begin(), differences.end(),
                    [](const auto& one) { return one.factor == "graph"; });
    const std::pair<bool, size_t> distance{other_graph, differences.size()};
    if (nearest != nullptr && distance >= least) continue;
    nearest = &entry;
    least = distance;
  }
  return nearest;
}

}  // namespace stoker
