// Tests of the operation timer on a device: counts match those of the CPU, and the host does not
// read device memory.

#include "runtime/device/operation_timer.hpp"

#include "kernels/op/attention.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/tensor/moves.hpp"
#include "runtime/trainer/reference_trainer.hpp"
#include "tests/emulator/control.hpp"
#include "tests/support/emulated_plugins.hpp"
#include "tests/support/formula_source.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

recipe tiny_recipe() {
  recipe recipe;
  recipe.model = tiny_gpts(2).begin()->second;
  recipe.rate = {.maximum = 1e-2, .minimum = 1e-3, .warmup = 8, .decay = 200};
  recipe.batch = {.micro = 2, .global = 4, .data_parallel = 1};
  return recipe;
}

void train(const std::shared_ptr<operation_profile>& profile, kernels::backend where, int steps) {
  stream stream(where, 1, {});
  stream.time_operations(profile);
  const auto recipe = tiny_recipe();
  reference_trainer by(recipe, std::make_shared<formula_source>(recipe, true), stream);
  for (int i = 0; i < steps; ++i)
    by.step();
}

}  // namespace

TEST_CASE("a device and the CPU count the same operations, FLOPs and bytes", "[device]") {
  const auto here = std::make_shared<operation_profile>(),
             there = std::make_shared<operation_profile>();
  train(here, kernels::backend::cpu, 5);
  train(there, kernels::backend::cuda, 5);
  CHECK(there->steps() == 3);
  CHECK(there->step_ms() > 0);
  int attentions = 0;
  for (const auto& x : there->times())
    for (const auto& y : here->times())
      if (x.kind == y.kind && x.kind.name.starts_with("attention")) {
        CAPTURE(x.kind.name);
        CHECK(x.calls == y.calls);
        CHECK(x.flops == y.flops);
        CHECK(x.flops > 0);
        CHECK(x.bytes == y.bytes);
        ++attentions;
      }
  CHECK(attentions == 2);
}

// After `finish` the host cannot access the memory of the emulated device.
TEST_CASE("counting an operation does not read device memory", "[device]") {
  stream stream(kernels::backend::cuda, 1, {});
  const auto starts = uploaded<std::int32_t>(stream, std::vector<std::int32_t>{0, 4, 8}, {3});
  const auto positions
      = uploaded<std::int32_t>(stream, std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 2, 3}, {8});
  kernels::attention_forward<float> op{};
  op.shape = {.query_starts = starts.data<std::int32_t>(),
              .key_starts = starts.data<std::int32_t>(),
              .query_position = positions.data<std::int32_t>(),
              .key_position = positions.data<std::int32_t>(),
              .S = 2,
              .H = 2,
              .G = 1,
              .D = 8,
              .Dv = 8,
              .query_rows = 8,
              .key_rows = 8,
              .longest_query = 4,
              .longest_key = 4,
              .uniform = true};
  stream.finish();
  CHECK(call_of(op, false).flops == 4 * 2 * 10 * 2 * 8);
  CHECK(call_of(op, false).bytes == 4 * 8 * (2 * 8 * 2 + 2 * 8) + 4 * 8 * 2);
  op.shape.uniform = false;
  CHECK(call_of(op, false).flops == 0);
  CHECK(call_of(op, false).bytes == 4 * 8 * (2 * 8 * 2 + 2 * 8) + 4 * 8 * 2);
}

TEST_CASE("a device error during timing ends the run, not the process", "[device]") {
  const auto profile = std::make_shared<operation_profile>();
  const auto failing = [&] {
    stream stream(kernels::backend::cuda, 1, {});
    stream.time_operations(profile);
    const auto recipe = tiny_recipe();
    reference_trainer by(recipe, std::make_shared<formula_source>(recipe, true), stream);
    for (int i = 0; i < 4; ++i)
      by.step();
    emulator::plant_faults("cudaEventQuery@1+=999");
    by.step();
  };
  CHECK_THROWS_AS(failing(), device_failure);
  emulator::plant_faults("");
}
