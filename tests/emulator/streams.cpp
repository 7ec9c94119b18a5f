#include "tests/emulator/streams.hpp"

#include "tests/emulator/memory.hpp"
#include "tests/emulator/settings.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

struct CUstream_st {
  std::shared_ptr<troupe::emulator::stream_queue> queue;
};

namespace troupe::emulator {
namespace {

/// All streams with a valid handle, and the null stream of each device.
struct stream_list {
  std::mutex mutex;
  std::map<cudaStream_t, std::unique_ptr<CUstream_st>> handles;
  std::map<int, std::shared_ptr<stream_queue>> null_streams;
  std::uint64_t created = 0;
};

// Never destroyed: streams still work while the process ends.
stream_list& streams() {
  static auto* const list = new stream_list;
  return *list;
}

/// The streams that are ordered with `queue` by the rules of the null stream: for the null stream
/// all blocking streams of its device, for a blocking stream the null stream.
std::vector<std::shared_ptr<stream_queue>> bound_to(const stream_queue& queue) {
  auto& list = streams();
  const std::lock_guard lock(list.mutex);
  std::vector<std::shared_ptr<stream_queue>> bound;
  const auto null = list.null_streams.find(queue.device);
  if (null == list.null_streams.end() || (queue.flags & cudaStreamNonBlocking) != 0)
    return bound;
  if (null->second.get() != &queue) {
    bound.push_back(null->second);
    return bound;
  }
  for (const auto& [handle, one] : list.handles)
    if (one->queue->device == queue.device && (one->queue->flags & cudaStreamNonBlocking) == 0)
      bound.push_back(one->queue);
  return bound;
}

void sleep_a_little(std::uint64_t& random) {
  const auto longest = machine().delay_us.load();
  if (longest == 0)
    return;
  const auto us = draw(random, unsigned(std::min<std::uint64_t>(longest, 1U << 30)) + 1);
  std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void wait_while_stuck(int device) {
  const auto& by = machine();
  if (by.stuck < 0 || number_on_machine(device) != by.stuck)
    return;
  while (::access(by.stuck_while.c_str(), F_OK) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

void mark::reach() {
  const std::lock_guard lock(mutex_);
  is_ = true;
  when_ = clock::now();
  reached_.notify_all();
}

void mark::wait() {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this] { return is_; });
}

bool mark::reached() {
  const std::lock_guard lock(mutex_);
  return is_;
}

mark::clock::time_point mark::when() {
  const std::lock_guard lock(mutex_);
  return when_;
}

stream_queue::stream_queue(int device_, unsigned flags_, int priority_)
    : device(device_), flags(flags_), priority(priority_) {}

mark_pointer stream_queue::push(item_kind kind, std::function<void()> work) {
  for (const auto& other : bound_to(*this)) {
    mark_pointer last;
    {
      const std::lock_guard lock(other->mutex_);
      last = other->last_;
    }
    if (last && !last->reached())
      push_alone(item_kind::waiting, [last] { last->wait(); });
  }
  return push_alone(kind, std::move(work));
}

mark_pointer stream_queue::push_alone(item_kind kind, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  last_ = std::make_shared<mark>();
  items_.push_back({kind, std::move(work), last_});
  if (!std::exchange(begun_, true))
    std::thread([self = shared_from_this()] { self->carry_out(); }).detach();
  wake_.notify_one();
  return last_;
}

void stream_queue::carry_out() {
  std::uint64_t random = 0;
  {
    const std::lock_guard lock(streams().mutex);
    random = machine().seed + ++streams().created * 0x9e3779b97f4a7c15U;
  }
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty())
      return;
    item now = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    if (now.kind != item_kind::waiting) {
      sleep_a_little(random);
      wait_while_stuck(device);
    }
    if (now.kind == item_kind::waiting) {
      now.work();
    } else if (device_error(device) == cudaSuccess) {
      if (now.kind == item_kind::work) {
        const memory_access access;
        now.work();
      } else {
        now.work();
      }
    }
    now.work = nullptr;  // releases its resources before the mark wakes a waiting thread
    now.done->reach();
  }
}

void stream_queue::synchronize() {
  mark_pointer last;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
  }
  if (last)
    last->wait();
}

bool stream_queue::idle() {
  const std::lock_guard lock(mutex_);
  return !last_ || last_->reached();
}

void stream_queue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wake_.notify_one();
}

std::shared_ptr<stream_queue> find_stream(cudaStream_t handle) {
  auto& list = streams();
  const std::lock_guard lock(list.mutex);
  if (handle == nullptr || handle == cudaStreamLegacy) {
    auto& null = list.null_streams[current_device()];
    if (!null)
      null = std::make_shared<stream_queue>(current_device(), cudaStreamDefault, 0);
    return null;
  }
  const auto found = list.handles.find(handle);
  return found == list.handles.end() ? nullptr : found->second->queue;
}

void synchronize_device(int device) {
  std::vector<std::shared_ptr<stream_queue>> all;
  {
    auto& list = streams();
    const std::lock_guard lock(list.mutex);
    for (const auto& [handle, one] : list.handles)
      all.push_back(one->queue);
    for (const auto& [of, null] : list.null_streams)
      all.push_back(null);
  }
  for (const auto& one : all)
    if (one->device == device)
      one->synchronize();
}

cudaError_t enqueue(const char* call,
                    cudaStream_t stream,
                    item_kind kind,
                    std::function<void()> work) {
  return runtime_call(call, [&] {
    const auto queue = find_stream(stream);
    if (!queue)
      return cudaErrorInvalidResourceHandle;
    queue->push(kind, std::move(work));
    return cudaSuccess;
  });
}

namespace {

cudaError_t create(const char* call, cudaStream_t* stream, unsigned flags, int priority) {
  return runtime_call(call, [&] {
    if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0)
      return cudaErrorInvalidValue;
    auto one = std::make_unique<CUstream_st>();
    one->queue
        = std::make_shared<stream_queue>(current_device(), flags, std::clamp(priority, -5, 0));
    *stream = one.get();
    auto& list = streams();
    const std::lock_guard lock(list.mutex);
    list.handles[*stream] = std::move(one);
    return cudaSuccess;
  });
}

/// Runs the body of a runtime call on a stream.
template <class Body>
cudaError_t of_stream(const char* call, cudaStream_t stream, Body&& body) {
  return runtime_call(call, [&] {
    const auto queue = find_stream(stream);
    return queue ? body(*queue) : cudaErrorInvalidResourceHandle;
  });
}

}  // namespace
}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create("cudaStreamCreate", stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create("cudaStreamCreateWithFlags", stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create("cudaStreamCreateWithPriority", stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return runtime_call("cudaStreamDestroy", [&] {
    auto& list = streams();
    const std::lock_guard lock(list.mutex);
    const auto found = list.handles.find(stream);
    if (found == list.handles.end())
      return cudaErrorInvalidResourceHandle;
    found->second->queue->close();
    list.handles.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return of_stream("cudaStreamQuery", stream, [](stream_queue& queue) {
    if (!queue.idle())
      return cudaErrorNotReady;
    return device_error(queue.device);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return of_stream("cudaStreamSynchronize", stream, [](stream_queue& queue) {
    ++counted().waits;
    queue.synchronize();
    return device_error(queue.device);
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return of_stream("cudaStreamGetPriority", stream, [&](stream_queue& queue) {
    *priority = queue.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return of_stream("cudaStreamGetFlags", stream, [&](stream_queue& queue) {
    *flags = queue.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return of_stream("cudaStreamGetDevice", stream, [&](stream_queue& queue) {
    *device = queue.device;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* of) {
  return enqueue("cudaLaunchHostFunc", stream, item_kind::host, [function, of] { function(of); });
}

cudaError_t cudaDeviceSynchronize() {
  return runtime_call("cudaDeviceSynchronize", [] {
    ++counted().waits;
    synchronize_device(current_device());
    return device_error(current_device());
  });
}

}  // extern "C"
