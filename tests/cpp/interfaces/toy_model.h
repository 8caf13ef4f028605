// toy_model.h - a model over hand-written tables and the real runtime, for the tests of the C++ interfaces.
//
// inputs:  x float32 [batch, 2], n int32 [batch]
// outputs: y = 2 x + n, float32 [batch, 2]; positive = n > 0, bool [batch]; pair = n, -n, int64 [batch * 2]
// batch sizes 1, 2, 4, of which up to four threads can share the last
#pragma once

#include <array>

#include "modelwheel/abi.h"

const modelwheel_api &toy_api();

/// What this thread's latest evaluation of a batch size found in x, padding included. A model allocates nothing.
extern thread_local std::array<float, 8> toy_last_x;

/// Makes this thread's next evaluation report a failure.
extern thread_local bool toy_fail_next;
