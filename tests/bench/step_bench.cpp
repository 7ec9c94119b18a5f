// Times of a training step and its parts, without and with actors, of an action, and of waiting.
//
//   bench_step                 the 6/384/6 character model, then a tiny one
//   bench_step --threads 1     with another number of threads
//   bench_step --bf16          with parameters and activations in bf16; --fp16: in fp16
//
// Figures are medians over the steps after a warm-up. Shares are relative to the best rate of large
// products, measured in the same run.

#include "kernels/op/linear.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/model/counts.hpp"
#include "tests/support/tiny_job.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace troupe;
using runtime::now_ns;

namespace {

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

double seconds_of(const std::function<void()>& what) {
  const auto began = now_ns();
  what();
  return double(now_ns() - began) / 1e9;
}

/// GFLOP/s of the best of ten products of 2048 x 2048 x 2048.
double matrix_rate(int threads) {
  constexpr std::int64_t n = 2048;
  runtime::stream stream(kernels::backend::cpu, threads, {});
  auto x = runtime::tensor::empty<float>(stream, {n, n}), w = x,
       y = runtime::tensor::empty<float>(stream, {n, n});
  std::fill_n(x.data<float>(), n * n, 0.5F);
  double best = 1e9;
  for (int i = 0; i < 10; ++i)
    best = std::min(
        best, seconds_of([&] {
          stream.run(kernels::linear_forward<float>{
              y.data<float>(), nullptr, x.data<float>(), w.data<float>(), nullptr, n, n, n});
        }));
  return 2.0 * n * n * n / best / 1e9;
}

runtime::training_job character_model(int threads) {
  runtime::training_job job = tests::measured_job(1, 1);
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.layers = 6;
  m.hidden = 384;
  m.heads = m.groups = 6;
  m.head_size = 64;
  m.ffn = 1536;
  m.sequence = m.positions = 256;
  m.vocabulary = m.padded_vocabulary = 65;
  m.hidden_dropout = m.attention_dropout = 0;
  job.training.batch = {.micro = 12, .global = 12, .data_parallel = 1};
  job.threads_per_worker = threads;
  job.train_iterations = 12;
  return job;
}

/// The parts of a step, by a worker, without actors.
void parts(const runtime::training_job& job, double rate) {
  runtime::stream stream(job.backend, job.threads_per_worker, {});
  const auto& m = job.training.model.as<runtime::gpt_config>();
  runtime::worker by({.model = runtime::spec_of(job.training),
                      .chunks = {{runtime::chunk_id(0), {0, m.layers + 2}}},
                      .optimizer = job.training.optimizer,
                      .precision = job.training.precision},
                     stream);
  const tests::formula_source source(job.training, false);
  const runtime::pass_key key{0, runtime::chunk_id(0), runtime::microbatch_id(0)};
  std::vector<std::vector<double>> seconds(8);
  for (std::uint64_t i = 1; i <= 12; ++i) {
    runtime::bundle in;
    std::size_t part = 0;
    const auto timed = [&](const std::function<void()>& what) {
      const double s = seconds_of(what);
      if (i > 3)
        seconds[part].push_back(s);
      ++part;
    };
    by.begin_step({runtime::step_id(i), true, 1, 1});
    timed([&] { in = source.microbatch({i * 12, 0, 0}); });
    timed([&] { by.forward(key, in); });
    timed([&] { by.input_gradients(key, {}); });
    timed([&] { by.weight_gradients(key); });
    timed([&] { by.reduce(); });
    timed([&] { by.norms(); });
    timed([&] { by.update({i, 1e-3, 1}); });
    timed([&] { by.digests(); });
  }
  static constexpr const char* names[] = {"batch",
                                          "forward",
                                          "input gradients (I)",
                                          "weight gradients (W)",
                                          "reduce",
                                          "norms",
                                          "update",
                                          "digest of the state"};
  double total = 0;
  for (const auto& s : seconds)
    total += median(s);
  for (std::size_t p = 0; p < seconds.size(); ++p)
    fmt::print("  {:<22}{:8.2f} ms {:5.1f} %\n",
               names[p],
               median(seconds[p]) * 1e3,
               100 * median(seconds[p]) / total);
  const double tokens = double(job.training.batch.global * m.sequence);
  const double gflops = runtime::training_flops(runtime::spec_of(job.training),
                                                runtime::schema_of(job),
                                                double(job.training.batch.global))
                        / total / 1e9;
  fmt::print(
      "  {:<22}{:8.2f} ms        {:.0f} tokens/s, {:.0f} GFLOP/s, {:.0f} % of the matrix rate\n",
      "sum",
      total * 1e3,
      tokens / total,
      gflops,
      100 * gflops / rate);
}

/// Median milliseconds of a step with actors.
double by_actors(runtime::training_job job) {
  std::vector<double> ms;
  const auto prepared = tests::tiny_prepared(job);
  prepared->node->trace = std::make_shared<runtime::trace_recorder>();
  const auto end = actors::run(prepared);
  if (end.exit_code != 0)
    fmt::print("failed: {}\n", end.reason);
  // A step lasts from one "begin" to the next on rank 0.
  std::uint64_t before = 0;
  for (const auto& x : prepared->node->trace->spans())
    if (x.rank == 0 && x.name == "begin") {
      if (before != 0)
        ms.push_back(double(x.begin_ns - before) / 1e6);
      before = x.begin_ns;
    }
  ms.erase(ms.begin(), ms.begin() + std::ptrdiff_t(ms.size() / 4));
  return median(ms);
}

/// Median milliseconds of a step by the reference trainer, and the mean inside its operations.
std::pair<double, double> by_trainer(const runtime::training_job& job) {
  const auto profile = std::make_shared<runtime::operation_profile>();
  std::vector<double> all;
  {
    runtime::stream stream(job.backend, job.threads_per_worker, {});
    runtime::reference_trainer trainer(
        job.training, std::make_shared<tests::formula_source>(job.training, true), stream);
    stream.time_operations(profile);
    for (std::uint64_t i = 0; i < job.train_iterations; ++i)
      all.push_back(trainer.step().elapsed_ms);
  }
  return {median(all), profile->step_ms() - profile->between_ms()};
}

void cost_of_an_action() {
  auto job = tests::measured_job(1, 1);
  job.training.model.as<runtime::gpt_config>().layers = 1;
  job.training.batch.global = 64;
  job.train_iterations = 400;
  const double actions = 3.0 * 32;  // F, I and W of 32 micro-batches
  const auto [step, operations] = by_trainer(job);
  const double actors = by_actors(job);
  fmt::print("tiny model, one layer, one stage: an action takes\n");
  fmt::print("  {:6.1f} us inside operations\n", operations / actions * 1e3);
  fmt::print("  {:6.1f} us for tape, tensors and batches\n", (step - operations) / actions * 1e3);
  fmt::print("  {:6.1f} us for actors, messages and lanes\n", (actors - step) / actions * 1e3);
  for (const int P : {2, 4}) {
    auto split = tests::measured_job(P, 1);
    split.training.batch.global = 64;
    split.train_iterations = 200;
    auto whole = tests::measured_job(1, 1);
    whole.training.batch.global = 64;
    whole.train_iterations = 200;
    fmt::print("  {} stages on this machine: {:.2f} ms a step; by the trainer alone {:.2f} ms\n",
               P,
               by_actors(split),
               by_trainer(whole).first);
  }
}

/// Delays one micro-batch by two seconds, and records the process's CPU time during the second one.
class late_source final : public runtime::batch_source {
 public:
  explicit late_source(const runtime::recipe& recipe) : made_(recipe, true) {}

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    if (++asked_ == 100) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      const std::clock_t before = std::clock();
      std::this_thread::sleep_for(std::chrono::seconds(1));
      used_ = double(std::clock() - before) / CLOCKS_PER_SEC;
    }
    return made_.microbatch(at);
  }

  /// CPU seconds of all threads.
  double used() const { return used_; }

 private:
  tests::formula_source made_;
  mutable std::atomic<int> asked_ = 0;
  mutable std::atomic<double> used_ = -1;
};

void cost_of_waiting() {
  for (const int P : {1, 4}) {
    auto job = tests::measured_job(P, 1);
    job.threads_per_worker = 2;
    job.train_iterations = 100;
    const auto prepared = tests::tiny_prepared(job);
    const auto source = std::make_shared<late_source>(job.training);
    prepared->node->training = source;
    if (const auto end = actors::run(prepared); end.exit_code != 0 || source->used() < 0) {
      fmt::print("  failed, or asked for too few batches: {}\n", end.reason);
      continue;
    }
    fmt::print("  in a second that a pipeline of {} waits for a batch it computes for {:.2f} ms\n",
               P,
               source->used() * 1e3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 2;
  auto type = runtime::dtype::f32;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--bf16") == 0)
      type = runtime::dtype::bf16;
    if (std::strcmp(argv[i], "--fp16") == 0)
      type = runtime::dtype::f16;
    if (i + 1 < argc && std::strcmp(argv[i], "--threads") == 0)
      threads = std::atoi(argv[i + 1]);
  }
  const double rate = matrix_rate(threads);
  fmt::print(
      "{}; {} threads; matrix rate {:.0f} GFLOP/s\n", kernels::instruction_set(), threads, rate);
  auto job = character_model(threads);
  job.training.precision = type;
  job.training.scaling.initial = 65536;
  fmt::print("6 layers, 384 channels, 6 heads, T 256, V 65, B 12, {}, without actors:\n",
             to_string(type));
  parts(job, rate);
  const double ms = by_actors(job);
  fmt::print("  by actors, one stage   {:8.2f} ms        {:.0f} tokens/s\n",
             ms,
             double(job.training.batch.global * job.training.model.sequence()) / ms * 1e3);
  cost_of_an_action();
  cost_of_waiting();
  return 0;
}
