// A worker updates a parameter from statistics of all passes of a step.

#include "runtime/trainer/worker.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;

namespace {

constexpr std::int64_t E = 4;

/// Adds the number of the pass to the sums of all experts.
struct numbered final : node {
  int parameter;
  float number;

  numbered(int which, float value) : parameter(which), number(value) {}
  void input_gradients(tape&) override {}
  void weight_gradients(tape& tape) override {
    float* const to = tape.gradient(parameter);
    tape.stream().run([&] { std::for_each(to, to + E, [this](float& x) { x += number; }); });
  }
};

extension block(const std::shared_ptr<int>& passes) {
  return {.name = "balanced",
          .feed_forward = [passes](module_builder& to, const feed_forward_spec&) {
            const int weight
                = to.add({.name = "weight", .extents = {E}, .initial = distribution::normal(0.1)});
            const int cutoffs = to.add({.name = "cutoffs",
                                        .extents = {E},
                                        .initial = distribution::constant(1),
                                        .keep_f32 = true,
                                        .counted = {statistic::kind::quantile, 0.5}});
            to.segment("add", [=](tape& tape, pass&) {
              tape.record(std::make_unique<numbered>(weight, 1.0F));
              tape.record(std::make_unique<numbered>(cutoffs, float(++*passes)));
            });
          }};
}

}  // namespace

TEST_CASE("a parameter of statistics gets their mean over the passes of a step", "[trainer]") {
  const auto type = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  const auto passes = std::make_shared<int>(0);
  const auto model = tests::tiny_gpt(1);
  stream stream(kernels::backend::cpu, 1, {});
  worker by({.model = gpt_spec(model, block(passes)),
             .chunks = {{chunk_id(0), {0, 3}}},
             .precision = type},
            stream);
  const std::string name = "decoder.layers.0.mlp.cutoffs";
  by.begin_step({.step = step_id(1), .microbatches = 3});
  for (std::uint32_t m = 0; m < 3; ++m) {
    const pass_key key{0, chunk_id(0), microbatch_id(m)};
    by.forward(key, tests::tiny_batch(stream, model, 2, m, true));
    by.backward(key, {});
  }
  by.reduce();
  const auto norms = by.norms();
  CHECK_FALSE(norms.contains(name));
  CHECK(norms.contains("decoder.layers.0.mlp.weight"));
  by.update({.step = 1, .learning_rate = 0.1});
  int found = 0;
  for (const auto& x : by.parameters())
    if (x.name == name) {
      ++found;  // (1 + 2 + 3) / 3 is the mean
      CHECK(std::vector(x.elements.begin(), x.elements.end()) == std::vector<float>(E, 1.5F));
    }
  CHECK(found == 1);
  for (const auto& x : by.moments())
    CHECK(x.name.find("cutoffs") == std::string::npos);
}
