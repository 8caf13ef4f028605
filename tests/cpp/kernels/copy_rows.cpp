// copy_rows.cpp - matrices into some columns of wider ones, against the definition.
#include "kernels/elementwise/copy_rows.h"

#include <cstring>

#include "check.h"
#include "random.h"
#include "tests.h"

namespace modelwheel::MODELWHEEL_LEVEL {

KERNEL_INSTANCES(copy_rows<float>)

KERNEL_TEST(copy_rows) {
  Random random(90);
  for (int i = 0; i < 200; ++i) {
    CopyRows c{random.integer(0, 20), random.integer(1, 70), 0};
    c.step = c.columns + random.integer(0, 40);
    Buffer<float> in(c.rows * c.columns), out(c.rows * c.step);
    in.fill(random);
    const Buffer<float> before(out);
    copy_rows(c, in.data(), out.data());
    std::int64_t wrong = 0;
    for (std::int64_t at = 0; at < out.size(); ++at) {
      const std::int64_t row = at / c.step, column = at % c.step;
      const float &expected = column < c.columns ? in[row * c.columns + column] : before[at];
      if (std::memcmp(&expected, &out[at], sizeof expected) != 0) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace modelwheel::MODELWHEEL_LEVEL
