// cuBLASLt's functions: heuristics and the product on a stream.

#include "tests/emulator/cache.hpp"
#include "tests/emulator/cublaslt.hpp"
#include "tests/emulator/settings.hpp"
#include "tests/emulator/streams.hpp"

#include <algorithm>
#include <array>
#include <optional>

struct cublasLtContext {
  int device;
};

namespace troupe::emulator {
namespace {

// The first two need 16-byte alignment, the last accepts any alignment.
constexpr std::array<algorithm, 3> algorithms = {{
    {.id = 21, .lanes = 8, .parts = 1, .alignment = 16},
    {.id = 23, .lanes = 16, .parts = 2, .alignment = 16},
    {.id = 0, .lanes = 4, .parts = 1, .alignment = 1},
}};
constexpr std::uint64_t seal = 0x54726f757065;  // marks algorithms made here; others are refused

cublasLtMatmulAlgo_t packed(const algorithm& which) {
  return {{std::uint64_t(which.id), seal}};
}

std::optional<algorithm> unpacked(const cublasLtMatmulAlgo_t& from) {
  for (const auto& one : algorithms)
    if (from.data[0] == std::uint64_t(one.id) && from.data[1] == seal)
      return one;
  return std::nullopt;
}

/// The error of a call before it begins, as in obstacle().
cublasStatus_t obstacle_to(const char* call, const cublasLtContext* handle) {
  if (handle == nullptr)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (const int planted = planted_fault(call); planted != 0)
    return cublasStatus_t(planted);
  return device_error(current_device()) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                       : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasLtMatmulHeuristicResult_t result_of(const product& is) {
  cublasLtMatmulHeuristicResult_t result = {};
  result.algo = packed(is.by);
  result.workspaceSize = workspace_of(is);
  result.wavesCount = 1;
  return result;
}

}  // namespace
}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
std::size_t cublasLtGetCudartVersion() {
  return CUDART_VERSION;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "an unknown status";
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (obstacle("cublasLtCreate") != cudaSuccess)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{current_device()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference,
                                              int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  if (const auto before = obstacle_to("cublasLtMatmulAlgoGetHeuristic", handle);
      before != CUBLAS_STATUS_SUCCESS)
    return before;
  if (requested < 1 || preference == nullptr || results == nullptr || returned == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  const auto wish = read_as<matmul_preference>(preference);
  product is{.desc = read_as<matmul_desc>(desc),
             .a = read_as<matrix_layout>(a),
             .b = read_as<matrix_layout>(b),
             .c = read_as<matrix_layout>(c),
             .d = read_as<matrix_layout>(d),
             .by = algorithms[0]};
  if (const auto status = judged(is); status != CUBLAS_STATUS_SUCCESS)
    return status;
  for (const auto& one : algorithms) {
    is.by = one;
    const std::array alignments
        = {wish.alignment_a, wish.alignment_b, wish.alignment_c, wish.alignment_d};
    const bool splits = (wish.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
    if (*returned == requested || !can_take(is, alignments) || (one.parts > 1 && !splits)
        || workspace_of(is) > wish.workspace)
      continue;
    results[(*returned)++] = result_of(is);
  }
  // Repeats an algorithm, as the library sometimes does.
  if (*returned > 1 && *returned < requested) {
    results[*returned] = results[0];
    ++*returned;
  }
  return *returned > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle,
                                       cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (const auto before = obstacle_to("cublasLtMatmulAlgoCheck", handle);
      before != CUBLAS_STATUS_SUCCESS)
    return before;
  const auto by = unpacked(*algo);
  if (!by)
    return CUBLAS_STATUS_INVALID_VALUE;
  const product is{.desc = read_as<matmul_desc>(desc),
                   .a = read_as<matrix_layout>(a),
                   .b = read_as<matrix_layout>(b),
                   .c = read_as<matrix_layout>(c),
                   .d = read_as<matrix_layout>(d),
                   .by = *by};
  if (const auto status = judged(is); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (!can_take(is, {256, 256, 256, 256}))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = result_of(is);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle,
                              cublasLtMatmulDesc_t desc,
                              const void* alpha,
                              const void* a_data,
                              cublasLtMatrixLayout_t a,
                              const void* b_data,
                              cublasLtMatrixLayout_t b,
                              const void* beta,
                              const void* c_data,
                              cublasLtMatrixLayout_t c,
                              void* d_data,
                              cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algo,
                              void* workspace,
                              std::size_t workspace_bytes,
                              cudaStream_t stream) {
  if (const auto before = obstacle_to("cublasLtMatmul", handle); before != CUBLAS_STATUS_SUCCESS)
    return before;
  const auto by = algo == nullptr ? algorithms[2] : unpacked(*algo);
  const auto queue = find_stream(stream);
  if (!by || alpha == nullptr || beta == nullptr || !queue)
    return invalid("the algorithm or the stream does not exist, or alpha or beta is missing");
  const product is{.desc = read_as<matmul_desc>(desc),
                   .a = read_as<matrix_layout>(a),
                   .b = read_as<matrix_layout>(b),
                   .c = read_as<matrix_layout>(c),
                   .d = read_as<matrix_layout>(d),
                   .by = *by,
                   .a_data = a_data,
                   .b_data = b_data,
                   .c_data = c_data,
                   .d_data = d_data,
                   .workspace = workspace};
  if (const auto status = judged(is); status != CUBLAS_STATUS_SUCCESS)
    return status;
  const float by_alpha = *static_cast<const float*>(alpha);
  const float by_beta = *static_cast<const float*>(beta);
  if (const auto status = pointers_fit(is, by_beta != 0, workspace_bytes);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  count_product(is);
  queue->push(item_kind::work, [=] { compute(is, by_alpha, by_beta); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
