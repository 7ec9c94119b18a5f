// The lifetime of gradient memory; later steps need no more than the first ones.

#include "runtime/trainer/worker.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <optional>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

/// A model with units and activations of some megabytes.
gpt_config megabyte_gpt() {
  auto c = tiny_gpt(4);
  c.hidden = 192;
  c.heads = c.groups = 4;
  c.head_size = 48;
  c.ffn = 768;
  c.sequence = c.positions = 128;
  c.vocabulary = c.padded_vocabulary = 3072;
  return c;
}

worker_settings settings_of(const gpt_config& c, dtype precision) {
  return {
      .model = gpt_spec(c), .chunks = {{chunk_id(0), {0, c.layers + 2}}}, .precision = precision};
}

worker_settings megabytes(dtype precision) {
  return settings_of(megabyte_gpt(), precision);
}

std::int64_t bytes_of_gradients(const worker& x) {
  std::int64_t sum = 0;
  for (const auto& array : x.gradient_arrays())
    sum += array.elements * 4;
  return sum;
}

/// Bytes of the values that share memory with gradients.
std::int64_t bytes_of_passing_values(const worker& x) {
  std::int64_t sum = 0;
  for (const auto& array : x.value_arrays())
    sum += array.stays ? 0 : array.elements * 2;
  return sum;
}

}  // namespace

TEST_CASE("gradients without a reduction have memory from the backward pass until they are dropped",
          "[trainer][memory]") {
  const bool rounded = GENERATE(false, true);
  const auto settings = megabytes(rounded ? dtype::bf16 : dtype::f32);
  memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  worker x(settings, stream);
  const auto gradients = bytes_of_gradients(x) - bytes_of_passing_values(x);
  CHECK(gradients > (rounded ? 4 << 20 : 8 << 20));
  CHECK(x.gradient_arrays().size() == 6);  // embedding, four layers, and head
  const pass_key key{0, chunk_id(0), microbatch_id(0)};
  std::vector<std::size_t> held, at_rest;
  for (std::uint64_t step = 1; step <= 4; ++step) {
    CAPTURE(step);
    const auto in = tiny_batch(stream, settings.model, 2, step);
    x.begin_step({.step = step_id(step)});
    const auto before = std::int64_t(pool.bytes_in_use());
    pool.reset_peak();
    x.forward(key, in);
    const auto activations = std::int64_t(pool.bytes_in_use()) - before;
    x.backward(key, {});
    // Activations are freed, and gradients are present.
    const auto grown = std::int64_t(pool.bytes_in_use()) - before;
    CHECK(grown >= gradients);
    if (step > 1)  // products by some instruction sets take scratch memory in the first step
      CHECK(grown < gradients + gradients / 8);
    CHECK(activations > gradients / 2);
    // Activations and gradients were not complete at the same time.
    CHECK(std::int64_t(pool.peak_bytes()) - before < activations + gradients);
    x.reduce();
    x.norms();
    if (step != 3)  // a skipped step
      x.update({.step = step, .learning_rate = 0.01});
    x.drop_gradients();
    held.push_back(pool.held_bytes());
    at_rest.push_back(pool.bytes_in_use());
  }
  CHECK(at_rest[1] == at_rest[0]);
  for (const int later : {2, 3}) {
    CHECK(held[std::size_t(later)] == held[1]);
    CHECK(at_rest[std::size_t(later)] == at_rest[1]);
  }
}

TEST_CASE("gradients of an abandoned step are freed when the next begins", "[trainer][memory]") {
  const auto settings = megabytes(dtype::f32);
  memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  worker x(settings, stream);
  const pass_key key{0, chunk_id(0), microbatch_id(0)};
  const auto in = tiny_batch(stream, settings.model, 2, 1);
  x.begin_step({.step = step_id(1)});
  x.forward(key, in);
  const auto recorded = pool.bytes_in_use();
  x.backward(key, {});
  const bool trains = GENERATE(true, false);
  x.begin_step({.step = step_id(2), .training = trains});
  CHECK(pool.bytes_in_use() < recorded);
  CHECK(pool.bytes_in_use() < std::size_t(bytes_of_gradients(x)) * 4);
}

TEST_CASE("gradients and rounded values share memory in turn", "[trainer][memory]") {
  auto c = megabyte_gpt();
  c.tied_embeddings = GENERATE(false, true);
  c.sequence = c.positions = 32;
  c.vocabulary = c.padded_vocabulary = 12288;
  auto settings = settings_of(c, dtype::bf16);
  const bool lion = GENERATE(false, true), decoupled = GENERATE(false, true);
  settings.optimizer.kind = lion ? optimizer_kind::lion : optimizer_kind::adam;
  CAPTURE(c.tied_embeddings, lion, decoupled);
  memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  worker x(settings, stream);
  auto at_rest = std::int64_t(pool.bytes_in_use());
  const auto values = bytes_of_passing_values(x), gradients = bytes_of_gradients(x);
  const auto of_words = c.vocabulary * c.hidden * 2;
  REQUIRE(values > of_words);
  const auto waste = gradients / 8;  // size classes
  std::vector<std::size_t> held;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    CAPTURE(step);
    const auto in = tiny_batch(stream, settings.model, 1, step);
    const bool accumulates = step == 2, left_out = step == 3;
    std::int64_t first = 0;
    x.begin_step({.step = step_id(step), .microbatches = accumulates ? 2 : 1});
    pass_key key{0, chunk_id(0), microbatch_id(0)};
    const auto forward = [&] {
      const auto before = std::int64_t(pool.bytes_in_use());
      x.forward(key, in);
      return std::int64_t(pool.bytes_in_use()) - before;
    };
    if (accumulates) {
      first = forward();
      x.backward(key, {});
      // Another micro-batch follows.
      CHECK(std::int64_t(pool.bytes_in_use()) > at_rest + gradients - waste);
      key.microbatch = microbatch_id(1);
    }
    // The last forward pass frees the embedding table, unless a tied head reads it again.
    const auto last = forward();
    if (accumulates)
      CHECK((first - last > of_words / 2) == !c.tied_embeddings);
    pool.reset_peak();
    x.backward(key, {});
    const auto now = std::int64_t(pool.bytes_in_use());
    if (step > 1)
      CHECK(now < at_rest + gradients - values + waste);
    if (!accumulates)
      CHECK(std::int64_t(pool.peak_bytes()) < now + of_words / 2);
    x.reduce();
    pool.reset_peak();
    if (!left_out)
      x.update(
          {.step = step,
           .learning_rate = 0.01,
           .decoupled_learning_rate = decoupled ? std::optional(0.02) : std::optional<double>()});
    // The values of a layer are written before its gradients are freed.
    CHECK(std::int64_t(pool.peak_bytes()) < now + of_words / 2);
    x.drop_gradients();
    if (step == 1)  // with the scratch memory of products
      at_rest = std::int64_t(pool.bytes_in_use());
    CHECK(std::int64_t(pool.bytes_in_use()) < at_rest + waste);
    held.push_back(pool.held_bytes());
  }
  CHECK(held.back() == held[2]);
}

TEST_CASE("the embedding's values are freed before the output layer's gradient is allocated",
          "[trainer][memory]") {
  auto c = megabyte_gpt();
  c.tied_embeddings = GENERATE(false, true);
  c.sequence = c.positions = 32;
  c.vocabulary = c.padded_vocabulary = 12288;
  auto settings = settings_of(c, dtype::bf16);
  settings.recompute = {.granularity = recompute_granularity::full};  // makes the head a block
  const bool accumulates = GENERATE(false, true);
  CAPTURE(c.tied_embeddings, accumulates);
  memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  worker x(settings, stream);
  const auto of_words = c.vocabulary * c.hidden * 2;
  const auto in = tiny_batch(stream, settings.model, 1, 1);
  const pass_key first{0, chunk_id(0), microbatch_id(0)};
  x.begin_step({.step = step_id(1)});  // allocates the scratch of products
  x.forward(first, in);
  x.backward(first, {});
  x.begin_step({.step = step_id(2), .microbatches = accumulates ? 2 : 1});
  const int head = int(x.blocks(first.chunk).size()) - 1;
  x.forward(first, in);
  const auto before = std::int64_t(pool.bytes_in_use());
  pool.reset_peak();
  x.input_gradients(first, {}, head);
  x.weight_gradients(first, head);
  // If another micro-batch follows, the values stay.
  const auto after = std::int64_t(pool.bytes_in_use()), gradient = 2 * of_words;
  const auto room = accumulates ? 0 : of_words, waste = of_words / 4;
  CHECK(after < before + gradient - room + waste);
  CHECK(after > before + gradient - room - waste);
  CHECK(std::int64_t(pool.peak_bytes()) < after + waste);
}

TEST_CASE("a stage with the head drops its values after the last input gradient of a step",
          "[trainer][memory]") {
  auto c = megabyte_gpt();
  c.tied_embeddings = false;
  c.sequence = c.positions = 32;
  c.vocabulary = c.padded_vocabulary = 12288;
  auto settings = settings_of(c, dtype::bf16);
  settings.chunks = {{chunk_id(0), {0, c.layers + 1}}};
  stream layers_stream(kernels::backend::cpu, 1, {});
  worker layers(settings, layers_stream);
  settings.chunks = {{chunk_id(1), {c.layers + 1, c.layers + 2}}};
  const auto of_words = c.vocabulary * c.hidden * 2;
  struct stage {
    explicit stage(const worker_settings& settings)
        : stream(kernels::backend::cpu, 1, pool), x(settings, stream) {}
    std::int64_t bytes() const { return std::int64_t(pool.bytes_in_use()); }
    memory_pool pool;
    troupe::runtime::stream stream;
    worker x;
  };
  const auto key = [](std::uint32_t m) { return pass_key{0, chunk_id(1), microbatch_id(m)}; };
  const auto forward = [&](stage& s, std::uint64_t step, std::uint32_t m) {
    const auto all = tiny_batch(layers_stream, settings.model, 1, 10 * step + m);
    layers.begin_step({.step = step_id(step), .training = false});
    auto in = layers.forward({0, chunk_id(0), microbatch_id(m)}, all);
    in.add("labels", all.at("labels"));
    in.add("mask", all.at("mask"));
    s.x.forward(key(m), in);
  };
  const auto trains = [&](stage& s, std::uint64_t step) {
    s.x.begin_step({.step = step_id(step), .microbatches = 2});
    forward(s, step, 0);
    forward(s, step, 1);
  };
  const auto updated = [&](stage& s, std::uint64_t step) {
    s.x.reduce();
    s.x.norms();
    s.x.update({.step = step, .learning_rate = 0.01});
    s.x.drop_gradients();
    return s.x.digests();
  };
  stage late(settings), soon(settings);  // W after all I, or each after its own I
  for (const std::uint64_t step : {1, 2, 3}) {
    CAPTURE(step);
    trains(late, step);
    const auto before = late.bytes();
    late.x.input_gradients(key(0), {});
    const auto between = late.bytes();
    late.x.input_gradients(key(1), {});
    const auto first = between - before, last = late.bytes() - between;
    const auto waste = of_words / 4;
    CHECK(first - last > of_words - waste);
    if (step > 1)  // the first step also allocates the scratch memory of products
      CHECK(first - last < of_words + waste);
    if (step == 2) {  // abandoned while values are dropped and gradients are missing
      for (auto* const s : {&late, &soon}) {
        s->x.begin_step({.step = step_id(step), .training = false});
        forward(*s, step, 0);
      }
      CHECK(late.x.loss(0).total == soon.x.loss(0).total);
      continue;
    }
    for (const std::uint32_t m : {0, 1})
      late.x.weight_gradients(key(m));
    trains(soon, step);
    for (const std::uint32_t m : {0, 1}) {
      soon.x.input_gradients(key(m), {});
      soon.x.weight_gradients(key(m));
    }
    CHECK(updated(late, step - step / 3) == updated(soon, step - step / 3));
  }
}

TEST_CASE("values that make room for gradients have the same bits as permanent ones",
          "[trainer][memory]") {
  for (const auto& [name, config] : tiny_gpts(2))
    for (const auto precision : {dtype::bf16, dtype::f16})
      for (const auto rule : {optimizer_kind::adam,
                              optimizer_kind::sgd,
                              optimizer_kind::lion,
                              optimizer_kind::muon}) {
        CAPTURE(name, precision, rule);
        auto settings = settings_of(config, precision);
        settings.optimizer.kind = rule;
        stream passing_stream(kernels::backend::cpu, 1, {});
        stream lasting_stream(kernels::backend::cpu, 1, {});
        worker passing(settings, passing_stream);
        REQUIRE_FALSE(passing.value_arrays().front().stays);
        settings.keeps_previous = true;
        worker lasting(settings, lasting_stream);
        REQUIRE(lasting.value_arrays().front().stays);
        lasting.seal(0, lasting.digests());
        for (std::uint64_t step = 1; step <= 6; ++step) {
          CAPTURE(step);
          const bool abandoned = step == 3, left_out = step == 5;
          std::vector<square_norms> norms;
          for (auto* const x : {&passing, &lasting}) {
            auto& by = x == &passing ? passing_stream : lasting_stream;
            x->begin_step({.step = step_id(step), .microbatches = 2});
            const auto forward = [&](std::uint32_t m) {
              x->forward({0, chunk_id(0), microbatch_id(m)},
                         tiny_batch(by, settings.model, 2, 10 * step + m));
            };
            const auto backward = [&](std::uint32_t m) {
              x->backward({0, chunk_id(0), microbatch_id(m)}, {});
            };
            forward(0);
            if (step % 2 == 1) {
              backward(0);
              forward(1);
              backward(1);
            } else {  // the first micro-batch's backward pass is last and still reads values
              forward(1);
              backward(1);
              backward(0);
            }
            if (abandoned)
              continue;
            x->reduce();
            norms.push_back(x->norms());
            if (!left_out)
              x->update({.step = step, .learning_rate = 0.01});
            x->drop_gradients();
          }
          if (abandoned)
            continue;
          CHECK(norms[0] == norms[1]);
          CHECK(passing.loss(0).total == lasting.loss(0).total);
          const auto now = lasting.digests();
          CHECK(passing.digests() == now);
          if (left_out)
            lasting.skip(step - 1);
          else
            lasting.seal(step - (step > 3 ? 1 : 0), now);
        }
      }
}

TEST_CASE("stages without a reduction drop values, too, but not those of a tied parameter",
          "[trainer][memory]") {
  for (const auto& [name, config] : tiny_gpts(3)) {
    CAPTURE(name);
    const worker_settings settings{.model = gpt_spec(config), .precision = dtype::bf16};
    ranks alone({}, settings, kernels::backend::cpu);
    // The last stage has a head, but no layer.
    const std::vector<chunk_range> cuts{{0, 3}, {3, 4}, {4, 4}, {4, 5}};
    ranks stages({.pipeline = 4}, settings, kernels::backend::cpu, cuts);
    for (const int p : {0, 1, 3})
      CHECK(stages.at({.pipeline = p}).value_arrays().front().stays
            == (config.tied_embeddings && p != 1));
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const auto one = alone.step(step, 3), other = stages.step(step, 3);
      CHECK(other.digests == one.digests);
      CHECK(other.norms == one.norms);
    }
  }
}

TEST_CASE("a rank keeps an embedding of padding only", "[trainer][memory]") {
  auto config = tiny_gpts(2).at("rope, rms norm, swiglu, no biases, untied, 2 groups");
  config.vocabulary = 15;
  config.padded_vocabulary = 32;
  const worker_settings settings{.model = gpt_spec(config), .precision = dtype::bf16};
  ranks halves({.tensor = 2}, settings, kernels::backend::cpu);
  CHECK_FALSE(halves.at({.tensor = 1}).value_arrays().front().stays);
  std::vector<double> losses;
  for (std::uint64_t step = 1; step <= 3; ++step)
    losses.push_back(halves.step(step, 2).losses.front().total);
  for (const double x : losses)
    CHECK(std::isfinite(x));
}

TEST_CASE("a worker with a gradient reduction keeps gradient memory and has the same bits",
          "[trainer][memory]") {
  auto settings = megabytes(dtype::f32);
  settings.model = gpt_spec(tiny_gpts(2).begin()->second);
  settings.chunks = {};
  ranks alone({}, settings, kernels::backend::cpu);
  for (const auto& x : alone.at({}).gradient_arrays())
    CHECK_FALSE(x.stays);
  settings.replicas = 2;
  ranks both({}, settings, kernels::backend::cpu);
  CHECK(both.at({}).gradient_arrays().size() == 2);  // one for each replica
  settings.replicas = 1;
  ranks two({.data = 2}, settings, kernels::backend::cpu);
  for (const int r : {0, 1}) {
    const auto arrays = two.at({.data = r}).gradient_arrays();
    REQUIRE(arrays.size() == 1);
    CHECK(arrays.front().stays);
  }
  for (std::uint64_t step = 1; step <= 2; ++step)
    CHECK(both.step(step, 1).digests == two.step(step, 1).digests);
}
