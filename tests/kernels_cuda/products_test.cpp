// Tests of the choice of a product's algorithm: measuring, names, reuse.

#include "tests/kernels_cuda/chosen_product.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <thread>

using namespace troupe;
using namespace troupe::tests;
using kernels::bf16;
using kernels::product_choice;
using kernels::cuda::products;

TEST_CASE("a product's algorithm is measured among all candidates and named in full",
          "[cuda][products]") {
  const chosen_product one{.R = 16, .N = 24, .K = 40};
  one.run();
  const auto choice = one.choice();
  CHECK(choice.product
        == "backward_input fp32 16 x 24 x 40, aligned 16 16 16 16, on " + device_name() + " with "
               + all_products().version());
  CHECK(choice.product == one.name());
  CHECK(choice.candidates == int(one.candidates().size()));
  CHECK(choice.candidates > 1);
  CHECK(choice.microseconds > 0);
  const auto candidates = one.candidates();
  CHECK(std::count(candidates.begin(), candidates.end(), choice.algorithm) == 1);
}

TEST_CASE("a product's name contains its epilogue, type and alignments", "[cuda][products]") {
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
  // The library lacks this activation and computes only the product.
  run_product(kernels::linear_forward<bf16>{
      y.data(), z.data(), x.data(), weight.data(), nullptr, R, N, K, kernels::epilogue::gelu_erf});
  run_product(kernels::linear_forward<bf16>{
      y.data(), nullptr, x.data(), weight.data(), bias.data(), R, N, K});
  // A misaligned bias: the product has no choice with bias.
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
  const product_choosing rounded({.tf32 = true});
  device_array<float> dweight(std::vector<float>(matrix, 0)),
      dz32(normal<float>(std::size_t(R * N), 4)), x32(normal<float>(std::size_t(R * K), 5));
  run_product(kernels::linear_backward_weight<float>{
      dweight.data(), nullptr, dz32.data(), x32.data(), R, N, K});
  std::set<std::string> names;
  for (const auto& choice : all_products().choices())
    names.insert(choice.product.substr(0, choice.product.find(", on")));
  CHECK(names.contains("forward bf16 bias+gelu+z 8 x 56 x 24, aligned 16 16 16 16"));
  CHECK(names.contains("forward bf16 bias 8 x 56 x 24, aligned 16 16 16 16"));
  CHECK(!names.contains("forward bf16 bias 8 x 56 x 24, aligned 16 16 16 2"));
  CHECK(names.contains("backward_input bf16 gelu_gradient 7 x 56 x 24, aligned 16 16 16 16"));
  CHECK(names.contains("backward_input bf16 7 x 56 x 24, aligned 16 2 16 16"));
  CHECK(names.contains("forward bf16 8 x 56 x 24, aligned 16 16 16 16"));
  CHECK(names.contains("backward_weight tf32 8 x 56 x 24, aligned 16 16 16 16"));
}

// The three algorithms of the emulated library have different bits.
TEST_CASE("another algorithm gives a product other bits, and a given choice selects them",
          "[cuda][products][emulated]") {
  const chosen_product one{.R = 32, .N = 304, .K = 48};
  const auto algorithms = one.candidates();
  REQUIRE(algorithms.size() == 3);
  std::set<std::vector<float>> bits;
  for (std::int64_t less = 0; less < 3; ++less) {  // different names, equal first rows
    auto other = one;
    other.R -= less;
    other.dz.resize(std::size_t(other.R * other.N));
    const product_choice given{other.name(), algorithms[std::size_t(less)], 12.5, 7};
    all_products().give({given});
    auto dx = other.run();
    CHECK(other.choice() == given);
    dx.resize(std::size_t((one.R - 2) * one.K));
    bits.insert(dx);
  }
  CHECK(bits.size() > 1);
}

TEST_CASE("without measuring a product uses the library's first proposal", "[cuda][products]") {
  const product_choosing guess({.measure = false});
  const chosen_product one{.R = 8, .N = 72, .K = 16};
  one.run();
  CHECK(one.choice() == product_choice{one.name(), one.candidates()[0], 0, 1});
}

TEST_CASE("a candidate that the library refuses is not chosen", "[cuda][products][emulated]") {
  // Not supported, invalid value, another architecture, not launched.
  std::int64_t N = 400;
  for (const std::string status : {"15", "7", "8", "13"}) {
    const chosen_product one{.R = 8, .N = N += 8, .K = 16};
    {
      const auto fault = "cublasLtMatmul@1=" + status;
      const planted_refusal refusals(fault.c_str());
      one.run();
    }
    CHECK(one.choice().algorithm != one.candidates()[0]);
  }
}

TEST_CASE("memory to try candidates is declared only while a product may be measured",
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
  CHECK(kernels::cuda::scratch(op)
        == always + 4 * std::size_t(N * K) + kernels::cuda::cold_bytes());
  run_product(op);
  CHECK(kernels::cuda::scratch(op) == always);
  const auto chosen = chosen_product{.R = R, .N = N, .K = K}.choice();
  const auto other = another();
  CHECK(kernels::cuda::scratch(other) > always);
  auto given = chosen;
  const std::string sizes = " x 208 x ";
  REQUIRE(N == 216);
  given.product.replace(given.product.find(sizes), sizes.size(), " x 216 x ");
  all_products().give({given});
  CHECK(kernels::cuda::scratch(other) > always);  // the given choice may still be refused
  run_product(other);
  CHECK(choice_of(given.product) == given);
  CHECK(kernels::cuda::scratch(other) == always);
  const chosen_product written{.R = R, .N = 664, .K = K};
  const kernels::linear_backward_input<float> writes{
      x.data(), dz.data(), dweight.data(), R, written.N, K};
  CHECK(kernels::cuda::scratch(writes) == always + kernels::cuda::cold_bytes());
  written.run();
  CHECK(kernels::cuda::scratch(writes) == always);
  const product_choosing guess({.measure = false});
  CHECK(kernels::cuda::scratch(another()) == always);
}

// With cached operands, candidates that read much would seem as fast as those that read little.
TEST_CASE("candidates are measured with uncached operands", "[cuda][products][emulated]") {
  const chosen_product one{.R = 8, .N = 656, .K = 16};  // 42 kB
  const auto candidates = one.candidates().size();
  const auto before = emulator::calls_so_far();
  one.run();
  const auto after = emulator::calls_so_far();
  CHECK(after.products - before.products >= 6 * candidates + 1);
  CHECK(after.warm_products - before.warm_products == 1);  // the product itself, after measuring
  const auto ran = emulator::calls_so_far();
  one.run();
  CHECK(emulator::calls_so_far().products - ran.products == 1);
  CHECK(all_products().report().measured > 0);
  CHECK(all_products().report().seconds > 0);
}

TEST_CASE("concurrent lanes with a new product get one choice and the same bits",
          "[cuda][products]") {
  const emulated_delay late(50);
  const chosen_product one{.R = 24, .N = 96, .K = 16}, two{.R = 24, .N = 104, .K = 16};
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> lanes;
  for (std::size_t lane = 0; lane < results.size(); ++lane)
    lanes.emplace_back([&, lane] { results[lane] = (lane % 2 == 0 ? one : two).run(); });
  for (auto& lane : lanes)
    lane.join();
  CHECK(results[0] == results[2]);
  CHECK(results[1] == results[3]);
  const auto known = all_products().choices();
  for (const auto& each : {one, two})
    CHECK(std::count_if(
              known.begin(), known.end(), [&](const auto& x) { return x.product == each.name(); })
          == 1);
}

// Measuring also allocates no memory, so it cannot make a run fail that fits.
TEST_CASE("measuring an accumulating product does not change its target",
          "[cuda][products][emulated]") {
  const planted_refusal nothing_left("cudaMallocAsync@1=2");
  constexpr std::int64_t R = 8, K = 16, rows_there_is_room_for = 5;
  std::int64_t N = 112;
  // Scratch for all rows, some, none; with none the library's first proposal is used.
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
    const auto choice = chosen_product{.R = R, .N = N, .K = K}.choice();
    CHECK(choice.product.starts_with("backward_weight fp32 "));
    CHECK(choice.candidates == 3);
    CHECK((choice.microseconds > 0) == (rows > 0));
    must(cudaFree(memory.data()), "cudaFree");
  }
}
