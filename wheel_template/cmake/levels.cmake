# cmake/levels.cmake - compiler flags of each CPU level, by its identifier: policy as data.
set(LEVEL_FLAGS_x86_64 -march=x86-64)
set(LEVEL_FLAGS_x86_64_v2 -march=x86-64-v2)
set(LEVEL_FLAGS_x86_64_v3 -march=x86-64-v3)
# Compilers prefer 256-bit vectors for this level; 512 is measurably faster here.
set(LEVEL_FLAGS_x86_64_v4 -march=x86-64-v4 -mprefer-vector-width=512)
set(LEVEL_FLAGS_armv8_a -march=armv8-a)
set(LEVEL_FLAGS_armv8_2_a_fp16_dotprod -march=armv8.2-a+fp16+dotprod)
