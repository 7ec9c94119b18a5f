#include "runtime/core/terminal_text.hpp"

#include <fmt/format.h>

namespace troupe::runtime {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

bool continues(std::string_view text, std::size_t i) {
  return (byte_at(text, i) & 0xC0) == 0x80;
}

/// Length in bytes of the printable character that begins at `i`; 0 if there is none.
std::size_t shown_bytes(std::string_view text, std::size_t i) {
  const auto first = byte_at(text, i);
  if (first < 0x80)
    return (first >= 0x20 && first != 0x7F) || first == '\n' || first == '\t' ? 1 : 0;
  const std::size_t size = first >= 0xF0 && first < 0xF5   ? 4
                           : first >= 0xE0 && first < 0xF0 ? 3
                           : first >= 0xC2 && first < 0xE0 ? 2
                                                           : 0;
  for (std::size_t k = 1; k < size; ++k)
    if (!continues(text, i + k))
      return 0;
  return first == 0xC2 && byte_at(text, i + 1) < 0xA0 ? 0 : size;
}

void add_shortened(std::string_view line, std::string& to) {
  if (line.size() <= longest_message_line) {
    to += line;
    return;
  }
  auto head = longest_message_line / 2, tail = line.size() - longest_message_line / 2;
  while (head > 0 && continues(line, head))
    --head;
  while (tail < line.size() && continues(line, tail))
    ++tail;
  to += fmt::format(
      "{} ... ({} bytes more) ... {}", line.substr(0, head), tail - head, line.substr(tail));
}

}  // namespace

std::string without_control(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (const auto n = shown_bytes(text, i)) {
      out += text.substr(i, n);
      i += n;
    } else {
      out += fmt::format("\\x{:02x}", byte_at(text, i++));
    }
  }
  return out;
}

std::string message_text(std::string_view text) {
  const auto clean = without_control(text);
  std::string out;
  for (std::string_view left = clean;;) {
    const auto end = left.find('\n');
    add_shortened(left.substr(0, end), out);
    if (end == left.npos)
      return out;
    out += '\n';
    left.remove_prefix(end + 1);
  }
}

}  // namespace troupe::runtime
