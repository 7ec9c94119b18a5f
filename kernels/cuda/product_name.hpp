// Text forms of products and algorithms, for stored choices.

#pragma once

#include "kernels/backend/cuda_library.hpp"
#include "kernels/cuda/product.hpp"

namespace troupe::kernels::cuda {

/// The key of a stored choice: "forward bf16 bias+gelu+z 8192 x 3072 x 768, aligned 16 16 16 16, on
/// NVIDIA H200 with cuBLASLt 13.1.0". Sizes are R x N x K. Alignments are those of the two factors,
/// the result and the epilogue's arrays. "gelu" is the tanh form, "z" is stored for the backward
/// pass, and "gelu_gradient" multiplies by its derivative. Activations of our own kernels are not
/// part of the name.
std::string name_of(const product_key& key, const std::string& device, const std::string& library);

/// The words of cuBLASLt's algorithm, each as 16 hexadecimal digits.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm);
/// Throws device_failure if the text is not an algorithm.
cublasLtMatmulAlgo_t algorithm_of(const product_choice& choice);

}  // namespace troupe::kernels::cuda
