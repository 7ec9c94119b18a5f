#include "kernels/backend/backend.hpp"

#include "kernels/backend/cuda_backend.hpp"
#include "kernels/backend/every_op.hpp"
#include "kernels/cpu/count.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/reference/count.hpp"
#include "kernels/reference/reference.hpp"

namespace troupe::kernels {

namespace {

template <class Op>
constexpr bool is_double = false;
template <template <class> class Op>
constexpr bool is_double<Op<double>> = true;

/// Operations whose arrays are host memory, whatever the backend.
template <class Op>
constexpr bool on_host = std::is_same_v<Op, sample_token<float>>;

/// Asks for the scratch of those operations that declare some.
template <class Op>
std::size_t cpu_scratch(const Op& op, int threads) {
  if constexpr (requires { cpu::scratch(op, threads); })
    return cpu::scratch(op, threads);
  else
    return 0;
}

[[noreturn]] void refuse_double() {
  throw std::logic_error("BACKEND-1: only the reference backend computes in double");
}

[[noreturn]] void refuse_backend(backend where) {
  throw std::logic_error("BACKEND-2: no backend has number " + std::to_string(int(where)));
}

}  // namespace

template <class Op>
void run(backend where, const Op& op, const context& in) {
  if (where == backend::reference)
    return reference::run(op);
  if constexpr (is_double<Op>) {
    refuse_double();
  } else {
    switch (where) {
      case backend::cpu:
        return cpu::run(op, in);
      case backend::cuda:
        if constexpr (on_host<Op>)
          return cpu::run(op, in);
        else
          return cuda_backend::run(op, in);
      case backend::reference:
        break;
    }
    refuse_backend(where);
  }
}

template <class Op>
std::size_t scratch(backend where, const Op& op, int threads) {
  if (where == backend::reference)
    return 0;
  if constexpr (is_double<Op>) {
    refuse_double();
  } else {
    switch (where) {
      case backend::cpu:
        return cpu_scratch(op, threads);
      case backend::cuda:
        if constexpr (on_host<Op>)
          return cpu_scratch(op, threads);
        else
          return cuda_backend::scratch(op, threads);
      case backend::reference:
        break;
    }
    refuse_backend(where);
  }
}

std::string instruction_set() {
  return cpu::instruction_set();
}

#define TROUPE_INSTANTIATE(op)                                   \
  template void run(backend, const op<float>&, const context&);  \
  template void run(backend, const op<double>&, const context&); \
  template std::size_t scratch(backend, const op<float>&, int);  \
  template std::size_t scratch(backend, const op<double>&, int);
TROUPE_EVERY_OP(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

#define TROUPE_INSTANTIATE(op)                                 \
  template void run(backend, const op<bf16>&, const context&); \
  template std::size_t scratch(backend, const op<bf16>&, int); \
  template void run(backend, const op<f16>&, const context&);  \
  template std::size_t scratch(backend, const op<f16>&, int);
TROUPE_EVERY_NARROW_OP(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels
