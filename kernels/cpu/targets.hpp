// The instruction sets that this room compiles for: SSE4, AVX2, AVX-512 (AVX3).
//
// Included before any header of Highway, in every source of this room, so that all agree: a file
// with another set would dispatch on another table. SSE4 is the least that oneDNN runs on, so it is
// ours too, in place of Highway's scalar code. SSSE3 is older still, and AVX3_DL adds nothing for
// floats; each one left out saves a compilation of every kernel.

#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#ifdef __x86_64__
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
