// Moves rows to the slots of experts, and back.
//
// A row of R has `slots` slots. Slot j of row r is row slot[r,j] of S; -1: none, as for a dropped
// token. `place` is the inverse: place[s] = r * slots + j; -1: none, as for padding.
//
//   permute    y[s] = w x[r]      for place[s] = r * slots + j and w = weight[r,j]; else 0
//   unpermute  y[r] = sum_j weight[r,j] x[slot[r,j]]          over the slots that are not -1
//
// Without weights they are 1. Each operation is the gradient of the other. The third gradient is
//
//   unpermute_backward_weight  dweight[r,j] = sum_c dy[r,c] x[slot[r,j],c]         for -1: 0
//
// Every row has one writer, so no sum needs atomics. unpermute adds in the order of j, in fp32,
// and rounds once.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct permute {
  T* y;                          ///< (S, C) written
  const T* x;                    ///< (R, C)
  const std::int32_t* place;     ///< (S)
  const accumulator<T>* weight;  ///< (R, slots) or null
  std::int64_t S, C;
  std::int64_t slots = 1;
};

template <class T>
struct unpermute {
  T* y;                          ///< (R, C) written
  const T* x;                    ///< (S, C)
  const std::int32_t* slot;      ///< (R, slots)
  const accumulator<T>* weight;  ///< (R, slots) or null
  std::int64_t R, C;
  std::int64_t slots = 1;
};

template <class T>
struct unpermute_backward_weight {
  accumulator<T>* dweight;   ///< (R, slots) written
  const T* dy;               ///< (R, C)
  const T* x;                ///< (S, C)
  const std::int32_t* slot;  ///< (R, slots)
  std::int64_t R, C;
  std::int64_t slots = 1;
};

template <class T>
constexpr std::int64_t flops(const permute<T>& op) {
  return op.weight ? op.S * op.C : 0;
}
template <class T>
constexpr std::int64_t flops(const unpermute<T>& op) {
  return op.R * op.slots * op.C * (op.weight ? 2 : 1);
}
template <class T>
constexpr std::int64_t flops(const unpermute_backward_weight<T>& op) {
  return op.R * op.slots * op.C * 2;
}
// As if every slot had a row.
template <class T>
constexpr std::int64_t bytes_moved(const permute<T>& op) {
  return op.S
         * (std::int64_t{sizeof(T)} * 2 * op.C + 4
            + (op.weight ? std::int64_t{sizeof(accumulator<T>)} : 0));
}
template <class T>
constexpr std::int64_t bytes_moved(const unpermute<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.C * (1 + op.slots)
         + op.R * op.slots * (4 + (op.weight ? std::int64_t{sizeof(accumulator<T>)} : 0));
}
template <class T>
constexpr std::int64_t bytes_moved(const unpermute_backward_weight<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.C * (1 + op.slots)
         + op.R * op.slots * (4 + std::int64_t{sizeof(accumulator<T>)});
}

}  // namespace troupe::kernels
