// flops() and bytes_moved() compared with hand counts at one small size; a float has 4 bytes.

#include "kernels/op/extents.hpp"
#include "kernels/op/grouped_linear.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_adapters.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::bytes_moved;
using kernels::extents_of;
using kernels::flops;
using kernels::workspace_bytes;

TEST_CASE("the counts of a linear layer are right", "[kernels][reference][counts]") {
  linear_memory<float> t{.R = 2, .N = 3, .K = 4};
  CHECK(flops(t.forward()) == 24 * 2 + 6);
  CHECK(flops(t.backward_input()) == 24 * 2);
  CHECK(flops(t.backward_weight()) == 24 * 2 + 6);
  CHECK(bytes_moved(t.forward()) == 4 * (8 + 12 + 6 + 6 + 3));      // x, weight, y, z, bias
  CHECK(bytes_moved(t.backward_input()) == 4 * (6 + 12 + 8));       // dz, weight, dx
  CHECK(bytes_moved(t.backward_weight()) == 4 * (6 + 8 + 24 + 6));  // sums are read and written
  t.with_bias = t.with_z = false;
  CHECK(flops(t.forward()) == 48);
  CHECK(flops(t.backward_weight()) == 48);
  CHECK(bytes_moved(t.forward()) == 4 * (8 + 12 + 6));
  CHECK(bytes_moved(t.backward_weight()) == 4 * (6 + 8 + 24));
}

TEST_CASE("gradient sums are counted with their own element size", "[kernels][reference][counts]") {
  linear_memory<double> t{.R = 2, .N = 3, .K = 4};
  CHECK(bytes_moved(t.backward_weight()) == 8 * (6 + 8 + 24 + 6));
  linear_memory<kernels::bf16> half{.R = 2, .N = 3, .K = 4};
  CHECK(bytes_moved(half.backward_weight()) == 2 * (6 + 8) + 4 * (24 + 6));
}

TEST_CASE("the counts of attention include only visible pairs", "[kernels][reference][counts]") {
  attention_memory<float> t{.H = 2, .G = 1, .D = 4, .query_lengths = {2, 1}, .key_lengths = {3, 1}};
  CHECK(attention_pairs(t.shape()) == 2 + 3 + 1);
  CHECK(flops(t.forward()) == 6 * 2 * (2 * 2 * 4));                   // pairs, heads, two products
  CHECK(flops(t.backward()) == 6 * 2 * (5 * 2 * 4));                  // five
  CHECK(bytes_moved(t.forward()) == 4 * (2 * 24 + 2 * 16) + 4 * 6);   // q, o; k, v; lse
  CHECK(bytes_moved(t.backward()) == 4 * (4 * 24 + 4 * 16) + 4 * 6);  // q, o, do, dq; k, v, dk, dv
  t.causal = false;
  CHECK(attention_pairs(t.shape()) == 3 + 3 + 1);
  t.window = 0;  // ignored without causality
  CHECK(attention_pairs(t.shape()) == 3 + 3 + 1);
}

TEST_CASE("the counts of attention include the head size of its values",
          "[kernels][reference][counts]") {
  attention_memory<float> t{
      .H = 2, .G = 1, .D = 4, .Dv = 3, .query_lengths = {2, 1}, .key_lengths = {3, 1}};
  CHECK(flops(t.forward()) == 6 * 2 * 2 * (4 + 3));
  CHECK(flops(t.backward()) == 6 * 2 * 2 * (3 * 4 + 2 * 3));
  CHECK(bytes_moved(t.forward()) == 4 * (24 + 18 + 16 + 12) + 4 * 6);       // q, o, k, v; lse
  CHECK(bytes_moved(t.backward()) == 4 * 2 * (24 + 18 + 16 + 12) + 4 * 6);  // and their gradients
  CHECK(extents_of(t.forward()).find("D 4 ") != std::string::npos);
  CHECK(extents_of(t.forward()).ends_with("Dv 3"));
}

TEST_CASE("equal-length sequences are counted without reading arrays",
          "[kernels][reference][counts]") {
  const auto [T, keys] = GENERATE(table<std::int32_t, std::int32_t>({{1, 1}, {5, 5}, {3, 7}}));
  attention_memory<float> t{
      .H = 2, .G = 1, .D = 4, .query_lengths = {T, T}, .key_lengths = {keys, keys}};
  t.causal = GENERATE(true, false);
  t.window = GENERATE(-1, 0, 2, 100);
  auto shape = t.shape();
  for (std::int32_t i = 0; i < 2 * T; ++i)
    t.query_position[std::size_t(i)] = i % T;
  const auto pairs = attention_pairs(shape);
  shape.longest_query = T;
  shape.longest_key = keys;
  shape.uniform = true;
  CHECK(attention_pairs(shape) == pairs);
  CHECK(!reads_arrays(shape));
}

TEST_CASE("attention counts only pairs within its window", "[kernels][reference][counts]") {
  attention_memory<float> t{.H = 2, .G = 1, .D = 4, .query_lengths = {5, 2}, .key_lengths = {5, 9}};
  const auto pairs = [&t](std::int32_t window) {
    t.window = window;
    return attention_pairs(t.shape());
  };
  CHECK(pairs(0) == 5 + 2);
  CHECK(pairs(2) == 1 + 2 + 3 * 3 + 2 * 3);
  CHECK(pairs(100) == pairs(-1));
  CHECK(pairs(-1) == 15 + 8 + 9);
  t.key_position[4] = 100;  // the last key is visible to no query; the window ends before it
  CHECK(pairs(0) == 4 + 2);
}

TEST_CASE("the extents of a product of experts name experts and groups", "[kernels][counts]") {
  const kernels::grouped_linear_forward<float> op{
      .groups = {.G = 4}, .R = 6, .E = 3, .N = 2, .K = 5};
  CHECK(extents_of(op) == "R 6 N 2 K 5 E 3 groups 4");
}

TEST_CASE("the counts of a norm are right", "[kernels][reference][counts]") {
  norm_memory<float> t{.R = 2, .C = 3};
  CHECK(flops(t.forward()) == 6 * 7);
  CHECK(flops(t.backward_input()) == 6 * 9);
  CHECK(flops(t.backward_weight()) == 6 * 5);
  CHECK(bytes_moved(t.forward()) == 4 * (6 + 6 + 3 + 3) + 16);  // x, y, gain, bias; statistics
  CHECK(bytes_moved(t.backward_input()) == 4 * (6 + 6 + 6 + 3) + 16);  // x, dy, dx, gain
  CHECK(bytes_moved(t.backward_weight()) == 4 * (6 + 6 + 6 + 6) + 16);
  t.with_residual = true;
  CHECK(bytes_moved(t.backward_input()) == 4 * (6 + 6 + 6 + 6 + 3) + 16);
  t.kind = kernels::normalization::rms;
  CHECK(flops(t.forward()) == 6 * 4);
  CHECK(flops(t.backward_input()) == 6 * 7);
  CHECK(flops(t.backward_weight()) == 6 * 3);
  CHECK(bytes_moved(t.forward()) == 4 * (6 + 6 + 3) + 16);
  CHECK(bytes_moved(t.backward_weight()) == 4 * (6 + 6 + 6) + 16);
}

TEST_CASE("the counts of an activation are right", "[kernels][reference][counts]") {
  activation_memory<float> gelu{.R = 2, .N = 3, .kind = kernels::activation::gelu_tanh};
  CHECK(flops(gelu.forward()) == 6 * 12);
  CHECK(flops(gelu.backward()) == 6 * 24);
  CHECK(bytes_moved(gelu.forward()) == 4 * (6 + 6));
  CHECK(bytes_moved(gelu.backward()) == 4 * (6 + 6 + 6));
  activation_memory<float> swiglu{.R = 2, .N = 3, .kind = kernels::activation::silu, .gated = true};
  CHECK(flops(swiglu.forward()) == 6 * 6);
  CHECK(flops(swiglu.backward()) == 6 * 12);
  CHECK(bytes_moved(swiglu.forward()) == 4 * (12 + 6));
  CHECK(bytes_moved(swiglu.backward()) == 4 * (12 + 6 + 12));
}

TEST_CASE("the counts of rope are right", "[kernels][reference][counts]") {
  rope_memory<float> t{.R = 2, .G = 1, .heads = 2, .D = 4, .rotated = 2};
  CHECK(flops(t.turn()) == 4 * 6);                  // four pairs: four products and two sums
  CHECK(bytes_moved(t.turn()) == 4 * (8 + 8 + 2));  // read, written, positions
}

TEST_CASE("the counts of an embedding are right", "[kernels][reference][counts]") {
  embedding_memory<float> t{.R = 3, .C = 2, .V = 5, .P = 4};
  CHECK(flops(t.forward()) == 6);
  CHECK(flops(t.backward()) == 6 + 6);
  CHECK(bytes_moved(t.forward()) == 4 * (6 + 6 + 6 + 3 + 3));     // two tables, y, two indices
  CHECK(bytes_moved(t.backward()) == 4 * (6 + 12 + 12 + 3 + 3));  // sums are read and written
  t.with_positions = false;
  CHECK(flops(t.forward()) == 0);
  CHECK(flops(t.backward()) == 6);
  CHECK(bytes_moved(t.forward()) == 4 * (6 + 6 + 3));
  CHECK(bytes_moved(t.backward()) == 4 * (6 + 12 + 3));
}

TEST_CASE("the counts of cross-entropy exclude untouched padding", "[kernels][reference][counts]") {
  cross_entropy_memory<float> t{.R = 2, .V = 5, .vocabulary = 4};
  CHECK(flops(t.forward()) == 8 * 4);
  CHECK(flops(t.backward()) == 8 * 4);
  CHECK(bytes_moved(t.forward()) == 4 * (8 + 2 + 2 + 2));        // logits, target, loss, lse
  CHECK(bytes_moved(t.backward()) == 4 * (8 + 10 + 2 + 2 + 2));  // padding gets zeros
  CHECK(flops(t.both_passes()) == 2 * 8 * 4);
  CHECK(bytes_moved(t.both_passes()) == 4 * (8 + 10 + 2 + 2 + 2 + 2));  // logits once, dloss
}

TEST_CASE("the counts of a masked loss are right", "[kernels][reference][counts]") {
  masked_loss_memory<float> t{.R = 5};
  CHECK(flops(t.forward()) == 5 * 3);  // product, two sums
  CHECK(bytes_moved(t.forward()) == 4 * (5 + 5));
  auto tokens = t.forward();
  tokens.total = nullptr;
  CHECK(flops(tokens) == 5);
  CHECK(bytes_moved(tokens) == 4 * 5);  // no loss is read
  CHECK(flops(t.backward()) == 5);
  CHECK(bytes_moved(t.backward()) == 4 * (5 + 5));
}

TEST_CASE("the counts of dropout are right", "[kernels][reference][counts]") {
  dropout_memory<float> t{.sequences = 1, .T_ = 2, .C = 3};
  CHECK(flops(t.forward()) == 6 + 6);
  CHECK(flops(t.backward()) == 6);
  CHECK(bytes_moved(t.forward()) == 4 * (6 + 6 + 6));
  CHECK(bytes_moved(t.backward()) == 4 * (6 + 6));
  t.with_bias = true;
  CHECK(flops(t.forward()) == 6 + 6 + 6);
  t.with_bias = t.with_residual = false;
  t.p = 0;
  CHECK(flops(t.forward()) == 0);
  CHECK(flops(t.backward()) == 0);
  CHECK(bytes_moved(t.forward()) == 4 * (6 + 6));
}

TEST_CASE("the counts of sums are right", "[kernels][reference][counts]") {
  sum_memory<float> t{.n = 5};
  CHECK(flops(t.add()) == 5);
  CHECK(bytes_moved(t.add()) == 4 * (5 + 5 + 5));
  CHECK(flops(t.ordered_sum()) == 5 * 3);  // two sums and the scale
  CHECK(bytes_moved(t.ordered_sum()) == 4 * (15 + 5));
  CHECK(flops(t.square_norm()) == 5 * 2);
  CHECK(bytes_moved(t.square_norm()) == 4 * 5);
  CHECK(workspace_bytes(t.square_norm(), 1) == 8);
  t.n = 4097;
  CHECK(workspace_bytes(t.square_norm(), 4) == 16);
}

TEST_CASE("the counts of AdamW are right", "[kernels][reference][counts]") {
  adamw_memory<float> t{.n = 5};
  // 1 scaled gradient, 3 and 4 for the moments, 1 decay, 4 for the quotient and root, 2 for the
  // update
  CHECK(flops(t.step()) == 5 * (1 + 3 + 4 + 1 + 4 + 2));
  CHECK(bytes_moved(t.step()) == 4 * 5 * 7);  // x, m, v read and written, dx read
  t.rounded.resize(5);
  CHECK(bytes_moved(t.step()) == 4 * 5 * 7 + 2 * 5);
}

TEST_CASE("sampling declares scratch for one pair per vocabulary entry",
          "[kernels][reference][counts]") {
  sample_memory<float> t{.logits = {1, 2, 3}};
  CHECK(workspace_bytes(t.draw(), 1) == 3 * 16);
}
