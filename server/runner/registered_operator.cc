#include "runner/registered_operator.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace stoker {

std::optional<c10::OperatorHandle> FindOperator(absl::string_view target) {
  if (!absl::ConsumePrefix(&target, "torch.ops.")) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(target, '.');
  if (parts.size() != 3) return std::nullopt;
  return c10::Dispatcher::singleton().findSchema(
      {parts[0] + "::" + parts[1], parts[2] == "default" ? "" : parts[2]});
}

}  // namespace stoker
