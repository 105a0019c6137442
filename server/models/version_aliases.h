// What the aliases of one model mean: each moves to the version that it is to
// mean when that serves, and stays where it is until then.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"

namespace stoker {

class VersionAliases {
 public:
  struct Alias {
    int64_t version = 0;
    int percent = 0;  // of the requests that name no version
    friend bool operator==(const Alias&, const Alias&) = default;
  };
  using ByName = std::map<std::string, Alias, std::less<>>;

  // What they are to mean from now on.
  void Want(ByName wanted) { wanted_ = std::move(wanted); }
  // Moves those that can. `serves`: which versions do. Logs what has moved.
  void Settle(const std::string& model,
              absl::FunctionRef<bool(int64_t version)> serves);
  const ByName& now() const { return now_; }
  // Whether one means that version until another serves.
  bool Holds(int64_t version) const;

 private:
  ByName wanted_;
  ByName now_;
};

}  // namespace stoker
