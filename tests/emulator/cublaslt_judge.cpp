// Checks of cuBLASLt's arguments.

#include "tests/emulator/cublaslt.hpp"
#include "tests/emulator/device.hpp"
#include "tests/emulator/memory.hpp"

#include <algorithm>

namespace troupe::emulator {

cublasStatus_t invalid(const std::string& why) {
  say("cuBLASLt: invalid value: " + why);
  return CUBLAS_STATUS_INVALID_VALUE;
}

namespace {

bool types_are_supported(const product& is) {
  const auto in = is.a.type, out = is.d.type;
  if (is.desc.scale != CUDA_R_32F || is.b.type != in || is.c.type != out)
    return false;
  switch (is.desc.compute) {
    case CUBLAS_COMPUTE_32F:
      return (in == CUDA_R_32F && out == CUDA_R_32F)
             || ((in == CUDA_R_16BF || in == CUDA_R_16F) && (out == in || out == CUDA_R_32F));
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return in == CUDA_R_32F && out == CUDA_R_32F;
    default:
      return false;
  }
}

bool epilogue_is_known(std::uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
      return true;
    default:
      return false;
  }
}

cublasStatus_t shapes_fit(const product& is) {
  const auto rows_of
      = [](const auto& x, std::int32_t op) { return op == CUBLAS_OP_N ? x.rows : x.cols; };
  const auto cols_of
      = [](const auto& x, std::int32_t op) { return op == CUBLAS_OP_N ? x.cols : x.rows; };
  if (rows_of(is.a, is.desc.transa) != is.m() || cols_of(is.b, is.desc.transb) != is.n()
      || rows_of(is.b, is.desc.transb) != is.k() || is.c.rows != is.m() || is.c.cols != is.n())
    return invalid("the shapes of A, B, C and D do not fit together");
  for (const auto* one : {&is.a, &is.b, &is.c, &is.d})
    if (one->rows == 0 || one->cols == 0 || one->ld < std::int64_t(one->rows))
      return invalid("a leading dimension is below the number of rows, or a matrix is empty");
  if (is.has(with_aux) && (is.desc.aux_ld < std::int64_t(is.m()) || is.desc.aux_ld % 8 != 0))
    return invalid("the leading dimension of the auxiliary matrix, "
                   + std::to_string(is.desc.aux_ld)
                   + ", is below the number of rows or not a multiple of 8");
  return CUBLAS_STATUS_SUCCESS;
}

std::uint32_t alignment_of(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return address == 0 ? 256U : std::uint32_t(std::min<std::uintptr_t>(256, address & -address));
}

/// Bytes from the first element of a matrix to its end.
std::size_t reach(const matrix_layout& of) {
  return bytes_of(of.type) * ((of.cols - 1) * std::size_t(of.ld) + of.rows);
}

bool lies_on_device(const void* at, std::size_t bytes) {
  const auto block = device_block(at);
  return block && static_cast<const std::byte*>(at) + bytes <= block->at + block->bytes;
}

}  // namespace

cublasStatus_t judged(const product& is) {
  if (is.desc.transa < 0 || is.desc.transa > 2 || is.desc.transb < 0 || is.desc.transb > 2)
    return invalid("unknown operation");
  if (!epilogue_is_known(is.desc.epilogue) || !types_are_supported(is))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return shapes_fit(is);
}

bool can_take(const product& is, const std::array<std::uint32_t, 4>& alignments) {
  const matrix_layout* const all[] = {&is.a, &is.b, &is.c, &is.d};
  for (std::size_t i = 0; i < 4; ++i)
    if (alignments[i] % is.by.alignment != 0
        || std::size_t(all[i]->ld) * bytes_of(all[i]->type) % is.by.alignment != 0)
      return false;
  return true;
}

cublasStatus_t pointers_fit(const product& is, bool reads_c, std::size_t workspace_bytes) {
  if (!lies_on_device(is.a_data, reach(is.a)) || !lies_on_device(is.b_data, reach(is.b))
      || !lies_on_device(is.d_data, reach(is.d))
      || (reads_c && !lies_on_device(is.c_data, reach(is.c))))
    return invalid("a matrix does not lie in device memory, or reaches past its allocation");
  const std::size_t width = bytes_of(is.d.type);
  if (is.has(with_bias) && !lies_on_device(is.desc.bias, is.m() * width))
    return invalid("the bias does not lie in device memory, or is too short");
  if (is.has(with_aux)
      && (!lies_on_device(is.desc.aux,
                          width * (std::size_t(is.desc.aux_ld) * (is.n() - 1) + is.m()))
          || alignment_of(is.desc.aux) < 16))
    return invalid(
        "the auxiliary matrix does not lie in device memory, is too short or not aligned");
  if (!can_take(is,
                {alignment_of(is.a_data),
                 alignment_of(is.b_data),
                 alignment_of(is.c_data),
                 alignment_of(is.d_data)}))
    return invalid("the algorithm needs pointers and leading dimensions of 16 bytes");
  if (workspace_bytes < workspace_of(is)
      || (workspace_of(is) > 0
          && (!lies_on_device(is.workspace, workspace_of(is)) || alignment_of(is.workspace) < 16)))
    return invalid("the workspace is too small, not aligned or not on the device");
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace troupe::emulator
