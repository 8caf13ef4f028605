# cmake/sbom.cmake - the bill of materials (PEP 770): fills the platform's template with what built this wheel.

function(set_compiler_runtime)  # the library of the C compiler for operations that the CPU lacks
  execute_process(
    COMMAND ${CMAKE_C_COMPILER} ${CMAKE_C_COMPILER_ARG1} --print-libgcc-file-name
    OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  )
  set(version "${CMAKE_C_COMPILER_VERSION}")
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" OR (file MATCHES "/libgcc\\.a$" AND NOT CMAKE_C_COMPILER MATCHES "/zig(\\.exe)?$"))
    set(name libgcc)
    set(license "GPL-3.0-or-later WITH GCC-exception-3.1")
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
      cmake_path(GET file PARENT_PATH directory)
      cmake_path(GET directory FILENAME version)
    endif()
  else()
    set(name compiler-rt)
    set(license "Apache-2.0 WITH LLVM-exception")
  endif()
  set(MODEL_SBOM_COMPILER_RUNTIME_NAME "${name}" PARENT_SCOPE)
  set(MODEL_SBOM_COMPILER_RUNTIME_VERSION "${version}" PARENT_SCOPE)
  set(MODEL_SBOM_COMPILER_RUNTIME_LICENSE "${license}" PARENT_SCOPE)
  set(MODEL_SBOM_COMPILER_RUNTIME_LINKAGE static PARENT_SCOPE)
endfunction()

function(set_cxx_library)  # every C++ library defines its version as a macro
  set(source "${PROJECT_BINARY_DIR}/cxx_library.cpp")
  file(WRITE "${source}" "#include <cstddef>\n")
  separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_COMPILER_ARG1} ${CMAKE_CXX_FLAGS}")
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} ${flags} -dM -E -x c++ "${source}"
    OUTPUT_VARIABLE macros ERROR_QUIET
  )
  set(linkage dynamic)
  set(license "Apache-2.0 WITH LLVM-exception")
  if(macros MATCHES "#define _GLIBCXX_RELEASE ([0-9]+)")
    set(name libstdc++)
    set(license "GPL-3.0-or-later WITH GCC-exception-3.1")
  elseif(macros MATCHES "#define _LIBCPP_VERSION ([0-9]+)")
    set(name libc++)
  elseif(macros MATCHES "#define _MSVC_STL_VERSION ([0-9]+)")
    set(name "MSVC STL")
  else()
    set(name unknown)
    set(license NOASSERTION)
  endif()
  set(version "${CMAKE_MATCH_1}")
  if(name STREQUAL "libc++" AND CMAKE_CXX_COMPILER MATCHES "/zig(\\.exe)?$")
    set(linkage static)
  endif()
  set(MODEL_SBOM_CXX_LIBRARY_NAME "${name}" PARENT_SCOPE)
  set(MODEL_SBOM_CXX_LIBRARY_VERSION "${version}" PARENT_SCOPE)
  set(MODEL_SBOM_CXX_LIBRARY_LICENSE "${license}" PARENT_SCOPE)
  set(MODEL_SBOM_CXX_LIBRARY_LINKAGE "${linkage}" PARENT_SCOPE)
endfunction()

set_compiler_runtime()
set_cxx_library()
set(MODEL_SBOM_CMAKE_VERSION "${CMAKE_VERSION}")
set(MODEL_SBOM_PYBIND11_VERSION "${pybind11_VERSION}")
set(MODEL_SBOM_FLAGS "${CMAKE_CXX_FLAGS_RELEASE}")
foreach(level IN LISTS MODEL_LEVELS)
  list(JOIN MODEL_LEVEL_OPTIONS_${level} " " MODEL_SBOM_FLAGS_${level})
endforeach()
foreach(language C CXX)
  set(MODEL_SBOM_${language}_COMPILER_ID "${CMAKE_${language}_COMPILER_ID}")
  set(MODEL_SBOM_${language}_COMPILER_VERSION "${CMAKE_${language}_COMPILER_VERSION}")
endforeach()

# Placeholders for `@` and `#` in text that CMake must not interpret.
set(AT "@")
set(HASH "#")

# The serial number is a hash of everything else: it is computed from the file without it.
set(sbom "${MODEL_PLATFORM_DIR}/sbom.cdx.json.in")
set(MODEL_SBOM_UUID "")
configure_file("${sbom}" "${PROJECT_BINARY_DIR}/sbom-without-serial.json" @ONLY NEWLINE_STYLE UNIX)
file(SHA256 "${PROJECT_BINARY_DIR}/sbom-without-serial.json" content)
string(UUID MODEL_SBOM_UUID NAMESPACE 6ba7b811-9dad-11d1-80b4-00c04fd430c8 NAME "${content}" TYPE SHA1)
configure_file("${sbom}" "${PROJECT_BINARY_DIR}/sbom/${MODEL_MODULE}.cdx.json" @ONLY NEWLINE_STYLE UNIX)

if(SKBUILD)  # a build by hand has no metadata of a wheel
  install(FILES "${PROJECT_BINARY_DIR}/sbom/${MODEL_MODULE}.cdx.json" DESTINATION "${SKBUILD_METADATA_DIR}/sboms")
endif()
