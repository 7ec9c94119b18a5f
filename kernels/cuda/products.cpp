#include "kernels/cuda/products.hpp"

#include "kernels/cuda/earlier_choices.hpp"
#include "kernels/cuda/product.hpp"
#include "kernels/cuda/product_name.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
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
constexpr int most_candidates = 32;

// Limits: device time per product, and host time of all measurements. A model has about twenty
// products. After that the library's first candidate is taken.
constexpr double most_microseconds = 250'000;
constexpr double most_seconds = 30;

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

/// The algorithm of a product. The thread that holds `choosing` sets `ready` once it is chosen.
struct known_product {
  std::mutex choosing;
  std::atomic<bool> ready = false;
  bool impossible = false;  ///< no algorithm has the epilogue: no_algorithm
  cublasLtMatmulAlgo_t algorithm;
  product_choice choice;
};

/// State per device, made by its first product and kept for the life of the process.
struct device {
  cublasLtHandle_t library = nullptr;
  std::uint8_t kind = 0;
};

}  // namespace

struct products::state {
  std::atomic<bool> tf32 = false, measure = true, strict = false;

  std::mutex making_devices;
  std::array<std::atomic<device*>, most_devices> devices = {};
  std::vector<std::string> kinds;  ///< device names, by kind

  mutable std::shared_mutex mutex;  ///< guards the maps, not their elements
  std::unordered_map<product_key, std::unique_ptr<known_product>, hash_of_key> known;
  earlier_choices given;
  std::atomic<std::int64_t> measured = 0, measuring_us = 0;

  const device& current_device();
  /// Null if the device has not computed a product yet. Does not touch the device.
  const device* current_device_if_known() const;
  known_product& find(const product_key& key);
  std::string name(const product_key& key);
  std::string take(known_product& out,
                   const product_choice& earlier,
                   const device& on,
                   const product_key& key,
                   const product_operands& at,
                   void* workspace,
                   cudaStream_t queue);
  void choose(known_product& out,
              const std::string& name,
              const device& on,
              const product_key& key,
              const product_operands& at,
              const trial_memory& memory,
              cudaStream_t queue);
  std::optional<measured_product> measured_among(
      const product_key& key,
      const product_operands& at,
      std::span<const cublasLtMatmulHeuristicResult_t> candidates,
      const device& on,
      const trial_memory& memory,
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
  static auto& one = *new products;  // never destroyed: lanes may outlive static objects
  return one;
}
products::products() : state_(std::make_unique<state>()) {}
products::~products() = default;

std::string products::version() const {
  return "cuBLASLt " + library_version();
}

void products::configure(const product_settings& settings) {
  state_->tf32 = settings.tf32;
  state_->measure = settings.measure;
  state_->strict = settings.strict;
}

void products::give(const std::vector<product_choice>& known, choices_of whose) {
  std::map<std::string, product_choice> more;
  for (const auto& choice : known) {
    if (choice.algorithm != no_algorithm)
      algorithm_of(choice);
    more[choice.product] = choice;
  }
  const std::unique_lock lock(state_->mutex);
  for (const auto& [key, product] : state_->known) {
    if (!product->ready)
      continue;
    const auto found = more.find(product->choice.product);
    if (found != more.end() && found->second.algorithm != product->choice.algorithm
        && !state_->given.was_replaced(found->first, found->second.algorithm))
      throw device_failure("the product '" + found->first
                           + "' was computed in this process with another algorithm than the one "
                             "that is given: give choices before the first product");
  }
  state_->given.give(more, whose);
}

product_report products::report() const {
  return {state_->given.replaced(), int(state_->measured), 1e-6 * double(state_->measuring_us)};
}

std::vector<product_choice> products::choices() const {
  std::vector<product_choice> out;
  const std::shared_lock lock(state_->mutex);
  for (const auto& [key, product] : state_->known) {
    if (product->ready)
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

const device* products::state::current_device_if_known() const {
  int number = 0;
  if (cudaGetDevice(&number) != cudaSuccess) {
    cudaGetLastError();  // clears the error; the next operation reports it
    return nullptr;
  }
  return number < 0 || number >= most_devices ? nullptr : devices[std::size_t(number)].load();
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

std::string products::state::name(const product_key& key) {
  std::string device_name;
  {
    const std::lock_guard lock(making_devices);
    device_name = kinds[key.device_kind];
  }
  return name_of(key, device_name, "cuBLASLt " + library_version());
}

/// Enqueues the product with the algorithm of an earlier run. Returns why it cannot be used, or an
/// empty string. Running it is the test: the library's check alone may refuse an algorithm that it
/// proposed to another process.
std::string products::state::take(known_product& out,
                                  const product_choice& earlier,
                                  const device& on,
                                  const product_key& key,
                                  const product_operands& at,
                                  void* workspace,
                                  cudaStream_t queue) {
  out.impossible = earlier.algorithm == no_algorithm;
  if (out.impossible && !key.has_epilogue())
    return "only products with a bias or GELU have none";
  if (!out.impossible) {
    out.algorithm = algorithm_of(earlier);
    product_description what(key, at);
    cublasLtMatmulHeuristicResult_t found = {};
    if (what.try_algorithm(on.library, out.algorithm, found) == CUBLAS_STATUS_SUCCESS
        && found.workspaceSize > product_workspace)
      return "it needs " + std::to_string(found.workspaceSize) + " bytes of workspace";
    const auto status = what.run(on.library, out.algorithm, at.d, workspace, queue);
    if (is_refused(status, queue, "taking an earlier run's algorithm"))
      return std::string("cuBLASLt says ") + cublasLtGetStatusName(status);
  }
  out.choice = earlier;
  return "";
}

namespace {

/// The library's first candidate. With an epilogue it is run once as a test, because the library
/// may refuse its own proposal; the result is overwritten later.
std::optional<measured_product> first_guess(const product_key& key,
                                            const product_operands& at,
                                            const cublasLtMatmulAlgo_t& algorithm,
                                            cublasLtHandle_t library,
                                            void* workspace,
                                            cudaStream_t queue) {
  if (!key.has_epilogue())
    return measured_product{algorithm};
  const auto status = product_description(key, at).run(library, algorithm, at.d, workspace, queue);
  if (is_refused(status, queue, "trying the first algorithm of a product"))
    return std::nullopt;
  return measured_product{algorithm};
}

}  // namespace

std::optional<measured_product> products::state::measured_among(
    const product_key& key,
    const product_operands& at,
    std::span<const cublasLtMatmulHeuristicResult_t> candidates,
    const device& on,
    const trial_memory& memory,
    cudaStream_t queue) {
  using namespace std::chrono;
  const bool has_time = 1e-6 * double(measuring_us) < most_seconds;
  const auto begin = steady_clock::now();
  auto out = cuda::measure(
      key, at, candidates, on.library, memory, has_time ? most_microseconds : 0, queue);
  measuring_us += duration_cast<microseconds>(steady_clock::now() - begin).count();
  ++measured;
  return out;
}

void products::state::choose(known_product& out,
                             const std::string& name,
                             const device& on,
                             const product_key& key,
                             const product_operands& at,
                             const trial_memory& memory,
                             cudaStream_t queue) {
  product_description what(key, at);
  cublasLtMatmulHeuristicResult_t candidates[most_candidates];
  const int found = what.candidates(on.library, candidates, measure ? most_candidates : 1);
  std::optional<measured_product> chosen;
  if (found > 0 && measure)
    chosen = measured_among(key, at, {candidates, std::size_t(found)}, on, memory, queue);
  else if (found > 0)
    chosen = first_guess(key, at, candidates[0].algo, on.library, memory.workspace, queue);
  out.impossible = !chosen && key.has_epilogue();
  if (out.impossible) {
    out.choice = {name, no_algorithm, 0, found};
    return;
  }
  if (!chosen)
    throw device_failure(found == 0
                             ? "cuBLASLt has no algorithm for the product '" + name + "'"
                             : "cuBLASLt refuses all " + std::to_string(found)
                                   + " algorithms that it proposes for the product '" + name + "'");
  out.algorithm = chosen->algorithm;
  out.choice = {name, text_of(chosen->algorithm), chosen->microseconds, found};
}

namespace {

void must_run(cublasStatus_t status, const product_choice& product) {
  if (status != CUBLAS_STATUS_SUCCESS)
    check(status, ("the matrix product '" + product.product + "'").c_str());
}

void complete(product_key& key, const product_operands& at, const device& on, bool tf32) {
  key.device_kind = on.kind;
  if (key.type == product_type::f32 && tf32)
    key.type = product_type::tf32;
  note_alignments(key, at);
}

}  // namespace

product_standing standing_of(product_key key, const product_operands& at) {
  auto& state = product_access::state();
  if (!state.measure)
    return product_standing::chosen;
  const device* const on = state.current_device_if_known();
  if (on == nullptr)
    return product_standing::open;
  complete(key, at, *on, state.tf32);
  const auto& known = state.find(key);
  if (!known.ready)
    return product_standing::open;
  return known.impossible ? product_standing::impossible : product_standing::chosen;
}

namespace {

/// Divides the scratch behind the workspace: trial result first, then memory for cache eviction.
trial_memory divided(const product_key& key, void* workspace, std::size_t bytes) {
  std::span behind(static_cast<std::byte*>(workspace) + product_workspace,
                   bytes - product_workspace);
  const bool adds = key.role == product_role::backward_weight;
  const std::size_t result
      = adds ? std::min({behind.size(),
                         most_trial_bytes,
                         result_size(key) * std::size_t(key.N) * std::size_t(key.K)})
             : 0;
  const auto cold = behind.subspan(result);
  return {workspace, behind.first(result), cold.first(std::min(cold.size(), cold_bytes()))};
}

}  // namespace

bool multiply(product_key key, const product_operands& at, const context& in) {
  auto& state = product_access::state();
  const device& on = state.current_device();
  complete(key, at, on, state.tf32);
  void* workspace = in.workspace.data();
  std::size_t left = in.workspace.size();
  if (!std::align(product_workspace_alignment, product_workspace, workspace, left))
    throw std::logic_error("workspace of " + std::to_string(in.workspace.size())
                           + " bytes, but a matrix product declared more");

  known_product& known = state.find(key);
  if (!known.ready.load(std::memory_order_acquire)) {
    const std::lock_guard lock(known.choosing);
    if (!known.ready) {
      const auto name = state.name(key);
      const auto earlier = state.given.find(name);
      const auto why
          = earlier ? state.take(known, earlier->choice, on, key, at, workspace, queue_of(in)) : "";
      if (earlier && !why.empty())
        state.given.replace(*earlier, why, state.strict);
      const bool taken = earlier && why.empty();
      if (!taken)
        state.choose(known, name, on, key, at, divided(key, workspace, left), queue_of(in));
      known.ready = true;
      if (taken)  // it has been enqueued
        return !known.impossible;
    }
  }
  if (known.impossible)
    return false;
  must_run(
      product_description(key, at).run(on.library, known.algorithm, at.d, workspace, queue_of(in)),
      known.choice);
  return true;
}

}  // namespace troupe::kernels::cuda
