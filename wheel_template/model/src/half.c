/* src/half.c - converts float16 for machine code for Windows, at CPU levels that have no instructions for it.
 *
 * A float16 is in the lower half of a vector register, as LLVM passes it, so C sees it as part of a float. Results are
 * rounded to the nearest, ties to even, and a NaN is made quiet, as the instructions do. */
#include <math.h>
#include <stdint.h>
#include <string.h>

float modelwheel_half_to_float(float half);
float modelwheel_float_to_half(float value);
float modelwheel_double_to_half(double value);

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float modelwheel_half_to_float(float half) {
  const uint32_t bits = bits_of(half) & 0xffff, sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude > 0x7c00) return float_of(sign | 0x7fc00000 | magnitude << 13);
  if (magnitude == 0x7c00) return float_of(sign | 0x7f800000);
  if (magnitude >= 0x400) return float_of(sign | ((magnitude << 13) + 0x38000000));
  return float_of(sign | bits_of((float)magnitude * 0x1p-24f));
}

float modelwheel_float_to_half(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | (magnitude >> 13 & 0x3ff);
  } else if (magnitude >= 0x477ff000) { /* halfway from the largest float16 to the next power of two */
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {
    half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else if (magnitude <= 0x33000000) { /* half of the smallest float16 */
    half = 0;
  } else {
    const uint32_t shift = 126 - (magnitude >> 23), mantissa = (magnitude & 0x7fffff) | 0x800000;
    half = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
  }
  return float_of(sign | half);
}

/* Rounding twice is rounding once if the first result is odd where it is not exact. */
float modelwheel_double_to_half(double value) {
  const float nearest = (float)value;
  uint32_t bits = bits_of(nearest);
  if (nearest < value || nearest > value) {
    if (fabs(nearest) > fabs(value)) --bits;
    bits |= 1;
  }
  return modelwheel_float_to_half(float_of(bits));
}
