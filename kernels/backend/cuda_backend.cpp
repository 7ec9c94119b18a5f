#include "kernels/backend/cuda_backend.hpp"

#include "kernels/backend/cuda_library.hpp"
#include "kernels/backend/plugin.hpp"

namespace troupe::kernels {

cuda_library& open_cuda() {
  static cuda_library* const library = [] {
    const auto& from = plugin::open("cuda");
    const std::string reason
        = from ? from.function<const char*()>("troupe_cuda_obstacle")() : from.reason();
    if (!reason.empty())
      throw backend_missing("the CUDA backend cannot run: " + reason
                            + ". Choose the backend 'cpu', or see what `troupe doctor` says");
    return from.function<cuda_library*()>("troupe_cuda_library")();
  }();
  return *library;
}

namespace cuda_backend {

template <class Op>
void run(const Op& op, const context& in) {
  open_cuda().run(op, in);
}

template <class Op>
std::size_t scratch(const Op& op, int threads) {
  return open_cuda().scratch(op, threads);
}

#define TROUPE_INSTANTIATE(op)                                  \
  template void run(const kernels::op<float>&, const context&); \
  template std::size_t scratch(const kernels::op<float>&, int);
TROUPE_EVERY_DEVICE_OP(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

#define TROUPE_INSTANTIATE(op)                                 \
  template void run(const kernels::op<bf16>&, const context&); \
  template std::size_t scratch(const kernels::op<bf16>&, int); \
  template void run(const kernels::op<f16>&, const context&);  \
  template std::size_t scratch(const kernels::op<f16>&, int);
TROUPE_EVERY_NARROW_OP(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

}  // namespace cuda_backend

}  // namespace troupe::kernels
