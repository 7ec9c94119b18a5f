// Rotary position embedding, in place.
//
// Su et al.: "RoFormer", 2021. The first `rotated` elements of each head turn by angle
// position * frequency[i], i < rotated / 2:
//
//   halves:       (x[i], x[i + rotated/2])      Llama, GPT-NeoX, Megatron's default
//   interleaved:  (x[2i], x[2i + 1])            GPT-J
//
//   a' = a cos - b sin,  b' = b cos + a sin
//
// The gradient turns back: the same operation with `backward` set. Nothing need be saved.
//
// The heads lie in groups, Megatron's fused layout [q .. q k v]: of each group the first `heads`
// turn (queries and key), the rest (value) stays.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct rope {
  T* x;                          ///< (R, G, group stride) changed in place
  const std::int32_t* position;  ///< (R)
  const float* frequency;        ///< (rotated / 2) radians a position
  std::int64_t R;                ///< rows
  std::int64_t G;                ///< groups
  std::int64_t heads;            ///< heads of a group that are rotated
  std::int64_t D;                ///< head size
  std::int64_t rotated;          ///< even, at most D
  std::int64_t row, group;       ///< strides, in elements
  bool interleaved = false;
  bool backward = false;
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
