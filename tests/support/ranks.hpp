// The workers of a whole job without actors: each has its own thread and stream, and the test
// passes activations between them.

#pragma once

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/model/ties.hpp"
#include "runtime/trainer/worker.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::tests {

struct grid {
  int tensor = 1, pipeline = 1, data = 1;
  int size() const { return tensor * pipeline * data; }
};

struct rank_coordinates {
  int tensor = 0, pipeline = 0, data = 0;
  friend auto operator<=>(const rank_coordinates&, const rank_coordinates&) = default;
};

/// Passes bundles between threads.
class hand_over {
 public:
  using key = std::tuple<rank_coordinates, int, int, bool>;  ///< receiver, replica, micro-batch,
                                                             ///< backward pass

  explicit hand_over(runtime::cancel_token token) : token_(std::move(token)) {
    waker_ = token_.on_cancel([this] {
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
  }

  void put(const key& to, runtime::bundle x) {
    const std::lock_guard lock(mutex_);
    under_way_[to] = std::move(x);
    changed_.notify_all();
  }
  runtime::bundle take(const key& to) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return under_way_.contains(to) || token_.is_cancelled(); });
    if (!under_way_.contains(to))
      throw runtime::cancelled();
    return std::move(under_way_.extract(to).mapped());
  }

 private:
  runtime::cancel_token token_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<key, runtime::bundle> under_way_;
  std::shared_ptr<void> waker_;
};

struct group_step_result {
  std::vector<runtime::loss_part> losses;  ///< of all logical replicas
  runtime::square_norms norms;
  std::map<std::string, runtime::digest> digests;  ///< of the state after the update
};

/// The estate of each rank; it outlives the workers.
using estates_of_ranks = std::map<rank_coordinates, std::shared_ptr<runtime::rank_estate>>;

inline int stage_of(std::int64_t unit, const std::vector<runtime::chunk_range>& stages) {
  return int(
      std::find_if(stages.begin(), stages.end(), [unit](const auto& x) { return unit < x.end; })
      - stages.begin());
}

/// The stages that use a tied parameter, each once, in model order.
inline std::vector<int> ranks_of(const runtime::tie& tie,
                                 const std::vector<runtime::chunk_range>& stages) {
  std::vector<int> out;
  for (const auto unit : tie.units)
    if (const int stage = stage_of(unit, stages); out.empty() || out.back() != stage)
      out.push_back(stage);
  return out;
}

/// All ranks of a job. All get `settings`, with chunks cut by `stages` (default: evenly). With
/// estates, each step is sealed as the iteration of its number; `begin` seals the initial state.
class ranks {
 public:
  ranks(const grid& g,
        const runtime::worker_settings& settings,
        kernels::backend where,
        std::vector<runtime::chunk_range> stages = {},
        const estates_of_ranks& estates = {})
      : grid_(g), settings_(settings) {
    if (stages.empty())
      stages = units_as_layers(settings.model, g.pipeline);
    const auto ties = runtime::ties_of(settings.model);
    for_each_rank([&](const rank_coordinates& s) {
      auto& x = rooms_[s];
      x.stream = std::make_unique<runtime::stream>(where, 1, runtime::memory_pool());
      if (g.tensor > 1)
        x.groups[runtime::axis::tensor]
            = join(tensor_[{0, s.pipeline, s.data}], runtime::axis::tensor, g.tensor, s.tensor);
      if (g.data * settings.replicas > 1)
        x.groups[runtime::axis::data]
            = join(data_[{s.tensor, s.pipeline, 0}], runtime::axis::data, g.data, s.data);
      for (const auto& tie : ties) {
        const auto all = ranks_of(tie, stages);
        const auto own = std::find(all.begin(), all.end(), s.pipeline);
        if (all.size() > 1 && own != all.end())
          x.ties[tie.owner] = join(ties_[{tie.owner, {s.tensor, 0, s.data}}],
                                   runtime::axis::pipeline,
                                   int(all.size()),
                                   int(own - all.begin()));
      }
    });
    each([&](const rank_coordinates& s) {
      auto& x = rooms_.at(s);
      auto mine = settings;
      mine.chunks
          = {{runtime::chunk_id(std::uint32_t(s.pipeline)), stages[std::size_t(s.pipeline)]}};
      if (const auto found = estates.find(s); found != estates.end())
        mine.estate = found->second;
      runtime::worker_groups groups;
      for (const auto& row : runtime::axis_table())
        if (x.groups[row.id])
          groups.along[row.id] = x.groups[row.id].get();
      for (const auto& tie : ties)
        if (const auto by = x.ties.find(tie.owner); by != x.ties.end()) {
          const auto all = ranks_of(tie, stages);
          auto& of_tie = groups.of_tie[{tie.owner, runtime::copy_id()}];
          of_tie.by = by->second.get();
          for (const auto unit : tie.units)
            of_tie.holders.push_back(
                int(std::find(all.begin(), all.end(), stage_of(unit, stages)) - all.begin()));
        }
      x.by = std::make_unique<runtime::worker>(mine, *x.stream, groups);
    });
  }

  runtime::worker& at(const rank_coordinates& s) { return *rooms_.at(s).by; }

  void begin(std::uint64_t iteration) {
    each([&](const rank_coordinates& s) { at(s).seal(iteration, at(s).digests()); });
  }

  /// Sets a state that does not depend on the grid: gains near 1, all else near 0, no exact 1 or 0.
  void shake(double by = 0.25) {
    each([&](const rank_coordinates& s) {
      at(s).restore(
          [&](const runtime::state_shard& to) {
            const bool gain = to.name.ends_with("layernorm.weight");
            const auto key = runtime::random_key(5, to.name, 0);
            std::vector<float> all(
                std::size_t(to.whole.size()),
                gain ? float(1 - settings_.model.head().norm.options.gain_offset) : 0.0F);
            for (std::size_t i = 0; i < all.size(); ++i)
              all[i] += float(by * runtime::standard_normal(key, i));
            fill(to, all);
          },
          false);
    });
  }

  /// One step: all forward passes, all backward passes, reduction, norms, update.
  group_step_result step(std::uint64_t number, std::int64_t microbatches, double rate = 0.01) {
    const int logical = grid_.data * settings_.replicas;
    hand_over wire(token_);
    each([&](const rank_coordinates& s) { passes(s, number, microbatches, logical, wire); });
    group_step_result out;
    for_each_rank([&](const rank_coordinates& s) {
      if (s.tensor > 0)
        return;
      for (auto part : at(s).losses()) {
        part.number += s.data * settings_.replicas;
        out.losses.push_back(part);
      }
    });
    std::ranges::sort(out.losses, {}, &runtime::loss_part::order);
    for_each_rank([&](const rank_coordinates& s) {
      if (answers(s))
        add_to(out.norms, at(s).norms());
    });
    const double scale = runtime::clip_coefficient(total_norm(out.norms), settings_.optimizer.clip);
    each([&](const rank_coordinates& s) {
      at(s).update({.step = number, .learning_rate = rate, .gradient_scale = scale});
      at(s).drop_gradients();
      at(s).gather();
      if (at(s).estate() != nullptr)
        at(s).seal(number, at(s).digests());
    });
    for_each_rank([&](const rank_coordinates& s) {
      if (answers(s))
        for (const auto& [name, part] : at(s).digests().own)
          out.digests[name] += part;
    });
    return out;
  }

  /// The whole parameters, or moments, gathered from all ranks.
  std::map<std::string, std::vector<float>> gathered(bool moments = false) {
    std::map<std::string, std::vector<float>> out;
    std::map<std::string, std::int64_t> filled;
    for_each_rank([&](const rank_coordinates& s) {
      if (!answers(s))
        return;
      for (const auto& x : moments ? at(s).moments() : at(s).parameters()) {
        auto& to = out[x.name];
        to.resize(std::size_t(x.whole.size()));
        copy_common(x.part, x.elements.data(), runtime::whole(x.whole), to.data(), sizeof(float));
        filled[x.name] += x.part.size();
      }
    });
    for (const auto& [name, n] : filled)
      runtime::ensure(n == std::int64_t(out.at(name).size()), "every element is saved once");
    return out;
  }

  /// Calls visit(rank) for each rank on its own thread. Rethrows the first exception.
  void each(const std::function<void(const rank_coordinates&)>& visit) {
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::exception_ptr failure;
    for_each_rank([&](const rank_coordinates& s) {
      threads.emplace_back([&, s] {
        try {
          visit(s);
        } catch (const runtime::cancelled&) {
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!failure)
            failure = std::current_exception();
          token_.cancel();
        }
      });
    });
    for (auto& t : threads)
      t.join();
    if (failure)
      std::rethrow_exception(failure);
  }

  void for_each_rank(const std::function<void(const rank_coordinates&)>& visit) const {
    for (int p = 0; p < grid_.pipeline; ++p)
      for (int d = 0; d < grid_.data; ++d)
        for (int t = 0; t < grid_.tensor; ++t)
          visit({t, p, d});
  }

  /// True if the state of this rank counts: among equal data ranks only that of the first.
  bool answers(const rank_coordinates& s) const {
    return settings_.distributed_optimizer || s.data == 0;
  }

 private:
  struct room {
    std::unique_ptr<runtime::stream> stream;
    runtime::axis_map<std::unique_ptr<runtime::communicator>> groups;
    std::map<std::string, std::unique_ptr<runtime::communicator>> ties;  ///< by owner
    std::unique_ptr<runtime::worker> by;
  };

  std::unique_ptr<runtime::communicator> join(std::shared_ptr<runtime::local_group>& group,
                                              runtime::axis along,
                                              int size,
                                              int rank) {
    if (!group)
      group = std::make_shared<runtime::local_group>(along, size, token_);
    return std::make_unique<runtime::local_communicator>(group, rank);
  }

  void passes(const rank_coordinates& s,
              std::uint64_t number,
              std::int64_t microbatches,
              int logical,
              hand_over& wire) {
    auto& x = rooms_.at(s);
    const bool first = s.pipeline == 0, last = s.pipeline + 1 == grid_.pipeline;
    const rank_coordinates before{s.tensor, s.pipeline - 1, s.data},
        after{s.tensor, s.pipeline + 1, s.data};
    const auto key = [&](int r, std::int64_t m) {
      return runtime::pass_key{r,
                               runtime::chunk_id(std::uint32_t(s.pipeline)),
                               runtime::microbatch_id(std::uint32_t(m))};
    };
    const auto flow = flow_of(settings_.model, x.by->settings().chunks.front().range);
    x.by->begin_step({.step = runtime::step_id(number),
                      .microbatches = microbatches,
                      .logical_replicas = logical});
    for (int r = 0; r < settings_.replicas; ++r)
      for (int m = 0; m < int(microbatches); ++m) {
        const auto seed = 1000 * number + 10 * std::uint64_t(s.data * settings_.replicas + r);
        const auto all = tiny_batch(*x.stream, settings_.model, 2, seed + std::uint64_t(m), true);
        auto in = first ? runtime::bundle() : wire.take({s, r, m, false});
        for (const auto& name : flow.batch)
          if (all.has(name))
            in.add(name, all.at(name));
        auto out = x.by->forward(key(r, m), in);
        if (!last)
          wire.put({after, r, m, false}, std::move(out));
      }
    for (int r = 0; r < settings_.replicas; ++r)
      for (int m = 0; m < int(microbatches); ++m) {
        auto out = x.by->backward(key(r, m), last ? runtime::bundle() : wire.take({s, r, m, true}));
        if (!first)
          wire.put({before, r, m, true}, std::move(out));
      }
    x.by->reduce();
  }

  grid grid_;
  runtime::worker_settings settings_;
  runtime::cancel_token token_;
  std::map<rank_coordinates, std::shared_ptr<runtime::local_group>> tensor_, data_;
  std::map<std::pair<std::string, rank_coordinates>, std::shared_ptr<runtime::local_group>> ties_;
  std::map<rank_coordinates, room> rooms_;
};

}  // namespace troupe::tests
