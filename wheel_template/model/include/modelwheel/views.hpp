// modelwheel/views.hpp - inputs that are not dense: arrays of structures, and structures of arrays.
//
//   struct Hit { float x, y; int id; };
//   const Hit *hits;                     // input [batch, 2]: x and y of each hit
//   model.run_views(n, {modelwheel::strided(&hits->x, {sizeof(Hit), sizeof(float)})}, {scores});
//
//   const float *columns[] = {pt, eta, phi};  // input [batch, 3]: an array for each feature
//   model.run_views(n, {modelwheel::columns(columns)}, {scores});
#ifndef MODELWHEEL_VIEWS_HPP
#define MODELWHEEL_VIEWS_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "modelwheel/abi.h"
#include "modelwheel/buffer.hpp"
#include "modelwheel/instance.hpp"

namespace modelwheel {

/// An input as it is in memory, which must outlive it.
class View {
 public:
  static constexpr std::size_t kMostAxes = 8;

  /// A dense buffer: std::vector, std::array, AlignedVector, ...
  View(InputBuffer buffer) : view_{buffer.data, nullptr, nullptr}, dtype_(buffer.dtype), count_(buffer.size) {}
  template <class Container, class = std::enable_if_t<std::is_constructible_v<InputBuffer, Container &&>>>
  View(Container &&container) : View(InputBuffer(std::forward<Container>(container))) {}

  /// For `strided` and `columns`.
  View(const void *data, std::initializer_list<std::ptrdiff_t> strides, modelwheel_dtype dtype)
      : view_{data, nullptr, nullptr}, dtype_(dtype), kind_(Kind::kStrides), count_(strides.size()) {
    if (count_ > kMostAxes) throw Error("a view has more than " + std::to_string(kMostAxes) + " strides");
    std::copy(strides.begin(), strides.end(), strides_.begin());
  }
  View(const void *const *columns, std::size_t count, modelwheel_dtype dtype)
      : view_{nullptr, nullptr, columns}, dtype_(dtype), kind_(Kind::kColumns), count_(count) {}

  /// The view for the C interface; this object must outlive it.
  modelwheel_view get() const {
    return {view_.data, kind_ == Kind::kStrides ? strides_.data() : nullptr, view_.columns};
  }

  modelwheel_dtype dtype() const { return dtype_; }

  /// What is wrong with it for a tensor with so many rows, as a clause; "" if nothing is. Of memory, only the size of
  /// dense buffers is known.
  std::string problem(const modelwheel_tensor &tensor, std::size_t rows) const {
    const auto differs = [this](std::size_t expected, const char *what) {
      return count_ == expected ? std::string()
                                : "must have " + std::to_string(expected) + what + ", got " + std::to_string(count_);
    };
    if (kind_ == Kind::kDense) return differs(tensor_elements(tensor, rows), " elements");
    if (kind_ == Kind::kStrides) return differs(tensor.rank, " strides");
    if (tensor.rank == 0) return "has no axis and takes no columns";
    const std::int64_t last = tensor.shape[tensor.rank - 1];
    return differs(last < 0 ? rows * tensor.leading_per_row : static_cast<std::size_t>(last), " columns");
  }

 private:
  enum class Kind { kDense, kStrides, kColumns };

  modelwheel_view view_;
  modelwheel_dtype dtype_;
  Kind kind_ = Kind::kDense;
  std::size_t count_;
  std::array<std::ptrdiff_t, kMostAxes> strides_{};
};

/// Elements at regular distances: the bytes from one place to the next along each axis.
template <class T>
View strided(const T *data, std::initializer_list<std::ptrdiff_t> strides) {
  return {data, strides, dtype_of<T>()};
}

/// One dense array for each place of the last axis. The pointers must outlive the view.
template <class T>
View columns(Span<const T *const> pointers) {
  return {reinterpret_cast<const void *const *>(pointers.data()), pointers.size(), dtype_of<T>()};
}
template <class T, std::size_t kCount>
View columns(const T *const (&pointers)[kCount]) {
  return columns<T>(Span<const T *const>(pointers));
}

}  // namespace modelwheel

#endif  // MODELWHEEL_VIEWS_HPP
