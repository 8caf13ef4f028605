// strips.cpp - chains of convolutions in strips have the bits of one convolution after the other.
#include "kernels/convolution/strip_parts.h"

#include "activations.h"
#include "check.h"
#include "random.h"
#include "ranges.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {
namespace {

constexpr int kLayers = 3;

/// Dense arrays with the features last.
void lay_out(Convolution &c) {
  c.in_feature = c.kernel_out = c.out_feature = 1;
  c.kernel_in = c.out_features;
  c.in_batch = c.in_features;
  c.out_batch = c.out_features;
  std::int64_t taps = c.in_features / c.groups * c.out_features;
  for (std::int64_t axis = c.rank - 1; axis >= 0; --axis) {
    c.in_spatial[axis] = c.in_batch;
    c.kernel_spatial[axis] = taps;
    c.out_spatial[axis] = c.out_batch;
    c.in_batch *= c.in_size[axis];
    taps *= c.kernel_size[axis];
    c.out_batch *= c.out_size[axis];
  }
}

/// What a convolution is like.
enum class Kind { kAny, kSingle, kDepthwise };

/// A convolution of what `before` computes: of single positions, depthwise, or any. If it is `plain`, its result has as
/// many rows as its input.
Convolution following(Random &random, const Convolution &before, Kind kind, bool plain) {
  const std::int64_t features[] = {3, 8, 16, 17, 24, 40, 48};
  Convolution c{};
  c.batch = before.batch;
  c.rank = before.rank;
  c.in_features = before.out_features;
  c.groups = kind == Kind::kDepthwise ? c.in_features : 1;
  c.out_features = kind == Kind::kDepthwise ? c.in_features : random.pick(features);
  for (int axis = 0; axis < 3; ++axis) {
    c.in_size[axis] = c.out_size[axis] = before.out_size[axis];
    c.kernel_size[axis] = c.stride[axis] = c.kernel_dilation[axis] = c.base_dilation[axis] = 1;
    if (axis >= c.rank || kind == Kind::kSingle) continue;
    if (plain) {
      c.kernel_size[axis] = 2 * random.integer(0, 2) + 1;
      c.pad_low[axis] = c.kernel_size[axis] / 2;
      continue;
    }
    do {
      c.kernel_size[axis] = random.integer(1, 5);
      c.stride[axis] = random.chance(60) ? 1 : random.integer(2, 3);
      c.kernel_dilation[axis] = random.chance(80) ? 1 : 2;
      c.pad_low[axis] = random.integer(-2, 6);
      const std::int64_t pads = c.pad_low[axis] + random.integer(-2, 6);
      const std::int64_t room = c.in_size[axis] + pads - (c.kernel_size[axis] - 1) * c.kernel_dilation[axis] - 1;
      c.out_size[axis] = room < 0 ? 0 : room / c.stride[axis] + 1;
    } while (c.out_size[axis] == 0);
  }
  lay_out(c);
  return c;
}

std::int64_t product(const std::int64_t (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

std::int64_t kernel_elements(const Convolution &c) {
  return c.in_features / c.groups * c.out_features * product(c.kernel_size);
}

/// A convolution's weights and what follows it.
template <class T>
struct Operands {
  Buffer<T> kernel, scale, shift, factors;
  Epilogue<T> epilogue;
  bool follows;

  Operands(Random &random, const Convolution &c)
      : kernel(kernel_elements(c)),
        scale(c.out_features),
        shift(c.out_features),
        factors(c.out_features),
        epilogue{},
        follows(random.chance(80)) {
    kernel.fill(random);
    scale.fill(random);
    shift.fill(random);
    factors.fill(random);
    if (random.chance(70)) epilogue.scale = scale.data();
    if (random.chance(70)) epilogue.shift = shift.data();
    epilogue.has_low = epilogue.has_high = random.chance(50);
    epilogue.high = static_cast<T>(0.75);
    if (sizeof(T) == sizeof(float) && random.chance(30)) epilogue.activation = random.pick(kActivations);
    epilogue.has_factor = random.chance(30);
    epilogue.offset = static_cast<T>(0.125);
    if (random.chance(70)) epilogue.factors = factors.data();
  }
};

/// One convolution after the other, from number `i` on. `addend` is added to the last result if it is not null.
template <class T>
Buffer<T> in_turn(const Convolution (&c)[kLayers], Operands<T> *const (&operands)[kLayers], const Buffer<T> &in,
                  const T *addend, int i = 0) {
  const bool last = i + 1 == kLayers;
  Buffer<T> out(c[i].batch * c[i].out_batch);
  Buffer<char> scratch(static_cast<std::int64_t>(convolution_scratch<T, true>(c[i])));
  Epilogue<T> epilogue = operands[i]->epilogue;
  epilogue.sums = epilogue.result = out.data();
  if (last) epilogue.addend = addend;
  direct_convolution<T>(c[i], in.data(), operands[i]->kernel.data(), out.data(), scratch.data(),
                        operands[i]->follows ? &epilogue : nullptr);
  return last ? out : in_turn(c, operands, out, addend, i + 1);
}

/// The weights of a convolution of single positions in panels.
template <class T>
Buffer<T> in_panels(Convolution &c, const Buffer<T> &kernel) {
  Buffer<T> panels(kernel.size());
  c.kernel_in = kPanel;
  c.panel = kPanel * c.in_features;
  for (std::int64_t k = 0; k < c.in_features; ++k)
    for (std::int64_t j = 0; j < c.out_features; ++j)
      panels[j / kPanel * c.panel + k * kPanel + j % kPanel] = kernel[k * c.out_features + j];
  return panels;
}

template <class T>
std::int64_t differing(const Buffer<T> &a, const T *b) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) count += std::memcmp(&a[i], b + i, sizeof(T)) != 0;
  return count;
}

/// Whether row y of the result may be where row y of the input was as soon as it is computed.
bool may_replace(const Convolution (&c)[kLayers]) {
  for (const Convolution &one : c)
    if (one.stride[0] != 1 || one.pad_low[0] > (one.kernel_size[0] - 1) * one.kernel_dilation[0]) return false;
  const Convolution &first = c[0], &last = c[kLayers - 1];
  return first.kernel_size[0] == 1 && first.pad_low[0] == 0 && first.in_batch == last.out_batch &&
         first.in_size[0] == last.out_size[0];
}

/// Where the last result of a chain is: perhaps in place of the input or, if it has one, of the addend.
struct Place {
  bool adds, over_input, over_addend;
};

/// Computes a chain by `run` and compares with what is expected. `last` is the epilogue of the last layer.
template <class T, class Run>
void check_result(const Place &place, const Buffer<T> &expected, Buffer<T> in, Buffer<T> addend, Epilogue<T> &last,
                  const Run &run) {
  Buffer<T> out(expected.size());
  T *const sums = place.over_input ? in.data() : out.data();
  last.sums = sums;
  // The sum may also replace the addend.
  last.result = place.over_addend ? addend.data() : sums;
  if (place.adds) last.addend = addend.data();
  run(in.data(), sums);
  CHECK(differing(expected, static_cast<const T *>(place.over_addend ? last.result : sums)) == 0);
}

template <class T>
void check_chain(Random &random, const Convolution (&c)[kLayers]) {
  Operands<T> a(random, c[0]), b(random, c[1]), d(random, c[2]);
  Operands<T> *const operands[] = {&a, &b, &d};
  const Convolution &last = c[kLayers - 1];
  Buffer<T> in(c[0].batch * c[0].in_batch), addend(last.batch * last.out_batch);
  in.fill(random);
  addend.fill(random);
  const bool adds = d.follows && random.chance(40);
  const Place place{adds, may_replace(c), adds && random.chance(50)};
  const Buffer<T> expected = in_turn(c, operands, in, adds ? addend.data() : nullptr);

  StripPlan<kLayers> plan = plan_of_rows(c, random.integer(1, last.out_size[0]));
  if (plan.rows == last.out_size[0]) plan.images = random.integer(1, last.batch);
  StripLayer<T> layers[kLayers];
  for (int i = 0; i < kLayers; ++i)
    layers[i] = {operands[i]->kernel.data(), operands[i]->follows ? &operands[i]->epilogue : nullptr};
  // Where the columns are does not change the sums.
  Convolution packed[] = {c[0], c[1], c[2]};
  const bool single = product(c[0].kernel_size) == 1 && c[0].groups == 1;
  const bool panels = sizeof(T) == sizeof(float) && single && c[0].out_features % kPanel == 0 && random.chance(70);
  const Buffer<T> moved = panels ? in_panels(packed[0], a.kernel) : Buffer<T>(0);
  if (panels) layers[0].kernel = moved.data();
  check_result(place, expected, in, addend, d.epilogue, [&](const T *from, T *to) {
    Buffer<char> scratch(static_cast<std::int64_t>(strips_scratch<T>(packed, plan)));
    strips_of_range(packed, plan, layers, from, to, first_images(packed, last.batch), scratch.data());
  });
  check_result(place, expected, in, addend, d.epilogue, [&](const T *from, T *to) {
    Buffer<char> scratch(static_cast<std::int64_t>(strips_scratch<T>(packed, plan)));
    const OneThread thread(random, [&](std::int64_t) { return strips_scratch<T>(packed, plan); });
    strips_in_parts(thread.shared(), packed, plan, last.batch, layers, from, to, scratch.data());
  });
  // First images alone: the others stay.
  check_result({adds, false, false}, expected, in, addend, d.epilogue, [&](const T *from, T *to) {
    const std::int64_t images = random.integer(1, last.batch);
    for (std::int64_t i = images * last.out_batch; i < expected.size(); ++i) to[i] = expected[i];
    Buffer<char> scratch(static_cast<std::int64_t>(strips_scratch<T>(packed, plan)));
    const OneThread thread(random, [&](std::int64_t) { return strips_scratch<T>(packed, plan); });
    strips_in_parts(thread.shared(), packed, plan, images, layers, from, to, scratch.data());
  });
}

template <class T>
void test_random(std::uint64_t seed, int count) {
  Random random(seed);
  const Kind kinds[] = {Kind::kAny, Kind::kSingle, Kind::kDepthwise};
  const std::int64_t features[] = {3, 8, 24, 33};
  int replaced = 0;
  for (int i = 0; i < count; ++i) {
    Convolution before{};
    before.batch = random.integer(1, 3);
    before.rank = random.integer(1, 3);
    before.out_features = random.pick(features);
    for (int axis = 0; axis < 3; ++axis)
      before.out_size[axis] = axis < before.rank ? random.integer(1, axis == 0 ? 24 : 20 / before.rank) : 1;
    // Often as in the blocks of MobileNetV2: wider, depthwise, and as narrow as before.
    const bool block = random.chance(40), plain = random.chance(50);
    Convolution c[kLayers];
    c[0] = following(random, before, block ? Kind::kSingle : random.pick(kinds), plain);
    c[1] = following(random, c[0], block ? Kind::kDepthwise : random.pick(kinds), plain);
    c[2] = following(random, c[1], block ? Kind::kSingle : random.pick(kinds), plain);
    if (block) {
      c[2].out_features = c[0].in_features;
      lay_out(c[2]);
    }
    if (may_replace(c)) ++replaced;
    check_chain<T>(random, c);
  }
  CHECK(replaced > count / 10);
}

/// A chain whose results do not fit the cache is cut into rows, one that does into images.
void test_plan() {
  const auto chain = [](std::int64_t batch, std::int64_t size, std::int64_t features) {
    Convolution c{};
    c.batch = batch;
    c.rank = 2;
    c.groups = 1;
    c.in_features = c.out_features = features;
    for (int axis = 0; axis < 3; ++axis) {
      c.in_size[axis] = c.out_size[axis] = axis < 2 ? size : 1;
      c.kernel_size[axis] = axis < 2 ? 3 : 1;
      c.stride[axis] = c.kernel_dilation[axis] = c.base_dilation[axis] = 1;
      c.pad_low[axis] = axis < 2 ? 1 : 0;
    }
    lay_out(c);
    return c;
  };
  const Convolution large[] = {chain(2, 112, 96), chain(2, 112, 96)};
  const StripPlan<2> rows = strip_plan<float>(large);
  CHECK(rows.images == 1 && rows.rows > 1 && rows.rows < 112 && rows.room[0] == rows.rows + 2);
  CHECK(bytes_between<float>(large, rows) <= kStripBytes);
  const Convolution small[] = {chain(8, 14, 96), chain(8, 14, 96)};
  const StripPlan<2> images = strip_plan<float>(small);
  CHECK(images.images == 6 && images.rows == 14 && images.room[0] == 14);
}

}  // namespace

KERNEL_INSTANCES(strips<float, 2>)

KERNEL_TEST(strips) {
  test_random<float>(60, 300);
  test_random<double>(61, 60);
  test_plan();
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
