#include "kernels/backend/plugin.hpp"
#include "kernels/cuda/attention_choice.hpp"
#include "kernels/cuda/products.hpp"
#include "kernels/cuda/run.hpp"
#include "kernels/op/extents.hpp"

#include <stdexcept>
#include <string>
#include <type_traits>

namespace troupe::kernels::cuda {

namespace {

/// Whether an operation has device code.
template <class Op>
inline constexpr bool on_device = false;
template <template <class> class Op, class T>
inline constexpr bool on_device<
    Op<T>> = !std::is_same_v<T, double> && memory_of(name_of<Op>) == operation_memory::backend;

[[noreturn]] void refuse(const operation& what) {
  throw std::logic_error("no device runs " + std::string(text(what.name)) + "<"
                         + std::string(text(what.type)) + ">");
}

/// Adds the operation, its type and its extents to the message of a failure.
template <class Op>
void run_named(const Op& op, const context& in) {
  try {
    cuda::run(op, in);
  } catch (const device_failure& e) {
    const operation what(op);
    throw device_failure(std::string(text(what.name)) + "<" + std::string(text(what.type)) + "> of "
                         + extents_of(op) + ": " + e.what());
  }
}

class library final : public cuda_library {
 public:
  void run(const operation& what, const context& in) override {
    visit(what, [&]<class Op>(const Op& op) {
      if constexpr (on_device<Op>)
        run_named(op, in);
      else
        refuse(what);
    });
  }
  std::size_t scratch(const operation& what) override {
    return visit(what, []<class Op>(const Op& op) -> std::size_t {
      if constexpr (on_device<Op> && requires { cuda::scratch(op); })
        return cuda::scratch(op);
      else
        return 0;
    });
  }

  void set_products(const product_settings& settings) override {
    products::of_process().configure(settings);
  }
  void give_choices(const std::vector<product_choice>& known, choices_of whose) override {
    products::of_process().give(known, whose);
  }
  std::vector<product_choice> choices() const override { return products::of_process().choices(); }
  product_report report_products() const override { return products::of_process().report(); }
  std::string libraries() const override {
    return products::of_process().version() + ", "
           + attention_version(chosen_wish(), chosen_attention());
  }
};

/// Returns the first non-empty text of the function and keeps it for the life of the process.
template <std::string (*Says)()>
const char* kept() {
  const std::string now = Says();
  if (now.empty())
    return "";
  static const std::string text = now;
  return text.c_str();
}

}  // namespace

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_build() {
  return build_of_plugins();
}

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_library() {
  static const std::string version = products::of_process().version();
  return version.c_str();
}

/// See attention_version. Throws backend_missing if TROUPE_ATTENTION requires something that is
/// missing.
TROUPE_PLUGIN_FUNCTION const char* troupe_cuda_attention() {
  static const std::string text = attention_version(chosen_wish(), chosen_attention());
  return text.c_str();
}

/// See attention_library::missing.
TROUPE_PLUGIN_FUNCTION const char* troupe_cuda_attention_missing() {
  return kept<missing_attention>();
}

/// See attention_library::fallback.
TROUPE_PLUGIN_FUNCTION const char* troupe_cuda_attention_fallback() {
  return kept<attention_fallback>();
}

/// See scalar_attention.
TROUPE_PLUGIN_FUNCTION const char* troupe_cuda_attention_scalar() {
  return kept<scalar_attention>();
}

TROUPE_PLUGIN_FUNCTION cuda_library* troupe_cuda_library() {
  static library one;
  return &one;
}

}  // namespace troupe::kernels::cuda
