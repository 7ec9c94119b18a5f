#include "kernels/cpu/amx.hpp"

#include <cpuid.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace troupe::kernels::cpu {

namespace {

// Linux, arch/x86/include/uapi/asm/prctl.h.
constexpr int request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr int tile_data = 18;               // XFEATURE_XTILEDATA

bool find_out() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0)
    return false;
  const unsigned avx512 = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;  // F, DQ, BW, VL in EBX
  const unsigned tiles = 1U << 22 | 1U << 24;                         // AMX-BF16, AMX-TILE in EDX
  if ((b & avx512) != avx512 || (d & tiles) != tiles)
    return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & 1U << 5) == 0)  // AVX512_BF16
    return false;
  // ONEDNN_MAX_CPU_ISA limits this code as well as oneDNN.
  if (dnnl_get_effective_cpu_isa() != dnnl_cpu_isa_avx512_core_amx)
    return false;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool multiplies_tiles() {
  static const bool found = find_out();
  return found;
}

}  // namespace troupe::kernels::cpu
