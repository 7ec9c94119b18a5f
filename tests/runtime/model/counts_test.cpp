#include "runtime/model/counts.hpp"

#include "runtime/data/token_schema.hpp"
#include "runtime/model/chunk.hpp"
#include "tests/support/published_gpts.hpp"
#include "tests/support/two_lengths.hpp"
#include "tests/support/two_streams.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

/// Query-key pairs that attention computes. Megatron-LM counts half the square without a window.
double visible_pairs(double S, double window) {
  const double causal = S * S / 2, back = std::min(window, S - 1);
  return window < 0 ? causal : std::min(causal, S * (back + 1) - back * (back + 1) / 2);
}

/// Width of the products of all feed-forward layers: a row has the chosen and the shared experts.
double all_ffn(const gpt_config& x) {
  const auto with = x.expert_layers();
  const auto sparse = double(std::count(with.begin(), with.end(), true));
  const auto dense = double(x.layers) - sparse;
  return dense * double(x.ffn)
         + sparse * double(x.experts.chosen * x.experts.ffn + x.experts.shared_ffn);
}

/// Megatron-LM's formula for a training step on one sample.
double megatron_flops(const gpt_config& x) {
  const auto h = double(x.hidden), L = double(x.layers), S = double(x.sequence);
  const auto q = double(x.heads * x.head_size), kv = double(x.groups * x.head_size);
  const double products = x.gated ? 3 : 2;
  const double per_token = 6 * h * all_ffn(x) * products + 6 * L * (h * (q + 2 * kv) + q * h)
                           + 6 * h * double(x.padded_vocabulary);
  const double attention = 12 * L * q * visible_pairs(S, double(x.window));  // two products
  return S * per_token + attention;
}

double flops_of(const model_spec& x, double samples = 1) {
  return training_flops(x, token_schema(x.sequence), samples);
}

double flops_of(const gpt_config& x, double samples = 1) {
  return flops_of(gpt_spec(x), samples);
}

/// GPTs of all kinds, with odd and even lengths.
std::vector<gpt_config> many_gpts() {
  std::vector<gpt_config> out
      = {gpt2(12, 768, 12), gpt2(24, 1024, 16), llama3_8b(), mixtral_8x7b(), qwen3_30b_a3b()};
  auto& shared = out.emplace_back(mixtral_8x7b());
  shared.experts.layers = "2";
  shared.experts.shared_ffn = 100;
  auto& gpt3 = out.emplace_back(gpt2(96, 12288, 96));
  gpt3.sequence = 2048;
  gpt3.padded_vocabulary = 51200;
  auto& llama3_405b = out.emplace_back(llama3_8b());
  llama3_405b.layers = 126;
  llama3_405b.hidden = 16384;
  llama3_405b.heads = 128;
  llama3_405b.ffn = 53248;
  for (const auto& [name, tiny] : tiny_gpts(3))
    for (const std::int64_t length : {1, 2, 7, 64})
      for (const std::int64_t window : {-1, 0, 2, 100}) {
        auto& x = out.emplace_back(tiny);
        x.sequence = x.positions = length;
        x.window = window;
      }
  return out;
}

}  // namespace

TEST_CASE("the FLOPs of a step equal Megatron-LM's formula exactly", "[model]") {
  for (const auto& x : many_gpts()) {
    CAPTURE(x.layers, x.hidden, x.sequence, x.window);
    CHECK(flops_of(x) == megatron_flops(x));
    CHECK(flops_of(x, 24) == 24 * megatron_flops(x));
  }
  CHECK(flops_of(gpt2(24, 1024, 16)) == 2326530097152.0);
  CHECK(flops_of(llama3_8b()) == 421645529382912.0);
}

TEST_CASE("the FLOPs of a window count only the pairs inside it", "[model]") {
  auto x = llama3_8b();
  const auto all = flops_of(x);
  x.window = 0;
  const auto own = flops_of(x);
  x.window = 1023;
  const double pairs = 8192.0 * 1024 - 1023.0 * 1024 / 2, per_pair = 12.0 * 32 * 4096;
  CHECK(flops_of(x) == own + per_pair * (pairs - 8192));
  for (const auto wide : {8191, 1 << 20}) {
    x.window = wide;
    CHECK(flops_of(x) == all);
  }
}

TEST_CASE("a replaced feed-forward layer counts as the one that it replaces", "[model]") {
  const auto x = tiny_gpt(2);
  extension own;
  own.name = "mine";
  own.feed_forward = [](module_builder&, const feed_forward_spec&) {};
  CHECK(flops_of(gpt_spec(x, own)) == megatron_flops(x));
}

TEST_CASE("frozen units compute no gradients of parameters", "[model]") {
  auto model = gpt_spec(tiny_gpt(2));
  const auto all = flops_of(model);
  const auto layer = model.units.at(1).module.flops(model.sequence);
  CHECK(layer.activations > 0);
  model.units.at(1).frozen = true;
  CHECK(flops_of(model) == all - layer.parameters);
}

TEST_CASE("the FLOPs of a stream are those of its own rows", "[model]") {
  const auto model = two_lengths();
  auto schema = token_schema(model.sequence);
  schema.tensors.push_back(
      {.name = "patch_positions", .type = dtype::i32, .extents = {patches}, .rows = 0});
  // A layer of hidden size 16 with 4 rows: products with q, k, v and the output; with the two
  // matrices of width 20; and half the square of the rows in two products of attention.
  const double parameters = 2 * 4 * (16 * 48 + 16 * 16 + 2 * 16 * 20), pairs = 4 * 4 / 2.0;
  const auto encoder = model.units.at(1).module.flops(patches);
  CHECK(encoder.parameters == parameters);
  CHECK(encoder.activations == 2 * 2 * 16 * pairs);
  CHECK(training_flops(model, schema, 5)
        == 5 * (megatron_flops(tiny_gpt(2)) + 3 * (parameters + 2 * 2 * 16 * pairs)));
}

TEST_CASE("published models have their published numbers of parameters", "[model]") {
  CHECK(parameter_count(gpt_spec(gpt2(12, 768, 12))) == 124439808);
  CHECK(parameter_count(gpt_spec(gpt2(24, 1024, 16))) == 354823168);
  CHECK(parameter_count(gpt_spec(llama3_8b())) == 8030261248);
}

TEST_CASE("the parameters of a spec and of its configuration are equally many", "[model]") {
  for (const auto& x : many_gpts())
    CHECK(parameter_count(gpt_spec(x)) == parameter_count(x));
  auto x = deepseek_v3();
  CHECK(parameter_count(gpt_spec(x)) == parameter_count(x));
  x.latent.q_rank = 0;
  x.experts.latent = 64;
  x.experts.shared_gate = true;
  x.tied_embeddings = true;
  CHECK(parameter_count(gpt_spec(x)) == parameter_count(x));
}

TEST_CASE("parameters of all units count, those with several uses once", "[model]") {
  const auto model = two_streams();
  const auto& embedding = model.embedding();
  const auto table = embedding.vocabulary * embedding.hidden;
  // A gain for the summary and in each layer; `again` has a tied table and its echo.
  CHECK(parameter_count(model)
        == parameter_count(tiny_gpt(3)) + (1 + 3) * embedding.hidden + table);
  const chunk whole(model, all_of(model));
  std::int64_t built = 0;
  for (const auto& unit : whole.units())
    for (const auto& x : unit.parameters)
      built += x.tied_to.empty() ? whole_extents(x).size() : 0;
  CHECK(parameter_count(model) == built);
}
