#include "kernels/cuda/route.cu"
