#include "runtime/inference/constraint.hpp"

#include "runtime/core/error.hpp"
#include "runtime/inference/constraint_expression.hpp"
#include "runtime/inference/constraint_json.hpp"
#include "runtime/inference/constraint_schema.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_bytes = 64 << 20;  // of states and masks, between two tokens
// While the tokens after one state are found:
constexpr std::size_t most_within = 128 << 20;
constexpr std::uint64_t most_work = 20'000'000;  // about a second

bool has(std::span<const std::uint64_t> bits) {
  return std::any_of(bits.begin(), bits.end(), [](std::uint64_t word) { return word != 0; });
}

}  // namespace

token_constraint::token_constraint(constraint_grammar grammar, part start, pieces with)
    : pieces_(std::move(with)), machine_(std::move(grammar), start) {
  first_mask_ = tokens_after(machine_.start(), true);
  if (!has(first_mask_) && !machine_.may_end(machine_.start()))
    throw input_error(
        "no text that fits the constraint begins with a token of this model's tokenizer");
}

std::shared_ptr<const token_constraint> token_constraint::of_expression(std::string_view expression,
                                                                        pieces with) {
  constraint_grammar to(with->single_bytes());
  const auto start = expression_part(to, expression, expression_scope::whole, spelling::plain);
  return std::shared_ptr<const token_constraint>(
      new token_constraint(std::move(to), start, std::move(with)));
}

std::shared_ptr<const token_constraint> token_constraint::of_schema(std::string_view schema,
                                                                    pieces with) {
  constraint_grammar to(with->single_bytes());
  const auto start = schema_part(to, schema);
  return std::shared_ptr<const token_constraint>(
      new token_constraint(std::move(to), start, std::move(with)));
}

std::shared_ptr<const token_constraint> token_constraint::of_any_object(pieces with) {
  constraint_grammar to(with->single_bytes());
  const auto start = json_parts(to).object();
  return std::shared_ptr<const token_constraint>(
      new token_constraint(std::move(to), start, std::move(with)));
}

token_constraint::bits token_constraint::tokens_after(constraint_machine::state at,
                                                      bool first) const {
  bits out((std::size_t(pieces_->size()) + 63) / 64);
  const auto& tree = pieces_->beginnings(first);
  const auto last = machine_.work() + most_work;
  std::vector<constraint_machine::state> path(tree.deepest + 1, at);
  for (std::size_t i = 0; i + 1 < tree.nodes.size();) {
    const auto& node = tree.nodes[i];
    const auto next = machine_.next(path[node.depth - 1U], node.byte);
    if (next == constraint_machine::dead) {
      i = std::size_t(node.end);
      continue;
    }
    path[node.depth] = next;
    for (auto t = node.first_token; t < tree.nodes[i + 1].first_token; ++t) {
      const auto token = std::size_t(tree.tokens[std::size_t(t)]);
      out[token / 64] |= std::uint64_t{1} << (token % 64);
    }
    ++i;
    if (machine_.work() > last || machine_.bytes() > most_within)
      throw input_error(
          "the constraint can be read in too many ways to find the next tokens: make it less "
          "ambiguous, or its bounds smaller");
  }
  return out;
}

const token_constraint::bits& token_constraint::mask(constraint_machine::state at) const {
  if (masks_.size() <= std::size_t(at))
    masks_.resize(std::size_t(at) + 1);
  if (masks_[std::size_t(at)].empty()) {
    auto made = tokens_after(at, false);
    ensure(has(made) || machine_.may_end(at), "CONSTRAINT-1: a text can be completed");
    mask_bytes_ += made.size() * sizeof(made.front());
    masks_[std::size_t(at)] = std::move(made);
  }
  return masks_[std::size_t(at)];
}

void token_constraint::make_room() const {
  if (machine_.bytes() + mask_bytes_ + masks_.size() * sizeof(bits) <= most_bytes)
    return;
  machine_.forget();
  masks_.clear();
  mask_bytes_ = 0;
  ++generation_;
}

constraint_state::constraint_state(std::shared_ptr<const token_constraint> by)
    : by_(std::move(by)), at_(by_->machine_.start()), generation_(by_->generation_) {}

void constraint_state::refresh() {
  by_->make_room();
  if (generation_ == by_->generation_)
    return;
  at_ = by_->machine_.start();
  for (const char byte : text_)
    at_ = by_->machine_.next(at_, std::uint8_t(byte));
  generation_ = by_->generation_;
}

bool constraint_state::advance(std::int32_t token) {
  refresh();
  const auto piece = by_->pieces_->bytes(token, first_);
  auto at = at_;
  for (const char byte : piece)
    if (at != constraint_machine::dead)
      at = by_->machine_.next(at, std::uint8_t(byte));
  if (piece.empty() || at == constraint_machine::dead)
    return false;
  at_ = at;
  text_ += piece;
  first_ = false;
  return true;
}

std::span<const std::uint64_t> constraint_state::allowed(std::span<const std::int32_t> ends) {
  refresh();
  bits_ = first_ ? by_->first_mask_ : by_->mask(at_);
  if (may_end())
    for (const auto end : ends)
      if (end >= 0 && std::size_t(end) / 64 < bits_.size())
        bits_[std::size_t(end) / 64] |= std::uint64_t{1} << (end % 64);
  return bits_;
}

bool constraint_state::may_end() {
  refresh();
  return by_->machine_.may_end(at_);
}

bool constraint_state::must_end() {
  refresh();
  return by_->machine_.must_end(at_);
}

}  // namespace troupe::runtime
