// src/cpu_level.cpp - the x86-64 micro-architecture levels, by cpuid.
//
// Feature lists are those of the x86-64 psABI (https://gitlab.com/x86-psABIs/x86-64-ABI), table 3.1; register
// layouts those of Intel's Software Developer's Manual, volume 2A, CPUID. The operating system must also save
// the wider registers, which XGETBV tells.
#include "cpu_level.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__) || defined(_M_X64)
#define MODELWHEEL_X86_64
#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#endif

namespace modelwheel {
namespace {

#ifdef MODELWHEEL_X86_64

struct Registers {
  std::uint32_t a, b, c, d;
};

Registers cpuid(std::uint32_t leaf) {
  Registers r{0, 0, 0, 0};
#ifdef _MSC_VER
  int values[4];
  __cpuid(values, static_cast<int>(leaf & 0x80000000U));
  if (static_cast<std::uint32_t>(values[0]) < leaf) return r;
  __cpuidex(values, static_cast<int>(leaf), 0);
  std::memcpy(&r, values, sizeof r);
#else
  if (__get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d) == 0) return {0, 0, 0, 0};
#endif
  return r;
}

std::uint64_t enabled_states() {
#ifdef _MSC_VER
  return _xgetbv(0);
#else
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
#endif
}

constexpr std::uint32_t bit(int n) { return std::uint32_t{1} << n; }

bool all(std::uint32_t value, std::uint32_t mask) { return (value & mask) == mask; }

/// 1 to 4 for the levels x86-64 to x86-64-v4.
int x86_64_level() {
  const Registers basic = cpuid(1), extended = cpuid(7), amd = cpuid(0x80000001);
  constexpr std::uint32_t sse3 = bit(0), ssse3 = bit(9), fma = bit(12), cx16 = bit(13), sse41 = bit(19),
                          sse42 = bit(20), movbe = bit(22), popcnt = bit(23), osxsave = bit(27), avx = bit(28),
                          f16c = bit(29);
  if (!all(basic.c, sse3 | ssse3 | cx16 | sse41 | sse42 | popcnt) || !all(amd.c, bit(0) /* lahf */)) return 1;

  constexpr std::uint32_t bmi1 = bit(3), avx2 = bit(5), bmi2 = bit(8);
  constexpr std::uint64_t ymm_state = 0x06, zmm_state = 0xe6;
  if (!all(basic.c, fma | movbe | osxsave | avx | f16c) || !all(extended.b, bmi1 | avx2 | bmi2) ||
      !all(amd.c, bit(5) /* lzcnt */))
    return 2;
  const std::uint64_t states = enabled_states();
  if ((states & ymm_state) != ymm_state) return 2;

  constexpr std::uint32_t avx512 = bit(16) | bit(17) | bit(28) | bit(30) | bit(31);  // F, DQ, CD, BW, VL
  return all(extended.b, avx512) && (states & zmm_state) == zmm_state ? 4 : 3;
}

#endif

}  // namespace

bool cpu_supports(const char *name) {
#ifdef MODELWHEEL_X86_64
  static constexpr const char *kNames[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  const int level = x86_64_level();
  for (int i = 0; i < level; ++i)
    if (std::strcmp(name, kNames[i]) == 0) return true;
  return false;
#elif defined(__aarch64__) || defined(_M_ARM64)
  return std::strcmp(name, "armv8-a") == 0;
#else
  (void)name;
  return false;
#endif
}

}  // namespace modelwheel
