#include "runtime/device/device_memory.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t left_for_others = std::size_t{1} << 30;

std::byte* fresh_of_host(std::size_t bytes) {
  const std::size_t alignment = bytes >= huge_page ? huge_page : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto* const at = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (at != nullptr && alignment == huge_page)
    ::madvise(at, rounded, MADV_HUGEPAGE);  // only a hint: on failure the pages are small
  return at;
}

/// A hint about the address space limit (ulimit -v), which also counts libraries and stacks; empty
/// without a limit.
std::string limit_of_addresses() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return {};
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return fmt::format(
      "this process uses {} of the {} of address space that its limit allows: raise that "
      "limit (ulimit -v), or ",
      human_bytes(double(pages) * double(::sysconf(_SC_PAGESIZE))),
      human_bytes(double(limit.rlim_cur)));
}

/// Pools by device, for the release of idle memory.
struct pool_list {
  std::mutex mutex;
  std::vector<std::pair<int, idle_source>> pools;
};

pool_list& pools() {
  static pool_list all;
  return all;
}

std::size_t give_back_idle(int device) {
  std::vector<idle_source> asked;
  {
    const std::lock_guard lock(pools().mutex);
    for (const auto& [where, what] : pools().pools)
      if (where == device)
        asked.push_back(what);
  }
  std::size_t bytes = 0;
  for (const auto& what : asked)  // without the lock: it may take as long as the work of a queue
    bytes += what.release();
  return bytes;
}

void wait_for_all(const std::vector<std::shared_ptr<device_event>>& events) noexcept {
  for (const auto& event : events)
    try {
      if (event != nullptr)
        event->wait();
    } catch (const device_failure&) {
      // A failed device runs nothing any more.
    }
}

}  // namespace

std::byte* fresh_block(device_queue* queue, std::size_t bytes, bool insists) {
  if (queue == nullptr)
    return fresh_of_host(bytes);
  auto& driver = open_devices();
  auto* at = driver.allocate(queue->device(), bytes);
  if (at == nullptr && insists && give_back_idle(queue->device()) > 0)
    at = driver.allocate(queue->device(), bytes);
  return at;
}

bool has_room_ahead(device_queue* queue, std::size_t bytes) {
  return queue == nullptr
         || std::size_t(open_devices().free_memory(queue->device())) >= bytes + left_for_others;
}

void release_fresh(device_queue* queue,
                   std::byte* at,
                   const std::vector<std::shared_ptr<device_event>>& after) noexcept {
  if (queue == nullptr)
    return std::free(at);
  wait_for_all(after);
  open_devices().release(queue->device(), at);
}

std::byte* fresh_pinned(device_queue& queue, std::size_t bytes) {
  auto* const at = open_devices().allocate_pinned(queue.device(), bytes);
  if (at == nullptr)
    throw io_error(
        "out of memory: cannot allocate {} of pinned host memory; free some host memory, or "
        "raise the limit on locked memory (ulimit -l)",
        human_bytes(double(bytes)));
  return at;
}

void release_pinned(device_queue& queue,
                    std::byte* at,
                    const std::vector<std::shared_ptr<device_event>>& after) noexcept {
  wait_for_all(after);
  open_devices().release_pinned(queue.device(), at);
}

void register_pool(int device, idle_source what) {
  const std::lock_guard lock(pools().mutex);
  std::erase_if(pools().pools, [](const auto& x) { return x.second.pool.expired(); });
  pools().pools.emplace_back(device, std::move(what));
}

void refuse_memory(device_queue* queue, std::size_t bytes, std::size_t in_use) {
  if (queue == nullptr)
    throw io_error(
        "out of memory: {} more were requested, and the tensors of this worker use {}; {}use a "
        "smaller `batch.micro`, `model.sequence` or model",
        human_bytes(double(bytes)),
        human_bytes(double(in_use)),
        limit_of_addresses());
  const auto facts = open_devices().facts(queue->device());
  const auto left = open_devices().free_memory(facts.number);
  throw io_error(
      "out of memory on device {} ({}, {}): {} more were requested, this worker has {} in use{}; "
      "use a smaller `batch.micro`, `recompute.granularity` full, "
      "`reduction.distributed_optimizer` over more devices, or more pipeline or tensor ranks",
      facts.number,
      facts.name,
      human_bytes(double(facts.memory)),
      human_bytes(double(bytes)),
      human_bytes(double(in_use)),
      left > 0 ? fmt::format(", and {} are free", human_bytes(double(left))) : "");
}

}  // namespace troupe::runtime
