// Passes that another worker computes again: same bits, and detection of differences.

#include "runtime/trainer/verification.hpp"

#include "runtime/core/error.hpp"
#include "runtime/trainer/worker.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

constexpr std::uint32_t in_a_step = 5;

/// The record of a pass for its recomputation.
struct told_pass {
  bundle in, gradient;
  digest output, input_gradient;
  added_gradients added;
};
using told_passes = std::map<pass_key, told_pass>;  ///< ascending: chunk, micro-batch

/// Stages of a model on one worker that computes for two.
struct verified_stages {
  verified_stages(const worker_settings& of, int chunks) : settings(of) {
    for (const auto& range : split_layers(gpt_letters(2), chunks, {}))
      settings.chunks.push_back({chunk_id(std::uint32_t(settings.chunks.size())), range});
    by = std::make_unique<worker>(settings, stream);
    by->begin_step({.step = step_id(1), .microbatches = in_a_step, .logical_replicas = 1});
  }

  bundle forward(const pass_key& key, const bundle& in, told_passes* to) {
    auto out = by->forward(key, in);
    if (to != nullptr)
      (*to)[key] = {.in = in, .output = by->output_digest(key, out)};
    return out;
  }

  bundle backward(const pass_key& key, const bundle& in, told_passes* to) {
    if (to != nullptr && in.size() > 0)
      (*to)[key].gradient = by->copy_of(in);
    const auto blocks = by->blocks(key.chunk);
    bundle out;
    for (int b = int(blocks.size()) - 1; b >= 0; --b) {
      if (blocks[std::size_t(b)])
        by->recompute(key, b);
      out = by->input_gradients(key, b + 1 == int(blocks.size()) ? in : bundle(), b);
      if (to != nullptr && b == 0 && by->gives_gradient(key.chunk))
        (*to)[key].input_gradient = by->digest_of(out);
      if (to != nullptr)
        by->weight_gradients(key, b, (*to)[key].added);
      else
        by->weight_gradients(key, b);
    }
    return out;
  }

  /// Runs all micro-batches forward and backward; records the passes of `verified`.
  told_passes step(const std::set<std::uint32_t>& verified, int flipped = -1) {
    told_passes out;
    const auto chunks = std::uint32_t(settings.chunks.size());
    for (std::uint32_t m = 0; m < in_a_step; ++m) {
      auto* const to = verified.contains(m) ? &out : nullptr;
      const auto in = tiny_batch(stream, settings.model, 2, 7 + m, true);
      bundle x = in;
      for (std::uint32_t c = 0; c < chunks; ++c) {
        if (c > 0 && c + 1 == chunks)
          for (const auto* const name : {"labels", "mask"})
            x.add(name, in.at(name));
        x = forward({0, chunk_id(c), microbatch_id(m)}, x, to);
      }
      x = {};
      for (std::uint32_t c = chunks; c-- > 0;) {
        if (int(m) == flipped && c == 0)
          by->flip_added_bit(chunk_id(c));
        x = backward({0, chunk_id(c), microbatch_id(m)}, x, to);
      }
    }
    return out;
  }

  worker_settings settings;
  troupe::runtime::stream stream{kernels::backend::cpu, 1, {}};
  std::unique_ptr<worker> by;
};

worker_settings verified_settings(const std::string& model) {
  return {.model = gpt_spec(tiny_gpts(2).at(model)), .verifies = true};
}

const std::string with_dropout = "learned, layer norm, gelu tanh, biases, tied, dropout";
const std::string without_biases = "rope, rms norm, swiglu, no biases, untied, 2 groups";

}  // namespace

TEST_CASE("VERIFY-2: a recomputed pass has the same outputs and gradients, bit for bit",
          "[trainer]") {
  auto settings = verified_settings(GENERATE(with_dropout, without_biases));
  const int chunks = GENERATE(1, 2);
  const auto verified = GENERATE(std::set<std::uint32_t>{0, 1, 2, 3, 4},
                                 std::set<std::uint32_t>{0},
                                 std::set<std::uint32_t>{1},
                                 std::set<std::uint32_t>{4},
                                 std::set<std::uint32_t>{0, 2, 3});
  if (GENERATE(false, true))
    settings.recompute.granularity = recompute_granularity::full;
  else
    settings.precision = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  verified_stages first(settings, chunks), second(settings, chunks), alone(settings, chunks);
  const auto told = first.step(verified);
  CHECK(told.size() == verified.size() * std::size_t(chunks));
  for (const auto& [key, x] : told) {
    CAPTURE(value(key.chunk), value(key.microbatch));
    const auto again = second.by->compute_again(key.chunk, x.in, x.gradient, x.added);
    CHECK(again.output == x.output);
    CHECK(again.input_gradient == x.input_gradient);
    CHECK(again.weight_gradient == x.added.after);
    CHECK(x.added.after != digest());
    CHECK(again.continues == verified.contains(value(key.microbatch) - 1));
    CHECK(x.added.given.empty()
          == (value(key.microbatch) == 0 || verified.contains(value(key.microbatch) - 1)));
  }
  alone.step({});
  CHECK(first.by->vote_digests() == alone.by->vote_digests());
}

TEST_CASE("VERIFY-2: a wrong bit that a pass adds is found in that pass only", "[trainer]") {
  const int chunks = GENERATE(1, 2);
  const auto verified
      = GENERATE(std::set<std::uint32_t>{0, 1, 2, 3, 4}, std::set<std::uint32_t>{0, 2, 4});
  verified_stages first(verified_settings(with_dropout), chunks),
      second(verified_settings(with_dropout), chunks);
  const auto told = first.step(verified, 2);
  for (const auto& [key, x] : told) {
    const auto m = value(key.microbatch);
    CAPTURE(value(key.chunk), m);
    const auto again = second.by->compute_again(key.chunk, x.in, x.gradient, x.added);
    CHECK(again.output == x.output);
    CHECK(again.input_gradient == x.input_gradient);
    const bool other = again.weight_gradient != x.added.after;
    CHECK(other == (value(key.chunk) == 0 && (m == 2 || (m > 2 && again.continues))));
  }
}

TEST_CASE("VERIFY-2: NaN in a gradient before the first pass is not a fault of the passes",
          "[trainer]") {
  const int chunks = GENERATE(1, 2);
  const auto verified
      = GENERATE(std::set<std::uint32_t>{0, 1, 2, 3, 4}, std::set<std::uint32_t>{1, 2});
  verified_stages first(verified_settings(with_dropout), chunks),
      second(verified_settings(with_dropout), chunks);
  first.by->inject_nan_gradient();
  for (const auto& [key, x] : first.step(verified)) {
    CAPTURE(value(key.chunk), value(key.microbatch));
    const auto again = second.by->compute_again(key.chunk, x.in, x.gradient, x.added);
    CHECK(again.weight_gradient == x.added.after);
  }
  first.by->reduce();
  CHECK_FALSE(first.by->first_nonfinite(first.by->norms()).name.empty());
}

TEST_CASE("REPLAY-1: a recomputed pass starts from the gradients that the original added to",
          "[trainer]") {
  verified_stages first(verified_settings(without_biases), 1),
      second(verified_settings(without_biases), 1);
  auto told = first.step({1});
  auto& x = told.begin()->second;
  SECTION("a parameter too few") {
    x.added.before.pop_back();
  }
  SECTION("a parameter too many") {
    x.added.before.push_back(gradient_before::zero);
  }
  SECTION("a value too few") {
    x.added.given.pop_back();
  }
  CHECK_THROWS_AS(second.by->compute_again(chunk_id(0), x.in, x.gradient, x.added), broken_promise);
}

TEST_CASE("WORKER-12: contributions to gradients are recorded on verified workers", "[trainer]") {
  auto settings = verified_settings(without_biases);
  settings.verifies = false;
  verified_stages x(settings, 1);
  CHECK_THROWS_AS(x.step({0}), broken_promise);
}

TEST_CASE("VERIFY-4: no pass is selected where groups cover replicas unevenly", "[trainer]") {
  CHECK_BREAKS("VERIFY-4", is_verified(0.5, 5, step_id(3), {.span = 0}));
}

TEST_CASE("VERIFY-4: replicas with one group of experts select and verify passes together",
          "[trainer]") {
  constexpr int replicas = 8;
  const int span = GENERATE(1, 2, 4, 8);
  CAPTURE(span);
  const auto selected = [](int replica, int together) {
    std::vector<bool> out;
    for (std::uint32_t m = 0; m < 64; ++m)
      out.push_back(
          is_verified(0.5,
                      5,
                      step_id(3),
                      {.replica = replica, .span = together, .microbatch = microbatch_id(m)}));
    return out;
  };
  for (int r = 0; r < replicas; ++r) {
    const int first = r / span * span;
    CHECK(selected(r, span) == selected(first, 1));
    const int by = verifier_of(r, replicas, span);
    CHECK(verified_by(by, replicas, span) == r);
    CHECK(by % span == r % span);
    CHECK(by / span == (r / span + 1) % (replicas / span));  // a single group verifies itself
  }
  CHECK((selected(0, span) == selected(1, span)) == (span > 1));
}

TEST_CASE("the share of passes that are verified is as configured, and known beforehand",
          "[trainer]") {
  const double fraction = GENERATE(0.0, 0.1, 0.5, 1.0);
  int all = 0, copied = 0;
  for (std::uint64_t s = 1; s <= 200; ++s) {
    const auto found = count_verified(fraction, 5, step_id(s), {.replica = 1}, 16, 8);
    int here = 0;
    for (std::uint32_t m = 0; m < 16; ++m)
      here += is_verified(fraction, 5, step_id(s), {.replica = 1, .microbatch = microbatch_id(m)})
                  ? 1
                  : 0;
    CHECK(found.all == here);
    all += found.all;
    copied += found.copied;
  }
  CHECK(std::abs(all / 3200.0 - fraction) < 0.03);
  // Passes after an unverified pass, except the first of each of two replicas in turn.
  CHECK(std::abs(copied / 3200.0 - fraction * (1 - fraction) * 14 / 16) < 0.03);
}
