// Plans of attention, made once each for a device, and the handles that execute them.

#pragma once

#include "kernels/cudnn/attention_graph.hpp"

#include <memory>
#include <mutex>

namespace troupe::kernels::cudnn {

/// Of one device. Any thread.
class attention_plans {
 public:
  explicit attention_plans(descriptor device) : device_(std::move(device)) {}

  /// Null: cuDNN has none. The first time for a problem a plan is made, which compiles kernels:
  /// most of a second. It lives as long as this.
  const plan* find(const attention_problem& problem, bool backward);

  /// Why the first one that was not made was not, a sentence without its end; empty: all were.
  std::string missing() const;

 private:
  struct entry {
    attention_problem problem;
    bool backward;
    std::mutex making = {};
    bool tried = false;
    std::unique_ptr<plan> made = {};
  };

  void keep(const std::string& reason);

  descriptor device_;
  mutable std::mutex mutex_;  ///< of all below, not of what entries hold
  std::string missing_;
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
