#include "kernels/backend/cuda_backend.hpp"
#include "kernels/backend/every_op.hpp"

namespace troupe::kernels::cuda_backend {

namespace {

[[noreturn]] void refuse() {
  throw backend_missing(
      "this build of troupe has no CUDA backend: choose the backend 'cpu', or build troupe with "
      "CUDA on a machine that has it");
}

}  // namespace

template <class Op>
void run(const Op&, const context&) {
  refuse();
}

template <class Op>
std::size_t scratch(const Op&, int) {
  refuse();
}

#define TROUPE_INSTANTIATE(op)                                  \
  template void run(const kernels::op<float>&, const context&); \
  template std::size_t scratch(const kernels::op<float>&, int);
TROUPE_EVERY_OP(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

#define TROUPE_INSTANTIATE(op)                                 \
  template void run(const kernels::op<bf16>&, const context&); \
  template std::size_t scratch(const kernels::op<bf16>&, int);
TROUPE_EVERY_BF16_OP(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda_backend
