// Maps tokens to ids.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::runtime {

class token_map {
 public:
  /// Returns false and changes nothing if the token exists.
  bool add(std::string token, std::int32_t id) { return ids_.emplace(std::move(token), id).second; }

  std::optional<std::int32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  std::size_t size() const { return ids_.size(); }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }

 private:
  struct hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view x) const { return std::hash<std::string_view>()(x); }
  };
  std::unordered_map<std::string, std::int32_t, hash, std::equal_to<>> ids_;
};

/// The ids of the byte tokens "<0x00>" ... "<0xFF>", which SentencePiece models use for unknown
/// characters; -1 if missing.
struct byte_tokens {
  explicit byte_tokens(const token_map& all);

  /// Appends the token of each byte. Returns false and appends nothing if one is missing.
  bool append(std::string_view text, std::vector<std::int32_t>& ids) const;

  std::int32_t of[256];
};

}  // namespace troupe::runtime
