# The libraries out of the archive of tools/bundle, which cmake/bundle has built into the folder TERRACE_LIBRARIES, as the targets that
# cmake/libraries.cmake finds on other machines. The installed package uses this file too.

# terrace_bundled_library(TARGET ARCHIVE [LINK libraries...] [DEFINE definitions...])
function(terrace_bundled_library target archive)
  cmake_parse_arguments(arg "" "" "LINK;DEFINE" ${ARGN})
  set(file ${TERRACE_LIBRARIES}/lib/lib${archive}.a)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "TERRACE_LIBRARIES=${TERRACE_LIBRARIES} has no lib/lib${archive}.a; tools/setup --from ARCHIVE builds that folder")
  endif()
  add_library(${target} STATIC IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${file} INTERFACE_INCLUDE_DIRECTORIES ${TERRACE_LIBRARIES}/include
                        INTERFACE_LINK_LIBRARIES "${arg_LINK}" INTERFACE_COMPILE_DEFINITIONS "${arg_DEFINE}"
                        # libtorch exports functions of some of the same names; programs must not give it these instead.
                        INTERFACE_LINK_OPTIONS -Wl,--exclude-libs,lib${archive}.a)
endfunction()

function(terrace_bundled_headers target)
  add_library(${target} INTERFACE IMPORTED)
  set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${TERRACE_LIBRARIES}/include)
endfunction()

if(NOT TARGET PkgConfig::xgboost)
  find_package(Threads REQUIRED)
  terrace_bundled_library(fmt::fmt fmt)
  terrace_bundled_library(spdlog::spdlog spdlog LINK fmt::fmt Threads::Threads DEFINE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
  terrace_bundled_library(ZLIB::ZLIB z)
  terrace_bundled_library(PkgConfig::zstd zstd)
  terrace_bundled_library(PkgConfig::pcre2 pcre2-8 DEFINE PCRE2_STATIC)
  terrace_bundled_library(PkgConfig::utf8proc utf8proc DEFINE UTF8PROC_STATIC)
  terrace_bundled_library(PkgConfig::xxhash xxhash)
  terrace_bundled_library(PkgConfig::sentencepiece sentencepiece LINK Threads::Threads)
  terrace_bundled_library(PkgConfig::xgboost xgboost LINK Threads::Threads)
  terrace_bundled_library(PkgConfig::hdf5 hdf5 LINK ZLIB::ZLIB ${CMAKE_DL_LIBS} m)
  terrace_bundled_library(terrace_hdf5_hl hdf5_hl LINK PkgConfig::hdf5)
  terrace_bundled_library(PkgConfig::netcdf netcdf LINK terrace_hdf5_hl)
  terrace_bundled_headers(nlohmann_json::nlohmann_json)
  terrace_bundled_headers(tomlplusplus::tomlplusplus)
  terrace_bundled_headers(CLI11::CLI11)
  terrace_bundled_headers(PkgConfig::httplib)
  # The trainer of SentencePiece is a library of its own elsewhere.
  add_library(sentencepiece_train INTERFACE IMPORTED)
  set_target_properties(sentencepiece_train PROPERTIES INTERFACE_LINK_LIBRARIES PkgConfig::sentencepiece)
endif()
set(terrace_netcdf PkgConfig::netcdf PkgConfig::hdf5)
set(terrace_udunits "")
# The archives of the targets above, for terrace.pc.
set(terrace_bundled_archives spdlog fmt z zstd pcre2-8 utf8proc xxhash sentencepiece xgboost netcdf hdf5_hl hdf5)
