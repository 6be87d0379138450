# Finds a CAF that was packaged without CMake files (Debian 12). Imported targets: CAF::core, CAF::io, CAF::openssl.
# A configuration package that CAF itself installed is preferred.
find_package(CAF CONFIG QUIET COMPONENTS ${CAF_FIND_COMPONENTS})
if(CAF_FOUND)
  return()
endif()

find_path(CAF_INCLUDE_DIR caf/all.hpp)
mark_as_advanced(CAF_INCLUDE_DIR)
if(CAF_INCLUDE_DIR)
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" caf_version_line REGEX "^#define CAF_VERSION [0-9]+")
  if(caf_version_line MATCHES "([0-9]+)$")
    math(EXPR caf_major "${CMAKE_MATCH_1} / 10000")
    math(EXPR caf_minor "${CMAKE_MATCH_1} / 100 % 100")
    math(EXPR caf_patch "${CMAKE_MATCH_1} % 100")
    set(CAF_VERSION "${caf_major}.${caf_minor}.${caf_patch}")
  endif()
endif()

set(caf_needs_core Threads::Threads)
set(caf_needs_io CAF::core)
set(caf_needs_openssl CAF::io OpenSSL::SSL)
foreach(component IN LISTS CAF_FIND_COMPONENTS)
  find_library(CAF_${component}_LIBRARY caf_${component})
  mark_as_advanced(CAF_${component}_LIBRARY)
  if(CAF_${component}_LIBRARY AND CAF_INCLUDE_DIR)
    set(CAF_${component}_FOUND TRUE)
    if(NOT TARGET CAF::${component})
      add_library(CAF::${component} UNKNOWN IMPORTED)
      set_target_properties(CAF::${component} PROPERTIES
        IMPORTED_LOCATION "${CAF_${component}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES "${caf_needs_${component}}")
    endif()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION HANDLE_COMPONENTS)
