#include "cli/program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>
#include <system_error>

#include "cli/command_line.hpp"
#include "cli/output_file.hpp"

namespace rhizome::cli {
namespace {

/// Descriptors 0 to 2 are always open, or the first file that is opened would get the number of
/// standard output and be written into.
void open_standard_descriptors() {
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
        if (fcntl(descriptor, F_GETFD) == -1) {
            static_cast<void>(open("/dev/null", O_RDWR));  // gets the lowest free number
        }
    }
}

ExitCode unforeseen(const std::exception& error, const Log& log) {
    log.error(std::string{"unforeseen: "} + error.what() + " (a bug in rhizome), please report it");
    return ExitCode::our_fault;
}

ExitCode run_and_report(const Arguments& arguments, const Environment& environment,
                        const Run& run) {
    const Log log = log_to(STDERR_FILENO);
    try {
        return run(arguments, environment, log);
    } catch (const UserError& error) {
        // Without text somebody else has said it.
        if (!std::string_view{error.what()}.empty()) log.error(error.what());
        return error.code();
    } catch (const std::bad_alloc&) {
        log.error(
            "out of memory (more is asked for than this machine gives), take something "
            "smaller");
        return ExitCode::bad_config;
    } catch (const std::system_error& error) {
        // What std::thread throws where the system gives no memory for a stack, or no thread.
        const bool used_up = error.code() == std::errc::resource_unavailable_try_again;
        if (!used_up) return unforeseen(error, log);
        log.error(
            "no further thread (the system gives none), raise the limits of processes and memory "
            "(ulimit -u, ulimit -v)");
        return ExitCode::bad_config;
    } catch (const std::exception& error) {
        return unforeseen(error, log);
    }
}

}  // namespace

int run_program(int count, const char* const* arguments, const char* const* environment,
                const Run& run) {
    ENSURE(count >= 1);
    open_standard_descriptors();
    // A reader that goes away must not take the run with it.
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    return static_cast<int>(
        run_and_report({arguments + 1, arguments + count}, environment_of(environment), run));
}

void print(std::string_view text) { static_cast<void>(write_output(STDOUT_FILENO, text)); }

}  // namespace rhizome::cli
