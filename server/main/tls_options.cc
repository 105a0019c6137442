#include "main/tls_options.h"

#include <string>

#include "CLI/CLI.hpp"

namespace stoker {

void AddTlsOptions(CLI::App& app, TlsOptions& tls, bool& metrics) {
  CLI::Option* const certificate =
      app.add_option(
             "--tls-certificate", tls.certificate,
             "TLS on the ports of gRPC and HTTP: the server's certificate and "
             "those above it (PEM); read again when it changes")
          ->check(CLI::ExistingFile);
  CLI::Option* const key = app.add_option("--tls-key", tls.key, "its key (PEM)")
                               ->check(CLI::ExistingFile)
                               ->needs(certificate);
  certificate->needs(key);
  CLI::Option* const authorities =
      app.add_option("--tls-client-ca", tls.client_ca,
                     "clients need a certificate of one of these authorities "
                     "(PEM)")
          ->check(CLI::ExistingFile)
          ->needs(certificate);
  app.add_option("--tls-client-name", tls.client_names,
                 "and one of its names (DNS, URI, e-mail) is this one, or "
                 "one label below *.NAME; may be given again")
      ->needs(authorities);
  app.add_option_function<std::string>(
         "--tls-min-version",
         [&tls](const std::string& version) {
           tls.only_1_3 = version == "1.3";
         },
         "oldest version of TLS")
      ->check(CLI::IsMember({"1.2", "1.3"}))
      ->default_str("1.2");
  app.add_flag("--metrics-tls", metrics,
               "the same on the port of the status page and /metrics")
      ->needs(certificate);
}

}  // namespace stoker
