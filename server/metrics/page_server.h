// The HTTP endpoint that Prometheus scrapes; private to this room. A wrapper of
// prometheus::Exposer, whose own destructor takes up to two seconds.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
class Registry;
}  // namespace prometheus

namespace stoker {

class PageServer {
 public:
  // UNAVAILABLE, with the address, when it can't be bound.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(
      const std::string& address,
      const std::shared_ptr<prometheus::Registry>& registry);
  ~PageServer();

  int port() const { return port_; }

 private:
  PageServer(std::unique_ptr<prometheus::Exposer> exposer, std::string host,
             int port);

  std::unique_ptr<prometheus::Exposer> exposer_;
  const std::string host_;
  const int port_;
};

}  // namespace stoker
