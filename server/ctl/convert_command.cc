#include "ctl/convert_command.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "ctl/command_line.h"
#include "ctl/output.h"
#include "nlohmann/json.hpp"
#include "program/operator_libraries.h"
#include "repository/model_repository.h"
#include "repository/triton_config.h"

namespace stoker {
namespace {

constexpr char kProgramName[] = "model.pt2";

// The program that the configuration is held against: the newest of those that
// it wants.
absl::StatusOr<std::string> ProgramPath(const std::string& folder,
                                        const TritonConfig& config) {
  const std::string alone = absl::StrCat(folder, "/", kProgramName);
  std::error_code error;
  if (std::filesystem::exists(alone, error)) return alone;
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   Files::Real().List(folder));
  std::vector<int64_t> found;
  for (const std::string& name : names) {
    int64_t version = 0;
    if (absl::SimpleAtoi(name, &version) && version > 0 &&
        std::filesystem::exists(
            absl::StrCat(folder, "/", name, "/", kProgramName), error)) {
      found.push_back(version);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> wanted,
                   config.ChooseVersions(std::move(found)));
  if (wanted.empty()) {
    return absl::NotFoundError(absl::StrCat("expected ", folder, "/<number>/",
                                            kProgramName, ", found none"));
  }
  return absl::StrCat(folder, "/", wanted.back(), "/", kProgramName);
}

absl::StatusOr<TritonConfig::Yaml> ProgramAsYaml(const TritonConfig& config,
                                                 const std::string& model,
                                                 const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string program, ProgramPath(folder, config));
  ASSIGN_OR_RETURN(ModelSpec spec, ReadProgram(program));
  spec.name = model;
  ASSIGN_OR_RETURN(TritonConfig::Yaml yaml, config.ToYaml(spec));
  RETURN_IF_ERROR(config.Apply(spec).status());
  return yaml;
}

absl::StatusOr<TritonConfig::Yaml> EnsembleAsYaml(const TritonConfig& config,
                                                  const std::string& model,
                                                  const std::string& folder) {
  RETURN_IF_ERROR(config.ReadEnsemble(model, folder).status());
  return config.EnsembleYaml(model);
}

absl::StatusOr<int> Convert(const CommandLine& line, std::string folder,
                            const std::string& name) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const std::string from = absl::StrCat(folder, "/config.pbtxt");
  const std::string to = absl::StrCat(folder, "/model.yaml");
  std::error_code error;
  if (std::filesystem::exists(to, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "expected no ", to, ", found one: it is what is read already"));
  }
  ASSIGN_OR_RETURN(const std::string text, Files::Real().Read(from));
  ASSIGN_OR_RETURN(const TritonConfig config, TritonConfig::Parse(text, from));
  const std::string model =
      !name.empty()
          ? name
          : std::filesystem::canonical(folder, error).filename().string();
  ASSIGN_OR_RETURN(const TritonConfig::Yaml yaml,
                   config.is_ensemble() ? EnsembleAsYaml(config, model, folder)
                                        : ProgramAsYaml(config, model, folder));
  RETURN_IF_ERROR(Files::Real().Write(
      to,
      absl::StrCat("# What config.pbtxt says, in other words.\n", yaml.text)));
  if (line.json()) {
    PrintJson({{"written", to}, {"ignored", yaml.ignored}});
    return 0;
  }
  for (const std::string& ignored : yaml.ignored) {
    Print(absl::StrCat(ignored, "\n"));
  }
  Print(absl::StrCat(to, ": written\n"));
  return 0;
}

}  // namespace

void AddConvertCommand(CommandLine& line) {
  struct Arguments {
    std::string folder;
    std::string name;
    std::vector<std::string> operator_libraries;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command = line.AddWithoutCache(
      line.app(), "convert",
      "writes a model.yaml from Triton's config.pbtxt, and says what has no "
      "meaning here",
      [&line, arguments]() -> absl::StatusOr<int> {
        RETURN_IF_ERROR(
            AllowOperatorLibraries(arguments->operator_libraries).status());
        return Convert(line, arguments->folder, arguments->name);
      });
  command
      .add_option("folder", arguments->folder,
                  "the model's, with config.pbtxt and its versions")
      ->required()
      ->check(CLI::ExistingDirectory);
  command.add_option("--model-name", arguments->name,
                     "its name, where it isn't the folder's");
  command.add_option("--operator-library", arguments->operator_libraries,
                     "as for stokerd");
}

}  // namespace stoker
