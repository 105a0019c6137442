#include "ctl/health_command.h"

#include <memory>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "ctl/command_line.h"
#include "ctl/daemon_address.h"
#include "ctl/output.h"
#include "nlohmann/json.hpp"
#include "rpc/health_client.h"

namespace stoker {

absl::StatusOr<int> ShowHealth(const ServerAddress& server,
                               const std::string& service,
                               absl::Duration timeout, bool json) {
  ASSIGN_OR_RETURN(const bool serves, AskHealth(server, service, timeout));
  if (json) {
    PrintJson({{"service", service}, {"serving", serves}});
  } else {
    Print(serves ? "serving\n" : "not serving\n");
  }
  return serves ? 0 : 1;
}

void AddHealthCommand(CommandLine& line) {
  struct Arguments {
    std::string service;
    ServerAddress server;
    double timeout_seconds = 3;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& health = line.AddWithoutCache(
      line.app(), "health",
      "whether a running daemon serves: exit code 0, else 1",
      [&line, arguments] {
        return ShowHealth(arguments->server, arguments->service,
                          absl::Seconds(arguments->timeout_seconds),
                          line.json());
      });
  health.add_option("service", arguments->service,
                    "a model, liveness, readiness or startup; the daemon "
                    "itself unless given");
  AddDaemonAddress(health, arguments->server);
  health
      .add_option("--timeout-seconds", arguments->timeout_seconds,
                  "how long to wait for its answer")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
}

}  // namespace stoker
