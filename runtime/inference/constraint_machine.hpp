// Recognises the texts of a grammar, byte by byte.
//
// A place in a grammar is a stack of parts that must follow, next one on top; counts of repetitions
// are on the stack, so large bounds take no memory. A state is a set of places. States and their
// transitions are made when they are first reached and then kept: a lazy automaton, whose states
// are finitely many if the grammar has no recursion.
//
// A stack has a bounded height, so nesting is bounded. A place is left out if its part needs a
// higher stack to end. So each state can be completed to a text.

#pragma once

#include "runtime/inference/constraint_grammar.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

namespace troupe::runtime {

/// One thread.
class constraint_machine {
 public:
  using state = std::int32_t;
  static constexpr state dead = -1;  ///< no text goes on so
  /// The highest stack. JSON needs up to 5 parts for each level of nesting.
  static constexpr std::int32_t highest = 320;

  /// Throws input_error if the grammar has no text from `start`.
  constraint_machine(constraint_grammar grammar, constraint_grammar::part start);

  state start() const { return 0; }
  /// Throws input_error if a state needs too many places.
  state next(state from, std::uint8_t byte);
  bool may_end(state at) const { return may_end_[std::size_t(at)]; }
  /// True if the text is complete and no byte may follow.
  bool must_end(state at) const { return may_end(at) && places(at).size() == 1; }

  std::size_t states() const { return may_end_.size(); }
  std::size_t bytes() const;                    ///< memory of states, about
  std::uint64_t work() const { return work_; }  ///< places looked at so far, which takes time
  /// Forgets all states but the start.
  void forget();

 private:
  struct stack {
    constraint_grammar::part top = 0;
    std::int32_t count = 0;  ///< iterations of a repetition so far, up to its least
    std::int32_t below = -1;
    std::int32_t height = 0;
  };
  struct stack_hash {
    std::size_t operator()(const std::array<std::int32_t, 3>& x) const;
  };
  void measure();
  void classify();
  void open(std::int32_t below, constraint_grammar::part top);
  void push(std::int32_t below, constraint_grammar::part top, std::int32_t count = 0);
  void expand(std::int32_t at);
  state closed();
  std::span<const std::int32_t> places(state at) const;

  constraint_grammar grammar_;
  constraint_grammar::part start_;
  std::vector<std::int32_t> need_;  ///< by part: the lowest height that ends it
  std::array<std::uint8_t, 256> class_of_{};
  std::vector<std::uint8_t> byte_of_;  ///< by class: one of its bytes

  std::vector<stack> stacks_;
  std::unordered_map<std::array<std::int32_t, 3>, std::int32_t, stack_hash> stack_numbers_;
  std::map<std::vector<std::int32_t>, state> state_numbers_;
  std::vector<const std::vector<std::int32_t>*> places_;  ///< by state; 0: the end of the text
  std::vector<bool> may_end_;
  std::vector<state> next_;  ///< by state and class
  std::size_t place_count_ = 0;
  std::uint64_t work_ = 0;

  // The state that is being made:
  std::vector<std::int32_t> open_, found_;
  std::vector<std::uint32_t> seen_;  ///< by stack: the last state that reached it
  std::uint32_t turn_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace troupe::runtime
