// Devices, queues and events on the CUDA runtime. Part of the plug-in libtroupe_cuda.so.

#include "kernels/backend/plugin.hpp"
#include "kernels/cuda/architecture.hpp"
#include "runtime/device/device.hpp"

#include <cuda_runtime.h>

#include <mutex>

namespace troupe::runtime::cuda {

namespace {

void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw device_failure(std::string(what) + ": " + cudaGetErrorName(status) + ", "
                         + cudaGetErrorString(status));
}

std::string text_of(const cudaUUID_t& x) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out;
  for (const auto byte : x.bytes) {
    out += digits[std::uint8_t(byte) >> 4];
    out += digits[std::uint8_t(byte) & 15];
  }
  return out;
}

/// Device that the calling thread is bound to; -1: none. cudaGetDevice would report 0 then, and
/// switching back to 0 would create a context on a device that the run may not use.
thread_local int attended = -1;

/// Switches the calling thread to a device for its lifetime, then back: kernel launches need the
/// thread's own device.
class visit {
 public:
  explicit visit(int device) : device_(device) {
    int now = -1;
    require(cudaGetDevice(&now), "querying the current device");
    if (attended < 0 || now != device)
      require(cudaSetDevice(device), "choosing a device");
  }
  ~visit() {
    if (attended >= 0 && attended != device_)
      cudaSetDevice(attended);
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;

 private:
  int device_;
};

/// Cache of unused events of one device: creating one costs a driver call.
class event_store {
 public:
  explicit event_store(int device) : device_(device) {}
  ~event_store() {
    for (auto& idle : idle_)
      for (auto* const event : idle)
        cudaEventDestroy(event);
  }

  int device() const { return device_; }

  cudaEvent_t take(bool timed) {
    {
      const std::lock_guard lock(mutex_);
      auto& idle = idle_[timed ? 1 : 0];
      if (!idle.empty()) {
        auto* const event = idle.back();
        idle.pop_back();
        return event;
      }
    }
    const visit there(device_);
    cudaEvent_t event = nullptr;
    // Blocking sync: a waiting thread sleeps, so other lanes get the processor.
    const unsigned flags = cudaEventBlockingSync | (timed ? 0U : unsigned(cudaEventDisableTiming));
    require(cudaEventCreateWithFlags(&event, flags), "making an event");
    return event;
  }

  void give_back(cudaEvent_t event, bool timed) {
    const std::lock_guard lock(mutex_);
    idle_[timed ? 1 : 0].push_back(event);
  }

 private:
  int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> idle_[2];
};

class cuda_event final : public device_event {
 public:
  cuda_event(std::shared_ptr<event_store> from, bool timed)
      : store_(std::move(from)), event_(store_->take(timed)), timed_(timed) {}
  ~cuda_event() override { store_->give_back(event_, timed_); }
  cuda_event(const cuda_event&) = delete;
  cuda_event& operator=(const cuda_event&) = delete;

  bool passed() const override {
    const visit there(store_->device());
    const auto status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady)
      return false;
    require(status, "asking for an event");
    return true;
  }

  void wait() const override {
    const visit there(store_->device());
    require(cudaEventSynchronize(event_), "waiting for the device");
  }

  double ms_after(const device_event& earlier) const override {
    const visit there(store_->device());
    float ms = 0;
    require(cudaEventElapsedTime(&ms, static_cast<const cuda_event&>(earlier).event_, event_),
            "asking for the time between two events");
    return ms;
  }

  cudaEvent_t native() const { return event_; }

 private:
  std::shared_ptr<event_store> store_;
  cudaEvent_t event_;
  bool timed_;
};

class cuda_queue final : public device_queue {
 public:
  cuda_queue(int device, std::shared_ptr<event_store> events)
      : device_(device), events_(std::move(events)) {
    attend();
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a queue");
  }
  ~cuda_queue() override {
    try {
      const visit there(device_);
      cudaStreamSynchronize(stream_);
      cudaStreamDestroy(stream_);
    } catch (const device_failure&) {
      // The device has failed; the process will end and free everything.
    }
  }
  cuda_queue(const cuda_queue&) = delete;
  cuda_queue& operator=(const cuda_queue&) = delete;

  int device() const override { return device_; }
  void* native() const override { return stream_; }

  void attend() override {
    require(cudaSetDevice(device_), "choosing a device");
    attended = device_;
  }

  void copy(void* to, const void* from, std::size_t bytes) override {
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying memory");
  }

  void clear(void* at, std::size_t bytes) override {
    if (bytes > 0)
      require(cudaMemsetAsync(at, 0, bytes, stream_), "clearing memory");
  }

  std::shared_ptr<device_event> mark(bool timed) override {
    const visit there(device_);
    auto event = std::make_shared<cuda_event>(events_, timed);
    require(cudaEventRecord(event->native(), stream_), "marking a queue");
    return event;
  }

  void wait_for(const device_event& event) override {
    require(cudaStreamWaitEvent(stream_, static_cast<const cuda_event&>(event).native(), 0),
            "waiting for another queue");
  }

  void finish() override { mark(false)->wait(); }

  void check() override {
    const auto status = cudaStreamQuery(stream_);
    if (status != cudaErrorNotReady)
      require(status, "the device failed in earlier work");
  }

 private:
  int device_;
  std::shared_ptr<event_store> events_;
  cudaStream_t stream_ = nullptr;
};

/// "9.0" for 90.
std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

class cuda_driver final : public device_driver {
 public:
  cuda_driver() {
    int count = 0;
    require(cudaGetDeviceCount(&count), "counting devices");
    for (int d = 0; d < count; ++d)
      events_.push_back(std::make_shared<event_store>(d));
  }

  driver_facts facts() const override {
    int driver = 0, runtime = 0;
    require(cudaDriverGetVersion(&driver), "asking for the driver's version");
    require(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
    return {version_text(driver), version_text(runtime)};
  }

  int count() const override { return int(events_.size()); }

  device_facts facts(int device) const override {
    cudaDeviceProp x = {};
    require(cudaGetDeviceProperties(&x, device), "querying the properties of a device");
    const auto code = kernels::cuda::code_of_build_for(x.major, x.minor);
    return {.number = device,
            .name = x.name,
            .major = x.major,
            .minor = x.minor,
            .memory = std::int64_t(x.totalGlobalMem),
            .multiprocessors = x.multiProcessorCount,
            .obstacle = obstacle(device),
            .code = code.made_for == 0 ? "" : capability_text(code.made_for),
            .compiles = code.is_ptx,
            .id = text_of(x.uuid),
            .hidden = hidden_from(device)};
  }

  static bool can_read(int device, int other) {
    int can = 0;
    require(cudaDeviceCanAccessPeer(&can, device, other), "asking whether devices see each other");
    return can != 0;
  }

  std::vector<int> hidden_from(int device) const {
    std::vector<int> out;
    for (int other = 0; other < count(); ++other)
      if (other != device && !can_read(device, other))
        out.push_back(other);
    return out;
  }

  std::int64_t free_memory(int device) const override {
    const visit there(device);
    std::size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? std::int64_t(free) : 0;
  }

  std::string obstacle(int device) const override {
    int major = 0, minor = 0;
    const char* const what = "asking for the architecture of a device";
    require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), what);
    require(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), what);
    return kernels::cuda::architecture_obstacle(major, minor);
  }

  std::shared_ptr<device_queue> make_queue(int device) override {
    return std::make_shared<cuda_queue>(device, events_.at(std::size_t(device)));
  }

  bool let_read(int device, int other) override {
    if (!can_read(device, other))
      return false;
    const visit there(device);
    const auto status = cudaDeviceEnablePeerAccess(other, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError();  // clears the error, which is handled here
    else
      require(status, "letting a device read another's memory");
    return true;
  }

  std::byte* allocate(int device, std::size_t bytes) override {
    const visit there(device);
    void* at = nullptr;
    const auto status = cudaMalloc(&at, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which is handled here
      return nullptr;
    }
    require(status, "asking for device memory");
    return static_cast<std::byte*>(at);
  }

  void release(int device, std::byte* at) noexcept override {
    try {
      const visit there(device);
      cudaFree(at);
    } catch (const device_failure&) {
      // A failed device keeps its memory until the process ends.
    }
  }

  std::byte* allocate_pinned(int device, std::size_t bytes) override {
    const visit there(device);
    void* at = nullptr;
    const auto status = cudaHostAlloc(&at, bytes, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    require(status, "asking for pinned memory");
    return static_cast<std::byte*>(at);
  }

  void release_pinned(int device, std::byte* at) noexcept override {
    try {
      const visit there(device);
      cudaFreeHost(at);
    } catch (const device_failure&) {
      // A failed device keeps its memory until the process ends.
    }
  }

 private:
  std::vector<std::shared_ptr<event_store>> events_;
};

}  // namespace

TROUPE_PLUGIN_FUNCTION device_driver* troupe_device_driver() {
  static cuda_driver one;
  return &one;
}

}  // namespace troupe::runtime::cuda
