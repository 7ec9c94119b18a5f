// A fake attention library for tests; it replaces libtroupe_cudnn.so. It fills its results with a
// byte pattern that no attention computes, so a test sees that the library ran and whether the call
// asked for the same bits. It reports head size 80 as missing. For head size 48 it has only the
// deterministic backward pass and reports a fallback.

#include "kernels/backend/plugin.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/host.hpp"

#include <atomic>

namespace troupe::kernels::cuda {

namespace {

std::atomic<bool> lacks = false, falls_back = false;

constexpr int same_bits = 0x42, any_bits = 0x43;

bool common(const attention_shape& a) {
  if (!a.uniform || a.p_drop != 0)
    return false;
  if (a.D == 80)
    lacks = true;
  return a.D == 64 || a.D == 48;
}

int byte_of(const attention_shape& a) {
  if (a.same_bits)
    return same_bits;
  if (a.D == 48)
    falls_back = true;
  return a.D == 48 ? same_bits : any_bits;
}

class library final : public attention_library {
 public:
#define TROUPE_DEFINE(T)                                                  \
  bool serves(const attention_forward<T>& op) const override {            \
    return common(op.shape);                                              \
  }                                                                       \
  bool serves(const attention_backward<T>& op) const override {           \
    return common(op.shape);                                              \
  }                                                                       \
  std::size_t scratch(const attention_forward<T>&) override {             \
    return 1000;                                                          \
  }                                                                       \
  std::size_t scratch(const attention_backward<T>&) override {            \
    return 100'000;                                                       \
  }                                                                       \
  void run(const attention_forward<T>& op, const context& in) override {  \
    const auto& a = op.shape;                                             \
    fill(op.o, a.query_rows* a.H* a.D, same_bits, in);                    \
    if (in.workspace.size() < scratch(op))                                \
      throw device_failure("less workspace than was declared");           \
  }                                                                       \
  void run(const attention_backward<T>& op, const context& in) override { \
    const auto& a = op.shape;                                             \
    fill(op.dq, a.query_rows* a.query_row, byte_of(a), in);               \
    if (in.workspace.size() < scratch(op))                                \
      throw device_failure("less workspace than was declared");           \
  }
  TROUPE_DEFINE(bf16)
  TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

  std::string version() const override {
    return "a library for tests";
  }
  std::string missing() const override {
    return lacks ? "heads of 80 are not for tests" : "";
  }
  std::string fallback() const override {
    return falls_back ? "heads of 48 are no faster for tests" : "";
  }

 private:
  template <class T>
  static void fill(T* to, std::int64_t n, int byte, const context& in) {
    check(cudaMemsetAsync(to, byte, std::size_t(n) * sizeof(T), queue_of(in)), "filling");
  }
};

}  // namespace

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_build() {
  return build_of_plugins();
}
TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_library() {
  return "a library for tests";
}
TROUPE_PLUGIN_FUNCTION const char* troupe_attention_trial(int) {
  return "nothing is ready for tests; attention uses troupe's own kernels, which are slower\n"
         "the faster one is not ready, either; then the usual one computes";
}
TROUPE_PLUGIN_FUNCTION const char* troupe_attention_obstacle() {
  return "";
}
TROUPE_PLUGIN_FUNCTION attention_library* troupe_attention_library() {
  static library one;
  return &one;
}

}  // namespace troupe::kernels::cuda
