// A config.pbtxt, as Triton Inference Server has it beside a model's versions,
// read as a model.yaml: what it says in other words, what has no meaning here,
// and what can't be honoured.
//
// An immutable value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "repository/model_spec.h"

namespace stoker {

struct ConfigPbtxt;
struct PipelineSpec;

class TritonConfig {
 public:
  struct Yaml {
    std::string text;
    std::vector<int> lines;  // of the config.pbtxt, for each of the text's
    // A line for each field that has no meaning here, with place and reason.
    std::vector<std::string> ignored;
  };

  // INVALID_ARGUMENT, with path and line, for what isn't one.
  static absl::StatusOr<TritonConfig> Parse(std::string_view text,
                                            const std::string& path);

  // The same of a configuration as JSON, as protobuf has it; places are without
  // lines.
  static absl::StatusOr<TritonConfig> ParseJson(const std::string& text,
                                                const std::string& path);

  // Its version_policy, applied to the folders found; ascending.
  absl::StatusOr<std::vector<int64_t>> ChooseVersions(
      std::vector<int64_t> found) const;
  // All of it, for a program as ReadProgram gives it, with the model's name.
  // INVALID_ARGUMENT, a line for each mistake: "<path>:12: input[0].dims:
  // expected ..., got ...".
  absl::StatusOr<Yaml> ToYaml(const ModelSpec& program) const;
  // An ensemble is a pipeline: as its model.yaml, and as it is read. Null: it
  // is none. `folder`: of the model.
  bool is_ensemble() const;
  absl::StatusOr<Yaml> EnsembleYaml(const std::string& model) const;
  absl::StatusOr<std::shared_ptr<const PipelineSpec>> ReadEnsemble(
      const std::string& model, const std::string& folder) const;
  // The same as ApplyModelYaml of that; what is wrong with a value is said with
  // its line in the config.pbtxt. Returns what has no meaning here.
  absl::StatusOr<std::vector<std::string>> Apply(ModelSpec& spec) const;

 private:
  explicit TritonConfig(std::shared_ptr<const ConfigPbtxt> file);

  std::shared_ptr<const ConfigPbtxt> file_;
};

}  // namespace stoker
