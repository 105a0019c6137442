#include "main/telemetry_options.h"

#include <string>

#include "CLI/CLI.hpp"

namespace stoker {

void AddTelemetryOptions(CLI::App& app, TelemetryOptions& telemetry) {
  RequestLogOptions& log = telemetry.log;
  CLI::Option* const path = app.add_option(
      "--request-log", log.path,
      "file that gets a line for each inference; -: the standard output");
  app.add_option_function<std::string>(
         "--request-log-format",
         [&log](const std::string& format) {
           log.format =
               format == "text" ? LineFormat::kText : LineFormat::kJson;
         },
         "what a line of it is")
      ->check(CLI::IsMember({"json", "text"}))
      ->default_str("json")
      ->needs(path);
  app.add_option("--request-log-sample", log.sample,
                 "share of the inferences that get one, chosen at random")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->needs(path);
  app.add_option("--request-log-failures", log.failures_per_second,
                 "of those that fail, as many get one a second whether chosen "
                 "or not; 0: only those chosen")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->needs(path);
}

}  // namespace stoker
