#include "runtime/inference/constraint_machine.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

using kind = constraint_grammar::kind;

constexpr std::int32_t endless = 1 << 29;    // no text
constexpr std::size_t most_places = 20'000;  // of a state, while it is made
constexpr int most_passes = 100;
constexpr constraint_machine::state unknown = -2;

}  // namespace

std::size_t constraint_machine::stack_hash::operator()(const std::array<std::int32_t, 3>& x) const {
  std::uint64_t out = 0;
  for (const auto one : x)
    out = (out ^ std::uint32_t(one)) * 0x9E3779B97F4A7C15U, out ^= out >> 29;
  return std::size_t(out);
}

constraint_machine::constraint_machine(constraint_grammar grammar, constraint_grammar::part start)
    : grammar_(std::move(grammar)), start_(start) {
  measure();
  if (need_[std::size_t(start)] >= endless)
    throw input_error("no text fits the constraint: parts of it exclude each other");
  if (need_[std::size_t(start)] > highest)
    throw input_error("every text that fits the constraint is nested too deeply: simplify it");
  classify();
  forget();
}

void constraint_machine::measure() {
  const auto& nodes = grammar_.nodes();
  need_.assign(nodes.size(), endless);
  // Parts precede what is made of them, but for rules. After the last pass a need may be too large,
  // which leaves out texts, but none that others need.
  bool changed = true;
  for (int pass = 0; changed && pass < most_passes; ++pass) {
    changed = false;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const auto i = pass % 2 == 0 ? n : nodes.size() - 1 - n;
      const auto& is = nodes[i];
      const auto of = [&](std::int32_t part) { return need_[std::size_t(part)]; };
      auto need = endless;
      if (is.is == kind::empty || is.is == kind::bytes) {
        need = 1;
      } else if (is.is == kind::sequence) {
        need = std::max(1 + of(is.first), of(is.second));
      } else if (is.is == kind::either) {
        for (std::int32_t c = 0; c < is.second; ++c)
          need = std::min(need, of(grammar_.choices()[std::size_t(is.first + c)]));
      } else if (is.is == kind::repeat) {
        need = is.least == 0 ? 1 : 1 + of(is.first);
      } else if (is.is == kind::rule) {
        need = of(is.first);
      }
      need = std::min(need, endless);
      changed = changed || need < need_[i];
      need_[i] = std::min(need, need_[i]);
    }
  }
}

void constraint_machine::classify() {
  for (const auto& set : grammar_.sets()) {
    std::map<std::pair<int, bool>, std::uint8_t> finer;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto number = std::uint8_t(finer.size());
      class_of_[byte]
          = finer.emplace(std::pair(int(class_of_[byte]), set.test(byte)), number).first->second;
    }
  }
  byte_of_.resize(std::size_t(*std::max_element(class_of_.begin(), class_of_.end())) + 1);
  for (int byte = 0; byte < 256; ++byte)
    byte_of_[class_of_[std::size_t(byte)]] = std::uint8_t(byte);
}

void constraint_machine::forget() {
  stacks_.assign(1, {});  // 0: the empty stack
  seen_.assign(1, 0);
  stack_numbers_.clear();
  state_numbers_.clear();
  places_.clear();
  may_end_.clear();
  next_.clear();
  place_count_ = turn_ = 0;
  ++turn_;
  open(0, start_);
  closed();
}

std::size_t constraint_machine::bytes() const {
  return stacks_.size() * 80 + place_count_ * 4 + places_.size() * (120 + 4 * byte_of_.size());
}

std::span<const std::int32_t> constraint_machine::places(state at) const {
  return *places_[std::size_t(at)];
}

void constraint_machine::push(std::int32_t below,
                              constraint_grammar::part top,
                              std::int32_t count) {
  const auto [found, fresh]
      = stack_numbers_.emplace(std::array{top, count, below}, std::int32_t(stacks_.size()));
  if (fresh) {
    stacks_.push_back({top, count, below, stacks_[std::size_t(below)].height + 1});
    seen_.push_back(0);
  }
  open_.push_back(found->second);
}

void constraint_machine::open(std::int32_t below, constraint_grammar::part top) {
  if (stacks_[std::size_t(below)].height + need_[std::size_t(top)] <= highest)
    push(below, top);
}

void constraint_machine::expand(std::int32_t at) {
  const auto from = stacks_[std::size_t(at)];
  const auto& is = grammar_.nodes()[std::size_t(from.top)];
  const auto pushed = [&](constraint_grammar::part top, std::int32_t count = 0) {
    push(from.below, top, count);
    const auto out = open_.back();
    open_.pop_back();
    return out;
  };
  switch (is.is) {
    case kind::nothing:
      break;
    case kind::empty:
      open_.push_back(from.below);
      break;
    case kind::bytes:
      found_.push_back(at);
      break;
    case kind::sequence:
      open(pushed(is.second), is.first);
      break;
    case kind::either:
      for (std::int32_t c = 0; c < is.second; ++c)
        open(from.below, grammar_.choices()[std::size_t(is.first + c)]);
      break;
    case kind::repeat:
      if (from.count >= is.least)
        open_.push_back(from.below);
      if (from.count + 1 == is.most)
        open(from.below, is.first);
      else if (is.most == constraint_grammar::unlimited)
        open(pushed(from.top, std::min(from.count + 1, is.least)), is.first);
      else
        open(pushed(from.top, from.count + 1), is.first);
      break;
    case kind::rule:
      open(from.below, is.first);
      break;
  }
}

constraint_machine::state constraint_machine::closed() {
  found_.clear();
  for (steps_ = 0; !open_.empty(); ++steps_) {
    const auto at = open_.back();
    open_.pop_back();
    ++work_;
    if (std::exchange(seen_[std::size_t(at)], turn_) == turn_)
      continue;
    if (steps_ >= most_places) {
      open_.clear();
      throw input_error(
          "the constraint can be read in more than {} ways at one place: make it less ambiguous",
          most_places);
    }
    if (at == 0)
      found_.push_back(0);
    else
      expand(at);
  }
  if (found_.empty())
    return dead;
  std::sort(found_.begin(), found_.end());
  const auto [found, fresh] = state_numbers_.emplace(found_, state(places_.size()));
  if (fresh) {
    places_.push_back(&found->first);
    may_end_.push_back(found_.front() == 0);
    next_.resize(next_.size() + byte_of_.size(), unknown);
    place_count_ += found_.size();
  }
  return found->second;
}

constraint_machine::state constraint_machine::next(state from, std::uint8_t byte) {
  const auto cell = std::size_t(from) * byte_of_.size() + class_of_[byte];
  if (next_[cell] != unknown)
    return next_[cell];
  ++turn_;
  work_ += places(from).size();
  for (const auto at : places(from)) {
    if (at == 0)
      continue;
    const auto& place = stacks_[std::size_t(at)];
    const auto& is = grammar_.nodes()[std::size_t(place.top)];
    if (grammar_.sets()[std::size_t(is.first)].test(byte))
      open_.push_back(place.below);
  }
  return next_[cell] = closed();
}

}  // namespace troupe::runtime
