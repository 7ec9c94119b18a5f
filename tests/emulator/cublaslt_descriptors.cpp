// cuBLASLt's descriptors: created, destroyed, and their attributes.

#include "tests/emulator/cublaslt.hpp"
#include "tests/emulator/settings.hpp"

#include <cstring>

namespace troupe::emulator {
namespace {

/// Where an attribute is kept; nothing of an attribute that is not known here.
struct kept {
  void* at = nullptr;
  std::size_t bytes = 0;

  kept() = default;
  template <class T>
  kept(T& member) : at(&member), bytes(sizeof member) {}
};

kept attribute_of(matmul_desc& of, cublasLtMatmulDescAttributes_t which) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return of.compute;
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return of.scale;
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return of.pointer_mode;
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return of.transa;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return of.transb;
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return of.transc;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return of.epilogue;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return of.bias;
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return of.bias_stride;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return of.aux;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return of.aux_ld;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return of.aux_stride;
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return of.processors;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return of.aux_type;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return of.bias_type;
  }
  return {};
}

kept attribute_of(matrix_layout& of, cublasLtMatrixLayoutAttribute_t which) {
  switch (which) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return of.type;
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return of.order;
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return of.rows;
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return of.cols;
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return of.ld;
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return of.batches;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return of.stride;
  }
  return {};
}

kept attribute_of(matmul_preference& of, cublasLtMatmulPreferenceAttributes_t which) {
  switch (which) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return of.search;
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
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT:
      return of.waves;
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

template <class Descriptor, class Opaque, class Attribute>
cublasStatus_t get(Opaque* of, Attribute which, void* to, std::size_t bytes, std::size_t* written) {
  if (of == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  auto now = read_as<Descriptor>(of);
  const kept place = attribute_of(now, which);
  const bool ask = bytes == 0 && written != nullptr;
  if (place.at == nullptr || (!ask && (to == nullptr || bytes != place.bytes)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!ask)
    std::memcpy(to, place.at, bytes);
  if (written != nullptr)
    *written = place.bytes;
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

template <class Opaque, class Descriptor>
cublasStatus_t create(const char* call, Opaque** to, const Descriptor& as) {
  if (to == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (const int planted = planted_fault(call); planted != 0)
    return cublasStatus_t(planted);
  *to = new Opaque;
  return init(*to, sizeof **to, as);
}

template <class Opaque>
cublasStatus_t destroy(Opaque* one) {
  delete one;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc,
                                        cublasComputeType_t compute_type,
                                        cudaDataType scale) {
  return create(
      "cublasLtMatmulDescCreate", desc, matmul_desc{.compute = compute_type, .scale = scale});
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc,
                                               std::size_t bytes,
                                               cublasComputeType_t compute_type,
                                               cudaDataType scale) {
  return init(desc, bytes, matmul_desc{.compute = compute_type, .scale = scale});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return destroy(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* from,
                                              std::size_t bytes) {
  return set<matmul_desc>(desc, attribute, from, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              void* to,
                                              std::size_t bytes,
                                              std::size_t* written) {
  return get<matmul_desc>(desc, attribute, to, bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                          cudaDataType type,
                                          std::uint64_t rows,
                                          std::uint64_t cols,
                                          std::int64_t ld) {
  return create("cublasLtMatrixLayoutCreate",
                layout,
                matrix_layout{.type = unsigned(type), .rows = rows, .cols = cols, .ld = ld});
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

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* from,
                                                std::size_t bytes) {
  return set<matrix_layout>(layout, attribute, from, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* to,
                                                std::size_t bytes,
                                                std::size_t* written) {
  return get<matrix_layout>(layout, attribute, to, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create("cublasLtMatmulPreferenceCreate", preference, matmul_preference{});
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     std::size_t bytes) {
  return init(preference, bytes, matmul_preference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from,
                                                    std::size_t bytes) {
  return set<matmul_preference>(preference, attribute, from, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void* to,
                                                    std::size_t bytes,
                                                    std::size_t* written) {
  return get<matmul_preference>(preference, attribute, to, bytes, written);
}

}  // extern "C"
