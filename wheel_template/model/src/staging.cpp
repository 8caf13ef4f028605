#include "staging.h"

#include <cstdint>
#include <cstring>

#include "modelwheel/rows.hpp"

namespace modelwheel {
namespace {

bool is_aligned(const void *pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % MODELWHEEL_ALIGNMENT == 0; }

std::size_t extent_at(const modelwheel_extent &extent, std::size_t length) {
  return extent.fixed + extent.per_length * length;
}

std::size_t row_bytes_at(const modelwheel_tensor &tensor, const modelwheel_extent *extents, std::size_t length) {
  if (extents == nullptr) return tensor.row_bytes;
  std::size_t bytes = tensor.item_bytes;
  for (std::size_t axis = 0; axis < tensor.rank; ++axis) bytes *= extent_at(extents[axis], length);
  return bytes;
}

/// Whether rows of an input that the caller does not have must be zeros.
bool needs_zeros(const Chunk &chunk, std::size_t input) {
  return chunk.variant.reads_all_rows == nullptr || chunk.variant.reads_all_rows[input];
}

/// Whether the caller's rows are exactly those of the code.
bool is_whole(const Chunk &chunk) { return chunk.rows == chunk.variant.batch_size && chunk.rows == chunk.total; }

/// A tensor as one call sees it. Without a batch axis, the whole tensor is one row.
struct Shaped {
  const modelwheel_tensor &tensor;
  const modelwheel_extent *extents;  // null for models without lengths
  const CallLengths &lengths;
  std::size_t given, compiled;  // bytes for each row: the caller's, and the code's
  bool scattered;               // rows do not follow each other, and the arrays differ

  Shaped(const Chunk &chunk, const modelwheel_tensor &of, const modelwheel_extent *const *all, std::size_t index)
      : tensor(of),
        extents(all == nullptr ? nullptr : all[index]),
        lengths(chunk.lengths),
        given(row_bytes_at(tensor, extents, lengths.given)),
        compiled(row_bytes_at(tensor, extents, lengths.compiled)),
        scattered(row_pieces(tensor) != 1 && !(is_whole(chunk) && !padded())) {}

  bool batched() const { return tensor.leading_per_row != 0; }
  bool padded() const { return given != compiled; }
  std::size_t offset(std::size_t done) const { return batched() ? done * given : 0; }
};

Shaped input_of(const Chunk &chunk, std::size_t i) { return {chunk, api.inputs[i], api.input_extents, i}; }
Shaped output_of(const Chunk &chunk, std::size_t i) { return {chunk, api.outputs[i], api.output_extents, i}; }

/// An array, or the part of one at some place of its first axes.
template <class Char>
struct Part {
  Char *data;
  std::size_t bytes;
  std::size_t length;
};

/// Copies what two arrays have in common: along every axis the part up to the smaller extent.
void copy_common(const modelwheel_extent *extents, const Part<const char> &from, const Part<char> &to) {
  const std::size_t from_count = extent_at(*extents, from.length), to_count = extent_at(*extents, to.length);
  if (from.bytes == 0 || to.bytes == 0) return;
  const std::size_t count = from_count < to_count ? from_count : to_count;
  const std::size_t from_step = from.bytes / from_count, to_step = to.bytes / to_count;
  if (from_step == to_step) {  // the inner axes are the same
    std::memcpy(to.data, from.data, count * to_step);
    return;
  }
  for (std::size_t i = 0; i < count; ++i)
    copy_common(extents + 1, {from.data + i * from_step, from_step, from.length},
                {to.data + i * to_step, to_step, to.length});
}

void fill(char *memory, std::size_t bytes, const void *element, std::size_t size) {
  for (std::size_t done = 0; done < bytes; done += size) std::memcpy(memory + done, element, size);
}

/// Rows in an array whose rows do not follow each other: those from `first` on of so many.
template <class Char>
struct Scattered {
  Char *data;
  std::size_t bytes;  // for each row
  std::size_t length, first, rows;
};

/// Copies `count` rows from one array to the other, as far as the extents of both reach, from this axis on.
void copy_scattered(const Shaped &shaped, std::size_t axis, std::size_t count, const Scattered<const char> &from,
                    const Scattered<char> &to) {
  if (from.bytes == 0 || to.bytes == 0) return;
  if (axis == batch_axis(shaped.tensor)) {
    const char *source = from.data + from.first * from.bytes;
    char *target = to.data + to.first * to.bytes;
    if (from.bytes == to.bytes) {
      std::memcpy(target, source, count * to.bytes);
      return;
    }
    for (std::size_t row = 0; row < count; ++row)
      copy_common(shaped.extents + axis, {source + row * from.bytes, from.bytes, from.length},
                  {target + row * to.bytes, to.bytes, to.length});
    return;
  }
  const auto extent = [&](std::size_t length) {
    return shaped.extents == nullptr ? static_cast<std::size_t>(shaped.tensor.shape[axis])
                                     : extent_at(shaped.extents[axis], length);
  };
  const std::size_t from_places = extent(from.length), to_places = extent(to.length);
  const std::size_t from_bytes = from.bytes / from_places, to_bytes = to.bytes / to_places;
  for (std::size_t i = 0; i < from_places && i < to_places; ++i)
    copy_scattered(shaped, axis + 1, count,
                   {from.data + i * from.rows * from_bytes, from_bytes, from.length, from.first, from.rows},
                   {to.data + i * to.rows * to_bytes, to_bytes, to.length, to.first, to.rows});
}

/// The rows of a chunk, from the caller's whole array to the code's, in which everything else is `pad` or 0.
void gather(const Chunk &chunk, const Shaped &shaped, const void *pad, const void *from, char *to) {
  const std::size_t batch = chunk.variant.batch_size;
  if (shaped.padded())
    fill(to, batch * shaped.compiled, pad, shaped.tensor.item_bytes);
  else if (chunk.rows != batch)
    std::memset(to, 0, batch * shaped.compiled);
  copy_scattered(shaped, 0, chunk.rows,
                 {static_cast<const char *>(from), shaped.given, shaped.lengths.given, chunk.done, chunk.total},
                 {to, shaped.compiled, shaped.lengths.compiled, 0, batch});
}

/// The same back, without what is beyond the caller's length.
void scatter(const Chunk &chunk, const Shaped &shaped, const char *from, void *to) {
  copy_scattered(shaped, 0, chunk.rows, {from, shaped.compiled, shaped.lengths.compiled, 0, chunk.variant.batch_size},
                 {static_cast<char *>(to), shaped.given, shaped.lengths.given, chunk.done, chunk.total});
}

// --- views ------------------------------------------------------------------------------------------------

template <std::size_t kBytes>
void copy_each(const char *from, std::ptrdiff_t stride, std::size_t count, char *to) {
  std::size_t i = 0;
  for (char four[4 * kBytes]; i + 4 <= count; i += 4, from += 4 * stride, to += sizeof four) {  // loads do not wait
    for (std::ptrdiff_t k = 0; k < 4; ++k) std::memcpy(four + k * std::ptrdiff_t{kBytes}, from + k * stride, kBytes);
    std::memcpy(to, four, sizeof four);
  }
  for (; i < count; ++i, from += stride, to += kBytes) std::memcpy(to, from, kBytes);
}

/// Copies elements to consecutive places. Compilers know the sizes of most, which are single moves then.
void copy_elements(std::size_t bytes, const char *from, std::ptrdiff_t stride, std::size_t count, char *to) {
  if (bytes == 4) return copy_each<4>(from, stride, count, to);
  if (bytes == 8) return copy_each<8>(from, stride, count, to);
  for (std::size_t i = 0; i < count; ++i, from += stride, to += bytes) std::memcpy(to, from, bytes);
}

/// The same with an element of each column.
void copy_elements(std::size_t bytes, const void *const *columns, std::ptrdiff_t offset, std::size_t count, char *to) {
  for (std::size_t i = 0; i < count; ++i, to += bytes)
    copy_elements(bytes, static_cast<const char *>(columns[i]) + offset, 0, 1, to);
}

/// Rows of a view, which are copied to the arena.
class ViewedRows {
 public:
  ViewedRows(const Chunk &chunk, const Shaped &shaped, const modelwheel_view &view)
      : chunk_(chunk), shaped_(shaped), view_(view), rank_(shaped.tensor.rank), inner_(rank_) {
    find_inner();
  }

  /// Where the rows are, if they are dense there; else null.
  const char *in_place() const {
    if (view_.columns != nullptr) return nullptr;
    std::ptrdiff_t expected = static_cast<std::ptrdiff_t>(shaped_.tensor.item_bytes), offset = 0;
    for (std::size_t axis = rank_; axis-- > 0;) {
      const std::size_t extent = given(axis) * (grows(axis) ? chunk_.rows : 1);
      if (extent != 1 && view_.strides[axis] != expected) return nullptr;
      if (grows(axis)) offset = static_cast<std::ptrdiff_t>(first(axis)) * view_.strides[axis];
      expected *= static_cast<std::ptrdiff_t>(extent);
    }
    return static_cast<const char *>(view_.data) + offset;
  }

  void copy(char *to) const {
    const std::size_t bytes = (shaped_.batched() ? chunk_.variant.batch_size : 1) * shaped_.compiled;
    if (bytes != 0 && shaped_.given != 0) copy(0, static_cast<const char *>(view_.data), 0, to, bytes);
  }

 private:
  bool grows(std::size_t axis) const { return shaped_.batched() && axis == batch_axis(shaped_.tensor); }

  /// The extent of an axis for each row, of the caller's array and of the code's.
  std::size_t given(std::size_t axis) const { return extent(axis, shaped_.lengths.given); }
  std::size_t extent(std::size_t axis, std::size_t length) const {
    if (shaped_.extents != nullptr) return extent_at(shaped_.extents[axis], length);
    return grows(axis) ? shaped_.tensor.leading_per_row : static_cast<std::size_t>(shaped_.tensor.shape[axis]);
  }

  /// The place of the first row along an axis.
  std::size_t first(std::size_t axis) const { return grows(axis) ? chunk_.done * given(axis) : 0; }

  std::ptrdiff_t stride(std::size_t axis) const {
    if (view_.strides != nullptr) return view_.strides[axis];
    std::size_t bytes = shaped_.tensor.item_bytes;  // of dense columns: without the last axis
    for (std::size_t inner = axis + 1; inner + 1 < rank_; ++inner)
      bytes *= given(inner) * (grows(inner) ? chunk_.total : 1);
    return static_cast<std::ptrdiff_t>(bytes);
  }

  /// Joins the last axes whose elements are at one distance: most views have one or two loops then.
  void find_inner() {
    while (inner_ != 0 && view_.columns == nullptr) {
      const std::size_t axis = inner_ - 1, own = given(axis);
      if (grows(axis) || own != extent(axis, shaped_.lengths.compiled)) return;
      if (own != 1 && count_ != 1 && stride(axis) != distance_ * static_cast<std::ptrdiff_t>(count_)) return;
      if (own != 1 && count_ == 1) distance_ = stride(axis);
      count_ *= own;
      inner_ = axis;
    }
  }

  /// Copies what both arrays have in common, from this axis on: `from` is the place on the axes before it, `offset` the
  /// same for columns, and `bytes` is what the code has for it.
  void copy(std::size_t axis, const char *from, std::ptrdiff_t offset, char *to, std::size_t bytes) const {
    const std::size_t item = shaped_.tensor.item_bytes;
    if (axis == inner_) {
      if (distance_ != static_cast<std::ptrdiff_t>(item)) return copy_elements(item, from, distance_, count_, to);
      std::memcpy(to, from, count_ * item);
      return;
    }
    const std::size_t own = given(axis), compiled = extent(axis, shaped_.lengths.compiled);
    const std::size_t rows = grows(axis) ? chunk_.rows : 1, count = own < compiled ? own : compiled;
    const std::size_t step = bytes / (compiled * (grows(axis) ? chunk_.variant.batch_size : 1));
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t place = first(axis) + row * own;
      char *const target = to + row * compiled * step;
      if (axis + 1 == rank_ && view_.columns != nullptr) {
        copy_elements(item, view_.columns + place, offset, count, target);
        continue;
      }
      const std::ptrdiff_t along = stride(axis), start = static_cast<std::ptrdiff_t>(place) * along;
      if (axis + 1 == rank_) {
        copy_elements(item, from + start, along, count, target);
        continue;
      }
      for (std::size_t i = 0; i < count; ++i) {
        const std::ptrdiff_t moved = start + static_cast<std::ptrdiff_t>(i) * along;
        copy(axis + 1, view_.columns == nullptr ? from + moved : nullptr, offset + moved, target + i * step, step);
      }
    }
  }

  const Chunk &chunk_;
  const Shaped &shaped_;
  const modelwheel_view &view_;
  std::size_t rank_;
  std::size_t inner_, count_ = 1;  // from this axis on, so many elements
  std::ptrdiff_t distance_ = 0;    // at this distance
};

/// The rows of a chunk where they are, or in `staging`, with everything else `pad`, or 0 if these are needed.
const void *bind_view(const Chunk &chunk, const Shaped &shaped, const modelwheel_view &view, const void *pad,
                      bool zeros, char *staging) {
  const ViewedRows rows(chunk, shaped, view);
  const bool full = !shaped.padded() && (!shaped.batched() || chunk.rows == chunk.variant.batch_size);
  const char *const dense = full ? rows.in_place() : nullptr;
  if (dense != nullptr && is_aligned(dense)) return dense;
  const std::size_t bytes = (shaped.batched() ? chunk.variant.batch_size : 1) * shaped.compiled;
  if (shaped.padded())
    fill(staging, bytes, pad, shaped.tensor.item_bytes);
  else if (!full && zeros)
    std::memset(staging, 0, bytes);
  rows.copy(staging);
  return staging;
}

/// Copies the caller's rows to those of the compiled length, and fills what they lack with `pad`.
void pad_rows(const Shaped &shaped, std::size_t rows, const void *pad, const char *from, char *to) {
  fill(to, rows * shaped.compiled, pad, shaped.tensor.item_bytes);
  for (std::size_t row = 0; row < rows; ++row)
    copy_common(shaped.extents, {from + row * shaped.given, shaped.given, shaped.lengths.given},
                {to + row * shaped.compiled, shaped.compiled, shaped.lengths.compiled});
}

/// Copies rows of the compiled length to the caller's, without what is beyond the caller's length.
void cut_rows(const Shaped &shaped, std::size_t rows, const char *from, char *to) {
  for (std::size_t row = 0; row < rows; ++row)
    copy_common(shaped.extents, {from + row * shaped.compiled, shaped.compiled, shaped.lengths.compiled},
                {to + row * shaped.given, shaped.given, shaped.lengths.given});
}

}  // namespace

std::size_t find_length(std::size_t length) {
  std::size_t index = 0;
  while (index < api.num_lengths && api.lengths[index] < length) ++index;
  return index;
}

void bind_inputs(const Chunk &chunk, const Sources &inputs, const void **bound) {
  for (std::size_t i = 0; i < api.num_inputs; ++i) {
    if (chunk.variant.input_staging[i] == ignored_input) continue;
    const Shaped shaped = input_of(chunk, i);
    char *const staging = chunk.arena + chunk.variant.input_staging[i];
    const void *const pad = tables.pads == nullptr ? nullptr : tables.pads[i];
    if (const modelwheel_view *const view = inputs.view(i)) {
      bound[i] = bind_view(chunk, shaped, *view, pad, needs_zeros(chunk, i), staging);
      continue;
    }
    if (shaped.scattered) {
      gather(chunk, shaped, pad, inputs.buffer(i), staging);
      bound[i] = staging;
      continue;
    }
    const std::size_t rows = shaped.batched() ? chunk.rows : 1;
    const std::size_t wanted = (shaped.batched() ? chunk.variant.batch_size : 1) * shaped.compiled;
    const std::size_t copied = rows * shaped.compiled;
    const char *source = static_cast<const char *>(inputs.buffer(i)) + shaped.offset(chunk.done);
    if (copied == wanted && !shaped.padded() && is_aligned(source)) {
      bound[i] = source;
      continue;
    }
    if (shaped.padded())
      pad_rows(shaped, rows, pad, source, staging);
    else if (copied != 0)
      std::memcpy(staging, source, copied);
    if (needs_zeros(chunk, i)) std::memset(staging + copied, 0, wanted - copied);
    bound[i] = staging;
  }
}

void bind_outputs(const Chunk &chunk, void *const *outputs, void **bound) {
  for (std::size_t i = 0; i < api.num_outputs; ++i) {
    const Shaped shaped = output_of(chunk, i);
    char *target = static_cast<char *>(outputs[i]) + shaped.offset(chunk.done);
    const bool in_place =
        chunk.rows == chunk.variant.batch_size && !shaped.padded() && !shaped.scattered && is_aligned(target);
    bound[i] = in_place ? target : chunk.arena + chunk.variant.output_staging[i];
  }
}

void copy_staged_outputs(const Chunk &chunk, void *const *bound, void *const *outputs) {
  for (std::size_t i = 0; i < api.num_outputs; ++i) {
    const Shaped shaped = output_of(chunk, i);
    if (shaped.scattered) {
      scatter(chunk, shaped, static_cast<const char *>(bound[i]), outputs[i]);
      continue;
    }
    char *target = static_cast<char *>(outputs[i]) + shaped.offset(chunk.done);
    const auto *staged = static_cast<const char *>(bound[i]);
    const std::size_t rows = shaped.batched() ? chunk.rows : 1;
    if (shaped.padded())
      cut_rows(shaped, rows, staged, target);
    else if (staged != target && rows * shaped.given != 0)
      std::memcpy(target, staged, rows * shaped.given);
  }
}

}  // namespace modelwheel
