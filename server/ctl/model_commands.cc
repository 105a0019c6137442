#include "ctl/model_commands.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "ctl/command_line.h"
#include "ctl/daemon_address.h"
#include "ctl/output.h"
#include "nlohmann/json.hpp"
#include "rpc/control_client.h"

namespace stoker {
namespace {

struct Arguments {
  std::string model;
  ServerAddress server;
  double timeout_seconds = 600;
  // Of a load.
  std::string config;                // path
  std::vector<std::string> files;    // "<name in the model's folder>=<path>"
  std::vector<std::string> aliases;  // "<name>=<version>:<percent>"

  absl::Duration timeout() const { return absl::Seconds(timeout_seconds); }
};

using Change = std::function<absl::Status(const Arguments&)>;

// The command, to which more options may be added.
CLI::App& AddChange(CommandLine& line, CLI::App& to, const char* name,
                    const char* help, const char* done, const Change& change,
                    const std::shared_ptr<Arguments>& arguments) {
  CLI::App& command = line.AddWithoutCache(
      to, name, help,
      [&line, arguments, done, change]() -> absl::StatusOr<int> {
        RETURN_IF_ERROR(change(*arguments));
        if (line.json()) {
          PrintJson({{"model", arguments->model}, {"done", done}});
        } else {
          Print(absl::StrCat(arguments->model, ": ", done, "\n"));
        }
        return 0;
      });
  command.add_option("model", arguments->model, "its name")->required();
  AddDaemonAddress(command, arguments->server);
  command
      .add_option("--timeout-seconds", arguments->timeout_seconds,
                  "how long to wait for it; the daemon goes on")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  return command;
}

absl::StatusOr<ModelOverride> ReadOverride(const Arguments& arguments) {
  ModelOverride override;
  if (!arguments.config.empty()) {
    ASSIGN_OR_RETURN(override.config, Files::Real().Read(arguments.config));
  }
  for (const std::string& file : arguments.files) {
    const size_t equals = file.find('=');
    if (equals == file.npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("--file: expected NAME=FILE, got ", file));
    }
    ASSIGN_OR_RETURN(override.files[file.substr(0, equals)],
                     Files::Real().Read(file.substr(equals + 1)));
  }
  return override;
}

absl::Status Load(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const ModelOverride override, ReadOverride(arguments));
  return LoadModel(arguments.server, arguments.model, override,
                   arguments.timeout());
}

void AddLoad(CommandLine& line, CLI::App& to) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& load = AddChange(
      line, to, "load",
      "reads the model from the repository, and returns when what it found "
      "serves",
      "loaded", Load, arguments);
  load.add_option("--config", arguments->config,
                  "file with Triton's model configuration as JSON, in place of "
                  "what the model's folder says of how it is served");
  load.add_option("--file", arguments->files,
                  "NAME=FILE: a file of the model's folder, such as "
                  "1/model.pt2, that is sent in place of that; may be given "
                  "again");
}

void AddUnload(CommandLine& line, CLI::App& to) {
  const auto arguments = std::make_shared<Arguments>();
  AddChange(
      line, to, "unload", "returns when no new request finds the model",
      "unloaded",
      [](const Arguments& given) {
        return UnloadModel(given.server, given.model, given.timeout());
      },
      arguments);
}

// "canary=4:10" of each as a line of an aliases.yaml.
absl::StatusOr<std::string> AliasesYaml(
    const std::vector<std::string>& aliases) {
  std::string yaml;
  for (const std::string& alias : aliases) {
    const size_t equals = alias.find('=');
    const size_t colon = alias.find(':', equals);
    int64_t version = 0;
    int percent = 0;
    const bool read =
        equals != alias.npos &&
        absl::SimpleAtoi(alias.substr(equals + 1, colon - equals - 1),
                         &version) &&
        (colon == alias.npos ||
         absl::SimpleAtoi(alias.substr(colon + 1), &percent));
    if (!read) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected NAME=VERSION or NAME=VERSION:PERCENT, got ", alias));
    }
    absl::StrAppend(&yaml, JsonText(alias.substr(0, equals)),
                    ": {version: ", version, ", percent: ", percent, "}\n");
  }
  return yaml;
}

void AddAlias(CommandLine& line, CLI::App& to) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& alias = AddChange(
      line, to, "alias",
      "has names stand for versions of the model, and share the requests that "
      "name none; returns when they do",
      "its aliases are set",
      [](const Arguments& given) -> absl::Status {
        ASSIGN_OR_RETURN(const std::string yaml, AliasesYaml(given.aliases));
        return LoadModel(given.server, given.model,
                         {.files = {{"aliases.yaml", yaml}}}, given.timeout());
      },
      arguments);
  alias
      .add_option(
          "alias", arguments->aliases,
          "NAME=VERSION, or NAME=VERSION:PERCENT; all that the model is "
          "to have")
      ->required();
}

}  // namespace

void AddModelCommands(CommandLine& line) {
  CLI::App& model = *line.app().add_subcommand(
      "model", "models of a daemon with --model-control explicit");
  model.require_subcommand(1);
  model.fallthrough();
  AddLoad(line, model);
  AddUnload(line, model);
  AddAlias(line, model);
}

}  // namespace stoker
