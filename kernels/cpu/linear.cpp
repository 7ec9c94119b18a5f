#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <new>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

void add_to_rows(float* y, const float* bias, std::int64_t rows, std::int64_t N) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = y + r * N;
    each(N, [=](std::int64_t c, auto step) HWY_ATTR {
      step.store(hn::Add(step.load(row + c), step.load(bias + c)), row + c);
    });
  }
}

// Sums of 128 rows first: a running sum over all of them would lose small terms.
template <int Vectors, class Step>
HWY_INLINE void sum_column_vectors(
    const float* x, std::int64_t R, std::int64_t N, float* total, Step step) {
  constexpr std::int64_t chunk = 128;
  for (std::int64_t begin = 0; begin < R; begin += chunk) {
    vec part[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      part[v] = hn::Zero(d);
    for (std::int64_t r = begin; r < std::min(R, begin + chunk); ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        part[v] = hn::Add(part[v], step.load(x + r * N + v * width));
    }
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      step.store(hn::Add(step.load(total + v * width), part[v]), total + v * width);
  }
}

void sum_columns(const float* x,
                 std::int64_t R,
                 std::int64_t N,
                 float* total,
                 std::int64_t begin,
                 std::int64_t end) {
  std::int64_t c = begin;
  for (; c + 4 * width <= end; c += 4 * width)
    sum_column_vectors<4>(x + c, R, N, total + c, whole{});
  for (; c + width <= end; c += width)
    sum_column_vectors<1>(x + c, R, N, total + c, whole{});
  if (c < end)
    sum_column_vectors<1>(x + c, R, N, total + c, partial{hn::FirstN(d, std::size_t(end - c))});
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

HWY_EXPORT(add_to_rows);
HWY_EXPORT(sum_columns);

// Multiplications below which waking another thread costs more than it saves (5 microseconds here).
constexpr std::int64_t products_worth_a_thread = 1 << 18;

// oneDNN takes the team of the calling thread as large as OpenMP says, a setting of that thread.
class team {
 public:
  explicit team(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~team() { omp_set_num_threads(before_); }
  team(const team&) = delete;
  team& operator=(const team&) = delete;

 private:
  int before_;
};

/// A matrix in rows, or its transpose.
struct matrix {
  const float* data;
  std::int64_t row;
  bool transposed = false;
};

/// c (M, N) = beta * c + a (M, K) times b (K, N).
void multiply(matrix a,
              matrix b,
              float* c,
              std::int64_t M,
              std::int64_t N,
              std::int64_t K,
              float beta,
              int threads) {
  const std::int64_t worth = M * N * K / products_worth_a_thread;
  const team sized(int(std::clamp<std::int64_t>(worth, 1, threads)));
  const auto status = dnnl_sgemm(a.transposed ? 'T' : 'N',
                                 b.transposed ? 'T' : 'N',
                                 M,
                                 N,
                                 K,
                                 1,
                                 a.data,
                                 a.row,
                                 b.data,
                                 b.row,
                                 beta,
                                 c,
                                 N);
  if (status == dnnl_out_of_memory)
    throw std::bad_alloc();
  if (status != dnnl_success)
    throw std::logic_error("oneDNN refused a product of " + std::to_string(M) + " x "
                           + std::to_string(N) + " x " + std::to_string(K) + ": status "
                           + std::to_string(status));
}

activation of(epilogue e) {
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

}  // namespace

template <>
void run(const linear_forward<float>& op, const context& in) {
  if (op.R == 0)
    return;
  float* const z = op.z ? op.z : op.y;
  multiply({op.x, op.K}, {op.weight, op.K, true}, z, op.R, op.N, op.K, 0, in.threads);
  if (!op.bias && z == op.y && op.activation == epilogue::none)
    return;
  // A few rows at a time, so that they are still near when the activation reads them.
  const std::int64_t rows = rows_worth_a_thread(op.N);
  split(in.threads, op.R, rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; r += rows) {
      const std::int64_t n = std::min(rows, end - r), at = r * op.N;
      if (op.bias)
        HWY_DYNAMIC_DISPATCH(add_to_rows)(z + at, op.bias, n, op.N);
      if (op.activation != epilogue::none)
        run(activation_forward<float>{op.y + at, z + at, n, op.N, of(op.activation)}, context{});
      else if (z != op.y)
        std::copy_n(z + at, n * op.N, op.y + at);
    }
  });
}

template <>
void run(const linear_backward_input<float>& op, const context& in) {
  if (op.R > 0)
    multiply({op.dz, op.N}, {op.weight, op.K}, op.dx, op.R, op.K, op.N, 0, in.threads);
}

template <>
std::size_t scratch(const linear_backward_weight<float>&, int) {
  return 0;
}

template <>
void run(const linear_backward_weight<float>& op, const context& in) {
  if (op.R == 0)
    return;
  multiply({op.dz, op.N, true}, {op.x, op.K}, op.dweight, op.N, op.K, op.R, 1, in.threads);
  if (op.dbias)
    split(in.threads, op.N, 64, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(sum_columns)(op.dz, op.R, op.N, op.dbias, begin, end);
    });
}

}  // namespace troupe::kernels::cpu
#endif
