#include "wire/inflater.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

constexpr int kGzipWindow = MAX_WBITS + 16;

CallStatus Broken(const char* what) {
  return {absl::StatusCode::kInternal,
          absl::StrCat("expected a compressed message, got ", what), ""};
}

}  // namespace

struct Inflater::State {
  z_stream stream = {};
  bool ready = false;
};

Inflater::Inflater(Encoding encoding, ByteSlice compressed, size_t max_bytes)
    : compressed_(std::move(compressed)),
      max_bytes_(max_bytes),
      state_(std::make_unique<State>()) {
  z_stream& stream = state_->stream;
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<std::byte*>(compressed_.data));
  stream.avail_in = static_cast<uInt>(compressed_.size);
  state_->ready =
      inflateInit2(&stream, encoding == Encoding::kGzip ? kGzipWindow
                                                        : MAX_WBITS) == Z_OK;
}

Inflater::~Inflater() {
  if (state_->ready) inflateEnd(&state_->stream);
}

CallStatus Inflater::Step(Reserve reserve) {
  if (!state_->ready) return Broken("no memory to inflate it in");
  // Small messages are many: they don't take a whole step's memory.
  const size_t guess = std::max<size_t>(1024, 8 * compressed_.size);
  const size_t size =
      std::min({kStepBytes, guess, max_bytes_ - out_.size() + 1});
  if (CallStatus refused = reserve(size); !refused.ok()) return refused;
  ByteBlock block(size);
  z_stream& stream = state_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(block.data());
  stream.avail_out = static_cast<uInt>(size);
  const int outcome = inflate(&stream, Z_NO_FLUSH);
  const size_t made = size - stream.avail_out;
  out_.Append(block.Share(0, made));
  if (out_.size() > max_bytes_) {
    return {absl::StatusCode::kResourceExhausted,
            absl::StrCat("expected a message of at most ", max_bytes_,
                         " bytes, got more in ", compressed_.size,
                         " compressed ones"),
            "", /*too_long=*/true};
  }
  if (outcome == Z_STREAM_END) {
    if (stream.avail_in > 0) return Broken("bytes behind its end");
    done_ = true;
    return {};
  }
  if (outcome != Z_OK) return Broken("bytes that are none");
  return {};
}

}  // namespace stoker
