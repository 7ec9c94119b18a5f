// A cache of attention plans of one device, and of the handles that execute them.

#pragma once

#include "kernels/cudnn/attention_graph.hpp"

#include <functional>
#include <memory>
#include <mutex>

namespace troupe::kernels::cudnn {

/// Throws not_supported if cuDNN has no plan.
using plan_maker = std::function<plan(
    const attention_problem& problem, bool backward, const descriptor& device)>;
plan make_plan(const attention_problem& problem, bool backward, const descriptor& device);

struct found_plan {
  const plan* by = nullptr;  ///< null if cuDNN has no plan
  std::string why = {};      ///< why there is none, without a final period
};

/// Plans of one device. Any thread.
class attention_plans {
 public:
  /// Tests replace `make`.
  explicit attention_plans(descriptor device, plan_maker make = make_plan)
      : device_(std::move(device)), make_(std::move(make)) {}

  /// Makes the plan on the first call for a problem, which compiles kernels and takes most of a
  /// second. The plan lives as long as this object.
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
  std::mutex mutex_;  ///< guards the members below, not the contents of entries
  std::vector<std::unique_ptr<entry>> entries_;
};

/// Handles of one device. Any thread.
class handles {
 public:
  /// Exclusive use of a handle on a stream.
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
