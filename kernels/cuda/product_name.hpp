// Products and algorithms as text: what choices are kept by.

#pragma once

#include "kernels/backend/cuda_library.hpp"
#include "kernels/cuda/product.hpp"

namespace troupe::kernels::cuda {

/// "forward bf16 bias+gelu+z 8192 x 3072 x 768, aligned 16 16 16 16, on NVIDIA H200 with
/// cuBLASLt 13.1.0": all that the choice of an algorithm depends on. Sizes are R x N x K,
/// alignments of the two factors, the result, and what the epilogue reads or writes. It names what
/// the library does: "gelu" is the one by tanh, "z" is stored for its gradient, "gelu_gradient"
/// goes back through it; an activation that is not in the name is a kernel of ours.
std::string name_of(const product_key& key, const std::string& device, const std::string& library);

/// cuBLASLt's words, each as 16 hexadecimal digits.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm);
/// Throws device_failure when the choice's text is no algorithm.
cublasLtMatmulAlgo_t algorithm_of(const product_choice& choice);

}  // namespace troupe::kernels::cuda
