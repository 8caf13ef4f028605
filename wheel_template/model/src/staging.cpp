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

void bind_inputs(const Chunk &chunk, const void *const *inputs, const void **bound) {
  for (std::size_t i = 0; i < api.num_inputs; ++i) {
    if (chunk.variant.input_staging[i] == ignored_input) continue;
    const Shaped shaped = input_of(chunk, i);
    if (shaped.scattered) {
      char *const staging = chunk.arena + chunk.variant.input_staging[i];
      gather(chunk, shaped, tables.pads == nullptr ? nullptr : tables.pads[i], inputs[i], staging);
      bound[i] = staging;
      continue;
    }
    const std::size_t rows = shaped.batched() ? chunk.rows : 1;
    const std::size_t wanted = (shaped.batched() ? chunk.variant.batch_size : 1) * shaped.compiled;
    const std::size_t copied = rows * shaped.compiled;
    const char *source = static_cast<const char *>(inputs[i]) + shaped.offset(chunk.done);
    if (copied == wanted && !shaped.padded() && is_aligned(source)) {
      bound[i] = source;
      continue;
    }
    char *staging = chunk.arena + chunk.variant.input_staging[i];
    if (shaped.padded())
      pad_rows(shaped, rows, tables.pads[i], source, staging);
    else if (copied != 0)
      std::memcpy(staging, source, copied);
    std::memset(staging + copied, 0, wanted - copied);
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
