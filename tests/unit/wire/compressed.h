// Compressed bytes for tests.
#pragma once

#include <zlib.h>

#include <string>

namespace stoker {

inline std::string Compressed(const std::string& plain, bool gzip) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, gzip ? MAX_WBITS + 16 : MAX_WBITS, 8,
               Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace stoker
