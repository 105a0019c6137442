// Loads and unloads that somebody asked for and waits for: who does is told
// what became of it, once.
//
// Not thread-safe: of the lifecycle thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "models/version_state.h"

namespace stoker {

// A version as far as somebody who waits for its model cares.
struct VersionOutcome {
  std::string_view model;
  int64_t version = 0;
  VersionState state = VersionState::kNew;
  bool wanted = true;
  std::string_view reason;
};

class AwaitedChanges {
 public:
  // OK, or why not. Must not block.
  using Done = std::function<void(const absl::Status&)>;

  // Told when each wanted version of the model serves or has failed. `source`:
  // where those come from.
  enum class Source { kRepository, kRequest };
  void AwaitLoad(std::string model, Source source, Done done);
  // ABORTED where one can't begin beside those that are awaited: what a request
  // brought is told of by itself.
  absl::Status MayLoad(std::string_view model, Source source) const;
  bool AwaitsLoad(std::string_view model) const;
  // Told at the next Settle, whatever comes of it.
  void AwaitPublication(Done done);
  // The model was unloaded: who waits for a load of it is told so.
  void EndLoads(std::string_view model);

  // After each publication.
  void Settle(absl::Span<const VersionOutcome> versions);
  // Ends all with that.
  void EndAll(const absl::Status& status);

 private:
  struct Load {
    std::string model;
    Source source;
    Done done;
  };
  std::vector<Load> loads_;
  std::vector<Done> others_;
};

}  // namespace stoker
