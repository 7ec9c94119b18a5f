// Replaces kernels/cuda/mma.cuh on the emulated device.
//
// Lanes exchange exactly the registers that the PTX ISA names, so an element in a wrong register
// gives a wrong result. Products are summed in double and rounded once, where a device truncates at
// each step. An asynchronous copy fills its target with NaN and writes the data when the kernel
// waits for it.

#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "kernels/op/context.hpp"

#include <cstring>
#include <vector>

namespace troupe::emulator {

/// The values that the lanes of the current warp publish to each other.
template <class Shown>
Shown* shown_by_warp() {
  static thread_local Shown of_block[1024];
  return of_block + threadIdx.x / 32 * 32;
}

/// Publishes `mine` and calls `look` with the values of all lanes of the warp. Blocks are
/// one-dimensional.
template <class Shown, class Look>
void with_warp(const Shown& mine, source_location where, const Look& look) {
  Shown* const all = shown_by_warp<Shown>();
  all[threadIdx.x % 32] = mine;
  warp_collective(warp_step::wait, 0xffffffffU, 0, 0, 32, where);
  look(all);
  warp_collective(warp_step::wait, 0xffffffffU, 0, 0, 32, where);  // all have read
}

/// Element `i` of a register with two elements.
template <class T>
float half_of(unsigned word, int i) {
  const auto bits = static_cast<unsigned short>(word >> (16 * i));
  if constexpr (std::is_same_v<T, kernels::bf16>)
    return __bfloat162float(__ushort_as_bfloat16(bits));
  else
    return __half2float(__ushort_as_half(bits));
}

struct operands {
  unsigned x[4], y[2];
};

template <class T>
float left_element(const operands* lanes, int row, int k) {
  return half_of<T>(lanes[row % 8 * 4 + k % 8 / 2].x[row / 8 + k / 8 * 2], k % 2);
}
template <class T>
float right_element(const operands* lanes, int k, int column) {
  return half_of<T>(lanes[column * 4 + k % 8 / 2].y[k / 8], k % 2);
}

struct matrix_row {
  const void* at;
};

inline unsigned short matrix_element(const matrix_row* lanes, int matrix, int row, int column) {
  return static_cast<const unsigned short*>(lanes[8 * matrix + row].at)[column];
}

template <bool Transposed>
void load_four(unsigned (&x)[4], const void* row, source_location where) {
  aligned(static_cast<const uint4*>(row));
  const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  with_warp(matrix_row{row}, where, [&](const matrix_row* lanes) {
    for (int m = 0; m < 4; ++m) {
      const unsigned low
          = Transposed ? matrix_element(lanes, m, 2 * t, g) : matrix_element(lanes, m, g, 2 * t);
      const unsigned high = Transposed ? matrix_element(lanes, m, 2 * t + 1, g)
                                       : matrix_element(lanes, m, g, 2 * t + 1);
      x[m] = low | high << 16;
    }
  });
}

}  // namespace troupe::emulator

namespace troupe::kernels::cuda {

#define TROUPE_EMULATED_LOCATION \
  emulator::source_location where = emulator::source_location::current()

template <class T>
void multiply_add(
    float (&c)[4], const unsigned (&x)[4], unsigned y0, unsigned y1, TROUPE_EMULATED_LOCATION) {
  const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const emulator::operands mine{{x[0], x[1], x[2], x[3]}, {y0, y1}};
  emulator::with_warp(mine, where, [&](const emulator::operands* lanes) {
    for (int i = 0; i < 4; ++i) {
      const int row = g + i / 2 * 8, column = 2 * t + i % 2;
      double sum = double(c[i]);
      for (int k = 0; k < 16; ++k)
        sum += double(emulator::left_element<T>(lanes, row, k))
               * double(emulator::right_element<T>(lanes, k, column));
      c[i] = float(sum);
    }
  });
}

inline void load_matrices(unsigned (&x)[4], const void* row, TROUPE_EMULATED_LOCATION) {
  emulator::load_four<false>(x, row, where);
}
inline void load_transposed(unsigned (&x)[4], const void* row, TROUPE_EMULATED_LOCATION) {
  emulator::load_four<true>(x, row, where);
}
#undef TROUPE_EMULATED_LOCATION

class async_copies {
 public:
  void copy_16_bytes(void* to, const void* from, bool there) {
    copy(static_cast<uint4*>(to), static_cast<const uint4*>(from), there);
  }
  void copy_4_bytes(void* to, const void* from, bool there) {
    copy(static_cast<unsigned*>(to), static_cast<const unsigned*>(from), there);
  }
  void wait() {
    for (const auto& x : pending_)
      std::memcpy(x.to, x.bytes, x.size);
    pending_.clear();
  }

 private:
  struct pending {
    void* to;
    std::size_t size;
    unsigned char bytes[16];
  };

  template <class Word>
  void copy(Word* to, const Word* from, bool there) {
    pending x{emulator::aligned(to), sizeof(Word), {}};
    if (there)
      std::memcpy(x.bytes, emulator::aligned(from), sizeof(Word));
    std::memset(to, 0xff, sizeof(Word));
    pending_.push_back(x);
  }

  std::vector<pending> pending_;
};

}  // namespace troupe::kernels::cuda
