# Compiler settings of every target, in one interface library.

option(RHIZOME_TESTS "Build the tests" ON)
set(RHIZOME_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")

# Not `native`: the instruction set belongs to the fingerprint of a run, so a cluster of unlike nodes
# shares one build. x86-64-v3 (AVX2, FMA) has been in every server processor since 2015.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(rhizome_architecture x86-64-v3)
else()
    set(rhizome_architecture "")
endif()
set(RHIZOME_ARCHITECTURE "${rhizome_architecture}" CACHE STRING "Value of -march; empty: the compiler's own")

set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g")
set(CMAKE_CXX_FLAGS_RELEASE "-O3")

add_library(rhizome_flags INTERFACE)
target_compile_options(rhizome_flags INTERFACE
    -Wall -Wextra -Wconversion -Wshadow -Werror
    # a * b + c stays two roundings unless the code says std::fma: the same bits at every
    # optimization level and vector width.
    -ffp-contract=off
    # Let loops with square roots use vector registers; changes no result.
    -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # Wrong alarms on std::string (GCC bug 105329) and std::vector at -O3.
    target_compile_options(rhizome_flags INTERFACE -Wno-restrict -Wno-free-nonheap-object)
endif()
if(RHIZOME_ARCHITECTURE)
    target_compile_options(rhizome_flags INTERFACE -march=${RHIZOME_ARCHITECTURE})
endif()
if(RHIZOME_SANITIZE)
    # At -O3 the checks take four times as long to compile, and change no result. GCC's flow analysis
    # gives wrong alarms on sanitized code, which its manual warns of. -g1: lines, for the reports.
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
    target_compile_options(rhizome_flags INTERFACE
        -fsanitize=${RHIZOME_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
        $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(rhizome_flags INTERFACE -fsanitize=${RHIZOME_SANITIZE})
endif()
