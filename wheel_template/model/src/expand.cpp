// src/expand.cpp - expands stored weights: 16-bit floats, and 8-bit integers with scales.
#include "expand.h"

#include <cstdint>
#include <cstring>

#include "program.h"

namespace modelwheel {
namespace {

template <class T>
T read(const char *place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

/// The value of a finite float16 (IEEE 754 binary16).
float widen(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16, rest = half & 0x7fffU;
  const float subnormal = static_cast<float>(rest) * 0x1p-24F;
  std::uint32_t bits = (rest << 13) + ((127U - 15U) << 23);
  if (rest < 0x400U) std::memcpy(&bits, &subnormal, sizeof bits);
  bits |= sign;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void expand_float16(const StoredConstant &constant, const char *from, float *to) {
  for (std::size_t i = 0; i < constant.count; ++i) to[i] = widen(read<std::uint16_t>(from + 2 * i));
}

void expand_int8(const StoredConstant &constant, const char *from, float *to) {
  const auto *integers = reinterpret_cast<const signed char *>(from);
  const char *scales = tables.stored_weights + constant.scales;
  std::size_t i = 0;
  while (i < constant.count)
    for (std::size_t channel = 0; channel < constant.channels; ++channel) {
      const float scale = read<float>(scales + channel * sizeof scale);
      for (const std::size_t end = i + constant.inner; i < end; ++i) to[i] = static_cast<float>(integers[i]) * scale;
    }
}

}  // namespace

bool expand_weights() {
  for (std::size_t i = 0; i < tables.num_stored; ++i) {
    const StoredConstant &constant = tables.stored[i];
    const char *from = tables.stored_weights + constant.place;
    char *to = tables.expanded + constant.offset;
    switch (constant.as) {
      case StoredAs::kPlain: std::memcpy(to, from, constant.count); break;
      case StoredAs::kFloat16: expand_float16(constant, from, reinterpret_cast<float *>(to)); break;
      case StoredAs::kInt8: expand_int8(constant, from, reinterpret_cast<float *>(to)); break;
    }
  }
  return true;
}

}  // namespace modelwheel
