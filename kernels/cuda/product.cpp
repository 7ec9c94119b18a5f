#include "kernels/cuda/product.hpp"

#include "kernels/cuda/product_rows.hpp"
#include "kernels/cuda/run.hpp"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

template <class T>
constexpr product_type type_of = std::is_same_v<T, bf16>  ? product_type::bf16
                                 : std::is_same_v<T, f16> ? product_type::f16
                                                          : product_type::f32;

/// Whether cuBLASLt's own GELU serves, which is the one by tanh. It stores and reads z only in rows
/// of a multiple of 8 elements, aligned to 16 bytes; everything else is asked for the same, because
/// not every algorithm for odd rows has the epilogue. Not in fp32, which is the judge of the narrow
/// types: what tanh the library takes is not written down.
template <class T>
bool fuses(epilogue activation, std::int64_t N, std::int64_t K, bool aligned) {
  return !std::is_same_v<T, float> && activation == epilogue::gelu_tanh && N % 8 == 0 && K % 8 == 0
         && aligned && N > 0 && K > 0;
}

/// A product that every device can do.
void multiply_plainly(const product_key& key, const product_operands& at, const context& in) {
  if (!multiply(key, at, in))
    throw std::logic_error("a matrix product without an epilogue was not done, and not refused");
}

std::size_t product_scratch(std::int64_t R, std::int64_t N, std::int64_t K) {
  return R > 0 && N > 0 && K > 0 ? product_workspace + product_workspace_alignment : 0;
}

template <class T>
void copy(T* to, const T* from, std::int64_t n, const context& in) {
  check(
      cudaMemcpyAsync(to, from, sizeof(T) * std::size_t(n), cudaMemcpyDeviceToDevice, queue_of(in)),
      "copying the result of a matrix product");
}

/// z or y, by the library's GELU; false where it has none for this product.
template <class T>
bool run_fused(const linear_forward<T>& op, const context& in) {
  const bool aligned = all_aligned(op.y, op.z, op.x, op.weight, op.bias);
  return fuses<T>(op.activation, op.N, op.K, aligned)
         && multiply({.role = product_role::forward,
                      .type = type_of<T>,
                      .epilogue = product_epilogue::gelu,
                      .biased = op.bias != nullptr,
                      .kept = op.z != nullptr,
                      .R = op.R,
                      .N = op.N,
                      .K = op.K},
                     {.a = op.weight, .b = op.x, .d = op.y, .bias = op.bias, .z = op.z},
                     in);
}

/// The product and its bias, where it has one, into z.
template <class T>
void multiply_biased(const linear_forward<T>& op, T* z, const context& in) {
  product_key key{
      .role = product_role::forward, .type = type_of<T>, .R = op.R, .N = op.N, .K = op.K};
  product_operands at{.a = op.weight, .b = op.x, .d = z};
  if (library_adds_bias(op.bias, op.N)) {
    key.biased = true;
    at.bias = op.bias;
    if (multiply(key, at, in))
      return;
    key.biased = false;
    at.bias = nullptr;
  }
  multiply_plainly(key, at, in);
  if (op.bias)
    add_rows(z, op.bias, op.R, op.N, in);
}

template <class T>
void run_op(const linear_forward<T>& op, const context& in) {
  if (op.R == 0 || op.N == 0 || run_fused(op, in))
    return;
  T* const z = op.z ? op.z : op.y;  // where the product goes
  if (op.K == 0)
    fill_rows(z, op.bias, op.R, op.N, in);
  else
    multiply_biased(op, z, in);
  if (op.activation != epilogue::none)
    run(activation_forward<T>{op.y, z, op.R, op.N, activation_of(op.activation)}, in);
  else if (z != op.y)
    copy(op.y, z, op.R * op.N, in);
}

template <class T>
bool run_fused(const linear_backward_input<T>& op, const context& in) {
  const bool aligned = all_aligned(op.dx, op.dz, op.weight, op.z);
  return fuses<T>(op.activation, op.N, op.K, aligned)
         && multiply({.role = product_role::backward_input,
                      .type = type_of<T>,
                      .epilogue = product_epilogue::gelu_gradient,
                      .R = op.R,
                      .N = op.N,
                      .K = op.K},
                     {.a = op.weight, .b = op.dz, .d = op.dx, .z = op.z},
                     in);
}

template <class T>
void run_op(const linear_backward_input<T>& op, const context& in) {
  if (op.R == 0 || op.K == 0 || run_fused(op, in))
    return;
  if (op.N == 0)
    return fill_rows<T>(op.dx, nullptr, op.R, op.K, in);
  multiply_plainly(
      {.role = product_role::backward_input, .type = type_of<T>, .R = op.R, .N = op.N, .K = op.K},
      {.a = op.weight, .b = op.dz, .d = op.dx},
      in);
  if (op.activation != epilogue::none)
    run(activation_backward<T>{op.dx, op.dx, op.z, op.R, op.K, activation_of(op.activation)}, in);
}

template <class T>
product_key key_of(const linear_backward_weight<T>& op) {
  return {
      .role = product_role::backward_weight, .type = type_of<T>, .R = op.R, .N = op.N, .K = op.K};
}

template <class T>
product_operands operands_of(const linear_backward_weight<T>& op) {
  return {.a = op.x, .b = op.dz, .d = op.dweight};
}

template <class T>
void run_op(const linear_backward_weight<T>& op, const context& in) {
  if (!op.accumulates)
    fill_rows<float>(op.dweight, nullptr, op.N, op.K, in);
  if (op.R == 0 || op.N == 0)
    return;
  if (op.K > 0)
    multiply_plainly(key_of(op), operands_of(op), in);
  if (op.dbias)
    run(bias_backward<T>{op.dbias, op.dz, op.R, op.N}, in);
}

}  // namespace

template <class T>
std::size_t scratch(const linear_forward<T>& op) {
  return product_scratch(op.R, op.N, op.K);
}
template <class T>
std::size_t scratch(const linear_backward_input<T>& op) {
  return product_scratch(op.R, op.N, op.K);
}
template <class T>
std::size_t scratch(const linear_backward_weight<T>& op) {
  std::size_t product = product_scratch(op.R, op.N, op.K);
  // Not measured on the sums themselves, nor on memory that a device may not have.
  if (product > 0 && may_be_measured(key_of(op), operands_of(op)))
    product += std::min(most_trial_bytes, sizeof(float) * std::size_t(op.N * op.K));
  if (!op.dbias)
    return product;
  return std::max(product, scratch(bias_backward<T>{op.dbias, op.dz, op.R, op.N}));
}

#define TROUPE_DEFINE(op, T)                       \
  template std::size_t scratch(const op<T>&);      \
  template <>                                      \
  void run(const op<T>& what, const context& in) { \
    run_op(what, in);                              \
  }
#define TROUPE_EVERY(T)                   \
  TROUPE_DEFINE(linear_forward, T)        \
  TROUPE_DEFINE(linear_backward_input, T) \
  TROUPE_DEFINE(linear_backward_weight, T)
TROUPE_EVERY(float)
TROUPE_EVERY(bf16)
TROUPE_EVERY(f16)
#undef TROUPE_EVERY
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
