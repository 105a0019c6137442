#include "main/profile_page.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "telemetry/timeline.h"
#include "telemetry/timeline_recorder.h"

namespace stoker {
namespace {

constexpr char kDefaultSeconds[] = "10";

Page TextPage(int status, const std::string& text) {
  Page page = {"text/plain; charset=utf-8", absl::StrCat(text, "\n"), ""};
  page.status = status;
  return page;
}

}  // namespace

void ProfilePage::AddTo(LatePages& pages, Telemetry& telemetry) {
  pages.emplace("/profile",
                [this, &telemetry](const std::string& query, const Done& done) {
                  Begin(telemetry, query, done);
                });
}

void ProfilePage::Begin(Telemetry& telemetry, const std::string& query,
                        const Done& done) {
  absl::string_view text =
      query.empty() ? kDefaultSeconds : absl::string_view(query);
  const bool named = absl::ConsumePrefix(&text, "seconds=");
  double seconds = 0;
  if ((!named && !query.empty()) || !absl::SimpleAtod(text, &seconds) ||
      !std::isfinite(seconds) || seconds <= 0 ||
      absl::Seconds(seconds) > kMost) {
    return done(TextPage(
        400, absl::StrCat("expected /profile?seconds=N, N above 0 and at most ",
                          absl::ToInt64Seconds(kMost))));
  }
  const char* const why =
      Start(telemetry.recorder(), absl::Seconds(seconds), done);
  if (why != nullptr) done(TextPage(503, why));
}

const char* ProfilePage::Start(TimelineRecorder& recorder,
                               absl::Duration how_long, const Done& done) {
  const MonotonicTime end = clock_.Now() + how_long;
  absl::MutexLock lock(&mu_);
  if (stopping_) return "the server stops";
  if (busy_) return "another profile is being taken";
  busy_ = true;
  recorder.Begin();
  // The thread of the one before is through.
  thread_ = Thread("profile", [this, &recorder, end, done] {
    {
      absl::MutexLock waiting(&mu_);
      clock_.AwaitWithDeadline(&mu_, absl::Condition(&stopping_), end);
    }
    done(Page{"application/json", TimelineJson(recorder.End()), ""});
    absl::MutexLock ended(&mu_);
    busy_ = false;
  });
  return nullptr;
}

void ProfilePage::Stop() {
  Thread last;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    last = std::move(thread_);
  }
  last.Join();
}

}  // namespace stoker
