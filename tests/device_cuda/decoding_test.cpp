// Tests of decoding on a device: the text equals that of the CPU.

#include "runtime/device/backend_kind.hpp"
#include "runtime/inference/generator.hpp"
#include "runtime/inference/score.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/emulated_plugins.hpp"
#include "tests/support/latent_gpt.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

struct loaded {
  loaded(const model_spec& of, backend_kind where)
      : stream(where, 1, {}), model(of, all_of(of)), store(model.units(), 1, stream.pool()) {
    initialise(store, 1234);
  }

  std::vector<std::int32_t> text(bool cached) {
    const generation_request what{.prompt = {1, 2, 3}, .tokens = 6, .sampling = {.top_k = 1}};
    std::vector<std::int32_t> out;
    generate(
        model,
        store,
        stream,
        {&what, 1},
        [&](std::size_t, std::int32_t token) {
          out.push_back(token);
          return true;
        },
        cached);
    return out;
  }

  troupe::runtime::stream stream;
  chunk model;
  resident_store store;
};

void check_text(const model_spec& model) {
  loaded here(model, backend_kind::cpu), there(model, backend_kind::cuda);
  const auto expected = here.text(true);
  CHECK(there.text(true) == expected);
  CHECK(there.text(false) == expected);
}

}  // namespace

TEST_CASE("a device and the CPU decode the same text, with and without a KV cache", "[device]") {
  const auto [name, config] = GENERATE(from_range(tiny_gpts(2)));
  CAPTURE(name);
  check_text(gpt_spec(config));
}

TEST_CASE("a device and the CPU decode the same text with latent attention", "[device]") {
  const bool low_rank = GENERATE(false, true), caches_latents = GENERATE(false, true);
  CAPTURE(low_rank, caches_latents);
  check_text(latent_gpt(low_rank, 0, caches_latents));
}

TEST_CASE("a text has the same log-likelihood on a device and on the CPU", "[device]") {
  const auto model = gpt_spec(tiny_gpts(2).begin()->second);
  loaded here(model, backend_kind::cpu), there(model, backend_kind::cuda);
  const std::vector<std::int32_t> text{1, 5, 2, 7, 3, 3, 9, 4, 0, 6, 8};
  const auto expected = surprise(here.model, here.store, here.stream, text, 2, {});
  CHECK(surprise(there.model, there.store, there.stream, text, 2, {})
        == Catch::Approx(expected).epsilon(1e-5));
}
