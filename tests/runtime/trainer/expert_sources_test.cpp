// Gradients of experts by source: the number of expert ranks changes no bit (SUMS-1).

#include "tests/support/broken.hpp"
#include "tests/support/each_seat.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;

namespace {

constexpr std::int64_t E = 4, matrix = 15;
constexpr int logical = 4;
constexpr std::uint32_t microbatches = 2;

/// What the rows of a logical replica add to an element of the experts. Sums depend on their order.
float addend(int replica, int microbatch, std::int64_t element) {
  return 0.1F * float(replica + 1) + 0.013F * float(microbatch) + 0.0007F * float(element);
}
/// True if no row of the replica goes to an expert.
bool is_idle(int replica) {
  return replica == 1;
}

struct numbered_pass {
  int replica = 0;  ///< of the worker
  int microbatch = 0;
};

/// The experts of a rank and the sources of their rows.
struct expert_place {
  std::int64_t first = 0, count = E;  ///< experts
  int sources = 1;
  int replicas = 1;       ///< of each source
  int first_replica = 0;  ///< logical, of the first source
};

/// Source s adds the sum of its rows to gradient s, or to the only one.
struct rows_of_sources final : node {
  int parameter;
  expert_place at;
  numbered_pass pass;

  rows_of_sources(int which, const expert_place& place, const numbered_pass& now)
      : parameter(which), at(place), pass(now) {}
  void input_gradients(tape&) override {}
  void weight_gradients(tape& tape) override {
    for (int s = 0; s < at.sources; ++s) {
      const int replica = at.first_replica + s * at.replicas + pass.replica;
      if (is_idle(replica))
        continue;
      const auto place = tape.place_of_gradient(parameter, tape.sources(parameter) == 1 ? 0 : s);
      tape.stream().run([&] {
        for (std::int64_t i = 0; i < at.count * matrix; ++i) {
          const float x = addend(replica, pass.microbatch, at.first * matrix + i);
          place.to[i] = place.accumulates ? place.to[i] + x : x;
        }
      });
    }
  }
};

extension experts_at(const expert_place& at, const std::shared_ptr<const numbered_pass>& now) {
  return {.name = "experts", .feed_forward = [at, now](module_builder& to, const auto&) {
            const int weight = to.add({.name = "experts",
                                       .extents = {E, 3, matrix / 3},
                                       .initial = distribution::normal(0.1),
                                       .stacked = true,
                                       .placements = of_experts({{axis::expert, row_sharded()}})});
            to.segment("add", [=](tape& tape, pass&) {
              tape.record(std::make_unique<rows_of_sources>(weight, at, *now));
            });
          }};
}

struct arrangement {
  int ranks = logical, expert_ranks = 1;
  source_sums sums = source_sums::by_source;
  bool distributed = false;
};

struct outcome {
  square_norms norms;
  std::map<std::string, digest> digests;
};

/// Two steps of four logical replicas.
outcome trained(const arrangement& x) {
  const auto dense = make_mesh(x.ranks, 1, 1, 1);
  const seats all(dense, fold_experts(dense, x.expert_ranks, 1));
  const int replicas = logical / x.ranks;
  outcome out;
  std::mutex mutex;
  tests::each_seat(all, [&](int rank, stream& stream, const worker_groups& groups) {
    const auto sources = all.peers(rank, axis::expert);
    const auto each = E / x.expert_ranks;
    const expert_place at{.first = all.at(rank)[axis::expert] * each,
                          .count = each,
                          .sources = x.expert_ranks,
                          .replicas = replicas,
                          .first_replica = all.at(sources.front())[axis::data] * replicas};
    const auto now = std::make_shared<numbered_pass>();
    const auto counts = [&](axis_view layers) { return x.distributed || all.counts(rank, layers); };
    const auto model = tests::tiny_gpt(1);
    worker by({.model = gpt_spec(model, experts_at(at, now)),
               .chunks = {{chunk_id(0), {0, 3}}},
               .replicas = replicas,
               .expert_sums = x.sums,
               .distributed_optimizer = x.distributed,
               .bucket_size = 64,
               .grain = 4,
               .saves = {counts(axis_view::dense), counts(axis_view::experts)}},
              stream,
              groups);
    for (std::uint64_t step = 1; step <= 2; ++step) {
      by.begin_step(
          {.step = step_id(step), .microbatches = microbatches, .logical_replicas = logical});
      for (int r = 0; r < replicas; ++r)
        for (std::uint32_t m = 0; m < microbatches; ++m) {
          *now = {r, int(m)};
          const auto seed = std::uint64_t(all.at(rank)[axis::data] * replicas + r) * 10 + m;
          const pass_key key{r, chunk_id(0), microbatch_id(m)};
          by.forward(key, tests::tiny_batch(stream, model, 2, seed, true));
          by.backward(key, {});
        }
      by.reduce();
      const auto norms = by.norms();
      {
        const std::lock_guard lock(mutex);
        for (const auto& [name, square] : norms)
          if (counts(by.layers_of(name)))
            out.norms[name] += square;
      }
      by.update({.step = step, .learning_rate = 0.01});
      by.gather();
    }
    const auto state = by.digests();
    const std::lock_guard lock(mutex);
    for (const auto& [name, part] : state.own)
      if (counts(by.layers_of(name)))
        out.digests[name] += part;
  });
  return out;
}

const std::string experts = "decoder.layers.0.mlp.experts";

/// A rank with half of the experts. Its peer runs no pass, and no pass of this one waits for it.
struct half_of_experts {
  explicit half_of_experts(worker_settings with = {}) {
    with.model
        = gpt_spec(model, experts_at({.count = E / 2, .sources = 2, .first_replica = 2}, now));
    with.chunks = {{chunk_id(0), {0, 3}}};
    worker_groups groups = {.along = {{axis::expert, &here}, {axis::expert_data, itself.get()}}};
    if (with.replicas > 1)
      groups.along[axis::data] = of_data.get();
    by = std::make_unique<worker>(std::move(with), stream, groups);
    by->begin_step({.step = step_id(1), .microbatches = 3});
  }

  bundle batch(std::uint32_t m) { return tests::tiny_batch(stream, model, 2, m, true); }

  gpt_config model = tests::tiny_gpt(1);
  runtime::stream stream{kernels::backend::cpu, 1, {}};
  std::shared_ptr<numbered_pass> now = std::make_shared<numbered_pass>();
  local_communicator here{std::make_shared<local_group>(axis::expert, 2, cancel_token()), 0};
  std::shared_ptr<communicator> itself = alone(axis::expert_data), of_data = alone(axis::data);
  std::unique_ptr<worker> by;
};

std::int64_t elements_of(const std::vector<worker::held_array>& arrays) {
  std::int64_t sum = 0;
  for (const auto& x : arrays)
    sum += x.elements;
  return sum;
}

}  // namespace

TEST_CASE("SUMS-1: by source, the number of expert ranks changes no gradient, norm or digest",
          "[trainer][axes][invariant]") {
  const bool distributed = GENERATE(false, true);
  const auto judge = trained({.distributed = distributed});
  CHECK(judge.norms.contains(experts));
  for (const int ranks : {4, 2, 1})
    for (int expert_ranks = 1; expert_ranks <= ranks; expert_ranks *= 2) {
      CAPTURE(distributed, ranks, expert_ranks);
      const auto found
          = trained({.ranks = ranks, .expert_ranks = expert_ranks, .distributed = distributed});
      CHECK(found.norms == judge.norms);
      CHECK(found.digests == judge.digests);
    }
  // The order of the sum shows in these numbers.
  const auto together
      = trained({.expert_ranks = 4, .sums = source_sums::together, .distributed = distributed});
  CHECK(together.norms.at(experts) != judge.norms.at(experts));
}

TEST_CASE("gradients of sources have an array each, with the experts only", "[trainer][memory]") {
  const half_of_experts one(worker_settings{.expert_sums = source_sums::together}), apart;
  for (const auto& x : one.by->gradient_arrays())
    CHECK_FALSE(x.stays);
  const auto arrays = apart.by->gradient_arrays();
  REQUIRE(arrays.size() == 2);
  CHECK((arrays[0].stays && arrays[1].stays));
  CHECK(arrays[0].elements == elements_of(one.by->gradient_arrays()));
  CHECK(arrays[1].elements == 32);  // 30, in lines of 16
  CHECK(apart.by->gradient_elements(chunk_id(0)) == elements_of(arrays));
  const half_of_experts two(worker_settings{.replicas = 2});
  CHECK(two.by->gradient_arrays().size() == 4);
  CHECK(elements_of(two.by->gradient_arrays()) == 2 * elements_of(arrays));
  CHECK(two.by->gradient_elements(chunk_id(0)) == elements_of(arrays));
}

TEST_CASE("WORKER-9: sources are summed along the axis of expert data", "[trainer]") {
  half_of_experts x;
  worker alone_there(x.by->settings(), x.stream, {.along = {{axis::expert, &x.here}}});
  alone_there.begin_step({.step = step_id(1), .microbatches = 1});
  CHECK_BREAKS("WORKER-9", alone_there.reduce());
}

TEST_CASE("planted flips take parameters that another rank holds too", "[trainer]") {
  const auto dense = make_mesh(2, 1, 1, 1);
  const seats all(dense, fold_experts(dense, 2, 1));
  std::mutex mutex;
  std::vector<square_norms> before, after;
  tests::each_seat(all, [&](int rank, stream& stream, const worker_groups& groups) {
    const auto now = std::make_shared<numbered_pass>();
    const auto model = tests::tiny_gpt(1);
    const expert_place at{.first = rank * E / 2, .count = E / 2, .sources = 2};
    worker by({.model = gpt_spec(model, experts_at(at, now)), .chunks = {{chunk_id(0), {0, 3}}}},
              stream,
              groups);
    by.begin_step({.step = step_id(1), .microbatches = 1, .logical_replicas = 2});
    const pass_key key{0, chunk_id(0), microbatch_id(0)};
    by.forward(key, tests::tiny_batch(stream, model, 2, std::uint64_t(rank), true));
    by.backward(key, {});
    by.reduce();
    const auto found = by.norms();
    for (std::uint64_t flip = 0; flip < 64; ++flip)
      by.flip_gradient_bit(random_key(0, "flip", flip));
    const auto flipped = by.norms();
    const std::lock_guard lock(mutex);
    before.push_back(found);
    after.push_back(flipped);
  });
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(after[i] != before[i]);
    CHECK(after[i].at(experts) == before[i].at(experts));
  }
}

TEST_CASE("VERIFY-2: a pass that is computed again adds to the gradients of the same sources",
          "[trainer]") {
  const worker_settings verified{.verifies = true};
  half_of_experts first(verified), second(verified), other(verified);
  const auto verifies = GENERATE(std::set<std::uint32_t>{0, 1, 2}, std::set<std::uint32_t>{1});
  std::map<std::uint32_t, added_gradients> told;
  for (std::uint32_t m = 0; m < 3; ++m) {
    const pass_key key{0, chunk_id(0), microbatch_id(m)};
    *first.now = {0, int(m)};
    first.by->forward(key, first.batch(m));
    first.by->input_gradients(key, {});
    if (verifies.contains(m))
      first.by->weight_gradients(key, 0, told[m]);
    else
      first.by->weight_gradients(key);
  }
  for (const auto& [m, added] : told) {
    CAPTURE(m);
    *second.now = {0, int(m)};
    *other.now = {0, int(m) + 1};
    const auto again = [m = m, &added = added](half_of_experts& x) {
      return x.by->compute_again(chunk_id(0), x.batch(m), {}, added).weight_gradient;
    };
    CHECK(again(second) == added.after);
    CHECK(again(other) != added.after);
  }
}
