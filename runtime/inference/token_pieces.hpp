// The bytes of all tokens, as a tree of their common beginnings.

#pragma once

#include "runtime/inference/constraint_grammar.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// The bytes that each token adds to a text: tokenizer::piece. Special tokens add nothing here,
/// because a constraint never chooses them as text. Const methods are thread-safe.
class token_pieces {
 public:
  /// Throws input_error without tokenizer::has_own_pieces.
  explicit token_pieces(const tokenizer& of);
  /// The bytes of each token, as the first of a text and as a later one.
  token_pieces(std::vector<std::string> first, std::vector<std::string> later);

  std::int32_t size() const { return std::int32_t(later_.size()); }
  /// Empty for an id that is no token.
  std::string_view bytes(std::int32_t token, bool first) const;
  /// The bytes that a later token adds alone.
  byte_set single_bytes() const;

  /// Nodes in preorder; node i has one byte more than its parent.
  struct tree {
    struct node {
      std::uint8_t byte;
      std::uint16_t depth;       ///< bytes from the root, 1 or more
      std::int32_t end;          ///< the first node after its descendants
      std::int32_t first_token;  ///< index into `tokens`; its own end at that of the next node
    };
    std::vector<node> nodes;  ///< and a last one without a byte
    std::vector<std::int32_t> tokens;
    std::size_t deepest = 0;
  };
  const tree& beginnings(bool first) const { return first && differs_ ? first_tree_ : later_tree_; }

 private:
  std::vector<std::string> first_, later_;  ///< first_: empty unless they differ
  bool differs_ = false;
  tree first_tree_, later_tree_;
};

}  // namespace troupe::runtime
