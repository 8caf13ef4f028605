// modelwheel/lengths.hpp - models whose inputs may have several lengths: tensors as they are at one length.
#ifndef MODELWHEEL_LENGTHS_HPP
#define MODELWHEEL_LENGTHS_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

#include "modelwheel/abi.h"
#include "modelwheel/rows.hpp"

namespace modelwheel {

/// What a library says about lengths; nothing if it has none, or is older than them.
struct LengthTable {
  std::size_t count = 0;
  const std::size_t *values = nullptr;  ///< compiled lengths, ascending
  const modelwheel_extent *const *inputs = nullptr;
  const modelwheel_extent *const *outputs = nullptr;

  explicit LengthTable(const modelwheel_api &api) {
    if (api.struct_size < offsetof(modelwheel_api, run_length) + sizeof api.run_length || api.num_lengths == 0) return;
    count = api.num_lengths;
    values = api.lengths;
    inputs = api.input_extents;
    outputs = api.output_extents;
  }

  /// The largest length; 0 if there is none.
  std::size_t largest() const { return count == 0 ? 0 : values[count - 1]; }
};

/// Whether a library takes views: older ones lack the function.
inline bool knows_views(const modelwheel_api &api) {
  return api.struct_size >= offsetof(modelwheel_api, run_views) + sizeof api.run_views;
}

/// Inputs or outputs at one length, at which only the batch is open.
class TensorsAt {
 public:
  /// `extents` is null for a library without lengths: nothing is then copied.
  TensorsAt(const modelwheel_tensor *tensors, std::size_t count, const modelwheel_extent *const *extents,
            std::size_t length)
      : tensors_(tensors) {
    if (extents == nullptr) return;
    copies_.assign(tensors, tensors + count);
    shapes_.resize(count);
    for (std::size_t i = 0; i < count; ++i) set(copies_[i], shapes_[i], extents[i], length);
    tensors_ = copies_.data();
  }

  TensorsAt(const TensorsAt &) = delete;
  TensorsAt &operator=(const TensorsAt &) = delete;

  const modelwheel_tensor &operator[](std::size_t index) const { return tensors_[index]; }

 private:
  static void set(modelwheel_tensor &tensor, std::vector<std::int64_t> &shape, const modelwheel_extent *extents,
                  std::size_t length) {
    const std::size_t batch = batch_axis(tensor);
    tensor.row_elements = 1;
    for (std::size_t axis = 0; axis < tensor.rank; ++axis) {
      const std::size_t extent = extents[axis].fixed + extents[axis].per_length * length;
      const bool grows = axis == batch && tensor.leading_per_row != 0;
      if (grows) tensor.leading_per_row = extent;
      shape.push_back(grows ? -1 : static_cast<std::int64_t>(extent));
      tensor.row_elements *= extent;
    }
    tensor.row_bytes = tensor.row_elements * tensor.item_bytes;
    tensor.shape = shape.data();
  }

  const modelwheel_tensor *tensors_;
  std::vector<modelwheel_tensor> copies_;
  std::vector<std::vector<std::int64_t>> shapes_;
};

}  // namespace modelwheel

#endif  // MODELWHEEL_LENGTHS_HPP
