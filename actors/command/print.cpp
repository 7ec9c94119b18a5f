#include "actors/command/print.hpp"

#include "runtime/core/terminal_text.hpp"

#include <cstdio>
#include <string>

namespace troupe::command {

void print_page(std::string_view text) {
  print_data(runtime::without_control(text));
}

void print_json(std::string_view text) {
  constexpr char begins_control = '\xC2';  // U+0080 to U+009F, which JSON need not escape
  std::string out;
  out.reserve(text.size() + 1);
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (text[i] == begins_control && next >= 0x80 && next < 0xA0) {
      out += fmt::format("\\u00{:02x}", next);
      ++i;
    } else if (byte == 0x7F || (in_string && byte < 0x20)) {
      out += fmt::format("\\u00{:02x}", byte);
    } else if (byte < 0x20 && text[i] != '\n') {
      out += ' ';
    } else if (in_string && text[i] == '\\' && next >= 0x20 && next < 0x7F) {
      out += text.substr(i++, 2);
    } else {
      in_string = in_string != (text[i] == '"');
      out += text[i];
    }
  }
  print_data(out + '\n');
}

void print_data(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

}  // namespace troupe::command
