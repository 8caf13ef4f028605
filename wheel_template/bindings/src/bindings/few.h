// src/bindings/few.h - arrays whose size a model decides, without an allocation where they are small.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace modelwheel {

/// A fixed number of values, zero at first.
template <class T>
class Few {
 public:
  explicit Few(std::size_t count) {
    if (count > here_.size()) elsewhere_.resize(count);
  }

  T *data() { return elsewhere_.empty() ? here_.data() : elsewhere_.data(); }
  T &operator[](std::size_t index) { return data()[index]; }

 private:
  std::array<T, 8> here_{};
  std::vector<T> elsewhere_;
};

}  // namespace modelwheel
