// What the operator wants served. Reads <root>/<model>/<version>/model.pt2 and
// <root>/<model>/model.yaml or, without that, config.pbtxt; or a root that
// itself holds model.pt2 (served as version 1 under `single_model_name`), and
// emits full snapshots: a version that is not in a snapshot is not wanted. One
// bad model is an entry with an error; it never hides the others.
//
// Not thread-safe: called from the lifecycle thread, but for Override.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "repository/model_spec.h"
#include "repository/snapshot_source.h"

namespace stoker {

// Its model.yaml, or without one the whole server, says where a model runs.
class ModelRepository final : public SnapshotSource {
 public:
  // NOT_FOUND when `root` is not a readable folder.
  static absl::StatusOr<std::unique_ptr<ModelRepository>> Open(
      std::string root, std::string single_model_name,
      Device default_device = {}, const OverrideLimits& overrides = {});
  // The same for a root that may appear later: until then Poll fails.
  static std::unique_ptr<ModelRepository> OpenLater(
      std::string root, std::string single_model_name,
      Device default_device = {}, const OverrideLimits& overrides = {});

  // NOT_FOUND while the root is not a readable folder. Any thread.
  absl::Status CheckRoot() const;

  // Reads the folder again. Unchanged versions (path, mtime, size of model.pt2
  // and what says how it is served) keep their ModelSpec object, so that
  // callers can compare pointers.
  absl::StatusOr<RepositorySnapshot> Poll() override;
  absl::StatusOr<RepositorySnapshot> PollModel(
      const std::string& model, const std::string* aliases) override;
  absl::StatusOr<std::vector<std::string>> ModelNames() override;
  absl::StatusOr<RepositorySnapshot> Override(
      const std::string& model, const ModelOverride& override) const override;

  const std::string& root() const override;
  ~ModelRepository() override;

 private:
  struct Impl;
  explicit ModelRepository(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The two readers behind it, for tests and tools.
//
// Reads inputs, outputs, dimensions and digests from an exported program.
// NOT_FOUND without the file. INVALID_ARGUMENT, with path and place inside, for
// what ProgramArchive or ReadSignature doesn't accept (room program/).
absl::StatusOr<ModelSpec> ReadProgram(const std::string& pt2_path);

// Applies model.yaml's text over what the program says and fills the defaults
// (buckets derived from the bounds, max_batch_size, names of dimensions).
// `yaml` may be empty. INVALID_ARGUMENT, a line for each mistake, `spec`
// unchanged: "models/minilm/model.yaml:12: buckets.tokens: expected ..., got
// ...".
absl::Status ApplyModelYaml(std::string_view yaml, const std::string& yaml_path,
                            ModelSpec& spec);

// `versions: latest | {latest: 2} | all | [1, 3]` of a model.yaml, applied to
// the folders found; ascending. A listed version is wanted whether it is found
// or not.
absl::StatusOr<std::vector<int64_t>> ChooseVersions(
    std::string_view yaml, const std::string& yaml_path,
    std::vector<int64_t> found);

}  // namespace stoker
