// A model gives the same bits for any split into stages and any order of passes.

#include "runtime/core/error.hpp"
#include "runtime/device/operation_timer.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <map>
#include <string_view>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

const pass_settings with_dropout{.seed = 7, .step = 3};

/// Runs the segments of the whole model one at a time, so that other passes can run in between.
class stepper {
 public:
  stepper(stages& of, stream& stream, const bundle& in)
      : program_(of.model().program()), tape_(stream, of.store(), {}) {
    pass_.settings = with_dropout;
    pass_.rows.positions = in.at("positions");
    pass_.rows.samples = in.at("samples");
    pass_.rows.order = in.at("positions");
    const auto B = pass_.rows.samples.size(), T = pass_.rows.positions.size() / B;
    pass_.rows.starts = filled<std::int32_t>(stream, {B + 1}, [T](auto b) { return b * T; });
    pass_.batch = in;
    if (const auto& turns = of.model().model().rotary_frequency; !turns.empty())
      pass_.rotary_frequency = uploaded(stream, turns, {std::int64_t(turns.size())});
  }

  int segments() const { return int(program_.size()); }
  void forward(int s) {
    tape_.begin_segment(program_[std::size_t(s)].unit);
    program_[std::size_t(s)].forward(tape_, pass_);
    tape_.end_segment();
  }
  void input_gradients(int s) { tape_.input_gradients(s); }
  void weight_gradients(int s) { tape_.weight_gradients(s); }
  loss_value loss() { return loss_of(tape_.stream(), pass_.losses.begin()->second); }

 private:
  const std::vector<segment>& program_;
  tape tape_;
  pass pass_ = {};
};

}  // namespace

TEST_CASE("a model cut into 2 or 4 stages has the bits of the whole", "[model]") {
  const auto [name, config] = GENERATE(from_range(tiny_gpts(4)));
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const int count = GENERATE(2, 4);
  CAPTURE(name, int(where), count);
  stream stream(where, 1, {});
  stages whole(config, 1, stream), cut(config, count, stream);
  for (int m = 0; m < 3; ++m) {
    const auto in = tiny_batch(stream, config, 2, std::uint64_t(m), true);
    const auto expected = whole.forward_backward(m, in, with_dropout);
    const auto seen = cut.forward_backward(m, in, with_dropout);
    CHECK(seen.total == expected.total);
    CHECK(seen.tokens == expected.tokens);
  }
  CHECK(cut.gradients() == whole.gradients());
}

TEST_CASE("delayed weight gradients have the bits of immediate ones", "[model]") {
  const int count = GENERATE(1, 2);
  const auto config = tiny_gpts(4).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  stream stream(kernels::backend::cpu, 1, {});
  stages at_once(config, count, stream), later(config, count, stream);
  constexpr int microbatches = 4;
  std::vector<bundle> in;
  for (int m = 0; m < microbatches; ++m)
    in.push_back(tiny_batch(stream, config, 2, std::uint64_t(m)));
  for (int m = 0; m < microbatches; ++m)
    at_once.forward_backward(m, in[std::size_t(m)], with_dropout);
  for (int m = 0; m < microbatches; ++m)
    later.forward(m, in[std::size_t(m)], with_dropout);
  for (int m = 0; m < microbatches; ++m)
    later.input_gradients(m);
  for (int m = 0; m < microbatches; ++m)
    later.weight_gradients(m);
  CHECK(later.gradients() == at_once.gradients());
}

TEST_CASE("two micro-batches interleaved by segments have the bits of one after the other",
          "[model]") {
  const auto [name, config] = GENERATE(from_range(tiny_gpts(2)));
  CAPTURE(name);
  stream stream(kernels::backend::cpu, 1, {});
  stages one_by_one(config, 1, stream), interleaved(config, 1, stream);
  const bundle in[] = {tiny_batch(stream, config, 2, 1), tiny_batch(stream, config, 2, 2)};
  const auto first = one_by_one.forward_backward(0, in[0], with_dropout);
  const auto second = one_by_one.forward_backward(1, in[1], with_dropout);

  // The second is one segment behind; its forward pass overlaps the backward pass of the first. The
  // weight gradients of a segment come after both input gradients, first micro-batch first.
  stepper a(interleaved, stream, in[0]), b(interleaved, stream, in[1]);
  const int n = a.segments();
  for (int s = 0; s < n; ++s) {
    a.forward(s);
    if (s > 0 && s < n - 1)
      b.forward(s - 1);
  }
  a.input_gradients(n - 1);
  b.forward(n - 2);
  b.forward(n - 1);
  for (int s = n - 1; s >= 0; --s) {
    if (s > 0)
      a.input_gradients(s - 1);
    b.input_gradients(s);
    a.weight_gradients(s);
    b.weight_gradients(s);
  }
  CHECK(a.loss().total == first.total);
  CHECK(b.loss().total == second.total);
  CHECK(interleaved.gradients() == one_by_one.gradients());
}

TEST_CASE("without dropout, the next norm in the chunk adds the residual", "[model]") {
  const auto config = tiny_gpts(4).at("rope, rms norm, swiglu, no biases, untied, 2 groups");
  const int count = GENERATE(1, 2);
  const auto profile = std::make_shared<operation_profile>();
  {
    stream stream(kernels::backend::cpu, 1, {});
    stream.time_operations(profile);
    stages under_test(config, count, stream);
    for (int m = 0; m <= operation_timer::warm_up; ++m) {
      stream.begin_step(true);
      under_test.forward_backward(m, tiny_batch(stream, config, 2, 1), {});
    }
  }
  REQUIRE(profile->steps() == 1);
  std::map<std::string_view, std::uint64_t> calls;
  for (const auto& x : profile->times())
    calls[x.kind.name] += x.calls;
  CHECK(calls["norm_forward<float>"] == 9);
  // The last residual of a chunk is added before it is sent.
  CHECK(int(calls["dropout_forward<float>"]) == count - 1);
}

TEST_CASE("every unit is emitted once per micro-batch and is released afterwards", "[model]") {
  const auto config = tiny_gpt(4);
  stream stream(kernels::backend::cpu, 1, {});
  stages under_test(config, 2, stream);
  const auto in = tiny_batch(stream, config, 2, 1);
  under_test.forward(0, in);
  under_test.input_gradients(0);
  for (std::size_t s = 0; s < 2; ++s)
    CHECK(under_test.store(s).emitted(0) == 0);
  under_test.weight_gradients(0);
  under_test.forward_backward(1, in);
  for (std::size_t s = 0; s < 2; ++s) {
    auto& store = under_test.store(s);
    CHECK(store.units().size() == 3);  // two layers, and the embedding or the head
    for (int unit = 0; unit < 3; ++unit) {
      CHECK(store.emitted(unit) == 2);
      CHECK_THROWS_AS(store.value(unit, 0), broken_promise);
    }
  }
}

TEST_CASE("a pass frees all its memory, and one without a backward pass keeps none", "[model]") {
  const auto config = tiny_gpts(4).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  const memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  stages under_test(config, 1, stream);
  const auto in = tiny_batch(stream, config, 2, 1);
  under_test.forward_backward(0, in, with_dropout);  // allocates the scratch of the stream
  const auto before = pool.bytes_in_use();

  under_test.forward(1, in, with_dropout);
  const auto recorded = pool.bytes_in_use() - before;
  under_test.input_gradients(1);
  under_test.weight_gradients(1);
  CHECK(pool.bytes_in_use() == before);

  under_test.forward(2, in, {.training = false});
  const auto kept = pool.bytes_in_use() - before;
  // The starts of the sequences and the input rows remain.
  CHECK(kept <= 1024);
  CHECK(recorded > 20 * kept);
}

TEST_CASE("dropout depends on seed, step and sample, and is off outside training", "[model]") {
  const auto config = tiny_gpts(2).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  stream stream(kernels::backend::cpu, 1, {});
  stages under_test(config, 1, stream);
  auto in = tiny_batch(stream, config, 2, 1);
  const auto loss
      = [&](const pass_settings& settings) { return under_test.forward(0, in, settings).total; };
  const auto once = loss({.seed = 7, .step = 3});
  CHECK(loss({.seed = 7, .step = 3}) == once);
  CHECK(loss({.seed = 8, .step = 3}) != once);
  CHECK(loss({.seed = 7, .step = 4}) != once);
  const auto off = loss({.seed = 7, .step = 3, .training = false});
  CHECK(loss({.seed = 8, .step = 4, .training = false}) == off);
  auto samples = in.at("samples");
  samples.data<std::uint64_t>()[1] += 1;
  CHECK(loss({.seed = 7, .step = 3}) != once);
}

TEST_CASE("the loss of a sample does not depend on the rest of its batch", "[model]") {
  const auto config = tiny_gpts(2).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  stream stream(kernels::backend::reference, 1, {});
  stages under_test(config, 1, stream);
  const auto both = tiny_batch(stream, config, 2, 1);
  double apart = 0;
  for (int b = 0; b < 2; ++b) {
    bundle one;
    for (const auto& [name, x] : both) {
      const auto each = x.size() / 2;
      one.add(name, x.slice(b * each, name == "samples" ? shape{1} : shape{1, each}));
    }
    apart += under_test.forward(b, one, with_dropout).total;
  }
  // Each row has the same loss; only the order of the sum differs.
  CHECK(std::abs(under_test.forward(2, both, with_dropout).total - apart) < 1e-10);
}
