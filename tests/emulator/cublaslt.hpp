// cuBLASLt of the emulated device: a product, after its descriptors were read.

#pragma once

#include "tests/emulator/include/cublasLt.h"

#include <array>
#include <cstring>
#include <string>
#include <type_traits>

namespace troupe::emulator {

// Contents of the opaque descriptors, from their first byte on.

struct matmul_desc {
  std::int32_t compute = CUBLAS_COMPUTE_32F;
  std::int32_t scale = CUDA_R_32F;
  std::int32_t transa = CUBLAS_OP_N;
  std::int32_t transb = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
};

struct matrix_layout {
  std::uint32_t type;
  std::uint64_t rows;
  std::uint64_t cols;
  std::int64_t ld;
};

struct matmul_preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256;
  std::uint32_t alignment_b = 256;
  std::uint32_t alignment_c = 256;
  std::uint32_t alignment_d = 256;
};

template <class Descriptor, class Opaque>
Descriptor read_as(const Opaque* from) {
  static_assert(sizeof(Descriptor) <= sizeof(Opaque) && std::is_trivially_copyable_v<Descriptor>);
  Descriptor to;
  std::memcpy(static_cast<void*>(&to), from, sizeof to);
  return to;
}

/// Order of summation of a product: `lanes` partial sums for each of `parts` parts of the inner
/// dimension, then their sum, then the sum of the parts through the workspace.
struct algorithm {
  int id;
  int lanes;
  int parts;
  std::size_t alignment;  ///< of pointers and columns, in bytes; 1: alignment of the types
};

/// All arguments of a product; outlives its descriptors.
struct product {
  matmul_desc desc;
  matrix_layout a, b, c, d;
  algorithm by;
  // null when the product is only checked
  const void* a_data = nullptr;
  const void* b_data = nullptr;
  const void* c_data = nullptr;
  void* d_data = nullptr;
  void* workspace = nullptr;

  std::size_t m() const { return d.rows; }
  std::size_t n() const { return d.cols; }
  std::size_t k() const { return desc.transa == CUBLAS_OP_N ? a.cols : a.rows; }
  bool has(unsigned epilogue_bit) const { return (desc.epilogue & epilogue_bit) != 0; }
};

constexpr unsigned with_bias = 4, with_gelu = 32, with_gelu_gradient = 64, with_aux = 128;

std::size_t bytes_of(std::uint32_t type);

/// Bytes of workspace for the algorithm, a multiple of 256.
std::size_t workspace_of(const product& what);

/// Prints the reason and returns CUBLAS_STATUS_INVALID_VALUE.
cublasStatus_t invalid(const std::string& why);

/// Whether a device would accept the product; does not check pointers.
cublasStatus_t judged(const product& is);

/// Whether the algorithm accepts the leading dimensions and these alignments of A, B, C and D, in
/// bytes.
bool can_take(const product& is, const std::array<std::uint32_t, 4>& alignments);

/// Whether all memory of the product is device memory with the alignment that the algorithm needs.
cublasStatus_t pointers_fit(const product& is, bool reads_c, std::size_t workspace_bytes);

/// Computes the product. Device memory is open to the caller.
void compute(const product& what, float alpha, float beta);

}  // namespace troupe::emulator
