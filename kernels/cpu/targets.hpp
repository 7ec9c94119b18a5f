// The instruction sets that this room compiles for: portable, AVX2, AVX-512 (AVX3).
//
// Included before any header of Highway, in every source of this room, so that all agree: a file
// with another set would dispatch on another table. SSSE3 and SSE4 are left out because a machine
// older than AVX2 is served by the portable code, correct and slow; AVX3_DL because it adds nothing
// for floats. Each one left out saves a compilation of every kernel.

#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
