// Cost of layouts on one machine, and the accuracy of their memory forecasts.
//
//   bench_layouts              the 6/384/6 character model on 2 cores
//   bench_layouts --memory     only the memory
//
// Compares two workers with one thread each with one worker with two threads: same global batch,
// same two cores. The layouts run in turn, twice. Figures are medians over the steps after a
// warm-up.

#include "runtime/forecast/memory_forecast.hpp"
#include "tests/support/tiny_job.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace troupe;
using runtime::now_ns;

namespace {

void require_end(const actors::outcome& end) {
  if (end.exit_code == 0)
    return;
  fmt::print(stderr, "a run failed: {}\n", end.reason);
  std::exit(1);
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[x.size() / 2];
}

struct layout {
  const char* name;
  int tensor = 1, pipeline = 1, data = 1, threads = 1;
  int microbatches = 1;  ///< per replica
  bool rows = false, distributed = false;
  runtime::dtype type = runtime::dtype::f32;
};

runtime::training_job job_of(const layout& x) {
  auto job = tests::measured_job(x.pipeline, x.data);
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.layers = 6;
  m.hidden = 384;
  m.heads = m.groups = 6;
  m.head_size = 64;
  m.ffn = 1536;
  m.sequence = m.positions = 256;
  m.vocabulary = 65;
  m.padded_vocabulary = 66;
  m.hidden_dropout = m.attention_dropout = 0;
  constexpr std::int64_t global = 12;
  job.training.batch
      = {.micro = global / (x.data * x.microbatches), .global = global, .data_parallel = x.data};
  job.training.precision = x.type;
  job.layout.tensor = x.tensor;
  job.layout.world = x.tensor * x.pipeline * x.data;
  job.layout.sequence_parallel = x.rows;
  job.reduction.distributed_optimizer = x.distributed;
  job.reduction.overlap_gradients = x.data > 1;
  job.reduction.overlap_parameters = x.distributed;
  job.reduction.bucket_size = 4'000'000;
  job.threads_per_worker = x.threads;
  job.train_iterations = 10;
  return job;
}

/// Milliseconds of each step, and the share in which rank 0 was busy.
struct figures {
  std::vector<double> ms;
  std::vector<double> busy;
};

void measure(const layout& x, figures& to) {
  const auto prepared = tests::tiny_prepared(job_of(x));
  require_end(actors::run(prepared));
  std::map<std::uint64_t, std::uint64_t> begin, worked;
  for (const auto& s : prepared->node->trace->spans()) {
    if (s.rank != 0 || s.track != 0)
      continue;
    const auto step = runtime::value(s.step);
    if (s.name == "begin")
      begin[step] = s.begin_ns;
    worked[step] += s.end_ns - s.begin_ns;
  }
  for (std::uint64_t step = 4; begin.contains(step + 1); ++step) {
    const double ns = double(begin[step + 1] - begin[step]);
    to.ms.push_back(ns / 1e6);
    to.busy.push_back(double(worked[step]) / ns);
  }
}

/// Milliseconds of an all-reduce of n floats over two ranks, each on its own thread.
double sum_of_two(std::int64_t n) {
  const auto group
      = std::make_shared<runtime::local_group>(runtime::axis::tensor, 2, runtime::cancel_token());
  std::vector<double> ms;
  const auto rank = [&](int r) {
    runtime::local_communicator mine(group, r);
    runtime::stream stream(kernels::backend::cpu, 1, {});
    std::vector<float> x(std::size_t(n), 1), y(x.size());
    const void* const part = x.data();
    for (int i = 0; i < 30; ++i) {
      mine.barrier();
      const auto began = now_ns();
      mine.all_reduce_sum(stream, runtime::dtype::f32, {&part, 1}, y.data(), n);
      if (r == 0)
        ms.push_back(double(now_ns() - began) / 1e6);
    }
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  return median(ms);
}

void cost() {
  const std::vector<layout> all
      = {{.name = "1 worker, 2 threads", .threads = 2},
         {.name = "1 worker, 1 thread"},
         {.name = "TP 2", .tensor = 2},
         {.name = "TP 2, sequence parallel", .tensor = 2, .rows = true},
         {.name = "DP 2", .data = 2},
         {.name = "DP 2, distributed optimizer", .data = 2, .distributed = true},
         {.name = "PP 2, 4 micro-batches", .pipeline = 2, .microbatches = 4},
         {.name = "PP 2, 12 micro-batches", .pipeline = 2, .microbatches = 12},
         {.name = "1 worker, 2 threads, bf16", .threads = 2, .type = runtime::dtype::bf16},
         {.name = "TP 2, bf16", .tensor = 2, .type = runtime::dtype::bf16},
         {.name = "DP 2, bf16", .data = 2, .type = runtime::dtype::bf16}};
  std::vector<figures> seen(all.size());
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < all.size(); ++i)
      measure(all[i], seen[i]);
  const double tokens = 12 * 256;
  const double whole = median(seen[0].ms);
  fmt::print("6 layers, 384 channels, 6 heads, T 256, V 65, 12 samples a step\n");
  fmt::print("{:<30}{:>10}{:>12}{:>9}{:>20}\n", "", "ms", "tokens/s", "ratio", "rank 0 has work");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double ms = median(seen[i].ms);
    fmt::print("{:<30}{:>10.1f}{:>12.0f}{:>9.2f}{:>18.0f} %\n",
               all[i].name,
               ms,
               tokens / ms * 1e3,
               whole / ms,
               100 * median(seen[i].busy));
  }
  // Two all-reduces per layer in each direction, and one each for embedding and head.
  const double one = sum_of_two(12 * 256 * 384);
  fmt::print("TP 2 sums {} activations of 4.7 MB a step, {:.2f} ms each: {:.1f} ms in all\n",
             4 * 6 + 2,
             one,
             one * (4 * 6 + 2));
}

/// Returns false if a forecast is off by more than a tenth.
bool memory() {
  bool good = true;
  struct unlike {
    const char* name;
    void (*change)(runtime::training_job&);
  };
  const unlike all[] = {
      {"1 worker, f32", [](auto&) {}},
      {"TP 2, sequence parallel, bf16",
       [](auto& j) {
         j.layout = {.world = 2, .tensor = 2, .sequence_parallel = true};
         j.training.precision = runtime::dtype::bf16;
       }},
      {"PP 4, 1F1B of 12, f32",
       [](runtime::training_job& j) {
         j.layout = {.world = 4, .pipeline = 4};
         j.training.model.as<runtime::gpt_config>().layers = 8;
         j.training.batch.micro = 1;
       }},
      {"DP 2, distributed optimizer, f32",
       [](auto& j) {
         j.layout = {.world = 2};
         j.training.batch = {.micro = 3, .global = 12, .data_parallel = 2};
         j.reduction = {.distributed_optimizer = true};
       }},
      {"full recomputation, Llama-like, V 8192",
       [](runtime::training_job& j) {
         auto& m = j.training.model.as<runtime::gpt_config>();
         m.position = runtime::position_embedding::rope;
         m.normalization = runtime::normalization_kind::rms;
         m.activation = runtime::activation_kind::silu;
         m.gated = true;
         m.groups = 2;
         m.linear_bias = m.tied_embeddings = false;
         m.vocabulary = m.padded_vocabulary = 8192;
         j.training.batch.micro = 4;
         j.recompute.granularity = runtime::recompute_granularity::full;
       }},
      {"TP 2 x PP 2 x DP 2, bf16, selective",
       [](auto& j) {
         j.layout = {.world = 8, .tensor = 2, .pipeline = 2};
         j.training.batch = {.micro = 3, .global = 12, .data_parallel = 2};
         j.training.precision = runtime::dtype::bf16;
         j.recompute.granularity = runtime::recompute_granularity::selective;
       }},
  };
  fmt::print(
      "{:<42}{:>12}{:>12}{:>9}\n", "memory of the largest worker", "forecast", "measured", "ratio");
  for (const auto& x : all) {
    auto job = job_of({.name = ""});
    x.change(job);
    job.train_iterations = 2;
    const auto prepared = tests::tiny_prepared(job);
    require_end(actors::run(prepared));
    std::int64_t expected = 0;
    std::size_t most = 0;
    for (const auto& [rank, peak] : prepared->node->pools->peaks()) {
      const auto at = prepared->opened().seats.at(rank);
      expected = std::max(expected, runtime::forecast_memory(job, at).peak());
      most = std::max(most, peak);
    }
    fmt::print("{:<42}{:>9.1f} MB{:>9.1f} MB{:>9.3f}\n",
               x.name,
               double(expected) / 1e6,
               double(most) / 1e6,
               double(most) / double(expected));
    good = good && std::abs(double(most) / double(expected) - 1) < 0.1;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--memory") != 0)
    cost();
  return memory() ? 0 : 1;
}
