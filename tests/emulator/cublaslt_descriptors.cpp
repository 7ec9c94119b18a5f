// cuBLASLt's descriptors and their attributes.

#include "tests/emulator/cublaslt.hpp"

#include <cstring>

namespace troupe::emulator {
namespace {

/// Storage of an attribute; null for an unknown attribute.
struct kept {
  void* at = nullptr;
  std::size_t bytes = 0;

  kept() = default;
  template <class T>
  kept(T& member) : at(&member), bytes(sizeof member) {}
};

kept attribute_of(matmul_desc& of, cublasLtMatmulDescAttributes_t which) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return of.transa;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return of.transb;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return of.epilogue;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return of.bias;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return of.aux;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return of.aux_ld;
  }
  return {};
}

kept attribute_of(matmul_preference& of, cublasLtMatmulPreferenceAttributes_t which) {
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return of.workspace;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return of.reductions;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return of.alignment_a;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return of.alignment_b;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return of.alignment_c;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return of.alignment_d;
  }
  return {};
}

template <class Descriptor, class Opaque, class Attribute>
cublasStatus_t set(Opaque* of, Attribute which, const void* from, std::size_t bytes) {
  if (of == nullptr || from == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  auto now = read_as<Descriptor>(of);
  const kept place = attribute_of(now, which);
  if (place.at == nullptr || place.bytes != bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(place.at, from, bytes);
  std::memcpy(of, &now, sizeof now);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Descriptor, class Opaque>
cublasStatus_t init(Opaque* one, std::size_t bytes, const Descriptor& as) {
  if (one == nullptr || bytes < sizeof *one)
    return CUBLAS_STATUS_ALLOC_FAILED;
  *one = {};
  std::memcpy(one, &as, sizeof as);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc,
                                               std::size_t bytes,
                                               cublasComputeType_t compute_type,
                                               cudaDataType scale) {
  return init(desc, bytes, matmul_desc{.compute = compute_type, .scale = scale});
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* from,
                                              std::size_t bytes) {
  return set<matmul_desc>(desc, attribute, from, bytes);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout,
                                                 std::size_t bytes,
                                                 cudaDataType type,
                                                 std::uint64_t rows,
                                                 std::uint64_t cols,
                                                 std::int64_t ld) {
  return init(
      layout, bytes, matrix_layout{.type = unsigned(type), .rows = rows, .cols = cols, .ld = ld});
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     std::size_t bytes) {
  return init(preference, bytes, matmul_preference{});
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from,
                                                    std::size_t bytes) {
  return set<matmul_preference>(preference, attribute, from, bytes);
}

}  // extern "C"
