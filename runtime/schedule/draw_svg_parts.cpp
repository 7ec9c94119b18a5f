#include "runtime/schedule/draw_svg_parts.hpp"

#include "runtime/schedule/draw_rows.hpp"

#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>

namespace troupe::runtime {

std::string px(double x) {
  return fmt::format("{:.7g}", std::round(x * 100) / 100);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t size = byte < 0x80                   ? 1
                             : byte >= 0xC2 && byte < 0xE0 ? 2
                             : byte >= 0xE0 && byte < 0xF0 ? 3
                             : byte >= 0xF0 && byte < 0xF5 ? 4
                                                           : 0;
    std::uint32_t code = size == 1 ? byte : size == 0 ? 0 : byte & (0xFFu >> (size + 1));
    bool good = size > 0 && i + size <= text.size();
    for (std::size_t k = 1; good && k < size; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      good = (next & 0xC0u) == 0x80u;
      code = (code << 6) | (next & 0x3Fu);
    }
    constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    good = good && code >= least[size] && (code < 0xD800 || code > 0xDFFF) && code <= 0x10FFFF
           && code != 0xFFFE && code != 0xFFFF && (code >= 0x20 || code == '\t' || code == '\n');
    if (!good)
      out += '?';
    else if (code == '&')
      out += "&amp;";
    else if (code == '<')
      out += "&lt;";
    else if (code == '>')
      out += "&gt;";
    else if (code == '"')
      out += "&quot;";
    else
      out += text.substr(i, size);
    i += good ? size : 1;
  }
  return out;
}

namespace {

double byte_at(std::string_view hex, std::size_t i) {
  const auto digit = [&](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  return digit(hex[i]) * 16 + digit(hex[i + 1]);
}

}  // namespace

colour::colour(std::string_view hex) : r(byte_at(hex, 1)), g(byte_at(hex, 3)), b(byte_at(hex, 5)) {}

colour colour::lighter(double by) const {
  auto out = *this;
  for (auto* x : {&out.r, &out.g, &out.b})
    *x += (255 - *x) * by;
  return out;
}

std::string colour::text() const {
  return fmt::format("#{:02x}{:02x}{:02x}", int(r + 0.5), int(g + 0.5), int(b + 0.5));
}

colour fill_of(int kind, int shade, int shades) {
  const auto& base = drawn_kinds[std::size_t(kind)];
  return colour(base.colour).lighter(shades > 1 ? 0.52 * shade / (shades - 1) : 0);
}

void box_set::add(const std::string& fill, double x, double y, double width, double height) {
  fmt::format_to(std::back_inserter(paths_[fill]),
                 "M{} {}h{}v{}h{}z",
                 px(x),
                 px(y),
                 px(width),
                 px(height),
                 px(-width));
}

std::string box_set::text() const {
  std::string out;
  for (const auto& [fill, path] : paths_)
    fmt::format_to(std::back_inserter(out), "<path fill=\"{}\" d=\"{}\"/>\n", fill, path);
  return out;
}

}  // namespace troupe::runtime
