// modelwheel/buffer.hpp - memory that models read and write, together with its element type.
#ifndef MODELWHEEL_BUFFER_HPP
#define MODELWHEEL_BUFFER_HPP

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "modelwheel/abi.h"

namespace modelwheel {

/// The element type that C++ type T stands for. 16-bit floats are passed as their bits, see `stores`.
template <class T>
constexpr modelwheel_dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return MODELWHEEL_BOOL;
  } else if constexpr (std::is_same_v<T, float>) {
    return MODELWHEEL_FLOAT32;
  } else if constexpr (std::is_same_v<T, double>) {
    return MODELWHEEL_FLOAT64;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return MODELWHEEL_COMPLEX64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return MODELWHEEL_COMPLEX128;
  } else {
    static_assert(std::is_integral_v<T> && sizeof(T) <= 8, "no model has elements of this type");
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return is_signed ? MODELWHEEL_INT8 : MODELWHEEL_UINT8;
    if constexpr (sizeof(T) == 2) return is_signed ? MODELWHEEL_INT16 : MODELWHEEL_UINT16;
    if constexpr (sizeof(T) == 4) return is_signed ? MODELWHEEL_INT32 : MODELWHEEL_UINT32;
    return is_signed ? MODELWHEEL_INT64 : MODELWHEEL_UINT64;
  }
}

/// Whether memory of element type `given` can be used for a tensor of type `expected`.
constexpr bool stores(modelwheel_dtype given, modelwheel_dtype expected) {
  const bool bits = expected == MODELWHEEL_FLOAT16 || expected == MODELWHEEL_BFLOAT16;
  return given == (bits ? MODELWHEEL_UINT16 : expected);
}

/// NumPy's name of an element type.
constexpr const char *dtype_name(modelwheel_dtype dtype) {
  switch (dtype) {
    case MODELWHEEL_BOOL: return "bool";
    case MODELWHEEL_INT8: return "int8";
    case MODELWHEEL_INT16: return "int16";
    case MODELWHEEL_INT32: return "int32";
    case MODELWHEEL_INT64: return "int64";
    case MODELWHEEL_UINT8: return "uint8";
    case MODELWHEEL_UINT16: return "uint16";
    case MODELWHEEL_UINT32: return "uint32";
    case MODELWHEEL_UINT64: return "uint64";
    case MODELWHEEL_FLOAT16: return "float16";
    case MODELWHEEL_FLOAT32: return "float32";
    case MODELWHEEL_FLOAT64: return "float64";
    case MODELWHEEL_COMPLEX64: return "complex64";
    case MODELWHEEL_BFLOAT16: return "bfloat16";
    case MODELWHEEL_COMPLEX128: return "complex128";
  }
  return "unknown";
}

/// The number of elements of a tensor with `rows` rows.
constexpr std::size_t tensor_elements(const modelwheel_tensor &tensor, std::size_t rows) {
  return tensor.leading_per_row == 0 ? tensor.row_elements : rows * tensor.row_elements;
}

/// The number of bytes of a tensor with `rows` rows.
constexpr std::size_t tensor_bytes(const modelwheel_tensor &tensor, std::size_t rows) {
  return tensor_elements(tensor, rows) * tensor.item_bytes;
}

/// A view of contiguous elements, which must outlive the span. Like std::span of C++20, but part of this header so that
/// the interface is the same under every standard.
template <class T>
class Span {
 public:
  constexpr Span() noexcept = default;
  constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

  /// From std::vector, std::array, std::span, AlignedVector, a C array, ...
  template <class Container, class Element = std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))>,
            class = std::enable_if_t<std::is_convertible_v<Element (*)[], T (*)[]>>>
  constexpr Span(Container &&container) noexcept : data_(std::data(container)), size_(std::size(container)) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](std::size_t index) const { return data_[index]; }

 private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

/// A fixed number of elements, zero at first, at an address that models use in place.
template <class T>
class AlignedVector {
  static_assert(std::is_trivially_copyable_v<T>, "elements are plain numbers");

 public:
  AlignedVector() = default;

  explicit AlignedVector(std::size_t size)
      : data_(static_cast<T *>(::operator new(size * sizeof(T), std::align_val_t{MODELWHEEL_ALIGNMENT}))), size_(size) {
    std::uninitialized_value_construct_n(data_.get(), size);
  }

  AlignedVector(const AlignedVector &other) : AlignedVector(other.size_) {
    std::copy(other.begin(), other.end(), begin());
  }

  AlignedVector(AlignedVector &&other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}

  AlignedVector &operator=(AlignedVector other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  ~AlignedVector() = default;

  T *data() noexcept { return data_.get(); }
  const T *data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  T *begin() noexcept { return data(); }
  const T *begin() const noexcept { return data(); }
  T *end() noexcept { return data() + size_; }
  const T *end() const noexcept { return data() + size_; }
  T &operator[](std::size_t index) { return data()[index]; }
  const T &operator[](std::size_t index) const { return data()[index]; }

 private:
  struct Free {
    void operator()(T *data) const noexcept { ::operator delete(data, std::align_val_t{MODELWHEEL_ALIGNMENT}); }
  };

  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

/// The memory of one tensor of any element type. Converts implicitly from any container of contiguous elements.
template <class Void>
struct Buffer {
  Void *data;
  std::size_t size;  ///< in elements
  modelwheel_dtype dtype;

  template <class Container, class Element = std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))>>
  Buffer(Container &&container)
      : data(std::data(container)), size(std::size(container)), dtype(dtype_of<std::remove_cv_t<Element>>()) {}
};

using InputBuffer = Buffer<const void>;
using OutputBuffer = Buffer<void>;

}  // namespace modelwheel

#endif  // MODELWHEEL_BUFFER_HPP
