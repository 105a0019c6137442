// Lifecycle's part that follows versions' aliases: what a snapshot says of them
// holds once the versions that they name serve.

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "models/lifecycle.h"

namespace stoker {

void Lifecycle::FollowAliases(const RepositorySnapshot& snapshot,
                              std::string_view model) {
  std::map<std::string, VersionAliases::ByName> wanted;
  for (const DesiredVersion& desired : snapshot) {
    VersionAliases::ByName& of_model = wanted[desired.model];
    for (const auto& [name, percent] : desired.aliases) {
      of_model[name] = {desired.version, percent};
    }
  }
  for (const DesiredVersion& desired : snapshot) {
    // What can't be read says nothing of them.
    if (desired.version == 0) wanted.erase(desired.model);
  }
  for (auto& [name, aliases] : aliases_) {
    const std::string& known = name;
    const bool gone = std::none_of(
        snapshot.begin(), snapshot.end(),
        [&](const auto& desired) { return desired.model == known; });
    if (gone && (model.empty() || model == name)) aliases.Want({});
  }
  for (auto& [name, of_model] : wanted) {
    if (of_model.empty() && !aliases_.contains(name)) continue;
    aliases_[name].Want(std::move(of_model));
  }
}

bool Lifecycle::HasAlias(const Managed& managed) const {
  const auto found = aliases_.find(managed.model);
  return found != aliases_.end() && found->second.Holds(managed.version);
}

PublishedVersions::Aliases Lifecycle::SettledAliases(
    const PublishedVersions::Serving& serving) {
  PublishedVersions::Aliases settled;
  for (auto& [model, aliases] : aliases_) {
    const auto found = serving.find(model);
    const VersionAliases::ByName before = aliases.now();
    aliases.Settle(model, [&](int64_t version) {
      return found != serving.end() && found->second.contains(version);
    });
    // What nobody means any more may go.
    if (aliases.now() != before) events_->Post([] {});
    if (!aliases.now().empty()) settled.emplace(model, aliases.now());
  }
  std::erase_if(aliases_,
                [](const auto& known) { return known.second.now().empty(); });
  return settled;
}

}  // namespace stoker
