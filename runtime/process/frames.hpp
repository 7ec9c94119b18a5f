// Framing of texts on a byte stream: 4 bytes of length, big-endian, then the text.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Maximum bytes of one text. A larger announced length is refused before its text is stored.
constexpr std::size_t longest_frame = std::size_t{1} << 20;

/// Throws input_error for a text that is empty or too long.
std::string frame_of(std::string_view text);

/// Reassembles frames. Holds at most one frame and the bytes of the last `feed`.
class frame_reader {
 public:
  void feed(std::string_view bytes) { kept_ += bytes; }
  /// The next complete text. Throws input_error for an invalid length; the rest of the stream is
  /// then unusable.
  std::optional<std::string> next();
  bool is_amid() const { return !kept_.empty(); }  ///< part of a frame has arrived

 private:
  std::string kept_;
};

}  // namespace troupe::runtime
