#include "runtime/core/json_bytes.hpp"

#include "runtime/core/json_text.hpp"

#include <charconv>
#include <cstddef>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

constexpr auto bytes_key = "bytes";

bool can_be_written(const nlohmann::json& text) {
  try {
    json_text(text);
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

nlohmann::json text_or_bytes(const std::string& x) {
  if (nlohmann::json text = x; can_be_written(text))
    return text;
  std::string hex;
  for (const char c : x)
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{bytes_key, hex}};
}

std::optional<std::string> from_text_or_bytes(const nlohmann::json& x) {
  if (x.is_string())
    return x.get<std::string>();
  if (!x.is_object() || x.size() != 1 || !x.contains(bytes_key) || !x[bytes_key].is_string())
    return std::nullopt;
  const auto hex = x[bytes_key].get<std::string>();
  if (hex.size() % 2 != 0)
    return std::nullopt;
  std::string out(hex.size() / 2, '\0');
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned char byte = 0;
    const char* const end = hex.data() + i + 2;
    if (const auto read = std::from_chars(hex.data() + i, end, byte, 16);
        read.ptr != end || read.ec != std::errc())
      return std::nullopt;
    out[i / 2] = char(byte);
  }
  return out;
}

}  // namespace troupe::runtime
