// The argument structs of all operations, and `visit`, which recovers them from a handle.

#pragma once

#include "kernels/op/activation.hpp"
#include "kernels/op/adamw.hpp"
#include "kernels/op/attention.hpp"
#include "kernels/op/bias.hpp"
#include "kernels/op/cast.hpp"
#include "kernels/op/count.hpp"
#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/dropout.hpp"
#include "kernels/op/embedding.hpp"
#include "kernels/op/expert_bias.hpp"
#include "kernels/op/fingerprint.hpp"
#include "kernels/op/grouped_linear.hpp"
#include "kernels/op/head_norm.hpp"
#include "kernels/op/heads.hpp"
#include "kernels/op/jitter.hpp"
#include "kernels/op/linear.hpp"
#include "kernels/op/masked_loss.hpp"
#include "kernels/op/momentum.hpp"
#include "kernels/op/norm.hpp"
#include "kernels/op/permute.hpp"
#include "kernels/op/registry.hpp"
#include "kernels/op/relative_bias.hpp"
#include "kernels/op/rope.hpp"
#include "kernels/op/route.hpp"
#include "kernels/op/sample.hpp"
#include "kernels/op/sinkhorn.hpp"
#include "kernels/op/sum.hpp"

#include <stdexcept>

namespace troupe::kernels {

/// Calls visit(op) with the handle's Op<T>. The return type must be the same for all operations.
template <template <class> class Op, operation_types Types, class Visit>
decltype(auto) visit_typed(const operation& of, Visit& visit) {
  const auto as = [&]<class T>(const T*) -> decltype(auto) {
    return visit(*static_cast<const Op<T>*>(of.arguments));
  };
  if constexpr (exists(Types, element_type::bf16)) {
    if (of.type == element_type::bf16)
      return as(static_cast<const bf16*>(nullptr));
    if (of.type == element_type::f16)
      return as(static_cast<const f16*>(nullptr));
  }
  if constexpr (exists(Types, element_type::f64)) {
    if (of.type == element_type::f32)
      return as(static_cast<const float*>(nullptr));
    if (of.type == element_type::f64)
      return as(static_cast<const double*>(nullptr));
  }
  throw std::logic_error("this operation is not registered in the given element type");
}

template <class Visit>
decltype(auto) visit(const operation& of, Visit&& visit) {
  switch (of.name) {
#define TROUPE_VISIT(op, types, memory) \
  case operation_name::op:              \
    return visit_typed<op, operation_types::types>(of, visit);
    TROUPE_EVERY_OPERATION(TROUPE_VISIT)
#undef TROUPE_VISIT
    case operation_name::unknown:
      break;
  }
  throw std::logic_error("unknown operation");
}

template <class Op>
inline constexpr bool is_double = false;
template <template <class> class Op>
inline constexpr bool is_double<Op<double>> = true;

}  // namespace troupe::kernels
