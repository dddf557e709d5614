# A linker keeps one copy of an inline function of many: if a library for wide registers had one, all
# of the program could end up with it, on processors that lack the instructions.
#   cmake -DNM=nm -DLIBRARY=lib.a -P expect_no_shared_code.cmake
execute_process(COMMAND ${NM} ${LIBRARY} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" shared "${symbols}")
list(FILTER shared EXCLUDE REGEX "DW\\.ref\\.")
if(shared)
    list(JOIN shared "\n" lines)
    message(FATAL_ERROR "${LIBRARY} has code that other files may have as well:\n${lines}\n"
        "build without this level: -DRHIZOME_LEVELS=OFF")
endif()
