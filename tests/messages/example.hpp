// Examples of messages, made from their members.

#pragma once

#include "messages/protocol/actors.hpp"
#include "runtime/core/exact_sum.hpp"
#include "runtime/core/members.hpp"
#include "tests/messages/wire_fixture.hpp"

#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Sets every member to a value that differs from its default and from its neighbours; `extreme`:
/// to the largest number, or an empty list.
class example_maker {
 public:
  example_maker(const wire& w, bool extreme) : wire_(w), extreme_(extreme) {}

  template <class Value>
  void fill(Value& x) {
    if constexpr (runtime::aggregate<Value>)
      runtime::with_members(x, [this](auto&... members) { (this->fill(members), ...); });
    else if constexpr (std::is_same_v<Value, bool>)
      x = !x;
    else if constexpr (std::is_enum_v<Value>)
      x = Value(number<std::underlying_type_t<Value>>());
    else if constexpr (std::is_arithmetic_v<Value>)
      x = number<Value>();
    else
      fill_object(x);
  }

 private:
  template <class Number>
  Number number() {
    if (extreme_)
      return std::numeric_limits<Number>::has_infinity ? std::numeric_limits<Number>::infinity()
                                                       : std::numeric_limits<Number>::max();
    ++made_;
    return std::is_signed_v<Number> ? Number(-made_ - 0.25) : Number(made_);
  }
  void fill_object(std::string& x) { x = "text " + std::to_string(++made_); }
  void fill_object(runtime::exact_sum& x) { x = runtime::exact_sum(number<std::uint32_t>()); }
  void fill_object(runtime::shape& x) { x = {number<std::int64_t>(), number<std::int64_t>()}; }
  template <class... Signature>
  void fill_object(caf::typed_actor<Signature...>& x) {
    x = wire_.handle<caf::typed_actor<Signature...>>();
  }
  template <class First, class Second>
  void fill_object(std::pair<First, Second>& x) {
    fill(x.first);
    fill(x.second);
  }
  template <class Element>
  void fill_object(std::vector<Element>& x) {
    x.resize(extreme_ ? 0 : 2);
    for (auto& element : x)
      fill(element);
  }
  template <class Key, class Element>
  void fill_object(std::map<Key, Element>& x) {
    for (int i = 0; i < (extreme_ ? 0 : 2); ++i) {
      Key key{};
      fill(key);
      fill(x[key]);
    }
  }
  /// Two values of one key.
  template <class Key, class Element>
  void fill_object(std::multimap<Key, Element>& x) {
    Key key{};
    fill(key);
    for (int i = 0; i < (extreme_ ? 0 : 2); ++i)
      fill(x.emplace(key, Element{})->second);
  }

  const wire& wire_;
  bool extreme_;
  int made_ = 0;
};

template <class Message>
Message example(const wire& w, bool extreme = false) {
  Message out{};
  example_maker(w, extreme).fill(out);
  return out;
}

}  // namespace troupe::tests
