// The part of the runtime that needs no CUDA language.

#pragma once

#include "emulated/runtime_api.h"
