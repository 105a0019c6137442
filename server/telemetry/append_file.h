// A file that lines are appended to, or the standard output. What moves the
// file away (logrotate, say) gets the next lines into a new one of its name.
//
// Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/reloaded_files.h"

namespace stoker {

class AppendFile {
 public:
  // "-": the standard output. The system's code, with the path.
  static absl::StatusOr<AppendFile> Open(const std::string& path);

  // Opens `path` again where another file has its name by now, or none. What
  // fails leaves the one that is open.
  absl::Status FollowName();

  // Whole lines. Where readers of a pipe let it wait, `gives_up` is asked a few
  // times a second. After an error the next lines begin on a line of their own.
  absl::Status Write(std::string_view lines,
                     absl::FunctionRef<bool()> gives_up);

 private:
  AppendFile(std::string path, FileDescriptor file, bool regular)
      : path_(std::move(path)), file_(std::move(file)), regular_(regular) {}

  absl::Status Await(absl::FunctionRef<bool()> gives_up) const;

  std::string path_;  // empty: the standard output
  FileDescriptor file_;
  bool regular_;
  bool in_line_ = false;  // a line was cut
};

}  // namespace stoker
