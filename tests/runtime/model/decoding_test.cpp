// Decoding with a cache, token by token, gives the logits of a full pass.

#include "tests/support/crossing_gpt.hpp"
#include "tests/support/experts_gpt.hpp"
#include "tests/support/latent_gpt.hpp"
#include "tests/support/numbers.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <limits>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t B = 2;

/// Rows [first, end) of both sequences, as inputs of a pass.
bundle part(stream& stream, const bundle& all, std::int64_t first, std::int64_t end) {
  const auto T = all.at("tokens").extents()[1], n = end - first;
  bundle out;
  for (const auto* name : {"tokens", "positions"}) {
    const auto from = all.at(name).elements<std::int32_t>();
    out.add(name, filled<std::int32_t>(stream, {B, n}, [&](std::int64_t i) {
              return from[std::size_t(i / n * T + first + i % n)];
            }));
  }
  for (const auto* name : {"samples", "patches", "patch_positions"})
    if (all.has(name))
      out.add(name, all.at(name));
  return out;
}

std::vector<attention_cache> caches(stream& stream, const chunk& of, std::int64_t capacity) {
  std::vector<attention_cache> out(of.caches().size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto& x = out[i];
    x.entries
        = filled<float>(stream, {B * capacity, of.caches()[i].size()}, [](auto) { return 0; });
    x.positions = filled<std::int32_t>(
        stream, {B * capacity}, [](auto) { return std::numeric_limits<std::int32_t>::max(); });
    x.starts = filled<std::int32_t>(stream, {B + 1}, [&](auto b) { return b * capacity; });
  }
  return out;
}

void check_decoding(const model_spec& spec, kernels::backend where, std::int64_t prompt) {
  stream stream(where, 1, {});
  stages model(spec, 1, stream);
  const auto in = tiny_batch(stream, spec, B, 3);
  const auto T = spec.sequence, capacity = T + 2;
  const pass_settings settings{.training = false};
  const auto whole = chunk_pass(model.model(), model.plan(), stream, model.store(), settings)
                         .forward(part(stream, in, 0, T));
  const auto expected = whole.at("logits").elements<float>();
  const auto V = std::int64_t(expected.size()) / (B * T);

  auto kept = caches(stream, model.model(), capacity);
  std::int64_t first = 0;
  for (std::int64_t end = prompt; end <= T; first = end++) {
    const auto n = end - first;
    for (auto& cache : kept)
      cache.rows = filled<std::int32_t>(
          stream, {B * n}, [&](auto i) { return i / n * capacity + first + i % n; });
    const auto out = chunk_pass(model.model(), model.plan(), stream, model.store(), settings)
                         .forward(part(stream, in, first, end), &kept);
    const auto seen = out.at("logits").elements<float>();
    for (std::int64_t b = 0; b < B; ++b) {
      const auto rows = [&](std::span<const float> x, std::int64_t row) {
        const auto cut = x.subspan(std::size_t(row * V), std::size_t(n * V));
        return std::vector<float>(cut.begin(), cut.end());
      };
      CAPTURE(first, b);
      // Both sum over the same rows. Empty cache rows add zeros, and a library can order the
      // products of fewer rows in another way: a few roundings, 1e-5.
      CHECK(relative_error(rows(seen, b * n), rows(expected, b * T + first)) < 1e-5);
    }
  }
}

}  // namespace

TEST_CASE("decoding token by token with a cache gives the logits of a full pass", "[model]") {
  const auto [name, config] = GENERATE(from_range(tiny_gpts(2)));
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const std::int64_t prompt = GENERATE(1, 3);
  CAPTURE(name, int(where), prompt);
  check_decoding(gpt_spec(config), where, prompt);
}

TEST_CASE("decoding with latent attention gives the logits of a full pass", "[model]") {
  const bool low_rank = GENERATE(false, true), caches_latents = GENERATE(false, true);
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const std::int64_t prompt = GENERATE(1, 3);
  CAPTURE(low_rank, caches_latents, int(where), prompt);
  check_decoding(latent_gpt(low_rank, 0, caches_latents), where, prompt);
}

TEST_CASE("decoding with cross-attention and biases gives the logits of a full pass", "[model]") {
  const bool alibi = GENERATE(false, true);
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const std::int64_t prompt = GENERATE(1, 3);
  CAPTURE(alibi, int(where), prompt);
  check_decoding(crossing_gpt(alibi), where, prompt);
}

TEST_CASE("decoding with experts gives the logits of a full pass", "[model]") {
  const auto [name, experts] = GENERATE(from_range(every_tiny_experts()));
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const std::int64_t prompt = GENERATE(1, 3);
  CAPTURE(name, int(where), prompt);
  check_decoding(experts_gpt(experts), where, prompt);
}

TEST_CASE("the logits match the loss", "[model]") {
  const auto config = tiny_gpt(2);
  stream stream(kernels::backend::reference, 1, {});
  stages model(config, 1, stream);
  const auto in = tiny_batch(stream, config, B, 3);
  const auto loss = mean(model.forward(0, in, {.training = false}));
  const auto out
      = chunk_pass(model.model(), model.plan(), stream, model.store(), {.training = false})
            .forward(part(stream, in, 0, config.sequence));
  const auto logits = out.at("logits").elements<float>();
  const auto labels = in.at("labels").elements<std::int32_t>();
  double expected = 0;
  for (std::size_t r = 0; r < labels.size(); ++r) {
    const auto row = logits.subspan(r * std::size_t(config.padded_vocabulary));
    double sum = 0;
    for (std::int64_t v = 0; v < config.vocabulary; ++v)
      sum += std::exp(double(row[std::size_t(v)]));
    expected += std::log(sum) - double(row[std::size_t(labels[r])]);
  }
  CHECK(std::abs(loss - expected / double(labels.size())) < 1e-6);  // float32 losses of about 4
}
