/* modelwheel/types.h - the C and C++ types of elements, as the headers of models spell them.
 *
 * 16-bit floats (float16, bfloat16) have no plain type in either language: they are passed as their bits (uint16_t). */
#ifndef MODELWHEEL_TYPES_H
#define MODELWHEEL_TYPES_H

#include <stdint.h>

/* The library itself only passes such numbers on: it would take longer to compile <complex> than any of its files. */
#if defined(__cplusplus) && !defined(MODELWHEEL_BUILDING)
#include <complex>
typedef std::complex<float> modelwheel_complex64;
typedef std::complex<double> modelwheel_complex128;
#else
#include <stdbool.h>
typedef struct modelwheel_complex64 {
  float real, imag;
} modelwheel_complex64;
typedef struct modelwheel_complex128 {
  double real, imag;
} modelwheel_complex128;
#endif

#endif /* MODELWHEEL_TYPES_H */
