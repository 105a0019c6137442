#include "ctl/profile_command.h"

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "ctl/command_line.h"
#include "ctl/output.h"
#include "metrics/metrics_page.h"
#include "rpc/client_channel.h"

namespace stoker {
namespace {

struct ProfileArguments {
  double seconds = 10;
  std::string output = "-";
  std::string token_file;
  std::string url = "http://127.0.0.1:8002/metrics";
};

absl::StatusOr<int> TakeProfile(const ProfileArguments& arguments) {
  const std::string address =
      absl::StrCat(arguments.url.substr(0, arguments.url.rfind('/') + 1),
                   "profile?seconds=", arguments.seconds);
  std::string token;
  if (!arguments.token_file.empty()) {
    ASSIGN_OR_RETURN(token, ReadToken(arguments.token_file));
  }
  // And as long again as a busy server may need to write it.
  ASSIGN_OR_RETURN(
      const std::string text,
      HttpGet(address, absl::Seconds(arguments.seconds) + absl::Seconds(30),
              token));
  if (!absl::StartsWith(text, "{\"traceEvents\"")) {
    return absl::UnavailableError(absl::StrCat(
        "expected a timeline at ", address, ", got ", text.substr(0, 200)));
  }
  if (arguments.output == "-") {
    Print(text);
    return 0;
  }
  RETURN_IF_ERROR(Files::Real().Write(arguments.output, text));
  return 0;
}

}  // namespace

void AddProfileCommand(CommandLine& line) {
  const auto arguments = std::make_shared<ProfileArguments>();
  CLI::App& profile = line.AddWithoutCache(
      line.app(), "profile",
      "a timeline of what a running daemon does from now on: its queues, "
      "batches, runs, loads and compiles, for Perfetto or chrome://tracing",
      [arguments] { return TakeProfile(*arguments); });
  profile.add_option("--seconds", arguments->seconds, "how long")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  profile
      .add_option("--output", arguments->output,
                  "file for it; -: the standard output")
      ->capture_default_str();
  profile
      .add_option("--metrics", arguments->url,
                  "the daemon's metrics page; its profile is read")
      ->capture_default_str();
  profile
      .add_option("--token-file", arguments->token_file,
                  "file with a bearer token to show to it")
      ->check(CLI::ExistingFile);
}

}  // namespace stoker
