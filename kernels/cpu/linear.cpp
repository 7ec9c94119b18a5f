#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void add_to_rows(T* y, const T* bias, std::int64_t rows, std::int64_t N) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = y + r * N;
    each(N, [=](std::int64_t c, auto step) HWY_ATTR {
      step.store(hn::Add(step.load(row + c), step.load(bias + c)), row + c);
    });
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(add_to_rows);

// True if the product adds the bias and rounds once; false for float by oneDNN. With tiles the
// product applies the activation, too.
template <class T>
bool adds_bias(const product<T>& p) {
  return !std::is_same_v<T, float> || in_tiles(p);
}

// True without tiles for few rows, or if their number must not matter.
template <class T>
bool by_vectors(const product<T>& p) {
  return (p.M <= most_few_rows || p.row_invariant) && !in_tiles(p);
}

template <class T>
product<T> product_of(const linear_forward<T>& op) {
  product<T> out{{op.x, op.K}, {op.weight, op.K, true}, op.R, op.N, op.K};
  out.rounded = op.z ? op.z : op.y;
  out.row_invariant = op.row_invariant;
  if (adds_bias(out))
    out.bias = op.bias;
  if (in_tiles(out) && op.activation != epilogue::none) {
    out.rounded = op.z;
    out.activation = op.activation;
    out.activated = op.y;
  }
  return out;
}
template <class T>
product<T> product_of(const linear_backward_input<T>& op) {
  product<T> out{{op.dz, op.N}, {op.weight, op.K}, op.R, op.K, op.N};
  out.rounded = op.dx;
  if (in_tiles(out) && op.activation != epilogue::none) {
    out.activation = op.activation;
    out.slope_at = op.z;
  }
  return out;
}
template <class T>
product<T> product_of(const linear_backward_weight<T>& op) {
  return {.a = {op.dz, op.N, true},
          .b = {op.x, op.K},
          .M = op.N,
          .N = op.K,
          .K = op.R,
          .c = op.dweight,
          .accumulated = op.accumulates};
}

}  // namespace

template <class T>
void run(const linear_forward<T>& op, const context& in) {
  if (op.R == 0)
    return;
  T* const z = op.z ? op.z : op.y;
  const product<T> all = product_of(op);
  const bool few = by_vectors(all);
  if (few)
    multiply_few_rows(op, z, in);
  else
    multiply(all, in);
  if (!few && in_tiles(all) && (op.activation != epilogue::none || z == op.y))
    return;
  const bool added = few || adds_bias(all);
  const T* const bias = added ? nullptr : op.bias;
  if (!bias && z == op.y && op.activation == epilogue::none)
    return;
  // Processes a few rows at a time, so that the activation reads them from cache.
  const std::int64_t rows = rows_worth_a_thread(op.N);
  split(in.threads, op.R, rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; r += rows) {
      const std::int64_t n = std::min(rows, end - r), at = r * op.N;
      if (bias)
        TROUPE_DISPATCH(add_to_rows, T)(z + at, bias, n, op.N);
      if (op.activation != epilogue::none)
        run(activation_forward<T>{op.y + at, z + at, n, op.N, activation_of(op.activation)},
            context{});
      else if (z != op.y)
        std::copy_n(z + at, n * op.N, op.y + at);
    }
  });
}

template <class T>
void run(const linear_backward_input<T>& op, const context& in) {
  if (op.R == 0)
    return;
  const product<T> all = product_of(op);
  multiply(all, in);
  if (op.activation != epilogue::none && !in_tiles(all))
    run(activation_backward<T>{op.dx, op.dx, op.z, op.R, op.K, activation_of(op.activation)}, in);
}

template <class T>
void run(const linear_backward_weight<T>& op, const context& in) {
  if (op.R > 0)
    multiply(product_of(op), in);
  else if (!op.accumulates)
    std::fill_n(op.dweight, op.N * op.K, 0);
  if (op.dbias)
    run(bias_backward<T>{op.dbias, op.dz, op.R, op.N, op.bias_accumulates}, in);
}

template <class T>
std::size_t scratch(const linear_forward<T>& op, int threads) {
  if (op.R == 0)
    return 0;
  const product<T> all = product_of(op);
  return by_vectors(all) ? few_rows_scratch<T>(op.R, op.K) : scratch(all, threads);
}
template <class T>
std::size_t scratch(const linear_backward_input<T>& op, int threads) {
  return op.R > 0 ? scratch(product_of(op), threads) : 0;
}
template <class T>
std::size_t scratch(const linear_backward_weight<T>& op, int threads) {
  return op.R > 0 ? scratch(product_of(op), threads) : 0;
}

template std::size_t scratch(const linear_forward<float>&, int);
template std::size_t scratch(const linear_forward<bf16>&, int);
template std::size_t scratch(const linear_forward<f16>&, int);
template void run(const linear_forward<float>&, const context&);
template void run(const linear_forward<bf16>&, const context&);
template void run(const linear_forward<f16>&, const context&);
template std::size_t scratch(const linear_backward_input<float>&, int);
template std::size_t scratch(const linear_backward_input<bf16>&, int);
template std::size_t scratch(const linear_backward_input<f16>&, int);
template void run(const linear_backward_input<float>&, const context&);
template void run(const linear_backward_input<bf16>&, const context&);
template void run(const linear_backward_input<f16>&, const context&);
template std::size_t scratch(const linear_backward_weight<float>&, int);
template std::size_t scratch(const linear_backward_weight<bf16>&, int);
template std::size_t scratch(const linear_backward_weight<f16>&, int);
template void run(const linear_backward_weight<float>&, const context&);
template void run(const linear_backward_weight<bf16>&, const context&);
template void run(const linear_backward_weight<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
