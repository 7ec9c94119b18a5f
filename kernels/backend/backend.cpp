#include "kernels/backend/backend.hpp"

#include "kernels/backend/cuda_library.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/reference/reference.hpp"

namespace troupe::kernels {

namespace {

/// The backend with the code that runs an operation; not for the reference.
backend served_by(backend where, const operation& op) {
  if (op.type == element_type::f64)
    throw std::logic_error("BACKEND-1: only the reference backend computes in double");
  if (where == backend::cpu)
    return where;
  if (where == backend::cuda)
    return memory_of(op.name) == operation_memory::host ? backend::cpu : where;
  throw std::logic_error("BACKEND-2: no backend has number " + std::to_string(int(where)));
}

}  // namespace

void run(backend where, const operation& what, const context& in) {
  if (where == backend::reference)
    return visit(what, [](const auto& op) { reference::run(op); });
  if (served_by(where, what) == backend::cuda)
    return open_cuda().run(what, in);
  visit(what, [&]<class Op>(const Op& op) {
    if constexpr (!is_double<Op>)
      cpu::run(op, in);
  });
}

std::size_t scratch(backend where, const operation& what, int threads) {
  if (where == backend::reference)
    return 0;
  if (served_by(where, what) == backend::cuda)
    return open_cuda().scratch(what);
  return visit(what, [&]<class Op>(const Op& op) -> std::size_t {
    if constexpr (!is_double<Op> && requires { cpu::scratch(op, threads); })
      return cpu::scratch(op, threads);
    else
      return 0;
  });
}

std::string instruction_set() {
  return cpu::instruction_set();
}

}  // namespace troupe::kernels
