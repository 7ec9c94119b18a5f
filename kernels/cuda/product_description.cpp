#include "kernels/cuda/product.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace troupe::kernels::cuda {

namespace {

cudaDataType_t stored(product_type type) {
  switch (type) {
    case product_type::bf16:
      return CUDA_R_16BF;
    case product_type::f16:
      return CUDA_R_16F;
    case product_type::f32:
    case product_type::tf32:
      break;
  }
  return CUDA_R_32F;
}

cublasLtEpilogue_t library_epilogue(const product_key& key) {
  switch (key.epilogue) {
    case product_epilogue::gelu:
      if (key.kept)
        return key.biased ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return key.biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case product_epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case product_epilogue::none:
      break;
  }
  return key.biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

template <class Value>
void set(cublasLtMatmulDescOpaque_t& what,
         cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(&what, attribute, &value, sizeof value),
        "describing a matrix product to cuBLASLt");
}

template <class Value>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference,
            cublasLtMatmulPreferenceAttributes_t attribute,
            const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
        "telling cuBLASLt which algorithms may be taken");
}

/// `apart`: elements from one column to the next.
cublasLtMatrixLayoutOpaque_t columns(cudaDataType_t type,
                                     std::int64_t rows,
                                     std::int64_t columns,
                                     std::int64_t apart) {
  cublasLtMatrixLayoutOpaque_t out;
  check(cublasLtMatrixLayoutInit(&out, type, std::uint64_t(rows), std::uint64_t(columns), apart),
        "describing a matrix to cuBLASLt");
  return out;
}
cublasLtMatrixLayoutOpaque_t columns(cudaDataType_t type, std::int64_t rows, std::int64_t count) {
  return columns(type, rows, count, rows);
}

/// Removes repeated algorithms, keeping the first of each; returns the new end.
cublasLtMatmulHeuristicResult_t* without_repeats(cublasLtMatmulHeuristicResult_t* begin,
                                                 cublasLtMatmulHeuristicResult_t* end) {
  auto* kept = begin;
  for (auto* one = begin; one != end; ++one) {
    const bool known = std::any_of(begin, kept, [&](const auto& x) {
      return std::equal(std::begin(x.algo.data), std::end(x.algo.data), std::begin(one->algo.data));
    });
    if (!known)
      *kept++ = *one;
  }
  return kept;
}

// 16 bytes: kernels never need more, and the bits must not depend on a better alignment that a pool
// happens to give.
constexpr int most_alignment = 4;

std::uint8_t alignment_of(const void* at) {
  const int zeros = std::countr_zero(reinterpret_cast<std::uintptr_t>(at));
  return std::uint8_t(std::min(zeros, most_alignment));
}

}  // namespace

void note_alignments(product_key& key, const product_operands& at) {
  key.alignment[0] = alignment_of(at.a);
  key.alignment[1] = alignment_of(at.b);
  key.alignment[2] = alignment_of(at.d);
  key.alignment[3] = std::min(alignment_of(at.bias), alignment_of(at.z));
}

product_description::product_description(const product_key& key, const product_operands& at)
    : product_description(key, at, key.N) {}

product_description::product_description(const product_key& key,
                                         const product_operands& at,
                                         std::int64_t N)
    : key_(key), at_(at) {
  const auto in = stored(key.type);
  const auto out = key.role == product_role::backward_weight ? CUDA_R_32F : in;
  switch (key.role) {
    case product_role::forward:
      a_ = columns(in, key.K, key.N);
      b_ = columns(in, key.K, key.R);
      d_ = columns(out, key.N, key.R);
      break;
    case product_role::backward_input:
      a_ = columns(in, key.K, key.N);
      b_ = columns(in, key.N, key.R);
      d_ = columns(out, key.K, key.R);
      break;
    case product_role::backward_weight:
      a_ = columns(in, key.K, key.R);
      b_ = columns(in, N, key.R, key.N);
      d_ = columns(out, key.K, N);
      break;
  }
  const auto compute
      = key.type == product_type::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescInit(&what_, compute, CUDA_R_32F),
        "describing a matrix product to cuBLASLt");
  if (key.role == product_role::forward)
    set(what_, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (key.role == product_role::backward_weight)
    set(what_, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
  const auto epilogue = library_epilogue(key);
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    set(what_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (key.biased)
    set(what_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
  if (key.kept || key.epilogue == product_epilogue::gelu_gradient) {
    set(what_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.z);
    set(what_,
        CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
        key.role == product_role::forward ? key.N : key.K);
  }
}

int product_description::candidates(cublasLtHandle_t library,
                                    cublasLtMatmulHeuristicResult_t* out,
                                    int most) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "asking cuBLASLt for algorithms");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, product_workspace);
  // Partial sums stay in fp32 and are reduced separately, so that the result is rounded once.
  prefer(preference,
         CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // Preferences have no alignment of the epilogue's arrays: the minimum counts as the result's.
  const auto result = std::min(key_.alignment[2], key_.alignment[3]);
  const auto bytes = [](int power) { return std::uint32_t{1} << power; };
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(key_.alignment[0]));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(key_.alignment[1]));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(result));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(result));
  int found = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(
      library, &what_, &a_, &b_, &d_, &d_, &preference, most, out, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED)
    return 0;
  check(status, "asking cuBLASLt for algorithms");
  auto* const end = std::remove_if(out, out + found, [](const auto& x) {
    return x.state != CUBLAS_STATUS_SUCCESS || x.workspaceSize > product_workspace;
  });
  return int(without_repeats(out, end) - out);
}

cublasStatus_t product_description::try_algorithm(cublasLtHandle_t library,
                                                  const cublasLtMatmulAlgo_t& algorithm,
                                                  cublasLtMatmulHeuristicResult_t& out) {
  return cublasLtMatmulAlgoCheck(library, &what_, &a_, &b_, &d_, &d_, &algorithm, &out);
}

cublasStatus_t product_description::run(cublasLtHandle_t library,
                                        const cublasLtMatmulAlgo_t& algorithm,
                                        void* d,
                                        void* workspace,
                                        cudaStream_t queue) {
  const float alpha = 1, beta = at_.adds ? 1 : 0;
  return cublasLtMatmul(library,
                        &what_,
                        &alpha,
                        at_.a,
                        &a_,
                        at_.b,
                        &b_,
                        &beta,
                        d,
                        &d_,
                        d,
                        &d_,
                        &algorithm,
                        workspace,
                        product_workspace,
                        queue);
}

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw device_failure(std::string(what) + ": " + cublasLtGetStatusName(status) + ", "
                         + cublasLtGetStatusString(status));
}

}  // namespace troupe::kernels::cuda
