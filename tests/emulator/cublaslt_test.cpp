// Compares cuBLASLt on the emulated device (cublaslt.hpp) with plain loops in double.

#include "tests/kernels/op_case.hpp"
#include "tests/support/device_tolerance.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace troupe;
using namespace troupe::tests;

namespace {

template <class T>
constexpr cudaDataType type_of = CUDA_R_32F;
template <>
constexpr cudaDataType type_of<__nv_bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType type_of<__half> = CUDA_R_16F;

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) {
  const double h = 1e-5;
  return (gelu(x + h) - gelu(x - h)) / (2 * h);
}

/// One product with its memory and descriptors. A and B have type In, C and D have type Out.
template <class In, class Out>
struct lt_product {
  std::int64_t m, n, k;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float alpha = 1, beta = 0;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  std::int64_t lda = (op_a == CUBLAS_OP_N ? m : k) + 8;
  std::int64_t ldb = (op_b == CUBLAS_OP_N ? k : n) + 8;
  std::int64_t ldc = m + 8;
  std::int64_t ld_aux = (m + 7) / 8 * 8;

  std::vector<In> a = drawn<In>(lda * (op_a == CUBLAS_OP_N ? k : m), 1);
  std::vector<In> b = drawn<In>(ldb * (op_b == CUBLAS_OP_N ? n : k), 2);
  std::vector<Out> c = drawn<Out>(ldc * n, 3);
  std::vector<Out> bias = drawn<Out>(std::max(m, n), 4);
  std::vector<Out> aux = drawn<Out>(ld_aux * n, 5);

  template <class T>
  static std::vector<T> drawn(std::int64_t count, int seed) {
    std::vector<T> to;
    for (const float x : normal<float>(std::size_t(count), std::uint32_t(seed)))
      to.push_back(T(x));
    return to;
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t desc = {};
  cublasLtMatrixLayoutOpaque_t a_is = {}, b_is = {}, c_is = {};
  cublasLtMatmulPreferenceOpaque_t preference = {};
  device_array<In> a_there{a}, b_there{b};
  device_array<Out> c_there{c}, bias_there{bias}, aux_there{aux};
  device_array<std::byte> workspace{1 << 20};

  ~lt_product() { cublasLtDestroy(handle); }

  void describe() {
    cublasLtCreate(&handle);
    cublasLtMatmulDescInit(&desc, compute, CUDA_R_32F);
    const auto set = [&](cublasLtMatmulDescAttributes_t which, const auto& value) {
      if (cublasLtMatmulDescSetAttribute(&desc, which, &value, sizeof value) != 0)
        throw std::runtime_error("an attribute was refused");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t(op_a));
    set(CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t(op_b));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_there.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux_there.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld_aux);
    const auto rows = [](cublasOperation_t op, auto one, auto other) {
      return std::uint64_t(op == CUBLAS_OP_N ? one : other);
    };
    cublasLtMatrixLayoutInit(&a_is, type_of<In>, rows(op_a, m, k), rows(op_a, k, m), lda);
    cublasLtMatrixLayoutInit(&b_is, type_of<In>, rows(op_b, k, n), rows(op_b, n, k), ldb);
    cublasLtMatrixLayoutInit(&c_is, type_of<Out>, std::uint64_t(m), std::uint64_t(n), ldc);
    cublasLtMatmulPreferenceInit(&preference);
    const std::uint64_t most = workspace.size();
    cublasLtMatmulPreferenceSetAttribute(
        &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  }

  std::vector<cublasLtMatmulHeuristicResult_t> candidates(cublasStatus_t* status = nullptr) {
    describe();
    std::vector<cublasLtMatmulHeuristicResult_t> all(8);
    int found = 0;
    const auto got = cublasLtMatmulAlgoGetHeuristic(handle,
                                                    &desc,
                                                    &a_is,
                                                    &b_is,
                                                    &c_is,
                                                    &c_is,
                                                    &preference,
                                                    int(all.size()),
                                                    all.data(),
                                                    &found);
    if (status != nullptr)
      *status = got;
    all.resize(std::size_t(found));
    return all;
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t* algo, std::size_t shift = 0) {
    device_queue queue;
    const auto status = cublasLtMatmul(handle,
                                       &desc,
                                       &alpha,
                                       a_there.data() + shift,
                                       &a_is,
                                       b_there.data(),
                                       &b_is,
                                       &beta,
                                       c_there.data(),
                                       &c_is,
                                       c_there.data(),
                                       &c_is,
                                       algo,
                                       workspace.data(),
                                       workspace.size(),
                                       queue.stream());
    queue.wait();
    return status;
  }

  double a_at(std::int64_t row, std::int64_t i) const {
    return float(a[std::size_t(op_a == CUBLAS_OP_N ? i * lda + row : row * lda + i)]);
  }
  double b_at(std::int64_t i, std::int64_t col) const {
    return float(b[std::size_t(op_b == CUBLAS_OP_N ? col * ldb + i : i * ldb + col)]);
  }

  /// The element with bias, before the epilogue's function.
  double inner(std::int64_t row, std::int64_t col) const {
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i)
      sum += a_at(row, i) * b_at(i, col);
    sum = alpha * sum + (beta != 0 ? beta * float(c[std::size_t(col * ldc + row)]) : 0);
    return sum + ((epilogue & 4) != 0 ? float(bias[std::size_t(row)]) : 0);
  }

  double expected(std::int64_t row, std::int64_t col) const {
    const double x = inner(row, col);
    if ((epilogue & 32) != 0)
      return gelu(x);
    return (epilogue & 64) != 0 ? x * gelu_slope(float(aux[std::size_t(col * ld_aux + row)])) : x;
  }
};

/// The largest error of a matrix, relative to its largest element.
template <class T, class Expected>
double matrix_error(
    const std::vector<T>& got, std::int64_t ld, std::int64_t m, std::int64_t n, Expected expected) {
  double largest = 0, error = 0;
  for (std::int64_t col = 0; col < n; ++col)
    for (std::int64_t row = 0; row < m; ++row) {
      const double right = expected(row, col);
      largest = std::max(largest, std::abs(right));
      const double off = std::abs(right - double(float(got[std::size_t(col * ld + row)])));
      error = off < error ? error : off;  // keeps NaN
    }
  return error / largest;
}

// One rounding of the result is 2^-9 of the largest element in bf16 and 2^-12 in fp16. Errors of
// sums of k < 100 products in fp32 are far below both, and below 1e-5.
template <class T>
constexpr double tolerance = 1e-5;
template <>
constexpr double tolerance<__nv_bfloat16> = 0x1p-8;
template <>
constexpr double tolerance<__half> = 0x1p-11;

template <class In, class Out>
void check_everything() {
  const auto [op_a, op_b] = GENERATE(std::pair(CUBLAS_OP_N, CUBLAS_OP_N),
                                     std::pair(CUBLAS_OP_T, CUBLAS_OP_N),
                                     std::pair(CUBLAS_OP_N, CUBLAS_OP_T),
                                     std::pair(CUBLAS_OP_T, CUBLAS_OP_T));
  const auto epilogue = GENERATE(CUBLASLT_EPILOGUE_DEFAULT,
                                 CUBLASLT_EPILOGUE_BIAS,
                                 CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                 CUBLASLT_EPILOGUE_DGELU);
  lt_product<In, Out> p{.m = 24,
                        .n = 13,
                        .k = 61,
                        .op_a = op_a,
                        .op_b = op_b,
                        .epilogue = epilogue,
                        .alpha = 0.5F,
                        .beta = 2.0F};
  p.describe();
  REQUIRE(p.run(nullptr) == CUBLAS_STATUS_SUCCESS);
  const auto d = p.c_there.download();
  CHECK(matrix_error(d, p.ldc, p.m, p.n, [&](auto r, auto c) { return p.expected(r, c); })
        < tolerance<Out>);
  CHECK(float(d[std::size_t(p.m)]) == float(p.c[std::size_t(p.m)]));  // between the columns
  if ((epilogue & 32) != 0)
    CHECK(matrix_error(p.aux_there.download(),
                       p.ld_aux,
                       p.m,
                       p.n,
                       [&](auto r, auto c) { return p.inner(r, c); })
          < tolerance<Out>);
}

}  // namespace

TEST_CASE("cuBLASLt multiplies fp32 correctly with each operation and epilogue") {
  check_everything<float, float>();
}
TEST_CASE("cuBLASLt multiplies bf16 correctly with each operation and epilogue") {
  check_everything<__nv_bfloat16, __nv_bfloat16>();
}
TEST_CASE("cuBLASLt multiplies fp16 correctly with each operation and epilogue") {
  check_everything<__half, __half>();
}
TEST_CASE("cuBLASLt multiplies bf16 into fp32 correctly with each operation and epilogue") {
  check_everything<__nv_bfloat16, float>();
}

TEST_CASE("the three algorithms give correct, reproducible and different bits") {
  std::vector<std::vector<float>> bits;
  lt_product<float, float> p{.m = 32, .n = 16, .k = 96};
  auto all = p.candidates();
  REQUIRE(all.size() == 4);
  CHECK(std::ranges::equal(all[3].algo.data, all[0].algo.data));  // the library may repeat itself
  all.pop_back();
  for (const auto& one : all) {
    for (int again = 0; again < 2; ++again) {
      REQUIRE(p.run(&one.algo) == CUBLAS_STATUS_SUCCESS);
      bits.push_back(p.c_there.download());
    }
    CHECK(bits.back() == bits[bits.size() - 2]);
    CHECK(
        matrix_error(bits.back(), p.ldc, p.m, p.n, [&](auto r, auto c) { return p.expected(r, c); })
        < 1e-5);
  }
  CHECK(bits[0] != bits[2]);
  CHECK(bits[0] != bits[4]);
  CHECK(bits[2] != bits[4]);
}

TEST_CASE("misaligned columns and pointers exclude the algorithms that need alignment") {
  lt_product<float, float> odd{.m = 5, .n = 3, .k = 7};
  const auto all = odd.candidates();
  REQUIRE(all.size() == 1);
  CHECK(odd.run(&all[0].algo) == CUBLAS_STATUS_SUCCESS);
  lt_product<float, float> even{.m = 8, .n = 3, .k = 8};
  const auto fast = even.candidates();
  REQUIRE(fast.size() == 4);
  CHECK(even.run(&fast[0].algo, 1) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("TF32 rounds the inputs to 10 bits of fraction") {
  lt_product<float, float> p{.m = 1, .n = 1, .k = 1, .compute = CUBLAS_COMPUTE_32F_FAST_TF32};
  p.a_there.upload(std::vector<float>(p.a.size(), 1.0F + 0x1p-11F + 0x1p-20F));
  p.b_there.upload(std::vector<float>(p.b.size(), 1.0F));
  p.describe();
  REQUIRE(p.run(nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(p.c_there.download().front() == 1.0F + 0x1p-10F);
}

TEST_CASE("cuBLASLt refuses unsupported types and invalid arguments") {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  lt_product<__half, __nv_bfloat16> mixed{.m = 8, .n = 8, .k = 8};
  CHECK(mixed.candidates(&status).empty());
  CHECK(status == CUBLAS_STATUS_NOT_SUPPORTED);
  lt_product<float, float> aux{
      .m = 12, .n = 8, .k = 8, .epilogue = CUBLASLT_EPILOGUE_GELU_AUX, .ld_aux = 12};
  CHECK(aux.candidates(&status).empty());
  CHECK(status == CUBLAS_STATUS_INVALID_VALUE);
  lt_product<float, float> shapes{.m = 8, .n = 8, .k = 8, .ldc = 7};
  CHECK(shapes.candidates(&status).empty());
  CHECK(status == CUBLAS_STATUS_INVALID_VALUE);
  lt_product<float, float> foreign{.m = 8, .n = 8, .k = 8};
  auto given = foreign.candidates();
  given[0].algo.data[0] = 7;
  CHECK(foreign.run(&given[0].algo) == CUBLAS_STATUS_INVALID_VALUE);
}

namespace {

/// Makes products sum as tensor cores do during its lifetime.
class coarse {
 public:
  coarse() { emulator::set_coarse(true); }
  ~coarse() { emulator::set_coarse(false); }
  coarse(const coarse&) = delete;
  coarse& operator=(const coarse&) = delete;
};

/// The worst error of sums of products in bf16, in roundings of float relative to the largest.
struct worst_sum {
  double away = 0;
  bool beyond = false;  ///< a sum is farther from zero than the exact one
};

worst_sum worst_of_sums(std::int64_t k, signs of_terms) {
  lt_product<__nv_bfloat16, float> p{
      .m = 16, .n = 8, .k = k, .op_a = CUBLAS_OP_T, .lda = k, .ldb = k};
  if (of_terms == signs::one) {
    for (auto* const factor : {&p.a, &p.b})
      for (auto& x : *factor)
        x = __nv_bfloat16(std::abs(float(x)));
    p.a_there.upload(p.a);
    p.b_there.upload(p.b);
  }
  const auto all = p.candidates();
  REQUIRE(p.run(&all.front().algo) == CUBLAS_STATUS_SUCCESS);
  const auto got = p.c_there.download();
  worst_sum out;
  for (std::int64_t col = 0; col < p.n; ++col)
    for (std::int64_t row = 0; row < p.m; ++row)
      out.beyond = out.beyond || double(got[std::size_t(col * p.ldc + row)]) > p.expected(row, col);
  out.away = matrix_error(got, p.ldc, p.m, p.n, [&](auto r, auto c) { return p.expected(r, c); })
             / rounding_of_floats;
  return out;
}

}  // namespace

TEST_CASE("sums of one sign on tensor cores lose more than rounded sums") {
  constexpr std::int64_t k = 4096;
  CHECK(worst_of_sums(k, signs::one).away < roundings_of_sum(k));
  const coarse as_a_device;
  const auto worst = worst_of_sums(k, signs::one);
  CHECK(worst.away > 2 * roundings_of_sum(k));
  CHECK(worst.away < roundings_on_tensor_cores(k, signs::one));
  CHECK(!worst.beyond);
}

TEST_CASE("sums of both signs on tensor cores lose more than rounded sums, within the tolerance") {
  for (const std::int64_t k : {64, 520, 4096}) {
    const double rounded = worst_of_sums(k, signs::both).away;
    const coarse as_a_device;
    const double cut_off = worst_of_sums(k, signs::both).away;
    CHECK(cut_off > rounded);
    CHECK(cut_off < roundings_on_tensor_cores(k));
  }
}

TEST_CASE("coarse mode changes TF32 products and leaves fp32 products exact") {
  lt_product<float, float> p{.m = 16, .n = 8, .k = 520};
  const auto sums = [&](cublasComputeType_t compute) {
    p.compute = compute;
    cublasLtDestroy(p.handle);
    const auto all = p.candidates();
    REQUIRE(p.run(&all.front().algo) == CUBLAS_STATUS_SUCCESS);
    return p.c_there.download();
  };
  const auto exact = sums(CUBLAS_COMPUTE_32F), rounded = sums(CUBLAS_COMPUTE_32F_FAST_TF32);
  const coarse as_a_device;
  CHECK(sums(CUBLAS_COMPUTE_32F) == exact);
  CHECK(sums(CUBLAS_COMPUTE_32F_FAST_TF32) != rounded);
}

TEST_CASE("in coarse mode GELU has the error of tanh.approx and no larger one") {
  lt_product<float, float> p{.m = 64, .n = 16, .k = 8, .epilogue = CUBLASLT_EPILOGUE_GELU};
  const auto error = [&] {
    cublasLtDestroy(p.handle);
    p.describe();
    REQUIRE(p.run(nullptr) == CUBLAS_STATUS_SUCCESS);
    double worst = 0;
    const auto got = p.c_there.download();
    for (std::int64_t col = 0; col < p.n; ++col)
      for (std::int64_t row = 0; row < p.m; ++row)
        worst
            = std::max(worst,
                       std::abs(double(got[std::size_t(col * p.ldc + row)]) - p.expected(row, col))
                           / std::max(1.0, std::abs(p.inner(row, col))));
    return worst;
  };
  CHECK(error() < 1e-5);
  const coarse as_a_device;
  CHECK(error() > 0.25 * tanh_errors_of_gelu * error_of_tanh);
  CHECK(error() < 1.01 * tanh_errors_of_gelu * error_of_tanh);
}
