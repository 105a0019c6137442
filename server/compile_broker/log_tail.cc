#include "compile_broker/log_tail.h"

#include "base/utf8.h"

namespace stoker {

void LogTail::Append(std::string_view bytes) {
  if (bytes.size() >= kMaxBytes) {
    bytes_.assign(bytes.substr(bytes.size() - kMaxBytes));
    return;
  }
  const size_t total = bytes_.size() + bytes.size();
  if (total > kMaxBytes) bytes_.erase(0, total - kMaxBytes);
  bytes_.append(bytes);
}

std::string LogTail::LastLines(size_t max_bytes) const {
  std::string_view text = bytes_;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  if (text.size() > max_bytes) {
    const bool at_line_start = text[text.size() - max_bytes - 1] == '\n';
    text = text.substr(text.size() - max_bytes);
    const size_t newline = text.find('\n');
    if (!at_line_start && newline != std::string_view::npos) {
      text = text.substr(newline + 1);
    }
  }
  return ValidUtf8(text);
}

}  // namespace stoker
