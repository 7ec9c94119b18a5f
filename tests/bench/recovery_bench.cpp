// Cost of recovery: steps with and without it, and the time from a death to the next new step.
//
//   bench_recovery [WHAT...] [--bf16] [--small | --gpt2] [pairs]
//
//   --step      steps of the trainer without actors, with and without keeping the previous state
//   --update    only the update
//   --run       steps of a run with actors, with and without --recovery on
//   --replicas  the same with two replicas of one stage each
//   --death     the time from a death to the next new step, in parts
//
// Default: everything in fp32, for 6/384/6 (T 256, V 65, B 12) and GPT-2 124M (T 256, B 4). Runs
// with and without recovery alternate, so that other load slows both. Prints the median of the
// ratios of pairs.

#include "runtime/core/log.hpp"
#include "runtime/state/rank_estate.hpp"
#include "tests/support/tiny_job.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe;
using runtime::now_ns;

namespace {

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[x.size() / 2];
}

double longest(const std::vector<double>& x) {
  return *std::max_element(x.begin(), x.end());
}

struct shape {
  const char* name;
  std::int64_t layers, hidden, heads, vocabulary, batch;
};

runtime::training_job job_of(const shape& s, runtime::dtype type, int pipeline, int threads) {
  auto job = tests::measured_job(pipeline, 1);
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.layers = s.layers;
  m.hidden = s.hidden;
  m.heads = m.groups = s.heads;
  m.head_size = s.hidden / s.heads;
  m.ffn = 4 * s.hidden;
  m.sequence = m.positions = 256;
  m.vocabulary = s.vocabulary;
  m.padded_vocabulary = runtime::padded_vocabulary_size(s.vocabulary, 1, 1);
  m.hidden_dropout = m.attention_dropout = 0;
  job.training.precision = type;
  job.training.batch = {.micro = s.batch / pipeline, .global = s.batch, .data_parallel = 1};
  job.threads_per_worker = threads;
  return job;
}

/// CPU time of this process in ms; other load does not count.
double cpu_ms() {
  timespec x{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &x);
  return double(x.tv_sec) * 1e3 + double(x.tv_nsec) / 1e6;
}

std::string spread(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return fmt::format(
      "{:.4f} (quartiles {:.4f}, {:.4f})", median(x), x[x.size() / 4], x[x.size() * 3 / 4]);
}

/// Steps of the reference trainer, alternating with one that keeps its previous state.
void cost_of_a_step(const shape& s, runtime::dtype type, int pairs) {
  const auto job = job_of(s, type, 1, 2);
  const auto data = std::make_shared<tests::formula_source>(job.training, true);
  runtime::stream plain_stream(job.backend, 2, {}), kept_stream(job.backend, 2, {});
  runtime::reference_trainer plain(job.training, data, plain_stream);
  runtime::reference_trainer kept(
      job.training, data, kept_stream, std::make_shared<runtime::rank_estate>());
  const auto parameters = plain.state().parameter_count();
  std::vector<char> from(std::size_t(parameters) * 12, 1), to(from.size());
  std::vector<double> ratios, cpu_ratios, plain_ms, kept_ms, copy_ms;
  const auto timed = [](runtime::reference_trainer& by, double& cpu) {
    const auto began = cpu_ms();
    auto out = by.step();
    cpu = cpu_ms() - began;
    return out;
  };
  for (int i = 0; i < pairs + 2; ++i) {
    runtime::step_report a, b;
    double a_cpu = 0, b_cpu = 0;
    // The order alternates.
    if (i % 2 == 0)
      a = timed(plain, a_cpu);
    b = timed(kept, b_cpu);
    if (i % 2 != 0)
      a = timed(plain, a_cpu);
    if (a.state != b.state) {
      fmt::print(stderr, "with recovery the state is another\n");
      std::exit(1);
    }
    const auto began = now_ns();
    std::memcpy(to.data(), from.data(), from.size());
    const auto ended = now_ns();
    if (i < 2)
      continue;
    ratios.push_back(b.elapsed_ms / a.elapsed_ms);
    cpu_ratios.push_back(b_cpu / a_cpu);
    plain_ms.push_back(a.elapsed_ms);
    kept_ms.push_back(b.elapsed_ms);
    copy_ms.push_back(double(ended - began) / 1e6);
  }
  const double step = median(plain_ms), copy = median(copy_ms);
  fmt::print("{}, {}, {:.1f} M parameters, {} pairs\n",
             s.name,
             to_string(type),
             double(parameters) / 1e6,
             pairs);
  fmt::print("  a step without             {:.1f} ms\n", step);
  fmt::print("  with, over without         {}\n", spread(ratios));
  fmt::print("  the same, of CPU time      {}\n", spread(cpu_ratios));
  fmt::print("  the shortest of each       {:.4f}\n",
             *std::min_element(kept_ms.begin(), kept_ms.end())
                 / *std::min_element(plain_ms.begin(), plain_ms.end()));
  fmt::print("  memcpy of 12 B a parameter {:.1f} ms, {:.4f} of a step, by one thread\n",
             copy,
             copy / step);
}

/// Updates in place, alternating with updates into another state: same arithmetic and gradients.
void cost_of_an_update(const shape& s, runtime::dtype type, int pairs) {
  const auto job = job_of(s, type, 1, 2);
  const auto data = std::make_shared<tests::formula_source>(job.training, true);
  runtime::stream plain_stream(job.backend, 2, {}), kept_stream(job.backend, 2, {});
  runtime::reference_trainer plain(job.training, data, plain_stream);
  runtime::reference_trainer kept(
      job.training, data, kept_stream, std::make_shared<runtime::rank_estate>());
  const double step = plain.step().elapsed_ms;
  kept.step();
  const auto timed = [](runtime::worker& by, std::uint64_t n) {
    const auto began = now_ns();
    by.update({n, 1e-4, 1});
    return double(now_ns() - began);
  };
  std::vector<double> more, in_place;
  for (std::uint64_t n = 2; n < std::uint64_t(pairs) + 4; ++n) {
    const double a = timed(plain.state(), n), b = timed(kept.state(), n);
    kept.state().seal(n, kept.state().digests());
    if (n < 4)
      continue;
    in_place.push_back(a);
    more.push_back(b - a);
  }
  const auto parameters = double(plain.state().parameter_count());
  fmt::print(
      "{}, {}: an update in place {:.2f} ns a parameter, beside {:.2f} more: {:.4f} of a step "
      "of {:.0f} ms\n",
      s.name,
      to_string(type),
      median(in_place) / parameters,
      median(more) / parameters,
      median(more) / 1e6 / step,
      step);
}

/// Median milliseconds of a step of a run with actors, without the first two steps, and the CPU
/// time of the whole run.
std::pair<double, double> step_of_run(const runtime::training_job& job) {
  const auto began = cpu_ms();
  const auto prepared = tests::tiny_prepared(job);
  std::mutex mutex;
  std::vector<double> ms;
  const auto viewer = [&](caf::actor_system& home, const actors::drain_request&) {
    return home.spawn([&]() -> messages::viewer_actor::behavior_type {
      return {[&](const messages::committed& x) {
                const std::lock_guard lock(mutex);
                if (x.report.iteration > 2)
                  ms.push_back(x.report.elapsed_ms);
              },
              [](const messages::validated&) {}};
    });
  };
  const auto end = actors::run(prepared, {}, {viewer});
  if (end.exit_code != 0 || ms.size() + 2 != job.train_iterations) {
    fmt::print(stderr, "the run has ended early: {}\n", end.reason);
    std::exit(1);
  }
  return {median(ms), cpu_ms() - began};
}

/// One replica with two stages, or two replicas with one, with and without recovery.
void cost_of_a_run(const shape& s, runtime::dtype type, int replicas, int pairs) {
  auto job = job_of(s, type, replicas == 2 ? 1 : 2, 1);
  job.train_iterations = 6;
  if (replicas == 2) {
    job.training.batch = {.micro = s.batch / 2, .global = s.batch, .data_parallel = 2};
    job.layout.world = 2;
  }
  std::vector<double> ratios, cpu_ratios, plain_ms;
  for (int i = 0; i < pairs; ++i) {
    std::pair<double, double> ms[2] = {};
    for (const bool on : {i % 2 != 0, i % 2 == 0}) {
      job.recovery.on = on;
      ms[on ? 1 : 0] = step_of_run(job);
    }
    plain_ms.push_back(ms[0].first);
    ratios.push_back(ms[1].first / ms[0].first);
    cpu_ratios.push_back(ms[1].second / ms[0].second);
  }
  fmt::print("{}, {}, {} by actors, {} pairs of runs: a step {:.1f} ms\n",
             s.name,
             to_string(type),
             replicas == 2 ? "two replicas" : "two stages",
             pairs,
             median(plain_ms));
  fmt::print("  with, over without         {}\n", spread(ratios));
  fmt::print("  the same, of CPU time      {}\n", spread(cpu_ratios));
}

/// Injects a death at a given time after a step's first batch, and records when.
class killing_source final : public runtime::batch_source {
 public:
  killing_source(const runtime::training_job& job, const actors::fault_injector& faults, double ms)
      : made_(job.training, true),
        faults_(faults),
        global_(std::uint64_t(job.training.batch.global)),
        wait_(ms) {}

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    if (at.consumed / global_ + 1 == death_step && !begun_.exchange(true))
      killer_ = std::jthread([this] {
        std::this_thread::sleep_for(wait_);
        killed_ns = now_ns();
        // No actor of this run passes this moment by itself.
        faults_.pass("bench", death_step, runtime::moment_of_step::save);
      });
    return made_.microbatch(at);
  }

  static constexpr std::uint64_t death_step = 5;
  mutable std::atomic<std::uint64_t> killed_ns = 0;

 private:
  tests::formula_source made_;
  const actors::fault_injector& faults_;
  std::uint64_t global_;
  std::chrono::duration<double, std::milli> wait_;
  mutable std::atomic<bool> begun_ = false;
  mutable std::jthread killer_;
};

struct parts {
  std::vector<double> step, detect, release, rebuild, replay;
};

/// Kills one of two stages `after_ms` after step 5 has begun. Measures from then to the commit of
/// step 5.
void measure_death(const runtime::training_job& job, double after_ms, parts& to) {
  const auto prepared = tests::tiny_prepared(job);
  const auto source = std::make_shared<killing_source>(job, *prepared->node->faults, after_ms);
  prepared->node->training = source;
  std::mutex mutex;
  std::vector<std::uint64_t> commits;
  const auto viewer = [&](caf::actor_system& home, const actors::drain_request&) {
    return home.spawn([&]() -> messages::viewer_actor::behavior_type {
      return {[&](const messages::committed&) {
                const std::lock_guard lock(mutex);
                commits.push_back(now_ns());
              },
              [](const messages::validated&) {}};
    });
  };
  const auto end = actors::run(prepared, {}, {viewer});
  double seconds = 0;
  for (const auto& [number, fact] : prepared->node->ledger->facts())
    if (const auto* const event = std::get_if<runtime::run_event>(&fact))
      seconds = event->seconds;
  const std::uint64_t killed = source->killed_ns;
  std::uint64_t builds = ~std::uint64_t{0}, begins = ~std::uint64_t{0};
  for (const auto& x : prepared->node->trace->spans()) {
    if (x.begin_ns > killed && x.name == "build")
      builds = std::min(builds, x.begin_ns);
    if (x.begin_ns > killed && x.name == "begin" && builds != ~std::uint64_t{0})
      begins = std::min(begins, x.begin_ns);
  }
  if (end.exit_code != 0 || seconds == 0 || killed == 0 || commits.size() != job.train_iterations
      || begins == ~std::uint64_t{0}) {
    fmt::print(stderr, "no stage died, or it did not recover: {}\n", end.reason);
    std::exit(1);
  }
  // The event's seconds end when the step begins, one message before its first span.
  const auto news = double(begins) - seconds * 1e9;
  to.step.push_back(double(commits[3] - commits[2]) / 1e6);
  to.detect.push_back((news - double(killed)) / 1e6);
  to.release.push_back((double(builds) - news) / 1e6);
  to.rebuild.push_back(double(begins - builds) / 1e6);
  to.replay.push_back(double(commits[4] - begins) / 1e6);
}

void cost_of_a_death(const shape& s, runtime::dtype type, int times) {
  auto job = job_of(s, type, 2, 1);
  job.train_iterations = 6;
  job.recovery.on = true;
  job.faults.death = "stage:0.1@5:save";
  parts all;
  measure_death(job, 0, all);  // measures a step, and warms the memory up
  const double step = all.step.front();
  all = {};
  for (int i = 0; i < times; ++i)  // times spread over the step
    measure_death(job, step * (i + 0.5) / times, all);
  fmt::print(
      "{}, {}: stage 1 of 2 is killed in step 5, at {} moments of it; medians (longest), ms\n",
      s.name,
      to_string(type),
      times);
  fmt::print(
      "  a step {:.1f}; detect {:.2f} ({:.2f}), release {:.2f} ({:.2f}), rebuild {:.2f} "
      "({:.2f}), step again {:.1f}\n",
      median(all.step),
      median(all.detect),
      longest(all.detect),
      median(all.release),
      longest(all.release),
      median(all.rebuild),
      longest(all.rebuild),
      median(all.replay));
}

}  // namespace

int main(int argc, char** argv) {
  auto type = runtime::dtype::f32;
  int pairs = 20;
  std::set<std::string> wanted;
  bool small = true, large = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--bf16")
      type = runtime::dtype::bf16;
    else if (word == "--small")
      large = false;
    else if (word == "--gpt2")
      small = false;
    else if (word.starts_with("--"))
      wanted.insert(word.substr(2));
    else
      pairs = std::max(2, std::atoi(argv[i]));
  }
  const auto asked = [&](const char* what) { return wanted.empty() || wanted.contains(what); };
  runtime::set_log_level(runtime::severity::error);
  fmt::print("{}\n", kernels::instruction_set());
  const shape characters{"6/384/6, T 256, V 65, B 12", 6, 384, 6, 65, 12};
  const shape gpt2{"GPT-2 124M, T 256, B 4", 12, 768, 12, 50257, 4};
  for (const auto& [s, chosen] : {std::pair{characters, small}, std::pair{gpt2, large}}) {
    if (!chosen)
      continue;
    if (asked("update"))
      cost_of_an_update(s, type, pairs);
    if (asked("step"))
      cost_of_a_step(s, type, pairs);
    if (asked("run"))
      cost_of_a_run(s, type, 1, pairs);
    if (asked("replicas"))
      cost_of_a_run(s, type, 2, pairs);
    if (asked("death"))
      cost_of_a_death(s, type, std::min(pairs, 7));
  }
  return 0;
}
