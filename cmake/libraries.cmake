# The Debian libraries that the rooms use; the build and the installed package look for the same ones.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hdf5 REQUIRED IMPORTED_TARGET hdf5)
pkg_check_modules(netcdf REQUIRED IMPORTED_TARGET netcdf)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
# Its file names a definition for building the library itself.
set_property(TARGET PkgConfig::utf8proc PROPERTY INTERFACE_COMPILE_OPTIONS "")
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
# Debian's CMake files of XGBoost name a program that its packages lack.
pkg_check_modules(xgboost REQUIRED IMPORTED_TARGET xgboost>=1.6)
