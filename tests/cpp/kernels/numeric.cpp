// numeric.cpp - the 16-bit floating-point types over all their values, and the state of random number generators.
#include "kernels/base/numeric.h"

#include <cmath>

#include "check.h"
#include "kernels/base/rng.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

/// The value of binary16 bits by the definition in IEEE 754.
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

/// Rounds to nearest, ties to even, among the values of a type given by its bits.
template <class To, class FromBits>
void check_rounding(To convert, FromBits value_of) {
  for (std::uint32_t bits = 0; bits < 0x7FFF; ++bits) {
    const float low = value_of(static_cast<std::uint16_t>(bits)), high = value_of(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const float middle = low + (high - low) / 2;
    CHECK(convert(low).bits == bits);
    CHECK(convert(-low).bits == (bits | 0x8000U));
    CHECK(convert(middle).bits == bits + (bits & 1U));
    CHECK(convert(std::nextafter(middle, low)).bits == bits);
    CHECK(convert(std::nextafter(middle, high)).bits == bits + 1);
  }
}

}  // namespace

KERNEL_TEST(numeric) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const F16 half{static_cast<std::uint16_t>(bits)};
    const double expected = half_value(half.bits), value = static_cast<double>(to_float(half));
    CHECK(std::isnan(expected) ? std::isnan(value) : !(value < expected) && !(value > expected));
    CHECK(std::isnan(expected) || std::signbit(value) == std::signbit(expected));
    if (std::isnan(expected)) CHECK(std::isnan(to_float(to_f16(to_float(half)))));
    const BF16 brief{half.bits};
    if (std::isnan(to_float(brief))) CHECK(std::isnan(to_float(to_bf16(to_float(brief)))));
  }
  check_rounding(to_f16, [](std::uint16_t bits) { return to_float(F16{bits}); });
  check_rounding(to_bf16, [](std::uint16_t bits) { return to_float(BF16{bits}); });
  CHECK(to_f16(65519.99F).bits == 0x7BFF);
  CHECK(to_f16(65520.0F).bits == 0x7C00);
  CHECK(to_f16(INFINITY).bits == 0x7C00);
  CHECK(to_f16(-1e30F).bits == 0xFC00);
  CHECK(to_bf16(3.4e38F).bits == 0x7F80);
  CHECK(to_bf16(-INFINITY).bits == 0xFF80);
}

KERNEL_INSTANCES(get_and_update_state)

KERNEL_TEST(rng) {
  Buffer<std::uint64_t> state(2), out(2);
  state[0] = 0x7012395;
  state[1] = 0;
  get_and_update_state(state.data(), 3, out.data());
  CHECK(out[0] == 0x7012395 && out[1] == 0);
  CHECK(state[0] == 0x7012398 && state[1] == 0);
  state[0] = ~std::uint64_t{0} - 1;
  state[1] = 7;
  get_and_update_state(state.data(), 2, out.data());
  CHECK(out[0] == ~std::uint64_t{0} - 1 && out[1] == 7);
  CHECK(state[0] == 0 && state[1] == 8);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
