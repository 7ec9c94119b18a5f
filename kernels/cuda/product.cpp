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

activation matching(epilogue e) {
  switch (e) {
    case epilogue::gelu_erf:
      return activation::gelu_erf;
    case epilogue::squared_relu:
      return activation::squared_relu;
    case epilogue::gelu_tanh:
    case epilogue::none:
      break;
  }
  return activation::gelu_tanh;
}

/// Whether cuBLASLt's own GELU serves, which is the one by tanh. It stores z only in rows of a
/// multiple of 8 elements, aligned to 16 bytes; everything else is asked for the same, because not
/// every algorithm for odd rows has the epilogue. Not in fp32, which is the judge of the narrow
/// types: what tanh the library takes is not written down.
template <class T>
bool fuses(const linear_forward<T>& op) {
  if (std::is_same_v<T, float> || op.activation != epilogue::gelu_tanh)
    return false;
  return op.N % 8 == 0 && op.K % 8 == 0 && all_aligned(op.y, op.z, op.x, op.weight);
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

template <class T>
void run_op(const linear_forward<T>& op, const context& in) {
  if (op.R == 0 || op.N == 0)
    return;
  const bool fused = op.K > 0 && fuses(op);
  T* const z = op.z && !fused ? op.z : op.y;  // where the product goes
  if (op.K == 0) {
    fill_rows(z, op.bias, op.R, op.N, in);
  } else {
    const product_key key{.role = product_role::forward,
                          .type = type_of<T>,
                          .epilogue = fused ? product_epilogue::gelu : product_epilogue::none,
                          .biased = op.bias != nullptr,
                          .kept = fused && op.z,
                          .R = op.R,
                          .N = op.N,
                          .K = op.K};
    multiply(
        key, {.a = op.weight, .b = op.x, .d = z, .bias = op.bias, .z = fused ? op.z : nullptr}, in);
  }
  if (fused)
    return;
  if (op.activation != epilogue::none)
    run(activation_forward<T>{op.y, z, op.R, op.N, matching(op.activation)}, in);
  else if (z != op.y)
    copy(op.y, z, op.R * op.N, in);
}

template <class T>
void run_op(const linear_backward_input<T>& op, const context& in) {
  if (op.R == 0 || op.K == 0)
    return;
  if (op.N == 0)
    return fill_rows<T>(op.dx, nullptr, op.R, op.K, in);
  multiply(
      {.role = product_role::backward_input, .type = type_of<T>, .R = op.R, .N = op.N, .K = op.K},
      {.a = op.weight, .b = op.dz, .d = op.dx},
      in);
}

// The bias by a kernel of ours: cuBLASLt's epilogue for it (BGRADA, BGRADB) overwrites, in the
// type of the result, where this adds to what is there.
template <class T>
void run_op(const linear_backward_weight<T>& op, const context& in) {
  if (op.R == 0 || op.N == 0)
    return;
  if (op.K > 0)
    multiply({.role = product_role::backward_weight,
              .type = type_of<T>,
              .R = op.R,
              .N = op.N,
              .K = op.K},
             {.a = op.x, .b = op.dz, .d = op.dweight},
             in);
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
  const std::size_t product = product_scratch(op.R, op.N, op.K);
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
