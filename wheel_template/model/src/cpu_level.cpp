// src/cpu_level.cpp - detects the CPU levels: on x86-64 with CPUID, on Arm by asking the operating system.
//
// The features of each level are those of the x86-64 psABI (https://gitlab.com/x86-psABIs/x86-64-ABI), table 3.1; for
// the bits see CPUID in Intel's Software Developer's Manual, volume 2A. A CPU with AVX is not enough: the operating
// system must also save the wider registers, which XGETBV reports. On Arm the features are bits of AT_HWCAP, whose
// numbers are part of Linux's interface (Documentation/arch/arm64/elf_hwcaps.rst).
//
// The names are those of the rows in pipeline/modelwheel/resources/levels.toml; a test compares them.
#include "cpu_level.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif

namespace modelwheel {
namespace {

#if defined(__x86_64__)

struct Registers {
  std::uint32_t a, b, c, d;
};

Registers cpuid(std::uint32_t leaf) {
  Registers r{0, 0, 0, 0};
  if (__get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d) == 0) return {0, 0, 0, 0};
  return r;
}

std::uint64_t enabled_states() {
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

constexpr std::uint32_t bit(int n) { return std::uint32_t{1} << n; }

bool all(std::uint32_t value, std::uint32_t mask) { return (value & mask) == mask; }

/// 1 to 4, for the levels x86-64 to x86-64-v4.
int x86_64_level() {
  const Registers basic = cpuid(1), extended = cpuid(7), amd = cpuid(0x80000001);
  constexpr std::uint32_t sse3 = bit(0), ssse3 = bit(9), fma = bit(12), cx16 = bit(13), sse41 = bit(19),
                          sse42 = bit(20), movbe = bit(22), popcnt = bit(23), osxsave = bit(27), avx = bit(28),
                          f16c = bit(29);
  if (!all(basic.c, sse3 | ssse3 | cx16 | sse41 | sse42 | popcnt) || !all(amd.c, bit(0) /* lahf */)) return 1;

  constexpr std::uint32_t bmi1 = bit(3), avx2 = bit(5), bmi2 = bit(8);
  // XCR0: bits 1 and 2 are SSE and AVX state, bits 5 to 7 the mask registers and the upper parts of ZMM.
  constexpr std::uint64_t ymm_state = 0x06, zmm_state = 0xe6;
  if (!all(basic.c, fma | movbe | osxsave | avx | f16c) || !all(extended.b, bmi1 | avx2 | bmi2) ||
      !all(amd.c, bit(5) /* lzcnt */))
    return 2;
  const std::uint64_t states = enabled_states();
  if ((states & ymm_state) != ymm_state) return 2;

  constexpr std::uint32_t avx512 = bit(16) | bit(17) | bit(28) | bit(30) | bit(31);  // F, DQ, CD, BW, VL
  return all(extended.b, avx512) && (states & zmm_state) == zmm_state ? 4 : 3;
}

#elif defined(__aarch64__)

/// Whether the CPU has Armv8.2-A with the optional arithmetic on float16 and dot products of int8.
bool has_armv8_2_a_fp16_dotprod() {
#if defined(__linux__)
  constexpr auto bit = [](int n) { return 1UL << n; };
  // CRC32, LSE atomics and rounding doubling multiply, which are mandatory in Armv8.2-A; then scalar float16, vectors
  // of float16, dot products.
  constexpr unsigned long needed = bit(7) | bit(8) | bit(12) | bit(9) | bit(10) | bit(20);
  return (getauxval(AT_HWCAP) & needed) == needed;
#elif defined(__APPLE__)
  return true;  // every Arm CPU that runs macOS has them
#else
  return false;
#endif
}

#endif

}  // namespace

bool cpu_supports(const char *name) {
#if defined(__x86_64__)
  static constexpr const char *kNames[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  const int level = x86_64_level();
  for (int i = 0; i < level; ++i)
    if (std::strcmp(name, kNames[i]) == 0) return true;
  return false;
#elif defined(__aarch64__)
  return std::strcmp(name, "armv8-a") == 0 ||
         (std::strcmp(name, "armv8.2-a+fp16+dotprod") == 0 && has_armv8_2_a_fp16_dotprod());
#else
  (void)name;
  return false;
#endif
}

}  // namespace modelwheel
