// What libstoker_tokenizer.so exports. Private to this room.
//
// A value; what it points to is never closed.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pipelines/tokenizer/stoker_tokenizer.h"

namespace stoker {

struct TokenizerFunctions {
  decltype(&stoker_tokenizer_open) open = nullptr;
  decltype(&stoker_tokenizer_close) close = nullptr;
  decltype(&stoker_tokenizer_padding) padding = nullptr;
  decltype(&stoker_tokenizer_encode) encode = nullptr;
  decltype(&stoker_tokenizer_free) free = nullptr;

  // UNIMPLEMENTED, with the path: it isn't there, or is of another version.
  static absl::StatusOr<std::unique_ptr<const TokenizerFunctions>> Find(
      const std::string& path);
};

}  // namespace stoker
