// Compressed texts, for tests of readers.

#pragma once

#include <stdexcept>
#include <string>
#include <zlib.h>
#include <zstd.h>

namespace troupe::tests {

/// A gzip member.
inline std::string gzip(std::string text) {
  z_stream state = {};
  if (deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("no deflate");
  std::string out(deflateBound(&state, text.size()) + 32, '\0');
  state.next_in = reinterpret_cast<Bytef*>(text.data());
  state.avail_in = uInt(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = uInt(out.size());
  const int status = deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  deflateEnd(&state);
  if (status != Z_STREAM_END)
    throw std::runtime_error("deflate did not end");
  return out;
}

/// A Zstandard frame.
inline std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

}  // namespace troupe::tests
