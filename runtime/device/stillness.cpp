#include "runtime/device/stillness.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// Factor on the timeout: a message may still be on its way.
constexpr std::uint64_t patience_with_messages = 2;
/// Factor while a member waits for a tensor of another process.
constexpr std::uint64_t patience_with_tensors = 4;

}  // namespace

stillness::stillness(double suspicion)
    : suspicion_ns_(std::uint64_t(std::max(suspicion, 1e-3) * 1e9)) {}

std::optional<std::uint64_t> stillness::look(const std::vector<board_entry>& all,
                                             std::uint64_t bytes,
                                             std::uint64_t now_ns,
                                             const std::vector<std::string>& without) {
  const bool was_late
      = now_ns - std::exchange(last_ns_, now_ns) > 2 * suspicion_ns_ / hang_judge::looks;
  if (std::exchange(bytes_, bytes) != bytes || was_late)
    moved_ns_ = now_ns;
  bool has_tensors = false;
  for (const auto& x : all) {
    if (std::find(without.begin(), without.end(), x.who) != without.end())
      continue;
    moved_ns_ = std::max(moved_ns_, x.waits ? x.since_ns : now_ns);
    has_tensors = has_tensors || (x.waits && x.on_process);
  }
  const auto still = now_ns - std::min(moved_ns_, now_ns);
  const auto patience = has_tensors ? patience_with_tensors : patience_with_messages;
  return still >= patience * suspicion_ns_ ? std::optional(still) : std::nullopt;
}

}  // namespace troupe::runtime
