// src/profile.h - adds up what each step of a generated function takes.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#include <x86intrin.h>
#elif !defined(__aarch64__)
#include <chrono>
#endif

namespace modelwheel {

/// As many steps as a program may have; later ones are counted as the last.
inline constexpr std::uint32_t max_steps = 1 << 16;

extern "C" std::uint64_t modelwheel_step_ticks[max_steps];
extern "C" std::uint64_t modelwheel_step_runs[max_steps];
/// The clock at the end of the step before, on this thread.
[[maybe_unused]] static thread_local std::uint64_t step_start;

/// A counter of the CPU that runs at a constant rate; it costs some nanoseconds.
[[maybe_unused]] static std::uint64_t ticks() {
#if defined(__x86_64__) || defined(_M_X64)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

[[maybe_unused]] static void start_of_steps() { step_start = ticks(); }

[[maybe_unused]] static void end_of_step(std::uint32_t number) {
  const std::uint64_t now = ticks();
  number = number < max_steps ? number : max_steps - 1;
  modelwheel_step_ticks[number] += now - step_start;
  modelwheel_step_runs[number] += 1;
  step_start = now;
}

}  // namespace modelwheel
