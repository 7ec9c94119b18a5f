// Languages of bytes, built from parts: what a constraint_machine recognises.

#pragma once

#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

using byte_set = std::bitset<256>;

/// The bytes from `first` to `last`.
byte_set byte_range(int first, int last);

/// A grammar owns its parts. A part is a set of texts, and equal parts are one. Every function
/// throws input_error when the grammar becomes too large.
class constraint_grammar {
 public:
  using part = std::int32_t;
  static constexpr std::int32_t unlimited = std::numeric_limits<std::int32_t>::max();

  /// Texts with another byte than these are in no part.
  explicit constraint_grammar(const byte_set& available);

  part nothing() const { return 0; }  ///< no text
  part empty() const { return 1; }    ///< the empty text
  part bytes(const byte_set& any);    ///< one of these bytes
  part literal(std::string_view text);
  part sequence(part first, part second);
  part sequence(std::initializer_list<part> all);
  part either(std::vector<part> all);
  part repeat(part what, std::int32_t least, std::int32_t most);
  part optional(part what) { return either({empty(), what}); }

  /// All texts of bytes that lie between two texts of one length, in the order of bytes, with
  /// bytes from `lowest` to `highest` only.
  part between(std::string_view first, std::string_view last, int lowest, int highest);

  /// A part that `define` gives a body later; for recursion. The body has no empty text
  /// (GRAMMAR-1).
  part rule();
  void define(part rule, part body);

  enum class kind : std::uint8_t { nothing, empty, bytes, sequence, either, repeat, rule };
  struct node {
    kind is = kind::nothing;
    bool may_be_empty = false;
    std::int32_t first = 0;   ///< part; bytes: index of the set; either: index into choices()
    std::int32_t second = 0;  ///< part; either: number of choices
    std::int32_t least = 0, most = 0;
  };
  const std::vector<node>& nodes() const { return nodes_; }
  const std::vector<part>& choices() const { return choices_; }
  const std::vector<byte_set>& sets() const { return sets_; }

 private:
  part made(node what);
  part without_empty(part what);

  byte_set available_;
  std::vector<node> nodes_;
  std::vector<part> choices_;
  std::vector<byte_set> sets_;
  std::size_t made_ = 0;
  std::map<std::string, std::int32_t> set_numbers_;
  std::map<std::vector<std::int32_t>, part> numbers_;
};

}  // namespace troupe::runtime
