// The instruction sets compiled in kernels/cpu: SSE4, AVX2, AVX-512 (AVX3).
//
// Every source in this folder includes this before any Highway header, because all must dispatch on
// the same table. oneDNN requires SSE4, so SSE4 replaces Highway's scalar code as the baseline.
// SSSE3 is older, and AVX3_DL adds nothing for floats; leaving them out saves two compilations of
// every kernel.

#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#ifdef __x86_64__
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
