#include "runtime/device/memory_pool.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/progress.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr std::size_t smallest = 256;
constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t size_class(std::size_t bytes) {
  bytes = std::max(bytes, smallest);
  const std::size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

/// Null when there is not so much.
std::byte* fresh(std::size_t bytes) {
  const std::size_t alignment = bytes >= huge_page ? huge_page : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto* const at = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (at != nullptr && alignment == huge_page)
    ::madvise(at, rounded, MADV_HUGEPAGE);  // a wish: without it the pages are small
  return at;
}

}  // namespace

struct memory_pool::state {
  std::mutex mutex;
  std::map<std::size_t, std::vector<std::byte*>> idle;
  std::size_t in_use = 0;
  std::size_t peak = 0;

  ~state() {
    for (const auto& [size, blocks] : idle)
      for (auto* const block : blocks)
        std::free(block);
  }
};

memory_pool::memory_pool() : state_(std::make_shared<state>()) {}

memory_block memory_pool::allocate(std::size_t bytes) {
  // Beyond half of what a pointer can name, rounding up would wrap around.
  const bool possible = bytes <= std::numeric_limits<std::size_t>::max() / 2;
  const auto size = possible ? size_class(bytes) : 0;
  std::byte* at = nullptr;
  if (possible) {
    const std::lock_guard lock(state_->mutex);
    auto& idle = state_->idle[size];
    if (!idle.empty()) {
      at = idle.back();
      idle.pop_back();
    }
  }
  if (possible && at == nullptr)
    at = fresh(size);
  if (at == nullptr)
    throw io_error(
        "out of memory: {} more were asked for, {} are in use; use a smaller "
        "--micro-batch-size, --seq-length or model",
        human_bytes(double(bytes)),
        human_bytes(double(bytes_in_use())));
  {
    const std::lock_guard lock(state_->mutex);
    state_->in_use += size;
    state_->peak = std::max(state_->peak, state_->in_use);
  }
  return {at, [owner = state_, size](std::byte* block) {
            const std::lock_guard lock(owner->mutex);
            owner->idle[size].push_back(block);
            owner->in_use -= size;
          }};
}

std::size_t memory_pool::bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in_use;
}

std::size_t memory_pool::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak;
}

void memory_pool::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  state_->peak = state_->in_use;
}

}  // namespace troupe::runtime
