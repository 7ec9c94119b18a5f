// Biases of attention scores, looked up in a table by the bucket of a distance (attention.hpp):
//
//   bias[h,i] = table[bucket[i], h]          dtable[bucket[i], h] += dbias[h,i]
//
// Gradients are added in the order of i, so the bits are independent of the thread count.
//
// Raffel et al.: "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
// Transformer", 2020.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct relative_bias_forward {
  accumulator<T>* bias;        ///< (H, count) written
  const T* table;              ///< (buckets, H)
  const std::int32_t* bucket;  ///< (count) below `buckets`
  std::int64_t H, count, buckets;
};

template <class T>
struct relative_bias_backward {
  accumulator<T>* dtable;       ///< (buckets, H) accumulated, or written
  const accumulator<T>* dbias;  ///< (H, count)
  const std::int32_t* bucket;   ///< (count)
  std::int64_t H, count, buckets;
  bool accumulates = true;  ///< false: dtable is overwritten
};

template <class T>
constexpr std::int64_t flops(const relative_bias_forward<T>&) {
  return 0;
}
template <class T>
constexpr std::int64_t flops(const relative_bias_backward<T>& op) {
  return op.H * op.count;
}
template <class T>
constexpr std::int64_t bytes_moved(const relative_bias_forward<T>& op) {
  return std::int64_t{sizeof(T)} * op.buckets * op.H
         + std::int64_t{sizeof(accumulator<T>)} * op.H * op.count + 4 * op.count;
}
template <class T>
constexpr std::int64_t bytes_moved(const relative_bias_backward<T>& op) {
  return std::int64_t{sizeof(accumulator<T>)} * op.H
             * (op.count + op.buckets * (op.accumulates ? 2 : 1))
         + 4 * op.count;
}

}  // namespace troupe::kernels
