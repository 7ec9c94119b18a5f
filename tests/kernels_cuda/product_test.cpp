// Cases beyond the operation tester (op_tester_test.cpp): products by cuBLASLt on the emulated
// device when the library refuses, has no algorithm or measures, and with misaligned arrays. By
// default tests use the library's first proposal, because measuring runs many products.

#include "kernels/backend/backend.hpp"
#include "kernels/cuda/products.hpp"
#include "tests/kernels_cuda/run_product.hpp"
#include "tests/support/device_tolerance.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

using namespace troupe;
using namespace troupe::tests;
using kernels::bf16;
using kernels::epilogue;
using kernels::f16;

namespace {

/// Error of sums of at most 300 products of numbers near 1 in fp32, in any order: 2^-24 per
/// addition, relative to sums near 17. For narrow factors the loss of tensor cores is added.
template <class T>
double noise(std::int64_t products) {
  const double lost = std::is_same_v<T, float> ? 0 : roundings_on_tensor_cores(products);
  return 3e-6 + lost * rounding_of_floats;
}

/// A unit in the last place, relative.
template <class T>
constexpr double rounding = 0;
template <>
constexpr double rounding<bf16> = 1.0 / 256;
template <>
constexpr double rounding<f16> = 1.0 / 2048;

template <class T>
std::string type_text() {
  return std::is_same_v<T, float> ? " fp32 " : std::is_same_v<T, bf16> ? " bf16 " : " fp16 ";
}

template <class T>
std::vector<double> widened(const std::vector<T>& from) {
  return {from.begin(), from.end()};
}

template <class T>
linear_memory<double> judged(const linear_memory<T>& m) {
  linear_memory<double> out{.R = m.R,
                            .N = m.N,
                            .K = m.K,
                            .activation = m.activation,
                            .with_bias = m.with_bias,
                            .made_x = m.made_x,
                            .x = widened(m.x),
                            .weight = widened(m.weight),
                            .bias = widened(m.bias),
                            .dz = widened(m.dz),
                            .z_of_x = widened(m.z_of_x),
                            .dweight = widened(m.dweight),
                            .dbias = widened(m.dbias)};
  kernels::run(kernels::backend::reference, out.forward(), {});
  kernels::run(kernels::backend::reference, out.backward_input(), {});
  kernels::run(kernels::backend::reference, out.backward_weight(), {});
  return out;
}

/// Sets whether products are measured, for its lifetime.
class measuring {
 public:
  explicit measuring(bool is) { kernels::cuda::products::of_process().configure({.measure = is}); }
  ~measuring() { kernels::cuda::products::of_process().configure({}); }
  measuring(const measuring&) = delete;
  measuring& operator=(const measuring&) = delete;
};

/// Device memory of a product; results begin poisoned.
template <class T>
struct linear_on_device {
  using sums = kernels::accumulator<T>;
  const linear_memory<T>& m;
  std::size_t shift = 0;
  device_array<T> x{m.x, shift}, weight{m.weight, shift}, bias{m.bias, shift}, dz{m.dz, shift};
  device_array<T> z_of_x{m.z_of_x, shift};
  device_array<T> y{m.y.size(), shift}, z{m.z.size(), shift}, dx{m.dx.size(), shift};
  device_array<sums> dweight{m.dweight, shift}, dbias{m.dbias, shift};

  linear_memory<T> run() {
    auto mine = m;
    run_product(kernels::linear_forward<T>{.y = y.data(),
                                           .z = m.with_z ? z.data() : nullptr,
                                           .x = x.data(),
                                           .weight = weight.data(),
                                           .bias = m.with_bias ? bias.data() : nullptr,
                                           .R = m.R,
                                           .N = m.N,
                                           .K = m.K,
                                           .activation = m.activation});
    run_product(kernels::linear_backward_input<T>{.dx = dx.data(),
                                                  .dz = dz.data(),
                                                  .weight = weight.data(),
                                                  .R = m.R,
                                                  .N = m.N,
                                                  .K = m.K,
                                                  .activation = m.made_x,
                                                  .z = z_of_x.data()});
    run_product(kernels::linear_backward_weight<T>{.dweight = dweight.data(),
                                                   .dbias = m.with_bias ? dbias.data() : nullptr,
                                                   .dz = dz.data(),
                                                   .x = x.data(),
                                                   .R = m.R,
                                                   .N = m.N,
                                                   .K = m.K});
    mine.y = y.download();
    mine.z = z.download();
    mine.dx = dx.download();
    mine.dweight = dweight.download();
    mine.dbias = dbias.download();
    return mine;
  }
};

template <class T>
linear_memory<T> computed(const linear_memory<T>& m, std::size_t shift = 0) {
  return linear_on_device<T>{m, shift}.run();
}

/// The largest |mine - judge|, relative to the allowed error: `noise` of the largest number, plus
/// `units` roundings of the value and of the numbers in `made_of`.
template <class T>
double worst(const std::vector<T>& mine,
             const std::vector<double>& judge,
             const std::vector<double>& made_of,
             double noise,
             double units) {
  double largest = 1e-30, out = 0;
  for (const double x : made_of)
    largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < judge.size(); ++i) {
    const double allowed
        = noise * largest + units * rounding<T> * (std::abs(judge[i]) + std::abs(made_of[i]));
    const double wrong = std::abs(double(mine[i]) - judge[i]);
    out = std::max(out, std::isfinite(wrong) ? wrong / allowed : 1e30);
  }
  return out;
}

template <class T>
void check(const linear_memory<T>& m,
           std::size_t shift = 0,
           bool measured = false,
           bool refused_bias = false) {
  INFO("R " << m.R << " N " << m.N << " K " << m.K << " epilogue " << int(m.activation) << " bias "
            << m.with_bias << " z " << m.with_z << " shift " << shift);
  const auto judge = judged(m);
  const measuring first(measured);
  const auto mine = computed(m, shift);
  // If a kernel adds the bias, the sum without bias was also rounded.
  const bool by_kernel
      = m.with_bias && (refused_bias || m.N % 8 != 0 || shift * sizeof(T) % 16 != 0);
  const double times = by_kernel ? 2 : 1;
  auto parts = judge.z;
  for (std::size_t i = 0; by_kernel && i < parts.size(); ++i)
    parts[i] = std::abs(parts[i]) + std::abs(judge.bias[i % judge.bias.size()]);
  if (m.with_z)
    CHECK(worst(mine.z, judge.z, parts, noise<T>(m.K), times * 0.51) < 1);
  // GELU's slope is below 1.13. If z is stored, y may be computed from the rounded z.
  const double slope = 1.13;
  CHECK(worst(mine.y,
              judge.y,
              parts,
              noise<T>(m.K),
              times * (m.activation == epilogue::none ? 0.51 : slope))
        < 1);
  // The sum that the slope multiplies may also be rounded.
  auto sums = judge;
  sums.made_x = epilogue::none;
  kernels::run(kernels::backend::reference, sums.backward_input(), {});
  for (double& x : sums.dx)
    x *= m.made_x == epilogue::none ? 1 : slope;
  // The slope uses the tanh of the library.
  const double by_tanh = m.made_x == epilogue::gelu_tanh && rounding<T> > 0
                             ? tanh_errors_of_slope * error_of_tanh / rounding<T>
                             : 0;
  CHECK(worst(mine.dx,
              judge.dx,
              sums.dx,
              noise<T>(m.N),
              m.made_x == epilogue::none ? 0.51 : 1.02 + by_tanh)
        < 1);
  CHECK(relative_error(mine.dweight, judge.dweight) < noise<T>(m.R));
  if (m.with_bias)
    CHECK(relative_error(mine.dbias, judge.dbias) < noise<float>(m.R));
  else
    CHECK(mine.dbias == m.dbias);
}

}  // namespace

/// Numbers of choices for products of these sizes and this type: those with an algorithm, and those
/// with "no algorithm" for an epilogue.
template <class T>
std::pair<int, int> chosen(const std::string& sizes) {
  const std::string type = std::is_same_v<T, bf16> ? " bf16 " : " fp16 ";
  std::pair<int, int> out;
  for (const auto& choice : kernels::cuda::products::of_process().choices()) {
    if (choice.product.find(sizes) == std::string::npos
        || choice.product.find(type) == std::string::npos)
      continue;
    const bool none = choice.algorithm == kernels::no_algorithm;
    CHECK(none == (choice.product.find("gelu") != std::string::npos));
    ++(none ? out.second : out.first);
  }
  return out;
}

TEMPLATE_TEST_CASE("an epilogue without an algorithm runs as a product and a kernel",
                   "[cuda][linear][emulated]",
                   bf16,
                   f16) {
  // Sizes that no other test uses, because the process remembers missing algorithms.
  const linear_memory<TestType> m{
      .R = 11, .N = 64, .K = 72, .activation = epilogue::gelu_tanh, .made_x = epilogue::gelu_tanh};
  emulator::plant_faults("cublasLtMatmulAlgoGetHeuristic@1=15,cublasLtMatmulAlgoGetHeuristic@3=15");
  check(m);
  emulator::plant_faults("");
  check(m);
  CHECK(chosen<TestType>(" 11 x 64 x 72,") == std::pair{3, 2});
}

// The first proposal is not measured and may be refused when it runs.
TEMPLATE_TEST_CASE("an epilogue that the library proposes and then refuses runs as a kernel",
                   "[cuda][linear][emulated]",
                   bf16,
                   f16) {
  linear_memory<TestType> m{
      .R = 11, .N = 80, .K = 88, .activation = epilogue::gelu_tanh, .made_x = epilogue::gelu_tanh};
  // Refuses the forward product with GELU (CUBLAS_STATUS_NOT_SUPPORTED) and the backward product
  // with its gradient (CUBLAS_STATUS_INVALID_VALUE).
  emulator::plant_faults("cublasLtMatmul@1=15,cublasLtMatmul@4=7");
  check(m);
  emulator::plant_faults("");
  check(m);
  CHECK(chosen<TestType>(" 11 x 80 x 88,") == std::pair{3, 2});
}

/// Whether the product with a bias has an algorithm; empty if there is no choice for it.
std::optional<bool> has_bias(const std::string& sizes) {
  for (const auto& choice : kernels::cuda::products::of_process().choices()) {
    if (choice.product.find(sizes) != std::string::npos
        && choice.product.find(" bias ") != std::string::npos)
      return choice.algorithm != kernels::no_algorithm;
  }
  return std::nullopt;
}

TEMPLATE_TEST_CASE("a kernel adds the bias if the library does not",
                   "[cuda][linear][emulated]",
                   float,
                   bf16,
                   f16) {
  const std::int64_t R = 12 + std::int64_t(sizeof(TestType)) + std::is_same_v<TestType, f16>;
  const auto sizes = [&](std::int64_t N) {
    return " " + std::to_string(R) + " x " + std::to_string(N) + " x 40,";
  };
  const auto one = [&](std::int64_t N, std::size_t shift = 0, bool refused = false) {
    check(linear_memory<TestType>{.R = R, .N = N, .K = 40, .with_z = false}, shift, false, refused);
    return has_bias(sizes(N));
  };
  CHECK(one(240) == true);
  CHECK(!one(244));     // not a multiple of 8
  CHECK(!one(248, 1));  // misaligned
  // The library has no algorithm, or refuses it with one of two statuses.
  for (const auto* fault :
       {"cublasLtMatmulAlgoGetHeuristic@1=15", "cublasLtMatmul@1=15", "cublasLtMatmul@1=13"}) {
    static std::int64_t N = 256;
    N += 8;
    emulator::plant_faults(fault);
    CHECK(one(N, 0, true) == false);
    emulator::plant_faults("");
    CHECK(one(N, 0, true) == false);
  }
}

TEMPLATE_TEST_CASE(
    "products on a device accept misaligned pointers", "[cuda][linear]", float, bf16, f16) {
  const auto activation = GENERATE(epilogue::none, epilogue::gelu_tanh);
  for (const std::size_t shift : {1, 2, 4})
    check(
        linear_memory<TestType>{
            .R = 16, .N = 24, .K = 32, .activation = activation, .made_x = activation},
        shift);
}

TEMPLATE_TEST_CASE("products on a device have reproducible bits, measured or not",
                   "[cuda][linear]",
                   float,
                   bf16,
                   f16) {
  const linear_memory<TestType> m{
      .R = 33, .N = 40, .K = 48, .activation = epilogue::gelu_tanh, .made_x = epilogue::gelu_tanh};
  const auto first = computed(m);  // also measures
  const emulated_seed other(7);
  const auto second = computed(m);
  CHECK(first.y == second.y);
  CHECK(first.z == second.z);
  CHECK(first.dx == second.dx);
  CHECK(first.dweight == second.dweight);
  CHECK(first.dbias == second.dbias);
}

TEMPLATE_TEST_CASE(
    "the product that writes the first gradient of a step uses the algorithm of those that add",
    "[cuda][linear]",
    float,
    bf16,
    f16) {
  const bool measured = GENERATE(false, true);
  // Sizes that no other test uses, so the order of tests does not matter.
  const std::int64_t K = measured ? 104 : 96;
  const linear_memory<TestType> m{.R = 28, .N = 40, .K = K};
  const measuring chosen(measured);
  const auto times = [&](const std::vector<bool>& adds, float there) {
    const device_array<TestType> dz(m.dz), x(m.x);
    device_array<float> dweight(std::vector<float>(m.dweight.size(), there));
    device_array<float> dbias(std::vector<float>(m.dbias.size(), there));
    for (const bool accumulates : adds)
      run_product(kernels::linear_backward_weight<TestType>{dweight.data(),
                                                            dbias.data(),
                                                            dz.data(),
                                                            x.data(),
                                                            m.R,
                                                            m.N,
                                                            m.K,
                                                            accumulates,
                                                            accumulates});
    auto out = dweight.download();
    const auto biases = dbias.download();
    out.insert(out.end(), biases.begin(), biases.end());
    return out;
  };
  const float what_was = std::numeric_limits<float>::quiet_NaN();
  CHECK(times({false}, what_was) == times({true}, 0));
  CHECK(times({false, true}, what_was) == times({true, true}, 0));
  int choices = 0;
  for (const auto& choice : kernels::cuda::products::of_process().choices())
    choices += choice.product.find(type_text<TestType>()) != std::string::npos
               && choice.product.find(" 28 x 40 x " + std::to_string(K) + ",") != std::string::npos;
  CHECK(choices == 1);
}

TEMPLATE_TEST_CASE("measuring a product on a device does not change its result",
                   "[cuda][linear]",
                   float,
                   bf16,
                   f16) {
  for (const auto activation : {epilogue::none, epilogue::gelu_tanh})
    check(
        linear_memory<TestType>{
            .R = 24, .N = 32, .K = 56, .activation = activation, .made_x = activation},
        0,
        true);
}

TEMPLATE_TEST_CASE("empty products on a device give the bias, zero or the old value",
                   "[cuda][linear]",
                   float,
                   bf16,
                   f16) {
  const auto activation = GENERATE(epilogue::none, epilogue::gelu_tanh, epilogue::gelu_erf);
  const bool with_bias = GENERATE(false, true);
  for (const auto& [R, N, K] : {std::array{0, 24, 32}, {5, 0, 32}, {5, 24, 0}, {0, 0, 0}})
    check(linear_memory<TestType>{
        .R = R, .N = N, .K = K, .activation = activation, .with_bias = with_bias});
}

TEST_CASE("a product on a device with too little workspace is a broken promise", "[cuda][linear]") {
  const linear_memory<float> m{.R = 4, .N = 4, .K = 4};
  linear_on_device<float> there{m};
  const device_queue queue;
  CHECK_THROWS_AS(kernels::cuda::run(
                      kernels::linear_backward_input<float>{
                          there.dx.data(), there.dz.data(), there.weight.data(), m.R, m.N, m.K},
                      queue.context()),
                  std::logic_error);
}
