// instantiate.cpp - every kernel for every element type, to look at the symbols of the object that comes out.
#include "kernels/attention.h"
#include "kernels/convolution.h"
#include "kernels/copy_rows.h"
#include "kernels/dot.h"
#include "kernels/elementwise.h"
#include "kernels/embedding_bag.h"
#include "kernels/fft.h"
#include "kernels/lookup.h"
#include "kernels/pooling.h"
#include "kernels/rng.h"
#include "kernels/row_reduction.h"
#include "kernels/scaling.h"
#include "kernels/sort.h"
#include "kernels/strips.h"
#include "kernels/top_k.h"
#include "methods.h"

namespace modelwheel::MODELWHEEL_LEVEL {

/// Keeps a function without calling it.
template <class Function>
void keep(Function *function) {
  asm volatile("" : : "r"(function));
}

template <class T>
void keep_products() {
  keep(dot<T, T>);
  keep(dot_scratch<T>);
  keep(convolution<T>);
  keep(convolution_scratch<T>);
}

void keep_everything();
void keep_everything() {
  keep_products<float>();
  keep_products<double>();
  keep_products<std::int8_t>();
  keep_products<std::int16_t>();
  keep_products<std::int32_t>();
  keep_products<std::int64_t>();
  keep_products<std::uint8_t>();
  keep_products<std::uint16_t>();
  keep_products<std::uint32_t>();
  keep_products<std::uint64_t>();
  keep_products<F16>();
  keep_products<BF16>();
  keep_products<Complex64>();
  keep_products<Complex128>();
  keep(dot<std::int8_t, std::int32_t>);
  keep(attention<float>);
  keep(attention_scratch<float>);
  keep(pooling<float>);
  keep(row_reduction<float>);
  keep(scaling_in_parts<float>);
  keep(copy_rows<float>);
  keep(lookup<std::int32_t>);
  keep(lookup<std::int64_t>);
  keep(embedding_bag<float, std::int32_t>);
  keep(embedding_bag<float, std::int64_t>);
  keep(fft<float>);
  keep(fft<double>);
  keep(fft_scratch<float>);
  keep(sort<2>);
  keep(sort_scratch);
  keep(strips<float, 2>);
  keep(top_k<float>);
  keep(top_k_scratch);
  keep(get_and_update_state);
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
