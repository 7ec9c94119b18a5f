// What of cuDNN serves an attention operation on one device, and what is not there.

#pragma once

#include "kernels/cudnn/attention_plans.hpp"
#include "kernels/cudnn/attention_split.hpp"

#include <mutex>
#include <string>

namespace troupe::kernels::cudnn {

/// What serves an operation.
struct service {
  const plan* by = nullptr;  ///< null: nothing
  attention_split split = {};
  std::size_t rows = 0, sums = 0;  ///< bytes of D and of dq in fp32, of a launch: all share it

  /// Of the workspace, which begins at a multiple of workspace_alignment: D, then dq, then cuDNN's.
  std::size_t bytes() const { return rows + sums + by->facts().workspace; }
};

inline constexpr std::size_t workspace_alignment = 256;  ///< bytes

/// Of one device. Any thread.
class attention_service {
 public:
  /// `make` is another in tests.
  attention_service(const device_kind& kind, descriptor device, plan_maker make = make_plan)
      : kind_(kind), plans_(std::move(device), std::move(make)) {}

  /// Of a shape that is `trusted`. A backward pass that may have other bits each time takes the
  /// plan of the same bits where cuDNN has no faster one, as `fallback` says. `workspace`: bytes
  /// that a launch of a backward pass is cut to, as backward_split has it.
  service find(const attention_shape& a, bool half, bool backward, std::int64_t workspace);

  /// As attention_library::missing and attention_library::fallback.
  std::string missing() const;
  std::string fallback() const;

  /// Makes ready, of a small shape in bf16, every kind of plan that training asks for on the
  /// device: the forward pass, and the backward pass for each dq_sum. A line for each reason why
  /// some are not there: which, why, and what computes instead. Empty: all are there.
  std::string trial();

 private:
  service served(const attention_split& split, bool backward, std::string& why);
  void keep(std::string& where, const std::string& reason);

  device_kind kind_;
  attention_plans plans_;
  mutable std::mutex mutex_;
  std::string missing_, fallback_;
};

}  // namespace troupe::kernels::cudnn
