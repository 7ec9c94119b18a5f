// Events: each record puts a new mark into the stream; a wait is for the latest mark.

#include "tests/emulator/settings.hpp"
#include "tests/emulator/streams.hpp"

#include <map>

struct CUevent_st {
  int device;
  unsigned flags;
  troupe::emulator::mark_pointer last;  ///< null: never recorded
};

namespace troupe::emulator {
namespace {

struct event_list {
  std::mutex mutex;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
};

// Never destroyed: the program destroys events while the process ends.
event_list& events() {
  static auto* const list = new event_list;
  return *list;
}

struct event_state {
  bool exists = false;
  int device = 0;
  unsigned flags = 0;
  mark_pointer last = {};
};

event_state state_of(cudaEvent_t event) {
  const std::lock_guard lock(events().mutex);
  const auto found = events().events.find(event);
  if (found == events().events.end())
    return {};
  return {true, found->second->device, found->second->flags, found->second->last};
}

cudaError_t create(const char* call, cudaEvent_t* event, unsigned flags) {
  return runtime_call(call, [&] {
    if (event == nullptr || flags > 7
        || ((flags & cudaEventInterprocess) != 0 && (flags & cudaEventDisableTiming) == 0))
      return cudaErrorInvalidValue;
    auto one = std::make_unique<CUevent_st>(CUevent_st{current_device(), flags, nullptr});
    *event = one.get();
    const std::lock_guard lock(events().mutex);
    events().events[*event] = std::move(one);
    return cudaSuccess;
  });
}

cudaError_t record(cudaEvent_t event, stream_queue& queue) {
  if (const auto of = state_of(event); !of.exists || of.device != queue.device)
    return cudaErrorInvalidResourceHandle;
  const auto reached = queue.push(item_kind::waiting, [] {});
  const std::lock_guard lock(events().mutex);
  const auto found = events().events.find(event);
  if (found != events().events.end())
    found->second->last = reached;
  return cudaSuccess;
}

bool timed(const event_state& event) {
  return event.exists && event.last && (event.flags & cudaEventDisableTiming) == 0;
}

}  // namespace
}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return create("cudaEventCreate", event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return create("cudaEventCreateWithFlags", event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return runtime_call("cudaEventDestroy", [&] {
    const std::lock_guard lock(events().mutex);
    return events().events.erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return runtime_call("cudaEventRecord", [&] {
    const auto queue = find_stream(stream);
    return queue ? record(event, *queue) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return runtime_call("cudaStreamWaitEvent", [&] {
    const auto queue = find_stream(stream);
    const auto of = state_of(event);
    if (!queue || !of.exists)
      return cudaErrorInvalidResourceHandle;
    if (of.last)
      queue->push(item_kind::waiting, [last = of.last] { last->wait(); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return runtime_call("cudaEventQuery", [&] {
    const auto of = state_of(event);
    if (!of.exists)
      return cudaErrorInvalidResourceHandle;
    if (of.last && !of.last->reached())
      return cudaErrorNotReady;
    return device_error(of.device);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return runtime_call("cudaEventSynchronize", [&] {
    ++counted().waits;
    const auto of = state_of(event);
    if (!of.exists)
      return cudaErrorInvalidResourceHandle;
    if (of.last)
      of.last->wait();
    return device_error(of.device);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return runtime_call("cudaEventElapsedTime", [&] {
    const auto from = state_of(start), to = state_of(end);
    if (!timed(from) || !timed(to) || from.device != to.device)
      return cudaErrorInvalidResourceHandle;
    if (!from.last->reached() || !to.last->reached())
      return cudaErrorNotReady;
    *milliseconds
        = std::chrono::duration<float, std::milli>(to.last->when() - from.last->when()).count();
    return cudaSuccess;
  });
}

}  // extern "C"
