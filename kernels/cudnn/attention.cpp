// libtroupe_cudnn.so; interface in kernels/cuda/attention_library.hpp.

#include "kernels/backend/plugin.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/host.hpp"
#include "kernels/cudnn/attention_faults.hpp"
#include "kernels/cudnn/attention_service.hpp"

#include <atomic>
#include <type_traits>

namespace troupe::kernels::cudnn {

namespace {

constexpr int most_devices = 64;

// Earlier versions have errors with key lengths that are not a multiple of 128.
constexpr std::size_t oldest_version = 91600;

struct device {
  device(int number, int major)
      : attention({major, cudnnGetVersion()}, properties_of_device(number)) {}
  attention_service attention;
  handles all_handles;
};

/// Devices by number; never destroyed.
std::atomic<device*> made[most_devices];

/// The current device of the thread, which must be its queue's. Null if we have no plans for its
/// kind.
device* current_device() {
  static std::mutex mutex;
  static bool refused[most_devices];
  int number = 0;
  const auto said = cudaGetDevice(&number);
  if (said == cudaErrorInsufficientDriver || said == cudaErrorNoDevice)
    return nullptr;  // an emulated device
  cuda::check(said, "asking for the current device");
  if (number >= most_devices)
    return nullptr;
  if (device* const found = made[number].load(std::memory_order_acquire))
    return found;
  const std::lock_guard lock(mutex);
  if (made[number] == nullptr && !refused[number]) {
    int major = 0;
    cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number),
                "asking for the architecture of a device");
    // Decision 35: which engines have a deterministic backward pass is unknown for later devices.
    refused[number] = major < 8 || major > 9;
    if (!refused[number])
      made[number] = new device(number, major);  // never destroyed: lanes may outlive main
  }
  return made[number];
}

/// Limit per backward launch; tests lower it.
std::atomic<std::int64_t> most_workspace = backward_workspace;

/// Uses the current device.
service service_of(const attention_shape& a, bool half, bool backward) {
  device* const on = trusted(a, backward) ? current_device() : nullptr;
  return on == nullptr ? service{} : on->attention.find(a, half, backward, most_workspace);
}
template <class T>
service service_for(const attention_forward<T>& op) {
  return service_of(op.shape, std::is_same_v<T, f16>, false);
}
template <class T>
service service_for(const attention_backward<T>& op) {
  return service_of(op.shape, std::is_same_v<T, f16>, true);
}

template <class Op>
std::size_t scratch_of(const Op& op) {
  const auto found = service_for(op);
  return found.by == nullptr ? 0 : found.bytes() + workspace_alignment;
}

void* memory_of(const void* x) {
  return const_cast<void*>(x);  // cuDNN's interface lacks const
}

template <class T>
std::vector<void*> memory(const attention_forward<T>& op,
                          const attention_offsets& at,
                          const service&,
                          std::byte*) {
  return {memory_of(op.q + at.q),
          memory_of(op.k + at.k),
          memory_of(op.v + at.k),
          op.o + at.o,
          op.lse + at.lse};
}
template <class T>
std::vector<void*> memory(const attention_backward<T>& op,
                          const attention_offsets& at,
                          const service& found,
                          std::byte* workspace) {
  std::vector<void*> out = {memory_of(op.q + at.q),
                            memory_of(op.k + at.k),
                            memory_of(op.v + at.k),
                            memory_of(op.o + at.o),
                            memory_of(op.d_o + at.o),
                            memory_of(op.lse + at.lse),
                            op.dq + at.q,
                            op.dk + at.k,
                            op.dv + at.k,
                            workspace};
  if (found.sums > 0)
    out.push_back(workspace + found.rows);
  return out;
}

template <class Op>
void run_on(const Op& op, const context& in) {
  const auto found = service_for(op);
  if (found.by == nullptr)
    throw std::logic_error("cuDNN was given an attention that it does not serve");
  void* memory_there = in.workspace.data();
  std::size_t left = in.workspace.size();
  if (found.bytes() > 0 && !std::align(workspace_alignment, found.bytes(), memory_there, left))
    throw std::logic_error("workspace of " + std::to_string(in.workspace.size())
                           + " bytes, but attention by cuDNN declared more");
  auto* const workspace = static_cast<std::byte*>(memory_there);
  const handles::lease handle(current_device()->all_handles, cuda::queue_of(in));
  const auto& split = found.split;
  for (std::int64_t i = 0; i < split.sequences; ++i) {
    for (std::int64_t j = 0; j < split.groups; ++j)
      found.by->execute(handle.handle(),
                        memory(op, offsets_of(op.shape, split, i, j), found, workspace),
                        workspace + found.rows + found.sums);
  }
}

class library final : public cuda::attention_library {
 public:
#define TROUPE_DEFINE(op)                                \
  bool serves(const op& what) const override {           \
    return service_for(what).by != nullptr;              \
  }                                                      \
  std::size_t scratch(const op& what) override {         \
    return scratch_of(what);                             \
  }                                                      \
  void run(const op& what, const context& in) override { \
    run_on(what, in);                                    \
  }
  TROUPE_DEFINE(attention_forward<bf16>)
  TROUPE_DEFINE(attention_forward<f16>)
  TROUPE_DEFINE(attention_backward<bf16>)
  TROUPE_DEFINE(attention_backward<f16>)
#undef TROUPE_DEFINE

  std::string version() const override {
    return "cuDNN " + library_version();
  }
  std::string missing() const override {
    return first(&attention_service::missing);
  }
  std::string fallback() const override {
    return first(&attention_service::fallback);
  }

 private:
  /// The first non-empty text over all devices.
  static std::string first(std::string (attention_service::*what)() const) {
    for (const auto& each : made) {
      const device* const one = each.load(std::memory_order_acquire);
      if (one == nullptr)
        continue;
      if (auto text = (one->attention.*what)(); !text.empty())
        return text;
    }
    return "";
  }
};

std::string trial(int number) {
  try {
    cuda::check(cudaSetDevice(number), "taking a device");
    device* const on = current_device();
    if (on == nullptr)
      return "cuDNN's attention is used on devices of compute capability 8 and 9 only;"
             " attention uses troupe's own kernels, which are slower";
    return on->attention.trial();
  } catch (const device_failure& e) {
    return std::string(e.what()) + "; attention uses troupe's own kernels, which are slower";
  }
}

std::string obstacle() {
  if (cudnnGetVersion() < oldest_version)
    return "cuDNN " + library_version() + " is older than 9.16, which attention needs";
  return "";
}

}  // namespace

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_build() {
  return build_of_plugins();
}
TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_library() {
  static const std::string version = "cuDNN " + library_version();
  return version.c_str();
}
TROUPE_PLUGIN_FUNCTION const char* troupe_attention_obstacle() {
  static const std::string found = obstacle();
  return found.c_str();
}
TROUPE_PLUGIN_FUNCTION const char* troupe_attention_trial(int number) {
  static std::string said;  // of the latest call
  said = trial(number);
  return said.c_str();
}
TROUPE_PLUGIN_FUNCTION cuda::attention_library* troupe_attention_library() {
  static library one;
  return &one;
}
TROUPE_PLUGIN_FUNCTION void troupe_attention_limit(std::int64_t bytes) {
  most_workspace = bytes == 0 ? backward_workspace : bytes;
}

}  // namespace troupe::kernels::cudnn
