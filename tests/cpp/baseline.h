// baseline.h - the lowest CPU level of this architecture, which every machine that runs these tests has.
#pragma once

#if defined(__aarch64__)
#define BASELINE "armv8-a"
#else
#define BASELINE "x86-64"
#endif
