// Cases of the operation tester: an operation's arguments, made from a shape, in any type and
// memory.
//
// Each file in cases/ has the cases of one family and ends in a function that every_case.cpp calls.
// To add an operation, add its cases there. op_tester_test.cpp fails if an operation has no case.

#pragma once

#include "kernels/op/every_op.hpp"
#include "tests/kernels/arrays.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

/// An operation with its arguments, which it keeps alive.
struct made_operation {
  std::shared_ptr<const void> arguments;
  kernels::operation op;
};

/// Makes an operation in a given type, and registers its arrays.
struct op_maker {
  kernels::operation_name name = kernels::operation_name::unknown;
  std::function<made_operation(kernels::element_type, arrays&)> make;
};

template <template <class> class Op, class T>
constexpr kernels::operation_name name_of_op(const Op<T>*) {
  return kernels::name_of<Op>;
}

/// `make(t, arrays)` returns an operation of t's type.
template <class Make>
op_maker makes(Make make) {
  using in_float = decltype(make(float(), std::declval<arrays&>()));
  constexpr auto name = name_of_op(static_cast<const in_float*>(nullptr));
  const auto in = [make](auto t, arrays& a) -> made_operation {
    if constexpr (kernels::exists(name, kernels::element_of<decltype(t)>)) {
      using op = decltype(make(t, a));
      const auto kept = std::make_shared<const op>(make(t, a));
      return {kept, kernels::operation(*kept)};
    } else {
      throw std::logic_error("this operation does not exist in the requested type");
    }
  };
  return {name, [in](kernels::element_type type, arrays& a) {
            switch (type) {
              case kernels::element_type::f32:
                return in(float(), a);
              case kernels::element_type::f64:
                return in(double(), a);
              case kernels::element_type::bf16:
                return in(kernels::bf16(), a);
              case kernels::element_type::f16:
                return in(kernels::f16(), a);
            }
            throw std::logic_error("unknown element type");
          }};
}

/// Sums that are accumulated or overwritten.
template <class T>
T* total_of(arrays& a,
            const std::string& name,
            std::int64_t n,
            bool accumulates,
            double units,
            double size = 0) {
  return accumulates ? a.changed<T>(name, normal_numbers(n), units, size)
                     : a.out<T>(name, n, units, size);
}

struct op_case {
  std::string shape;  ///< "swiglu R 3 N 7"
  op_maker op;
  op_maker before
      = {};  ///< an operation that the reference runs first; `op` reads some of its results
  /// Pairs (result, input): the result may overwrite the input. Each pair is tested separately.
  std::vector<std::pair<std::string, std::string>> in_place = {};
  bool bits_of_reference = false;     ///< bits equal the reference's in the same type
  bool same_bits_by_threads = true;   ///< bits do not depend on the thread count
  bool same_bits_by_address = false;  ///< bits do not depend on the alignment of the arrays
  bool large = false;                 ///< too large for the emulated device
  bool on_devices = true;             ///< the cuda backend has it
};

/// A forward pass and the operations that compute its gradients, in double on the reference. Tests
/// each input x that has a result dx; each forward result y has an input dy. An x that is changed
/// in place is input and result; its dx holds dy before and the gradient after.
struct gradient_case {
  std::string shape;
  std::vector<op_maker> forward;
  std::vector<op_maker> backward;
  /// Central differences in double have an error near 1e-9. Statistics stored in float between the
  /// passes add 6e-8, and more with cancellation.
  double tolerance = 1e-8;
  double step = 1e-5;
};

/// Tolerance of results that are float even in the double reference: a rounding error of 2.4e-7 for
/// values below 8, divided by steps of 1/4. The error of differences of order eight is negligible.
inline constexpr double step_of_floats = 0.25, tolerance_of_floats = 3e-6;

struct op_family {
  std::string name;
  std::vector<op_case> cases;
  std::vector<gradient_case> gradients = {};
};

// X(family): a file in cases/ with a function of that name and `_family`.
#define TROUPE_EVERY_FAMILY(X) \
  X(activation)                \
  X(adamw)                     \
  X(attention)                 \
  X(bias)                      \
  X(cross_entropy)             \
  X(dropout)                   \
  X(embedding)                 \
  X(expert_bias)               \
  X(grouped_linear)            \
  X(head_norm)                 \
  X(heads)                     \
  X(jitter)                    \
  X(linear)                    \
  X(masked_loss)               \
  X(momentum)                  \
  X(norm)                      \
  X(permute)                   \
  X(pieces)                    \
  X(relative_bias)             \
  X(rope)                      \
  X(route)                     \
  X(sinkhorn)                  \
  X(sum)

std::vector<op_family> every_family();
op_family family_of_name(const std::string& name);

/// Bound on the rounding errors of a float sum of n terms and a few operations. The errors are a
/// random walk: Higham, Mary: "A New Approach to Probabilistic Rounding Error Analysis", 2019.
inline double roundings_of_sum(std::int64_t n) {
  return 8 + 4 * std::sqrt(double(n));
}
/// This bound if every backend adds in at least eight lanes.
inline double roundings_in_lanes(std::int64_t n) {
  return roundings_of_sum((n + 7) / 8);
}

/// "R 3 N 7"
inline std::string shape_text(std::initializer_list<std::pair<const char*, std::int64_t>> extents) {
  std::string out;
  for (const auto& [name, value] : extents)
    out += (out.empty() ? "" : " ") + std::string(name) + " " + std::to_string(value);
  return out;
}

}  // namespace troupe::tests
