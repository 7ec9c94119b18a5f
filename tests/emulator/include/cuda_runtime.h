// The CUDA language and runtime of the emulated device, for g++.
//
// The sources of kernels/cuda, runtime/device/cuda and runtime/collective/nccl are compiled a
// second time with this folder first in the include path. Linked to troupe_emulator, they run on
// host threads. Names, values and meanings follow NVIDIA's public documentation; only the parts
// that these sources use exist. tests/emulator/README.md lists the differences from a device.

#pragma once

#include "emulated/atomics.h"
#include "emulated/intrinsics.h"
#include "emulated/language.h"
#include "emulated/launch.h"
#include "emulated/runtime_api.h"
#include "emulated/vector_types.h"
#include "emulated/warp.h"
