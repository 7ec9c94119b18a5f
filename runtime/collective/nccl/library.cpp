#include "kernels/backend/plugin.hpp"
#include "runtime/collective/nccl/end.hpp"

#include <cstring>

namespace troupe::runtime::nccl {

namespace {

class library final : public nccl_library {
 public:
  int version() const override {
    int out = 0;
    require(ncclGetVersion(&out), "the library", "querying its version", nullptr);
    return out;
  }

  nccl_id make_id() override {
    ncclUniqueId native = {};
    require(ncclGetUniqueId(&native), "rank 0 of a group", "making its id", nullptr);
    nccl_id out;
    std::memcpy(out.bytes.data(), &native, sizeof native);
    return out;
  }

  std::unique_ptr<nccl_end> make_end(const std::string& who, int device) override {
    return std::make_unique<end>(who, device);
  }
};

}  // namespace

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_build() {
  return kernels::build_of_plugins();
}

TROUPE_PLUGIN_FUNCTION const char* troupe_plugin_library() {
  static const std::string text = [] {
    const int x = library().version();
    return "NCCL " + std::to_string(x / 10000) + "." + std::to_string(x / 100 % 100) + "."
           + std::to_string(x % 100);
  }();
  return text.c_str();
}

TROUPE_PLUGIN_FUNCTION nccl_library* troupe_nccl_library() {
  static library one;
  return &one;
}

}  // namespace troupe::runtime::nccl
