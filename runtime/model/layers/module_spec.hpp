// A module of a model as a value of any type: attention, a layer, an embedding, a user's own.
//
// A type X becomes a module with two functions that are found beside it:
//
//   add(module_builder&, const X&)       adds parameters and segments; returns nothing, or the
//                                        index of a bias that the caller adds later
//   module_traits traits_of(const X&)    what its surroundings need to know
//
// A module with matrix products has a third one:
//
//   module_flops forward_flops(const X&, std::int64_t T)

#pragma once

#include "runtime/model/layers/module_builder.hpp"

#include <any>
#include <concepts>
#include <type_traits>

namespace troupe::runtime {

struct module_traits {
  std::int64_t width = 0;                           ///< C of the stream that it works on; 0: any
  recompute_module kind = recompute_module::other;  ///< of segments that do not set their own
  /// Named tensors that it reads besides its stream: of the micro-batch, or other streams.
  std::vector<std::string> reads = {};
  /// Parameters of earlier units with which its own share values, once per use: see
  /// parameter_spec::tied_to.
  std::vector<std::string> tied_to = {};
  std::vector<loss_spec> losses = {};  ///< written by each pass of pass_settings::losses
  bool takes_stream = true;            ///< false: it begins the stream, as an embedding does
  bool gives_stream = true;            ///< false: it ends the stream, as a head does
  /// False for a table: its own backward pass does not read the parameters, only that of a unit
  /// tied to it.
  bool reads_backward = true;
  bool host_only = false;  ///< has operations for the CPU alone: jobs on devices refuse it
};

/// Floating-point operations of the matrix products of a forward pass over one sequence, with two
/// per product of two elements. Integers, so that their sums are exact below 2^53.
struct module_flops {
  double parameters = 0;   ///< products of rows and parameters
  double activations = 0;  ///< products of rows and rows, as in attention

  module_flops& operator+=(const module_flops& x) {
    parameters += x.parameters;
    activations += x.activations;
    return *this;
  }
};

template <class X>
module_flops flops_of_module(const X& x, std::int64_t T) {
  if constexpr (requires { forward_flops(x, T); })
    return forward_flops(x, T);
  else
    return {};
}

template <class X>
int add_module(module_builder& to, const X& x) {
  if constexpr (std::is_void_v<decltype(add(to, x))>) {
    add(to, x);
    return no_parameter;
  } else {
    return add(to, x);
  }
}

class module_spec {
 public:
  template <class X>
  requires(!std::same_as<X, module_spec>) module_spec(X x)
      : value_(std::move(x)),
        add_([](module_builder& to, const std::any& of) {
          return add_module(to, std::any_cast<const X&>(of));
        }),
        traits_([](const std::any& of) { return traits_of(std::any_cast<const X&>(of)); }),
        flops_([](const std::any& of, std::int64_t T) {
          return flops_of_module(std::any_cast<const X&>(of), T);
        }) {}

  int add_to(module_builder& to) const { return add_(to, value_); }
  module_traits traits() const { return traits_(value_); }
  /// Operations of the forward pass over one sequence of T rows.
  module_flops flops(std::int64_t T) const { return flops_(value_, T); }

  /// Null for a module of another type.
  template <class X>
  X* get_if() {
    return std::any_cast<X>(&value_);
  }
  template <class X>
  const X* get_if() const {
    return std::any_cast<X>(&value_);
  }

 private:
  std::any value_;
  int (*add_)(module_builder& to, const std::any& of);
  module_traits (*traits_)(const std::any& of);
  module_flops (*flops_)(const std::any& of, std::int64_t T);
};

}  // namespace troupe::runtime
