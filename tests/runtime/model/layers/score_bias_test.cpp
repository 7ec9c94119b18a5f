// Biases of scores by distance, and attention to another stream.

#include "runtime/model/layers/score_bias.hpp"

#include "runtime/model/chunk.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/crossing_gpt.hpp"
#include "tests/support/documents.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

std::vector<std::int32_t> buckets(const relative_bias_spec& x,
                                  const std::vector<std::int64_t>& distances) {
  std::vector<std::int32_t> out;
  for (const auto distance : distances)
    out.push_back(relative_bucket(x, distance));
  return out;
}

attention_spec& decoder_attention(model_spec& of) {
  return *of.part<layer_spec>(1)
              .sublayers.at(0)
              .get_if<residual_sublayer>()
              ->body.get_if<attention_spec>();
}

}  // namespace

TEST_CASE("buckets of distances are those of T5", "[model]") {
  using all = std::vector<std::int32_t>;
  // Computed by hand from the formula, away from its borders: 8 + floor(8 ln(x / 8) / ln 16).
  CHECK(buckets({.buckets = 32, .most = 128, .both_ways = true},
                {0, -1, -7, -8, -11, -12, -20, -40, -100, -128, -1000, 1, 7, 8, 12, 1000})
        == all{0, 1, 7, 8, 8, 9, 10, 12, 15, 15, 15, 17, 23, 24, 25, 31});
  // 16 + floor(16 ln(x / 16) / ln 8).
  CHECK(
      buckets({.buckets = 32, .most = 128}, {0, 5, 1000, -1, -15, -16, -20, -50, -127, -128, -500})
      == all{0, 0, 0, 1, 15, 16, 17, 24, 31, 31, 31});
  // At the borders rounding decides: T5Attention._relative_position_bucket of transformers 5.24.0.
  CHECK(buckets({.buckets = 32, .most = 128, .both_ways = true},
                {-64, -46, -45, -32, -23, -22, -16, -15, 15, 16, 22, 23, 32, 45, 46, 64, 90, 91})
        == all{14, 13, 12, 12, 11, 10, 10, 9, 25, 26, 26, 27, 28, 28, 29, 30, 30, 31});
  CHECK(buckets({.buckets = 32, .most = 128},
                {-113, -112, -64, -63, -32, -31, -24, -23, -22, -21, -19, -18})
        == all{31, 30, 26, 26, 21, 21, 19, 18, 18, 18, 17, 16});
}

TEST_CASE("ALiBi's slopes fall geometrically, and other numbers of heads interleave", "[model]") {
  CHECK(alibi_slopes(4) == std::vector<float>{0x1p-2F, 0x1p-4F, 0x1p-6F, 0x1p-8F});
  CHECK(alibi_slopes(6)
        == std::vector<float>{0x1p-2F, 0x1p-4F, 0x1p-6F, 0x1p-8F, 0x1p-1F, 0x1p-3F});
}

TEST_CASE("LAYER-2: biases come from ALiBi, or from two buckets or more per direction", "[model]") {
  const auto build = [](const model_spec& model) { const chunk whole(model, all_of(model)); };
  auto model = crossing_gpt();
  build(model);
  auto& of = decoder_attention(model);
  for (const relative_bias_spec& wrong : {relative_bias_spec{.buckets = 1},
                                          relative_bias_spec{.buckets = 3, .both_ways = true},
                                          relative_bias_spec{.buckets = 8, .most = 4}}) {
    of.relative_bias = wrong;
    CHECK_BREAKS("LAYER-2", build(model));
  }
  of.relative_bias = relative_bias_spec{};
  of.alibi = true;
  CHECK_BREAKS("LAYER-2", build(model));
}

TEST_CASE("attention computes no gradient for a frozen table", "[model]") {
  const bool frozen = GENERATE(false, true);
  stream on(kernels::backend::cpu, 1, {});
  resident_store store({{"unit", {{.name = "table", .extents = {8, 2}, .frozen = frozen}}}}, 1, {});
  tape graph(on, store, {});
  graph.begin_segment(0);
  const auto bucket = uploaded(on, std::vector<std::int32_t>{1, 0}, {2});
  const auto bias = relative_bias(graph, 0, {8, 2}, bucket, -1);
  graph.end_segment();
  CHECK((bias.values.gradient == nullptr) == frozen);
}

TEST_CASE("cuts between layers change no bit of cross-attention", "[model]") {
  const auto model = crossing_gpt(GENERATE(false, true));
  stream stream(kernels::backend::cpu, 1, {});
  stages whole(model, 1, stream), parts(model, GENERATE(2, 4), stream);
  const auto in = tiny_batch(stream, model, 2, 3);
  const pass_settings settings{.seed = 9, .step = 4};
  const auto loss = mean(whole.forward_backward(0, in, settings));
  CHECK(mean(parts.forward_backward(0, in, settings)) == loss);
  CHECK(parts.gradients() == whole.gradients());
}

TEST_CASE("recomputation changes no bit of cross-attention", "[model]") {
  const auto granularity = GENERATE(recompute_granularity::selective, recompute_granularity::full);
  const auto model = crossing_gpt();
  stream stream(kernels::backend::cpu, 1, {});
  stages kept(model, 2, stream), recomputed(model, 2, stream, {.granularity = granularity});
  const auto in = tiny_batch(stream, model, 2, 3);
  const pass_settings settings{.seed = 9, .step = 4};
  const auto loss = mean(kept.forward_backward(0, in, settings));
  CHECK(mean(recomputed.forward_backward(0, in, settings)) == loss);
  CHECK(recomputed.gradients() == kept.gradients());
}

TEST_CASE("queries do not see the padding of the other stream", "[model]") {
  const auto model = crossing_gpt();
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  stream stream(where, 1, {});
  stages of(model, 1, stream);
  const auto T = std::int32_t(model.sequence), P = std::int32_t(patches);
  const std::int32_t rows = 3, keys = 2;  // without padding
  const auto loss = [&](std::int32_t changed_patch, std::int32_t changed_token) {
    auto in = tiny_batch(stream, model, 1, 3);
    add_documents(in, {0, rows, T}, {30, 30});
    in.add(encoder_borders, filled<std::int32_t>(stream, {3}, [&](auto i) {
             return i == 0 ? 0 : i == 1 ? keys : P;
           }));
    auto mask = in.at("mask");
    for (std::int32_t t = rows; t < T; ++t)
      mask.data<float>()[t] = 0;
    auto x = in.at("patches");
    if (changed_patch >= 0)
      x.data<float>()[changed_patch * x.extents()[2]] += 1;
    auto tokens = in.at("tokens");
    if (changed_token >= 0)
      tokens.data<std::int32_t>()[changed_token]
          = (tokens.data<std::int32_t>()[changed_token] + 1) % 5;
    return mean(of.forward(0, in, {.training = false}));
  };
  const auto expected = loss(-1, -1);
  CHECK(loss(keys, -1) == expected);
  CHECK(loss(-1, rows) == expected);
  CHECK(loss(keys - 1, -1) != expected);
  CHECK(loss(-1, rows - 1) != expected);
}

TEST_CASE("FLOPs of attention in both directions count all pairs", "[model]") {
  attention_spec x{.hidden = 8, .heads = 2, .groups = 2, .head_size = 4};
  const auto half = forward_flops(x, 10).activations;
  x.causal = false;
  CHECK(forward_flops(x, 10).activations == 2 * half);
}
