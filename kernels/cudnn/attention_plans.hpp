// Plans of attention, made once each for a device, and the handles that execute them.

#pragma once

#include "kernels/cudnn/attention_graph.hpp"

#include <functional>
#include <memory>
#include <mutex>

namespace troupe::kernels::cudnn {

/// Throws not_supported where cuDNN has none.
using plan_maker = std::function<plan(
    const attention_problem& problem, bool backward, const descriptor& device)>;
plan make_plan(const attention_problem& problem, bool backward, const descriptor& device);

struct found_plan {
  const plan* by = nullptr;  ///< null: cuDNN has none
  std::string why = {};      ///< it has none, a sentence without its end
};

/// Of one device. Any thread.
class attention_plans {
 public:
  /// `make` is another in tests.
  explicit attention_plans(descriptor device, plan_maker make = make_plan)
      : device_(std::move(device)), make_(std::move(make)) {}

  /// The first time for a problem a plan is made, which compiles kernels: most of a second. It
  /// lives as long as this.
  found_plan find(const attention_problem& problem, bool backward);

 private:
  struct entry {
    attention_problem problem;
    bool backward;
    std::mutex making = {};
    bool tried = false;
    std::unique_ptr<plan> made = {};
    std::string why = {};
  };

  descriptor device_;
  plan_maker make_;
  std::mutex mutex_;  ///< of all below, not of what entries hold
  std::vector<std::unique_ptr<entry>> entries_;
};

/// Handles of one device. Any thread.
class handles {
 public:
  /// A handle on a stream, nobody else's for the time of this.
  class lease {
   public:
    lease(handles& of, cudaStream_t queue);
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    ~lease();
    cudnnHandle_t handle() const { return handle_; }

   private:
    handles& of_;
    cudnnHandle_t handle_;
  };

 private:
  std::mutex mutex_;
  std::vector<cudnnHandle_t> free_;
};

}  // namespace troupe::kernels::cudnn
