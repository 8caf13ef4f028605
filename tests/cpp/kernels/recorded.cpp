// recorded.cpp - the calls of kernels in these programs: all of them, each noted.
#include "recorded.h"

namespace modelwheel::MODELWHEEL_LEVEL {

GemmUses recorded;

namespace {

constexpr GemmUses kEvery = every_use();

template <class T>
struct NotedCalls {
  using Linked = LinkedCalls<T, kEvery>;

  static void form(int form, const Gemm &g, const T *lhs, const T *rhs, T *out, T *scratch, const Epilogue<T> *e) {
    recorded.form[form] = true;
    Linked::form(form, g, lhs, rhs, out, scratch, e);
  }
  static void tile(int width, int vectors, int rows, const Strip<T> &strip, const T *const *lhs, T *const *out) {
    (vectors == kRowVectors ? recorded.row : recorded.tile[width][vectors - 1][rows - 1]) = true;
    Linked::tile(width, vectors, rows, strip, lhs, out);
  }
  static void strip(int width, int vectors, int tiles, const Strip<T> &strip, const Run<T> &run) {
    recorded.strip[width][vectors - 1][tiles] = true;
    Linked::strip(width, vectors, tiles, strip, run);
  }
  static void large_tile(int rows, const LargeTile<T> &t) {
    recorded.large_tile[rows - kLeastLargeRows] = true;
    Linked::large_tile(rows, t);
  }
  static void panels(int panels, const Gemm &g, const T *lhs, const T *rhs, T *out, std::int64_t column,
                     const Epilogue<T> *e) {
    recorded.panels[panels - 1] = true;
    Linked::panels(panels, g, lhs, rhs, out, column, e);
  }
};

}  // namespace

MODELWHEEL_GEMM_CALLS(float, NotedCalls<float>)
MODELWHEEL_GEMM_CALLS(double, NotedCalls<double>)

}  // namespace modelwheel::MODELWHEEL_LEVEL
