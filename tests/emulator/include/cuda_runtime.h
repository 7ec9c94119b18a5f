// The CUDA language and runtime as the emulated device knows them, for g++.
//
// Sources of kernels/cuda, runtime/device/cuda and runtime/collective/nccl are compiled a second
// time with this folder first in the include path; linked to troupe_emulator they run on threads of
// the host. Names, values and meanings are those of NVIDIA's public documentation, the text is
// ours, and only what those sources use is here. What differs from a device:
// tests/emulator/README.md.

#pragma once

#include "emulated/atomics.h"
#include "emulated/intrinsics.h"
#include "emulated/language.h"
#include "emulated/launch.h"
#include "emulated/runtime_api.h"
#include "emulated/vector_types.h"
#include "emulated/warp.h"
