#include "runtime/optim/optimizer_state.hpp"

#include "runtime/optim/fingerprints.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;
using troupe::tests::normal;
namespace kernels = troupe::kernels;

namespace {

parameter_spec matrix(const std::string& name, std::int64_t rows, const std::string& tied_to = {}) {
  return {.name = name,
          .extents = {rows, 5},
          .initial = distribution::normal(1),
          .decays = true,
          .valid_rows = rows - 2,
          .tied_to = tied_to};
}
parameter_spec vector(const std::string& name) {
  return {.name = name, .extents = {37}, .initial = distribution::constant(1)};
}

unit_spec embedding() {
  return {"embedding", {matrix("words", 9), matrix("positions", 6)}};
}
unit_spec head(const std::string& tied_to) {
  return {"head", {vector("gain"), matrix("output", 9, tied_to)}};
}

/// A store with values, an optimizer, and gradients that depend on the parameters' names.
struct stage {
  resident_store store;
  optimizer_state optimizer;

  stage(std::vector<unit_spec> units, const optimizer_settings& settings, int replicas = 1)
      : store(std::move(units), replicas, {}), optimizer(store, settings, whole_ranges(store), {}) {
    initialise(store, 1);
    new_gradients(0);
  }

  std::span<float> gradient(std::size_t entry, int replica = 0) {
    const auto& e = store.entries()[entry];
    return store.gradients(replica).subspan(std::size_t(store.gradient_offset(e)),
                                            std::size_t(e.valid));
  }
  std::span<float> value(std::size_t entry) {
    const auto& e = store.entries()[entry];
    return store.values().subspan(std::size_t(store.value_offset(e)), std::size_t(e.valid));
  }

  void new_gradients(std::uint32_t seed) {
    for (int r = 0; r < store.replicas(); ++r)
      for (std::size_t e = 0; e < store.entries().size(); ++e) {
        const auto to = gradient(e, r);
        const auto name = store.entries()[e].spec.name;
        const auto from
            = normal<float>(to.size(), std::uint32_t(hash64(name)) + 100 * seed + std::uint32_t(r));
        std::copy(from.begin(), from.end(), to.begin());
      }
  }
};

}  // namespace

TEST_CASE("the update equals AdamW's formula in double precision", "[optim]") {
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  CAPTURE(int(where));
  const optimizer_settings settings{
      .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.3};
  stage x({embedding(), head("")}, settings);
  stream stream(where, 1, {});
  std::vector<std::vector<double>> value, m, v;
  for (std::size_t e = 0; e < x.store.entries().size(); ++e) {
    value.emplace_back(x.value(e).begin(), x.value(e).end());
    m.emplace_back(value.back().size());
    v.emplace_back(value.back().size());
  }
  for (std::uint64_t step = 1; step <= 6; ++step) {
    x.new_gradients(std::uint32_t(step));
    const double rate = 0.01 * double(step), scale = 0.5;
    x.optimizer.update(stream, {.step = step, .learning_rate = rate, .gradient_scale = scale});
    for (std::size_t e = 0; e < value.size(); ++e) {
      const double decay = x.store.entries()[e].spec.decays ? settings.weight_decay : 0;
      for (std::size_t i = 0; i < value[e].size(); ++i) {
        const double g = double(x.gradient(e)[i]) * scale;
        m[e][i] = settings.beta1 * m[e][i] + (1 - settings.beta1) * g;
        v[e][i] = settings.beta2 * v[e][i] + (1 - settings.beta2) * g * g;
        const double mean = m[e][i] / (1 - std::pow(settings.beta1, double(step)));
        const double square = v[e][i] / (1 - std::pow(settings.beta2, double(step)));
        value[e][i] -= rate * (decay * value[e][i] + mean / (std::sqrt(square) + settings.epsilon));
      }
    }
  }
  for (std::size_t e = 0; e < value.size(); ++e) {
    CAPTURE(x.store.entries()[e].spec.name);
    // Six updates of numbers near 1, each rounded to float32 (6e-8 of the value) a few times.
    CHECK(troupe::tests::relative_error(std::vector(x.value(e).begin(), x.value(e).end()), value[e])
          < 2e-6);
  }
}

TEST_CASE("bias correction counts from the step at which the moments are zero", "[optim]") {
  optimizer_settings settings;
  stage fresh({embedding()}, settings);
  settings.moments_from = 1000;
  stage later({embedding()}, settings);
  stream stream(kernels::backend::cpu, 1, {});
  for (std::uint64_t i = 1; i <= 3; ++i) {
    fresh.optimizer.update(stream, {.step = i, .learning_rate = 0.01});
    later.optimizer.update(stream, {.step = 1000 + i, .learning_rate = 0.01});
  }
  CHECK(fresh.optimizer.digests(stream) == later.optimizer.digests(stream));
}

TEST_CASE("weight decay applies to decaying parameters only, and padding stays zero", "[optim]") {
  stage x({embedding(), head("")}, {.weight_decay = 0.5});
  x.store.zero_gradients();
  for (const auto& part : x.optimizer.parts())
    for (const float moment : x.optimizer.first_moment(part))
      CHECK(moment == 0);
  const std::vector<float> before(x.store.values().begin(), x.store.values().end());
  stream stream(kernels::backend::cpu, 1, {});
  x.optimizer.update(stream, {.step = 1, .learning_rate = 0.1});
  for (const auto& e : x.store.entries())
    for (std::int64_t i = 0; i < e.size(); ++i) {
      const auto at = std::size_t(x.store.value_offset(e) + i);
      const float expected = e.spec.decays ? before[at] * (1 - 0.1F * 0.5F) : before[at];
      // Two roundings to float32, of 6e-8 each, can differ.
      CHECK(std::abs(x.store.values()[at] - expected) <= 1.2e-7F * std::abs(expected));
      if (i >= e.valid)
        CHECK(x.store.values()[at] == 0);
    }
}

TEST_CASE("clipping scales down a long gradient, as in Megatron-LM", "[optim]") {
  CHECK(clip_coefficient(0.5, 1) == 1);
  CHECK(clip_coefficient(4, 1) == 1 / (4 + 1e-6));
  CHECK(clip_coefficient(4, 2) == 2 / (4 + 1e-6));
  CHECK(clip_coefficient(1, 1) == 1 / (1 + 1e-6));
  CHECK(clip_coefficient(4, 0) == 1);
  CHECK(clip_coefficient(0, 1) == 1);
}

TEST_CASE("the norm counts a tied parameter once and leaves out padding", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  stage both({embedding(), head("words")}, {}), copy({head("words")}, {});
  for (auto* const x : {&both, &copy})
    for (float& g : x->store.gradients(0))
      g = 1;
  const auto of_both = both.optimizer.norms(stream);
  CHECK(of_both
        == square_norms{
            {"gain", exact_sum(37)}, {"positions", exact_sum(4 * 5)}, {"words", exact_sum(7 * 5)}});
  CHECK(copy.optimizer.norms(stream) == square_norms{{"gain", exact_sum(37)}});
  CHECK(total_norm(of_both) == std::sqrt(37.0 + 20 + 35));
}

TEST_CASE("the norm of a model does not depend on its chunks", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  stage whole({embedding(), head("")}, {}), first({embedding()}, {}), last({head("")}, {});
  auto parts = last.optimizer.norms(stream);
  parts.merge(first.optimizer.norms(stream));
  CHECK(parts == whole.optimizer.norms(stream));
  CHECK(total_norm(parts) == total_norm(whole.optimizer.norms(stream)));
}

TEST_CASE("a gradient that is not finite makes its norm not finite", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  const auto bad
      = GENERATE(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  stage x({embedding(), head("")}, {});
  x.gradient(2)[17] = bad;
  auto norms = x.optimizer.norms(stream);
  CHECK(!norms.at("gain").is_finite());
  norms.erase("gain");
  CHECK(std::isfinite(total_norm(norms)));
}

TEST_CASE("the digest of a state does not depend on its chunks", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  const bool tied = GENERATE(true, false);
  const std::string owner = tied ? "words" : "";
  stage whole({embedding(), head(owner)}, {}), first({embedding()}, {}), last({head(owner)}, {});
  for (std::uint64_t step = 1; step <= 2; ++step)
    for (auto* const x : {&whole, &first, &last})
      x->optimizer.update(stream, {.step = step, .learning_rate = 0.1});
  const auto of_last = last.optimizer.digests(stream);
  auto parts = of_last.own;
  CHECK(parts.size() == (tied ? 1 : 2));
  parts.merge(first.optimizer.digests(stream).own);
  CHECK(parts == whole.optimizer.digests(stream).own);
  CHECK(combine(parts) == combine(whole.optimizer.digests(stream).own));
  CHECK(of_last.copies.size() == (tied ? 1 : 0));
  if (tied)  // both ends had the same gradients
    CHECK(of_last.copies.contains("words"));
}

TEST_CASE("the digest covers every value and both moments, without padding", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  stage x({embedding(), head("")}, {});
  const auto before = combine(x.optimizer.digests(stream).own);
  const auto& e = x.store.entries()[0];
  const auto changes = [&](std::span<float> array, std::int64_t element) {
    float& at = array[std::size_t(element)];
    const float was = std::exchange(at, at + 1);
    const bool changed = combine(x.optimizer.digests(stream).own) != before;
    at = was;
    return changed;
  };
  const auto last = e.valid - 1;
  const auto& part = x.optimizer.parts()[0];
  const auto values = x.store.values().subspan(std::size_t(x.store.value_offset(e)));
  CHECK(changes(values, 0));
  CHECK(changes(values, last));
  CHECK(changes(x.optimizer.first_moment(part), last));
  CHECK(changes(x.optimizer.second_moment(part), last));
  CHECK(!changes(values, last + 1));
  CHECK(combine(x.optimizer.digests(stream).own) == before);
}

TEST_CASE("the digest after an update equals that of the stored state", "[optim]") {
  stream stream(kernels::backend::cpu, 2, {});
  const auto type = GENERATE(dtype::f32, dtype::bf16);
  resident_store store({embedding(), head("")}, 1, {}, type);
  constexpr std::int64_t grain = 6;
  optimizer_state first(store, {}, whole_ranges(store), {}, grain);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    for (const auto& e : store.entries())
      std::copy_n(normal<float>(e.size(), int(step)).data(), e.size(), store.gradients(0, e.index));
    first.update(stream, {.step = step, .learning_rate = 0.1});
    const auto left = first.digests(stream);
    for (const auto& part : first.parts())
      first.weights(part);  // mutable access drops the digest, so that it is computed again
    CHECK(first.digests(stream) == left);
    for (const auto array : {&optimizer_state::weights,
                             &optimizer_state::first_moment,
                             &optimizer_state::second_moment}) {
      first.update(stream, {.step = step, .learning_rate = 0});
      const auto before = first.digests(stream);
      (first.*array)(first.parts()[1])[2] += 1;
      CHECK_FALSE(first.digests(stream) == before);
    }
  }
}

TEST_CASE("digests that an update computes equal those of its result", "[optim]") {
  stream stream(GENERATE(kernels::backend::reference, kernels::backend::cpu), 1, {});
  const auto kind = GENERATE(
      optimizer_kind::adam, optimizer_kind::sgd, optimizer_kind::lion, optimizer_kind::muon);
  stage x({embedding(), head("")}, {.kind = kind});
  x.optimizer.update(stream, {.step = 1, .learning_rate = 0.1});
  const auto taken = x.optimizer.digests(stream);
  for (const auto& part : x.optimizer.parts())
    x.optimizer.weights(part);  // mutable access drops the digest
  CHECK(x.optimizer.digests(stream) == taken);
}

TEST_CASE("muon takes the padding of a matrix as zero, whatever its memory holds", "[optim]") {
  const auto updated = [](float dirt) {
    stream stream(kernels::backend::cpu, 1, {});
    std::vector<tensor> used;  // all at once: each later allocation is one of them
    for (int i = 0; i < 32; ++i) {
      auto& x = used.emplace_back(tensor::empty<float>(stream, {i % 2 == 0 ? 9 : 6, 5}));
      std::fill_n(x.data<float>(), x.size(), dirt);
    }
    used.clear();
    stage x({embedding(), head("")}, {.kind = optimizer_kind::muon});
    x.optimizer.update(stream, {.step = 1, .learning_rate = 0.1});
    return x.optimizer.digests(stream);
  };
  CHECK(updated(0) == updated(3));
}

// See docs/formats/log.md.
TEST_CASE("the digest of a parameter is the sum of the fingerprints of its grains", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  resident_store store({{"unit", {vector("gain")}}}, 1, {});
  constexpr std::int64_t grain = 8;
  optimizer_state optimizer(store, {}, whole_ranges(store), {}, grain);
  const auto drawn = normal<float>(37, 3);
  optimizer.set_weights(0, 0, drawn);
  digest expected;
  for (std::uint64_t what = 0; what < 3; ++what)
    for (std::int64_t begin = 0; begin < 37; begin += grain) {
      const auto end = std::min<std::int64_t>(begin + grain, 37);
      const std::uint64_t place[]
          = {hash64("gain"), 0, std::uint64_t(begin), std::uint64_t(end), what};
      const auto key = hash64(place, sizeof place);
      std::vector<std::uint32_t> words(static_cast<std::size_t>(grain));
      if (what == 0)
        std::memcpy(words.data(), drawn.data() + begin, std::size_t(end - begin) * 4);
      std::uint64_t f[2] = {};
      for (const int j : {0, 1})
        for (std::int64_t i = 0; 2 * i < end - begin; ++i)
          f[j] += kernels::fingerprint_term(
              words[std::size_t(2 * i)],
              words[std::size_t(2 * i + 1)],
              kernels::fingerprint_key_of(key, j).at(std::uint64_t(i)));
      expected += digest{f[0], f[1]};
    }
  CHECK(optimizer.digests(stream).own.at("gain") == expected);
}

TEST_CASE("DIGEST-1: a digest covers every byte", "[optim]") {
  CHECK(words_of(dtype::bf16, 4) == 2);
  CHECK_THROWS_MATCHES(
      words_of(dtype::bf16, 3), broken_promise, MessageMatches(StartsWith("DIGEST-1")));
}
