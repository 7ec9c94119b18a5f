#include "runtime/device/memory_pool.hpp"

#include "runtime/core/error.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/device/idle_ranges.hpp"
#include "runtime/device/staging.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace troupe::runtime {

namespace {

constexpr std::size_t smallest = 256;
constexpr std::size_t large = std::size_t{1} << 20;  // from here on memory is split and merged
constexpr std::size_t coarse = std::size_t{16} << 20;
constexpr std::size_t coarse_step = std::size_t{2} << 20;

std::size_t size_class(std::size_t bytes) {
  bytes = std::max(bytes, smallest);
  const std::size_t step = bytes >= coarse ? coarse_step : std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

using events = used_events;

/// Null if the device has failed: then it runs nothing any more. The caller may be unwinding from
/// that failure.
std::shared_ptr<device_event> mark_or_null(device_queue& queue) noexcept {
  try {
    return queue.mark();
  } catch (...) {
    return nullptr;
  }
}

/// State of a device block while it is lent.
struct block_story {
  std::mutex mutex;
  std::shared_ptr<device_event> written;
  events used;  ///< by other queues before the block returns
};

}  // namespace

struct memory_pool::state {
  struct idle_block {
    std::byte* at = nullptr;
    events used;
  };

  std::mutex mutex;
  std::map<std::size_t, std::vector<idle_block>> idle;  ///< below `large`, by size
  idle_ranges ranges;
  std::size_t held_small = 0;
  /// Oldest first: the queue has finished with the front first.
  std::map<std::size_t, std::deque<idle_block>> idle_pinned;
  std::size_t in_use = 0;
  std::size_t apart = 0;  ///< part of in_use: blocks of allocate_apart
  std::size_t peak = 0;
  bool shadow = false;
  std::shared_ptr<device_queue> queue;  // null: host memory
  std::byte* stage = nullptr;           // shadow pools: address of every block
  std::size_t stage_size = 0;
  std::vector<std::pair<std::byte*, std::size_t>> stages;  // this one and earlier, smaller ones
  memory_source shared;

  ~state() {
    for (const auto& [at, size] : stages)
      ::munmap(at, size);
    release_idle();
    for (const auto& [size, blocks] : idle_pinned)
      for (const auto& block : blocks)
        release_pinned(*queue, block.at, block.used);
  }

  /// Returns idle memory to the system; the result is in bytes. Waits for its former users without
  /// the mutex, because they may need the pool meanwhile.
  std::size_t release_idle() {
    std::vector<idle_ranges::range> taken;
    std::size_t bytes = 0;
    {
      const std::lock_guard lock(mutex);
      taken = ranges.take_whole_segments();
      for (auto& [size, blocks] : idle)
        for (auto& block : blocks) {
          taken.push_back({block.at, size, std::move(block.used)});
          held_small -= size;
        }
      idle.clear();
    }
    for (const auto& x : taken) {
      release_fresh(queue.get(), x.at, x.used);
      bytes += x.bytes;
    }
    return bytes;
  }

  /// Allocates from the system: a new segment, of which it returns the first part, or a small
  /// block. Two threads may do this at once and allocate more than both need.
  std::byte* take_fresh(std::size_t size) {
    if (size < large) {
      auto* const at = fresh_block(queue.get(), size);
      const std::lock_guard lock(mutex);
      held_small += at == nullptr ? 0 : size;
      return at;
    }
    std::size_t wanted = 0;
    {
      const std::lock_guard lock(mutex);
      wanted = segment_size(size, ranges.held() + apart);
    }
    const bool ahead = wanted > size && has_room_ahead(queue.get(), wanted);
    auto* at = ahead ? fresh_block(queue.get(), wanted, false) : nullptr;
    if (at == nullptr)
      at = fresh_block(queue.get(), wanted = size);
    if (at == nullptr)
      return nullptr;
    const std::lock_guard lock(mutex);
    ranges.add_segment(at, wanted);
    return take_idle(size);
  }

  /// Null if no idle memory fits.
  std::byte* take_idle(std::size_t size) {
    idle_block block;
    if (size >= large) {
      auto found = ranges.take(size);
      if (!found)
        return nullptr;
      block = {found->at, std::move(found->used)};
    } else {
      auto& blocks = idle[size];
      if (blocks.empty())
        return nullptr;
      block = std::move(blocks.back());
      blocks.pop_back();
    }
    for (const auto& event : block.used)
      if (event != nullptr)
        queue->wait_for(*event);
    return block.at;
  }

  void count(std::size_t size, std::size_t of_it_apart = 0) {
    const std::lock_guard lock(mutex);
    in_use += size;
    apart += of_it_apart;
    peak = std::max(peak, in_use);
  }
  void count_less(std::size_t size, std::size_t of_it_apart = 0) {
    const std::lock_guard lock(mutex);
    in_use -= size;
    apart -= of_it_apart;
  }

  void keep(std::byte* at, std::size_t size, events used) {
    if (size >= large)
      ranges.give({at, size, std::move(used)});
    else
      idle[size].push_back({at, std::move(used)});
  }

  /// The host writes to it at once, so its transfers must have passed.
  std::byte* take_idle_pinned(std::size_t size) {
    auto& blocks = idle_pinned[size];
    const auto passed = [](const auto& e) { return e == nullptr || e->passed(); };
    if (blocks.empty()
        || !std::all_of(blocks.front().used.begin(), blocks.front().used.end(), passed))
      return nullptr;
    auto* const at = blocks.front().at;
    blocks.pop_front();
    return at;
  }
};

/// Deleter: returns a block to its pool.
struct block_keeper {
  std::shared_ptr<memory_pool::state> owner;
  std::size_t size = 0;
  memory_kind kind = memory_kind::host;
  std::shared_ptr<block_story> story;  ///< device blocks only
  /// Blocks of allocate_apart, the only one of their owner: the pool that counts them.
  std::optional<std::weak_ptr<memory_pool::state>> counted_by = {};

  void operator()(std::byte* at) const {
    events used;
    if (story != nullptr)
      used = std::move(story->used);
    if (kind == memory_kind::pinned || counted_by)  // its own queue may still use it
      used.push_back(mark_or_null(*owner->queue));
    if (const auto pool = counted_by ? counted_by->lock() : nullptr)
      pool->count_less(size, size);
    const std::lock_guard lock(owner->mutex);
    if (kind == memory_kind::pinned) {
      owner->idle_pinned[size].push_back({at, std::move(used)});
      return;
    }
    if (!owner->shadow)
      owner->keep(at, size, std::move(used));
    if (!counted_by)
      owner->in_use -= size;
  }
};

/// Deleter of a block from `share_by`, which the pool counts.
struct shared_keeper {
  memory_block original;
  std::shared_ptr<memory_pool::state> owner;
  std::size_t size;

  void operator()(std::byte*) {
    original.reset();
    owner->count_less(size);
  }
};

namespace {

/// Deleter: records that a queue used the block.
struct borrower {
  memory_block original;
  std::shared_ptr<device_queue> by;
  std::shared_ptr<block_story> story;

  void operator()(std::byte*) {
    {
      const std::lock_guard lock(story->mutex);
      story->used.push_back(mark_or_null(*by));
    }
    original.reset();
  }
};

const block_keeper* keeper_of(const memory_block& x) {
  return std::get_deleter<block_keeper>(x);
}

std::shared_ptr<block_story> story_of(const memory_block& x) {
  if (const auto* const lent = std::get_deleter<borrower>(x))
    return lent->story;
  const auto* const keeper = keeper_of(x);
  return keeper == nullptr ? nullptr : keeper->story;
}

const device_queue* queue_of(const memory_block& x) {
  if (const auto* const lent = std::get_deleter<borrower>(x))
    return lent->by.get();
  const auto* const keeper = keeper_of(x);
  return keeper == nullptr ? nullptr : keeper->owner->queue.get();
}

}  // namespace

memory_kind kind_of(const memory_block& x) {
  if (std::get_deleter<borrower>(x) != nullptr)
    return memory_kind::device;
  const auto* const keeper = keeper_of(x);
  return keeper == nullptr ? memory_kind::host : keeper->kind;
}

int device_of(const memory_block& x) {
  const auto* const queue = queue_of(x);
  return queue == nullptr || kind_of(x) != memory_kind::device ? -1 : queue->device();
}

void publish(const memory_block& x, std::shared_ptr<device_event> event) {
  const auto story = story_of(x);
  if (story == nullptr)
    return;
  const std::lock_guard lock(story->mutex);
  story->written = std::move(event);
}

bool is_written(const memory_block& x) {
  const auto story = story_of(x);
  if (story == nullptr)
    return true;
  std::shared_ptr<device_event> written;
  {
    const std::lock_guard lock(story->mutex);
    written = story->written;
  }
  ensure(written != nullptr, "POOL-2: what is lent to another queue was published");
  return written->passed();
}

memory_block lend(const memory_block& x, const std::shared_ptr<device_queue>& to) {
  const auto story = story_of(x);
  if (story == nullptr || to == nullptr || queue_of(x) == to.get())
    return x;
  {
    const std::lock_guard lock(story->mutex);
    ensure(story->written != nullptr, "POOL-2: what is lent to another queue was published");
    to->wait_for(*story->written);
  }
  return {x.get(), borrower{x, to, story}};
}

memory_pool::memory_pool() : state_(std::make_shared<state>()) {}

memory_pool memory_pool::shadow() {
  memory_pool out;
  out.state_->shadow = true;
  return out;
}

bool memory_pool::is_shadow() const {
  return state_->shadow;
}

void memory_pool::serve(std::shared_ptr<device_queue> queue) {
  const std::lock_guard lock(state_->mutex);
  ensure(state_->in_use == 0 && state_->idle.empty() && state_->ranges.held() == 0
             && !state_->shadow && !state_->queue,
         "POOL-1: a pool serves one queue from its first block on");
  state_->queue = std::move(queue);
  const std::weak_ptr<state> weak = state_;
  register_pool(state_->queue->device(), {weak, [weak]() -> std::size_t {
                                            const auto there = weak.lock();
                                            return there == nullptr ? 0 : there->release_idle();
                                          }});
}

memory_kind memory_pool::kind() const {
  return state_->queue != nullptr ? memory_kind::device : memory_kind::host;
}

void memory_pool::clear(std::byte* block, std::size_t bytes) const {
  if (is_shadow())
    return;
  if (state_->queue != nullptr)
    state_->queue->clear(block, bytes);
  else
    std::memset(block, 0, bytes);
}

void memory_pool::write(void* block, const void* from, std::size_t bytes) const {
  if (is_shadow() || bytes == 0)
    return;
  if (state_->queue == nullptr)
    return void(std::memcpy(block, from, bytes));
  write_staged(*this, *state_->queue, block, from, bytes);
}

void memory_pool::read(void* to, const void* block, std::size_t bytes) const {
  if (is_shadow() || bytes == 0)
    return;
  if (state_->queue == nullptr)
    return void(std::memcpy(to, block, bytes));
  read_staged(*this, *state_->queue, to, block, bytes);
}

std::byte* memory_pool::in_shadow(std::size_t size) {
  const std::lock_guard lock(state_->mutex);
  if (size > state_->stage_size) {
    // Never touched, but it counts where address space is limited (ulimit -v).
    const auto least = std::bit_ceil(size), most = std::max(least, std::size_t{1} << 30);
    for (const auto wanted : {most, least}) {
      void* const at = ::mmap(nullptr,
                              wanted,
                              PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              -1,
                              0);
      if (at == MAP_FAILED)
        continue;
      state_->stage = static_cast<std::byte*>(at);
      state_->stage_size = wanted;
      state_->stages.emplace_back(state_->stage, wanted);
      return state_->stage;
    }
    return nullptr;
  }
  return state_->stage;
}

memory_block memory_pool::allocate(std::size_t bytes) {
  // Larger sizes would overflow when they are rounded up.
  const bool possible = bytes <= std::numeric_limits<std::size_t>::max() / 2;
  const auto size = possible ? size_class(bytes) : 0;
  std::byte* at = nullptr;
  if (possible && state_->shadow) {
    at = in_shadow(size);
  } else if (possible) {
    const std::lock_guard lock(state_->mutex);
    at = state_->take_idle(size);
  }
  if (possible && at == nullptr && !state_->shadow)
    at = state_->take_fresh(size);
  if (at == nullptr)
    refuse_memory(state_->queue.get(), bytes, bytes_in_use());
  const auto kind = this->kind();
  auto story = kind == memory_kind::device ? std::make_shared<block_story>() : nullptr;
  state_->count(size);
  return {at, block_keeper{state_, size, kind, std::move(story)}};
}

memory_block memory_pool::allocate_apart(std::size_t bytes) {
  const bool possible = bytes <= std::numeric_limits<std::size_t>::max() / 2;
  if (state_->queue == nullptr || !possible)
    return allocate(bytes);
  const auto size = size_class(bytes);
  const auto own = std::make_shared<state>();  // owns this block only
  own->queue = state_->queue;
  auto* const at = own->take_fresh(size);
  if (at == nullptr)
    refuse_memory(own->queue.get(), bytes, bytes_in_use());
  state_->count(size, size);
  return {at,
          block_keeper{own, size, memory_kind::device, std::make_shared<block_story>(), state_}};
}

memory_block memory_pool::allocate_pinned(std::size_t bytes) {
  if (state_->queue == nullptr)
    return allocate(bytes);
  const auto size = size_class(bytes);
  std::byte* at = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    at = state_->take_idle_pinned(size);
  }
  if (at == nullptr)
    at = fresh_pinned(*state_->queue, size);
  return {at, block_keeper{state_, size, memory_kind::pinned, nullptr}};
}

void memory_pool::share_by(memory_source from) {
  const std::lock_guard lock(state_->mutex);
  state_->shared = std::move(from);
}

memory_block memory_pool::allocate_shared(std::size_t bytes) {
  memory_source from;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->shadow && state_->queue == nullptr)
      from = state_->shared;
  }
  const bool possible = bytes <= std::numeric_limits<std::size_t>::max() / 2;
  const auto size = possible ? size_class(bytes) : 0;
  auto block = from && possible ? from(size) : nullptr;
  if (block == nullptr)
    return allocate_apart(bytes);
  state_->count(size);
  auto* const at = block.get();
  return {at, shared_keeper{std::move(block), state_, size}};
}

void memory_pool::release_idle() {
  state_->release_idle();
}

std::size_t memory_pool::bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in_use;
}

std::size_t memory_pool::held_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ranges.held() + state_->held_small;
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
