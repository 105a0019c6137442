#include "wire/byte_chain.h"

#include <cstring>

namespace stoker {

ByteChain ByteChain::Copy(std::string_view text) {
  ByteChain chain;
  ByteBlock block(text.size());
  if (!text.empty()) std::memcpy(block.data(), text.data(), text.size());
  chain.Append(block.Share());
  return chain;
}

std::string ByteChain::Joined() const {
  std::string all;
  all.reserve(size_);
  for (const ByteSlice& slice : slices_) all.append(slice.text());
  return all;
}

}  // namespace stoker
