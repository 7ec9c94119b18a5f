// Rotary position embedding, in place. Rotates the first `rotated` elements of each head by the
// angle position * frequency[i], i < rotated / 2:
//
//   halves:       (x[i], x[i + rotated/2])      Llama, GPT-NeoX, Megatron's default
//   interleaved:  (x[2i], x[2i + 1])            GPT-J
//
//   a' = a cos - b sin,  b' = b cos + a sin
//
// `magnitude` is a factor of both, as in YaRN.
//
// The backward pass is the same operation with `backward` set: it rotates back, with the same
// factor, and needs no saved values.
//
// The heads are in groups, in Megatron's fused layout [q .. q k v]. The first `heads` of each group
// (queries and key) are rotated, the rest (value) is unchanged.
//
// Su et al.: "RoFormer", 2021.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct rope {
  T* x;                          ///< (R, G, group stride) changed in place
  const std::int32_t* position;  ///< (R)
  const float* frequency;        ///< (rotated / 2) in radians per position
  std::int64_t R;                ///< rows
  std::int64_t G;                ///< groups
  std::int64_t heads;            ///< rotated heads per group
  std::int64_t D;                ///< head size
  std::int64_t rotated;          ///< even, at most D
  std::int64_t row, group;       ///< strides, in elements
  bool interleaved = false;
  bool backward = false;
  float magnitude = 1;  ///< of cosine and sine
};

template <class T>
constexpr std::int64_t flops(const rope<T>& op) {
  return 3 * op.R * op.G * op.heads * op.rotated;
}
template <class T>
constexpr std::int64_t bytes_moved(const rope<T>& op) {
  return std::int64_t{sizeof(T)} * 2 * op.R * op.G * op.heads * op.rotated + 4 * op.R;
}

}  // namespace troupe::kernels
