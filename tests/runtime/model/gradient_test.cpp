// Gradients of the loss for every parameter, compared with finite differences.

#include "runtime/core/hash.hpp"
#include "tests/support/crossing_gpt.hpp"
#include "tests/support/documents.hpp"
#include "tests/support/experts_gpt.hpp"
#include "tests/support/latent_gpt.hpp"
#include "tests/support/local_variables.hpp"
#include "tests/support/numbers.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

/// Derivative of `loss` at `at`. A loss is the mean of a few dozen float32 numbers near 4, with a
/// rounding error of about 1e-7. Over a step of 1/64 that is at most 1e-5. Four points leave a
/// truncation error of h^4 / 30 times the fifth derivative, 2e-9 of it; the derivative reaches some
/// thousands where a norm divides by a row of small numbers.
template <class Loss>
double slope(float& at, Loss loss) {
  constexpr float h = 1.0F / 64;
  const float x = at;
  const auto across = [&](float step) {
    const float above = x + step, below = x - step;
    at = above;
    const double up = loss();
    at = below;
    const double down = loss();
    at = x;
    return (up - down) / (double(above) - double(below));
  };
  const double one = across(h), two = across(2 * h);
  return (4 * one - two) / 3;
}

float largest(const std::vector<float>& x) {
  float out = 0;
  for (const float one : x)
    out = std::max(out, std::abs(one));
  return out;
}

std::vector<float> scale(std::vector<float> x, float by) {
  for (float& one : x)
    one *= by;
  return x;
}

/// Checks some elements of every parameter.
void check_slopes(stages& under_test, const bundle& in) {
  auto& store = under_test.store();
  // Every evaluation has the same step and samples, and so the same dropout masks.
  const auto loss = [&] { return mean(under_test.forward(0, in, {.seed = 9, .step = 4})); };

  under_test.forward_backward(0, in, {.seed = 9, .step = 4});
  auto gradients = under_test.gradients();
  for (const auto& e : store.entries())
    if (!e.spec.tied_to.empty()) {
      auto& sum = gradients.at(e.spec.tied_to);
      const auto& use = gradients.at(e.spec.name);
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += use[i];
    }
  float overall = 0;
  for (const auto& entry : gradients)
    overall = std::max(overall, largest(entry.second));
  CHECK(overall > 0.05);

  for (const auto& e : store.entries()) {
    if (e.owner >= 0)
      continue;
    const auto& g = gradients.at(e.spec.name);
    CAPTURE(e.spec.name);
    CHECK(largest(g) > 0);
    for (std::uint64_t k = 0; k < 6; ++k) {
      const auto i = std::int64_t(uniform(hash64(e.spec.name), k) * double(e.valid));
      CAPTURE(i);
      auto& element = store.values()[std::size_t(store.value_offset(e) + i)];
      // 2e-5: the rounding error above. 1e-3 of the largest: the truncation error at the strongest
      // curvature; a mistake in a formula is at least ten times larger.
      CHECK(std::abs(slope(element, loss) - g[std::size_t(i)]) < 2e-5 + 1e-3 * largest(g));
    }
  }
}

}  // namespace

TEST_CASE("gradients of every parameter equal the derivative of the loss", "[model]") {
  const auto [name, config] = GENERATE(from_range(tiny_gpts(2)));
  const bool masked = GENERATE(false, true);
  CAPTURE(name, masked);
  stream stream(kernels::backend::reference, 1, {});
  stages under_test(config, 1, stream);
  check_slopes(under_test, tiny_batch(stream, config, 2, 3, masked));
}

TEST_CASE("gradients equal the derivative of the loss with cross-attention and biases", "[model]") {
  const bool alibi = GENERATE(false, true);
  CAPTURE(alibi);
  const auto model = crossing_gpt(alibi);
  stream stream(kernels::backend::reference, 1, {});
  stages under_test(model, 1, stream);
  check_slopes(under_test, tiny_batch(stream, model, 2, 3));
}

TEST_CASE("gradients equal the derivative of the loss with experts", "[model]") {
  auto all = every_tiny_experts();
  // 6 rows of each expert without a limit.
  auto& dropping = all["half of the rows dropped"] = tiny_experts();
  dropping.router.capacity = 0.5;
  dropping.router.drops = drop_policy::position;
  auto& padded = all["padding"] = tiny_experts();
  padded.router.capacity = 1.5;
  padded.router.pads = true;
  const auto [name, experts] = GENERATE_COPY(from_range(all));
  CAPTURE(name);
  const auto model = experts_gpt(with_forced_choice(experts));
  stream stream(kernels::backend::reference, 1, {});
  stages under_test(model, 1, stream);
  check_slopes(under_test, tiny_batch(stream, model, 2, 3));
}

TEST_CASE("gradients equal the derivative of the loss with attention within documents",
          "[model][unsanitized]") {
  const auto [name, config] = GENERATE(from_range(tiny_gpts(2)));
  CAPTURE(name);
  stream stream(kernels::backend::reference, 1, {});
  stages under_test(config, 1, stream);
  auto in = tiny_batch(stream, config, 2, 3);
  add_documents(in, {0, 2, 6, 7, 12}, {30, 30, 31, 31});
  check_slopes(under_test, in);
}

TEST_CASE("gradients equal the derivative of the loss for any order and norms of sublayers",
          "[model][unsanitized]") {
  const auto [name, config] = GENERATE(from_range(tiny_gpts(2)));
  CAPTURE(name);
  stream stream(kernels::backend::reference, 1, {});
  stages under_test(tiny_sublayers(config), 1, stream);
  check_slopes(under_test, tiny_batch(stream, config, 2, 3));
}

TEST_CASE("gradients of norms over all heads equal the derivative of the loss", "[model]") {
  auto config = tiny_gpt(2);
  config.groups = 2;
  config.qk_norm = config.qk_norm_rows = true;
  config.normalization = GENERATE(kernels::normalization::layer, kernels::normalization::rms);
  stream stream(kernels::backend::reference, 1, {});
  stages under_test(config, 1, stream);
  check_slopes(under_test, tiny_batch(stream, config, 2, 3));
}

TEST_CASE("gradients of latent attention equal the derivative of the loss", "[model]") {
  const bool low_rank = GENERATE(false, true);
  const double dropout = GENERATE(0.0, 0.2);
  CAPTURE(low_rank, dropout);
  stream stream(kernels::backend::reference, 1, {});
  const auto model = latent_gpt(low_rank, dropout);
  stages under_test(model, 1, stream);
  check_slopes(under_test, tiny_batch(stream, model, 2, 3));
}

TEST_CASE("gradients equal the derivative of the loss for a module with local variables",
          "[model]") {
  stream stream(kernels::backend::reference, 1, {});
  stages under_test(with_several_variables(tiny_gpt(2)), 1, stream);
  check_slopes(under_test, tiny_batch(stream, tiny_gpt(2), 2, 3));
}

TEST_CASE("gradients scale with the loss scale and add up over micro-batches", "[model]") {
  stream stream(kernels::backend::reference, 1, {});
  const auto config = tiny_gpt(2);
  stages once(config, 1, stream), scaled(config, 1, stream), twice(config, 1, stream);
  const auto in = tiny_batch(stream, config, 2, 3);
  once.forward_backward(0, in);
  scaled.forward_backward(0, in, {.loss_scale = 0.25});
  twice.forward_backward(0, in);
  twice.forward_backward(1, in);
  const auto one = once.gradients(), quarter = scaled.gradients(), two = twice.gradients();
  for (const auto& [name, g] : one) {
    CAPTURE(name);
    // Scaling by a power of two is exact, and so is adding equal halves. Only the double
    // accumulators round once more or less: 1e-6.
    CHECK(relative_error(quarter.at(name), scale(g, 0.25F)) < 1e-6);
    CHECK(relative_error(two.at(name), scale(g, 2)) < 1e-6);
  }
}

TEST_CASE("a micro-batch with a zero loss mask has no loss and no gradient", "[model]") {
  stream stream(kernels::backend::cpu, 1, {});
  const auto config = tiny_gpt(2);
  stages under_test(config, 1, stream);
  auto in = tiny_batch(stream, config, 2, 3);
  auto mask = in.at("mask");
  std::fill_n(mask.data<float>(), mask.size(), 0.0F);
  const auto loss = under_test.forward_backward(0, in);
  CHECK(loss.total == 0);
  CHECK(loss.tokens == 0);
  for (const auto& [name, g] : under_test.gradients()) {
    CAPTURE(name);
    CHECK(largest(g) == 0);
  }
}

TEST_CASE("padding of the vocabulary does not change results", "[model]") {
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const bool tied = GENERATE(true, false);
  CAPTURE(int(where), tied);
  stream stream(where, 1, {});
  auto narrow = tiny_gpt(2);
  narrow.vocabulary = 61;
  narrow.padded_vocabulary = 64;
  narrow.tied_embeddings = tied;
  auto wide = narrow;
  wide.padded_vocabulary = 128;
  stages a(narrow, 1, stream), b(wide, 1, stream);
  const auto in = tiny_batch(stream, narrow, 2, 3, true);
  const auto loss_a = a.forward_backward(0, in), loss_b = b.forward_backward(0, in);
  // Added zeros do not change a sum, but a library can split a product of another width
  // differently. Only the reference backend guarantees equal bits.
  const bool exact = where == kernels::backend::reference;
  CHECK(std::abs(loss_a.total - loss_b.total) <= (exact ? 0 : 1e-6 * loss_a.total));
  CHECK(loss_a.tokens == loss_b.tokens);
  const auto of_a = a.gradients(), of_b = b.gradients();
  for (const auto& [name, g] : of_a) {
    CAPTURE(name);
    auto other = of_b.at(name);
    if (other.size() > g.size()) {
      const auto valid = std::ptrdiff_t(narrow.vocabulary * narrow.hidden);
      CHECK(std::all_of(other.begin() + valid, other.end(), [](float x) { return x == 0; }));
      other.resize(g.size());
    }
    CHECK(relative_error(other, g) <= (exact ? 0 : 1e-6));
  }
}
