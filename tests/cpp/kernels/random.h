// random.h - reproducible random values, and buffers that end where their last element ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "kernels/base/numeric.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// A 64-bit linear congruential generator (Knuth's MMIX constants).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  /// Uniform in [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return integer(1, 100) <= percent; }
  /// Uniform in [-1, 1).
  double real() { return static_cast<double>(bits()) / 2147483648.0 - 1; }

  void draw(float &value) { value = static_cast<float>(real()); }
  void draw(double &value) { value = real(); }
  void draw(F16 &value) { value = to_f16(static_cast<float>(real())); }
  void draw(BF16 &value) { value = to_bf16(static_cast<float>(real())); }
  template <class T>
  void draw(Complex<T> &value) {
    draw(value.re);
    draw(value.im);
  }
  template <class T>
  void draw(T &value) {
    value = static_cast<T>(bits());
  }

  template <class T, std::size_t N>
  const T &pick(const T (&choices)[N]) {
    return choices[integer(0, static_cast<std::int64_t>(N) - 1)];
  }

 private:
  std::uint64_t state_;
};

/// Memory whose every byte is 0xFF at first (NaN for floats), 64-byte aligned, with nothing after its last element:
/// an address sanitizer sees any access past it.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t size) : size_(size) {
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    void *memory = nullptr;
    if (posix_memalign(&memory, 64, bytes > 0 ? bytes : 1) != 0) throw std::bad_alloc();
    std::memset(memory, 0xFF, bytes);
    data_ = static_cast<T *>(memory);
  }
  Buffer(const Buffer &other) : Buffer(other.size_) {
    std::memcpy(static_cast<void *>(data_), other.data_, static_cast<std::size_t>(size_) * sizeof(T));
  }
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { std::free(data_); }

  T *data() { return data_; }
  const T *data() const { return data_; }
  std::int64_t size() const { return size_; }
  T &operator[](std::int64_t i) { return data_[i]; }
  const T &operator[](std::int64_t i) const { return data_[i]; }
  T *begin() { return data_; }
  T *end() { return data_ + size_; }

  void fill(Random &random) {
    for (T &element : *this) random.draw(element);
  }

 private:
  std::int64_t size_;
  T *data_;
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
