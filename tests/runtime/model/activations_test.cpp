// Memory that a layer holds from its forward to its backward pass, compared with a formula.

#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

// The pool does not round these sizes.
constexpr std::int64_t B = 2, T = 32, C = 64, H = 4, F = 128;

gpt_config of_kind(bool llama, std::int64_t layers, bool dropout) {
  auto c = tiny_gpts(layers).at(llama ? "rope, rms norm, swiglu, no biases, untied, 2 groups"
                                      : "learned, layer norm, gelu tanh, biases, tied, dropout");
  c.hidden = C;
  c.heads = H;
  c.groups = llama ? H / 2 : H;
  c.head_size = C / H;
  c.ffn = F;
  c.sequence = c.positions = T;
  c.hidden_dropout = c.attention_dropout = dropout ? 0.1 : 0;
  return c;
}

/// Bytes of a layer's activations, with elements of `element` bytes. They are: the residual stream
/// before attention and before the feed-forward block, the results of both norms, the product of
/// queries, keys and values, the result of attention, and both sides of the activation. Only
/// statistics are in f32; there is no dropout mask and no output of a projection.
std::int64_t by_hand(bool llama, std::int64_t element) {
  const std::int64_t rows = B * T;
  const std::int64_t products = llama ? C + 2 * C / 2 : 3 * C;
  const std::int64_t both_sides = llama ? 3 * F : 2 * F;
  const std::int64_t statistics = 2 * 2 * rows, log_sum_exp = rows * H;
  return rows * (2 * C + 2 * C + products + C + both_sides) * element
         + (statistics + log_sum_exp) * 4;
}

}  // namespace

TEST_CASE("a layer keeps what its gradients need, and frees it with its weight gradients",
          "[model][memory]") {
  const bool llama = GENERATE(false, true), rounded = GENERATE(false, true);
  const bool dropout = GENERATE(false, true);
  CAPTURE(llama, rounded, dropout);
  constexpr std::int64_t layers = 4;
  const auto type = rounded ? dtype::bf16 : dtype::f32;
  memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  const chunk model(gpt_spec(of_kind(llama, layers, dropout)), {0, layers + 2});
  const recompute_plan plan(model, {});
  resident_store store(model.units(), 1, pool, type);
  initialise(store, 1);
  const auto in = tiny_batch(stream, model.model(), B, 1);
  std::vector<std::int64_t> live;  // after the weight gradients of each unit
  store.on_emit([&](int) { live.push_back(std::int64_t(pool.bytes_in_use())); });
  for (int i = 0; i < 2; ++i) {  // the first time allocates the scratch
    live.clear();
    const auto before = std::int64_t(pool.bytes_in_use());
    pool.reset_peak();
    chunk_pass pass(model, plan, stream, store, {});
    pass.forward(in);
    const auto recorded = std::int64_t(pool.bytes_in_use());
    pass.backward(0);
    // Each layer frees all its activations, from the head to the embedding.
    REQUIRE(live.size() == layers + 2);
    if (i == 0)
      continue;
    const auto each = by_hand(llama, std::int64_t(size_of(type)));
    for (std::size_t l = 1; l <= layers - 1; ++l)
      CHECK(live[l] - live[l + 1] == each);
    CHECK(recorded - before > layers * each);
    // The logits, which share memory with their gradient, and the input of the last norm; the rest
    // is small.
    const auto logits
        = B * T * model.model().embedding().padded_vocabulary * std::int64_t(size_of(type));
    CHECK(recorded - before < layers * each + logits + 4 * B * T * C * 4);
    CHECK(std::int64_t(pool.peak_bytes()) - before < (layers + 1) * each + 2 * logits);
  }
}
