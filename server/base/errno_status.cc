#include "base/errno_status.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
      return absl::StatusCode::kResourceExhausted;
    case EEXIST:
    case ENOTEMPTY:
      return absl::StatusCode::kAlreadyExists;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view what) {
  // generic_category().message() is the thread-safe strerror.
  return {CodeOf(error), absl::StrCat(Absl(what), ": ",
                                      std::generic_category().message(error))};
}

}  // namespace stoker
