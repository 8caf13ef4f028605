# cmake/platform.cmake - chooses the machine code for the system and processor that this build is for.

if(WIN32)
  set(system windows)
elseif(APPLE)
  set(system macos)
else()
  set(system linux)
endif()

set(processor "${CMAKE_SYSTEM_PROCESSOR}")
if(APPLE AND CMAKE_OSX_ARCHITECTURES)
  set(processor "${CMAKE_OSX_ARCHITECTURES}")
endif()
string(TOLOWER "${processor}" processor)

# Platforms have the names that are usual on each system: macos-arm64 but linux-aarch64, windows-amd64 but linux-x86_64.
# pipeline/modelwheel/resources/platforms.toml has the same alternatives; a test compares them.
if(processor MATCHES "^(x86_64|amd64)$")
  set(names x86_64 amd64)
elseif(processor MATCHES "^(aarch64|arm64)$")
  set(names aarch64 arm64)
else()
  set(names "${processor}")
endif()

foreach(name IN LISTS names)
  if(EXISTS "${PROJECT_SOURCE_DIR}/platforms/${system}-${name}/platform.cmake")
    set(MODEL_PLATFORM "${system}-${name}")
  endif()
endforeach()

if(NOT MODEL_PLATFORM)
  file(GLOB known RELATIVE "${PROJECT_SOURCE_DIR}/platforms" "${PROJECT_SOURCE_DIR}/platforms/*")
  list(JOIN known ", " known)
  message(FATAL_ERROR
    "This source distribution has no machine code for ${system} on ${processor}; it was compiled for ${known}. "
    "Ask its author to add the platform (modelwheel compile --platform ...).")
endif()

set(MODEL_PLATFORM_DIR "${PROJECT_SOURCE_DIR}/platforms/${MODEL_PLATFORM}")
include("${MODEL_PLATFORM_DIR}/platform.cmake")
