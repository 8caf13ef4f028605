# cmake/install.cmake - installs the library, its headers, and what CMake and pkg-config read. Everything can be moved.
include(CMakePackageConfigHelpers)

set(MODEL_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/${MODEL_MODULE})
set(MODEL_PKGCONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(TARGETS ${MODEL_MODULE} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Not install(EXPORT): its file would ask for a C++ linker, which the library does not need.
set(MODEL_FILE "${CMAKE_STATIC_LIBRARY_PREFIX}${MODEL_MODULE}${CMAKE_STATIC_LIBRARY_SUFFIX}")
set(MODEL_LIBRARIES "")
set(MODEL_LINK_OPTIONS "")
if(UNIX)
  set(MODEL_LIBRARIES m)
  set(MODEL_LINK_OPTIONS " -lm")
endif()
set(root "${CMAKE_INSTALL_PREFIX}")
cmake_path(ABSOLUTE_PATH root NORMALIZE)
foreach(kind CMAKE PKGCONFIG)
  cmake_path(ABSOLUTE_PATH MODEL_${kind}_DIR BASE_DIRECTORY "${root}" OUTPUT_VARIABLE from)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "${root}" OUTPUT_VARIABLE include)
  cmake_path(RELATIVE_PATH include BASE_DIRECTORY "${from}" OUTPUT_VARIABLE MODEL_${kind}_INCLUDE)
endforeach()

configure_file(package/config.cmake.in "${PROJECT_BINARY_DIR}/${MODEL_MODULE}-config.cmake" @ONLY)
configure_file(package/library.pc.in "${PROJECT_BINARY_DIR}/${MODEL_MODULE}.pc" @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/${MODEL_MODULE}-config-version.cmake"
  VERSION ${MODEL_VERSION}
  COMPATIBILITY SameMajorVersion
)
install(FILES
  "${PROJECT_BINARY_DIR}/${MODEL_MODULE}-config.cmake" "${PROJECT_BINARY_DIR}/${MODEL_MODULE}-config-version.cmake"
  DESTINATION ${MODEL_CMAKE_DIR}
)
install(FILES "${PROJECT_BINARY_DIR}/${MODEL_MODULE}.pc" DESTINATION ${MODEL_PKGCONFIG_DIR})
