// stokerctl: the operator's tool. Exit codes:
//   0  done
//   1  done, and found what a script should notice: a miss, a damaged entry,
//      keys that differ, a daemon that doesn't serve
//   2  a mistake on the command line
//   4  it could not be done; one line on stderr says why
#include <stdlib.h>

#include <utility>

#include "ctl/bucket_commands.h"
#include "ctl/cache_commands.h"
#include "ctl/command_line.h"
#include "ctl/convert_command.h"
#include "ctl/explain_graph.h"
#include "ctl/health_command.h"
#include "ctl/model_commands.h"
#include "ctl/parity_command.h"
#include "ctl/plan_commands.h"
#include "ctl/policy_commands.h"
#include "ctl/profile_command.h"
#include "ctl/status_command.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

int main(int argc, char** argv) {
  // gRPC writes to stderr on its own, also where the caller reports the error.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  auto logger = spdlog::stderr_color_mt("stokerctl");
  logger->set_pattern("stokerctl: %v");
  logger->set_level(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
  stoker::CommandLine line;
  stoker::AddCacheCommands(line);
  stoker::AddPlanCommand(line);
  stoker::AddParityCommand(line);
  stoker::AddStatusCommand(line);
  stoker::AddProfileCommand(line);
  stoker::AddHealthCommand(line);
  stoker::AddModelCommands(line);
  stoker::AddConvertCommand(line);
  stoker::AddPolicyCommands(line);
  stoker::AddBucketsCommand(line);
  stoker::AddExplainGraphCommand(line);
  return line.Run(argc, argv);
}
