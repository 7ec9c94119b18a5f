// A worker with injected faults: its lane fails, hangs, is slow or computes a wrong bit at a moment
// of a step.

#pragma once

#include "actors/faults/fault_injector.hpp"
#include "actors/host/environment.hpp"
#include "runtime/trainer/worker.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// The workers of a process by the streams that they compute on. Any thread.
class working_lanes {
 public:
  struct lane {
    std::string who;  ///< "lane:0.1"
    std::uint64_t step = 0;
  };
  void at(const runtime::stream& by, lane x);
  void leave(const runtime::stream& by);
  /// Empty if no worker computes on that stream.
  std::optional<lane> find(const runtime::stream* by) const;

 private:
  mutable std::mutex mutex_;
  std::map<const runtime::stream*, lane> lanes_;
};

/// Called on the threads of a worker.
class faulty_worker final : public runtime::worker {
 public:
  faulty_worker(std::shared_ptr<const fault_injector> faults,
                std::shared_ptr<working_lanes> lanes,
                const worker_place& place,
                runtime::worker_settings settings,
                runtime::stream& by,
                const runtime::worker_groups& groups);
  ~faulty_worker() override;

  void begin_step(const runtime::step_settings& step) override;
  runtime::bundle forward(const runtime::pass_key& key, const runtime::bundle& in) override;
  runtime::bundle input_gradients(const runtime::pass_key& key,
                                  const runtime::bundle& in,
                                  int block) override;
  void weight_gradients(const runtime::pass_key& key, int block) override;
  void weight_gradients(const runtime::pass_key& key,
                        int block,
                        runtime::added_gradients& to) override;
  void reduce_bucket(int bucket, runtime::stream& stream) override;
  void finish_reduction() override;
  void reduce() override;
  void update(const runtime::update_decision& decision) override;
  void skip(std::uint64_t iteration) override;
  std::vector<runtime::state_shard> parameters() override;

 private:
  using fate = fault_injector::fate;
  fate come_to(runtime::moment_of_step at, bool has_result = true) const;
  fate come_to_pass(runtime::moment_of_step at, bool has_result = true) const;
  fate come_to_reduction() const;
  void flip_reduced(fate x);
  void flip_before_adding(const runtime::pass_key& key);

  std::shared_ptr<const fault_injector> faults_;
  std::shared_ptr<working_lanes> lanes_;
  runtime::stream& by_;
  std::string rank_;
  std::atomic<std::uint64_t> step_;  ///< also read by the communication lane
  bool training_ = true;
};

}  // namespace troupe::actors
