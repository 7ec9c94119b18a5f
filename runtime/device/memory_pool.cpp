#include "runtime/device/memory_pool.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/progress.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <utility>
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
  bool shadow = false;
  std::byte* stage = nullptr;  // of a shadow: where every block lies
  std::size_t stage_size = 0;
  std::vector<std::pair<std::byte*, std::size_t>> stages;  // this one and the smaller ones before

  ~state() {
    for (const auto& [at, size] : stages)
      ::munmap(at, size);
    for (const auto& [size, blocks] : idle)
      for (auto* const block : blocks)
        std::free(block);
  }
};

memory_pool::memory_pool() : state_(std::make_shared<state>()) {}

memory_pool memory_pool::shadow() {
  memory_pool out;
  out.state_->shadow = true;
  return out;
}

bool memory_pool::is_shadow() const {
  return state_->shadow;
}

void memory_pool::clear(std::byte* block, std::size_t bytes) const {
  if (!is_shadow())
    std::memset(block, 0, bytes);
}

std::byte* memory_pool::in_shadow(std::size_t size) {
  const std::lock_guard lock(state_->mutex);
  if (size > state_->stage_size) {
    const auto wanted = std::max(std::bit_ceil(size), std::size_t{1} << 30);
    void* const at = ::mmap(nullptr,
                            wanted,
                            PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                            -1,
                            0);
    if (at == MAP_FAILED)
      return nullptr;
    state_->stage = static_cast<std::byte*>(at);
    state_->stage_size = wanted;
    state_->stages.emplace_back(state_->stage, wanted);
  }
  return state_->stage;
}

memory_block memory_pool::allocate(std::size_t bytes) {
  // Beyond half of what a pointer can name, rounding up would wrap around.
  const bool possible = bytes <= std::numeric_limits<std::size_t>::max() / 2;
  const auto size = possible ? size_class(bytes) : 0;
  std::byte* at = nullptr;
  if (possible && state_->shadow) {
    at = in_shadow(size);
  } else if (possible) {
    const std::lock_guard lock(state_->mutex);
    auto& idle = state_->idle[size];
    if (!idle.empty()) {
      at = idle.back();
      idle.pop_back();
    }
  }
  if (possible && at == nullptr && !state_->shadow)
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
            if (!owner->shadow)
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
