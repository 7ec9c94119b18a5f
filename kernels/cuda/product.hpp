// A matrix product as cuBLASLt computes it. Used by product*.cpp only.
//
// cuBLASLt's matrices are in columns. Ours, in rows, are the transposes of those, so that with the
// letters of kernels/op/linear.hpp
//
//   forward          y^T (N, R)        = weight   x^T       A transposed
//   backward_input   dx^T (K, R)       = weight^T dz^T
//   backward_weight  dweight^T (K, N) += x^T dz             B transposed; or =, by the same
//   algorithm
//
// where A is the first and B the second factor. The leading dimension of each is the length of its
// row with us.
//
// A bias, GELU and its gradient are epilogues of cuBLASLt, where it has them: a bias only in rows
// of a multiple of 8 elements, and aligned to 16 bytes. For others its heuristics propose what it
// then refuses, or what loads 16 bytes all the same (pytorch/pytorch, pull requests 92201, 97205
// and 98975). Elsewhere a kernel adds the bias to the product, which is rounded once more by that.
// The gradient of a bias is no epilogue: BGRADA and BGRADB overwrite, in an order that the
// algorithm decides, where dbias is a sum over micro-batches in fp32 whose bits no choice of a
// product may change; to add what they wrote would take a pass of its own. It is an operation of
// ours (bias.hpp), which reads dz once more.

#pragma once

#include "kernels/cuda/host.hpp"

#include <cublasLt.h>

#include <optional>
#include <span>

namespace troupe::kernels::cuda {

enum class product_role : std::uint8_t { forward, backward_input, backward_weight };
enum class product_type : std::uint8_t { f32, tf32, bf16, f16 };

/// What cuBLASLt does to the sum before it is stored.
enum class product_epilogue : std::uint8_t {
  none,
  gelu,           ///< forward
  gelu_gradient,  ///< backward_input: times the slope of GELU at z
};

/// Of rows of N elements.
inline bool library_adds_bias(const void* bias, std::int64_t N) {
  return bias != nullptr && N % 8 == 0 && all_aligned(bias);
}

/// Everything that decides which algorithms there are and how fast they are. `alignment` counts in
/// powers of two, up to 2^4, of the factors, the result, and of what the epilogue reads and writes.
struct product_key {
  product_role role;
  product_type type;
  product_epilogue epilogue = product_epilogue::none;
  bool biased = false;  ///< a bias is added
  bool kept = false;    ///< gelu: the sum itself is stored too
  std::uint8_t device_kind = 0;
  std::uint8_t alignment[4] = {};
  std::int64_t R, N, K;

  /// Without it there is another way: the product, and a kernel.
  bool has_epilogue() const { return epilogue != product_epilogue::none || biased; }

  friend bool operator==(const product_key&, const product_key&) = default;
};

/// Memory of the device.
struct product_operands {
  const void* a;
  const void* b;
  void* d;
  const void* bias = nullptr;
  const void* z = nullptr;  ///< gelu: the sum, written if kept; gelu_gradient: read
  bool adds = false;        ///< backward_weight: to what is in d; else d is written unread
};

/// Bytes that an algorithm may use. cuBLASLt's own advice for devices of compute capability 9.0.
inline constexpr std::size_t product_workspace = std::size_t{32} << 20;
/// cuBLASLt wants its workspace aligned so.
inline constexpr std::size_t product_workspace_alignment = 256;

/// Bytes of a result that candidates of a product that adds are tried on: all of it for weights of
/// up to 16 million elements, some waves of tiles of a larger one.
inline constexpr std::size_t most_trial_bytes = std::size_t{64} << 20;

/// Bytes at most that are written before each run of a candidate, so that nothing that it reads
/// lies in the device's cache: in a step most of it comes from memory, too, and who is fastest with
/// operands in a cache of 50 MB need not be so without. Twice an H100's cache, whose halves may
/// hold the same lines; a B200's of 126 MB once.
inline constexpr std::size_t most_cold_bytes = std::size_t{128} << 20;

/// Bytes that empty the cache of the thread's device, of which the size is asked, nothing else.
std::size_t cold_bytes();

/// Whether there is an algorithm for a product.
enum class product_standing : std::uint8_t {
  open,        ///< it may be measured, also if an earlier run chose it: it wants memory for that
  chosen,      ///< or it will be without measuring
  impossible,  ///< with its epilogue
};

/// Asks nothing of the device, whose first product is open anyway.
product_standing standing_of(product_key key, const product_operands& at);

/// The alignments of the operands, into the key.
void note_alignments(product_key& key, const product_operands& at);

/// cuBLASLt's description of a product. Lives on the stack: making one allocates nothing.
class product_description {
 public:
  product_description(const product_key& key, const product_operands& at);
  /// Of a backward_weight, the first N rows of the result alone.
  product_description(const product_key& key, const product_operands& at, std::int64_t N);
  product_description(const product_description&) = delete;
  product_description& operator=(const product_description&) = delete;

  /// At most `most` candidates, each once, the library's favourite first. May be none.
  int candidates(cublasLtHandle_t library, cublasLtMatmulHeuristicResult_t* out, int most);
  /// Whether the library takes this algorithm for it.
  cublasStatus_t try_algorithm(cublasLtHandle_t library,
                               const cublasLtMatmulAlgo_t& algorithm,
                               cublasLtMatmulHeuristicResult_t& out);
  /// Puts it on the queue, with another result than the description's if `d` says so.
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

/// Whether an algorithm that the library proposed was not taken, and the device works: then another
/// may be. An algorithm is proposed for all rows of a result and may be tried on fewer. Waits for
/// the queue unless the library says plainly that it does not do this; throws device_failure where
/// the device has failed.
bool is_refused(cublasStatus_t status, cudaStream_t queue, const char* what);

/// The fastest candidate, and how it did.
struct measured_product {
  cublasLtMatmulAlgo_t algorithm;
  double microseconds = 0;
};

/// Memory of the device in which candidates are tried, which nobody else uses meanwhile.
struct trial_memory {
  void* workspace;  ///< `product_workspace` bytes
  std::span<std::byte>
      result;                 ///< of a product that adds: as many of its rows as there is room for
  std::span<std::byte> cold;  ///< is written before each run; empty: operands are as near as
                              ///< repeating brings them
};

/// Candidates take turns on the queue, each run with a cold cache; the thread waits, asleep: which
/// is chosen says fastest_of (candidate_choice.hpp), in about `budget` microseconds of the device.
/// Nothing where the library refuses all that it proposes.
///
/// A result that is only written is written. One that the product adds to is not touched; without
/// room for a row of it the first candidate is taken, and no time is told.
std::optional<measured_product> measure(const product_key& key,
                                        const product_operands& at,
                                        std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                                        cublasLtHandle_t library,
                                        const trial_memory& in,
                                        double budget,
                                        cudaStream_t queue);

/// Puts the product on the queue of the context, which has `product_workspace` bytes and as many
/// more as aligning them takes; what it has beyond them is for measuring. Sets the rest of the key.
/// The thread's device is the queue's. False, and nothing is on the queue, where the library has no
/// algorithm with this epilogue; a product without one that it cannot do is a device_failure.
[[nodiscard]] bool multiply(product_key key, const product_operands& at, const context& in);

/// Throws device_failure unless all went well.
void check(cublasStatus_t status, const char* what);

/// Bytes of the elements of a product's result.
constexpr std::size_t result_size(const product_key& key) {
  const bool narrow = key.type == product_type::bf16 || key.type == product_type::f16;
  return narrow && key.role != product_role::backward_weight ? 2 : 4;
}

}  // namespace troupe::kernels::cuda
