#include "runtime/process/frames.hpp"

#include "runtime/core/error.hpp"

namespace troupe::runtime {
namespace {

constexpr std::size_t length_bytes = 4;

void require_length(std::size_t length) {
  if (length == 0 || length > longest_frame)
    throw input_error("a message has {} bytes; allowed are 1 to {}", length, longest_frame);
}

}  // namespace

std::string frame_of(std::string_view text) {
  require_length(text.size());
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8)
    out += char(text.size() >> shift & 0xff);
  return out.append(text);
}

std::optional<std::string> frame_reader::next() {
  if (kept_.size() < length_bytes)
    return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    length = length << 8 | static_cast<unsigned char>(kept_[i]);
  require_length(length);
  if (kept_.size() - length_bytes < length)
    return std::nullopt;
  auto out = kept_.substr(length_bytes, length);
  kept_.erase(0, length_bytes + length);
  return out;
}

}  // namespace troupe::runtime
