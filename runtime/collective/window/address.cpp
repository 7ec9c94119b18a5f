#include "runtime/collective/window/address.hpp"

#include "runtime/core/error.hpp"

#include <array>
#include <charconv>
#include <vector>

namespace troupe::runtime {

namespace {

constexpr std::string_view window_address_magic = "window1";

template <class T>
bool read_whole(std::string_view text, T& to) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), to);
  return failure == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_text(const window_address& x) {
  return fmt::format("{},{},{},{},{},{},{},{}",
                     window_address_magic,
                     x.process,
                     x.host,
                     x.pid,
                     x.board,
                     x.nonce,
                     x.probe,
                     x.wire);
}

window_address window_address_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (auto rest = text;;) {
    const auto comma = rest.find(',');
    words.push_back(rest.substr(0, comma));
    if (comma == std::string_view::npos)
      break;
    rest.remove_prefix(comma + 1);
  }
  window_address out;
  const bool fits = words.size() == 8 && words[0] == window_address_magic
                    && read_whole(words[1], out.process) && read_whole(words[3], out.pid)
                    && read_whole(words[4], out.board) && read_whole(words[5], out.nonce)
                    && read_whole(words[6], out.probe);
  if (!fits)
    throw input_error(
        "'{}' is not an address of windows: expected '{},' and seven fields separated by commas, "
        "from a process of this version",
        text,
        window_address_magic);
  out.host = words[2];
  out.wire = words[7];
  return out;
}

}  // namespace troupe::runtime
