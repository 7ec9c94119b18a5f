// What the tester asks an operation: its arguments, made from a shape in any type and memory.
//
// A family's cases are one file of cases/, which ends in a function that every_case.cpp calls. To
// add an operation to a family is to add its cases there; op_tester_test.cpp counts what has none.

#pragma once

#include "kernels/op/every_op.hpp"
#include "tests/kernels/arrays.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

/// An operation with its arguments, which live as long as this.
struct made_operation {
  std::shared_ptr<const void> arguments;
  kernels::operation op;
};

/// Makes an operation in a type that it exists in; its arrays are named and described on the way.
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
      throw std::logic_error("an operation is asked for in a type that it does not exist in");
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
            throw std::logic_error("an operation of no type");
          }};
}

/// Sums that are added to what is there, or written.
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
  op_maker before = {};  ///< the judge runs it first: `op` reads some of its results
  /// Results that may take the place of an input: each a question of its own.
  std::vector<std::pair<std::string, std::string>> in_place = {};
  bool bits_of_reference = false;     ///< the reference's in the same type, bit by bit
  bool same_bits_by_threads = true;   ///< whatever number of threads is asked for
  bool same_bits_by_address = false;  ///< wherever its arrays begin
  bool large = false;                 ///< too much for the emulated device
};

/// Operations of a forward pass and those that make its gradients: of each input x that has a
/// result dx there, with dy for each result y. An x that is changed in place is input and result,
/// and its dx is dy before and the gradient after. In double, by the reference.
struct gradient_case {
  std::string shape;
  std::vector<op_maker> forward;
  std::vector<op_maker> backward;
  /// Central differences in double are right to some 1e-9. Statistics that are kept in float
  /// between the passes cost 6e-8, and more where numbers cancel.
  double tolerance = 1e-8;
  double step = 1e-5;
};

/// Of results that are float even here: their rounding, 2.4e-7 below 8, over steps that are a
/// quarter. Beside it the error of differences of order eight is nothing.
inline constexpr double step_of_floats = 0.25, tolerance_of_floats = 3e-6;

struct op_family {
  std::string name;
  std::vector<op_case> cases;
  std::vector<gradient_case> gradients = {};
};

// X(family): in cases/, as a function of that name and `_family`.
#define TROUPE_EVERY_FAMILY(X) \
  X(activation)                \
  X(adamw)                     \
  X(attention)                 \
  X(bias)                      \
  X(cross_entropy)             \
  X(dropout)                   \
  X(embedding)                 \
  X(head_norm)                 \
  X(linear)                    \
  X(masked_loss)               \
  X(momentum)                  \
  X(norm)                      \
  X(pieces)                    \
  X(rope)                      \
  X(sum)

std::vector<op_family> every_family();
op_family family_of_name(const std::string& name);

/// Rounding errors of a sum of n terms in float, which walk at random (Higham, Mary: "A New
/// Approach to Probabilistic Rounding Error Analysis", 2019), and of the few operations beside it.
inline double roundings_of_sum(std::int64_t n) {
  return 8 + 4 * std::sqrt(double(n));
}
/// The same where every backend adds in at least eight lanes.
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
