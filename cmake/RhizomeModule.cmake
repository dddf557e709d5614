# rhizome_module(name SOURCES a.cpp ... [USES module ...] [OWNS target ...])
# One folder, one static library. USES is the arrow on the drawing (ARCHITECTURE.md). OWNS is
# private: a header that leaks a third-party header breaks its neighbour's build at once.
function(rhizome_module name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES;OWNS")
    list(TRANSFORM arg_SOURCES PREPEND "src/${name}/")
    list(TRANSFORM arg_USES PREPEND "rhizome_")
    add_library(rhizome_${name} STATIC ${arg_SOURCES})
    target_include_directories(rhizome_${name} PUBLIC src)
    target_link_libraries(rhizome_${name} PUBLIC ${arg_USES} PRIVATE rhizome_flags ${arg_OWNS})
endfunction()

# rhizome_test(file LABELS label ... [USES module ...] [TIMEOUT seconds])
# tests/<file>.cpp becomes one program; each of its tests is a CTest of its own.
function(rhizome_test file)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;USES")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    get_filename_component(name ${file} NAME)
    list(TRANSFORM arg_USES PREPEND "rhizome_")
    add_executable(${name} tests/${file}.cpp)
    target_include_directories(${name} PRIVATE tests)
    # A test's own code runs for milliseconds and is compiled twice (plain, sanitized) on every change.
    target_compile_options(${name} PRIVATE -O0 -g1)
    target_compile_definitions(${name} PRIVATE RHIZOME_TESTS="${PROJECT_SOURCE_DIR}/tests")
    target_link_libraries(${name} PRIVATE rhizome_flags ${arg_USES} GTest::gmock GTest::gtest_main)
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
        PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
