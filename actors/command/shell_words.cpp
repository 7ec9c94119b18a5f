#include "actors/command/shell_words.hpp"

#include "runtime/data/utf8.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <string_view>

namespace troupe::command {

std::string for_shell(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0
           || std::string_view("/._-+,:=@%").find(c) != std::string_view::npos;
  };
  if (std::all_of(word.begin(), word.end(), is_plain))
    return word;
  // The word may stand in a comment, which is one line of text.
  const bool is_text = runtime::first_invalid_utf8(word) == std::string::npos;
  const auto is_hidden = [is_text](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::iscntrl(byte) != 0 || (!is_text && byte >= 0x80);
  };
  if (std::any_of(word.begin(), word.end(), is_hidden)) {
    std::string out = "$'";
    for (const char c : word)
      out += is_hidden(c)             ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c))
             : c == '\'' || c == '\\' ? std::string("\\") + c
                                      : std::string(1, c);
    return out + "'";
  }
  std::string out = "'";
  for (const char c : word)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace troupe::command
