#include "rpc/http_path.h"

#include <string_view>

#include "absl/strings/str_split.h"

namespace stoker {
namespace {

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// False: a '%' without two digits behind it.
bool Decode(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const int high = Digit(text[i + 1]);
    const int low = Digit(text[i + 2]);
    if (high < 0 || low < 0) return false;
    out.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return true;
}

}  // namespace

std::vector<std::string> PathParts(const std::string& target) {
  std::string_view path(target);
  path = path.substr(0, path.find('?'));
  // A proxy's form: with the host in it.
  if (const size_t scheme = path.find("://"); scheme != path.npos) {
    const size_t begin = path.find('/', scheme + 3);
    path = begin == path.npos ? "/" : path.substr(begin);
  }
  if (path.empty() || path.front() != '/') return {};
  path.remove_prefix(1);
  if (!path.empty() && path.back() == '/') path.remove_suffix(1);
  std::vector<std::string> parts;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(path.data(), path.size()), '/')) {
    if (!Decode({part.data(), part.size()}, parts.emplace_back())) return {};
  }
  return parts;
}

}  // namespace stoker
