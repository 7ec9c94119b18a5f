// Random texts that a constraint allows, and a tokenizer's pieces to write them with.

#pragma once

#include "runtime/inference/constraint.hpp"

#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tests {

/// A token for each byte, then these, then a token without bytes (a special one), which ends texts.
inline std::shared_ptr<const runtime::token_pieces> pieces_with(const std::vector<std::string>& more
                                                                = {}) {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte)
    all.emplace_back(1, static_cast<char>(byte));
  all.insert(all.end(), more.begin(), more.end());
  all.emplace_back();
  return std::make_shared<const runtime::token_pieces>(all, all);
}

/// Pieces that cross the borders of JSON's symbols and of characters.
inline const std::vector<std::string> json_pieces
    = {"{\"",  "\": ", "\", \"", "\"}",       "true", "null", "]}",   "},",       "  ",
       "\n  ", "12",   "0.5",    "\\u00e",    "\\",   "\xC3", "\xA9", "\xF0\x9F", "id",
       "name", "\":",  "a\"",    "\xC3\xA9x", "-1",   "[[",   "{}",   ": ",       ", "};

/// How far a constraint allows a text, written in single bytes.
struct fate {
  std::size_t allowed = 0;  ///< bytes
  bool fits = false;
};
inline fate fate_of(const std::shared_ptr<const runtime::token_constraint>& by,
                    std::string_view text) {
  runtime::constraint_state at(by);
  fate out;
  for (const char byte : text) {
    const auto token = std::uint8_t(byte);
    const bool in_mask = (at.allowed({})[token / 64] >> (token % 64) & 1) != 0;
    const bool taken = at.advance(token);
    CHECK(taken == in_mask);
    if (!taken)
      return out;
    ++out.allowed;
  }
  out.fits = at.may_end();
  return out;
}

inline std::vector<std::int32_t> tokens_in(std::span<const std::uint64_t> bits) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < 64 * bits.size(); ++i)
    if ((bits[i / 64] >> (i % 64) & 1) != 0)
      out.push_back(std::int32_t(i));
  return out;
}

/// CONSTRAINT-1: a text of random tokens can always go on or end. After `long_enough` tokens the
/// walk takes what closes JSON values, and ends as soon as it may.
inline std::string random_text(const std::shared_ptr<const runtime::token_constraint>& by,
                               std::mt19937_64& random,
                               std::size_t long_enough) {
  runtime::constraint_state at(by);
  for (std::size_t step = 0; step < 5000; ++step) {
    const bool closing = step >= long_enough;
    if (at.must_end() || (at.may_end() && (closing || random() % 4 == 0)))
      return at.text();
    const auto all = tokens_in(at.allowed({}));
    REQUIRE_FALSE(all.empty());
    auto token = all[random() % all.size()];
    if (closing && random() % 4 != 0)
      for (const char closer : std::string_view("ntf0a@[\":,}]"))
        if (at.allowed({})[std::size_t(closer) / 64] >> (closer % 64) & 1)
          token = closer;
    REQUIRE(at.advance(token));
  }
  FAIL("a text of 5000 tokens has no end: " << at.text().substr(0, 500));
  return {};
}

}  // namespace troupe::tests
