# What is needed from outside. All of it is looked for before anything is said, so that one run names
# everything that is missing and who brings it: a Debian package, or a module on a cluster.

option(RHIZOME_CUDA "Build for NVIDIA devices when the CUDA toolkit is here" OFF)

if(POLICY CMP0167)
    cmake_policy(SET CMP0167 NEW)  # Boost brings its own configuration since 1.70
endif()

set(rhizome_summary "")
set(rhizome_missing "")

# One line of the summary that ends the configuration.
macro(rhizome_say what text)
    string(SUBSTRING "${what}                        " 0 24 rhizome_column)
    string(APPEND rhizome_summary "\n     ${rhizome_column}${text}")
endmacro()

# rhizome_need(what found version who-brings-it)
macro(rhizome_need what found version hint)
    if(${found})
        rhizome_say("${what}" "${version}")
    else()
        string(APPEND rhizome_missing "\n  ${what} (not found), ${hint}")
    endif()
endmacro()

find_package(Threads QUIET)
rhizome_need("threads" "${Threads_FOUND}" "found" "they come with the C library's development files")

find_package(Boost 1.74 QUIET COMPONENTS program_options)
rhizome_need("Boost program_options" "${Boost_FOUND}" "${Boost_VERSION_STRING}"
    "1.74 or newer is in package libboost-program-options-dev or module boost")

# Only its header is used, so any copy of it will do.
find_path(RHIZOME_XXHASH_INCLUDE xxhash.h DOC "Folder of xxhash.h")
set(rhizome_version "")
if(RHIZOME_XXHASH_INCLUDE)
    file(STRINGS ${RHIZOME_XXHASH_INCLUDE}/xxhash.h rhizome_lines
        REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE)")
    string(REGEX MATCHALL "[0-9]+" rhizome_version "${rhizome_lines}")
    list(JOIN rhizome_version "." rhizome_version)
endif()
if(rhizome_version VERSION_GREATER_EQUAL 0.8)
    set(rhizome_ok TRUE)
    add_library(rhizome_xxhash INTERFACE IMPORTED GLOBAL)
    target_include_directories(rhizome_xxhash INTERFACE ${RHIZOME_XXHASH_INCLUDE})
else()
    set(rhizome_ok FALSE)
endif()
rhizome_need("xxHash" ${rhizome_ok} "${rhizome_version}"
    "0.8 or newer is in package libxxhash-dev or module xxhash")

# The serial library: every process writes a file of its own. Where only the parallel one is
# installed, its header wants MPI's, which nothing but the trainer may have.
find_package(HDF5 1.10 QUIET COMPONENTS C)
if(HDF5_FOUND AND NOT HDF5_IS_PARALLEL)
    add_library(rhizome_hdf5 INTERFACE IMPORTED GLOBAL)
    target_include_directories(rhizome_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
    target_link_libraries(rhizome_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
    set(rhizome_ok TRUE)
else()
    set(rhizome_ok FALSE)
endif()
rhizome_need("HDF5" ${rhizome_ok} "${HDF5_VERSION}"
    "1.10 or newer, built without MPI, is in package libhdf5-dev or module hdf5")

# Its package configurations ask for more than is needed to link it. Built with OpenMP, it is told to
# keep to the calling thread.
find_path(RHIZOME_DNNL_INCLUDE oneapi/dnnl/dnnl.h DOC "Folder of oneapi/dnnl/dnnl.h")
find_library(RHIZOME_DNNL_LIBRARY dnnl DOC "oneDNN")
find_package(OpenMP QUIET COMPONENTS CXX)
set(rhizome_version "")
if(RHIZOME_DNNL_INCLUDE AND EXISTS ${RHIZOME_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h)
    file(STRINGS ${RHIZOME_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h rhizome_lines
        REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]")
    string(REGEX MATCHALL "[0-9]+" rhizome_version "${rhizome_lines}")
    list(JOIN rhizome_version "." rhizome_version)
endif()
if(rhizome_version VERSION_GREATER_EQUAL 2.6 AND RHIZOME_DNNL_LIBRARY AND OpenMP_CXX_FOUND)
    set(rhizome_ok TRUE)
    add_library(rhizome_dnnl INTERFACE IMPORTED GLOBAL)
    target_include_directories(rhizome_dnnl SYSTEM INTERFACE ${RHIZOME_DNNL_INCLUDE})
    target_link_libraries(rhizome_dnnl INTERFACE ${RHIZOME_DNNL_LIBRARY} OpenMP::OpenMP_CXX)
else()
    set(rhizome_ok FALSE)
endif()
rhizome_need("oneDNN" ${rhizome_ok} "${rhizome_version}"
    "2.6 or newer, with a compiler that has OpenMP, is in package libdnnl-dev or module onednn")

find_package(nlohmann_json 3.10 QUIET)
rhizome_need("JSON for Modern C++" "${nlohmann_json_FOUND}" "${nlohmann_json_VERSION}"
    "3.10 or newer is in package nlohmann-json3-dev or module nlohmann-json")

if(RHIZOME_TESTS)
    find_package(GTest QUIET)
    if(TARGET GTest::gmock AND TARGET GTest::gtest_main)
        set(rhizome_ok TRUE)
    else()
        set(rhizome_ok FALSE)
    endif()
    rhizome_need("GoogleTest and Mock" ${rhizome_ok} "${GTest_VERSION}"
        "it is in packages libgtest-dev and libgmock-dev or module googletest; or build with -DRHIZOME_TESTS=OFF")
endif()

if(rhizome_missing)
    message(FATAL_ERROR "What the build needs is missing:${rhizome_missing}\n"
        "On Debian and Ubuntu `make setup` installs all of it. What lies in an unusual place is found "
        "by way of CMAKE_PREFIX_PATH.")
endif()

# From here on: what the build can do without.

find_package(Ulfm QUIET)
if(Ulfm_FOUND)
    cmake_path(GET Ulfm_MPICXX PARENT_PATH rhizome_folder)
    rhizome_say("Open MPI with ULFM" "${Ulfm_VERSION}, ${rhizome_folder}")
else()
    rhizome_say("Open MPI with ULFM" "not found (${Ulfm_REASON}); `rhizome run` will refuse, tests labelled mpi are skipped")
endif()

if(NOT RHIZOME_CUDA)
    rhizome_say("CUDA toolkit" "not asked for (RHIZOME_CUDA=OFF)")
else()
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_FOUND)
        rhizome_say("CUDA toolkit" "${CUDAToolkit_VERSION}, ${CUDAToolkit_BIN_DIR}; there are no kernels to build yet")
    else()
        rhizome_say("CUDA toolkit" "not found (no nvcc on PATH, in CUDAToolkit_ROOT or in the usual places); the build goes on without it")
    endif()
endif()

# `make setup` made an environment with NumPy; elsewhere the python3 at hand may have it.
unset(rhizome_python)
if(EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python3)
    set(rhizome_python ${PROJECT_SOURCE_DIR}/.venv/bin/python3)
else()
    find_program(rhizome_python python3 NO_CACHE)
endif()
set(rhizome_numpy "")
set(rhizome_h5py "")
if(NOT rhizome_python)
    rhizome_say("Python" "not found; the tests written in it are skipped")
else()
    foreach(rhizome_module numpy h5py)
        execute_process(COMMAND ${rhizome_python} -c "import ${rhizome_module} as m; print(m.__version__)"
            OUTPUT_VARIABLE rhizome_${rhizome_module} OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        if(rhizome_${rhizome_module})
            rhizome_say("${rhizome_module} in Python" "${rhizome_${rhizome_module}}")
        else()
            rhizome_say("${rhizome_module} in Python" "not found by ${rhizome_python}; tests that need it are skipped")
        endif()
    endforeach()
endif()

function(rhizome_say_all)
    set(instruction_set "-march=${RHIZOME_ARCHITECTURE}")
    if(NOT RHIZOME_ARCHITECTURE)
        set(instruction_set "the compiler's own instruction set")
    endif()
    set(build_type "${CMAKE_BUILD_TYPE}")
    if(NOT build_type)
        set(build_type "no build type, so not optimized")
    endif()
    message(STATUS "rhizome ${PROJECT_VERSION}: ${build_type}, ${CMAKE_CXX_COMPILER_ID} "
        "${CMAKE_CXX_COMPILER_VERSION}, ${instruction_set}, with${rhizome_summary}")
endfunction()
cmake_language(DEFER CALL rhizome_say_all)
