// WORKER-14: a parameter with several uses is updated by the sum of all gradients, in model order,
// wherever the uses are.

#include "runtime/model/ties.hpp"

#include "tests/support/ranks.hpp"
#include "tests/support/two_streams.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <thread>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t units = 7;
const std::string words = "embedding.word_embeddings.weight";

/// A norm of the decoder's stream, with a gain that may be tied.
struct tied_norm {
  std::int64_t width = 0;
  std::vector<std::string> tied_to = {};
};

void add(module_builder& to, const tied_norm& x) {
  const int gain = to.add({.name = "gain",
                           .extents = {x.width},
                           .initial = distribution::normal(0.5),
                           .tied_to = x.tied_to.empty() ? "" : x.tied_to.front()});
  to.segment("", [gain](tape& tape, pass& p) {
    p.hidden = norm(tape, p.hidden, {kernels::normalization::rms}, gain, no_parameter);
  });
}

module_traits traits_of(const tied_norm& x) {
  return {.width = x.width, .tied_to = x.tied_to};
}

/// two_streams with two more norms before its head, in units 6 and 7, that share their gain.
model_spec two_ties() {
  auto out = two_streams();
  const auto width = out.embedding().hidden;
  for (const auto& [name, tied_to] :
       {std::pair("first_norm", std::vector<std::string>()), {"second_norm", {"first_norm.gain"}}})
    out.units.insert(out.units.end() - 1,
                     {.letter = 's',
                      .name = name,
                      .prefix = name,
                      .stream = "decoder",
                      .module = tied_norm{width, tied_to}});
  return out;
}

worker_settings settings_of(dtype precision, bool distributed) {
  return {.model = two_streams(),
          .precision = precision,
          .distributed_optimizer = distributed,
          .bucket_size = 100,
          .grain = 16};
}

/// Digests of the state after each of three steps.
std::vector<std::map<std::string, digest>> steps(const grid& g,
                                                 const worker_settings& settings,
                                                 std::vector<chunk_range> stages) {
  ranks all(g, settings, kernels::backend::cpu, std::move(stages));
  std::vector<std::map<std::string, digest>> out;
  for (std::uint64_t s = 1; s <= 3; ++s)
    out.push_back(all.step(s, 2).digests);
  return out;
}

}  // namespace

TEST_CASE("a tie lists its uses in model order", "[trainer]") {
  const auto ties = ties_of(two_streams());
  REQUIRE(ties.size() == 1);
  CHECK(ties.front().owner == words);
  CHECK(ties.front().units == std::vector<std::int64_t>{0, 4, 6});
}

TEST_CASE("WORKER-14: a table with three uses has the bits of one rank on two and three stages",
          "[trainer]") {
  const auto precision = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  const bool distributed = GENERATE(false, true);
  const int data = distributed ? 2 : 1;
  CAPTURE(int(precision), distributed);
  const auto settings = settings_of(precision, distributed);
  const auto judge = steps({.pipeline = 1, .data = data}, settings, {{0, units}});
  // The uses are in units 0, 4 and 6: two on one stage, or one on each.
  CHECK(steps({.pipeline = 2, .data = data}, settings, {{0, 3}, {3, units}}) == judge);
  CHECK(steps({.pipeline = 2, .data = data}, settings, {{0, 5}, {5, units}}) == judge);
  CHECK(steps({.pipeline = 3, .data = data}, settings, {{0, 2}, {2, 5}, {5, units}}) == judge);
}

TEST_CASE("WORKER-14: ties on other stages than the rest have the bits of one rank", "[trainer]") {
  auto settings = settings_of(dtype::f32, false);
  settings.model = two_ties();
  const auto judge = steps({}, settings, {{0, 9}});
  // The table is used in units 0, 4 and 8, the gain in 6 and 7: on one stage, then on two.
  CHECK(steps({.pipeline = 2}, settings, {{0, 5}, {5, 9}}) == judge);
  CHECK(steps({.pipeline = 3}, settings, {{0, 5}, {5, 8}, {8, 9}}) == judge);
  CHECK(steps({.pipeline = 3}, settings, {{0, 2}, {2, 7}, {7, 9}}) == judge);
}

TEST_CASE("WORKER-14: the order of the sum is that of the model, not that of the ranks",
          "[trainer]") {
  const auto settings = settings_of(dtype::f32, false);
  const auto judge = steps({}, settings, {{0, units}}).front();
  // The first rank has the chunks with the first and the last use, as in a V-shaped schedule.
  const std::vector<chunk_range> ranges = {{0, 3}, {3, 5}, {5, units}};
  const bool alone = GENERATE(true, false);  // all chunks on one rank
  const auto rank_of = [alone](std::uint32_t chunk) { return alone ? 0U : chunk % 2; };
  const auto group = std::make_shared<local_group>(axis::pipeline, 2, cancel_token());
  std::array<stream, 2> streams{stream(kernels::backend::cpu, 1, {}),
                                stream(kernels::backend::cpu, 1, {})};
  std::array<local_communicator, 2> ties{local_communicator(group, 0),
                                         local_communicator(group, 1)};
  std::vector<std::unique_ptr<worker>> by;
  for (std::uint32_t rank = 0; rank < (alone ? 1 : 2); ++rank) {
    auto mine = settings;
    for (std::uint32_t c = 0; c < 3; ++c)
      if (rank_of(c) == rank)
        mine.chunks.push_back({chunk_id(c), ranges[c]});
    worker_groups groups;
    if (!alone)
      groups.of_tie[{words, copy_id()}] = {&ties[rank], {0, 1, 0}};
    by.push_back(std::make_unique<worker>(mine, streams[rank], groups));
    by.back()->begin_step({.step = step_id(1), .microbatches = 2});
  }
  for (std::uint32_t m = 0; m < 2; ++m) {
    const auto all = tiny_batch(streams[0], settings.model, 2, 1000 + m, true);
    bundle x;
    for (std::uint32_t c = 0; c < 3; ++c) {
      for (const auto& name : flow_of(settings.model, ranges[c]).batch)
        if (all.has(name))
          x.add(name, all.at(name));
      x = by[rank_of(c)]->forward({0, chunk_id(c), microbatch_id(m)}, x);
    }
    for (std::uint32_t c = 3; c-- > 0;)
      x = by[rank_of(c)]->backward({0, chunk_id(c), microbatch_id(m)}, c == 2 ? bundle() : x);
  }
  std::vector<std::thread> threads;
  for (auto& x : by)
    threads.emplace_back([&x] { x->reduce(); });
  for (auto& t : threads)
    t.join();
  square_norms norms;
  for (auto& x : by)
    add_to(norms, x->norms());
  std::map<std::string, digest> state;
  for (auto& x : by) {
    x->update({.step = 1,
               .learning_rate = 0.01,
               .gradient_scale = clip_coefficient(total_norm(norms), settings.optimizer.clip)});
    for (const auto& [name, part] : x->digests().own)
      state[name] += part;
  }
  CHECK(state == judge);
  for (auto& x : by)  // the uses in other chunks have the same state
    for (const auto& [name, part] : x->digests().copies)
      CHECK(part == judge.at(name));
}
