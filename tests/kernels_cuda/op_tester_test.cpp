// Operations on a device, by the cases of their families: see tests/kernels/op_tester.hpp.

#include "tests/kernels/op_tester.hpp"

#include "tests/support/emulated.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

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
    device_array<std::byte> workspace(library.scratch(op));
    library.run(op, queue.context({workspace.data(), workspace.size()}));
    queue.wait();
  }
  void run_otherwise(const operation& op, int threads) override {
    const emulated_seed order(7);
    run(op, threads);
  }
  /// The fast exponential and division are wrong by some units in the last place, and a score's
  /// exponent to base 2 is rounded twice. Products whose inputs a device rounds to fewer bits have
  /// their place here.
  double allowance(operation_name name) const override {
    switch (name) {
      case operation_name::activation_forward:
      case operation_name::activation_backward:
      case operation_name::cross_entropy_forward:
      case operation_name::cross_entropy_backward:
      case operation_name::linear_forward:  // for its epilogue
      case operation_name::linear_backward_input:
      case operation_name::adamw:  // the square root and the quotient
      case operation_name::adamw_pieces:
        return 4;
      default:
        return 1;
    }
  }
  bool takes(const op_case& what) const override {
    return !what.large || device_name().find("emulated") == std::string::npos;
  }

 private:
  device_memory memory_;
};

}  // namespace

TEST_CASE("operations on a device are what they are declared to be",
          "[kernels][cuda][operations]") {
  // The other families have tests of their own beside this one.
  const std::set<std::string> asked{"activation", "adamw", "dropout", "masked_loss", "rope"};
  for (const auto& family : every_family())
    if (asked.contains(family.name))
      DYNAMIC_SECTION(family.name) {
        on_device backend;
        for (const auto& one : family.cases)
          if (backend.takes(one))
            for (const auto& wrong : complaints_of(backend, one))
              FAIL_CHECK(wrong);
        CHECK_FALSE(family.cases.empty());
      }
}
