// Compares runs of each schedule on one machine with their simulation.
//
//   bench_schedules            2 stages, the 6/384/6 character model, one thread each on 2 cores
//   bench_schedules 4          4 stages share the same 2 cores, which the simulation ignores
//
// The first steps are a warm-up. The next steps measure the times of all actions while all stages
// are busy. The remaining steps are compared with a simulation that uses these times.

#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/schedule/execution.hpp"
#include "tests/support/tiny_job.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <mutex>

using namespace troupe;
using runtime::timed_action;

namespace {

constexpr std::uint64_t warm_up = 2, measured = 4, compared = 6;

struct seen {
  std::mutex mutex;
  std::vector<messages::committed> steps;
};

runtime::training_job job_of(const std::string& schedule, int stages) {
  auto job = tests::measured_job(stages, 1);
  auto& m = job.training.model.as<runtime::gpt_config>();
  m.layers = 8;
  m.hidden = 384;
  m.heads = m.groups = 6;
  m.head_size = 64;
  m.ffn = 1536;
  m.sequence = m.positions = 256;
  m.vocabulary = 65;
  m.padded_vocabulary = 66;
  m.hidden_dropout = m.attention_dropout = 0;
  job.training.batch = {.micro = 1, .global = 8, .data_parallel = 1};
  job.layout.schedule.source = schedule;
  job.threads_per_worker = 1;
  job.train_iterations = warm_up + measured + compared;
  return job;
}

using rows = std::vector<std::vector<timed_action>>;

rows rows_of(const messages::committed& step) {
  rows out(step.executed.size());
  for (const auto& row : step.executed)
    out.at(std::size_t(row.rank)) = row.actions;
  return out;
}

/// The mean of several cost models.
runtime::cost_model mean(const std::vector<runtime::execution>& all) {
  auto out = all.front().measured;
  const auto share = 1.0 / double(all.size());
  const auto each = [&](auto&& field) {
    for (std::size_t c = 0; c < out.costs.size(); ++c) {
      double sum = 0;
      for (const auto& x : all)
        sum += field(x.measured.costs[c]);
      const_cast<double&>(field(out.costs[c])) = sum * share;
    }
  };
  each([](const auto& x) -> const double& { return x.forward; });
  each([](const auto& x) -> const double& { return x.input_gradients; });
  each([](const auto& x) -> const double& { return x.weight_gradients; });
  out.overhead = out.transfer = 0;
  for (const auto& x : all) {
    out.overhead += x.measured.overhead * share;
    out.transfer += x.measured.transfer * share;
  }
  return out;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

void measure(const std::string& schedule, int stages) {
  const auto job = job_of(schedule, stages);
  const auto prepared = tests::tiny_prepared(job);
  const auto told = std::make_shared<seen>();
  const actors::make_viewer viewer = [told](caf::actor_system& home, const actors::drain_request&) {
    return home.spawn([told]() -> messages::viewer_actor::behavior_type {
      return {[told](const messages::committed& x) {
                const std::lock_guard lock(told->mutex);
                told->steps.push_back(x);
              },
              [](const messages::validated&) {}};
    });
  };
  if (const auto end = actors::run(prepared, {}, {viewer}); end.exit_code != 0) {
    fmt::print(stderr, "a run failed: {}\n", end.reason);
    std::exit(1);
  }
  const auto frame
      = *prepared->opened().pipeline.schedule->training(runtime::planned_microbatches(job));
  std::vector<runtime::execution> before;
  std::vector<double> makespan, bubble, late;
  for (const auto& step : told->steps) {
    const auto x = runtime::compare(frame, rows_of(step));
    if (step.report.iteration <= warm_up)
      continue;
    if (step.report.iteration <= warm_up + measured) {
      before.push_back(x);
      continue;
    }
    makespan.push_back(x.makespan);
    bubble.push_back(x.bubble);
    late.push_back(x.lateness);
  }
  auto done = frame;
  for (const auto& row : told->steps.back().executed) {
    auto& to = done.ranks.at(std::size_t(row.rank));
    to.clear();
    for (const auto& a : row.actions)
      to.push_back(a.what);
  }
  const auto by = mean(before);
  const auto planned = runtime::simulate(done, by);
  std::int64_t forecast = 0;
  std::size_t peak = 0;
  for (const auto& [rank, bytes] : prepared->node->pools->peaks()) {
    peak = std::max(peak, bytes);
    forecast = std::max(forecast,
                        runtime::forecast_memory(
                            job, prepared->opened().pipeline, prepared->opened().seats.at(rank))
                            .peak());
  }
  fmt::print("{:<13}{:>9.1f}{:>9.1f}{:>8.3f}{:>9.1f}{:>9.1f}{:>10.2f}{:>9.1f}{:>9.1f}{:>9.3f}\n",
             schedule,
             planned.makespan,
             median(makespan),
             median(makespan) / planned.makespan,
             100 * planned.bubble(),
             100 * median(bubble),
             median(late),
             by.overhead * 1e3,
             by.transfer * 1e3,
             double(peak) / double(forecast));
}

}  // namespace

int main(int argc, char** argv) {
  const int stages = argc > 1 ? std::atoi(argv[1]) : 2;
  fmt::print("8 layers, 384 channels, T 256, 8 micro-batches of 1, {} stages of one thread\n",
             stages);
  fmt::print("{:<13}{:>9}{:>9}{:>8}{:>9}{:>9}{:>10}{:>9}{:>9}{:>9}\n",
             "",
             "planned",
             "run ms",
             "ratio",
             "bubble %",
             "run %",
             "late ms",
             "gap us",
             "hop us",
             "memory");
  for (const auto* schedule : {"gpipe",
                               "1f1b",
                               "interleaved",
                               "looped-bfs",
                               "zb-h1",
                               "izb",
                               "zb-h2",
                               "zb-v",
                               "v-half",
                               "v-min",
                               "dualpipe",
                               "dualpipev",
                               "auto"})
    measure(schedule, stages);
}
