#include "ctl/model_commands.h"

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "ctl/command_line.h"
#include "ctl/daemon_address.h"
#include "ctl/output.h"
#include "nlohmann/json.hpp"
#include "rpc/control_client.h"

namespace stoker {
namespace {

using Change = absl::Status (*)(const ServerAddress& server,
                                const std::string& model,
                                absl::Duration timeout);

void AddChange(CommandLine& line, CLI::App& to, const char* name,
               const char* help, const char* done, Change change) {
  struct Arguments {
    std::string model;
    ServerAddress server;
    double timeout_seconds = 600;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command = line.AddWithoutCache(
      to, name, help,
      [&line, arguments, done, change]() -> absl::StatusOr<int> {
        RETURN_IF_ERROR(change(arguments->server, arguments->model,
                               absl::Seconds(arguments->timeout_seconds)));
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
}

}  // namespace

void AddModelCommands(CommandLine& line) {
  CLI::App& model = *line.app().add_subcommand(
      "model", "models of a daemon with --model-control explicit");
  model.require_subcommand(1);
  model.fallthrough();
  AddChange(line, model, "load",
            "reads the model from the repository, and returns when what it "
            "found serves",
            "loaded", LoadModel);
  AddChange(line, model, "unload",
            "returns when no new request finds the model", "unloaded",
            UnloadModel);
}

}  // namespace stoker
