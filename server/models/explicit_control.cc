// Lifecycle's part that does what clients ask for: model control is explicit.

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "models/lifecycle.h"

namespace stoker {
namespace {

absl::Status Exiting() { return absl::UnavailableError("Server exiting"); }

}  // namespace

absl::StatusOr<RepositorySnapshot> Lifecycle::PollChosen() {
  const std::vector<std::string>& chosen = options_.load_models;
  ASSIGN_OR_RETURN(names_, repository_.ModelNames());
  if (std::find(chosen.begin(), chosen.end(), "*") != chosen.end()) {
    return repository_.Poll();
  }
  RepositorySnapshot all;
  for (const std::string& model : chosen) {
    ASSIGN_OR_RETURN(RepositorySnapshot of_model,
                     repository_.PollModel(model, nullptr));
    if (of_model.empty()) {
      of_model.push_back({model, 0,
                          absl::NotFoundError(absl::StrCat(
                              "expected a model in ", repository_.root(), "/",
                              model, ", found none"))});
    }
    std::move(of_model.begin(), of_model.end(), std::back_inserter(all));
  }
  return all;
}

void Lifecycle::ReadNames() {
  absl::StatusOr<std::vector<std::string>> names = repository_.ModelNames();
  if (names.ok()) names_ = *std::move(names);
}

void Lifecycle::LoadModel(const std::string& model,
                          const std::optional<std::string>& aliases,
                          AwaitedChanges::Done done) {
  if (stopped_) return done(Exiting());
  constexpr auto kSource = AwaitedChanges::Source::kRepository;
  if (const absl::Status may = changes_.MayLoad(model, kSource); !may.ok()) {
    return done(may);
  }
  PollWhenDue();
  ReadNames();
  absl::StatusOr<RepositorySnapshot> snapshot =
      repository_.PollModel(model, aliases.has_value() ? &*aliases : nullptr);
  const bool there = snapshot.ok() && !snapshot->empty();
  metrics_
      .Counter(metric::kRepositoryPolls,
               {{"outcome", snapshot.ok() ? "ok" : "error"}})
      .Add();
  if (!there) {
    return done(absl::InternalError(absl::StrCat(
        "failed to load '", model, "', failed to poll from model repository: ",
        snapshot.ok()
            ? absl::StrCat("there is none of that name in ", repository_.root())
            : std::string(snapshot.status().message()))));
  }
  if (aliases.has_value() && snapshot->front().version == 0) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("failed to load '", model, "', ",
                     snapshot->front().spec.status().message())));
  }
  polled_ = true;
  log::Info("{}: loaded on request", model);
  loaded_as_steps_.erase(model);
  Follow(*snapshot, model, /*retry=*/true);
  FollowSteps(*snapshot);
  changes_.AwaitLoad(model, kSource, std::move(done));
}

void Lifecycle::LoadVersions(const std::string& model,
                             const RepositorySnapshot& versions,
                             AwaitedChanges::Done done) {
  if (stopped_) return done(Exiting());
  constexpr auto kSource = AwaitedChanges::Source::kRequest;
  if (const absl::Status may = changes_.MayLoad(model, kSource); !may.ok()) {
    return done(may);
  }
  PollWhenDue();
  ReadNames();
  log::Info("{}: loaded on request, as that says", model);
  loaded_as_steps_.erase(model);
  Follow(versions, model, /*retry=*/true);
  FollowSteps(versions);
  changes_.AwaitLoad(model, kSource, std::move(done));
}

void Lifecycle::UnloadModel(const std::string& model,
                            AwaitedChanges::Done done) {
  if (stopped_) return done(Exiting());
  if (model.empty()) {
    return done(absl::InvalidArgumentError(
        "expected the name of a model to unload, got none"));
  }
  PollWhenDue();
  ReadNames();
  log::Info("{}: unloaded on request", model);
  loaded_as_steps_.erase(model);
  Follow({}, model, /*retry=*/false);
  changes_.EndLoads(model);
  changes_.AwaitPublication(std::move(done));
}

void Lifecycle::RefreshNames(const std::string& /*model*/,
                             AwaitedChanges::Done done) {
  if (stopped_) return done(Exiting());
  PollWhenDue();
  ReadNames();
  changes_.AwaitPublication(std::move(done));
}

void Lifecycle::SettleChanges() {
  std::vector<VersionOutcome> outcomes;
  for (const auto& managed : versions_) {
    VersionState state = managed->state;
    if (GoesToRest(*managed)) {
      // To be loaded again, or ready without.
      state = managed->wake ? VersionState::kNew : VersionState::kServing;
    }
    outcomes.push_back({managed->model, managed->version, state,
                        managed->wanted, managed->reason});
  }
  changes_.Settle(outcomes);
}

}  // namespace stoker
