#include "kernels/backend/cuda_library.hpp"

#include "kernels/backend/backend.hpp"
#include "kernels/backend/plugin.hpp"

namespace troupe::kernels {

cuda_library& open_cuda() {
  static cuda_library* const library = [] {
    const auto& from = plugin::open("cuda");
    const std::string reason
        = from ? from.function<const char*()>("troupe_cuda_obstacle")() : from.reason();
    if (!reason.empty())
      throw backend_missing("the CUDA backend cannot run: " + reason
                            + ". Choose the backend 'cpu', or run `troupe doctor`");
    return from.function<cuda_library*()>("troupe_cuda_library")();
  }();
  return *library;
}

}  // namespace troupe::kernels
