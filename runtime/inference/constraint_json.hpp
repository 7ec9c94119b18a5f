// The parts of JSON texts as parts of a grammar.

#pragma once

#include "runtime/inference/constraint_grammar.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// White space and numbers: docs/formats/constraint.md.
class json_parts {
 public:
  using part = constraint_grammar::part;

  explicit json_parts(constraint_grammar& to);

  part any();     ///< any value; a rule
  part object();  ///< any object
  part string();  ///< any string
  part integer(std::optional<std::int64_t> least, std::optional<std::int64_t> most);
  /// `least` and `most`: 0 or more.
  part number(std::optional<std::int64_t> least, std::optional<std::int64_t> most);
  part quoted(part characters);

  /// "key": value
  part member(part key, part value);
  /// Members, of which the required ones are there, in this order; then any number of `more`.
  struct property {
    part member = 0;
    bool required = false;
  };
  part object_of(std::span<const property> properties, std::optional<part> more);
  part array_of(part item, std::int32_t least, std::int32_t most);
  /// A quoted key without escapes that is none of these.
  part key_except(std::span<const std::string> names);

 private:
  part one_of(std::string_view bytes);
  part digits(std::int32_t least, std::int32_t most);
  part whole(std::int64_t least, std::int64_t most);
  part key_after(std::span<const std::u32string> names, std::size_t at);
  part open(char bracket);
  part close(char bracket);

  constraint_grammar& to_;
  part space_, comma_, colon_, unescaped_;
  std::optional<part> any_;
};

}  // namespace troupe::runtime
