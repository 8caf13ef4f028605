// tests.h - what main runs.
#pragma once

namespace modelwheel::MODELWHEEL_LEVEL {

void test_dot();
void test_activation();
void test_attention();
void test_convolution();
void test_convolution_decomposed();
void test_convolution_lines();
void test_copy_rows();
void test_elementwise();
void test_fft();
void test_lookup();
void test_numeric();
void test_pooling();
void test_rng();
void test_row_reduction();
void test_scaling();
void test_sort();
void test_strips();
void test_top_k();
void test_winograd();

}  // namespace modelwheel::MODELWHEEL_LEVEL
