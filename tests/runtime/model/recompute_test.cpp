// Recomputation gives the same bits.

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/local_variables.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <cstring>
#include <functional>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

const pass_settings with_dropout{.seed = 7, .step = 3};

struct choice {
  const char* name;
  recompute_settings settings;
};

recompute_settings full(recompute_method method, int layers) {
  return {.granularity = recompute_granularity::full, .method = method, .layers = layers};
}

recompute_settings selective(bool attention, bool feed_forward) {
  return {.granularity = recompute_granularity::selective,
          .core_attention = attention,
          .feed_forward = feed_forward};
}

const std::array<choice, 8> choices = {{{"core attention", selective(true, false)},
                                        {"feed forward", selective(false, true)},
                                        {"both modules", selective(true, true)},
                                        {"neither module", selective(false, false)},
                                        {"every layer", full(recompute_method::uniform, 1)},
                                        {"two layers at once", full(recompute_method::uniform, 2)},
                                        {"the first layer", full(recompute_method::block, 1)},
                                        {"the first three", full(recompute_method::block, 3)}}};

gpt_config with_dropouts(gpt_config c) {
  c.hidden_dropout = 0.2;
  c.attention_dropout = 0.3;
  return c;
}

/// Without dropout, norms add the residuals.
gpt_config without_dropouts(gpt_config c) {
  c.hidden_dropout = c.attention_dropout = 0;
  return c;
}

/// A whole deep model in one chunk; the test runs each of its passes.
struct deep {
  explicit deep(const recompute_settings& settings, std::int64_t layers = 12)
      : config(with_dropouts(tiny_gpt(layers))),
        model(gpt_spec(config), {0, layers + 2}),
        plan(model, settings),
        store(model.units(), 1, stream.pool()) {
    initialise(store, 1);
  }

  gpt_config config;
  troupe::runtime::stream stream{kernels::backend::cpu, 1, {}};
  chunk model;
  recompute_plan plan;
  resident_store store;
};

}  // namespace

TEST_CASE("recomputation does not change losses and gradients", "[recompute][unsanitized]") {
  const auto [name, base] = GENERATE(from_range(tiny_gpts(4)));
  const auto& [kind, settings] = choices[std::size_t(GENERATE(range(0, 8)))];
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const int count = GENERATE(1, 2);
  const bool drops = GENERATE(true, false);
  CAPTURE(name, kind, int(where), count, drops);
  const auto config = drops ? with_dropouts(base) : without_dropouts(base);
  stream stream(where, 1, {});
  stages judge(config, count, stream), seen(config, count, stream, settings);
  for (int m = 0; m < 2; ++m) {
    const auto in = tiny_batch(stream, config, 2, std::uint64_t(m), true);
    const auto expected = judge.forward_backward(m, in, with_dropout);
    const auto again = seen.forward_backward(m, in, with_dropout);
    CHECK(again.total == expected.total);
    CHECK(again.tokens == expected.tokens);
  }
  CHECK(seen.gradients() == judge.gradients());
  for (std::size_t s = 0; s < std::size_t(count); ++s)
    for (int unit = 0; unit < int(seen.store(s).units().size()); ++unit)
      CHECK(seen.store(s).emitted(unit) == 2);
}

TEST_CASE("recomputation does not change results for any order and norms of sublayers",
          "[recompute]") {
  const bool drops = GENERATE(true, false);
  const auto model
      = tiny_sublayers(drops ? with_dropouts(tiny_gpt(2)) : without_dropouts(tiny_gpt(2)));
  const auto settings = GENERATE(full(recompute_method::uniform, 1), selective(true, true));
  stream stream(kernels::backend::cpu, 1, {});
  stages judge(model, 1, stream), seen(model, 1, stream, settings);
  const auto in = tiny_batch(stream, model, 2, 3);
  const auto expected = judge.forward_backward(0, in, with_dropout);
  CHECK(seen.forward_backward(0, in, with_dropout).total == expected.total);
  CHECK(seen.gradients() == judge.gradients());
}

TEST_CASE("recomputation does not change results of a module with local variables", "[recompute]") {
  auto both = recomputed_experts(false, true, true);
  both.core_attention = true;
  const auto settings = GENERATE_COPY(recomputed_experts(true, false, false),
                                      recomputed_experts(false, true, false),
                                      recomputed_experts(false, false, true),
                                      recomputed_experts(true, true, true),
                                      both,
                                      full(recompute_method::uniform, 1),
                                      full(recompute_method::uniform, 2));
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const int count = GENERATE(1, 2);
  const bool drops = GENERATE(true, false);
  CAPTURE(int(where), count, drops);
  const auto model
      = with_several_variables(drops ? with_dropouts(tiny_gpt(4)) : without_dropouts(tiny_gpt(4)));
  const memory_pool pool;
  stream stream(where, 1, pool);
  stages judge(model, count, stream), seen(model, count, stream, settings);
  std::size_t before = 0;
  for (int m = 0; m < 3; ++m) {
    const auto in = tiny_batch(stream, model, 2, std::uint64_t(m));
    const auto expected = judge.forward_backward(m, in, with_dropout);
    CHECK(seen.forward_backward(m, in, with_dropout).total == expected.total);
    const auto held = pool.bytes_in_use();
    if (m == 2)
      CHECK(held == before);  // the first time allocates the scratch
    before = held;
  }
  CHECK(seen.gradients() == judge.gradients());
}

TEST_CASE("a mixture of experts is recomputed whole or by its parts", "[recompute]") {
  const auto model = with_several_variables(tiny_gpt(1));
  const chunk whole(model, all_of(model));
  const auto groups = [&](const recompute_settings& settings) {
    std::string out;
    for (const auto& group : recompute_plan(whole, settings).groups) {
      out += "[";
      for (int s = group.first; s < group.end; ++s) {
        const auto& name = whole.program()[std::size_t(s)].name;
        out += " " + name.substr(name.rfind('.') + 1);
      }
      out += " ]";
    }
    return out;
  };
  const std::string all = "[ norm begin fc1 act fc2 combine shared add ]";
  CHECK(groups(recomputed_experts(true, false, false)) == all);
  CHECK(groups(recomputed_experts(true, true, true)) == all);
  CHECK(groups(recomputed_experts(false, true, false)) == "[ act ]");
  CHECK(groups(recomputed_experts(false, false, true)) == "[ shared add ]");
  CHECK(groups(recomputed_experts(false, true, true)) == "[ act ][ shared add ]");
  CHECK(groups(recomputed_experts(false, false, false)).empty());
  CHECK(groups(selective(false, true)).empty());
}

TEST_CASE("MODEL-11: local variables are written, then taken by a later segment of their unit",
          "[model]") {
  const auto run = [](const std::function<void(pass&)>& act) {
    const auto config = tiny_gpt(1);
    auto model = gpt_spec(config);
    model.part<layer_spec>().sublayers.emplace_back(own_sublayer{
        "own",
        [act](module_builder& to) { to.segment("only", [act](tape&, pass& p) { act(p); }); }});
    stream stream(kernels::backend::cpu, 1, {});
    stages under_test(model, 1, stream);
    under_test.forward(0, tiny_batch(stream, config, 2, 1));
  };
  run([](pass& p) {
    p.locals["a"] = p.hidden;
    p.take("a");
  });
  CHECK_BREAKS("MODEL-11", run([](pass& p) { p.locals["a"] = p.hidden; }));
  CHECK_BREAKS("MODEL-11", run([](pass& p) { p.own = std::make_shared<const int>(1); }));
  CHECK_BREAKS("MODEL-11", run([](pass& p) { p.take("a"); }));
}

TEST_CASE("concurrent micro-batches are recomputed separately", "[recompute]") {
  const auto config = with_dropouts(tiny_gpt(4));
  stream stream(kernels::backend::cpu, 1, {});
  stages judge(config, 2, stream), seen(config, 2, stream, full(recompute_method::uniform, 1));
  std::vector<bundle> in;
  for (int m = 0; m < 3; ++m)
    in.push_back(tiny_batch(stream, config, 2, std::uint64_t(m)));
  for (int m = 0; m < 3; ++m)
    judge.forward_backward(m, in[std::size_t(m)], with_dropout);
  for (int m = 0; m < 3; ++m)
    seen.forward(m, in[std::size_t(m)], with_dropout);
  for (int m = 0; m < 3; ++m)
    seen.input_gradients(m);
  for (int m = 0; m < 3; ++m)
    seen.weight_gradients(m);
  CHECK(seen.gradients() == judge.gradients());
}

TEST_CASE("a plan has one block for each recomputed group of layers", "[recompute]") {
  const auto blocks = [](const recompute_settings& settings, const chunk_range& range) {
    const auto config = tiny_gpt(8);
    const chunk model(gpt_spec(config), range);
    const recompute_plan plan(model, settings);
    int next = 0;
    std::vector<char> out;
    for (const auto& b : plan.blocks) {
      CHECK(b.first == next);
      next = b.end;
      out.push_back(b.recomputed ? 'R' : '-');
    }
    CHECK(next == int(model.program().size()));
    return std::string(out.begin(), out.end());
  };
  const chunk_range whole{0, 10}, middle{3, 7}, empty{4, 4};
  CHECK(blocks({}, whole) == "-");
  CHECK(blocks(selective(true, false), whole) == "RRRRRRRR-");
  CHECK(blocks(selective(true, true), middle) == "RRRRRRRR-");
  CHECK(blocks(selective(false, false), whole) == "-");
  CHECK(blocks(full(recompute_method::uniform, 1), whole) == "RRRRRRRR-");
  CHECK(blocks(full(recompute_method::uniform, 3), whole) == "RRR-");
  CHECK(blocks(full(recompute_method::uniform, 99), whole) == "R-");
  CHECK(blocks(full(recompute_method::uniform, 2), middle) == "RR");
  CHECK(blocks(full(recompute_method::block, 3), middle) == "RRR-");
  CHECK(blocks(full(recompute_method::block, 99), middle) == "RRRR");
  CHECK(blocks(full(recompute_method::block, 0), middle) == "-");
  CHECK(blocks(full(recompute_method::uniform, 1), empty) == "-");
  CHECK(blocks(selective(true, true), empty) == "-");
}

TEST_CASE("more recomputation needs less memory", "[recompute]") {
  const auto peak = [](const recompute_settings& settings) {
    deep x(settings);
    const auto in = tiny_batch(x.stream, x.config, 4, 1);
    memory_pool pool = x.stream.pool();
    std::size_t out = 0;
    for (int i = 0; i < 2; ++i) {  // the first time allocates the scratch
      const auto before = pool.bytes_in_use();
      pool.reset_peak();
      chunk_pass pass(x.model, x.plan, x.stream, x.store, with_dropout);
      pass.forward(in);
      for (int b = pass.blocks() - 1; b >= 0; --b) {
        if (x.plan.blocks[std::size_t(b)].recomputed)
          pass.recompute(b);
        pass.input_gradients({}, b);
        pass.weight_gradients(b);
      }
      out = pool.peak_bytes() - before;
    }
    return out;
  };
  const auto none = peak({}), attention = peak(selective(true, false)),
             feed_forward = peak(selective(false, true)),
             half = peak(full(recompute_method::block, 6)),
             all = peak(full(recompute_method::uniform, 1));
  CAPTURE(none, attention, feed_forward, half, all);
  CHECK(attention < none);
  CHECK(feed_forward < attention);
  CHECK(half < none);
  CHECK(all < half);
  CHECK(3 * all < none);  // of 12 layers one is complete; the others keep their inputs
}

TEST_CASE("I and W in turn by segment have the bits of I before W, and need less memory",
          "[model]") {
  std::size_t held[2] = {};
  std::vector<float> gradients[2];
  for (const bool together : {false, true}) {
    deep x({});
    const auto in = tiny_batch(x.stream, x.config, 4, 1);
    memory_pool pool = x.stream.pool();
    for (int i = 0; i < 2; ++i) {  // the first time allocates the scratch
      const auto before = pool.bytes_in_use();
      pool.reset_peak();
      chunk_pass pass(x.model, x.plan, x.stream, x.store, with_dropout);
      pass.forward(in);
      if (together) {
        pass.backward(0);
      } else {
        pass.input_gradients({}, 0);
        pass.weight_gradients(0);
      }
      held[together] = pool.peak_bytes() - before;
    }
    const auto all = x.store.gradients(0);
    gradients[together].assign(all.begin(), all.end());
  }
  CAPTURE(held[0], held[1]);
  CHECK(gradients[1] == gradients[0]);
  CHECK(held[1] < held[0]);
}

TEST_CASE("TAPE-2, TAPE-4: R runs once, before its I", "[recompute]") {
  deep x(full(recompute_method::uniform, 1), 2);
  const auto in = tiny_batch(x.stream, x.config, 2, 1);
  chunk_pass pass(x.model, x.plan, x.stream, x.store, with_dropout);
  pass.forward(in);
  REQUIRE(pass.blocks() == 3);
  pass.input_gradients({}, 2);
  SECTION("missing") {
    CHECK_THROWS_MATCHES(
        pass.input_gradients({}, 1), broken_promise, MessageMatches(StartsWith("TAPE-2")));
  }
  SECTION("doubled") {
    pass.recompute(1);
    CHECK_THROWS_MATCHES(pass.recompute(1), broken_promise, MessageMatches(StartsWith("TAPE-4")));
  }
  SECTION("W before I") {
    pass.recompute(1);
    CHECK_THROWS_MATCHES(
        pass.weight_gradients(1), broken_promise, MessageMatches(StartsWith("TAPE-3")));
  }
}

TEST_CASE("a pass with recomputation frees all its memory", "[recompute]") {
  const auto& [kind, settings] = choices[std::size_t(GENERATE(range(0, 8)))];
  CAPTURE(kind);
  const auto config = with_dropouts(tiny_gpt(4));
  const memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  stages under_test(config, 1, stream, settings);
  const auto in = tiny_batch(stream, config, 2, 1);
  under_test.forward_backward(0, in, with_dropout);
  const auto before = pool.bytes_in_use();
  under_test.forward_backward(1, in, with_dropout);
  CHECK(pool.bytes_in_use() == before);
}

TEST_CASE("without a backward pass there is no recomputation and no kept memory", "[recompute]") {
  deep x(full(recompute_method::uniform, 1), 4);
  deep judge({}, 4);
  const auto in = tiny_batch(x.stream, x.config, 2, 1);
  const pass_settings settings{.training = false};
  chunk_pass a(x.model, x.plan, x.stream, x.store, settings);
  chunk_pass b(judge.model, judge.plan, judge.stream, judge.store, settings);
  a.forward(in);
  b.forward(in);
  CHECK(a.loss().total == b.loss().total);
}

TEST_CASE("a cancelled pass ends at its next segment", "[model]") {
  const bool recomputes = GENERATE(false, true);
  deep x(recomputes ? full(recompute_method::uniform, 1) : recompute_settings{}, 4);
  const auto in = tiny_batch(x.stream, x.config, 2, 1);
  const cancel_token until;
  const pass_settings settings{.seed = 7, .step = 3, .until = &until};
  const auto pass
      = [&] { return std::make_unique<chunk_pass>(x.model, x.plan, x.stream, x.store, settings); };
  const auto fresh = pass(), forward = pass(), back = pass();
  forward->forward(in);
  back->forward(in);
  const int last = back->blocks() - 1;
  if (recomputes)
    back->recompute(last);
  back->input_gradients({}, last);
  until.cancel();
  CHECK_THROWS_AS(fresh->forward(in), cancelled);
  if (recomputes)
    CHECK_THROWS_AS(forward->recompute(0), cancelled);
  CHECK_THROWS_AS(forward->input_gradients({}, last), cancelled);
  CHECK_THROWS_AS(forward->backward(last), cancelled);
  CHECK_THROWS_AS(back->weight_gradients(last), cancelled);
}

TEST_CASE("CHUNK-1: a chunk runs on the axes and ranks that it was cut for", "[model]") {
  const auto config = tiny_gpt(2);
  stream stream(kernels::backend::cpu, 1, {});
  const chunk half(gpt_spec(config), {0, 4}, {{axis::tensor, {1, 2}}});
  const recompute_plan plan(half, {});
  resident_store store(half.units(), 1, stream.pool(), dtype::f32, {{axis::tensor, {1, 2}}});
  CHECK_THROWS_MATCHES(chunk_pass(half, plan, stream, store, {}),
                       broken_promise,
                       MessageMatches(StartsWith("CHUNK-1")));
  const auto data = alone(axis::data);
  const chunk whole(gpt_spec(config), {0, 4});
  const recompute_plan other(whole, {});
  CHECK_THROWS_MATCHES(chunk_pass(whole, other, stream, store, {}, {{axis::tensor, data.get()}}),
                       broken_promise,
                       MessageMatches(StartsWith("CHUNK-1")));
}
