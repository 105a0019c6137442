#include "runner/torch_errors.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <exception>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace stoker {
namespace {

// What nativert says about an exception in one of its operators: it throws a
// new one, whose type says nothing, and whose text has the node, its arguments,
// an empty line, the text of the first, and where in Python the node came from.
constexpr char kNodePrefix[] = "Exception while executing node: ";
constexpr char kOperatorPrefix[] = "torch.ops.";

// The line that says what happened, with the operator where it is known: "index
// out of range in self (aten.embedding.default)".
std::string Summary(absl::string_view text) {
  std::string op;
  if (absl::ConsumePrefix(&text, kNodePrefix)) {
    const size_t begin = text.find(kOperatorPrefix);
    const size_t end = text.find('(', begin);
    if (begin != text.npos && end != text.npos) {
      const size_t name = begin + sizeof(kOperatorPrefix) - 1;
      op = absl::StrCat(" (", text.substr(name, end - name), ")");
    }
    const size_t cause = text.find("\n\n");
    if (cause != text.npos) text.remove_prefix(cause);
  }
  text = absl::StripLeadingAsciiWhitespace(text);
  text = text.substr(0, text.find('\n'));
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(text), op);
}

bool IsOutOfMemory(absl::string_view text) {
  // On a GPU nativert drops the type of the exception, and with it the number.
  return absl::StrContains(text, "DefaultCPUAllocator") ||
         absl::StrContains(text, "CUDA error: out of memory") ||
         absl::StrContains(text, "CUDA driver error: out of memory") ||
         absl::StrContains(text, "_STATUS_ALLOC_FAILED") ||
         absl::StrContains(text, "not enough memory") ||
         absl::StrContains(text, "Cannot allocate memory") ||
         absl::StrContains(text, "std::bad_alloc");
}

// Not an operator's opinion about values: an assertion inside torch, an
// operator that has no kernel here, or what a GPU's libraries say.
bool IsDefect(absl::string_view text) {
  return absl::StrContains(text, "INTERNAL ASSERT FAILED") ||
         absl::StrContains(text, "[enforce fail at") ||
         absl::StrContains(text, "Could not run '") ||
         absl::StrContains(text, "CUDA error: ") ||
         absl::StrContains(text, "CUDA driver error: ") ||
         absl::StrContains(text, "cuDNN error: ");
}

}  // namespace

absl::Status EagerError(absl::string_view what) {
  std::string text;
  absl::StatusCode code = absl::StatusCode::kInternal;
  try {
    throw;
  } catch (const c10::NotImplementedError& error) {
    text = Summary(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    text = Summary(error.what_without_backtrace());
    if (!IsDefect(text)) code = absl::StatusCode::kInvalidArgument;
  } catch (const std::exception& error) {
    text = Summary(error.what());
  } catch (...) {
    text = "unknown exception";
  }
  if (IsOutOfMemory(text)) code = absl::StatusCode::kResourceExhausted;
  return absl::Status(code, absl::StrCat(what, ": ", text));
}

absl::Status WrittenToError(absl::string_view path) {
  return absl::DataLossError(
      absl::StrCat(path,
                   " was written to while its weights were in use: put new "
                   "ones into another version's folder, and load this one "
                   "again"));
}

void KeepErrorsCheap() {
  c10::SetStackTraceFetcher([]() { return std::string(); });
}

absl::Status CompiledError(absl::string_view what) {
  absl::Status status = EagerError(what);
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    return absl::InternalError(status.message());
  }
  return status;
}

}  // namespace stoker
