# What is needed from outside. All of it is looked for before anything is said, so that one run names
# everything that is missing and who brings it: a Debian package, or a module on a cluster.

option(RHIZOME_CUDA "Build for NVIDIA devices when the CUDA toolkit is here" OFF)

if(POLICY CMP0167)
    cmake_policy(SET CMP0167 NEW)  # Boost brings its own configuration since 1.70
endif()

set(rhizome_found "")
set(rhizome_missing "")

# rhizome_need(what found version hint)
macro(rhizome_need what found version hint)
    if(${found})
        list(APPEND rhizome_found "${what}|${version}")
    else()
        list(APPEND rhizome_missing "${what}|${hint}")
    endif()
endmacro()

find_package(Threads QUIET)
rhizome_need("Threads" "${Threads_FOUND}" "found" "the C library's development files")

find_package(Boost 1.74 QUIET COMPONENTS program_options)
rhizome_need("Boost program_options" "${Boost_FOUND}" "${Boost_VERSION_STRING}"
    "1.74 or newer: package libboost-program-options-dev, or module boost")

find_path(RHIZOME_XXHASH_INCLUDE xxhash.h DOC "Folder of xxhash.h")
set(rhizome_xxhash_version "")
if(RHIZOME_XXHASH_INCLUDE)
    file(STRINGS ${RHIZOME_XXHASH_INCLUDE}/xxhash.h rhizome_lines REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE)")
    string(REGEX MATCHALL "[0-9]+" rhizome_xxhash_version "${rhizome_lines}")
    list(JOIN rhizome_xxhash_version "." rhizome_xxhash_version)
    if(rhizome_xxhash_version VERSION_GREATER_EQUAL 0.8)
        add_library(rhizome_xxhash INTERFACE IMPORTED GLOBAL)
        target_include_directories(rhizome_xxhash INTERFACE ${RHIZOME_XXHASH_INCLUDE})
    endif()
endif()
if(TARGET rhizome_xxhash)
    set(rhizome_xxhash_found TRUE)
else()
    set(rhizome_xxhash_found FALSE)
endif()
rhizome_need("xxHash" ${rhizome_xxhash_found} "${rhizome_xxhash_version}"
    "0.8 or newer: package libxxhash-dev, or module xxhash")

if(RHIZOME_TESTS)
    find_package(GTest QUIET)
    if(TARGET GTest::gmock AND TARGET GTest::gtest_main)
        set(rhizome_gtest_found TRUE)
    else()
        set(rhizome_gtest_found FALSE)
    endif()
    rhizome_need("GoogleTest" ${rhizome_gtest_found} "${GTest_VERSION}"
        "with GoogleMock: packages libgtest-dev and libgmock-dev, or module googletest; or RHIZOME_TESTS=OFF")
endif()

if(rhizome_missing)
    set(rhizome_text "")
    foreach(line IN LISTS rhizome_missing)
        string(REPLACE "|" " (" line "${line}")
        string(APPEND rhizome_text "    ${line})\n")
    endforeach()
    message(FATAL_ERROR "Missing:\n${rhizome_text}"
        "On Debian and Ubuntu `make setup` installs all of it. What lies in an unusual place is found "
        "with CMAKE_PREFIX_PATH.")
endif()

# From here on: what the build can do without.

find_package(Ulfm QUIET)
if(Ulfm_FOUND)
    cmake_path(GET Ulfm_MPICXX PARENT_PATH rhizome_folder)
    list(APPEND rhizome_found "Open MPI with ULFM|${Ulfm_VERSION} in ${rhizome_folder}")
else()
    list(APPEND rhizome_found
        "Open MPI with ULFM|not found (${Ulfm_REASON})\; nothing that is built today needs it, the tests labelled mpi are skipped")
endif()

if(RHIZOME_CUDA)
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_FOUND)
        list(APPEND rhizome_found "CUDA toolkit|${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR}\; there are no kernels to build yet")
    else()
        list(APPEND rhizome_found "CUDA toolkit|not found (package nvidia-cuda-toolkit or module cuda brings it)\; the build goes on without it")
    endif()
else()
    list(APPEND rhizome_found "CUDA toolkit|not asked for (RHIZOME_CUDA)")
endif()

# The virtual environment has NumPy where `make setup` made it; elsewhere the environment may.
set(rhizome_python_numpy FALSE)
unset(rhizome_python)
if(EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python3)
    set(rhizome_python ${PROJECT_SOURCE_DIR}/.venv/bin/python3)
else()
    find_program(rhizome_python python3 NO_CACHE)
endif()
if(rhizome_python)
    execute_process(COMMAND ${rhizome_python} -c "import numpy, sys; print(sys.version.split()[0] + ' with NumPy ' + numpy.__version__)"
        OUTPUT_VARIABLE rhizome_text OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE rhizome_failed)
    if(NOT rhizome_failed)
        set(rhizome_python_numpy TRUE)
    else()
        set(rhizome_text "without NumPy; the tests that compare with it are skipped")
    endif()
    list(APPEND rhizome_found "Python|${rhizome_text}")
else()
    list(APPEND rhizome_found "Python|not found; the tests written in it are skipped")
endif()

function(rhizome_say_what_was_found)
    message(STATUS "Rhizome ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, with")
    foreach(line IN LISTS rhizome_found)
        string(REGEX MATCH "^([^|]*)\\|(.*)$" line "${line}")
        set(what "${CMAKE_MATCH_1}                        ")
        string(SUBSTRING "${what}" 0 24 what)
        message(STATUS "  ${what}${CMAKE_MATCH_2}")
    endforeach()
endfunction()
cmake_language(DEFER CALL rhizome_say_what_was_found)
