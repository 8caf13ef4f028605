// modelwheel/pybind11.hpp - models in pybind11 modules: NumPy arrays in place, without the GIL.
//
// The header of a model (model_digits_pybind11.hpp) derives a class from ArrayModel that knows the names and types.
#ifndef MODELWHEEL_PYBIND11_HPP
#define MODELWHEEL_PYBIND11_HPP

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "modelwheel/model.hpp"

namespace modelwheel {

/// An element of NumPy's float16, which C++17 has no type for.
struct Half {
  std::uint16_t bits;
};

}  // namespace modelwheel

template <>
struct pybind11::detail::npy_format_descriptor<modelwheel::Half> {
  static constexpr auto name = const_name("numpy.float16");
  static pybind11::dtype dtype() { return pybind11::dtype("float16"); }
};

namespace modelwheel {

/// A C-contiguous array. As a parameter of a function of a module it takes what NumPy converts safely, by a copy; with
/// `py::arg("x").noconvert()` only an array of this element type, in place.
template <class T>
using Array = pybind11::array_t<T, pybind11::array::c_style>;

/// A model that any of Python's threads may call at any time: calls of one object wait for each other, without the GIL.
class ArrayModel {
 public:
  /// Raises ValueError if this CPU lacks the level.
  ArrayModel(const modelwheel_api &api, const char *level)
      : api_(&api), table_(api), model_(translated([&] { return Model(api, level); })) {}

  /// The model itself, for batch rules and the like; not while a call is under way.
  Model &model() { return model_; }

 protected:
  /// What the arrays of a call say.
  struct Call {
    std::size_t rows = 1, length = 0;
  };

  /// Raises ValueError unless the arrays have the shapes of the inputs.
  Call check(std::initializer_list<const pybind11::array *> arrays) const {
    const pybind11::array *const *const given = arrays.begin();
    Call call;
    for (std::size_t i = 0; table_.count != 0 && call.length == 0 && i < api_->num_inputs; ++i)
      for (std::size_t axis = 0; axis < api_->inputs[i].rank; ++axis)
        if (table_.inputs[i][axis].per_length != 0 && given[i]->ndim() == rank(api_->inputs[i]))
          call.length = extent(*given[i], axis);
    if (table_.count != 0 && (call.length < 1 || call.length > table_.largest()))
      throw pybind11::value_error(model_.name() + ": lengths from 1 to " + std::to_string(table_.largest()) +
                                  " were compiled, got " + std::to_string(call.length));
    const TensorsAt tensors(api_->inputs, api_->num_inputs, table_.inputs, call.length);
    bool found = false;
    for (std::size_t i = 0; i < api_->num_inputs; ++i) {
      const modelwheel_tensor &tensor = tensors[i];
      if (found || tensor.leading_per_row == 0 || given[i]->ndim() != rank(tensor)) continue;
      call.rows = extent(*given[i], batch_axis(tensor)) / tensor.leading_per_row;
      found = true;
    }
    for (std::size_t i = 0; i < api_->num_inputs; ++i) require_shape(tensors[i], call, *given[i]);
    for (std::size_t i = 0; call.rows == 0 && i < api_->num_outputs; ++i)
      if (api_->outputs[i].leading_per_row == 0)
        throw pybind11::value_error(model_.name() + ": output '" + api_->outputs[i].name +
                                    "' has a fixed shape: pass at least one row");
    return call;
  }

  /// A new array for an output, at an address that the model writes to in place. Its contents are undefined.
  template <class T>
  Array<T> output(std::size_t index, const Call &call) const {
    const TensorsAt tensors(api_->outputs, api_->num_outputs, table_.outputs, call.length);
    const modelwheel_tensor &tensor = tensors[index];
    if (tensor.row_bytes != 0 && call.rows > PTRDIFF_MAX / tensor.row_bytes) throw std::bad_alloc();
    constexpr std::align_val_t kAlignment{MODELWHEEL_ALIGNMENT};
    void *const memory = ::operator new(tensor_bytes(tensor, call.rows), kAlignment);
    try {
      const pybind11::capsule owner(memory, [](void *old) { ::operator delete(old, kAlignment); });
      return Array<T>(shape_of(tensor, call), static_cast<const T *>(memory), owner);
    } catch (const pybind11::error_already_set &) {
      throw;  // of the array: the capsule has freed the memory
    }
  }

  /// Evaluates the model with the memory of arrays that were checked, and of new ones.
  void run(const Call &call, std::initializer_list<InputBuffer> inputs, std::initializer_list<OutputBuffer> outputs) {
    translated([&] {
      const pybind11::gil_scoped_release others_may_run;
      const std::lock_guard<std::mutex> alone(mutex_);
      if (table_.count == 0) return model_.run(call.rows, inputs, outputs);
      model_.run_length(call.rows, call.length, inputs, outputs);
    });
  }

  template <class T>
  static Span<const T> input(const Array<T> &array) {
    return {array.data(), static_cast<std::size_t>(array.size())};
  }
  static Span<const std::uint16_t> input(const Array<Half> &array) {
    return {&array.data()->bits, static_cast<std::size_t>(array.size())};
  }
  template <class T>
  static Span<T> target(Array<T> &array) {
    return {array.mutable_data(), static_cast<std::size_t>(array.size())};
  }
  static Span<std::uint16_t> target(Array<Half> &array) {
    return {&array.mutable_data()->bits, static_cast<std::size_t>(array.size())};
  }

 private:
  /// Failures as exceptions that pybind11 translates: most are mistakes of the caller.
  template <class Function>
  static auto translated(const Function &function) -> decltype(function()) {
    try {
      return function();
    } catch (const Error &error) {
      if (error.status() == MODELWHEEL_OUT_OF_MEMORY) throw std::bad_alloc();
      if (error.status() == MODELWHEEL_INTERNAL) throw;  // RuntimeError
      throw pybind11::value_error(error.what());
    }
  }

  static pybind11::ssize_t rank(const modelwheel_tensor &tensor) { return static_cast<pybind11::ssize_t>(tensor.rank); }

  static std::size_t extent(const pybind11::array &array, std::size_t axis) {
    return static_cast<std::size_t>(array.shape(static_cast<pybind11::ssize_t>(axis)));
  }

  static std::vector<pybind11::ssize_t> shape_of(const modelwheel_tensor &tensor, const Call &call) {
    std::vector<pybind11::ssize_t> shape(tensor.shape, tensor.shape + tensor.rank);
    if (tensor.leading_per_row != 0)
      shape[batch_axis(tensor)] = static_cast<pybind11::ssize_t>(call.rows * tensor.leading_per_row);
    return shape;
  }

  void require_shape(const modelwheel_tensor &tensor, const Call &call, const pybind11::array &array) const {
    const std::vector<pybind11::ssize_t> expected = shape_of(tensor, call);
    const std::vector<pybind11::ssize_t> given(array.shape(), array.shape() + array.ndim());
    if (given != expected)
      throw pybind11::value_error(model_.name() + ": input '" + tensor.name + "' must have the shape " +
                                  text(expected) + ", got " + text(given));
  }

  static std::string text(const std::vector<pybind11::ssize_t> &shape) {
    std::string text;
    for (const pybind11::ssize_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return '(' + text + (shape.size() == 1 ? ",)" : ")");
  }

  const modelwheel_api *api_;
  LengthTable table_;
  Model model_;
  std::mutex mutex_;  // taken without the GIL
};

}  // namespace modelwheel

#endif  // MODELWHEEL_PYBIND11_HPP
