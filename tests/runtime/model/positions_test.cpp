// Position ids that restart within a row only select other rows of the position table.

#include "runtime/family/gpt/gpt.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::runtime;

namespace {

double loss_with(position_embedding kind, bool reset, kernels::backend where) {
  gpt_config c;
  c.layers = 1;
  c.hidden = 16;
  c.heads = c.groups = 2;
  c.head_size = 8;
  c.ffn = 32;
  c.sequence = c.positions = 12;
  c.vocabulary = c.padded_vocabulary = 23;
  c.position = kind;
  const chunk whole(gpt_spec(c), {0, 3});
  stream stream(where, 1, {});
  resident_store store(whole.units(), 1, {});
  initialise(store, 7);
  const auto filled = [&](auto value, auto of) {
    auto x = tensor::empty<decltype(value)>(stream, {2, 12});
    for (std::int64_t i = 0; i < 24; ++i)
      x.template data<decltype(value)>()[i] = of(i);
    return x;
  };
  bundle in;
  in.add("tokens", filled(std::int32_t(), [](auto i) { return std::int32_t(i * 7 % 23); }));
  in.add("labels", filled(std::int32_t(), [](auto i) { return std::int32_t(i * 5 % 23); }));
  in.add("mask", filled(float(), [](auto) { return 1.0F; }));
  in.add("positions",
         filled(std::int32_t(), [&](auto i) { return std::int32_t(reset ? i % 12 % 5 : i % 12); }));
  auto samples = tensor::empty<std::uint64_t>(stream, {2});
  samples.data<std::uint64_t>()[0] = 0;
  samples.data<std::uint64_t>()[1] = 1;
  in.add("samples", samples);
  const recompute_plan plan(whole, {});
  chunk_pass pass(whole, plan, stream, store, {.seed = 1, .step = 1});
  pass.forward(in);
  return pass.loss().total;
}

}  // namespace

TEST_CASE("position ids only select rows of the position table", "[model]") {
  const auto where = GENERATE(kernels::backend::cpu, kernels::backend::reference);
  for (const auto kind : {position_embedding::none, position_embedding::rope})
    CHECK(loss_with(kind, true, where) == loss_with(kind, false, where));
  CHECK(loss_with(position_embedding::learned_absolute, true, where)
        != loss_with(position_embedding::learned_absolute, false, where));
}
