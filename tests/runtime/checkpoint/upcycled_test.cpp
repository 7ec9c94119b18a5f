#include "runtime/checkpoint/upcycled.hpp"

#include "runtime/core/error.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/dense_checkpoint.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

using enum troupe::kernels::activation;

constexpr std::uint64_t seed_of_drawn = 11;

std::vector<parameter_entry> parameters_of(const gpt_config& c, const axis_ranks& ranks = {}) {
  auto model = gpt_spec(c);
  const auto range = all_of(model);
  const chunk all(std::move(model), range);
  return entries_of(all.units(), ranks);
}

const parameter_entry& named(const std::vector<parameter_entry>& all, const std::string& name) {
  return *std::find_if(all.begin(), all.end(), [&](const auto& x) { return x.spec.name == name; });
}

/// The elements of one box after another.
std::vector<float> read(const upcycled_parameters& from,
                        const checkpoint_reader& dense,
                        const parameter_spec& x,
                        const std::vector<box>& boxes) {
  std::vector<float> out;
  for (const auto& part : boxes) {
    std::vector<float> values(std::size_t(part.size()));
    from.read(dense, {x.name, whole_extents(x), part, values});
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

std::vector<float> all_of_tensor(const checkpoint_reader& from, const std::string& name) {
  std::vector<float> out(std::size_t(from.extents(name).size()));
  from.read(name, out);
  return out;
}

double factor_of(const gpt_config& c, std::int64_t granularity) {
  return dense_origin_of(c, granularity).factor;
}

}  // namespace

TEST_CASE("weights of upcycled experts have Megatron-LM's factor", "[checkpoint]") {
  const auto with = [](troupe::kernels::activation kind, std::int64_t granularity) {
    return with_slices(tiny_dense(kind), granularity);
  };
  CHECK(factor_of(with(silu, 1), 1) == 1);
  CHECK_THAT(factor_of(with(silu, 4), 4), WithinRel(std::cbrt(4.0)));
  CHECK_THAT(factor_of(with(squared_relu, 2), 2), WithinRel(std::cbrt(2.0)));
  CHECK_THAT(factor_of(with(gelu_tanh, 2), 2), WithinRel(std::sqrt(2.0)));
  auto before_choice = with(gelu_erf, 2);  // (8 / 2) * 2 * 2 / 2
  before_choice.experts.pre_softmax = true;
  CHECK_THAT(factor_of(before_choice, 2), WithinRel(std::sqrt(8.0)));
}

TEST_CASE("an upcycled expert is a slice of the dense layer, for any ranks", "[checkpoint]") {
  const auto kind = GENERATE(silu, gelu_tanh);
  const std::int64_t G = GENERATE(1, 2, 4);
  CAPTURE(int(kind), G);
  const scratch_folder folder;
  const auto dense = tiny_dense(kind);
  const checkpoint_reader from(save_dense(folder.path(), dense));
  const auto sparse = with_slices(dense, G);
  const upcycled_parameters upcycled(sparse, G, seed_of_drawn);
  const auto factor = float(factor_of(sparse, G));
  const auto C = dense.hidden, F = dense.ffn, f = F / G, E = sparse.experts.number;
  const std::string mlp = "decoder.layers.1.mlp.";
  const auto fc1 = all_of_tensor(from, mlp + "linear_fc1.weight"),
             fc2 = all_of_tensor(from, mlp + "linear_fc2.weight");
  std::vector<float> fc1_of_experts, fc2_of_experts;
  for (std::int64_t e = 0; e < E; ++e) {
    const auto slice = e % G * f;
    for (std::int64_t row = 0; row < std::int64_t(fc1.size()) / C / G; ++row)
      for (std::int64_t c = 0; c < C; ++c)
        fc1_of_experts.push_back(factor
                                 * fc1[std::size_t((row / f * F + slice + row % f) * C + c)]);
    for (std::int64_t c = 0; c < C; ++c)
      for (std::int64_t column = 0; column < f; ++column)
        fc2_of_experts.push_back(factor * fc2[std::size_t(c * F + slice + column)]);
  }
  const auto whole_model = parameters_of(sparse);
  for (const auto& [name, expected] :
       {std::pair(mlp + "experts.linear_fc1.weight", fc1_of_experts),
        std::pair(mlp + "experts.linear_fc2.weight", fc2_of_experts)}) {
    CAPTURE(name);
    const auto& all = named(whole_model, name);
    CHECK(read(upcycled, from, all.spec, all.boxes) == expected);
    for (const int expert : {1, 2})
      for (const int tensor : {1, 2})
        for (int rank = 0; rank < expert * tensor; ++rank) {
          axis_ranks ranks;
          ranks[axis::expert] = {rank / tensor, expert};
          ranks[axis::expert_tensor] = {rank % tensor, tensor};
          const auto shards = parameters_of(sparse, ranks);
          const auto& shard = named(shards, name);
          CAPTURE(expert, tensor, rank);
          std::vector<float> part;
          for (const auto& x : shard.boxes) {
            std::vector<float> values(std::size_t(x.size()));
            copy_common(all.boxes.front(), expected.data(), x, values.data(), sizeof(float));
            part.insert(part.end(), values.begin(), values.end());
          }
          CHECK(read(upcycled, from, shard.spec, shard.boxes) == part);
        }
  }
}

TEST_CASE("parameters that a dense model lacks begin with their initial values", "[checkpoint]") {
  const scratch_folder folder;
  const auto dense = tiny_dense(silu);
  const checkpoint_reader from(save_dense(folder.path(), dense));
  auto sparse = with_slices(dense, 2);
  sparse.experts.shared_ffn = 5;
  sparse.experts.score = "sigmoid";
  sparse.experts.expert_bias = true;
  sparse.experts.layers = "[0,1]";
  const upcycled_parameters upcycled(sparse, 2, seed_of_drawn);
  int copied = 0, drawn = 0;
  const auto whole_model = parameters_of(sparse);
  for (const auto& e : whole_model) {
    if (e.owner >= 0 || e.spec.stacked)
      continue;
    CAPTURE(e.spec.name);
    const auto found = read(upcycled, from, e.spec, e.boxes);
    if (from.has(e.spec.name)) {
      CHECK(found == all_of_tensor(from, e.spec.name));
      ++copied;
      continue;
    }
    auto expected = initial_values(e, seed_of_drawn);
    if (e.spec.name.ends_with("router.weight"))  // row e is the drawn row e / 2
      for (auto i = std::int64_t(expected.size()) - 1; i >= 0; --i)
        expected[std::size_t(i)]
            = expected[std::size_t(i / dense.hidden / 2 * dense.hidden + i % dense.hidden)];
    CHECK(found == expected);
    ++drawn;
  }
  CHECK(copied == 18);  // 2 of embeddings, 8 and 6 of the layers, 2 of the last norm
  CHECK(drawn == 4);    // router, bias, and 2 of the shared experts
}

TEST_CASE("a model that no dense checkpoint fits is refused", "[checkpoint]") {
  const scratch_folder folder;
  const auto dense = tiny_dense(silu);
  CHECK_BREAKS("UPCYCLE-1", upcycled_parameters(dense, 1, seed_of_drawn));
  CHECK_BREAKS("UPCYCLE-1", upcycled_parameters(with_slices(dense, 2), 4, seed_of_drawn));
  auto wider = dense;
  wider.ffn = 48;
  const checkpoint_reader from(save_dense(folder.path(), wider));
  const upcycled_parameters upcycled(with_slices(dense, 2), 2, seed_of_drawn);
  const auto sparse = parameters_of(with_slices(dense, 2));
  const auto& fc2 = named(sparse, "decoder.layers.0.mlp.experts.linear_fc2.weight");
  CHECK_THROWS_WITH(read(upcycled, from, fc2.spec, fc2.boxes),
                    ContainsSubstring("'decoder.layers.0.mlp.linear_fc2.weight' as (16, 48)")
                        && ContainsSubstring("needs (16, 24)"));
  auto unknown = fc2.spec;
  unknown.name = "decoder.layers.2.mlp.experts.linear_fc2.weight";
  CHECK_BREAKS("UPCYCLE-2", read(upcycled, from, unknown, fc2.boxes));
}
