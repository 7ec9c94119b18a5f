#include "runtime/forecast/layout_search.hpp"

#include "runtime/forecast/memory_estimate.hpp"
#include "runtime/schedule/generators.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace troupe::runtime {
namespace {

/// Virtual stages of a rank: more hardly shorten the bubble.
constexpr int most_virtual = 32;

/// Plans beyond this number of forward passes are compared without a simulation.
constexpr std::int64_t most_simulated = 1 << 18;

std::vector<int> divisors_of(std::int64_t n, std::int64_t most) {
  std::vector<int> out;
  for (std::int64_t i = 1; i <= std::min(n, most); ++i)
    if (n % i == 0)
      out.push_back(int(i));
  return out;
}

class layout_search {
 public:
  layout_search(const model_outline& model,
                const step_outline& base,
                const cluster_outline& on,
                const search_limits& limits)
      : model_(model), base_(base), on_(on), limits_(limits) {}

  found_layouts run() {
    for (const int t : divisors_of(base_.world, on_.devices_per_host))
      if (std::ranges::all_of(limits_.tensor_divides, [&](auto size) { return size % t == 0; }))
        for (const int p : divisors_of(base_.world / t, std::int64_t(model_.layers.size())))
          with_ranks(t, p);
    for (auto& [key, found] : best_)
      out_.best.push_back(std::move(found));
    keep_fastest();
    for (auto& x : out_.best)
      simulate_schedules(x);
    keep_fastest();
    return std::move(out_);
  }

 private:
  void keep_fastest() {
    std::ranges::sort(out_.best, {}, [](const found_layout& x) { return x.forecast.seconds; });
    if (out_.best.size() > limits_.results)
      out_.best.resize(limits_.results);
  }

  void with_ranks(int tensor, int pipeline) {
    const int data = base_.world / (tensor * pipeline);
    for (const int e :
         limits_.experts == 0 ? std::vector<int>{1} : divisors_of(limits_.experts, data)) {
      if (data % e != 0 || base_.global % data != 0)
        continue;
      auto step = base_;
      step.tensor = tensor;
      step.pipeline = pipeline;
      step.expert = e;
      step.expert_tensor = tensor;
      step.sequence_parallel = tensor > 1;
      spans_ = spans_of(step, on_.devices_per_host);
      for (const std::int64_t micro : {1, 2, 4, 8, 16})
        if (base_.global % (micro * data) == 0)
          with_micro(step, micro);
    }
  }

  void with_micro(step_outline step, std::int64_t micro) {
    const int layers = int(model_.layers.size()), pipeline = step.pipeline;
    step.micro = micro;
    if (std::int64_t(double(micro) * model_.sequence) % step.tensor != 0)
      return;
    for (int v = 1; v <= most_virtual && v * pipeline <= layers; ++v) {
      const int chunks = v * pipeline;
      if (v > 1 && (pipeline == 1 || step.microbatches() % pipeline != 0))
        continue;
      step.chunks = even_chunks(layers, chunks);
      for (const auto granularity : {recompute_granularity::none, recompute_granularity::full}) {
        step.recompute = {.granularity = granularity};
        for (const bool shards : {true, false}) {
          if (shards && step.data() == 1)
            continue;
          step.distributed_optimizer = step.overlap_parameters = shards;
          step.overlap_gradients = step.data() > 1;
          consider(step, v);
        }
      }
    }
  }

  void consider(const step_outline& step, int v) {
    const double memory = estimate_memory(model_, step);
    ++out_.compared;
    if (out_.compared == 1 || memory < out_.least_memory)
      out_.least_memory = memory;
    if (memory > limits_.memory_share * on_.device.memory) {
      ++out_.too_large;
      return;
    }
    found_layout found{.step = step,
                       .schedule = v > 1 ? "interleaved" : "1f1b",
                       .virtual_stages = v,
                       .forecast = estimate_step(model_, step, on_, {}, spans_),
                       .memory = memory};
    auto& best = best_[{step.tensor, step.pipeline, step.expert}];
    if (best.memory == 0 || found.forecast.seconds < best.forecast.seconds)
      best = std::move(found);
  }

  /// The fastest schedule that holds no more micro-batches than 1F1B.
  void simulate_schedules(found_layout& x) const {
    const int v = x.virtual_stages, p = x.step.pipeline, m = x.step.microbatches();
    if (std::int64_t(p) * v * m > most_simulated)
      return;
    found_layout best;
    for (const char* name : {v > 1 ? "interleaved" : "1f1b", v > 1 ? "izb" : "zb-h1"}) {
      if (p == 1 && best.memory > 0)
        break;  // nothing to wait for
      auto with = x;
      const auto plan
          = generate(name, {.ranks = p, .chunks_per_rank = v > 1 ? v : 0, .microbatches = m});
      with.schedule = name;
      with.forecast = forecast_step(model_, x.step, on_, plan);
      if (best.memory == 0 || with.forecast.seconds < best.forecast.seconds)
        best = std::move(with);
    }
    x = std::move(best);
  }

  const model_outline& model_;
  const step_outline& base_;
  const cluster_outline& on_;
  const search_limits& limits_;
  step_spans spans_;                                        // of the ranks that are compared now
  std::map<std::tuple<int, int, int>, found_layout> best_;  // by tensor, pipeline, expert ranks
  found_layouts out_;
};

}  // namespace

found_layouts search_layouts(const model_outline& model,
                             const step_outline& base,
                             const cluster_outline& on,
                             const search_limits& limits) {
  return layout_search(model, base, on, limits).run();
}

}  // namespace troupe::runtime
