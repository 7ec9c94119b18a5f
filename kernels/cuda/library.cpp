#include "kernels/backend/plugin.hpp"
#include "kernels/cuda/attention_choice.hpp"
#include "kernels/cuda/products.hpp"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

template <class Op>
std::size_t workspace_of(const Op& op) {
  if constexpr (requires { scratch(op); })
    return scratch(op);
  else
    return 0;
}

class library final : public cuda_library {
 public:
#define TROUPE_DEFINE(op)                                       \
  void run(const op<float>& what, const context& in) override { \
    cuda::run(what, in);                                        \
  }                                                             \
  std::size_t scratch(const op<float>& what, int) override {    \
    return workspace_of(what);                                  \
  }
  TROUPE_EVERY_DEVICE_OP(TROUPE_DEFINE)
#undef TROUPE_DEFINE

#define TROUPE_DEFINE(op)                                      \
  void run(const op<bf16>& what, const context& in) override { \
    cuda::run(what, in);                                       \
  }                                                            \
  std::size_t scratch(const op<bf16>& what, int) override {    \
    return workspace_of(what);                                 \
  }                                                            \
  void run(const op<f16>& what, const context& in) override {  \
    cuda::run(what, in);                                       \
  }                                                            \
  std::size_t scratch(const op<f16>& what, int) override {     \
    return workspace_of(what);                                 \
  }
  TROUPE_EVERY_NARROW_OP(TROUPE_DEFINE)
#undef TROUPE_DEFINE

  void set_products(const product_settings& how) override {
    products::of_process().configure(how);
  }
  void give_choices(const std::vector<product_choice>& known) override {
    products::of_process().give(known);
  }
  std::vector<product_choice> choices() const override {
    return products::of_process().choices();
  }
  std::string libraries() const override {
    return products::of_process().version() + ", " + attention_version();
  }
};

}  // namespace

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_build() {
  return build_of_plugins();
}

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_library() {
  static const std::string version = products::of_process().version();
  return version.c_str();
}

/// "attention by cuDNN 9.19.0". Throws backend_missing where what is asked for is not there.
TROUPE_PLUGIN_FUNCTION const char* troupe_cuda_attention() {
  static const std::string text = attention_version();
  return text.c_str();
}

/// Why attention that cuDNN should compute is ours, as attention_library::missing. It stays.
TROUPE_PLUGIN_FUNCTION const char* troupe_cuda_attention_missing() {
  const std::string now = missing_attention();
  if (now.empty())
    return "";
  static const std::string text = now;
  return text.c_str();
}

TROUPE_PLUGIN_FUNCTION cuda_library* troupe_cuda_library() {
  static library one;
  return &one;
}

}  // namespace troupe::kernels::cuda
