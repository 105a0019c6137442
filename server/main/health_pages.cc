#include "main/health_pages.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/absl_view.h"
#include "main/service_manager.h"

namespace stoker {
namespace {

// Probes give up sooner or later than this, and ask again.
constexpr absl::Duration kPatience = absl::Seconds(2);

Page Says(bool serves, const std::string& text) {
  Page page = {"text/plain; charset=utf-8", absl::StrCat(text, "\n"), ""};
  page.status = serves ? 200 : 503;
  return page;
}

}  // namespace

void HealthPages::AddTo(Pages& pages) {
  for (const char* service : {"liveness", "readiness", "startup"}) {
    pages.emplace(absl::StrCat("/health/", service),
                  [this, service] { return Ask(service); });
  }
}

void HealthPages::Start(RpcServer& server) {
  const absl::MutexLock lock(&mutex_);
  server_ = &server;
}

void HealthPages::Stop() {
  const absl::MutexLock lock(&mutex_);
  server_ = nullptr;
  instead_ = "draining";
}

Page HealthPages::Ask(const std::string& service) {
  const absl::MutexLock lock(&mutex_);
  if (server_ == nullptr) return Says(service == "liveness", instead_);
  const absl::StatusOr<bool> serves =
      AskOwnHealth(*server_, service, kPatience);
  if (!serves.ok()) return Says(false, std::string(serves.status().message()));
  return Says(*serves, *serves ? "serving" : "not serving");
}

}  // namespace stoker
