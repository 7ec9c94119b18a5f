// Constraints on generated texts: a regular expression or a JSON schema, as the set of tokens that
// may come next. docs/formats/constraint.md says which.
//
// A constraint only chooses bytes that some token has alone, so a text that it allows so far can
// always be completed (CONSTRAINT-1). Texts are bounded in nesting, not in length: a text that
// reaches the request's number of tokens is cut there.

#pragma once

#include "runtime/inference/constraint_machine.hpp"
#include "runtime/inference/token_pieces.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// The constraint of any number of texts. It keeps the sets of tokens that it has computed, up to
/// about 64 MB. Its states are used by one thread.
class token_constraint {
 public:
  using pieces = std::shared_ptr<const token_pieces>;

  // These throw input_error for what is not supported, and if no text fits.
  static std::shared_ptr<const token_constraint> of_expression(std::string_view expression,
                                                               pieces with);
  static std::shared_ptr<const token_constraint> of_schema(std::string_view schema, pieces with);
  static std::shared_ptr<const token_constraint> of_any_object(pieces with);

 private:
  friend class constraint_state;
  using part = constraint_grammar::part;
  token_constraint(constraint_grammar grammar, part start, pieces with);

  using bits = std::vector<std::uint64_t>;
  bits tokens_after(constraint_machine::state at, bool first) const;
  const bits& mask(constraint_machine::state at) const;
  void make_room() const;

  pieces pieces_;
  mutable constraint_machine machine_;
  mutable std::vector<bits> masks_;  ///< by state; empty: not computed
  mutable std::size_t mask_bytes_ = 0;
  mutable std::uint64_t generation_ = 0;  ///< of states: they are forgotten if they are many
  bits first_mask_;
};

/// One text so far. Copies are independent.
class constraint_state {
 public:
  explicit constraint_state(std::shared_ptr<const token_constraint> by);

  /// Adds a token. Returns false, without a change, if the constraint does not allow it. End tokens
  /// are not added. Throws input_error if the constraint is too ambiguous here.
  bool advance(std::int32_t token);

  /// The tokens that may come next: token_place::allowed. With `ends` among them if the text may
  /// end here. Valid until the next call. Throws like advance.
  std::span<const std::uint64_t> allowed(std::span<const std::int32_t> ends);

  bool may_end();   ///< the text fits
  bool must_end();  ///< it fits, and no longer one does that begins with it

  const std::string& text() const { return text_; }

 private:
  void refresh();

  std::shared_ptr<const token_constraint> by_;
  constraint_machine::state at_;
  std::uint64_t generation_;
  std::string text_;
  bool first_ = true;  ///< no token was added
  std::vector<std::uint64_t> bits_;
};

}  // namespace troupe::runtime
