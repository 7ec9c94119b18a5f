#include "kernels/cuda/product.hpp"

#include "kernels/cuda/product_rows.hpp"
#include "kernels/cuda/run.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>

namespace troupe::kernels::cuda {

namespace {

template <class T>
constexpr product_type type_of = std::is_same_v<T, bf16>  ? product_type::bf16
                                 : std::is_same_v<T, f16> ? product_type::f16
                                                          : product_type::f32;

/// Whether to use cuBLASLt's GELU epilogue, which is the tanh form. It needs rows of z of a
/// multiple of 8 elements, aligned to 16 bytes. The other operands need the same, because few
/// algorithms for odd rows have the epilogue. It is not used in fp32, the reference for the 16-bit
/// types: the accuracy of its tanh is not documented.
template <class T>
bool fuses(epilogue activation, std::int64_t N, std::int64_t K, bool aligned) {
  return !std::is_same_v<T, float> && activation == epilogue::gelu_tanh && N % 8 == 0 && K % 8 == 0
         && aligned && N > 0 && K > 0;
}

/// A product without epilogue, which must succeed.
void multiply_plainly(const product_key& key, const product_operands& at, const context& in) {
  if (!multiply(key, at, in))
    throw std::logic_error("a matrix product without an epilogue was not done, and not refused");
}

/// A product as it is passed to the library.
struct asked_product {
  product_key key;
  product_operands at;
};

/// Alternatives: each is used only if those before it are impossible.
using product_choices = std::initializer_list<std::optional<asked_product>>;

bool may_be_measured(product_choices in_order) {
  for (const auto& one : in_order) {
    const auto standing = one ? standing_of(one->key, one->at) : product_standing::impossible;
    if (standing != product_standing::impossible)
      return standing == product_standing::open;
  }
  return false;
}

/// Scratch of a product; `result` bytes are for trials of products that add.
std::size_t product_scratch(std::int64_t R,
                            std::int64_t N,
                            std::int64_t K,
                            product_choices in_order,
                            std::size_t result = 0) {
  if (R == 0 || N == 0 || K == 0)
    return 0;
  const std::size_t always = product_workspace + product_workspace_alignment;
  return may_be_measured(in_order) ? always + result + cold_bytes() : always;
}

template <class T>
void copy(T* to, const T* from, std::int64_t n, const context& in) {
  check(
      cudaMemcpyAsync(to, from, sizeof(T) * std::size_t(n), cudaMemcpyDeviceToDevice, queue_of(in)),
      "copying the result of a matrix product");
}

/// y (and z) with the library's GELU.
template <class T>
std::optional<asked_product> fused(const linear_forward<T>& op) {
  const bool aligned = all_aligned(op.y, op.z, op.x, op.weight, op.bias);
  if (!fuses<T>(op.activation, op.N, op.K, aligned))
    return std::nullopt;
  return asked_product{{.role = product_role::forward,
                        .type = type_of<T>,
                        .epilogue = product_epilogue::gelu,
                        .biased = op.bias != nullptr,
                        .kept = op.z != nullptr,
                        .R = op.R,
                        .N = op.N,
                        .K = op.K},
                       {.a = op.weight, .b = op.x, .d = op.y, .bias = op.bias, .z = op.z}};
}

/// Destination of the product without GELU.
template <class T>
T* unfused_result(const linear_forward<T>& op) {
  return op.z ? op.z : op.y;
}

template <class T>
asked_product plain(const linear_forward<T>& op) {
  return {{.role = product_role::forward, .type = type_of<T>, .R = op.R, .N = op.N, .K = op.K},
          {.a = op.weight, .b = op.x, .d = unfused_result(op)}};
}

template <class T>
std::optional<asked_product> biased(const linear_forward<T>& op) {
  if (!library_adds_bias(op.bias, op.N))
    return std::nullopt;
  auto out = plain(op);
  out.key.biased = true;
  out.at.bias = op.bias;
  return out;
}

bool multiply(const std::optional<asked_product>& asked, const context& in) {
  return asked && multiply(asked->key, asked->at, in);
}

/// The product plus its bias, if any.
template <class T>
void multiply_biased(const linear_forward<T>& op, const context& in) {
  if (multiply(biased(op), in))
    return;
  const auto asked = plain(op);
  multiply_plainly(asked.key, asked.at, in);
  if (op.bias)
    add_rows(unfused_result(op), op.bias, op.R, op.N, in);
}

template <class T>
void run_op(const linear_forward<T>& op, const context& in) {
  if (op.R == 0 || op.N == 0 || multiply(fused(op), in))
    return;
  T* const z = unfused_result(op);
  if (op.K == 0)
    fill_rows(z, op.bias, op.R, op.N, in);
  else
    multiply_biased(op, in);
  if (op.activation != epilogue::none)
    run(activation_forward<T>{op.y, z, op.R, op.N, activation_of(op.activation)}, in);
  else if (z != op.y)
    copy(op.y, z, op.R * op.N, in);
}

template <class T>
asked_product plain(const linear_backward_input<T>& op) {
  return {
      {.role = product_role::backward_input, .type = type_of<T>, .R = op.R, .N = op.N, .K = op.K},
      {.a = op.weight, .b = op.dz, .d = op.dx}};
}

template <class T>
std::optional<asked_product> fused(const linear_backward_input<T>& op) {
  const bool aligned = all_aligned(op.dx, op.dz, op.weight, op.z);
  if (!fuses<T>(op.activation, op.N, op.K, aligned))
    return std::nullopt;
  auto out = plain(op);
  out.key.epilogue = product_epilogue::gelu_gradient;
  out.at.z = op.z;
  return out;
}

template <class T>
void run_op(const linear_backward_input<T>& op, const context& in) {
  if (op.R == 0 || op.K == 0 || multiply(fused(op), in))
    return;
  if (op.N == 0)
    return fill_rows<T>(op.dx, nullptr, op.R, op.K, in);
  const auto asked = plain(op);
  multiply_plainly(asked.key, asked.at, in);
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
  return {.a = op.x, .b = op.dz, .d = op.dweight, .adds = op.accumulates};
}

template <class T>
void run_op(const linear_backward_weight<T>& op, const context& in) {
  if (op.N == 0)
    return;
  if (op.R > 0 && op.K > 0)
    multiply_plainly(key_of(op), operands_of(op), in);
  else if (!op.accumulates)
    fill_rows<float>(op.dweight, nullptr, op.N, op.K, in);
  if (op.dbias)
    run(bias_backward<T>{op.dbias, op.dz, op.R, op.N, op.bias_accumulates}, in);
}

}  // namespace

template <class T>
std::size_t scratch(const linear_forward<T>& op) {
  return product_scratch(op.R, op.N, op.K, {fused(op), biased(op), plain(op)});
}
template <class T>
std::size_t scratch(const linear_backward_input<T>& op) {
  return product_scratch(op.R, op.N, op.K, {fused(op), plain(op)});
}
template <class T>
std::size_t scratch(const linear_backward_weight<T>& op) {
  // Trials need their own result memory: they must not change the sums.
  const std::size_t product
      = product_scratch(op.R,
                        op.N,
                        op.K,
                        {asked_product{key_of(op), operands_of(op)}},
                        std::min(most_trial_bytes, sizeof(float) * std::size_t(op.N * op.K)));
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
