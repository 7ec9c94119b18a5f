// Which algorithm computes a product: measured, given, refused, named.

#include "kernels/cuda/products.hpp"

#include "kernels/backend/backend.hpp"
#include "kernels/cuda/product_name.hpp"
#include "tests/kernels_cuda/run_product.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

using namespace troupe;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using kernels::bf16;
using kernels::device_failure;
using kernels::product_choice;
using kernels::cuda::product_key;
using kernels::cuda::product_role;
using kernels::cuda::product_type;
using kernels::cuda::products;

namespace {

products& all() {
  return products::of_process();
}

/// Chosen algorithms stay for the life of the process: every test has sizes of its own.
struct product {
  std::int64_t R, N, K;
  std::vector<float> dz = normal<float>(std::size_t(R * N), 1);
  std::vector<float> weight = normal<float>(std::size_t(N * K), 2);

  std::vector<float> run() const {
    device_array<float> dx(std::size_t(R * K)), dz_there(dz), weight_there(weight);
    run_product(kernels::linear_backward_input<float>{
        dx.data(), dz_there.data(), weight_there.data(), R, N, K});
    return dx.download();
  }
  std::string sizes() const {
    return std::to_string(R) + " x " + std::to_string(N) + " x " + std::to_string(K);
  }
  /// The choice for it, of which there is one.
  product_choice choice() const {
    const auto known = all().choices();
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& x) {
      return x.product.find(" " + sizes() + ",") != std::string::npos;
    });
    REQUIRE(found != known.end());
    return *found;
  }
  product_key key() const {
    device_array<float> at(1);
    product_key out{
        .role = product_role::backward_input, .type = product_type::f32, .R = R, .N = N, .K = K};
    note_alignments(out, {.a = at.data(), .b = at.data(), .d = at.data()});
    return out;
  }
  std::string name() const { return kernels::cuda::name_of(key(), device_name(), all().version()); }
  /// What the library proposes for it.
  std::vector<std::string> candidates() const {
    device_array<float> at(1);
    cublasLtHandle_t library = nullptr;
    kernels::cuda::check(cublasLtCreate(&library), "cublasLtCreate");
    cublasLtMatmulHeuristicResult_t found[8];
    kernels::cuda::product_description what(key(),
                                            {.a = at.data(), .b = at.data(), .d = at.data()});
    std::vector<std::string> out;
    for (int i = 0, n = what.candidates(library, found, 8); i < n; ++i)
      out.push_back(kernels::cuda::text_of(found[i].algo));
    cublasLtDestroy(library);
    return out;
  }
};

/// Products are computed so while it stands.
class settings {
 public:
  explicit settings(const kernels::product_settings& chosen) { all().configure(chosen); }
  ~settings() { all().configure({}); }
  settings(const settings&) = delete;
  settings& operator=(const settings&) = delete;
};

class planted {
 public:
  explicit planted(const char* fault) { emulator::plant_faults(fault); }
  ~planted() { emulator::plant_faults(""); }
  planted(const planted&) = delete;
  planted& operator=(const planted&) = delete;
};

}  // namespace

TEST_CASE("a product's choice is measured among all candidates and named in full",
          "[cuda][products]") {
  const product one{.R = 16, .N = 24, .K = 40};
  one.run();
  const auto choice = one.choice();
  CHECK(choice.product
        == "backward_input fp32 16 x 24 x 40, aligned 16 16 16 16, on " + device_name() + " with "
               + all().version());
  CHECK(choice.product == one.name());
  CHECK(choice.candidates == int(one.candidates().size()));
  CHECK(choice.candidates > 1);
  CHECK(choice.microseconds > 0);
  const auto candidates = one.candidates();
  CHECK(std::count(candidates.begin(), candidates.end(), choice.algorithm) == 1);
}

TEST_CASE("epilogues, types and alignments are in a product's name", "[cuda][products]") {
  const std::int64_t R = 8, N = 56, K = 24;
  const std::size_t matrix = std::size_t(N * K);
  device_array<bf16> x(normal<bf16>(std::size_t(R * K), 1)), weight(normal<bf16>(matrix, 2)),
      bias(normal<bf16>(std::size_t(N), 3)), unaligned(normal<bf16>(std::size_t(N), 3), 1),
      y(std::size_t(R * N)), z(std::size_t(R * N));
  run_product(kernels::linear_forward<bf16>{y.data(),
                                            z.data(),
                                            x.data(),
                                            weight.data(),
                                            bias.data(),
                                            R,
                                            N,
                                            K,
                                            kernels::epilogue::gelu_tanh});
  // Of an activation that the library does not have only the product is its own.
  run_product(kernels::linear_forward<bf16>{
      y.data(), z.data(), x.data(), weight.data(), nullptr, R, N, K, kernels::epilogue::gelu_erf});
  run_product(kernels::linear_forward<bf16>{
      y.data(), nullptr, x.data(), weight.data(), bias.data(), R, N, K});
  // A product with such a bias has none.
  run_product(kernels::linear_forward<bf16>{
      y.data(), nullptr, x.data(), weight.data(), unaligned.data(), R, N, K});
  device_array<bf16> dz(normal<bf16>(std::size_t(R * N), 4), 1), dx(std::size_t(R * K));
  run_product(kernels::linear_backward_input<bf16>{dx.data(),
                                                   dz.data() + 7,
                                                   weight.data(),
                                                   R - 1,
                                                   N,
                                                   K,
                                                   kernels::epilogue::gelu_tanh,
                                                   x.data()});
  run_product(
      kernels::linear_backward_input<bf16>{dx.data(), dz.data(), weight.data(), R - 1, N, K});
  const settings rounded({.tf32 = true});
  device_array<float> dweight(std::vector<float>(matrix, 0)),
      dz32(normal<float>(std::size_t(R * N), 4)), x32(normal<float>(std::size_t(R * K), 5));
  run_product(kernels::linear_backward_weight<float>{
      dweight.data(), nullptr, dz32.data(), x32.data(), R, N, K});
  std::set<std::string> names;
  for (const auto& choice : all().choices())
    names.insert(choice.product.substr(0, choice.product.find(", on")));
  CHECK(names.contains("forward bf16 bias+gelu+z 8 x 56 x 24, aligned 16 16 16 16"));
  CHECK(names.contains("forward bf16 bias 8 x 56 x 24, aligned 16 16 16 16"));
  CHECK(!names.contains("forward bf16 bias 8 x 56 x 24, aligned 16 16 16 2"));
  CHECK(names.contains("backward_input bf16 gelu_gradient 7 x 56 x 24, aligned 16 16 16 16"));
  CHECK(names.contains("backward_input bf16 7 x 56 x 24, aligned 16 2 16 16"));
  CHECK(names.contains("forward bf16 8 x 56 x 24, aligned 16 16 16 16"));
  CHECK(names.contains("backward_weight tf32 8 x 56 x 24, aligned 16 16 16 16"));
}

// Of the emulated library all three algorithms have bits of their own.
TEST_CASE("the same product by another algorithm has other bits, which a given choice decides",
          "[cuda][products][emulated]") {
  const product one{.R = 32, .N = 304, .K = 48};
  const auto algorithms = one.candidates();
  REQUIRE(algorithms.size() == 3);
  std::set<std::vector<float>> bits;
  for (std::int64_t less = 0; less < 3; ++less) {  // other names, and the first rows are the same
    auto other = one;
    other.R -= less;
    other.dz.resize(std::size_t(other.R * other.N));
    const product_choice given{other.name(), algorithms[std::size_t(less)], 12.5, 7};
    all().give({given});
    auto dx = other.run();
    CHECK(other.choice() == given);
    dx.resize(std::size_t((one.R - 2) * one.K));
    bits.insert(dx);
  }
  CHECK(bits.size() > 1);
}

TEST_CASE("without measuring a product takes the library's first guess", "[cuda][products]") {
  const settings guess({.measure = false});
  const product one{.R = 8, .N = 72, .K = 16};
  one.run();
  CHECK(one.choice() == product_choice{one.name(), one.candidates()[0], 0, 1});
}

namespace {

/// A product with GELU, of 8 elements' rows.
struct gelu_product {
  std::int64_t R = 8, N, K;

  void run() const {
    device_array<bf16> x(normal<bf16>(std::size_t(R * K), 1)),
        weight(normal<bf16>(std::size_t(N * K), 2)), y(std::size_t(R * N)), z(std::size_t(R * N));
    run_product(kernels::linear_forward<bf16>{y.data(),
                                              z.data(),
                                              x.data(),
                                              weight.data(),
                                              nullptr,
                                              R,
                                              N,
                                              K,
                                              kernels::epilogue::gelu_tanh});
  }
  std::string name(const char* epilogue) const {
    return "forward bf16 " + std::string(epilogue) + std::to_string(R) + " x " + std::to_string(N)
           + " x " + std::to_string(K) + ", aligned 16 16 16 16, on " + device_name() + " with "
           + all().version();
  }
};

std::optional<product_choice> choice_of(const std::string& name) {
  for (const auto& choice : all().choices())
    if (choice.product == name)
      return choice;
  return std::nullopt;
}

}  // namespace

TEST_CASE("that there is no algorithm for an epilogue is a choice, and held to when given",
          "[cuda][products]") {
  const gelu_product here{.N = 112, .K = 24}, elsewhere{.N = 120, .K = 24};
  elsewhere.run();
  REQUIRE(choice_of(elsewhere.name("gelu+z ")));  // the library has one
  CHECK(choice_of(elsewhere.name("gelu+z "))->algorithm != kernels::no_algorithm);
  CHECK(!choice_of(elsewhere.name("")));
  const product_choice none{here.name("gelu+z "), kernels::no_algorithm, 0, 0};
  all().give({none});
  here.run();
  CHECK(choice_of(none.product) == none);
  REQUIRE(choice_of(here.name("")));
  CHECK(choice_of(here.name(""))->algorithm.size() == 128);
  CHECK_THROWS_WITH(all().give({{elsewhere.name("gelu+z "), kernels::no_algorithm, 0, 0}}),
                    ContainsSubstring("before the first product"));
}

TEST_CASE("that there is no algorithm for a bias is a choice, and held to when given",
          "[cuda][products]") {
  constexpr std::int64_t R = 8, N = 128, K = 24;
  device_array<bf16> x(normal<bf16>(std::size_t(R * K), 1)),
      weight(normal<bf16>(std::size_t(N * K), 2)), bias(normal<bf16>(std::size_t(N), 3)),
      y(std::size_t(R * N));
  const gelu_product named{.N = N, .K = K};
  const product_choice none{named.name("bias "), kernels::no_algorithm, 0, 0};
  all().give({none});
  run_product(kernels::linear_forward<bf16>{
      y.data(), nullptr, x.data(), weight.data(), bias.data(), R, N, K});
  CHECK(choice_of(none.product) == none);
  REQUIRE(choice_of(named.name("")));
  CHECK(choice_of(named.name(""))->algorithm.size() == 128);
}

TEST_CASE("a product without an epilogue is refused the choice of no algorithm",
          "[cuda][products]") {
  const product one{.R = 8, .N = 168, .K = 16};
  all().give({{one.name(), kernels::no_algorithm, 0, 0}});
  CHECK_THROWS_WITH(
      one.run(),
      ContainsSubstring(one.name()) && ContainsSubstring("only products with a bias or GELU"));
}

TEST_CASE("a candidate that the library refuses is not taken", "[cuda][products][emulated]") {
  // Not supported, invalid value, another architecture, not launched.
  std::int64_t N = 400;
  for (const std::string status : {"15", "7", "8", "13"}) {
    const product one{.R = 8, .N = N += 8, .K = 16};
    {  // the first candidate is tried twice before any is repeated
      const auto faults = "cublasLtMatmul@1=" + status + ",cublasLtMatmul@2=" + status;
      const planted refusals(faults.c_str());
      one.run();
    }
    CHECK(one.choice().algorithm != one.candidates()[0]);
  }
}

TEST_CASE("memory to try candidates in is asked for while a product may be measured, only",
          "[cuda][products]") {
  constexpr std::int64_t R = 8, K = 16;
  std::int64_t N = 200;
  device_array<float> dweight(std::vector<float>(2048 * K, 0)), dz(std::vector<float>(R * 2048, 1)),
      x(std::vector<float>(R * K, 1));
  const auto another = [&] {
    N += 8;
    return kernels::linear_backward_weight<float>{
        dweight.data(), nullptr, dz.data(), x.data(), R, N, K};
  };
  constexpr std::size_t always
      = kernels::cuda::product_workspace + kernels::cuda::product_workspace_alignment;
  const auto op = another();
  CHECK(kernels::cuda::scratch(op) == always + 4 * std::size_t(N * K));
  run_product(op);
  CHECK(kernels::cuda::scratch(op) == always);
  const auto chosen = product{.R = R, .N = N, .K = K}.choice();
  const auto other = another();
  CHECK(kernels::cuda::scratch(other) > always);
  auto given = chosen;
  const std::string sizes = " x 208 x ";
  REQUIRE(N == 216);
  given.product.replace(given.product.find(sizes), sizes.size(), " x 216 x ");
  all().give({given});
  CHECK(kernels::cuda::scratch(other) == always);
  run_product(other);
  CHECK(choice_of(given.product) == given);
  const settings guess({.measure = false});
  CHECK(kernels::cuda::scratch(another()) == always);
}

// A real library promises nothing for an algorithm that it did not make.
TEST_CASE("a choice that the library cannot take is refused by name, each time",
          "[cuda][products][emulated]") {
  const product one{.R = 8, .N = 80, .K = 16};
  all().give({{one.name(), std::string(128, 'f'), 1, 8}});
  for (int time = 0; time < 2; ++time)
    CHECK_THROWS_WITH(one.run(),
                      ContainsSubstring(one.name()) && ContainsSubstring("cannot be taken")
                          && ContainsSubstring("CUBLAS_STATUS_"));
  all().give({{one.name(), one.candidates()[1], 1, 8}});
  CHECK_NOTHROW(one.run());
  CHECK(one.choice().algorithm == one.candidates()[1]);
}

TEST_CASE("every algorithm that the library proposes can be given as an earlier run's choice",
          "[cuda][products]") {
  // Each for a product of its own, because what a process has chosen stays.
  for (std::size_t i = 0, proposed = 1; i < proposed; ++i) {
    const product one{.R = 8, .N = 232 + 8 * std::int64_t(i), .K = 16};
    const auto algorithms = one.candidates();
    REQUIRE(!algorithms.empty());
    proposed = algorithms.size();
    const auto& given = algorithms[std::min(i, proposed - 1)];
    all().give({{one.name(), given, 1, 8}});
    CHECK_NOTHROW(one.run());
    CHECK(one.choice().algorithm == given);
  }
}

TEST_CASE("a choice that the library's check refuses is taken if its product runs",
          "[cuda][products][emulated]") {
  const product one{.R = 8, .N = 320, .K = 16};
  const auto given = one.candidates().back();
  all().give({{one.name(), given, 1, 8}});
  {
    const planted refusal("cublasLtMatmulAlgoCheck@1=15");
    CHECK_NOTHROW(one.run());
  }
  CHECK(one.choice().algorithm == given);
}

TEST_CASE("the first product by an earlier run's choice is added once", "[cuda][products]") {
  constexpr std::int64_t R = 8, N = 328, K = 16;
  device_array<float> dweight(std::vector<float>(N * K, 2)), dz(std::vector<float>(R * N, 1)),
      x(std::vector<float>(R * K, 3));
  auto key = product{.R = R, .N = N, .K = K}.key();
  key.role = product_role::backward_weight;
  const kernels::cuda::product_operands at{.a = x.data(), .b = dz.data(), .d = dweight.data()};
  cublasLtHandle_t library = nullptr;
  kernels::cuda::check(cublasLtCreate(&library), "cublasLtCreate");
  cublasLtMatmulHeuristicResult_t found[1];
  REQUIRE(kernels::cuda::product_description(key, at).candidates(library, found, 1) == 1);
  cublasLtDestroy(library);
  const auto name = kernels::cuda::name_of(key, device_name(), all().version());
  all().give({{name, kernels::cuda::text_of(found[0].algo), 1, 8}});
  run_product(kernels::linear_backward_weight<float>{
      dweight.data(), nullptr, dz.data(), x.data(), R, N, K});
  CHECK(dweight.download() == std::vector<float>(N * K, 2 + 3 * R));
}

TEST_CASE("a choice that is no algorithm, or comes too late, is refused", "[cuda][products]") {
  for (const std::string& text : {std::string(), std::string(127, '0'), std::string(128, 'x')})
    CHECK_THROWS_WITH(all().give({{"a product", text, 1, 8}}),
                      ContainsSubstring("a product") && ContainsSubstring("hexadecimal"));
  const product one{.R = 8, .N = 88, .K = 16};
  one.run();
  const auto choice = one.choice();
  CHECK_NOTHROW(all().give({choice}));
  for (const auto& other : one.candidates()) {
    if (other == choice.algorithm)
      continue;
    CHECK_THROWS_WITH(
        all().give({{one.name(), other, 1, 8}}),
        ContainsSubstring(one.name()) && ContainsSubstring("before the first product"));
    break;
  }
}

TEST_CASE("lanes that ask for a new product at once get one choice and the same bits",
          "[cuda][products]") {
  const emulated_delay late(50);
  const product one{.R = 24, .N = 96, .K = 16}, two{.R = 24, .N = 104, .K = 16};
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> lanes;
  for (std::size_t lane = 0; lane < results.size(); ++lane)
    lanes.emplace_back([&, lane] { results[lane] = (lane % 2 == 0 ? one : two).run(); });
  for (auto& lane : lanes)
    lane.join();
  CHECK(results[0] == results[2]);
  CHECK(results[1] == results[3]);
  const auto known = all().choices();
  for (const auto& each : {one, two})
    CHECK(std::count_if(
              known.begin(), known.end(), [&](const auto& x) { return x.product == each.name(); })
          == 1);
}

// Nor does it ask for memory: a run that fits does not fail because its first step is measured.
TEST_CASE("a product that adds is measured without touching what it adds to",
          "[cuda][products][emulated]") {
  const planted nothing_left("cudaMallocAsync@1=2");
  constexpr std::int64_t R = 8, K = 16, rows_there_is_room_for = 5;
  std::int64_t N = 112;
  // All rows, some, none: then the library's first is taken.
  for (const std::int64_t rows : {N, rows_there_is_room_for, std::int64_t{0}}) {
    N += 8;  // another product
    const auto before = normal<float>(std::size_t(N * K), 3);
    device_array<float> dweight(before), dz(std::vector<float>(std::size_t(R * N), 1)),
        x(std::vector<float>(std::size_t(R * K), 1));
    const kernels::linear_backward_weight<float> op{
        dweight.data(), nullptr, dz.data(), x.data(), R, N, K};
    const auto memory = new_workspace();
    const device_queue queue;
    kernels::cuda::run(op,
                       queue.context(memory.first(kernels::cuda::product_workspace
                                                  + std::size_t(rows == 112 ? N : rows) * K * 4)));
    queue.wait();
    auto expected = before;
    for (float& sum : expected)
      sum += float(R);
    CHECK(dweight.download() == expected);
    const auto choice = product{.R = R, .N = N, .K = K}.choice();
    CHECK(choice.product.starts_with("backward_weight fp32 "));
    CHECK(choice.candidates == 3);
    CHECK((choice.microseconds > 0) == (rows > 0));
    must(cudaFree(memory.data()), "cudaFree");
  }
}
