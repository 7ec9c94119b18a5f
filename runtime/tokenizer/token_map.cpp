#include "runtime/tokenizer/token_map.hpp"

#include <fmt/format.h>

namespace troupe::runtime {

byte_tokens::byte_tokens(const token_map& all) {
  for (unsigned byte = 0; byte < 256; ++byte)
    of[byte] = all.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
}

bool byte_tokens::append(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto before = ids.size();
  for (const char byte : text) {
    const auto id = of[static_cast<unsigned char>(byte)];
    if (id < 0) {
      ids.resize(before);
      return false;
    }
    ids.push_back(id);
  }
  return true;
}

}  // namespace troupe::runtime
