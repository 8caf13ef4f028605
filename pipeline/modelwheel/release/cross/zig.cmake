# zig.cmake - CMake toolchain: PyPI's `ziglang` as C and C++ compiler for other systems. Part of modelwheel, not of the
# source distributions that it builds. What it needs comes through the environment, which CMake's own checks inherit:
#   MODELWHEEL_ZIG            the program
#   MODELWHEEL_ZIG_TARGET     what zig calls the target, such as x86_64-linux-gnu.2.17
#   MODELWHEEL_ZIG_SYSTEM     CMake's name of the system: Linux, Darwin or Windows
#   MODELWHEEL_ZIG_SUFFIX     how names of Python extensions end there; empty if none is built
set(CMAKE_SYSTEM_NAME "$ENV{MODELWHEEL_ZIG_SYSTEM}")
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "$ENV{MODELWHEEL_ZIG_TARGET}")
set(CMAKE_C_COMPILER "$ENV{MODELWHEEL_ZIG}" cc)
set(CMAKE_CXX_COMPILER "$ENV{MODELWHEEL_ZIG}" c++)
set(CMAKE_C_COMPILER_TARGET "$ENV{MODELWHEEL_ZIG_TARGET}")
set(CMAKE_CXX_COMPILER_TARGET "$ENV{MODELWHEEL_ZIG_TARGET}")

# Programs that strip may not know the format, and would break the signature of code for macOS: the linker does it.
set(CMAKE_STRIP "" CACHE FILEPATH "")
set(CMAKE_SHARED_LINKER_FLAGS_INIT -s)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -s)

# Libraries of the building machine are of no use; its programs are.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# Linking in a configure check would make zig build its C and C++ libraries for each set of flags.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# What FindPython and pybind11 would ask of the Python that runs the build.
if(NOT "$ENV{MODELWHEEL_ZIG_SUFFIX}" STREQUAL "")
  set(PYTHON_MODULE_EXTENSION "$ENV{MODELWHEEL_ZIG_SUFFIX}" CACHE INTERNAL "")
  set(PYTHON_MODULE_DEBUG_POSTFIX "" CACHE INTERNAL "")
  set(PYTHON_IS_DEBUG FALSE CACHE INTERNAL "")
endif()
