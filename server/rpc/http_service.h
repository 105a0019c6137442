// KServe v2 over HTTP, with Triton's extensions: which path stands for which
// method.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rpc/http_method.h"
#include "rpc/infer_call.h"
#include "rpc/method_table.h"
#include "wire/http_call.h"

namespace stoker {

class HttpService {
 public:
  // All outlive it. `methods`: gRPC's. `loads`: how large requests for loads
  // may be, and what reads them.
  HttpService(const InferCall::Services& services, const MethodTable& methods,
              const HttpMethod::Large& loads);
  ~HttpService();

  std::unique_ptr<HttpHandler> NewHandler(HttpCall& call) const;

  // One for each way to ask: "GET /v2/models/{model}".
  std::vector<std::string> Routes() const;

 private:
  struct Route;

  const InferCall::Services& services_;
  const MethodTable& methods_;
  const HttpMethod::Large loads_;
  const std::vector<Route> routes_;
};

// Answers with an error, whatever the body is.
std::unique_ptr<HttpHandler> RefuseHttp(HttpCall& call, HttpAnswer answer);

}  // namespace stoker
