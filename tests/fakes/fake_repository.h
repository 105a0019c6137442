// A repository that holds what a test puts there:
//
//   FakeRepository repository;
//   repository.Put(spec);                   // model and version are the spec's
//   repository.PutBroken("rows", 2, "no");  // it can't be read
//   repository.Fail(absl::NotFoundError("gone"));
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "repository/snapshot_source.h"

namespace stoker {

class FakeRepository : public SnapshotSource {
 public:
  void Put(std::shared_ptr<const ModelSpec> spec) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    const Name name{spec->name, spec->version};
    versions_.insert_or_assign(name, std::move(spec));
  }
  void PutBroken(const std::string& model, int64_t version,
                 const std::string& error) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    versions_.insert_or_assign({model, version},
                               absl::InvalidArgumentError(error));
  }
  // Each a version and a percentage.
  using Aliases = std::map<std::string, std::pair<int64_t, int>>;
  void SetAliases(const std::string& model, Aliases aliases)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    aliases_[model] = std::move(aliases);
  }
  void Remove(const std::string& model, int64_t version)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    versions_.erase({model, version});
  }
  // What Poll ends with from now on.
  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    status_ = std::move(status);
  }

  absl::StatusOr<RepositorySnapshot> Poll() override ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    if (!status_.ok()) return status_;
    RepositorySnapshot snapshot;
    for (const auto& [name, spec] : versions_) {
      snapshot.push_back({name.first, name.second, spec, {}});
      const auto aliases = aliases_.find(name.first);
      if (aliases == aliases_.end()) continue;
      for (const auto& [alias, meaning] : aliases->second) {
        if (meaning.first != name.second) continue;
        snapshot.back().aliases[alias] = meaning.second;
      }
    }
    return snapshot;
  }
  absl::StatusOr<RepositorySnapshot> PollModel(
      const std::string& model, const std::string* /*aliases*/) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::StatusOr<RepositorySnapshot> snapshot = Poll();
    if (snapshot.ok()) {
      std::erase_if(*snapshot, [&](const DesiredVersion& desired) {
        return desired.model != model;
      });
    }
    return snapshot;
  }
  absl::StatusOr<std::vector<std::string>> ModelNames() override
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    if (!status_.ok()) return status_;
    std::set<std::string> names;
    for (const auto& [name, spec] : versions_) names.insert(name.first);
    return std::vector<std::string>(names.begin(), names.end());
  }
  // What was put for it, under the model's name.
  absl::StatusOr<RepositorySnapshot> Override(const std::string& model,
                                              const ModelOverride& /*override*/)
      const override ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    if (override_ == nullptr) return absl::InvalidArgumentError("no override");
    auto spec = std::make_shared<ModelSpec>(*override_);
    spec->name = model;
    return RepositorySnapshot{{model, spec->version, spec, {}}};
  }
  // What an override is read as.
  void PutOverride(std::shared_ptr<const ModelSpec> spec)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    override_ = std::move(spec);
  }
  const std::string& root() const override { return root_; }

 private:
  using Name = std::pair<std::string, int64_t>;  // model and version
  const std::string root_ = "/models";
  mutable absl::Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const ModelSpec> override_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Aliases> aliases_ ABSL_GUARDED_BY(mu_);
  std::map<Name, absl::StatusOr<std::shared_ptr<const ModelSpec>>> versions_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
