// A parameter of experts is declared by its placement along each axis. The placement decides which
// ranks share it, which sum its gradients, and which save it.

#include "tests/support/each_seat.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;

namespace {

constexpr std::int64_t experts = 2, width = 8;

/// Adds a constant to every element of a parameter's gradient.
struct constant_gradient final : node {
  int parameter;
  std::int64_t n;
  float by;

  constant_gradient(int which, std::int64_t size, float value)
      : parameter(which), n(size), by(value) {}
  void input_gradients(tape&) override {}
  void weight_gradients(tape& tape) override {
    float* const to = tape.gradient(parameter);
    tape.stream().run([&] { std::for_each(to, to + n, [this](float& x) { x += by; }); });
  }
};

/// A block with a replicated parameter and a stack, one matrix for each expert. Rank r adds r + 1
/// to both gradients.
extension block_of_rank(int rank) {
  return {.name = "experts", .feed_forward = [rank](module_builder& to, const feed_forward_spec&) {
            const int dense = to.add(
                {.name = "dense", .extents = {width}, .initial = distribution::normal(0.1)});
            const int mine = to.add({.name = "experts",
                                     .extents = {experts, width / 4, 4},
                                     .initial = distribution::normal(0.1),
                                     .stacked = true,
                                     .placements = of_experts({{axis::expert, row_sharded()}})});
            const auto here = experts / to.ranks(axis::expert) * width;
            to.segment("add", [=](tape& tape, pass&) {
              tape.record(std::make_unique<constant_gradient>(dense, width, float(rank + 1)));
              tape.record(std::make_unique<constant_gradient>(mine, here, float(rank + 1)));
            });
          }};
}

/// Combined reports of four ranks, each of which has half of the experts.
struct seen {
  square_norms norms;
  std::map<std::string, std::int64_t> saved;        ///< elements
  std::vector<by_view<digest>> voted{4};            ///< by rank
  std::vector<by_view<std::vector<int>>> alike{4};  ///< the ranks with equal parameters, by rank
  std::map<std::string, std::vector<std::int64_t>> first_rows;
};

seen one_step(bool distributed, int context) {
  const auto dense = make_mesh(4, 1, context, 1);
  const seats all_seats(dense, fold_experts(dense, experts, 1));
  seen out;
  std::mutex mutex;
  tests::each_seat(all_seats, [&](int r, stream& stream, const worker_groups& mine) {
    const auto counts
        = [&](axis_view layers) { return distributed || all_seats.counts(r, layers); };
    const auto model = tests::tiny_gpt(1);
    worker rank({.model = gpt_spec(model, block_of_rank(r)),
                 .chunks = {{chunk_id(0), {0, 3}}},
                 .distributed_optimizer = distributed,
                 .bucket_size = 64,
                 .grain = 4,
                 .compared = true,
                 .saves = {counts(axis_view::dense), counts(axis_view::experts)}},
                stream,
                mine);
    rank.begin_step({.step = step_id(1), .logical_replicas = 4});
    const pass_key key{0, chunk_id(0), microbatch_id(0)};
    rank.forward(key, tests::tiny_batch(stream, model, 2, std::uint64_t(r), true));
    rank.backward(key, {});
    rank.reduce();
    const auto norms = rank.norms();
    const auto voted = rank.vote_digests();
    const std::lock_guard lock(mutex);
    out.voted[std::size_t(r)] = voted;
    for (const auto layers : axis_views)
      out.alike[std::size_t(r)][layers] = all_seats.alike(r, layers);
    for (const auto& [name, square] : norms)
      if (counts(rank.layers_of(name)))
        out.norms[name] += square;
    for (const auto& x : rank.parameters()) {
      out.saved[x.name] += x.part.size();
      out.first_rows[x.name].push_back(x.part.first[0]);
    }
  });
  return out;
}

}  // namespace

TEST_CASE("SEATS-1: a parameter of experts is summed, compared, counted and saved by its own mesh",
          "[trainer][axes][invariant]") {
  const bool distributed = GENERATE(false, true);
  const int context = GENERATE(1, 2);  // ranks with parts of the same sequences
  CAPTURE(distributed, context);
  const auto found = one_step(distributed, context);
  const std::string stem = "decoder.layers.0.mlp.";
  // All four add up to 10. Ranks 0 and 2 have expert 0, with the sum 4; ranks 1 and 3 have the
  // other, with 6.
  CHECK(found.norms.at(stem + "dense").value() == double(width * 10 * 10));
  CHECK(found.norms.at(stem + "experts").value() == double(width * (4 * 4 + 6 * 6)));
  CHECK(found.saved.at(stem + "dense") == width);
  CHECK(found.saved.at(stem + "experts") == experts * width);
  auto rows = found.first_rows.at(stem + "experts");
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  CHECK(rows == std::vector<std::int64_t>{0, 1});
  // Ranks with equal parameters vote equal digests, those with other experts different ones.
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(found.alike[r].experts == std::vector<int>{int(r) % 2, int(r) % 2 + 2});
    for (std::size_t other = 0; other < 4; ++other)
      for (const auto layers : axis_views) {
        const auto& alike = found.alike[r][layers];
        const bool equal = std::find(alike.begin(), alike.end(), int(other)) != alike.end();
        CHECK((found.voted[r][layers] == found.voted[other][layers]) == equal);
      }
  }
}
