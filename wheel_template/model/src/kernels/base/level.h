// src/kernels/base/level.h - the CPU level that a file is compiled for: its namespace and its vectors.
//
// One generated file for each level includes the kernels and is compiled with the instructions of that level. Those
// that take long to compile are declared `extern template`, and defined by a source of their own for each level and
// element type (MODELWHEEL_ELEMENT). All levels are linked into one library. Therefore every function is in the
// namespace of its level: the linker would merge an inline function that two levels share, and a baseline CPU might
// then run the copy for AVX-512. For the same reason no kernel uses templates or inline functions of namespace std.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef MODELWHEEL_LEVEL
#error "Define MODELWHEEL_LEVEL as the level's identifier, such as -DMODELWHEEL_LEVEL=x86_64_v3."
#endif

/// For small helpers with vector arguments, which a call would spill to memory.
#define MODELWHEEL_INLINE __attribute__((always_inline)) inline
/// For large loops: one copy of each, even if the generated code has many calls. GCC would put a copy for constant
/// arguments into the group of the original, which then stays in the library although nothing calls it.
#if defined(__clang__)
#define MODELWHEEL_NOINLINE __attribute__((noinline))
#else
#define MODELWHEEL_NOINLINE __attribute__((noinline, noclone))
#endif
/// For decisions that no loop waits for: small rather than quick.
#define MODELWHEEL_COLD __attribute__((cold))
/// Before a loop with constant bounds that indexes an array of vectors: unrolled, the array stays in registers.
#define MODELWHEEL_UNROLL _Pragma("GCC unroll 16")

namespace modelwheel::MODELWHEEL_LEVEL {

/// Bytes of the widest vector that the level uses; levels.toml has the same numbers, which a test compares.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

/// Number of vector registers.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorRegisters = 16;
#endif

/// The number of elements of type T in a vector.
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

/// A vector of `Lanes` elements, and the same type with the alignment of one element, for reading and writing memory.
template <class T, int Lanes>
struct VectorTypes {
  typedef T value __attribute__((vector_size(Lanes * sizeof(T))));
  typedef T memory __attribute__((vector_size(Lanes * sizeof(T)), aligned(alignof(T)), may_alias));
};

template <class T, int Lanes = kLanes<T>>
using Vector = typename VectorTypes<T, Lanes>::value;

template <class T, int Lanes = kLanes<T>>
MODELWHEEL_INLINE Vector<T, Lanes> load(const T *from) {
  return *reinterpret_cast<const typename VectorTypes<T, Lanes>::memory *>(from);
}

template <class T, int Lanes = kLanes<T>>
MODELWHEEL_INLINE void store(T *to, Vector<T, Lanes> value) {
  *reinterpret_cast<typename VectorTypes<T, Lanes>::memory *>(to) = value;
}

/// A vector with all lanes equal. Compilers can remove the subtraction of zero, but not an addition: -0 + 0 is +0.
template <class T, int Lanes = kLanes<T>>
MODELWHEEL_INLINE Vector<T, Lanes> splat(T value) {
  return value - Vector<T, Lanes>{};
}

/// The elements of a vector as another type. GCC has the builtin from version 9 on.
template <class To, int Lanes, class From>
MODELWHEEL_INLINE Vector<To, Lanes> cast_lanes(const From &from) {
#if defined(__clang__) || __GNUC__ >= 9
  return __builtin_convertvector(from, Vector<To, Lanes>);
#else
  Vector<To, Lanes> to{};
  for (int i = 0; i < Lanes; ++i) to[i] = static_cast<To>(from[i]);
  return to;
#endif
}

/// Makes the compiler keep a value in a register.
template <class V>
MODELWHEEL_INLINE void pin([[maybe_unused]] V &value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#elif defined(__SSE2__)
  asm("" : "+x"(value));
#elif defined(__aarch64__)
  asm("" : "+w"(value));
#endif
}

/// Makes the compiler load a vector once; GCC would otherwise read memory again for each of a few uses.
template <class V>
MODELWHEEL_INLINE void keep_in_register(V &vector) {
  if constexpr (sizeof(V) == sizeof(vector[0])) {
    auto lane = vector[0];  // no register is for vectors of one lane
    pin(lane);
    vector[0] = lane;
  } else {
    pin(vector);
  }
}

template <class T>
constexpr T smaller_of(T a, T b) {
  return b < a ? b : a;
}

template <class T>
constexpr T larger_of(T a, T b) {
  return a < b ? b : a;
}

/// a / b rounded up; for a >= 0 and b > 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// a / b rounded down; for b > 0.
constexpr std::int64_t divide_down(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -divide_up(-a, b); }

/// The bytes of `count` elements, rounded up so that the next piece of scratch memory is 64-byte aligned.
template <class T>
constexpr std::size_t scratch_bytes(std::int64_t count) {
  return (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
}

/// Divides scratch memory into pieces, each 64-byte aligned.
class Scratch {
 public:
  explicit Scratch(void *memory) : next_(static_cast<char *>(memory)) {}

  template <class T>
  T *take(std::int64_t count) {
    T *piece = reinterpret_cast<T *>(next_);
    next_ += scratch_bytes<T>(count);
    return piece;
  }

 private:
  char *next_;
};

}  // namespace modelwheel::MODELWHEEL_LEVEL
