# Builds and installs terrace from the archive of tools/bundle, without root, network and Python. Sourced by tools/setup, which has
# read the arguments: archive, torch, prefix, build, jobs, cuda, hip, mpi (yes or no), copy_torch (yes or no), all paths absolute.

# problem TEXT: everything that is missing is said at once.
problems=""
problem() { problems="$problems
  $1"; }

# Prints "GCC 12" or "Clang 16", or nothing for another compiler.
compiler_version() {
  printf '__clang_major__ __GNUC__\n' | "$1" -E -P -x c++ - 2>/dev/null |
    awk 'NF == 2 { if ($1 ~ /^[0-9]+$/) print "Clang", $1; else if ($2 ~ /^[0-9]+$/) print "GCC", $2 }'
}

check_compiler() {
  local compiler=${CXX:-c++} found kind major
  if ! command -v "$compiler" >/dev/null; then
    problem "there is no C++ compiler $compiler; load a module with GCC 12 or later or Clang 16 or later, or name one with CXX=.. CC=.."
    return
  fi
  found=$(compiler_version "$compiler") || true
  kind=${found% *} major=${found#* }
  if { [ "$kind" = GCC ] && [ "$major" -lt 12 ]; } || { [ "$kind" = Clang ] && [ "$major" -lt 16 ]; }; then
    problem "$compiler is $found, which is too old; load a module with GCC 12 or later or Clang 16 or later, or name one with CXX=.. CC=.."
  elif [ -z "$found" ]; then
    problem "$compiler is neither GCC nor Clang, or does not work; name one with CXX=.. CC=.."
  fi
  command -v "${CC:-cc}" >/dev/null || problem "there is no C compiler ${CC:-cc}; name one with CC=.."
}

check_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | awk 'NR == 1 { print $3 }') || true
  if [ -z "$version" ]; then
    problem "there is no cmake in PATH; load a module with CMake 3.25 or later, or run 'pip install --user cmake' where there is a network"
  elif [ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" != 3.25 ]; then
    problem "cmake is $version, and 3.25 or later is needed; load a newer module"
  fi
  command -v ninja >/dev/null || command -v make >/dev/null || problem "there is neither ninja nor make in PATH"
}

check_torch() {
  local how="--torch names the folder 'torch' of a torch 2.11 for C++20, such as .../site-packages/torch of an installed wheel
  (python3 -c 'import torch; print(torch.__path__[0])' prints it)"
  if [ -z "$torch" ]; then
    problem "$how"
  elif [ ! -e "$torch/lib/libtorch_cpu.so" ] || [ ! -e "$torch/include/ATen/core/Tensor.h" ]; then
    problem "$torch has no lib/libtorch_cpu.so or no include/ATen/core/Tensor.h; $how"
  elif [ -e "$torch/version.py" ] && ! grep -q "^__version__ = '2\.11\." "$torch/version.py"; then
    echo "   note: this is torch $(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$torch/version.py"), and terrace is tested with 2.11 only"
  fi
}

check_mpi() {
  [ "$mpi" = no ] || command -v mpicc >/dev/null || [ -n "${CRAY_MPICH_DIR:-}${MPI_HOME:-}" ] ||
    problem "there is no MPI: mpicc is not in PATH; load its module, or say --without-mpi for ranks as threads of one process"
}

check_prefix() {
  local parent free_mb
  if [ -z "$prefix" ]; then
    problem "--prefix names the folder to install into"
    return
  fi
  if [ -e "$prefix" ] && [ ! -e "$prefix/bin/terrace" ] && { [ ! -d "$prefix" ] || [ -n "$(ls -A "$prefix")" ]; }; then
    problem "$prefix exists and holds no terrace; give a new or an empty folder with --prefix"
  fi
  parent=$(dirname "$prefix")
  if ! mkdir -p "$parent" 2>/dev/null || [ ! -w "$parent" ]; then
    problem "$parent cannot be written; give another --prefix"
    return
  fi
  free_mb=$(df --output=avail -m "$parent" | tail -n 1 | tr -d ' ')
  [ "$free_mb" -ge 1500 ] || problem "$parent has $free_mb MB free and the installation takes up to 1500; give another --prefix"
}

check_hip() {
  local rocm=${ROCM_PATH:-/opt/rocm}
  [ "$hip" = yes ] || return 0
  [ "$cuda" = no ] || problem "--cuda and --hip exclude each other, since a torch is built for the GPUs of one maker; leave one out"
  [ -e "$rocm/include/rccl/rccl.h" ] || problem "--hip needs ROCm with RCCL: $rocm has no include/rccl/rccl.h; load its module, which sets ROCM_PATH"
  [ -z "$torch" ] || [ -e "$torch/lib/libtorch_hip.so" ] ||
    problem "--hip needs torch for ROCm: $torch has no lib/libtorch_hip.so; install torch 2.11 from PyTorch's index of wheels for ROCm"
}

check_everything() {
  [ -e "$archive" ] || problem "$archive does not exist; tools/bundle makes it on a Debian 12 machine with a network"
  check_compiler
  check_cmake
  check_torch
  check_mpi
  check_prefix
  [ "$cuda" = no ] || command -v nvcc >/dev/null || [ -n "${CUDA_HOME:-}${CUDA_PATH:-}" ] ||
    problem "--cuda needs the CUDA toolkit of torch's wheel, 13 or 12: nvcc is neither in PATH nor under CUDA_HOME; load its module"
  check_hip
  [ -z "$problems" ] || stop "terrace cannot be installed so:$problems"
}

damaged() {
  stop "$archive is damaged: $1; copy it again, and compare its SHA-256 with what tools/bundle said"
}

# Sets `sources` to the folder of the unpacked archive, all of whose files have the hashes that tools/bundle wrote. Unpacked again, the
# files have their times again, so that an interrupted build continues.
unpack_archive() {
  local wrong named
  if [ -d "$archive" ]; then
    sources=$archive
  else
    named=$(sha256sum "$archive" | cut -d ' ' -f 1)
    if [ "$(cat "$build/archive.txt" 2>/dev/null)" != "$named" ]; then
      if [ -e "$build" ] && [ ! -e "$build/archive.txt" ] && [ -n "$(ls -A "$build")" ]; then
        stop "$build exists and is no folder of such a build; give another --build"
      fi
      rm -rf "$build"
    fi
    rm -rf "$build/unpacked"
    mkdir -p "$build/unpacked"
    tar xzf "$archive" -C "$build/unpacked" 2>"$build/tar.txt" || { wrong=$(head -n 1 "$build/tar.txt"); rm -rf "$build"; damaged "$wrong"; }
    sources=$(echo "$build"/unpacked/*)
  fi
  if [ -e "$sources/hashes.txt" ]; then
    wrong=$(cd "$sources" && sha256sum --quiet -c hashes.txt 2>/dev/null | sed 's/: .*//' | head -n 3 | tr '\n' ' ') || true
    wrong=${wrong:+$wrong differ from hashes.txt}
  else
    wrong="it has no hashes.txt"
  fi
  if [ -n "$wrong" ]; then
    [ -d "$archive" ] || rm -rf "$build"
    damaged "$wrong"
  fi
  [ -d "$archive" ] || echo "$named" >"$build/archive.txt"
}

build_libraries() {
  run_step "configure the libraries" "the log's end says what the compiler or CMake lacks" \
    cmake -S "$sources/cmake/bundle" -B "$build/libraries_build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$build/libraries" &&
    run_step "build the libraries" "the log's end names the file that does not compile; please report it with compiler and version" \
      cmake --build "$build/libraries_build" -j "$jobs" --target install
}

build_program() {
  local options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O3 -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16
    -DTERRACE_TESTS=OFF -DTERRACE_STRICT=OFF -DTERRACE_RELOCATABLE=ON -DTERRACE_TORCH_ROOT="$torch" -DTERRACE_LIBRARIES="$build/libraries"
    -DTERRACE_D3="$build/libraries/share/d3.min.js" -DTERRACE_ARROW_ROOT=none)
  [ "$mpi" = yes ] && options+=(-DTERRACE_MPI=ON) || options+=(-DTERRACE_MPI=OFF)
  [ "$cuda" = no ] || options+=(-DTERRACE_CUDA=ON -DCMAKE_CUDA_FLAGS_RELEASE=-O3 ${TERRACE_CUDA_ARCHITECTURES:+-DTERRACE_CUDA_ARCHITECTURES="$TERRACE_CUDA_ARCHITECTURES"})
  [ "$hip" = no ] || options+=(-DTERRACE_HIP=ON -DCMAKE_HIP_FLAGS_RELEASE=-O3 ${TERRACE_HIP_ARCHITECTURES:+-DTERRACE_HIP_ARCHITECTURES="$TERRACE_HIP_ARCHITECTURES"})
  run_step "configure terrace" "the log's end says what is missing" \
    cmake -S "$sources" -B "$build/terrace_build" "${generator[@]}" "${options[@]}" || return
  if [ "$mpi" = yes ] && grep -q 'No MPI library was found' "$STEP_LOGS/configure_terrace.log"; then
    stop "CMake finds no MPI that works with ${CC:-cc}, see $STEP_LOGS/configure_terrace.log; load its module, or say --without-mpi"
  fi
  run_step "build terrace" "the log's end names the file that does not compile; please report it with compiler and version" \
    cmake --build "$build/terrace_build" -j "$jobs" --target terrace_program
}

# The libraries that the program loads, in the layout of the wheel: torch/lib, and beside torch NVIDIA's. With CUDA all
# of NVIDIA's are placed, since they load each other by name.
place_torch() {
  local site to file
  site=$(dirname "$torch") to=$partial/lib/terrace
  mkdir -p "$to"
  # LLVM's run-time library of OpenMP comes with the compiler, which other nodes may lack.
  for file in $(ldd "$build/terrace_build/terrace" | awk '$1 ~ /^libi?omp/ { print $3 }'); do
    cp -L "$file" "$to/"
  done
  if [ "$copy_torch" = no ]; then
    ln -s "$torch" "$to/torch"
    [ ! -d "$site/nvidia" ] || ln -s "$site/nvidia" "$to/nvidia"
    return
  fi
  if [ "$cuda" = yes ]; then
    (cd "$site" && cp -a --parents torch/lib nvidia/*/lib "$to/")
    return
  elif [ "$hip" = yes ]; then  # beside its libraries torch has files of ROCm's, which these look for there
    (cd "$site" && cp -a --parents torch/lib torch/share "$to/")
    return
  fi
  for file in $(ldd "$build/terrace_build/terrace" | awk '$2 == "=>" { print $3 }'); do
    case $(realpath "$(dirname "$file")")/ in
      "$site"/*)
        file=$(realpath --relative-to="$site" "$(dirname "$file")")/$(basename "$file")
        mkdir -p "$to/$(dirname "$file")"
        cp -L "$site/$file" "$to/$file" || return
        ;;
    esac
  done
}

# Installs beside the prefix and renames at the end: the prefix is never half an installation.
install_program() {
  partial=$prefix.partial
  rm -rf "$partial"
  trap 'rm -rf "$partial"' EXIT
  run_step "install" "the log's end says what could not be written" cmake --install "$build/terrace_build" --prefix "$partial" || return
  mkdir -p "$partial/share/licences"
  (cd "$sources/libraries" && find . -type f \( -iname 'LICEN[CS]E*' -o -iname 'COPYING*' -o -iname 'COPYRIGHT*' \) -exec cp --parents {} "$partial/share/licences/" \;) &&
    cp "$sources/LICENSE" "$partial/share/licences/" && cp -r "$sources/configs" "$partial/share/" &&
    mkdir -p "$partial/share/machines" && cp "$sources"/machines/*.toml "$partial/share/machines/" || return
  run_step "the libraries of torch" "see whether there is room for them, or give --link-torch to leave them where they are" place_torch || return
  run_step "the installed program" "see the log: a library that it names is not found on this machine" "$partial/bin/terrace" --version || return
  rm -rf "$prefix.previous"
  [ ! -e "$prefix" ] || mv "$prefix" "$prefix.previous"
  mv "$partial" "$prefix"
  rm -rf "$prefix.previous"
}

install_archive() {
  check_everything
  generator=()
  ! command -v ninja >/dev/null || generator=(-G Ninja)
  unpack_archive
  STEP_LOGS=$build/logs
  mkdir -p "$STEP_LOGS"
  build_libraries && build_program && install_program || exit 1
  cat "$STEP_LOGS/the_installed_program.log"
  echo "== installed in $prefix after $SECONDS s; the folder may be moved. $build is no longer needed."
}
