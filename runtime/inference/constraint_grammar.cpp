#include "runtime/inference/constraint_grammar.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t largest_grammar = 300'000;  // parts and choices
constexpr std::size_t most_made = 5'000'000;      // parts asked for, equal ones too; seconds

}  // namespace

byte_set byte_range(int first, int last) {
  byte_set out;
  for (int byte = first; byte <= last; ++byte)
    out.set(std::size_t(byte));
  return out;
}

constraint_grammar::constraint_grammar(const byte_set& available)
    : available_(available), nodes_{{}, {.is = kind::empty, .may_be_empty = true}} {}

constraint_grammar::part constraint_grammar::made(node what) {
  if (++made_ > most_made)
    throw input_error("the constraint repeats its parts too often: make it smaller");
  std::vector<std::int32_t> key{
      std::int32_t(what.is), what.first, what.second, what.least, what.most};
  if (what.is == kind::either) {
    key.assign(choices_.begin() + what.first, choices_.end());
    key.push_back(-1);  // no other key ends so
  }
  const auto [found, fresh] = numbers_.emplace(std::move(key), part(nodes_.size()));
  if (!fresh) {
    if (what.is == kind::either)
      choices_.resize(std::size_t(what.first));
    return found->second;
  }
  nodes_.push_back(what);
  if (nodes_.size() + choices_.size() > largest_grammar)
    throw input_error("the constraint needs more than {} parts: make it smaller", largest_grammar);
  return found->second;
}

constraint_grammar::part constraint_grammar::bytes(const byte_set& any) {
  const auto usable = any & available_;
  if (usable.none())
    return nothing();
  const auto [found, fresh] = set_numbers_.emplace(usable.to_string(), std::int32_t(sets_.size()));
  if (fresh)
    sets_.push_back(usable);
  return made({.is = kind::bytes, .first = found->second});
}

constraint_grammar::part constraint_grammar::literal(std::string_view text) {
  auto out = empty();
  for (auto byte = text.rbegin(); byte != text.rend(); ++byte)
    out = sequence(bytes(byte_range(std::uint8_t(*byte), std::uint8_t(*byte))), out);
  return out;
}

constraint_grammar::part constraint_grammar::sequence(part first, part second) {
  if (first == nothing() || second == nothing())
    return nothing();
  if (first == empty() || second == empty())
    return first == empty() ? second : first;
  const bool both_empty
      = nodes_[std::size_t(first)].may_be_empty && nodes_[std::size_t(second)].may_be_empty;
  return made({.is = kind::sequence, .may_be_empty = both_empty, .first = first, .second = second});
}

constraint_grammar::part constraint_grammar::sequence(std::initializer_list<part> all) {
  auto out = empty();
  for (auto one = std::rbegin(all); one != std::rend(all); ++one)
    out = sequence(*one, out);
  return out;
}

constraint_grammar::part constraint_grammar::either(std::vector<part> all) {
  byte_set alone;  // choices of one byte become one choice
  std::erase_if(all, [&](part one) {
    const auto& is = nodes_[std::size_t(one)];
    if (is.is == kind::bytes)
      alone |= sets_[std::size_t(is.first)];
    return is.is == kind::bytes || is.is == kind::nothing;
  });
  if (alone.any())
    all.push_back(bytes(alone));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() < 2)
    return all.empty() ? nothing() : all.front();
  const bool may_be_empty = std::any_of(
      all.begin(), all.end(), [&](part one) { return nodes_[std::size_t(one)].may_be_empty; });
  const auto begin = std::int32_t(choices_.size());
  choices_.insert(choices_.end(), all.begin(), all.end());
  return made({.is = kind::either,
               .may_be_empty = may_be_empty,
               .first = begin,
               .second = std::int32_t(all.size())});
}

constraint_grammar::part constraint_grammar::repeat(part what,
                                                    std::int32_t least,
                                                    std::int32_t most) {
  // Iterations of a repetition are not empty, so the machine always gets on.
  if (nodes_[std::size_t(what)].may_be_empty) {
    what = without_empty(what);
    least = 0;
  }
  if (most < least)
    return nothing();
  if (most == 0 || (what == nothing() && least == 0))
    return empty();
  if (what == nothing() || (least == 1 && most == 1))
    return what;
  return made({.is = kind::repeat,
               .may_be_empty = least == 0,
               .first = what,
               .second = 0,
               .least = least,
               .most = most});
}

constraint_grammar::part constraint_grammar::without_empty(part what) {
  // A chain of sequences, whose length is not bounded, is walked without recursion.
  std::vector<part> chain;
  while (nodes_[std::size_t(what)].is == kind::sequence && nodes_[std::size_t(what)].may_be_empty) {
    chain.push_back(what);
    what = nodes_[std::size_t(what)].second;
  }
  auto out = what;
  const auto last = nodes_[std::size_t(what)];
  if (last.may_be_empty && last.is == kind::empty) {
    out = nothing();
  } else if (last.may_be_empty && last.is == kind::either) {
    std::vector<part> all;
    for (std::int32_t i = 0; i < last.second; ++i)
      all.push_back(without_empty(choices_[std::size_t(last.first + i)]));
    out = either(std::move(all));
  } else if (last.may_be_empty) {  // a repetition
    out = sequence(last.first,
                   repeat(last.first, 0, last.most == unlimited ? unlimited : last.most - 1));
  }
  for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
    const auto is = nodes_[std::size_t(*one)];
    out = either({sequence(without_empty(is.first), is.second), out});
  }
  return out;
}

constraint_grammar::part constraint_grammar::between(std::string_view first,
                                                     std::string_view last,
                                                     int lowest,
                                                     int highest) {
  if (first.empty())
    return empty();
  int low = std::uint8_t(first.front()), high = std::uint8_t(last.front());
  first.remove_prefix(1);
  last.remove_prefix(1);
  const auto one = [&](int byte) { return bytes(byte_range(byte, byte)); };
  if (low == high)
    return sequence(one(low), between(first, last, lowest, highest));
  const std::string lows(first.size(), char(lowest)), highs(first.size(), char(highest));
  std::vector<part> all;
  if (first != lows)
    all.push_back(sequence(one(low++), between(first, highs, lowest, highest)));
  if (last != highs)
    all.push_back(sequence(one(high--), between(lows, last, lowest, highest)));
  if (low <= high) {
    const auto size = std::int32_t(first.size());
    all.push_back(sequence(bytes(byte_range(low, high)),
                           repeat(bytes(byte_range(lowest, highest)), size, size)));
  }
  return either(std::move(all));
}

constraint_grammar::part constraint_grammar::rule() {
  // Its second number makes it unique.
  return made({.is = kind::rule, .first = nothing(), .second = std::int32_t(nodes_.size())});
}

void constraint_grammar::define(part rule, part body) {
  ensure(!nodes_[std::size_t(body)].may_be_empty, "GRAMMAR-1: a rule has no empty text");
  nodes_[std::size_t(rule)].first = body;
}

}  // namespace troupe::runtime
