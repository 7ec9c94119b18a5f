#include "tests/bench/gpu/harness.hpp"

#include "kernels/backend/cuda_library.hpp"
#include "runtime/device/device.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace troupe::bench {

namespace {

using kernels::backend;
using kernels::bf16;

// Four times the last cache of an H200, so that no set of inputs is still in the cache.
constexpr std::size_t beyond_caches = std::size_t{256} << 20;
// Long compared with the resolution of events (0.5 us) and with the marks themselves.
constexpr double group_us = 1000;
constexpr int most_runs = 50;
// A killed program loses at most the lines of this time.
constexpr std::chrono::seconds between_writes{2};

const char* text_of(bound x) {
  return x == bound::memory ? "memory" : x == bound::matrix ? "matrix" : "latency";
}

}  // namespace

numbers::numbers(runtime::stream& stream, std::size_t count) : count_(count) {
  std::mt19937 random(20261121);
  std::normal_distribution<float> normal;
  std::vector<float> wide(count);
  std::vector<bf16> narrow(count);
  for (std::size_t i = 0; i < count; ++i)
    narrow[i] = bf16(wide[i] = normal(random));
  wide_ = stream.allocate(count * sizeof(float));
  narrow_ = stream.allocate(count * sizeof(bf16));
  stream.write(wide_.get(), wide.data(), count * sizeof(float));
  stream.write(narrow_.get(), narrow.data(), count * sizeof(bf16));
}

std::set<std::string> every_name() {
  std::set<std::string> out;
#define TROUPE_NAME(op, types, memory)                                         \
  if (kernels::operation_memory::memory == kernels::operation_memory::backend) \
    out.insert(#op);
  TROUPE_EVERY_OPERATION(TROUPE_NAME)
#undef TROUPE_NAME
  return out;
}

harness::harness(const options& options)
    : options_(options),
      stream_(backend::cuda, 1, {}, options.device),
      numbers_(stream_, options.smoke ? 1 << 10 : 1 << 22) {
  const auto facts = runtime::open_devices().facts(options.device);
  std::printf("%s, compute capability %d.%d, %d multiprocessors; %s\n",
              facts.name.c_str(),
              facts.major,
              facts.minor,
              facts.multiprocessors,
              kernels::open_cuda().libraries().c_str());
  measure_ceilings();
  std::printf("copy bandwidth %.0f GB/s (read and written), bf16 products %.1f TFLOP/s\n\n",
              copy_ / 1e9,
              matrix_ / 1e12);
  write_json(false);
  std::printf("%-6s %-26s %-34s %10s %8s %8s %6s\n",
              "model",
              "operation",
              "shape",
              "us",
              "GB/s",
              "TFLOP/s",
              "share");
}

void harness::measure_ceilings() {
  const std::int64_t bytes = options_.smoke ? 1 << 16 : 1 << 30;
  const std::int64_t side = options_.smoke ? 64 : 8192;
  {
    arena memory(stream_, numbers_, 1);
    const float* const from[] = {memory.drawn<float>(bytes / 4), memory.drawn<float>(bytes / 4)};
    float* const to[] = {memory.empty<float>(bytes / 4), memory.empty<float>(bytes / 4)};
    const auto took
        = time([&](std::size_t i) { stream_.copy(to[i % 2], from[i % 2], std::size_t(bytes)); });
    copy_ = 2 * double(bytes) / took.us * 1e6;
  }
  arena memory(stream_, numbers_, 2);
  const kernels::linear_forward<bf16> product{.y = memory.empty<bf16>(side * side),
                                              .z = nullptr,
                                              .x = memory.drawn<bf16>(side * side),
                                              .weight = memory.drawn<bf16>(side * side),
                                              .bias = nullptr,
                                              .R = side,
                                              .N = side,
                                              .K = side};
  const auto took = time([&](std::size_t) { stream_.run(product); });
  matrix_ = double(kernels::product_flops(product)) / took.us * 1e6;
}

bool harness::begin(const std::string& model) {
  model_ = model;
  return options_.model.empty() || options_.model == model;
}

bool harness::wanted(const std::string& op) {
  seen_.insert(op);
  return options_.only.empty() || op.find(options_.only) != std::string::npos;
}

std::size_t harness::sets_for(std::size_t bytes) const {
  if (options_.smoke)
    return 2;
  return std::clamp<std::size_t>(beyond_caches / std::max<std::size_t>(bytes, 1), 1, most_sets);
}

// Uses the time between neighbouring marks: times since the start of the process would lose digits
// in single precision.
timing harness::time(const std::function<void(std::size_t)>& run) {
  std::size_t turn = 0;
  const auto group = [&](int runs) {
    const auto begin = stream_.queue()->mark(true);
    for (int i = 0; i < runs; ++i)
      run(turn++);
    const auto end = stream_.queue()->mark(true);
    end->wait();
    return end->ms_after(*begin) * 1e3 / runs;
  };
  timing out;
  group(options_.smoke ? 1 : 3);  // loads code, chooses algorithms
  const double once = std::max(group(options_.smoke ? 1 : 3), 0.5);
  out.runs = options_.smoke ? 1 : std::clamp(int(std::ceil(group_us / once)), 1, most_runs);
  // A group takes at least a millisecond, all groups some tens; short operations get more groups.
  out.groups = options_.smoke ? 3 : std::clamp(int(4e4 / (once * out.runs)), 5, 21);
  std::vector<double> us;
  for (int i = 0; i < out.groups; ++i)
    us.push_back(group(out.runs));
  std::sort(us.begin(), us.end());
  out.us = std::max(us[us.size() / 2], 1e-3);
  out.least = us.front();
  out.most = us.back();
  return out;
}

double harness::share(const line_of_table& x) const {
  return x.by == bound::memory   ? x.done.bytes / x.took.us * 1e6 / copy_
         : x.by == bound::matrix ? x.done.flops / x.took.us * 1e6 / matrix_
                                 : 0;
}

void harness::add(line_of_table x) {
  std::printf("%-6s %-26s %-34s ", x.model.c_str(), x.op.c_str(), x.shape.c_str());
  if (!x.failure.empty())
    std::printf("FAILED: %s\n", x.failure.c_str());
  else if (x.by == bound::memory)
    std::printf("%10.1f %8.0f %8s %5.0f%%\n",
                x.took.us,
                x.done.bytes / x.took.us / 1e3,
                "",
                100 * share(x));
  else if (x.by == bound::matrix)
    std::printf("%10.1f %8s %8.1f %5.0f%%\n",
                x.took.us,
                "",
                x.done.flops / x.took.us / 1e6,
                100 * share(x));
  else
    std::printf("%10.1f\n", x.took.us);
  std::fflush(stdout);
  lines_.push_back(std::move(x));
  if (std::chrono::steady_clock::now() > written_ + between_writes)
    write_json(false);
}

void harness::write_json(bool complete) {
  if (options_.json.empty())
    return;
  nlohmann::ordered_json out;
  const auto facts = runtime::open_devices().facts(options_.device);
  out["complete"] = complete;
  out["device"] = facts.name;
  out["libraries"] = kernels::open_cuda().libraries();
  out["copy_bytes_per_second"] = copy_;
  out["matrix_flops_per_second"] = matrix_;
  out["lines"] = nlohmann::ordered_json::array();
  for (const auto& x : lines_)
    out["lines"].push_back({{"model", x.model},
                            {"operation", x.op},
                            {"shape", x.shape},
                            {"bound", text_of(x.by)},
                            {"us", x.took.us},
                            {"least_us", x.took.least},
                            {"most_us", x.took.most},
                            {"groups", x.took.groups},
                            {"runs", x.took.runs},
                            {"sets", x.took.sets},
                            {"bytes", x.done.bytes},
                            {"flops", x.done.flops},
                            {"share", x.failure.empty() ? share(x) : 0},
                            {"failure", x.failure}});
  for (const auto& x : kernels::open_cuda().choices())
    out["choices"].push_back(
        {{"product", x.product}, {"microseconds", x.microseconds}, {"candidates", x.candidates}});
  runtime::file_writer file(options_.json);
  file.write(out.dump(1) + "\n");
  file.commit();
  written_ = std::chrono::steady_clock::now();
}

int harness::finish() {
  int failed = 0, below = 0, memory_bound = 0;
  for (const auto& x : lines_) {
    failed += x.failure.empty() ? 0 : 1;
    if (x.by != bound::memory || !x.failure.empty())
      continue;
    ++memory_bound;
    below += share(x) < 0.8 ? 1 : 0;
  }
  std::printf("\n%zu lines, %d failed; of %d memory-bound ones %d are below 80 %% of the copy's\n",
              lines_.size(),
              failed,
              memory_bound,
              below);
  write_json(true);
  if (options_.model.empty() && !options_.ceilings)
    for (const auto& name : every_name())
      if (!seen_.contains(name)) {
        std::printf("NOT MEASURED: %s\n", name.c_str());
        ++failed;
      }
  return failed == 0 ? 0 : 1;
}

}  // namespace troupe::bench
