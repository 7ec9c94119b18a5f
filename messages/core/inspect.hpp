// Makes inspect() and operator== of a message from its members, for CAF and tests.
//
// A message is an aggregate in this namespace. MESSAGE-2: its members are on the wire in the order
// of their declaration. A value of runtime/ in a message is an aggregate too, or has an inspect()
// of its own (shape, exact_sum).
//
// Doubles go as their bits. CAF 0.17 splits them by arithmetic: its loop does not end for infinity,
// and NaN becomes a number. The bytes of all other normal numbers are the same.

#pragma once

#include "runtime/core/members.hpp"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace troupe::messages {

/// Stands for a double during one call of an inspector. Writes to the double only after decoding,
/// so several threads may encode the same message at once.
class double_bits {
 public:
  explicit double_bits(double& at) : at_(at), bits_(std::bit_cast<std::uint64_t>(at)) {}
  double_bits(const double_bits&) = delete;
  double_bits& operator=(const double_bits&) = delete;
  ~double_bits() {
    if (bits_ != std::bit_cast<std::uint64_t>(at_))
      at_ = std::bit_cast<double>(bits_);
  }

  std::uint64_t& operator*() { return bits_; }

 private:
  double& at_;
  std::uint64_t bits_;
};

inline double_bits on_wire(double& member) {
  return double_bits(member);
}
template <class Member>
Member* on_wire(Member& member) {
  static_assert(!std::is_floating_point_v<Member>, "a message has doubles only");
  if constexpr (requires { typename Member::value_type; })
    static_assert(!std::is_floating_point_v<typename Member::value_type>,
                  "a list of doubles needs a struct with one: lists go by CAF's arithmetic");
  return &member;
}

/// NaN does not equal itself.
template <runtime::aggregate Message>
bool operator==(const Message& a, const Message& b) {
  return runtime::with_members(a, [&b](const auto&... of_a) {
    return runtime::with_members(
        b, [&of_a...](const auto&... of_b) { return ((of_a == of_b) && ...); });
  });
}

}  // namespace troupe::messages

namespace troupe::runtime {

// Here CAF finds it for values of runtime/.
template <class Inspector, aggregate Value>
typename Inspector::result_type inspect(Inspector& f, Value& x) {
  return with_members(x, [&f](auto&... members) { return f(*messages::on_wire(members)...); });
}

}  // namespace troupe::runtime

namespace troupe::messages {

using runtime::inspect;

}  // namespace troupe::messages
