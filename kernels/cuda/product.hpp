// A matrix product on cuBLASLt. Used by product*.cpp only.
//
// cuBLASLt uses column-major matrices. Our row-major matrices are their transposes. With the
// letters of kernels/op/linear.hpp, where A is the first factor and B the second:
//
//   forward          y^T (N, R)        = weight   x^T     A transposed
//   backward_input   dx^T (K, R)       = weight^T dz^T
//   backward_weight  dweight^T (K, N) += x^T dz           B transposed; or =, by the same algorithm
//
// The leading dimension of each is the length of our row.
//
// Bias, GELU and the GELU gradient are epilogues of cuBLASLt where possible. A bias needs rows of a
// multiple of 8 elements and alignment to 16 bytes. For other shapes its heuristics propose
// algorithms that it then refuses, or that still load 16 bytes (pytorch/pytorch, pull requests
// 92201, 97205 and 98975). There a separate kernel adds the bias, with one more rounding.
//
// The gradient of a bias is not an epilogue. BGRADA and BGRADB overwrite their result, in an order
// that depends on the algorithm. But dbias is an fp32 sum over micro-batches, and its bits must not
// depend on the algorithm. Adding their result would need another pass. So dbias is a separate
// operation (bias.hpp), which reads dz again.

#pragma once

#include "kernels/cuda/host.hpp"

#include <cublasLt.h>

#include <optional>
#include <span>

namespace troupe::kernels::cuda {

enum class product_role : std::uint8_t { forward, backward_input, backward_weight };
enum class product_type : std::uint8_t { f32, tf32, bf16, f16 };

/// Applied by cuBLASLt before it stores the result.
enum class product_epilogue : std::uint8_t {
  none,
  gelu,           ///< forward
  gelu_gradient,  ///< backward_input: multiplies by GELU'(z)
};

/// Whether cuBLASLt can add a bias to rows of N elements.
inline bool library_adds_bias(const void* bias, std::int64_t N) {
  return bias != nullptr && N % 8 == 0 && all_aligned(bias);
}

/// Everything that determines which algorithms exist and how fast they are. `alignment`: exponents
/// of two, up to 4 (16 bytes), of A, B, the result and the epilogue's arrays.
struct product_key {
  product_role role;
  product_type type;
  product_epilogue epilogue = product_epilogue::none;
  bool biased = false;
  bool kept = false;  ///< gelu: z is stored, too
  std::uint8_t device_kind = 0;
  std::uint8_t alignment[4] = {};
  std::int64_t R, N, K;

  /// If true, there is a fallback: the plain product and a separate kernel.
  bool has_epilogue() const { return epilogue != product_epilogue::none || biased; }

  friend bool operator==(const product_key&, const product_key&) = default;
};

/// Device pointers.
struct product_operands {
  const void* a;
  const void* b;
  void* d;
  const void* bias = nullptr;
  const void* z = nullptr;  ///< gelu: output, if kept; gelu_gradient: input
  bool adds = false;        ///< backward_weight: adds to d; otherwise d is overwritten
};

/// Workspace limit of an algorithm: cuBLASLt's recommendation for compute capability 9.0.
inline constexpr std::size_t product_workspace = std::size_t{32} << 20;
/// Alignment that cuBLASLt requires for its workspace.
inline constexpr std::size_t product_workspace_alignment = 256;

/// Size limit of the trial result for products that add. It covers all of a weight of up to 16
/// million elements, and several waves of tiles of a larger one.
inline constexpr std::size_t most_trial_bytes = std::size_t{64} << 20;

/// Limit of the memory that is written before each trial to evict the operands from the L2 cache.
/// In a training step most operands come from memory, and the fastest algorithm with cached
/// operands may be another one. The limit is twice the cache of an H100 (50 MB), because its halves
/// may hold the same lines, and once that of a B200 (126 MB).
inline constexpr std::size_t most_cold_bytes = std::size_t{128} << 20;

/// Bytes to write to evict the L2 cache of the current device. Only reads the cache size of the
/// device.
std::size_t cold_bytes();

/// Whether an algorithm for a product is known.
enum class product_standing : std::uint8_t {
  open,        ///< not chosen yet: it may be measured, which needs more scratch
  chosen,      ///< chosen, or will be chosen without measuring
  impossible,  ///< no algorithm has its epilogue
};

/// Does not use the device; the first product of a device is always open.
product_standing standing_of(product_key key, const product_operands& at);

/// Stores the alignments of the operands in the key.
void note_alignments(product_key& key, const product_operands& at);

/// cuBLASLt's description of a product. Lives on the stack and allocates nothing.
class product_description {
 public:
  product_description(const product_key& key, const product_operands& at);
  /// Describes a backward_weight of only the first N rows of the result.
  product_description(const product_key& key, const product_operands& at, std::int64_t N);
  product_description(const product_description&) = delete;
  product_description& operator=(const product_description&) = delete;

  /// Finds at most `most` distinct candidates, in the library's order of preference; may find none.
  int candidates(cublasLtHandle_t library, cublasLtMatmulHeuristicResult_t* out, int most);
  /// Whether the library accepts this algorithm for the product.
  cublasStatus_t try_algorithm(cublasLtHandle_t library,
                               const cublasLtMatmulAlgo_t& algorithm,
                               cublasLtMatmulHeuristicResult_t& out);
  /// Enqueues the product with the result at `d`.
  cublasStatus_t run(cublasLtHandle_t library,
                     const cublasLtMatmulAlgo_t& algorithm,
                     void* d,
                     void* workspace,
                     cudaStream_t queue);

 private:
  product_key key_;
  product_operands at_;
  cublasLtMatmulDescOpaque_t what_;
  cublasLtMatrixLayoutOpaque_t a_, b_, d_;
};

/// Whether the library refused a proposed algorithm while the device still works, so that another
/// one can be tried. An algorithm is proposed for all rows and may be tried on fewer. Waits for the
/// queue unless the status says "not supported". Throws device_failure if the device has failed.
bool is_refused(cublasStatus_t status, cudaStream_t queue, const char* what);

/// The fastest candidate and its time.
struct measured_product {
  cublasLtMatmulAlgo_t algorithm;
  double microseconds = 0;
};

/// Device memory for trials; nothing else may use it meanwhile.
struct trial_memory {
  void* workspace;              ///< `product_workspace` bytes
  std::span<std::byte> result;  ///< for products that add: as many rows of the result as fit
  std::span<std::byte> cold;    ///< written before each run; empty: operands stay in the cache
};

/// Measures the candidates on the queue with a cold cache, within about `budget` microseconds of
/// device time; fastest_of (candidate_choice.hpp) picks the winner. The calling thread sleeps
/// meanwhile. Empty if the library refuses all candidates.
///
/// Overwrites `at.d`, except for products that add: they leave it alone and use `in.result`. If
/// that has no room for one row, the first candidate wins without a time.
std::optional<measured_product> measure(const product_key& key,
                                        const product_operands& at,
                                        std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                                        cublasLtHandle_t library,
                                        const trial_memory& in,
                                        double budget,
                                        cudaStream_t queue);

/// Enqueues the product on the queue of the context; its device is current. Fills in the rest of
/// the key. The workspace has at least `product_workspace` bytes plus alignment; anything beyond is
/// used for measurements. Returns false and enqueues nothing if the library has no algorithm with
/// this epilogue. Throws device_failure if a product without epilogue is impossible.
[[nodiscard]] bool multiply(product_key key, const product_operands& at, const context& in);

/// Throws device_failure on an error; `what` names the operation that failed.
void check(cublasStatus_t status, const char* what);

/// Bytes per element of the result.
constexpr std::size_t result_size(const product_key& key) {
  const bool narrow = key.type == product_type::bf16 || key.type == product_type::f16;
  return narrow && key.role != product_role::backward_weight ? 2 : 4;
}

}  // namespace troupe::kernels::cuda
