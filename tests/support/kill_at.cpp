// Preloaded into a program under test: kills at the n-th operation on files of states, before it
// happens. So a kill comes at every point of a save, and at the same point every time.
//
//   KILL_AT_RANK    which rank counts (PMIX_RANK); where there are no ranks, 0
//   KILL_AT_COUNT   n, from 1; 0: never
//   KILL_AT_WHOM    self, or all: every rank recorded in KILL_AT_RUN/processes, this one last
//   KILL_AT_RUN     the run's folder; only what lies below its states/ counts
//   KILL_AT_LOG     a file that gets a line for each operation
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool counts_here() {
    const std::string rank = variable("PMIX_RANK");
    return variable("KILL_AT_RANK") == (rank.empty() ? "0" : rank);
}

void kill_recorded(const std::string& place) {
    std::FILE* const file = std::fopen(place.c_str(), "r");
    if (file == nullptr) return;
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr) {
        long pid = 0;
        if (std::sscanf(line, "pid %ld", &pid) == 1 && pid != getpid()) {
            kill(static_cast<pid_t>(pid), SIGKILL);
        }
    }
    std::fclose(file);
}

void kill_ranks() {
    const std::string folder = variable("KILL_AT_RUN") + "/processes";
    DIR* const entries = opendir(folder.c_str());
    if (entries == nullptr) return;
    while (const dirent* const entry = readdir(entries)) {
        if (std::strncmp(entry->d_name, "rank.", 5) == 0) {
            kill_recorded(folder + "/" + entry->d_name);
        }
    }
    closedir(entries);
}

void operation(const char* what, const std::string& path) {
    static std::atomic<long> count{0};
    if (!counts_here() || path.find("/states") == std::string::npos) return;
    if (path.rfind(variable("KILL_AT_RUN"), 0) != 0) return;
    const long now = ++count;
    if (const std::string log = variable("KILL_AT_LOG"); !log.empty()) {
        if (std::FILE* const file = std::fopen(log.c_str(), "a")) {
            std::fprintf(file, "%ld %s %s\n", now, what, path.c_str());
            std::fclose(file);
        }
    }
    if (now != std::atol(variable("KILL_AT_COUNT").c_str())) return;
    if (variable("KILL_AT_WHOM") == "all") kill_ranks();
    kill(getpid(), SIGKILL);
}

std::string path_of(int descriptor) {
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t size = readlink(link.c_str(), path, sizeof path);
    return size > 0 ? std::string{path, static_cast<std::size_t>(size)} : "";
}

template <class Function>
Function next(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
    operation("pwrite", path_of(descriptor));
    return next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite")(descriptor, bytes, size,
                                                                        offset);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t offset) {
    return pwrite(descriptor, bytes, size, offset);
}

int fsync(int descriptor) {
    operation("fsync", path_of(descriptor));
    return next<int (*)(int)>("fsync")(descriptor);
}

int open(const char* path, int flags, ...) {
    std::va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if ((flags & O_CREAT) != 0) operation("create", path);
    return next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

int mkdir(const char* path, mode_t mode) noexcept {
    operation("mkdir", path);
    return next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
    operation("rename", to);
    return next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2")(
        from_folder, from, to_folder, to, flags);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
    operation("unlink", path_of(folder) + "/" + path);
    return next<int (*)(int, const char*, int)>("unlinkat")(folder, path, flags);
}

}  // extern "C"
