# zig.cmake - CMake toolchain file that uses PyPI's `ziglang` as C and C++ compiler for other systems. It belongs to
# modelwheel, not to the source distributions. Its parameters are environment variables, because CMake's own checks run
# in projects that inherit nothing else:
#   MODELWHEEL_ZIG            path of the program
#   MODELWHEEL_ZIG_TARGET     zig's name of the target, such as x86_64-linux-gnu.2.17
#   MODELWHEEL_ZIG_SYSTEM     CMake's name of the system: Linux, Darwin or Windows
set(CMAKE_SYSTEM_NAME "$ENV{MODELWHEEL_ZIG_SYSTEM}")
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "$ENV{MODELWHEEL_ZIG_TARGET}")
set(CMAKE_C_COMPILER "$ENV{MODELWHEEL_ZIG}" cc)
set(CMAKE_CXX_COMPILER "$ENV{MODELWHEEL_ZIG}" c++)
set(CMAKE_C_COMPILER_TARGET "$ENV{MODELWHEEL_ZIG_TARGET}")
set(CMAKE_CXX_COMPILER_TARGET "$ENV{MODELWHEEL_ZIG_TARGET}")

# This machine's archiver does not know other systems' objects, or writes archives that their linkers cannot read.
foreach(language C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "\"$ENV{MODELWHEEL_ZIG}\" ar qcD <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "\"$ENV{MODELWHEEL_ZIG}\" ar sD <TARGET>")
endforeach()

# Without this, zig writes debug information. `-g0` would leave the name of the object file, with its directory, in
# objects for Windows.
set(CMAKE_C_FLAGS_INIT -s)
set(CMAKE_CXX_FLAGS_INIT -s)

# The linker strips: `strip` may not know the format, and would invalidate the code signature that macOS requires.
set(CMAKE_STRIP "" CACHE FILEPATH "")
set(CMAKE_SHARED_LINKER_FLAGS_INIT -s)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -s)

# Use programs of this machine, but not its libraries.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# A configure check that links would make zig build its C and C++ libraries for each set of flags, which takes minutes.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
