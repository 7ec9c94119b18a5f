#include "runtime/trainer/worker.hpp"

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <functional>
#include <thread>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

worker_settings settings(const gpt_config& model, int chunks, int replicas = 1) {
  worker_settings out{.model = gpt_spec(model), .replicas = replicas};
  for (const auto& range : split_layers(out.model.letters(), chunks, {}))
    out.chunks.push_back({chunk_id(std::uint32_t(out.chunks.size())), range});
  return out;
}

worker_settings only(worker_settings of, std::size_t chunk) {
  of.chunks = {of.chunks.at(chunk)};
  return of;
}

pass_key key(std::uint32_t microbatch, std::uint32_t chunk = 0, int replica = 0) {
  return {replica, chunk_id(chunk), microbatch_id(microbatch)};
}

/// Runs one micro-batch forward and backward through all chunks. `by` has the worker of each chunk.
void pass_through(const std::vector<worker*>& by,
                  const bundle& in,
                  std::uint32_t microbatch,
                  int replica = 0) {
  const auto chunks = std::uint32_t(by.size());
  bundle x = in;
  for (std::uint32_t c = 0; c < chunks; ++c) {
    if (c > 0 && c + 1 == chunks) {
      x.add("labels", in.at("labels"));
      x.add("mask", in.at("mask"));
    }
    x = by[c]->forward(key(microbatch, c, replica), x);
  }
  x = {};
  for (std::uint32_t c = chunks; c-- > 0;)
    x = by[c]->input_gradients(key(microbatch, c, replica), x);
  for (std::uint32_t c = chunks; c-- > 0;)
    by[c]->weight_gradients(key(microbatch, c, replica));
}

const step_settings first_step{.step = step_id(1), .microbatches = 2};
const std::string words = "embedding.word_embeddings.weight";
const update_decision decision{.step = 1, .learning_rate = 0.01, .gradient_scale = 0.5};

struct fixture {
  gpt_config model = tiny_gpts(4).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  troupe::runtime::stream stream{kernels::backend::reference, 1, {}};
  worker under_test{settings(model, 1), stream};

  bundle batch(std::uint64_t seed) { return tiny_batch(stream, model, 2, seed, true); }
  fixture() { under_test.begin_step(first_step); }
};

}  // namespace

TEST_CASE_METHOD(fixture, "WORKER-1: an action names a chunk of this rank", "[trainer]") {
  CHECK_THROWS_MATCHES(under_test.forward(key(0, 1), batch(1)),
                       broken_promise,
                       MessageMatches(StartsWith("WORKER-1")));
}

TEST_CASE_METHOD(fixture, "WORKER-2: a micro-batch passes a chunk once", "[trainer]") {
  under_test.forward(key(0), batch(1));
  CHECK_THROWS_MATCHES(
      under_test.forward(key(0), batch(1)), broken_promise, MessageMatches(StartsWith("WORKER-2")));
}

TEST_CASE_METHOD(fixture,
                 "WORKER-3, WORKER-4: the backward pass follows the forward pass",
                 "[trainer]") {
  CHECK_THROWS_MATCHES(under_test.input_gradients(key(0), {}),
                       broken_promise,
                       MessageMatches(StartsWith("WORKER-3")));
  CHECK_THROWS_MATCHES(
      under_test.weight_gradients(key(0)), broken_promise, MessageMatches(StartsWith("WORKER-4")));
  under_test.forward(key(0), batch(1));
  under_test.input_gradients(key(0), {});
  under_test.weight_gradients(key(0));
  CHECK_THROWS_MATCHES(
      under_test.weight_gradients(key(0)), broken_promise, MessageMatches(StartsWith("WORKER-4")));
}

TEST_CASE_METHOD(fixture, "WORKER-5: the reduction follows all backward passes", "[trainer]") {
  under_test.forward(key(0), batch(1));
  CHECK_THROWS_MATCHES(under_test.reduce(), broken_promise, MessageMatches(StartsWith("WORKER-5")));
}

TEST_CASE_METHOD(fixture, "WORKER-14: all uses of a tied parameter are summed", "[trainer]") {
  worker head(only(settings(model, 2), 1), stream);
  head.begin_step(first_step);
  CHECK_THROWS_MATCHES(head.reduce(), broken_promise, MessageMatches(StartsWith("WORKER-14")));
}

TEST_CASE_METHOD(fixture, "WORKER-7: each group is along its axis", "[trainer]") {
  const auto data = alone(axis::data), pipeline = alone(axis::pipeline);
  const auto refused = [&](const worker_groups& groups) {
    CHECK_THROWS_MATCHES(worker(settings(model, 1), stream, groups),
                         broken_promise,
                         MessageMatches(StartsWith("WORKER-7")));
  };
  refused({.along = {{axis::tensor, data.get()}}});
  refused({.along = {{axis::data, pipeline.get()}}});
  refused({.along = {{axis::pipeline, data.get()}}});
  refused({.of_tie = {{{words, copy_id()}, {data.get(), {0, 0}}}}});
}

TEST_CASE_METHOD(fixture, "BUCKET-1: one group sums a bucket along all its axes", "[trainer]") {
  const auto data = alone(axis::data), context = alone(axis::context);
  const auto both = alone({axis::context, axis::data});
  group_map groups = {{axis::data, data.get()}, {axis::context, context.get()}};
  CHECK_THROWS_MATCHES(worker(settings(model, 1), stream, {.along = groups}),
                       broken_promise,
                       MessageMatches(StartsWith("BUCKET-1")));
  groups.emplace(both->along(), both.get());
  CHECK_NOTHROW(worker(settings(model, 1), stream, {.along = groups}));
}

TEST_CASE_METHOD(fixture,
                 "WORKER-13: a gradient is summed along each axis of its partial placement",
                 "[trainer]") {
  const auto data = alone(axis::data);
  const auto refused = [&](const worker_groups& groups, const char* along) {
    CHECK_THROWS_MATCHES(
        worker(settings(model, 1), stream, groups),
        broken_promise,
        MessageMatches(StartsWith("WORKER-13") && ContainsSubstring("weight'") && EndsWith(along)));
  };
  // The job has more ranks along an axis than the worker's groups.
  refused({.extents = {{axis::data, 2}}}, "along data");
  refused({.along = {{axis::data, data.get()}}, .extents = {{axis::data, 2}}}, "along data");
  refused({.extents = {{axis::context, 2}}}, "along context");
  CHECK_NOTHROW(worker(settings(model, 1), stream, {.extents = {{axis::data, 1}}}));
  const auto placed = [&](const parameter_placements& lies) {
    auto out = settings(model, 1);
    out.model = gpt_spec(model, {.name = "placed", .feed_forward = [lies](auto& to, const auto&) {
                                   to.add({.name = "weight", .extents = {8}, .placements = lies});
                                   to.segment("nothing", [](tape&, pass&) {});
                                 }});
    return out;
  };
  const auto refused_placement
      = [&](const parameter_placements& lies, const worker_groups& groups, const char* along) {
          CHECK_THROWS_MATCHES(worker(placed(lies), stream, groups),
                               broken_promise,
                               MessageMatches(StartsWith("WORKER-13") && EndsWith(along)));
        };
  // A placement along an axis that the layers of its view do not use.
  refused_placement({{axis::expert, partial_gradient()}}, {}, "along expert");
  refused_placement(of_experts({{axis::tensor, partial_gradient()}}), {}, "along tensor");
  // Parts of the batch without a sum, on either mesh.
  const auto two = std::make_shared<local_group>(axis::data, 2, cancel_token());
  const auto two_of_experts = std::make_shared<local_group>(axis::expert_data, 2, cancel_token());
  local_communicator of_data(two, 0), of_expert_data(two_of_experts, 0);
  const coordinates extents = {{axis::data, 2}, {axis::expert_data, 2}};
  const worker_groups dense = {.along = {{axis::data, &of_data}}, .extents = extents};
  auto both = dense;
  both.along[axis::expert_data] = &of_expert_data;
  refused_placement({{axis::data, {}}}, both, "along data");
  refused_placement(of_experts({{axis::expert_data, {}}}), both, "along expert data");
  refused_placement(of_experts({}), dense, "along expert data");
  CHECK_NOTHROW(worker(placed(of_experts({})), stream, both));
}

TEST_CASE_METHOD(fixture, "WORKER-8: recomputation follows the forward pass", "[trainer]") {
  CHECK_THROWS_MATCHES(
      under_test.recompute(key(0), 0), broken_promise, MessageMatches(StartsWith("WORKER-8")));
}

TEST_CASE_METHOD(fixture,
                 "WORKER-9: several replicas are summed along the data axis",
                 "[trainer]") {
  worker two(settings(model, 1, 2), stream);
  two.begin_step(first_step);
  CHECK_THROWS_MATCHES(two.reduce(), broken_promise, MessageMatches(StartsWith("WORKER-9")));
}

TEST_CASE_METHOD(fixture, "losses add up in the order of the micro-batches", "[trainer]") {
  worker backwards(settings(model, 1), stream);
  backwards.begin_step(first_step);
  for (const std::uint32_t m : {0U, 1U, 2U}) {
    under_test.forward(key(m), batch(m));
    backwards.forward(key(2 - m), batch(2 - m));
  }
  const auto sum = under_test.loss(0);
  CHECK(sum.tokens > 0);
  CHECK(sum.total == backwards.loss(0).total);
  CHECK(sum.tokens == backwards.loss(0).tokens);
  CHECK(under_test.loss(1).tokens == 0);  // there was no pass for another replica
}

TEST_CASE_METHOD(fixture, "an abandoned step leaves no trace", "[trainer]") {
  worker fresh(settings(model, 1), stream);
  fresh.begin_step(first_step);
  pass_through({&fresh}, batch(1), 0);

  pass_through({&under_test}, batch(2), 0);
  under_test.forward(key(1), batch(3));  // without a backward pass
  under_test.begin_step(first_step);
  pass_through({&under_test}, batch(1), 0);
  CHECK(under_test.vote_digests() == fresh.vote_digests());
  CHECK(under_test.loss(0).total == fresh.loss(0).total);
  CHECK(under_test.norms() == fresh.norms());
}

TEST_CASE_METHOD(fixture, "a forward pass without training needs no backward pass", "[trainer]") {
  const auto before = combine(under_test.digests().own);
  pass_through({&under_test}, batch(1), 0);
  const auto gradients = under_test.vote_digests();
  under_test.begin_step({.step = step_id(1), .training = false});
  under_test.forward(key(0), batch(1));
  under_test.forward(key(1), batch(2));
  CHECK_NOTHROW(under_test.reduce());
  CHECK(combine(under_test.digests().own) == before);
  CHECK(gradients.dense != digest());
}

TEST_CASE("one worker with all chunks has the bits of one with a single chunk", "[trainer]") {
  const auto all = tiny_gpts(4);
  for (const auto& [name, model] : all) {
    CAPTURE(name);
    stream stream(kernels::backend::cpu, 1, {});
    worker one(settings(model, 1), stream), four(settings(model, 4), stream);
    for (std::uint64_t step = 1; step <= 2; ++step) {
      for (auto* const x : {&one, &four}) {
        x->begin_step({.step = step_id(step), .microbatches = 2});
        for (std::uint32_t m = 0; m < 2; ++m)
          pass_through(std::vector(x == &one ? 1 : 4, x), tiny_batch(stream, model, 2, m), m);
        x->reduce();
      }
      CHECK(four.norms() == one.norms());
      for (auto* const x : {&one, &four})
        x->update({.step = step, .learning_rate = 0.01});
      CHECK(combine(four.digests().own) == combine(one.digests().own));
      CHECK(four.loss(0).total == one.loss(0).total);
    }
    CHECK(four.parameter_count() == one.parameter_count());
    CHECK(one.parameter_count() == parameter_count(model));
  }
}

TEST_CASE("stages and replicas in threads have the bits of a single worker", "[trainer]") {
  const bool tied = GENERATE(true, false);
  auto model = tiny_gpts(4).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  model.tied_embeddings = tied;
  stream of_judge(kernels::backend::reference, 1, {});
  const step_settings step{.step = step_id(1), .microbatches = 2, .logical_replicas = 2};
  const auto itself = alone(axis::data);
  worker judge(settings(model, 1, 2), of_judge, {.along = {{axis::data, itself.get()}}});
  std::vector<std::shared_ptr<local_group>> of_stage, of_replica;
  for (int i = 0; i < 2; ++i) {
    of_stage.push_back(std::make_shared<local_group>(axis::data, 2, cancel_token()));
    of_replica.push_back(std::make_shared<local_group>(axis::pipeline, 2, cancel_token()));
  }
  std::vector<std::unique_ptr<local_communicator>> data, ties;
  std::vector<std::unique_ptr<worker>> ranks;  // [2 * stage + replica]
  std::vector<std::unique_ptr<stream>> streams;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    streams.push_back(std::make_unique<stream>(kernels::backend::reference, 1, memory_pool()));
    data.push_back(std::make_unique<local_communicator>(of_stage[rank / 2], int(rank % 2)));
    ties.push_back(std::make_unique<local_communicator>(of_replica[rank % 2], int(rank / 2)));
    ranks.push_back(std::make_unique<worker>(
        only(settings(model, 2), rank / 2),
        *streams.back(),
        tied ? worker_groups{.along = {{axis::data, data.back().get()}},
                             .of_tie = {{{words, copy_id()}, {ties.back().get(), {0, 1}}}}}
             : worker_groups{.along = {{axis::data, data.back().get()}}}));
    ranks.back()->begin_step(step);
  }
  judge.begin_step(step);
  for (std::uint32_t r = 0; r < 2; ++r)
    for (std::uint32_t m = 0; m < 2; ++m) {
      const auto in = tiny_batch(of_judge, model, 2, 10 * r + m, true);
      pass_through({&judge}, in, m, int(r));
      pass_through({ranks[r].get(), ranks[2 + r].get()}, in, m);
      CHECK(ranks[2 + r]->loss(0).total == judge.loss(int(r)).total);
    }
  judge.reduce();

  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      ranks[rank]->reduce();
      ranks[rank]->update(decision);
    });
  for (auto& t : threads)
    t.join();
  const auto expected = judge.norms();
  judge.update(decision);
  for (std::size_t r = 0; r < 2; ++r) {
    auto norms = ranks[r]->norms();
    norms.merge(ranks[2 + r]->norms());
    CHECK(norms == expected);
    auto digests = ranks[r]->digests().own;
    const auto of_last = ranks[2 + r]->digests();
    for (const auto& [name, copy] : of_last.copies)
      CHECK(copy == digests.at(name));
    CHECK(of_last.copies.size() == (tied ? 1 : 0));
    auto others = of_last.own;
    digests.merge(others);
    CHECK(combine(digests) == combine(judge.digests().own));
  }
}

TEST_CASE("named arrays of parameters and moments restore the same state", "[trainer]") {
  const auto all = tiny_gpts(4);
  for (const auto& [name, model] : all) {
    CAPTURE(name);
    stream stream(kernels::backend::cpu, 1, {});
    worker from(settings(model, 1), stream);
    from.begin_step(first_step);
    pass_through({&from}, tiny_batch(stream, model, 2, 1), 0);
    from.update(decision);
    std::map<std::string, std::vector<float>> arrays;
    std::map<std::string, shape> extents;
    const auto collect = [&](const std::vector<state_shard>& parts) {
      for (const auto& x : parts) {
        extents[x.name] = x.whole;
        arrays[x.name].resize(std::size_t(x.whole.size()), NAN);
        copy_common(x.part, x.elements.data(), whole(x.whole), arrays[x.name].data(), 4);
      }
    };
    collect(from.parameters());
    const auto parameters = arrays.size();
    collect(from.moments());
    CHECK(arrays.size() == 3 * parameters);
    CHECK(extents.at("embedding.word_embeddings.weight") == shape{model.vocabulary, model.hidden});

    auto other = settings(model, 4);  // other stages, another seed
    other.seed = 99;
    worker to(other, stream);
    CHECK(combine(to.digests().own) != combine(from.digests().own));
    std::map<std::string, std::int64_t> asked;
    to.restore(
        [&](const state_shard& x) {
          asked[x.name] += x.part.size();
          CHECK(extents.at(x.name) == x.whole);
          fill(x, arrays.at(x.name));
        },
        true);
    CHECK(asked.size() == arrays.size());
    for (const auto& [array, elements] : asked)
      CHECK(elements % extents.at(array).size() == 0);  // a tied one is requested twice
    CHECK(combine(to.digests().own) == combine(from.digests().own));
  }
}
