# rhizome_fuzz(name SOURCES file ... [USES module ...] [COUNT mutations] [TIMEOUT seconds])
# tests/fuzz/<file> with tests/fuzz/driver.cpp becomes the program and the test fuzz_<name>: a fixed number of
# mutations, the same ones every time. tests/fuzz/<name>/, if there is one, has inputs that once did harm.
#
# With -DRHIZOME_LIBFUZZER=ON (clang; the preset fuzz) there is libfuzzer_<name> as well. `make fuzz` runs
# whichever there is for FUZZ_SECONDS per target; both are in the target `fuzz`.
option(RHIZOME_LIBFUZZER "Build the fuzz targets for libFuzzer too; needs clang" OFF)

add_custom_target(fuzz)

function(rhizome_fuzz name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "COUNT;TIMEOUT" "SOURCES;USES")
    if(NOT arg_COUNT)
        set(arg_COUNT 20000)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 300)
    endif()
    list(TRANSFORM arg_SOURCES PREPEND "tests/fuzz/")
    list(TRANSFORM arg_USES PREPEND "rhizome_")
    set(programs fuzz_${name})
    add_executable(fuzz_${name} ${arg_SOURCES} tests/fuzz/driver.cpp)
    if(RHIZOME_LIBFUZZER)
        list(APPEND programs libfuzzer_${name})
        add_executable(libfuzzer_${name} ${arg_SOURCES} tests/fuzz/libfuzzer.cpp)
        target_link_options(libfuzzer_${name} PRIVATE -fsanitize=fuzzer)
    endif()
    foreach(program ${programs})
        target_include_directories(${program} PRIVATE tests)
        target_link_libraries(${program} PRIVATE rhizome_flags ${arg_USES})
        add_dependencies(fuzz ${program})
    endforeach()

    set(inputs "")
    if(EXISTS ${PROJECT_SOURCE_DIR}/tests/fuzz/${name})
        set(inputs ${PROJECT_SOURCE_DIR}/tests/fuzz/${name})
    endif()
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} --count ${arg_COUNT} ${inputs})
    set_tests_properties(fuzz_${name} PROPERTIES LABELS unit TIMEOUT ${arg_TIMEOUT}
        ENVIRONMENT_MODIFICATION FUZZ_SECONDS=unset:)
endfunction()
