// Opens an indexed data set and builds its sample order, like a run before its first step.
// tests/bench/gpt_index_against_megatron.py makes the data and compares with megatron-core.
//
//   bench_gpt_index PREFIX SEQUENCE_LENGTH SAMPLES
//
// Prints JSON: seconds of each part, number of samples, peak memory of the process.

#include "runtime/core/error.hpp"
#include "runtime/data/gpt_index.hpp"
#include "runtime/data/indexed_dataset.hpp"

#include <chrono>
#include <sys/resource.h>

namespace {

using namespace troupe::runtime;

double seconds_since(std::chrono::steady_clock::time_point started) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

int measured(const char* prefix, std::int64_t sequence_length, std::uint64_t samples) {
  const auto started = std::chrono::steady_clock::now();
  const indexed_dataset data(prefix);
  const auto opened = seconds_since(started);
  const gpt_index_request request
      = {.range = {0, data.sequences()}, .sequence_length = sequence_length, .samples = samples};
  const auto plan = plan_gpt_index(data, request);
  const auto index = build_gpt_index(data, request, plan);
  const auto built = seconds_since(started) - opened;
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  fmt::print(
      "{{\"open\": {:.3f}, \"build\": {:.3f}, \"samples\": {}, \"first\": {}, "
      "\"peak_mb\": {:.0f}}}\n",
      opened,
      built,
      plan.samples,
      index.order[0],
      double(used.ru_maxrss) / 1024);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: bench_gpt_index PREFIX SEQUENCE_LENGTH SAMPLES\n");
    return 2;
  }
  return measured(argv[1], std::stoll(argv[2]), std::stoull(argv[3]));
}
