#include "wire/deflater.h"

#include <zlib.h>

namespace stoker {

bool Deflate(Encoding encoding, ByteChain& message) {
  constexpr int kGzipHeader = 16;
  constexpr int kMemoryLevel = 8;  // zlib's default
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED,
                   MAX_WBITS + (encoding == Encoding::kGzip ? kGzipHeader : 0),
                   kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    return false;
  }
  ByteBlock packed(deflateBound(&stream, message.size()));
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  bool well = true;
  for (const ByteSlice& slice : message.slices()) {
    stream.next_in = reinterpret_cast<Bytef*>(
        const_cast<std::byte*>(slice.data));  // only read
    stream.avail_in = static_cast<uInt>(slice.size);
    well = well && deflate(&stream, Z_NO_FLUSH) == Z_OK;
  }
  well = well && deflate(&stream, Z_FINISH) == Z_STREAM_END;
  const size_t size = stream.total_out;
  deflateEnd(&stream);
  if (!well) return false;
  message.Clear();
  message.Append(packed.Share(0, size));
  return true;
}

}  // namespace stoker
