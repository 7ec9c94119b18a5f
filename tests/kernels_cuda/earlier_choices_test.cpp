// Tests of given choices: they are used, replaced if the library does not accept them, or refused.

#include "tests/kernels_cuda/chosen_product.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using kernels::bf16;
using kernels::product_choice;
using kernels::cuda::product_role;
using kernels::cuda::products;

namespace {

/// A product with GELU; its rows are multiples of 8 elements.
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
           + all_products().version();
  }
};

/// The report of a replaced choice; empty if it was not replaced.
std::optional<kernels::replaced_choice> replaced(const std::string& name) {
  for (const auto& one : all_products().report().replaced)
    if (one.before.product == name)
      return one;
  return std::nullopt;
}

}  // namespace

TEST_CASE("the lack of an algorithm for an epilogue is a choice and is kept if given",
          "[cuda][products]") {
  const gelu_product here{.N = 112, .K = 24}, elsewhere{.N = 120, .K = 24};
  elsewhere.run();
  REQUIRE(choice_of(elsewhere.name("gelu+z ")));  // the library has an algorithm
  CHECK(choice_of(elsewhere.name("gelu+z "))->algorithm != kernels::no_algorithm);
  CHECK(!choice_of(elsewhere.name("")));
  const product_choice none{here.name("gelu+z "), kernels::no_algorithm, 0, 0};
  all_products().give({none});
  here.run();
  CHECK(choice_of(none.product) == none);
  REQUIRE(choice_of(here.name("")));
  CHECK(choice_of(here.name(""))->algorithm.size() == 128);
  CHECK_THROWS_WITH(all_products().give({{elsewhere.name("gelu+z "), kernels::no_algorithm, 0, 0}}),
                    ContainsSubstring("before the first product"));
}

TEST_CASE("the lack of an algorithm for a bias is a choice and is kept if given",
          "[cuda][products]") {
  constexpr std::int64_t R = 8, N = 128, K = 24;
  device_array<bf16> x(normal<bf16>(std::size_t(R * K), 1)),
      weight(normal<bf16>(std::size_t(N * K), 2)), bias(normal<bf16>(std::size_t(N), 3)),
      y(std::size_t(R * N));
  const gelu_product named{.N = N, .K = K};
  const product_choice none{named.name("bias "), kernels::no_algorithm, 0, 0};
  all_products().give({none});
  run_product(kernels::linear_forward<bf16>{
      y.data(), nullptr, x.data(), weight.data(), bias.data(), R, N, K});
  CHECK(choice_of(none.product) == none);
  REQUIRE(choice_of(named.name("")));
  CHECK(choice_of(named.name(""))->algorithm.size() == 128);
}

TEST_CASE("a product without an epilogue is measured if the given choice is not an algorithm",
          "[cuda][products]") {
  const chosen_product one{.R = 8, .N = 168, .K = 16};
  all_products().give({{one.name(), kernels::no_algorithm, 0, 0}});
  one.run();
  CHECK(one.choice().algorithm.size() == 128);
  REQUIRE(replaced(one.name()));
  CHECK(replaced(one.name())->why == "only products with a bias or GELU have none");
}

// Emulated only: the behaviour of a real library is undefined for an algorithm that it did not
// make.
TEST_CASE("a choice that the library refuses is measured again and reported",
          "[cuda][products][emulated]") {
  const auto whose = GENERATE(kernels::choices_of::others, kernels::choices_of::this_run);
  const chosen_product one{.R = 8, .N = 80 + 512 * std::int64_t(whose), .K = 16};
  const product_choice none_of_its{one.name(), std::string(128, 'f'), 1, 8};
  all_products().give({none_of_its}, whose);
  one.run();
  const auto chosen = one.choice();
  const auto candidates = one.candidates();
  CHECK(std::count(candidates.begin(), candidates.end(), chosen.algorithm) == 1);
  CHECK(chosen.microseconds > 0);
  REQUIRE(replaced(one.name()));
  CHECK(replaced(one.name())->before == none_of_its);
  CHECK(replaced(one.name())->whose == whose);
  CHECK_THAT(replaced(one.name())->why, ContainsSubstring("CUBLAS_STATUS_"));
  // A later run in the same process that names this choice does not fail.
  const auto said = all_products().report().replaced.size();
  CHECK_NOTHROW(all_products().give({none_of_its}, whose));
  one.run();
  CHECK(one.choice() == chosen);
  CHECK(all_products().report().replaced.size() == said);
}

TEST_CASE("an accumulating product is fully measured if its earlier choice is refused",
          "[cuda][products][emulated]") {
  constexpr std::int64_t R = 8, N = 1104, K = 16;
  device_array<float> dweight(std::vector<float>(N * K, 2)), dz(std::vector<float>(R * N, 1)),
      x(std::vector<float>(R * K, 3));
  auto key = chosen_product{.R = R, .N = N, .K = K}.key();
  key.role = product_role::backward_weight;
  all_products().give({{kernels::cuda::name_of(key, device_name(), all_products().version()),
                        std::string(128, 'e'),
                        1,
                        8}});
  run_product(kernels::linear_backward_weight<float>{
      dweight.data(), nullptr, dz.data(), x.data(), R, N, K});
  CHECK(dweight.download() == std::vector<float>(N * K, 2 + 3 * R));
  CHECK(chosen_product{.R = R, .N = N, .K = K}.choice().microseconds > 0);
}

TEST_CASE("with strict identity a run's own choice is used, or refused each time",
          "[cuda][products][emulated]") {
  const chosen_product one{.R = 8, .N = 640, .K = 16}, cached{.R = 8, .N = 648, .K = 16};
  const product_choosing strict({.strict = true});
  all_products().give({{one.name(), std::string(128, 'f'), 1, 8}}, kernels::choices_of::this_run);
  all_products().give({{cached.name(), std::string(128, 'f'), 1, 8}});
  for (int time = 0; time < 2; ++time)
    CHECK_THROWS_WITH(one.run(),
                      ContainsSubstring(one.name()) && ContainsSubstring("cannot be used")
                          && ContainsSubstring("CUBLAS_STATUS_")
                          && ContainsSubstring("strict_identity"));
  CHECK_NOTHROW(cached.run());  // no bits depend on a cached choice
  all_products().give({{one.name(), one.candidates()[1], 1, 8}}, kernels::choices_of::this_run);
  CHECK_NOTHROW(one.run());
  CHECK(one.choice().algorithm == one.candidates()[1]);
}

TEST_CASE("each algorithm that the library proposes can be given as an earlier choice",
          "[cuda][products]") {
  // Each for its own product, because a process keeps its choices.
  for (std::size_t i = 0, proposed = 1; i < proposed; ++i) {
    const chosen_product one{.R = 8, .N = 232 + 8 * std::int64_t(i), .K = 16};
    const auto algorithms = one.candidates();
    REQUIRE(!algorithms.empty());
    proposed = std::min<std::size_t>(algorithms.size(), 8);  // sizes of other tests begin there
    const auto& given = algorithms[std::min(i, proposed - 1)];
    all_products().give({{one.name(), given, 1, 8}});
    CHECK_NOTHROW(one.run());
    CHECK(one.choice().algorithm == given);
  }
}

TEST_CASE("a choice that the library's check refuses is used if its product runs",
          "[cuda][products][emulated]") {
  const chosen_product one{.R = 8, .N = 320, .K = 16};
  const auto given = one.candidates().back();
  all_products().give({{one.name(), given, 1, 8}});
  {
    const planted_refusal refusal("cublasLtMatmulAlgoCheck@1=15");
    CHECK_NOTHROW(one.run());
  }
  CHECK(one.choice().algorithm == given);
}

TEST_CASE("the first product with an earlier choice is added exactly once", "[cuda][products]") {
  constexpr std::int64_t R = 8, N = 328, K = 16;
  device_array<float> dweight(std::vector<float>(N * K, 2)), dz(std::vector<float>(R * N, 1)),
      x(std::vector<float>(R * K, 3));
  auto key = chosen_product{.R = R, .N = N, .K = K}.key();
  key.role = product_role::backward_weight;
  const kernels::cuda::product_operands at{.a = x.data(), .b = dz.data(), .d = dweight.data()};
  cublasLtHandle_t library = nullptr;
  kernels::cuda::check(cublasLtCreate(&library), "cublasLtCreate");
  cublasLtMatmulHeuristicResult_t found[1];
  REQUIRE(kernels::cuda::product_description(key, at).candidates(library, found, 1) == 1);
  cublasLtDestroy(library);
  const auto name = kernels::cuda::name_of(key, device_name(), all_products().version());
  all_products().give({{name, kernels::cuda::text_of(found[0].algo), 1, 8}});
  run_product(kernels::linear_backward_weight<float>{
      dweight.data(), nullptr, dz.data(), x.data(), R, N, K});
  CHECK(dweight.download() == std::vector<float>(N * K, 2 + 3 * R));
}

TEST_CASE("a malformed or late choice is refused", "[cuda][products]") {
  for (const std::string& text : {std::string(), std::string(127, '0'), std::string(128, 'x')})
    CHECK_THROWS_WITH(all_products().give({{"a product", text, 1, 8}}),
                      ContainsSubstring("a product") && ContainsSubstring("hexadecimal"));
  const chosen_product one{.R = 8, .N = 88, .K = 16};
  one.run();
  const auto choice = one.choice();
  CHECK_NOTHROW(all_products().give({choice}));
  for (const auto& other : one.candidates()) {
    if (other == choice.algorithm)
      continue;
    CHECK_THROWS_WITH(
        all_products().give({{one.name(), other, 1, 8}}),
        ContainsSubstring(one.name()) && ContainsSubstring("before the first product"));
    break;
  }
}
