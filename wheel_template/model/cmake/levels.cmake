# cmake/levels.cmake - compiler flags of each CPU level, by its identifier: policy as data.
set(LEVEL_FLAGS_x86_64 -march=x86-64)
set(LEVEL_FLAGS_x86_64_v2 -march=x86-64-v2)
set(LEVEL_FLAGS_x86_64_v3 -march=x86-64-v3)
# Compilers prefer 256-bit vectors for this level; 512 is measurably faster here.
set(LEVEL_FLAGS_x86_64_v4 -march=x86-64-v4 -mprefer-vector-width=512)
set(LEVEL_FLAGS_armv8_a -march=armv8-a)
set(LEVEL_FLAGS_armv8_2_a_fp16_dotprod -march=armv8.2-a+fp16+dotprod)

# GCC before 11, as in some images with an old glibc, has the instructions but not the psABI's names for their sets.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
  set(LEVEL_FLAGS_x86_64_v2 -march=x86-64 -mcx16 -msahf -mpopcnt -msse3 -mssse3 -msse4.1 -msse4.2)
  set(LEVEL_FLAGS_x86_64_v3 ${LEVEL_FLAGS_x86_64_v2} -mavx -mavx2 -mbmi -mbmi2 -mf16c -mfma -mlzcnt -mmovbe -mxsave)
  set(LEVEL_FLAGS_x86_64_v4
    ${LEVEL_FLAGS_x86_64_v3} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprefer-vector-width=512)
endif()

# zig is clang, but names CPUs and their features in its own way.
if(CMAKE_CXX_COMPILER MATCHES "/zig(\\.exe)?$")
  set(LEVEL_FLAGS_x86_64 -march=x86_64)
  set(LEVEL_FLAGS_x86_64_v2 -march=x86_64_v2)
  set(LEVEL_FLAGS_x86_64_v3 -march=x86_64_v3)
  set(LEVEL_FLAGS_x86_64_v4 -march=x86_64_v4 -mprefer-vector-width=512)
  set(LEVEL_FLAGS_armv8_a -march=generic)
  set(LEVEL_FLAGS_armv8_2_a_fp16_dotprod -march=generic+v8_2a+fullfp16+dotprod)
endif()
