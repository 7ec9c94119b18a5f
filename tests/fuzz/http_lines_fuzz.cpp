// Fuzzes two parsers: the splitting of a stream into lines, and the targets of requests. The first
// byte of the input gives the size of the parts.

#include "runtime/http/client.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr std::size_t longest = 64;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return out;
}

void check_target(std::string_view text) {
  const auto found = http::parse_target(text);
  if (!found)
    return;
  const auto is_plain = [](std::string_view x) {
    return std::ranges::all_of(x, [](unsigned char c) { return c >= ' ' && c != 127; });
  };
  fuzz::require(found->path.starts_with('/') && is_plain(found->path)
                    && (found->path + "/").find("/../") == std::string::npos,
                "a path is decoded and stays below its folder");
  for (const auto& [name, value] : found->query)
    fuzz::require(!name.empty() && is_plain(name) && is_plain(value), "a query is decoded");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {"\1{\"kind\":\"step\"}\n\n{\"kind\":\"end\"}\n",
          "\7/page/a%20b?x=1&y=%C3%A9&z#top\n",
          "\3no end"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\n",
          "\r\n",
          "\n\n",
          std::string(1, '\0'),
          std::string(longest, 'x'),
          "%2e%2e/",
          "%00",
          "%",
          "?",
          "&&",
          "+",
          "#"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const auto each = std::size_t(1) + data[0];
  const auto text = fuzz::text_of(data, size).substr(1);
  check_target(text.substr(0, text.find('\n')));
  fuzz::accepted([&] {
    http::line_splitter splitter(longest);
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size(); at += each)
      fuzz::require(splitter.feed(text.substr(at, each),
                                  [&](std::string_view line) {
                                    found.emplace_back(line);
                                    return true;
                                  }),
                    "a splitter continues while its function returns true");
    fuzz::require(found == lines_of(text), "the lines do not depend on the parts");
  });
  return 0;
}
