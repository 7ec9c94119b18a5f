// Tensor-parallel models, compared with one worker that holds everything.

#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/latent_gpt.hpp"
#include "tests/support/local_variables.hpp"
#include "tests/support/numbers.hpp"
#include "tests/support/ranks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

/// With 4 tensor ranks of 8 rows each, the last has only padding.
gpt_config cut_for(gpt_config c, int tensor) {
  c.padded_vocabulary = 32;
  c.groups = std::max<std::int64_t>(c.groups, tensor);
  return c;
}

/// A large epsilon: otherwise the first update is the sign of the gradient. The gradient of a key's
/// bias is 0 up to rounding, so its sign is random.
worker_settings settings_of(model_spec model) {
  return {.model = std::move(model), .optimizer = {.epsilon = 1e-2}};
}

struct outcome {
  group_step_result first, second;
  std::map<std::string, std::vector<float>> parameters;  ///< after the first step
};

outcome outcome_of(ranks& x) {
  x.shake();
  outcome out;
  out.first = x.step(1, 2);
  out.parameters = x.gathered();
  out.second = x.step(2, 2);
  return out;
}

double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

void check_near(const outcome& seen, const outcome& judge, double loss, double norm, double state) {
  for (std::size_t r = 0; r < judge.first.losses.size(); ++r) {
    CHECK(seen.first.losses[r].tokens == judge.first.losses[r].tokens);
    CHECK(relative(seen.first.losses[r].total, judge.first.losses[r].total) < loss);
    CHECK(relative(seen.second.losses[r].total, judge.second.losses[r].total) < 10 * loss);
  }
  REQUIRE(seen.first.norms.size() == judge.first.norms.size());
  const double all = total_norm(judge.first.norms);
  CHECK(relative(total_norm(seen.first.norms), all) < norm);
  for (const auto& [name, square] : judge.first.norms) {
    CAPTURE(name);
    // The norm of each parameter too, relative to the norm of all: some are 0 up to rounding.
    CHECK(std::abs(std::sqrt(seen.first.norms.at(name).value()) - std::sqrt(square.value()))
          < norm * all);
  }
  REQUIRE(seen.parameters.size() == judge.parameters.size());
  for (const auto& [name, values] : judge.parameters) {
    CAPTURE(name);
    REQUIRE(seen.parameters.at(name).size() == values.size());
    CHECK(relative_error(seen.parameters.at(name), values) < state);
  }
}

/// Checks that copies have the digests of their owners.
void check_copies(ranks& x, const grid& g, const group_step_result& last) {
  std::map<std::string, digest> tied;
  for (int p = 0; p < g.pipeline; ++p)
    for (int t = 0; t < g.tensor; ++t) {
      const auto copies = x.at({t, p, 0}).digests().copies;
      for (const auto& [name, copy] : copies) {
        CAPTURE(name, p, t);
        // Copy of another stage, with the same shards.
        if (name == "embedding.word_embeddings.weight")
          tied[name] += copy;
        else
          CHECK(copy == last.digests.at(name));
      }
      CHECK(copies.empty() == (t == 0 && tied.empty()));
    }
  for (const auto& [name, sum] : tied)
    CHECK(sum == last.digests.at(name));
}

}  // namespace

TEST_CASE("a model on 2 or 4 tensor ranks computes the same as one worker", "[tensor_parallel]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(2)));
  const int tensor = GENERATE(2, 4), pipeline = GENERATE(1, 2);
  const bool rows = GENERATE(false, true);
  CAPTURE(name, tensor, pipeline, rows);
  auto settings = settings_of(gpt_spec(cut_for(base, tensor)));
  ranks judge({}, settings, kernels::backend::reference);
  settings.sequence_parallel = rows;
  const grid g{tensor, pipeline, 1};
  ranks cut(g, settings, kernels::backend::reference);
  const auto expected = outcome_of(judge), seen = outcome_of(cut);
  // Sums over the ranks are rounded to f32 once more, 6e-8 each, a few times per layer. Gradients
  // of some tens of rows are as close, relative to the largest. An update is a hundredth of a
  // gradient divided by its size and epsilon.
  check_near(seen, expected, 1e-6, 1e-4, 1e-5);
  check_copies(cut, g, seen.second);
}

TEST_CASE("latent attention on 2 or 4 tensor ranks computes the same as one worker",
          "[tensor_parallel]") {
  const bool low_rank = GENERATE(false, true), rows = GENERATE(false, true);
  const int tensor = GENERATE(2, 4);
  CAPTURE(low_rank, rows, tensor);
  auto model = latent_gpt(low_rank);
  model.part<embedding_spec>().padded_vocabulary = model.part<head_spec>().padded_vocabulary = 32;
  auto settings = settings_of(model);
  ranks judge({}, settings, kernels::backend::reference);
  settings.sequence_parallel = rows;
  const grid g{.tensor = tensor, .pipeline = 2};
  ranks cut(g, settings, kernels::backend::reference);
  const auto expected = outcome_of(judge), seen = outcome_of(cut);
  check_near(seen, expected, 1e-6, 1e-4, 1e-5);  // as above
  check_copies(cut, g, seen.second);
}

TEST_CASE("Adam enlarges rounding errors where a gradient is itself almost a rounding error",
          "[tensor_parallel]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(2)));
  const double epsilon = GENERATE(1e-8, 1e-2);
  CAPTURE(name, epsilon);
  worker_settings settings{.model = gpt_spec(cut_for(base, 2)), .optimizer = {.epsilon = epsilon}};
  ranks judge({}, settings, kernels::backend::cpu);
  settings.sequence_parallel = true;
  ranks cut({2, 1, 1}, settings, kernels::backend::cpu);
  judge.shake();
  cut.shake();
  constexpr double rate = 0.01;
  judge.step(1, 2, rate);
  cut.step(1, 2, rate);
  // This share of the gradient is the first moment.
  const auto before = 1 - settings.optimizer.beta1;
  const auto expected = judge.gathered(true), seen = cut.gathered(true);
  double largest = 0, rounding = 0;
  for (const auto& [moment, values] : expected)
    if (moment.starts_with("exp_avg."))
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double g = values[i] / before;
        largest = std::max(largest, std::abs(g));
        rounding = std::max(rounding, std::abs(seen.at(moment)[i] / before - g));
      }
  // No sum loses many digits: some hundreds of terms, 6e-8 each.
  CHECK(rounding < 2e-6 * largest);
  CHECK(rounding > 0);

  // The first update is rate * g / (|g| + epsilon). A change of g by d changes it by at most rate *
  // d / (|g| + epsilon) if its sign stays, and by at most twice that otherwise.
  const auto parameters = judge.gathered(), theirs = cut.gathered();
  std::size_t far = 0;
  for (const auto& [parameter, values] : parameters) {
    CAPTURE(parameter);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double g = std::abs(expected.at("exp_avg." + parameter)[i] / before);
      const double apart = std::abs(double(values[i]) - theirs.at(parameter)[i]);
      const double in_float = 1e-6 * (std::abs(values[i]) + rate);
      REQUIRE(apart <= 2 * rate * rounding / (g + epsilon) + in_float);
      far += apart > rate / 100 ? 1 : 0;
    }
  }
  if (epsilon > 1e-4)
    CHECK(far == 0);
  // Without rotary positions a key's bias does not change probabilities: its gradient is a rounding
  // error.
  else if (base.linear_bias && base.position != position_embedding::rope)
    CHECK(far > 0);
}

TEST_CASE("a custom layer runs on tensor ranks and stages, too", "[tensor_parallel]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(2)));
  const bool rows = GENERATE(false, true);
  CAPTURE(name, rows);
  auto settings = settings_of(tiny_sublayers(cut_for(base, 2)));
  ranks judge({}, settings, kernels::backend::reference);
  settings.sequence_parallel = rows;
  const grid g{2, 2, 1};
  ranks cut(g, settings, kernels::backend::reference);
  const auto expected = outcome_of(judge), seen = outcome_of(cut);
  check_near(seen, expected, 1e-6, 1e-4, 1e-5);  // as above
  check_copies(cut, g, seen.second);
}

TEST_CASE("tensor ranks on the fast backend compute the same as one worker", "[tensor_parallel]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(2)));
  const bool rows = GENERATE(false, true);
  CAPTURE(name, rows);
  auto settings = settings_of(gpt_spec(cut_for(base, 2)));
  settings.sequence_parallel = rows;
  const grid g{2, 1, 2};
  ranks cut(g, settings, kernels::backend::cpu);
  auto both = settings_of(settings.model);
  both.replicas = 2;
  ranks judge({}, both, kernels::backend::cpu);
  const auto expected = outcome_of(judge), seen = outcome_of(cut);
  check_near(seen, expected, 1e-6, 1e-4, 1e-5);  // as above
  check_copies(cut, g, seen.second);
}

TEST_CASE("tensor ranks in bf16 stay close to one worker in f32", "[tensor_parallel]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(2)));
  const int tensor = GENERATE(1, 2, 4);
  const bool rows = GENERATE(false, true);
  CAPTURE(name, tensor, rows);
  auto settings = settings_of(gpt_spec(cut_for(base, tensor)));
  ranks judge({}, settings, kernels::backend::cpu);
  settings.precision = dtype::bf16;
  settings.sequence_parallel = rows;
  const grid g{tensor, 1, 1};
  ranks cut(g, settings, kernels::backend::cpu);
  const auto expected = outcome_of(judge), seen = outcome_of(cut);
  // bf16 has 8 bits: 4e-3 per rounding; some dozens add up randomly.
  check_near(seen, expected, 2e-2, 5e-2, 2e-2);
  check_copies(cut, g, seen.second);
}

TEST_CASE("latent attention on tensor ranks in bf16 stays close to one worker in f32",
          "[tensor_parallel]") {
  const bool low_rank = GENERATE(false, true), rows = GENERATE(false, true);
  const int tensor = GENERATE(1, 2);
  CAPTURE(low_rank, rows, tensor);
  auto settings = settings_of(latent_gpt(low_rank));
  ranks judge({}, settings, kernels::backend::cpu);
  settings.precision = dtype::bf16;
  settings.sequence_parallel = rows;
  const grid g{.tensor = tensor};
  ranks cut(g, settings, kernels::backend::cpu);
  const auto expected = outcome_of(judge), seen = outcome_of(cut);
  check_near(seen, expected, 2e-2, 5e-2, 2e-2);  // as above
  check_copies(cut, g, seen.second);
}

TEST_CASE("recomputation on tensor ranks and stages gives the same bits",
          "[tensor_parallel][unsanitized]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(4)));
  const bool rows = GENERATE(false, true), rounded = GENERATE(false, true);
  CAPTURE(name, rows, rounded);
  auto settings = settings_of(gpt_spec(cut_for(base, 2)));
  settings.sequence_parallel = rows;
  settings.precision = rounded ? dtype::bf16 : dtype::f32;
  const grid g{2, 2, 1};
  ranks judge(g, settings, kernels::backend::cpu);
  const auto expected = outcome_of(judge);
  using granularity = recompute_granularity;
  for (const auto& kind :
       {recompute_settings{.granularity = granularity::selective, .feed_forward = true},
        recompute_settings{.granularity = granularity::full},
        recompute_settings{
            .granularity = granularity::full, .method = recompute_method::block, .layers = 1}}) {
    CAPTURE(int(kind.granularity), int(kind.method));
    settings.recompute = kind;
    ranks again(g, settings, kernels::backend::cpu);
    const auto seen = outcome_of(again);
    CHECK(seen.first.losses[0].total == expected.first.losses[0].total);
    CHECK(seen.second.losses[0].total == expected.second.losses[0].total);
    CHECK(seen.first.norms == expected.first.norms);
    CHECK(seen.second.digests == expected.second.digests);
  }
}

TEST_CASE("a module with local variables runs on tensor ranks, also recomputed",
          "[tensor_parallel]") {
  const bool rows = GENERATE(false, true);
  CAPTURE(rows);
  auto settings = settings_of(with_several_variables(cut_for(tiny_gpt(2), 2)));
  ranks judge({}, settings, kernels::backend::reference);
  settings.sequence_parallel = rows;
  const grid g{2, 2, 1};
  ranks cut(g, settings, kernels::backend::reference);
  const auto whole = outcome_of(judge), expected = outcome_of(cut);
  check_near(expected, whole, 1e-6, 1e-4, 1e-5);  // as above
  check_copies(cut, g, expected.second);
  for (const auto& [experts, parts] : {std::pair(true, false), std::pair(false, true)}) {
    CAPTURE(experts);
    settings.recompute = recomputed_experts(experts, parts, parts);
    ranks again(g, settings, kernels::backend::reference);
    const auto seen = outcome_of(again);
    CHECK(seen.first.losses[0].total == expected.first.losses[0].total);
    CHECK(seen.first.norms == expected.first.norms);
    CHECK(seen.second.digests == expected.second.digests);
  }
}

TEST_CASE("stages can be uneven, and one without a layer forwards its input", "[tensor_parallel]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(3)));
  const int tensor = GENERATE(1, 2);
  CAPTURE(name, tensor);
  auto settings = settings_of(gpt_spec(cut_for(base, tensor)));
  settings.sequence_parallel = true;
  settings.recompute.granularity = recompute_granularity::full;
  ranks judge({tensor, 1, 1}, settings, kernels::backend::reference);
  ranks uneven(
      {tensor, 4, 1}, settings, kernels::backend::reference, {{0, 1}, {1, 3}, {3, 3}, {3, 5}});
  const auto expected = outcome_of(judge), seen = outcome_of(uneven);
  CHECK(seen.first.losses[0].total == expected.first.losses[0].total);
  CHECK(seen.first.norms == expected.first.norms);
  CHECK(seen.second.digests == expected.second.digests);
}
