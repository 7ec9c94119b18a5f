// Texts over a stream of bytes: each with its length in front, 4 bytes, big-endian.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Bytes of one text; an announced length above it is refused before anything is kept.
constexpr std::size_t longest_frame = std::size_t{1} << 20;

/// Throws input_error for one that is too long, or empty.
std::string frame_of(std::string_view text);

/// Puts together what arrives in pieces. Holds at most one frame and what was fed last.
class frame_reader {
 public:
  void feed(std::string_view bytes) { kept_ += bytes; }
  /// The next text, when all of it is there. Throws input_error for a length that no text has;
  /// whatever follows means nothing then.
  std::optional<std::string> next();
  bool is_amid() const { return !kept_.empty(); }  ///< a part of a frame is there

 private:
  std::string kept_;
};

}  // namespace troupe::runtime
