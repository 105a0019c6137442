#include "pipelines/tokenizer_functions.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

template <typename Function>
bool Look(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

absl::Status NoLibrary(const std::string& path, absl::string_view why) {
  return absl::UnimplementedError(absl::StrCat(
      "a tokenizer needs libstoker_tokenizer.so, expected at ", path,
      " (--tokenizer-library; deploy/tokenizer.sh builds it): ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const TokenizerFunctions>>
TokenizerFunctions::Find(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return NoLibrary(path, why == nullptr ? "it can't be opened" : why);
  }
  auto found = std::make_unique<TokenizerFunctions>();
  decltype(&stoker_tokenizer_abi) abi = nullptr;
  const bool whole =
      Look(library, "stoker_tokenizer_abi", abi) &&
      abi() == STOKER_TOKENIZER_ABI &&
      Look(library, "stoker_tokenizer_open", found->open) &&
      Look(library, "stoker_tokenizer_close", found->close) &&
      Look(library, "stoker_tokenizer_padding", found->padding) &&
      Look(library, "stoker_tokenizer_encode", found->encode) &&
      Look(library, "stoker_tokenizer_free", found->free);
  if (!whole) {
    return NoLibrary(path, "what is there was built for another version");
  }
  return found;
}

}  // namespace stoker
