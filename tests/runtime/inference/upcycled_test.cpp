// Logits of upcycled models before their first step.

#include "runtime/checkpoint/upcycled.hpp"

#include "runtime/inference/score.hpp"
#include "tests/support/dense_checkpoint.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

using enum troupe::kernels::activation;

using reading = std::function<void(const upcycled_parameters::shard&)>;

std::vector<float> logits(const gpt_config& c, const reading& read) {
  stream on(troupe::kernels::backend::cpu, 1, memory_pool());
  auto model = gpt_spec(c);
  const auto range = all_of(model);
  const chunk all(std::move(model), range);
  resident_store store(all.units(), 0, on.pool());
  for (const auto& e : store.entries()) {
    if (e.owner >= 0)
      continue;
    std::vector<float> values(std::size_t(e.valid));
    read({e.spec.name, whole_extents(e.spec), e.boxes.front(), values});
    store.set(e, 0, values);
  }
  const std::int32_t tokens[] = {3, 1, 4, 1, 5, 9};
  return logits_of(all, store, on, tokens);
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double out = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    out = std::max(out, std::abs(double(a[i]) - double(b[i])));
  return out;
}

reading from(const checkpoint_reader& dense) {
  return [&](const auto& to) { dense.read(to.name, to.part, to.elements); };
}
reading from(const upcycled_parameters& all, const checkpoint_reader& dense) {
  return [&](const auto& to) { all.read(dense, to); };
}

/// All three choices have weights that add up to 1: of the slices of one layer, or of all experts.
gpt_config choosing(gpt_config c, const std::string& how) {
  if (how != "slices of one layer")
    c.experts.chosen = c.experts.number;
  c.experts.pre_softmax = how == "all, softmax before the choice";
  if (how == "all, sigmoid")
    c.experts.score = "sigmoid";
  return c;
}

}  // namespace

TEST_CASE("an upcycled model computes what its dense model computes", "[inference]") {
  // One slice of any activation, and any number of slices of a homogeneous one.
  const auto [kind, G]
      = GENERATE(table<troupe::kernels::activation, std::int64_t>({{gelu_tanh, 1},
                                                                   {gelu_erf, 1},
                                                                   {silu, 1},
                                                                   {squared_relu, 1},
                                                                   {squared_relu, 2},
                                                                   {squared_relu, 4}}));
  const std::string how = GENERATE(as<std::string>{},
                                   "slices of one layer",
                                   "all, softmax of the chosen",
                                   "all, softmax before the choice",
                                   "all, sigmoid");
  CAPTURE(int(kind), G, how);
  const scratch_folder folder;
  const auto dense = tiny_dense(kind);
  const checkpoint_reader saved(save_dense(folder.path(), dense));
  const auto sparse = choosing(with_slices(dense, G), how);
  const upcycled_parameters upcycled(sparse, G, 11);
  // Logits are below 4, and sums have another order: a few roundings of 2.4e-7.
  CHECK(largest_difference(logits(sparse, from(upcycled, saved)), logits(dense, from(saved)))
        < 2e-5);
}

TEST_CASE("for small inputs the factor also keeps what gated and GELU layers compute",
          "[inference]") {
  const auto kind = GENERATE(gelu_tanh, silu);
  const std::int64_t G = GENERATE(2, 4);
  CAPTURE(int(kind), G);
  const scratch_folder folder;
  const auto dense = tiny_dense(kind);
  const float small = 1e-3F, large = kind == silu ? 1e6F : 1e3F;
  const checkpoint_reader saved(
      save_dense(folder.path(), dense, [&](const std::string& name, std::span<float> values) {
        const bool first = name.ends_with("linear_fc1.weight");
        if (first || name.ends_with("linear_fc2.weight"))
          for (auto& x : values)
            x *= first ? small : large;
      }));
  const auto sparse = with_slices(dense, G);
  const upcycled_parameters upcycled(sparse, G, 11);
  const auto expected = logits(dense, from(saved));
  // silu(x) and gelu(x) are x / 2 up to a share of x, which is below 0.006 here.
  CHECK(largest_difference(logits(sparse, from(upcycled, saved)), expected) < 1e-2);
  const auto factor = float(dense_origin_of(sparse, G).factor);
  CHECK(largest_difference(logits(sparse,
                                  [&](const auto& to) {
                                    upcycled.read(saved, to);
                                    if (to.name.find(".experts.") != std::string::npos)
                                      for (auto& x : to.elements)
                                        x /= factor;
                                  }),
                           expected)
        > 5e-2);
}
