#include "main/telemetry_options.h"

#include <string>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "base/http_client.h"
#include "telemetry/tracer.h"

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
  TraceOptions& trace = telemetry.trace;
  trace.server_version = STOKER_VERSION;
  CLI::Option* const endpoint =
      app.add_option("--trace-endpoint", trace.endpoint,
                     "collector of OpenTelemetry that gets traces, by OTLP "
                     "over HTTP: http://HOST[:4318][/v1/traces]")
          ->check([](const std::string& url) {
            return std::string(ParseHttpUrl(url, Tracer::kPort, Tracer::kPath)
                                   .status()
                                   .message());
          });
  app.add_option("--trace-sample", trace.sample,
                 "share of the inferences that are traced where their client "
                 "has no trace of its own, which decides by itself")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->needs(endpoint);
  app.add_option_function<double>(
         "--trace-slow-ms",
         [&trace](double ms) { trace.slow = absl::Milliseconds(ms); },
         "inferences that take as long are traced in any case; 0: none")
      ->check(CLI::Range(0.0, 1e9))
      ->default_str("0")
      ->needs(endpoint);
}

}  // namespace stoker
