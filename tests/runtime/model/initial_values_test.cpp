#include "runtime/parameters/resident_store.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

using named_values = std::map<std::string, std::vector<float>>;

/// Initial values of all stages by name; each stage has its own copy of a shared parameter.
std::vector<named_values> initial(const gpt_config& config, int stages, std::uint64_t seed) {
  std::vector<named_values> out;
  for (const auto& range : split_layers(gpt_letters(config.layers), stages, {})) {
    const chunk part(gpt_spec(config), range);
    resident_store store(part.units(), 1, {});
    initialise(store, seed);
    auto& of_stage = out.emplace_back();
    for (const auto& e : store.entries()) {
      const auto at
          = store.values().subspan(std::size_t(store.value_offset(e)), std::size_t(e.size()));
      of_stage[e.spec.name].assign(at.begin(), at.end());
    }
  }
  return out;
}

struct moments {
  double mean = 0, deviation = 0;
};

moments moments_of(std::span<const float> x) {
  moments out;
  for (const float one : x)
    out.mean += double(one) / double(x.size());
  for (const float one : x)
    out.deviation += std::pow(double(one) - out.mean, 2) / double(x.size());
  out.deviation = std::sqrt(out.deviation);
  return out;
}

}  // namespace

TEST_CASE("initial values do not depend on the stage", "[model]") {
  const int count = GENERATE(2, 4);
  for (const auto& [name, config] : tiny_gpts(4)) {
    CAPTURE(name, count);
    const auto whole = initial(config, 1, 77).front();
    std::size_t seen = 0;
    const auto parts = initial(config, count, 77);
    for (const auto& of_stage : parts)
      for (const auto& [parameter, values] : of_stage) {
        CAPTURE(parameter);
        CHECK(values == whole.at(parameter));
        ++seen;
      }
    CHECK(seen == whole.size());
    CHECK(initial(config, 1, 78).front() != whole);
  }
}

TEST_CASE("a tied head on its own stage has the embedding's values", "[model]") {
  const auto parts = initial(tiny_gpt(4), 4, 77);
  CHECK(parts.back().at("output_layer.weight")
        == parts.front().at("embedding.word_embeddings.weight"));
}

TEST_CASE("rows beyond the vocabulary are zero", "[model]") {
  auto config = tiny_gpt(2);
  config.tied_embeddings = false;
  const auto values = initial(config, 1, 77).front();
  for (const auto* name : {"embedding.word_embeddings.weight", "output_layer.weight"}) {
    const auto& x = values.at(name);
    const auto valid = config.vocabulary * config.hidden;
    CHECK(std::count(x.begin(), x.begin() + valid, 0.0F) == 0);
    CHECK(std::count(x.begin() + valid, x.end(), 0.0F)
          == (config.padded_vocabulary - config.vocabulary) * config.hidden);
  }
}

TEST_CASE("weight decay applies to matrices, not to gains and biases", "[model]") {
  for (const auto& [name, config] : tiny_gpts(2)) {
    CAPTURE(name);
    const chunk whole(gpt_spec(config), {0, config.layers + 2});
    for (const auto& unit : whole.units())
      for (const auto& x : unit.parameters) {
        CAPTURE(x.name);
        CHECK(x.decays == (x.extents.rank() == 2));
      }
  }
}

TEST_CASE("initial values have Megatron-LM's distribution", "[model]") {
  auto config = tiny_gpt(8);
  config.hidden = config.ffn = 128;
  config.head_size = 32;
  config.vocabulary = config.padded_vocabulary = config.positions = 256;
  const auto whole = initial(config, 1, 77).front();
  for (const auto& [name, values] : whole) {
    CAPTURE(name);
    if (name.ends_with(".bias")) {
      CHECK(values == std::vector<float>(values.size(), 0));
      continue;
    }
    if (name.find("layernorm") != std::string::npos) {
      CHECK(values == std::vector<float>(values.size(), 1));
      continue;
    }
    const bool output = name.find("linear_proj") != std::string::npos
                        || name.find("linear_fc2") != std::string::npos;
    const double deviation = output ? 0.02 / std::sqrt(2.0 * 8) : 0.02;
    const auto seen = moments_of(values);
    // For n >= 16,384 numbers: five standard errors. They are deviation / sqrt(n) for the mean and
    // deviation / sqrt(2 n) for the deviation.
    const auto n = double(values.size());
    CHECK(n >= 16384);
    CHECK(std::abs(seen.mean) < 5 * deviation / std::sqrt(n));
    CHECK(std::abs(seen.deviation - deviation) < 5 * deviation / std::sqrt(2 * n));
  }
}
