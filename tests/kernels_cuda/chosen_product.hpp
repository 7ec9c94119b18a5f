// Products for tests of the choice of algorithms: sizes, names, choices and settings.

#pragma once

#include "kernels/cuda/product_name.hpp"
#include "kernels/cuda/products.hpp"
#include "tests/kernels_cuda/run_product.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <optional>

namespace troupe::tests {

inline kernels::cuda::products& all_products() {
  return kernels::cuda::products::of_process();
}

/// A choice lasts for the life of the process, so each test uses its own sizes.
struct chosen_product {
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
  /// The only choice for this product.
  kernels::product_choice choice() const {
    const auto known = all_products().choices();
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& x) {
      return x.product.find(" " + sizes() + ",") != std::string::npos;
    });
    REQUIRE(found != known.end());
    return *found;
  }
  kernels::cuda::product_key key() const {
    device_array<float> at(1);
    kernels::cuda::product_key out{.role = kernels::cuda::product_role::backward_input,
                                   .type = kernels::cuda::product_type::f32,
                                   .R = R,
                                   .N = N,
                                   .K = K};
    note_alignments(out, {.a = at.data(), .b = at.data(), .d = at.data()});
    return out;
  }
  std::string name() const {
    return kernels::cuda::name_of(key(), device_name(), all_products().version());
  }
  /// The algorithms that the library proposes for this product.
  std::vector<std::string> candidates() const {
    device_array<float> at(1);
    cublasLtHandle_t library = nullptr;
    kernels::cuda::check(cublasLtCreate(&library), "cublasLtCreate");
    cublasLtMatmulHeuristicResult_t found[32];
    kernels::cuda::product_description what(key(),
                                            {.a = at.data(), .b = at.data(), .d = at.data()});
    std::vector<std::string> out;
    for (int i = 0, n = what.candidates(library, found, 32); i < n; ++i)
      out.push_back(kernels::cuda::text_of(found[i].algo));
    cublasLtDestroy(library);
    return out;
  }
};

/// Sets the product settings for its lifetime.
class product_choosing {
 public:
  explicit product_choosing(const kernels::product_settings& chosen) {
    all_products().configure(chosen);
  }
  ~product_choosing() { all_products().configure({}); }
  product_choosing(const product_choosing&) = delete;
  product_choosing& operator=(const product_choosing&) = delete;
};

class planted_refusal {
 public:
  explicit planted_refusal(const char* fault) { emulator::plant_faults(fault); }
  ~planted_refusal() { emulator::plant_faults(""); }
  planted_refusal(const planted_refusal&) = delete;
  planted_refusal& operator=(const planted_refusal&) = delete;
};

inline std::optional<kernels::product_choice> choice_of(const std::string& name) {
  for (const auto& choice : all_products().choices())
    if (choice.product == name)
      return choice;
  return std::nullopt;
}

}  // namespace troupe::tests
