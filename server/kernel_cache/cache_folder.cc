#include "kernel_cache/cache_folder.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace stoker {

std::string DefaultCacheFolder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) {
    return absl::StrCat(xdg, "/stoker/kernels");
  }
  const char* home = std::getenv("HOME");
  return absl::StrCat(home ? home : "/var", "/.cache/stoker/kernels");
}

}  // namespace stoker
