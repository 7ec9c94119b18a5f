// The bytes that ranks receive in a step, by axis.

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/model/counts.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>

using namespace troupe;
using namespace troupe::runtime;

namespace {

/// Four layers of 32 channels; micro-batches of two sequences of 16 rows.
training_job job_with(int tensor, int data, int pipeline, int microbatches = 4) {
  training_job out;
  auto& m = out.training.model.as<gpt_config>();
  m.layers = 4;
  m.hidden = 32;
  m.heads = m.groups = 4;
  m.head_size = 8;
  m.ffn = 64;
  m.sequence = m.positions = 16;
  m.vocabulary = m.padded_vocabulary = 64;
  out.layout = {.world = tensor * data * pipeline, .tensor = tensor, .pipeline = pipeline};
  out.training.batch = {.micro = 2, .global = 2 * data * microbatches, .data_parallel = data};
  return out;
}

constexpr std::int64_t bytes_of_rows = 2 * 16 * 32 * 4;  // of a micro-batch, in fp32

std::int64_t received(const training_job& job, axis along) {
  return forecast_workers(job).front().need.received[along];
}

}  // namespace

TEST_CASE("a single rank receives nothing", "[memory]") {
  for (const auto& row : axis_table())
    CHECK(received(job_with(1, 1, 1), row.id) == 0);
}

TEST_CASE("data ranks receive as much as their gradients, once a step", "[memory]") {
  const auto job = job_with(1, 2, 1);
  const auto gradients = 4 * parameter_count(spec_of(job.training), true);
  const auto found = received(job, axis::data);
  CHECK(found >= gradients);
  CHECK(found <= gradients + gradients / 10);  // a tied embedding may be summed for each use
  CHECK(received(job_with(1, 2, 1, 8), axis::data) == found);
  CHECK(received(job, axis::tensor) == 0);
}

TEST_CASE("tensor ranks receive four sums for each layer and micro-batch", "[memory]") {
  const auto four = received(job_with(2, 1, 1, 4), axis::tensor);
  const auto eight = received(job_with(2, 1, 1, 8), axis::tensor);
  const auto sixteen = received(job_with(2, 1, 1, 16), axis::tensor);
  CHECK(sixteen - eight == 2 * (eight - four));
  const auto each = (eight - four) / 4;
  CHECK(each >= 4 * 4 * bytes_of_rows);
  CHECK(each <= 4 * 4 * bytes_of_rows * 3 / 2);  // and those of embedding and loss
}

TEST_CASE("stages receive activations and gradients of each micro-batch", "[memory]") {
  const auto found = received(job_with(1, 1, 2), axis::pipeline);
  CHECK(found >= 4 * bytes_of_rows);
  CHECK(found <= 4 * bytes_of_rows + 3 * 64 * 32 * 4);  // and the tied embedding's gradients
  // 1F1B is rehearsed with fewer micro-batches than there are. Hand-offs count as allocated.
  const auto of_60 = received(job_with(1, 1, 2, 64), axis::pipeline) - found;
  CHECK(of_60 >= 60 * bytes_of_rows);
  CHECK(of_60 <= 60 * (bytes_of_rows + 256));
}
