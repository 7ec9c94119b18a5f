// Runs the operation tester (tests/kernels/op_tester.hpp) on a device.

#include "tests/kernels/op_tester.hpp"

#include "tests/support/device_tolerance.hpp"
#include "tests/support/emulated.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <span>

namespace troupe::kernels::cuda {

extern "C" cuda_library* troupe_cuda_library();

}  // namespace troupe::kernels::cuda

using namespace troupe;
using namespace troupe::tests;
using kernels::operation;
using kernels::operation_name;

namespace {

class device_memory final : public tested_memory {
 public:
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    void* at = nullptr;
    must(cudaMalloc(&at, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
    return {static_cast<std::byte*>(at), [](std::byte* x) { cudaFree(x); }};
  }
  void write(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0)
      copy_to_device(to, from, bytes, "uploading");
  }
  void read(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0)
      must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "downloading");
  }
};

class on_device final : public tested_backend {
 public:
  std::string name() const override { return device_name(); }
  tested_memory& memory() override { return memory_; }
  void run(const operation& op, int) override {
    auto& library = *kernels::cuda::troupe_cuda_library();
    const device_queue queue;
    const auto scratch = poisoned_scratch(library.scratch(op));
    library.run(op, queue.context(scratch));
    queue.wait();
  }
  void run_otherwise(const operation& op, int threads) override {
    const emulated_seed order(7);
    run(op, threads);
  }
  /// The fast exponential and division have errors of a few units in the last place, and the base-2
  /// exponent of a score is rounded twice.
  double allowance(operation_name name) const override {
    switch (name) {
      case operation_name::activation_forward:
      case operation_name::activation_backward:
      case operation_name::cross_entropy_forward:
      case operation_name::cross_entropy_backward:
      case operation_name::cross_entropy_both_passes:
      case operation_name::linear_forward:  // for its epilogue
      case operation_name::linear_backward_input:
      case operation_name::adamw:  // the square root and the quotient
      case operation_name::adamw_pieces:
        return 4;
      default:
        return 1;
    }
  }
  /// Products of narrow factors run on tensor cores, and their GELU gradient may use a coarse tanh.
  /// GELU itself is covered by the allowance of cases for a sum that is rounded before it: 2^-11 of
  /// the largest result, in either type.
  double roundings_of_products(const array& result, kernels::element_type type) const override {
    if (type == kernels::element_type::f32 || result.products == 0)
      return 0;
    // The error counts twice because results may be squares, as in the cases.
    return 2 * roundings_on_tensor_cores(result.products)
           + (result.gelu_slope ? roundings_of_gelu_slope : 0);
  }
  double roundings_between(operation_name name, kernels::element_type) const override {
    return name == operation_name::linear_forward ? 1 : 0;  // before a kernel adds the bias
  }
  bool takes(const op_case& what) const override {
    return what.on_devices && (!what.large || device_name().find("emulated") == std::string::npos);
  }

 private:
  /// One workspace for all operations, because each product needs 32 MiB. Poisons only its
  /// beginning: the emulated device opens and closes all existing pages, and unwritten pages do not
  /// exist.
  std::span<std::byte> poisoned_scratch(std::size_t bytes) {
    constexpr std::size_t most = 1 << 20;
    if (bytes > scratch_bytes_) {
      scratch_ = memory_.allocate(bytes);
      scratch_bytes_ = bytes;
    }
    if (bytes > 0) {
      must(cudaMemset(scratch_.get(), 0xFF, std::min(bytes, most)), "cudaMemset");
      must(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    }
    return {scratch_.get(), bytes};
  }

  device_memory memory_;
  std::shared_ptr<std::byte> scratch_;
  std::size_t scratch_bytes_ = 0;
};

/// Makes products use the library's first proposal, because measuring runs many products.
class unmeasured {
 public:
  unmeasured() { kernels::cuda::troupe_cuda_library()->set_products({.measure = false}); }
  ~unmeasured() { kernels::cuda::troupe_cuda_library()->set_products({}); }
  unmeasured(const unmeasured&) = delete;
  unmeasured& operator=(const unmeasured&) = delete;
};

enum class cases { one_in_four, all };

/// The offset changes from group to group, because families vary their options periodically.
bool is_passed_over(int number_in_operation, cases which) {
  return which == cases::one_in_four && (number_in_operation + number_in_operation / 4) % 4 != 0;
}

void ask(const std::string& name, cases which) {
  const unmeasured products;
  on_device backend;
  std::size_t asked = 0;
  std::map<operation_name, int> seen;
  for (const auto& one : family_of_name(name).cases)
    if (backend.takes(one) && !is_passed_over(seen[one.op.name]++, which)) {
      ++asked;
      for (const auto& wrong : complaints_of(backend, one))
        FAIL_CHECK(wrong);
    }
  CHECK(asked > 0);
}

}  // namespace

// A quarter of the cases takes 40 s on two cores, all of them take three minutes.
#define TROUPE_ASK(family)                                                        \
  TEST_CASE("operations on a device match the reference: " #family,               \
            "[kernels][cuda][operations][" #family "]") {                         \
    ask(#family, cases::one_in_four);                                             \
  }                                                                               \
  TEST_CASE("operations on a device match the reference in every case: " #family, \
            "[kernels][cuda][operations][full][unsanitized][" #family "]") {      \
    ask(#family, cases::all);                                                     \
  }
TROUPE_EVERY_FAMILY(TROUPE_ASK)
#undef TROUPE_ASK
