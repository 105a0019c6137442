#include "compile_broker/compiler_folder.h"

#include <filesystem>
#include <system_error>

namespace stoker {

std::string DefaultCompilerFolder() {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path installed =
      self.parent_path().parent_path() / "share/stoker";
  if (!error && std::filesystem::exists(installed / "compiler", error)) {
    return installed.string();
  }
  return STOKER_SOURCE_DIR;
}

}  // namespace stoker
