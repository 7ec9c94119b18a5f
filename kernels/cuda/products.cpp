#include "kernels/cuda/products.hpp"

#include "kernels/cuda/product.hpp"
#include "kernels/cuda/product_name.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace troupe::kernels::cuda {

namespace {

constexpr int most_devices = 64;
constexpr int most_candidates = 8;

struct hash_of_key {
  std::size_t operator()(const product_key& x) const {
    std::uint64_t out = 0;
    const auto mix = [&out](std::uint64_t value) {
      out = (out ^ value) * 0x9e3779b97f4a7c15;
      out ^= out >> 32;
    };
    mix(std::uint64_t(x.role) | std::uint64_t(x.type) << 8 | std::uint64_t(x.epilogue) << 16
        | std::uint64_t(x.biased) << 24 | std::uint64_t(x.kept) << 25
        | std::uint64_t(x.device_kind) << 32);
    mix(std::uint64_t(x.alignment[0]) | std::uint64_t(x.alignment[1]) << 8
        | std::uint64_t(x.alignment[2]) << 16 | std::uint64_t(x.alignment[3]) << 24);
    mix(std::uint64_t(x.R));
    mix(std::uint64_t(x.N));
    mix(std::uint64_t(x.K));
    return out;
  }
};

/// A product's algorithm: `ready` once it is chosen, by whoever holds `choosing`.
struct known_product {
  std::mutex choosing;
  std::atomic<bool> ready = false;
  bool impossible = false;  ///< with the epilogue; there is no choice then
  cublasLtMatmulAlgo_t algorithm;
  product_choice choice;
};

/// What a device is to its products. Made by the first of them, kept for the life of the process.
struct device {
  cublasLtHandle_t library = nullptr;
  std::uint8_t kind = 0;
};

}  // namespace

struct products::state {
  std::atomic<bool> tf32 = false, measure = true;

  std::mutex making_devices;
  std::array<std::atomic<device*>, most_devices> devices = {};
  std::vector<std::string> kinds;  ///< names of devices, by kind

  mutable std::shared_mutex mutex;  ///< of the maps, not of what they hold
  std::unordered_map<product_key, std::unique_ptr<known_product>, hash_of_key> known;
  std::map<std::string, product_choice> given;

  const device& current_device();
  known_product& find(const product_key& key);
  void choose(known_product& out,
              const device& on,
              const product_key& key,
              const product_operands& at,
              void* workspace,
              std::span<std::byte> trial,
              cudaStream_t queue);
};

namespace {

std::string library_version() {
  const std::size_t number = cublasLtGetVersion();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "."
         + std::to_string(number % 100);
}

}  // namespace

struct product_access {
  static products::state& state() { return *products::of_process().state_; }
};

products& products::of_process() {
  static auto& one = *new products;  // lanes may outlive main's statics
  return one;
}
products::products() : state_(std::make_unique<state>()) {}
products::~products() = default;

std::string products::version() const {
  return "cuBLASLt " + library_version();
}

void products::configure(const product_settings& how) {
  state_->tf32 = how.tf32;
  state_->measure = how.measure;
}

void products::give(const std::vector<product_choice>& known) {
  const std::unique_lock lock(state_->mutex);
  for (const auto& choice : known) {
    algorithm_of(choice);
    state_->given[choice.product] = choice;
  }
  for (const auto& [key, product] : state_->known) {
    if (!product->ready || product->impossible)
      continue;
    const auto found = state_->given.find(product->choice.product);
    if (found != state_->given.end() && found->second.algorithm != product->choice.algorithm)
      throw device_failure("the product '" + found->first
                           + "' was computed in this process with another algorithm than the one "
                             "that is given: give choices before the first product");
  }
}

std::vector<product_choice> products::choices() const {
  std::vector<product_choice> out;
  const std::shared_lock lock(state_->mutex);
  for (const auto& [key, product] : state_->known) {
    if (product->ready && !product->impossible)
      out.push_back(product->choice);
  }
  std::sort(
      out.begin(), out.end(), [](const auto& a, const auto& b) { return a.product < b.product; });
  return out;
}

const device& products::state::current_device() {
  int number = 0;
  check(cudaGetDevice(&number), "asking for the current device");
  if (number < 0 || number >= most_devices)
    throw device_failure("device " + std::to_string(number) + ": matrix products know "
                         + std::to_string(most_devices) + " devices");
  auto& place = devices[std::size_t(number)];
  if (const device* const found = place.load(std::memory_order_acquire))
    return *found;
  const std::lock_guard lock(making_devices);
  if (const device* const found = place.load())
    return *found;
  cudaDeviceProp what = {};
  check(cudaGetDeviceProperties(&what, number), "asking for the properties of a device");
  auto made = std::make_unique<device>();
  check(cublasLtCreate(&made->library), "starting cuBLASLt");
  const auto kind = std::find(kinds.begin(), kinds.end(), what.name);
  made->kind = std::uint8_t(kind - kinds.begin());
  if (kind == kinds.end())
    kinds.emplace_back(what.name);
  place = made.get();
  return *made.release();
}

known_product& products::state::find(const product_key& key) {
  {
    const std::shared_lock lock(mutex);
    if (const auto found = known.find(key); found != known.end())
      return *found->second;
  }
  const std::unique_lock lock(mutex);
  auto& place = known[key];
  if (!place)
    place = std::make_unique<known_product>();
  return *place;
}

void products::state::choose(known_product& out,
                             const device& on,
                             const product_key& key,
                             const product_operands& at,
                             void* workspace,
                             std::span<std::byte> trial,
                             cudaStream_t queue) {
  std::string device_name;
  {
    const std::lock_guard lock(making_devices);
    device_name = kinds[on.kind];
  }
  const std::string name = name_of(key, device_name, "cuBLASLt " + library_version());
  product_description what(key, at);
  std::optional<product_choice> earlier;
  {
    const std::shared_lock lock(mutex);
    if (const auto found = given.find(name); found != given.end())
      earlier = found->second;
  }
  if (earlier) {
    const auto algorithm = algorithm_of(*earlier);
    cublasLtMatmulHeuristicResult_t found = {};
    const auto status = what.try_algorithm(on.library, algorithm, found);
    if (status != CUBLAS_STATUS_SUCCESS || found.workspaceSize > product_workspace)
      throw device_failure(
          "the algorithm that was chosen for the product '" + name
          + "' in an earlier run cannot be taken: cuBLASLt says "
          + (status != CUBLAS_STATUS_SUCCESS
                 ? std::string(cublasLtGetStatusName(status))
                 : "that it needs " + std::to_string(found.workspaceSize) + " bytes of workspace")
          + ". Without that choice it is chosen anew, and bits may differ");
    out.algorithm = algorithm;
    out.choice = *earlier;
    return;
  }
  cublasLtMatmulHeuristicResult_t candidates[most_candidates];
  const int found = what.candidates(on.library, candidates, measure ? most_candidates : 1);
  std::optional<measured_product> chosen;
  if (found > 0 && measure)
    chosen = cuda::measure(
        key, at, {candidates, std::size_t(found)}, on.library, workspace, trial, queue);
  else if (found > 0)
    chosen = measured_product{candidates[0].algo};
  out.impossible = !chosen && key.epilogue != product_epilogue::none;
  if (out.impossible)
    return;
  if (!chosen)
    throw device_failure(found == 0
                             ? "cuBLASLt has no algorithm for the product '" + name + "'"
                             : "cuBLASLt refuses all " + std::to_string(found)
                                   + " algorithms that it proposes for the product '" + name + "'");
  out.algorithm = chosen->algorithm;
  out.choice = {name, text_of(chosen->algorithm), chosen->microseconds, found};
}

bool multiply(product_key key, const product_operands& at, const context& in) {
  auto& state = product_access::state();
  const device& on = state.current_device();
  key.device_kind = on.kind;
  if (key.type == product_type::f32 && state.tf32)
    key.type = product_type::tf32;
  note_alignments(key, at);
  void* workspace = in.workspace.data();
  std::size_t left = in.workspace.size();
  if (!std::align(product_workspace_alignment, product_workspace, workspace, left))
    throw std::logic_error("workspace of " + std::to_string(in.workspace.size())
                           + " bytes, but a matrix product declared more");

  known_product& known = state.find(key);
  if (!known.ready.load(std::memory_order_acquire)) {
    const std::lock_guard lock(known.choosing);
    if (!known.ready) {
      const std::span trial(static_cast<std::byte*>(workspace) + product_workspace,
                            left - product_workspace);
      state.choose(known, on, key, at, workspace, trial, queue_of(in));
      known.ready = true;
    }
  }
  if (known.impossible)
    return false;
  const auto status = product_description(key, at).run(
      on.library, known.algorithm, at.d, workspace, queue_of(in));
  if (status != CUBLAS_STATUS_SUCCESS)
    check(status, ("the matrix product '" + known.choice.product + "'").c_str());
  return true;
}

}  // namespace troupe::kernels::cuda
