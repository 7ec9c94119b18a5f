// Selects the cuDNN plan for an attention operation on one device, and records what is missing.

#pragma once

#include "kernels/cudnn/attention_plans.hpp"
#include "kernels/cudnn/attention_split.hpp"

#include <mutex>
#include <string>

namespace troupe::kernels::cudnn {

/// The plan for an operation.
struct service {
  const plan* by = nullptr;  ///< null if there is none
  attention_split split = {};
  std::size_t rows = 0, sums = 0;  ///< bytes of D and of dq in fp32; launches share them

  /// Size of the workspace: D, then dq, then cuDNN's own. It starts at a multiple of
  /// workspace_alignment.
  std::size_t bytes() const { return rows + sums + by->facts().workspace; }
};

inline constexpr std::size_t workspace_alignment = 256;  ///< in bytes

/// Attention of one device. Any thread.
class attention_service {
 public:
  /// Tests replace `make`.
  attention_service(const device_kind& kind, descriptor device, plan_maker make = make_plan)
      : kind_(kind), plans_(std::move(device), std::move(make)) {}

  /// Finds the plan for a `trusted` shape. If the bits may differ between runs but cuDNN has no
  /// faster plan, it uses the deterministic plan and records that in `fallback`. `workspace`: limit
  /// in bytes for one launch of a backward pass, see backward_split.
  service find(const attention_shape& a, bool half, bool backward, std::int64_t workspace);

  /// See attention_library::missing and attention_library::fallback.
  std::string missing() const;
  std::string fallback() const;

  /// Makes every kind of plan that training needs on this device, for a small bf16 shape: the
  /// forward pass, and the backward pass for each dq_sum. One line per reason for missing plans:
  /// which, why, and what runs instead. Empty if none is missing.
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
