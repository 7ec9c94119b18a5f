// CAF's storage of one message, with less code than CAF 0.17.6 compiles for it.
//
// caf::detail::tuple_vals_impl stores any number of values. Its functions (encode, decode, copy,
// print) choose the value by a switch of ten cases, and the compiler makes each case a function for
// each message: half of the program's compilation. This specialization stores the one value that
// all our messages have.

#pragma once

#include <caf/config.hpp>
#include <caf/detail/tuple_vals.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/make_type_erased_value.hpp>
#include <caf/type_id.hpp>

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace troupe::messages {

/// A message of the list in messages/protocol/handles.hpp.
template <class Type>
concept message = std::string_view {
  caf::type_name<Type>::value
}
.starts_with("troupe::messages::");

}  // namespace troupe::messages

// The specialization replaces a part of CAF that other versions do not have.
static_assert(CAF_VERSION == 1706);

namespace caf::detail {

template <class Base, troupe::messages::message Message>
class tuple_vals_impl<Base, Message> : public Base {
 public:
  using super = message_data;
  using data_type = std::tuple<Message>;

  tuple_vals_impl(const tuple_vals_impl&) = default;
  template <class... Fields>
  tuple_vals_impl(Fields&&... fields) : data_(std::forward<Fields>(fields)...) {}

  data_type& data() { return data_; }
  const data_type& data() const { return data_; }

  size_t size() const noexcept override { return 1; }
  const void* get(size_t) const noexcept override { return &std::get<0>(data_); }
  void* get_mutable(size_t) override { return &std::get<0>(data_); }
  /// "run_step": CAF prints messages in its own log only, and simulations in their traces.
  std::string stringify(size_t) const override {
    const std::string_view name = type_name<Message>::value;
    return std::string(name.substr(name.rfind(':') + 1));
  }
  using Base::copy;
  type_erased_value_ptr copy(size_t) const override {
    return make_type_erased_value<Message>(std::get<0>(data_));
  }
  error load(size_t, deserializer& source) override { return source(std::get<0>(data_)); }
  error save(size_t, serializer& sink) const override {
    return sink(const_cast<Message&>(std::get<0>(data_)));
  }
  uint32_t type_token() const noexcept override { return make_type_token<Message>(); }
  rtti_pair type(size_t) const noexcept override { return make_rtti_pair<Message>(); }

 private:
  data_type data_;
};

}  // namespace caf::detail
