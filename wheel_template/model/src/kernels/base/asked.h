// src/kernels/base/asked.h - instructions beside those of a level, for which its code asks the CPU.
//
// AVX512-VNNI and AMX are not part of any level. Code of x86-64-v4 asks once for each, in a function of its own that
// callers of `has_vnni` and `has_amx_int8` refer to: so an audit sees that what leads to such instructions asks.
#pragma once

#include "kernels/base/level.h"

#if defined(__AVX512BW__)
#include <cpuid.h>

namespace modelwheel::MODELWHEEL_LEVEL {

/// Features beside the level: bits of registers C and D of CPUID's leaf 7.
struct Features {
  unsigned c, d;
};

/// It is part of its callers.
MODELWHEEL_INLINE bool cpu_has(Features features) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid_count(7, 0, a, b, c, d);
  return (c & features.c) == features.c && (d & features.d) == features.d;
}

MODELWHEEL_COLD MODELWHEEL_NOINLINE inline bool ask_for_vnni() { return cpu_has({1U << 11, 0}); }

/// Whether the system saves the registers of AMX and lets this process use them. Linux must be asked, as signals need
/// larger stacks then: it refuses if one that is in use is too small. All threads have the permission. Other systems
/// are not known to allow it.
MODELWHEEL_INLINE bool permits_tiles() {
#if defined(__linux__)
  // What XCR0 has: that the configuration of tiles and their contents are saved.
  constexpr std::uint32_t kSaved = 3U << 17;
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kSaved) != kSaved) return false;
  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), which C libraries do not declare.
  std::int64_t result = 158;
  asm volatile("syscall" : "+a"(result) : "D"(std::int64_t{0x1023}), "S"(std::int64_t{18}) : "rcx", "r11", "memory");
  return result == 0;
#else
  return false;
#endif
}

/// AMX-TILE and AMX-INT8.
MODELWHEEL_COLD MODELWHEEL_NOINLINE inline bool ask_for_amx_int8() {
  return cpu_has({0, 1U << 24 | 1U << 25}) && permits_tiles();
}

/// The answer to a question, which is asked once.
template <bool (*kAsk)()>
MODELWHEEL_INLINE bool answer_to() {
  static int answer = -1;
  int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
  if (known < 0) {
    known = kAsk() ? 1 : 0;
    __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
  }
  return known == 1;
}

/// Whether this CPU, which has the level's instructions, has AVX512-VNNI.
MODELWHEEL_INLINE bool has_vnni() { return answer_to<ask_for_vnni>(); }

/// Whether this CPU has AMX for 8-bit integers, and the system lets this process use it.
MODELWHEEL_INLINE bool has_amx_int8() { return answer_to<ask_for_amx_int8>(); }

}  // namespace modelwheel::MODELWHEEL_LEVEL
#endif
