# An Open MPI that can lose a rank and go on. tools/find-mpi decides which one, for tools/setup too.
#
#   Ulfm_FOUND          and then
#   rhizome_mpi         imported target: what the compiler wrapper adds, for the compiler in use here
#   Ulfm_VERSION, Ulfm_MPICXX, Ulfm_MPIRUN
#   Ulfm_OPTIONS        of every launch: fault tolerance on, and off what hangs after a loss
#   Ulfm_REASON         if not found, why
#
# MPI_HOME (variable or environment) names a prefix; RHIZOME_MPI_ACCEPT a further version.

set(RHIZOME_MPI_ACCEPT "$ENV{RHIZOME_MPI_ACCEPT}" CACHE STRING
    "Versions of Open MPI to take besides those of cmake/ulfm_versions.txt")
if(NOT MPI_HOME)
    set(MPI_HOME "$ENV{MPI_HOME}")
endif()

block()
    # The search compiles a probe, so its answer is kept for as long as its question is the same.
    find_program(rhizome_mpicxx_on_path mpicxx NO_CACHE NO_CMAKE_PATH NO_CMAKE_ENVIRONMENT_PATH)
    file(GLOB rhizome_mpicxx_in_venv ${PROJECT_SOURCE_DIR}/.venv/bin/mpicxx)
    file(SHA256 ${PROJECT_SOURCE_DIR}/cmake/ulfm_versions.txt rhizome_versions)
    string(JOIN "|" rhizome_question "${MPI_HOME}" "${RHIZOME_MPI_ACCEPT}" "${rhizome_mpicxx_on_path}"
        "${rhizome_mpicxx_in_venv}" "${rhizome_versions}")
    if(NOT rhizome_question STREQUAL Ulfm_QUESTION OR NOT EXISTS "${Ulfm_MPICXX}")
        execute_process(
            COMMAND ${CMAKE_COMMAND} -E env "MPI_HOME=${MPI_HOME}"
                "RHIZOME_MPI_ACCEPT=${RHIZOME_MPI_ACCEPT}" ${PROJECT_SOURCE_DIR}/tools/find-mpi
            OUTPUT_VARIABLE answer ERROR_VARIABLE answer RESULT_VARIABLE failed)
        string(REPLACE ";" "," answer "${answer}")
        foreach(key mpicxx mpirun version)
            string(TOUPPER ${key} KEY)
            string(REGEX MATCH "(^|\n)${key}=([^\n]*)" line "${answer}")
            set(Ulfm_${KEY} "${CMAKE_MATCH_2}" CACHE INTERNAL "")
        endforeach()
        string(REGEX MATCHALL "passed=[^\n]*" reasons "${answer}")
        list(TRANSFORM reasons REPLACE "^passed=" "")
        list(JOIN reasons "; " reasons)
        if(failed AND NOT reasons)
            set(reasons "no mpicxx in MPI_HOME, on PATH, in the usual places or in .venv")
        endif()
        set(Ulfm_REASON "${reasons}" CACHE INTERNAL "")
        set(Ulfm_QUESTION "${rhizome_question}" CACHE INTERNAL "")
    endif()
endblock()

# Shared memory hides a death from everybody but the launcher; the han collectives and the limit up to
# which processes are known in advance were seen to hang after one. The ofi transport, unused, sleeps for
# a second when MPI_Init closes it.
set(Ulfm_OPTIONS --with-ft ulfm --mca mpi_add_procs_cutoff 1048576 --mca coll ^han --mca btl ^sm,ofi
    --mca async_mpi_finalize 1)

set(Ulfm_FOUND FALSE)
if(Ulfm_MPICXX)
    set(Ulfm_FOUND TRUE)
endif()
if(Ulfm_FOUND AND NOT TARGET rhizome_mpi)
    block()
        foreach(what compile link)
            execute_process(COMMAND ${Ulfm_MPICXX} --showme:${what}
                OUTPUT_VARIABLE ${what}_flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
            separate_arguments(${what}_flags UNIX_COMMAND "${${what}_flags}")
        endforeach()
        set(include_folders ${compile_flags})
        list(FILTER include_folders INCLUDE REGEX "^-I")
        list(TRANSFORM include_folders REPLACE "^-I" "")
        list(FILTER compile_flags EXCLUDE REGEX "^-I")
        add_library(rhizome_mpi INTERFACE IMPORTED GLOBAL)
        set_target_properties(rhizome_mpi PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${include_folders}"
            INTERFACE_COMPILE_OPTIONS "${compile_flags}"
            INTERFACE_LINK_LIBRARIES "${link_flags}")
    endblock()
endif()
