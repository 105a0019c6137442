#include "models/version_aliases.h"

#include <algorithm>

#include "base/log.h"

namespace stoker {

void VersionAliases::Settle(const std::string& model,
                            absl::FunctionRef<bool(int64_t version)> serves) {
  ByName settled;
  for (const auto& [name, wanted] : wanted_) {
    const auto old = now_.find(name);
    const bool stays = !serves(wanted.version) && old != now_.end() &&
                       serves(old->second.version);
    const Alias& alias = stays ? old->second : wanted;
    if (old == now_.end() || old->second != alias) {
      log::Info("{}: '{}' is version {}{}", model, name, alias.version,
                alias.percent == 0 ? ""
                                   : ", and gets its part of the requests that "
                                     "name no version");
    }
    settled.emplace(name, alias);
  }
  now_ = std::move(settled);
}

bool VersionAliases::Holds(int64_t version) const {
  return std::any_of(now_.begin(), now_.end(), [&](const auto& alias) {
    const auto wanted = wanted_.find(alias.first);
    return alias.second.version == version && wanted != wanted_.end() &&
           wanted->second.version != version;
  });
}

}  // namespace stoker
