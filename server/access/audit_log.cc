#include "access/audit_log.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"

namespace stoker {
namespace {

std::string Shown(const AuditLog::Entry& entry) {
  std::string text = absl::StrCat("caller=", Absl(entry.caller));
  if (!entry.subject.empty()) {
    absl::StrAppend(&text, " subject='", ShownName(entry.subject), "'");
  }
  absl::StrAppend(&text, " peer=", Absl(entry.peer),
                  " method=", Absl(entry.method.name()));
  if (entry.object.empty()) return text;
  absl::StrAppend(&text, " object='", ShownName(entry.object), "'");
  return text;
}

std::string LeftOut(int lines) {
  return lines == 0 ? ""
                    : absl::StrCat(" (", lines, " lines before it left out)");
}

}  // namespace

std::string ShownName(std::string_view name) {
  constexpr size_t kMaxShown = 128;
  return absl::StrCat(absl::CHexEscape(Absl(name.substr(0, kMaxShown))),
                      name.size() > kMaxShown ? "..." : "");
}

std::optional<int> AuditLog::Admit(Standing standing) {
  const MonotonicTime now = clock_.Now();
  absl::MutexLock lock(&mu_);
  Bound& bound = bounds_[static_cast<size_t>(standing)];
  if (now >= bound.window_end) {
    bound.window_end = now + kWindow;
    bound.lines = 0;
  }
  if (bound.lines == kLines) {
    ++bound.left_out;
    return std::nullopt;
  }
  ++bound.lines;
  return std::exchange(bound.left_out, 0);
}

void AuditLog::Change(const Entry& entry, Standing standing) {
  std::optional<int> left_out = 0;
  if (standing == Standing::kAnybody) left_out = Admit(standing);
  if (!left_out.has_value()) return;
  log::Info("audit: {} let in{}", Shown(entry), LeftOut(*left_out));
}

void AuditLog::Refusal(const Entry& entry, Standing standing,
                       std::string_view reason) {
  const std::optional<int> left_out = Admit(standing);
  if (!left_out.has_value()) return;
  log::Warn("audit: {} refused: {}{}", Shown(entry), std::string(reason),
            LeftOut(*left_out));
}

}  // namespace stoker
