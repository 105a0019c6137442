// The last part of what a process wrote, kept for the error message of the job
// that was running. Private to this room. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stoker {

class LogTail {
 public:
  static constexpr size_t kMaxBytes = 64 << 10;

  void Append(std::string_view bytes);

  // Whole lines from the end, at most `max_bytes` of them (one longer line is
  // cut), without blank lines at the end. Bytes that are no UTF-8 are replaced:
  // status messages travel in protobuf strings.
  std::string LastLines(size_t max_bytes) const;

  size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace stoker
